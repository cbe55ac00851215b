from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.process.files import OpenFiles, SocketFiles


@pytest.fixture
def limit() -> Iterator[int]:
    """A limit of open files, about half of which are in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * lowest + 20, hard))
    yield 2 * lowest + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def all_that_are_left() -> list[int]:
    opened = []
    while True:
        try:
            opened.append(os.dup(0))
        except OSError:
            return opened


def test_each_shortage_of_open_files_is_warned_about_once(limit: int) -> None:
    files = OpenFiles()
    assert files.warning() == ""
    for _ in range(2):
        opened = all_that_are_left()
        assert f"nearly all of the {limit} files" in files.warning()
        assert files.warning() == ""
        os.close(opened.pop())
        assert files.warning() == ""
        for descriptor in opened:
            os.close(descriptor)
        assert files.warning() == ""


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "door"))
        listening.listen()
        yield listening


def connects(file: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(str(file))
        except OSError:
            return False
        return True


def test_a_shut_socket_file_accepts_no_connections(listener: socket.socket, tmp_path: Path) -> None:
    doors = SocketFiles([tmp_path / "door"])
    for _ in range(2):
        assert connects(tmp_path / "door")
        doors.shut()
        doors.shut()
        assert not connects(tmp_path / "door")
        doors.open()
        doors.open()
    assert connects(tmp_path / "door")
    assert [file.name for file in tmp_path.iterdir()] == ["door"]


def test_a_foreign_file_in_the_place_of_a_socket_file_is_kept(listener: socket.socket, tmp_path: Path) -> None:
    doors = SocketFiles([tmp_path / "door"])
    doors.shut()
    (tmp_path / "door").write_text("of somebody else")
    doors.open()
    assert (tmp_path / "door").read_text() == "of somebody else"


def test_a_missing_socket_file_can_be_shut_and_opened(tmp_path: Path) -> None:
    doors = SocketFiles([tmp_path / "door"])
    doors.shut()
    doors.open()
    assert list(tmp_path.iterdir()) == []
