"""Files of ipc addresses that belong to somebody."""

from __future__ import annotations

import errno
import re
import socket
from pathlib import Path

import pytest
import zmq

from scaler.endpoint import Endpoint
from scaler.transport.binding import check_ipc_file, why_not
from scaler.transport.interface import AddressInUseError


def test_ipc_file_that_another_program_listens_at_is_refused(tmp_path: Path) -> None:
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


def test_no_file_and_that_of_a_killed_process_are_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "stale"
    check_ipc_file(Endpoint.parse(f"ipc://{path}"))
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    check_ipc_file(Endpoint.parse(f"ipc://{path}"))
    check_ipc_file(Endpoint.parse("tcp://127.0.0.1:1"))


@pytest.mark.parametrize(
    ("address", "number", "reason"),
    [
        ("tcp://nowhere:7", errno.ENODEV, "known here by the name 'nowhere'; .* tcp://[*]:7 for all"),
        ("tcp://10.9.9.9:7", errno.EADDRNOTAVAIL, "10.9.9.9 is not an address of this machine; .* tcp://[*]:7 for all"),
        ("ipc:///nowhere/socket", errno.ENOENT, "there is no folder /nowhere; make it first"),
        ("tcp://127.0.0.1:7", errno.EACCES, "Permission denied"),
    ],
)
def test_it_says_why_nothing_can_listen_there(address: str, number: int, reason: str) -> None:
    assert re.fullmatch(f".*{reason}.*", why_not(Endpoint.parse(address), zmq.ZMQError(number)))
