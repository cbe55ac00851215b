"""Files of ipc addresses that belong to somebody."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from scaler.endpoint import Endpoint
from scaler.wire.binding import check_ipc_file
from scaler.wire.transport import AddressInUseError


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
