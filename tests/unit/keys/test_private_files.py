"""Files of keys are read only if no other user could have read or written them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.keys.private_files import (
    check_private_folder,
    make_private_folder,
    new_private_folder,
    private_opener,
    read_private,
    write_private,
)


def test_a_private_file_is_read_as_written_and_only_its_owner_can_open_it(tmp_path: Path) -> None:
    file = tmp_path / "key"
    umask = os.umask(0)
    try:
        write_private(file, "secret")
        write_private(file, "another")
    finally:
        os.umask(umask)
    assert read_private(file) == "another"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


def test_a_new_private_file_does_not_replace_another(tmp_path: Path) -> None:
    file = tmp_path / "key"
    write_private(file, "first", is_new=True)
    with pytest.raises(FileExistsError):
        write_private(file, "second", is_new=True)
    assert read_private(file) == "first"
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_file_that_other_users_may_open_is_refused_and_its_mode_is_named(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "key"
    write_private(file, "secret")
    file.chmod(mode)
    with pytest.raises(ConfigError, match=f"its mode is {mode:o}.*chmod 600") as refused:
        read_private(file)
    assert "secret" not in str(refused.value)


def test_links_pipes_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "key", tmp_path / "link", tmp_path / "pipe"
    write_private(file, "secret")
    link.symlink_to(file)
    os.mkfifo(pipe, 0o600)
    for path, text in (
        (link, "is a link"),
        (pipe, "is not a regular file"),
        (tmp_path, "is not a regular file"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(ConfigError, match=text):
            read_private(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_or_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    file, folder = tmp_path / "key", tmp_path / "keys"
    write_private(file, "secret")
    make_private_folder(folder)
    os.chown(file, 65534, 65534)
    os.chown(folder, 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to another user"):
        read_private(file)
    with pytest.raises(ConfigError, match="belongs to another user"):
        check_private_folder(folder)


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    folder, link = tmp_path / "above" / "keys", tmp_path / "link"
    make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    make_private_folder(folder)  # it exists
    link.symlink_to(folder)
    with pytest.raises(ConfigError, match="it is a link"):
        make_private_folder(link)
    folder.chmod(0o750)
    with pytest.raises(ConfigError, match="chmod 700"):
        check_private_folder(folder)
    with pytest.raises(ConfigError, match="cannot be read"):
        check_private_folder(tmp_path / "none")


@pytest.mark.parametrize("umask", [0, 0o777])
def test_a_new_folder_and_its_new_parents_are_private(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        new_private_folder(tmp_path / "one" / "two" / "three")
        with open(tmp_path / "one" / "file", "a", opener=private_opener):
            pass
    finally:
        os.umask(before)
    for each in ("one", "one/two", "one/two/three"):
        assert stat.S_IMODE((tmp_path / each).stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "one" / "file").stat().st_mode) & 0o177 == 0
    with pytest.raises(FileExistsError):
        new_private_folder(tmp_path / "one" / "two")


def test_a_private_file_that_is_too_large_is_refused_and_not_truncated(tmp_path: Path) -> None:
    file = tmp_path / "key"
    write_private(file, "x" * 100)
    assert read_private(file, 100) == "x" * 100
    with pytest.raises(ConfigError, match="has 100 bytes, and 99 is the limit"):
        read_private(file, 99)
