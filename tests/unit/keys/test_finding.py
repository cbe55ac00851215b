"""The keys for an address are found where the scheduler has made them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.endpoint import Endpoint
from scaler.keys.finding import folder_for, home, keys_for
from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import CLIENT, MONITOR, WORKER

HOST = socket.gethostname().lower()


@pytest.fixture(autouse=True)
def keys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path))
    return tmp_path


def at(address: str) -> Endpoint:
    return Endpoint.parse(address)


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "127.0.0.1", "localhost", "[::1]", "[::]", HOST])
def test_all_names_of_this_host_mean_the_same_folder(host: str, keys_home: Path) -> None:
    assert folder_for(at(f"tcp://{host}:2345")) == keys_home / f"{HOST}_2345"


def test_another_host_has_another_folder(keys_home: Path) -> None:
    assert folder_for(at("tcp://Node7:2345")) == keys_home / "node7_2345"
    assert folder_for(at("tcp://[2001:db8::1]:2345")) == keys_home / "2001-db8--1_2345"


def test_without_the_variable_keys_are_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEY_FOLDER")
    monkeypatch.setenv("HOME", "/home/of/alice")
    assert home() == Path("/home/of/alice/.scaler")


def test_each_role_finds_only_its_own_key(keys_home: Path) -> None:
    KeyFolder.make(keys_home / "node7_2345")
    endpoint = at("tcp://node7:2345")
    assert [key.name for key in keys_for(endpoint, CLIENT)] == ["admin"]
    assert [key.name for key in keys_for(endpoint, WORKER)] == ["worker"]
    assert [key.name for key in keys_for(endpoint, MONITOR)] == ["monitor"]
    (keys_home / "node7_2345" / "admin.json").unlink()
    assert [key.name for key in keys_for(endpoint, CLIENT)] == ["client"]
    (keys_home / "node7_2345" / "worker.json").unlink()
    assert keys_for(endpoint, WORKER) == ()


def test_keys_for_another_name_of_a_host_are_found_by_port_matching_names_first(keys_home: Path) -> None:
    for name in ("a_2345", "node7_2345", "b_2345", "node7_12345"):
        KeyFolder.make(keys_home / name)
    found = [key.path.parent.name for key in keys_for(at("tcp://node7:2345"), CLIENT)]
    assert found == ["node7_2345", "a_2345", "b_2345"]
    assert [key.path.parent.name for key in keys_for(at("tcp://10.0.0.7:2345"), CLIENT)] == sorted(found)


def test_a_monitor_with_a_port_of_its_own_is_found_by_the_addresses_in_the_file(keys_home: Path) -> None:
    KeyFolder.make(keys_home / "node7_2345", ["tcp://node7:2345", "tcp://node7:2346"])
    assert [key.name for key in keys_for(at("tcp://node7:2346"), MONITOR)] == ["monitor"]
    assert keys_for(at("tcp://node7:2347"), MONITOR) == ()


def test_without_key_files_and_at_local_addresses_no_key_is_found(keys_home: Path) -> None:
    assert keys_for(at("tcp://node7:2345"), CLIENT) == ()
    KeyFolder.make(keys_home / "node7_2345")
    for address in ("ipc:///tmp/node7_2345", "inproc://node7_2345"):
        assert keys_for(at(address), CLIENT) == ()


def test_a_key_file_given_by_the_user_is_the_only_candidate_and_its_faults_are_errors(
    keys_home: Path, tmp_path: Path
) -> None:
    KeyFolder.make(keys_home / "node7_2345")
    file = KeyFolder.make(tmp_path / "others").path / "client.json"
    endpoint = at("tcp://node7:2345").with_key(str(file))
    assert [key.path for key in keys_for(endpoint, CLIENT)] == [file]
    with pytest.raises(ConfigError, match="is the key of a client, which a worker cannot use"):
        keys_for(endpoint, WORKER)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="its mode is 644"):
        keys_for(endpoint, CLIENT)
    with pytest.raises(ConfigError, match="No such file"):
        keys_for(endpoint.with_key(f"{file}.none"), CLIENT)


def test_a_found_key_file_that_is_not_private_is_an_error(keys_home: Path) -> None:
    folder = KeyFolder.make(keys_home / "node7_2345").path
    (folder / "admin.json").chmod(0o640)
    with pytest.raises(ConfigError, match="its mode is 640"):
        keys_for(at("tcp://node7:2345"), CLIENT)
    folder.chmod(0o755)
    with pytest.raises(ConfigError, match="can enter the folder"):
        keys_for(at("tcp://node7:2345"), WORKER)
