from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from scaler.config import ConfigError, check_address
from scaler.endpoint import Endpoint
from scaler.monitor import discovery
from tests.support.another_user import NOBODY, Stranger, needs_root
from tests.support.processes import free_address


def find(address: str) -> str:
    return discovery.find(check_address(address)).address


def test_the_address_of_a_monitor_stream_is_used_unchanged(tmp_path: Path) -> None:
    assert find("tcp://127.0.0.1:2346") == "tcp://127.0.0.1:2346"
    assert find(f"ipc://{tmp_path}/stream") == f"ipc://{tmp_path}/stream"


def test_the_address_of_the_scheduler_leads_to_its_stream(tmp_path: Path) -> None:
    (tmp_path / "scheduler").touch()
    assert find(f"ipc://{tmp_path}/scheduler") == f"ipc://{tmp_path}/scheduler"
    (tmp_path / "scheduler_monitor").touch()
    assert find(f"ipc://{tmp_path}/scheduler") == f"ipc://{tmp_path}/scheduler_monitor"


@needs_root
def test_a_socket_at_which_another_user_listens_is_refused_unless_that_user_is_trusted(shared: Path) -> None:
    file = shared / "scheduler_monitor"
    stranger = Stranger(file)
    try:
        os.chown(file, 0, 0)  # the owner of the file proves nothing
        for address in (f"ipc://{shared}/scheduler", f"ipc://{file}"):
            with pytest.raises(ConfigError, match=r"another user, uid 65534 \(nobody\), listens at"):
                find(address)
            trusting = check_address(address).trusting((NOBODY,))
            assert discovery.find(trusting) == Endpoint.parse(f"ipc://{file}").trusting((NOBODY,))
    finally:
        stranger.close()


@needs_root
def test_sockets_of_other_users_with_the_same_port_are_ignored(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "FOLDER", shared)
    stranger = Stranger(shared / "127.0.0.3_61999_monitor")
    try:
        with pytest.raises(ConfigError, match="another user"):
            find("tcp://127.0.0.1:61999")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(shared / "0.0.0.0_61999_monitor"))
            listener.listen()
            assert find("tcp://127.0.0.1:61999") == f"ipc://{shared}/0.0.0.0_61999_monitor"
    finally:
        stranger.close()


def test_a_bad_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="a good one looks like"):
        find("nonsense")


def test_a_local_scheduler_is_found_although_it_listens_at_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "FOLDER", tmp_path)
    file = tmp_path / "0.0.0.0_61999_monitor"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(file))
        listener.listen()
        assert find("tcp://127.0.0.1:61999") == f"ipc://{file}"
        assert find("tcp://192.0.2.1:61999") == "tcp://192.0.2.1:61999"  # of another machine
        with socket.socket(socket.AF_UNIX) as another:
            another.bind(str(tmp_path / "127.0.0.2_61999_monitor"))
            another.listen()
            assert find("tcp://127.0.0.1:61999") == "tcp://127.0.0.1:61999"  # which of them?


def test_a_socket_that_a_killed_scheduler_has_left_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "FOLDER", tmp_path)
    address = free_address()
    beside = str(Endpoint.parse(address).monitor)
    files = [Path(beside.removeprefix("ipc://")), tmp_path / f"0.0.0.0_{address.rpartition(':')[2]}_monitor"]
    try:
        for file in files:
            with socket.socket(socket.AF_UNIX) as killed:
                killed.bind(str(file))
        assert find(address) == address
        files[0].unlink()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(files[0]))
            listener.listen()
            assert find(address) == beside
    finally:
        files[0].unlink(missing_ok=True)
