"""The keys of a starting scheduler: given, found or made; on TCP it needs keys unless told otherwise."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from scaler.cli.keys import make_parser
from scaler.config import ConfigError
from scaler.keys.folder import KeyFolder
from scaler.scheduler.own_keys import OPEN_OPTION, OwnKeys, remove_keys
from scaler.settings import SchedulerConfig

HOST = socket.gethostname().lower()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(path))
    return path


def keys_at(address: str, **settings: Any) -> OwnKeys:
    return OwnKeys(SchedulerConfig(address, **settings))


def folder_of(keys: OwnKeys) -> Path:
    assert keys.folder is not None
    return keys.folder.path


def addresses_in(folder: Path) -> list[str]:
    return list(json.loads((folder / "client.json").read_text())["addresses"])


def test_keys_of_a_scheduler_are_made_once_and_are_private(home: Path) -> None:
    first = keys_at("tcp://127.0.0.1:2345")
    folder = folder_of(first)
    assert folder == home / f"{HOST}_2345"
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(home.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    again = keys_at("tcp://127.0.0.1:2345")
    assert (first.are_new, again.are_new) == (True, False)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == kept


def test_log_lines_about_new_keys_name_files_and_contain_no_secret() -> None:
    keys = keys_at("tcp://127.0.0.1:2345")
    folder = folder_of(keys)
    said = "\n".join(keys.say())
    [options] = re.findall(r"scaler_keys allow NAME (--role client --folder \S+) ", said)
    assert make_parser().parse_args(["allow", "alice", *shlex.split(options)]).folder == folder
    secrets = {json.loads(file.read_text())["secret"] for file in folder.glob("*.json")}
    assert not [secret for secret in secrets if secret in said]
    assert len([*keys_at("tcp://127.0.0.1:2345").say()]) == 1


def test_key_files_have_the_current_addresses_of_the_scheduler() -> None:
    folder = folder_of(keys_at("tcp://127.0.0.1:2345"))
    assert addresses_in(folder) == ["tcp://127.0.0.1:2345"]
    keys_at("tcp://*:2345", monitor_address="tcp://*:2346")
    here = socket.gethostname()
    assert addresses_in(folder) == [f"tcp://{here}:2345", f"tcp://{here}:2346", "tcp://127.0.0.1:2345"]


def test_a_free_port_is_chosen_before_its_keys_which_are_removed_with_the_scheduler(home: Path) -> None:
    keys = keys_at("tcp://127.0.0.1:*", monitor_address="tcp://127.0.0.1:*")
    port = int(keys.endpoint.port)
    assert keys.endpoint.address == f"tcp://127.0.0.1:{port}"
    assert keys.monitor is not None
    assert int(keys.monitor.port) not in (0, port)
    assert folder_of(keys) == home / f"{HOST}_{port}"
    keys.forget()
    assert list(home.iterdir()) == []


def test_keys_of_a_killed_scheduler_are_removed_by_the_process_that_started_it(home: Path) -> None:
    remove_keys(keys_at("tcp://127.0.0.1:*").endpoint)
    assert list(home.iterdir()) == []
    keys = keys_at("tcp://127.0.0.1:*")
    remove_keys(keys.endpoint)
    remove_keys(keys.endpoint)


def test_only_new_keys_are_removed_if_the_scheduler_cannot_listen(home: Path) -> None:
    keys = keys_at("tcp://127.0.0.1:2345")
    keys.forget()
    assert len([*home.iterdir()]) == 1
    keys_at("tcp://127.0.0.1:2345").forget(has_failed=True)
    assert len([*home.iterdir()]) == 1
    keys.forget(has_failed=True)
    assert list(home.iterdir()) == []


def test_a_monitor_on_tcp_needs_keys(home: Path) -> None:
    keys = keys_at("ipc:///tmp/scaler-test.sock", monitor_address="tcp://127.0.0.1:2346")
    assert folder_of(keys) == home / f"{HOST}_2346"


def test_only_the_insecure_option_starts_a_tcp_scheduler_without_keys(home: Path) -> None:
    assert keys_at("tcp://*:2345", insecure_let_everybody_run_code=True).folder is None
    for address in ("ipc:///tmp/x", "inproc://x"):
        assert keys_at(address).folder is None
    assert not home.exists()
    with pytest.raises(ConfigError, match="leave one out"):
        keys_at("tcp://*:2345", insecure_let_everybody_run_code=True, keys=str(home))


def test_a_given_folder_of_keys_is_the_only_one_used(tmp_path: Path, home: Path) -> None:
    folder = KeyFolder.make(tmp_path / "keys", ["tcp://scheduler:2345"])
    keys = keys_at("tcp://*:2345", keys=str(folder.path))
    assert folder_of(keys) == folder.path
    assert addresses_in(folder.path) == ["tcp://scheduler:2345"]  # the addresses were given
    assert not home.exists()
    with pytest.raises(ConfigError, match="cannot be read"):
        keys_at("tcp://*:2345", keys=str(tmp_path / "none"))


@pytest.mark.parametrize("broken", ["file", "others", "damaged"])
def test_keys_that_cannot_be_made_or_read_are_an_error_that_says_what_to_do(home: Path, broken: str) -> None:
    if broken == "file":
        home.touch()
    else:
        folder = folder_of(keys_at("tcp://127.0.0.1:2345"))
        if broken == "others":
            folder.chmod(0o750)
        else:
            (folder / "scheduler.key").write_text("{}")
    if broken == "damaged":
        with pytest.raises(ConfigError, match="is damaged"):
            keys_at("tcp://127.0.0.1:2345")
        return
    with pytest.raises(ConfigError) as failed:
        keys_at("tcp://127.0.0.1:2345")
    text = str(failed.value)
    assert "SCALER_KEY_FOLDER" in text
    assert OPEN_OPTION in text
    assert "\n" not in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_scheduler_without_a_writable_key_folder_does_not_start_without_keys(home: Path) -> None:
    home.mkdir(mode=0o500)
    with pytest.raises(ConfigError, match="SCALER_KEY_FOLDER"):
        keys_at("tcp://127.0.0.1:2345")
