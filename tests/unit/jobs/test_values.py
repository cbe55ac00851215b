"""Arguments of users, as a record stores them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.jobs.values import Arguments, RowArguments, pack, pack_rows, pack_sizes, unpack_sizes

small = st.binary(max_size=40)
rows = st.builds(RowArguments, small, small, st.lists(small, max_size=3).map(tuple))


@given(st.lists(st.one_of(small, rows), max_size=30))
def test_packed_rows_are_unpacked_unchanged(given_rows: list[bytes | RowArguments]) -> None:
    arguments = Arguments(pack_rows(given_rows), len(given_rows))
    expected = [RowArguments(each) if isinstance(each, bytes) else each for each in given_rows]
    assert [arguments.one(at) for at in range(arguments.count)] == expected


@given(st.lists(small, min_size=1, max_size=20), st.data())
def test_rows_that_travel_together_are_cut_out_of_a_block(blocks: list[bytes], data: st.DataObject) -> None:
    arguments = Arguments(pack_rows(blocks), len(blocks))
    at, most = data.draw(st.integers(0, len(blocks) - 1)), data.draw(st.integers(1, 20))
    most_bytes = data.draw(st.integers(0, 200))
    n_rows = arguments.fitting(at, most, most_bytes)
    assert arguments.cut(at, at + n_rows) == pack(blocks[at : at + n_rows])
    assert n_rows == 1 or sum(map(len, blocks[at : at + n_rows])) <= most_bytes
    is_last = at + n_rows == len(blocks) or n_rows == most
    assert is_last or sum(map(len, blocks[at : at + n_rows + 1])) > most_bytes


def test_rows_with_objects_or_frames_travel_alone() -> None:
    given_rows = [RowArguments(b"a"), RowArguments(b"b", bytes(16)), RowArguments(b"c", b"", (b"frame",))]
    arguments = Arguments(pack_rows(given_rows), 3)
    assert [arguments.fitting(at, 10, 1000) for at in range(3)] == [1, 1, 1]


@given(st.one_of(st.lists(rows, min_size=1, max_size=5), st.lists(small, min_size=1, max_size=5)), st.data())
def test_a_truncated_block_is_an_error(given_rows: list[bytes | RowArguments], data: st.DataObject) -> None:
    block = pack_rows(given_rows)
    cut = data.draw(st.integers(0, len(block) - 1))
    with pytest.raises(ValueError, match="bytes"):
        Arguments(block[:cut], len(given_rows))


@pytest.mark.parametrize("row", [RowArguments(b"a", bytes(16)), b"a"])
def test_a_block_with_extra_bytes_is_an_error(row: bytes | RowArguments) -> None:
    with pytest.raises(ValueError, match=r"1 rows|1 blocks"):
        Arguments(pack_rows([row]) + b"x", 1)


def test_sizes_of_frames_count_bytes_and_not_items() -> None:
    assert unpack_sizes(pack_sizes((b"ab", memoryview(bytearray(16)).cast("Q"), b""))) == (2, 16, 0)
