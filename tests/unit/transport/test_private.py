"""Private places: making a new one removes only those whose processes have all ended."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from scaler.config import check_address
from scaler.endpoint import Endpoint
from scaler.transport.private import (
    STALE_SECONDS,
    ImportsFile,
    keep_private_folder_for,
    new_private_endpoint,
    remove_private_folder,
    remove_stale_monitors,
)


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def ended() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def place_of(endpoint: Endpoint) -> Path:
    return Path(endpoint.place)


def left_by(pid: int) -> Path:
    """Make a place with a socket without a listener. Return the path of the socket."""
    file = place_of(new_private_endpoint())
    (file.parent / "users").write_text(f"{pid}\n")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(file))
    return file


@pytest.mark.parametrize("n_bytes", [20, 66, 67, 80, 200])
def test_a_private_place_fits_into_an_address_with_any_temporary_folder(
    n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="x" * (n_bytes - 13), dir="/tmp") as folder:
        assert len(folder) == n_bytes
        monkeypatch.setattr("tempfile.tempdir", folder)
        endpoint = new_private_endpoint()
        assert endpoint.monitor is not None
        check_address(endpoint.monitor.address)
        assert place_of(endpoint).is_relative_to(folder) == (n_bytes <= 66)
        remove_private_folder(endpoint)


def test_a_private_place_is_for_its_user_only_and_is_removed_with_its_files() -> None:
    file = place_of(endpoint := new_private_endpoint())
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    remove_private_folder(endpoint)
    assert not file.parent.exists()


def test_a_private_place_whose_processes_have_ended_is_removed_with_the_next_new_one(ended: int) -> None:
    file = left_by(ended)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{file}_monitor")
    other = place_of(new_private_endpoint())
    assert not file.parent.exists()
    assert other.parent.exists()


def test_a_private_place_stays_while_one_of_its_processes_lives(ended: int) -> None:
    """A program whose scheduler has died starts another scheduler at the same address."""
    file = left_by(ended)
    keep_private_folder_for(Endpoint.parse(f"ipc://{file}"), os.getpid())
    new_private_endpoint()
    assert file.exists()


def test_a_private_place_with_a_listener_stays(ended: int) -> None:
    """The processes of the place may run in another container."""
    file = left_by(ended)
    file.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(file))
        listener.listen(0)
        new_private_endpoint()
    assert file.exists()
    new_private_endpoint()
    assert not file.parent.exists()


@pytest.mark.parametrize("text", [None, "", "12", "x\n"])
def test_a_private_place_without_a_readable_list_of_users_stays(text: str | None, ended: int) -> None:
    file = left_by(ended)
    users = file.parent / "users"
    users.unlink() if text is None else users.write_text(text)
    new_private_endpoint()
    assert file.exists()


def test_symbolic_links_and_folders_of_other_users_stay(
    ended: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = left_by(ended)
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: file.stat().st_uid + 1)
        new_private_endpoint()
    assert file.exists()
    moved = file.parent.rename(tmp_path / "elsewhere")
    (tmp_path / "scaler-link").symlink_to(moved)
    new_private_endpoint()
    assert (moved / file.name).exists()


def test_foreign_files_in_a_private_place_stay(ended: int) -> None:
    file = left_by(ended)
    (file.parent / "notes").write_text("mine")
    new_private_endpoint()
    assert [each.name for each in file.parent.iterdir()] == ["notes"]


def test_the_imports_file_is_taken_once_and_removed_with_its_place() -> None:
    endpoint = new_private_endpoint()
    ours, theirs = ImportsFile.at(endpoint), ImportsFile.at(endpoint)
    assert ours is not None
    assert theirs is not None
    assert theirs.take() == []
    ours.say(["a"])
    ours.say(["a", "a.b"])
    assert theirs.take() == ["a", "a.b"]
    assert theirs.take() == []
    ours.say(["c"])
    remove_private_folder(endpoint)
    assert not place_of(endpoint).parent.exists()
    ours.say(["d"])
    assert theirs.take() == []


def test_an_incomplete_imports_file_is_ignored() -> None:
    endpoint = new_private_endpoint()
    place = ImportsFile.at(endpoint)
    assert place is not None
    (place_of(endpoint).parent / "imports").write_text("a\nb")
    assert place.take() == []


def test_only_a_place_closed_to_other_users_has_an_imports_file(temporary_folder: Path) -> None:
    assert ImportsFile.at(Endpoint.parse("tcp://127.0.0.1:1")) is None
    assert ImportsFile.at(Endpoint.parse(f"ipc://{temporary_folder}/scheduler")) is None
    endpoint = new_private_endpoint()
    place_of(endpoint).parent.chmod(0o755)
    assert ImportsFile.at(endpoint) is None


def test_only_abandoned_sockets_of_monitors_are_removed(temporary_folder: Path) -> None:
    names = ["127.0.0.1_2345_monitor", "host_1_monitor", "127.0.0.1_7_monitor", "mine_monitor"]
    left, listening, young, other = files = [temporary_folder / name for name in names]
    plain = temporary_folder / "127.0.0.1_8_monitor"
    plain.touch()
    with contextlib.ExitStack() as stack:
        for file in files:
            socket_ = stack.enter_context(socket.socket(socket.AF_UNIX))
            socket_.bind(str(file))
            if file == listening:
                socket_.listen()
        long_ago = time.time() - STALE_SECONDS - 10
        for file in (left, listening, other, plain):
            os.utime(file, (long_ago, long_ago))
        remove_stale_monitors(temporary_folder)
        assert [file.exists() for file in (left, listening, young, other, plain)] == [False, True, True, True, True]
