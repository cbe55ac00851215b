"""The folder of keys of one scheduler: its own key, the list, and the files to distribute."""

from __future__ import annotations

import stat
from datetime import date
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.endpoint import Endpoint
from scaler.keys.finding import VARIABLE, folder_for, keys_for
from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import ADMIN, CLIENT, ROLES, KeyFile

TODAY = date(2026, 11, 23)


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    return KeyFolder.make(tmp_path / "keys", ["tcp://10.0.0.5:2345"])


def test_a_new_folder_of_keys_is_private_and_allows_one_key_of_each_role(folder: KeyFolder) -> None:
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.path.iterdir()} == {0o600}
    allowed = folder.allowed()
    for role in ROLES:
        key = KeyFile.read(folder.path / f"{role}.json")
        assert (key.role, key.addresses, key.servers) == (
            role,
            ("tcp://10.0.0.5:2345",),
            (folder.pairs()[0].public,),
        )
        assert allowed[key.public].role == role
    assert len(allowed) == len(ROLES)


def test_a_client_that_looks_while_keys_are_made_finds_the_final_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    endpoint = Endpoint.parse("tcp://127.0.0.1:2345")
    write, found = KeyFile.write, []

    def write_and_look(key: KeyFile, path: Path, *, is_new: bool = False) -> None:
        write(key, path, is_new=is_new)
        found.append([each.name for each in keys_for(endpoint, CLIENT)])

    monkeypatch.setattr(KeyFile, "write", write_and_look)
    KeyFolder.make(folder_for(endpoint), ["tcp://127.0.0.1:2345"])
    assert found == [[ADMIN]] * len(ROLES)


def test_keys_are_made_once(folder: KeyFolder) -> None:
    before = folder.pairs()
    with pytest.raises(ConfigError, match=r" has keys already"):
        KeyFolder.make(folder.path)
    assert folder.pairs() == before


def test_a_folder_without_keys_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(ConfigError, match=r"has no scheduler\.key: make keys there with scaler_keys new"):
        KeyFolder(tmp_path)


def test_an_allowed_name_has_a_file_and_a_line_until_its_key_is_revoked(folder: KeyFolder) -> None:
    file = folder.allow("alice", CLIENT, date(2027, 1, 1), TODAY)
    key = KeyFile.read(file)
    assert folder.allowed()[key.public].until == date(2027, 1, 1)
    with pytest.raises(ConfigError, match="alice has a key already"):
        folder.allow("alice", CLIENT, None, TODAY)
    assert folder.revoke("alice", TODAY) == 1
    assert not file.exists()
    assert folder.allowed()[key.public].revoked == TODAY
    with pytest.raises(ConfigError, match="'alice' has no valid key"):
        folder.revoke("alice", TODAY)
    again = KeyFile.read(folder.allow("alice", CLIENT, None, TODAY))
    assert again.public != key.public
    assert len(folder.allowed()) == len(ROLES) + 2


def test_old_and_new_key_of_a_scheduler_are_valid_until_its_next_start(folder: KeyFolder) -> None:
    (old,) = folder.pairs()
    files = folder.rotate()
    assert [file.name for file in files] == sorted(f"{role}.json" for role in ROLES)
    assert folder.pairs()[0] == old
    new = folder.pairs()[1]
    assert {KeyFile.read(file).servers for file in files} == {(new.public, old.public)}
    assert KeyFile.read(folder.allow("alice", CLIENT, None, TODAY)).servers == (new.public, old.public)
    folder.drop_old_pairs()
    assert folder.pairs() == [new]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 1, "addresses": [], "keys": [{"public": 1, "secret": 2}]}']
)
def test_a_damaged_key_of_the_scheduler_is_an_error(folder: KeyFolder, text: str) -> None:
    (folder.path / "scheduler.key").write_text(text)
    with pytest.raises(ConfigError, match=r"scheduler\.key is damaged"):
        folder.pairs()


def test_a_list_of_keys_that_cannot_be_read_is_an_error_that_names_it(folder: KeyFolder) -> None:
    folder.list_path.write_text("nonsense\n")
    with pytest.raises(ConfigError, match=f"{folder.list_path}: line 1: 'nonsense' is not a role"):
        folder.allowed()
    folder.list_path.chmod(0o666)
    with pytest.raises(ConfigError, match="its mode is 666"):
        folder.allowed()
