"""A key file is read as it was written, or refused; it never shows its secret."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.keys.folder import KeyPair
from scaler.keys.key_file import CLIENT, KeyFile, check_name


def new_key() -> KeyFile:
    server, own = KeyPair.new(), KeyPair.new()
    return KeyFile(CLIENT, "alice", ("tcp://10.0.0.5:2345",), (server.public,), own.public, own.secret)


def test_a_key_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    key, path = new_key(), tmp_path / "alice.json"
    key.write(path)
    read = KeyFile.read(path)
    assert (read.role, read.name, read.addresses, read.servers) == (key.role, key.name, key.addresses, key.servers)
    assert (read.public, read.secret, read.path) == (key.public, key.secret, path)


def test_no_text_of_a_key_shows_its_secret() -> None:
    key, pair = new_key(), KeyPair.new()
    assert key.secret not in f"{key} {key!r}"
    assert pair.secret not in f"{pair} {pair!r}"
    assert pickle.loads(pickle.dumps(key)) == key  # the secret is left out of texts only


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 2}, "version 1"),
        ({"role": "root"}, "role"),
        ({"name": "../x"}, "name"),
        ({"name": ["alice"]}, "name"),
        ({"addresses": ["ipc:///\ud800"]}, "surrogates"),
        ({"addresses": ["tcp://h:" + "9" * 5000]}, "not an address|port|digits"),
        ({"addresses": [5]}, "address must be a str"),
        ({"addresses": ["nowhere"]}, "not an address"),
        ({"servers": []}, "a key in it is invalid"),
        ({"public": "short"}, "a key in it is invalid"),
        ({"secret": 5}, "a key in it is invalid"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    path = tmp_path / "alice.json"
    new_key().write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigError, match=f"{path} is not a key file.*{text}.*copy it again"):
        KeyFile.read(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "no json", '{"version": 1}', "[" * 100_000, "9" * 5000])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "alice.json"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(ConfigError, match="is not a key file"):
        KeyFile.read(path)


@pytest.mark.parametrize("name", ["", "a b", "-x", ".x", "a/b", "x" * 65, "é"])
def test_names_that_cannot_be_files_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a key"):
        check_name(name)
    check_name("alice-2.0_x")
