"""Frames of users as they lie in a record."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.jobs.values import Row, ValueFiles, pack_rows, pack_sizes, unpack_rows, unpack_sizes

small = st.binary(max_size=40)
rows = st.builds(Row, small, small, st.lists(small, max_size=3).map(tuple))


@given(st.lists(rows, max_size=30))
def test_rows_come_back_as_they_went(given_rows: list[Row]) -> None:
    assert unpack_rows(pack_rows(given_rows), len(given_rows)) == given_rows


@given(st.lists(rows, min_size=1, max_size=5), st.data())
def test_a_block_that_is_cut_is_an_error(given_rows: list[Row], data: st.DataObject) -> None:
    block = pack_rows(given_rows)
    cut = data.draw(st.integers(0, len(block) - 1))
    with pytest.raises(ValueError, match="not a block of"):
        unpack_rows(block[:cut], len(given_rows))


def test_a_block_with_something_behind_it_is_an_error() -> None:
    with pytest.raises(ValueError, match="it has 14 bytes and says 13"):
        unpack_rows(pack_rows([Row(b"a")]) + b"x", 1)


def test_sizes_of_frames_count_bytes_and_not_items() -> None:
    assert unpack_sizes(pack_sizes((b"ab", memoryview(bytearray(16)).cast("Q"), b""))) == (2, 16, 0)


def test_files_are_private_and_come_back(tmp_path: Path) -> None:
    files = ValueFiles(tmp_path)
    files.write("row-1", (b"ab", memoryview(bytearray(8)).cast("Q")))
    files.sync()
    assert files.read("row-1") == b"ab" + bytes(8)
    assert files.sizes() == {"row-1": 10}
    assert (tmp_path / "row-1").stat().st_mode & 0o777 == 0o600
    files.remove("row-1")
    files.remove("row-1")
    assert files.sizes() == {}
    files.close()
