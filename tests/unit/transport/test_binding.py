"""Files of ipc addresses, and their users."""

from __future__ import annotations

import errno
import os
import re
import socket
import struct
from pathlib import Path

import pytest
import zmq

from scaler.endpoint import Endpoint
from scaler.transport import binding
from scaler.transport.binding import check_ipc_file, process_at, uid_at, user_at, why_cannot_listen
from scaler.transport.interface import AddressInUseError


def test_an_ipc_file_at_which_another_program_listens_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "busy"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(AddressInUseError):
            check_ipc_file(Endpoint.parse(f"ipc://{path}"))
        assert path.exists()


def test_ipc_path_that_is_an_ordinary_file_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("important")
    with pytest.raises(FileExistsError, match="notes"):
        check_ipc_file(Endpoint.parse(f"ipc://{path}"))
    assert path.read_text() == "important"


def test_a_missing_ipc_file_and_that_of_a_killed_process_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "stale"
    check_ipc_file(Endpoint.parse(f"ipc://{path}"))
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    check_ipc_file(Endpoint.parse(f"ipc://{path}"))
    check_ipc_file(Endpoint.parse("tcp://127.0.0.1:1"))


@pytest.mark.parametrize(
    ("address", "number", "reason"),
    [
        ("tcp://nowhere:7", errno.ENODEV, "knows no host or network interface 'nowhere'; .* tcp://[*]:7 for all"),
        ("tcp://10.9.9.9:7", errno.EADDRNOTAVAIL, "10.9.9.9 is not an address of this machine; .* tcp://[*]:7 for all"),
        ("ipc:///nowhere/socket", errno.ENOENT, "there is no folder /nowhere; make it first"),
        ("tcp://127.0.0.1:7", errno.EACCES, "Permission denied"),
    ],
)
def test_the_error_names_why_an_address_cannot_be_listened_at(address: str, number: int, reason: str) -> None:
    assert re.fullmatch(f".*{reason}.*", why_cannot_listen(Endpoint.parse(address), zmq.ZMQError(number)))


def test_the_system_reports_user_and_process_at_the_other_end() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert (uid_at(one), process_at(one)) == (os.geteuid(), os.getpid())
        assert user_at(one) == binding.name_of_user(os.geteuid())
    assert (uid_at(one), process_at(one), user_at(one)) == (None, 0, None), "it is closed"


class _OnMacOs:
    """A socket that answers like a socket of macOS."""

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option, size) == (0, 1, 88)  # SOL_LOCAL, LOCAL_PEERCRED, the longest struct xucred
        return struct.pack("=IIh2x16I", 0, 4711, 1, *[20] * 16)


def test_the_user_is_read_from_the_structure_of_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_LOCAL_PEERCRED", 1)
    assert uid_at(_OnMacOs()) == 4711  # type: ignore[arg-type]


def test_a_peer_counts_as_this_user_if_the_system_reports_no_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "KNOWS_PEER_USERS", False)
    with socket.socket(socket.AF_UNIX) as alone:
        assert user_at(alone) == binding.name_of_user(os.geteuid())
