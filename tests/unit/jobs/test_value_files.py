"""Large values of a job, each in a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scaler.jobs.tables.checksums import DamagedError
from scaler.jobs.value_files import IN_DATABASE_BYTES, ValueFiles
from scaler.jobs.values import pack_sizes

LARGE = bytes(IN_DATABASE_BYTES)


def test_large_values_are_written_to_private_files_and_read_again(tmp_path: Path) -> None:
    files, frames = ValueFiles(tmp_path), (LARGE, memoryview(bytearray(b"12345678")).cast("Q"))
    before = os.umask(0)
    try:
        sizes, value = files.place("row-1", frames)
    finally:
        os.umask(before)
    files.sync()
    assert value is None
    assert files.take("row-1", sizes, value) == (LARGE, b"12345678")
    assert ValueFiles(tmp_path).sizes == files.sizes == {"row-1": len(LARGE) + 8}
    assert (tmp_path / "row-1").stat().st_mode & 0o777 == 0o600
    files.close()


def test_small_values_stay_in_the_database(tmp_path: Path) -> None:
    files = ValueFiles(tmp_path)
    assert files.place("row-1", (b"ab", b"c")) == (pack_sizes((b"ab", b"c")), b"abc")
    assert list(tmp_path.iterdir()) == []
    files.close()


def test_a_file_that_a_row_names_exists_until_the_removal_of_the_row_is_committed(tmp_path: Path) -> None:
    files = ValueFiles(tmp_path)
    files.place("row-1", (LARGE, b"x"))
    files.release(["row-1", "row-2"])
    assert files.place("row-1", (LARGE, b"y"))[1] == LARGE + b"y", "what a row on disk names is not overwritten"
    files.settle(is_kept=False)
    assert files.sizes == {"row-1": len(LARGE) + 1}
    files.release(["row-1"])
    files.settle(is_kept=True)
    assert (files.sizes, files.total_bytes, list(tmp_path.iterdir())) == ({}, 0, [])
    files.close()


def test_a_missing_or_short_file_is_damage_and_a_failed_open_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ValueFiles(tmp_path)
    sizes, _ = files.place("row-1", (LARGE, b"x"))
    (tmp_path / "row-1").write_bytes(b"short")
    with pytest.raises(DamagedError, match="it has 5 bytes instead of 65,537"):
        files.take("row-1", sizes, None)
    (tmp_path / "row-1").unlink()
    with pytest.raises(DamagedError, match="No such file"):
        files.take("row-1", sizes, None)

    def too_many(*_arguments: object, **_options: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", too_many)
    with pytest.raises(OSError, match="Too many open files"):
        files.take("row-1", sizes, None)
    files.close()


def test_folders_and_links_in_place_of_value_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "row-1").mkdir()
    (tmp_path / "row-2").symlink_to(tmp_path / "nowhere")
    files = ValueFiles(tmp_path)
    assert files.sizes == {}
    for name in ("row-1", "row-2"):
        assert files.place(name, (bytes(100_000),))[1] is None
        assert (tmp_path / name).read_bytes() == bytes(100_000)
    assert not (tmp_path / "nowhere").exists()
    files.close()
