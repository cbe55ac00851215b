"""The arguments of rows: compared when they are submitted again, replaced, truncated, and damaged."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from scaler.jobs.record import (
    DATABASE,
    VALUES,
    DamagedError,
    JobObject,
    JobRecord,
    JobTerms,
    RowResult,
    RowsDiffer,
)
from scaler.jobs.tables.objects import FUNCTION
from scaler.jobs.tables.ranges import NOT_COMPARED
from scaler.jobs.terms import NO_WORKER
from scaler.jobs.value_files import IN_DATABASE_BYTES
from scaler.jobs.values import RowArguments, pack, pack_rows

TERMS = JobTerms("prices", "alice", b"12345678", b"f" * 16, "price")
LARGE = os.urandom(IN_DATABASE_BYTES)

Values = Sequence[bytes | None]
"""The argument of each row; None: one that cannot be compared, with different bytes each time."""


def digest_of(value: bytes | None) -> bytes:
    return NOT_COMPARED if value is None else value.rjust(8, b"-")[-8:]


def add(record: JobRecord, first: int, values: Values, digest: bytes = b"") -> int:
    record.begin()
    try:
        return record.add_range(first, len(values), digest, b"".join(map(digest_of, values)), block_of(values))
    finally:
        record.commit()


def block_of(values: Values) -> bytes:
    return pack_rows([os.urandom(5) if each is None else each for each in values])


def replace(record: JobRecord, first: int, values: Values, keep: bool = False, once: bool = False) -> list[int]:
    record.begin()
    digests = b"".join(map(digest_of, values))
    again = record.replace_range(first, b"new", digests, block_of(values), keep_uncompared=keep, at_most_once=once)
    record.commit()
    return again


def values_of(record: JobRecord) -> list[bytes]:
    ranges = [(record.rows_of(each.first), each.n_rows) for each in record.ranges.values()]
    return [arguments.one(at).payload for arguments, n_rows in ranges for at in range(n_rows)]


@pytest.fixture
def record(tmp_path: Path) -> Iterator[JobRecord]:
    record = JobRecord.create(tmp_path / "job", TERMS)
    assert add(record, 0, [b"a", b"b", b"c"], b"abc") == 3
    assert add(record, 3, [b"d", None, b"f"]) == 3
    yield record
    record.close()


def damage(record: JobRecord, statement: str, *values: object) -> JobRecord:
    record.close()
    connection = sqlite3.connect(record.folder / DATABASE)
    connection.execute(statement, values)
    connection.commit()
    connection.close()
    return JobRecord.open(record.folder)


def test_rows_that_are_submitted_again_are_recognised(record: JobRecord) -> None:
    assert add(record, 0, [b"a", b"b", b"c"], b"abc") == 0
    assert add(record, 0, [b"a", b"b", b"c"]) == 0, "row by row"
    assert record.row_digests(0) == b"-------a-------b-------c"
    assert record.rows == 6


@pytest.mark.parametrize(
    ("first", "values", "row"),
    [
        (0, [b"a", b"B", b"C"], 1),
        (0, [b"x"], 0),
        (1, [b"b", b"c", b"d", None], 4),
        (2, [b"c", b"D"], 3),
        (5, [b"F", b"g"], 5),
        (4, [b"e"], 4),
    ],
)
def test_the_first_row_that_differs_is_named(record: JobRecord, first: int, values: Values, row: int) -> None:
    with pytest.raises(RowsDiffer, match=f"row {row} has different arguments than the job has stored") as differ:
        add(record, first, values)
    assert (differ.value.row, record.rows) == (row, 6)


def test_rows_that_cannot_be_compared_are_recognised_by_their_bytes(record: JobRecord) -> None:
    """This happens if a request whose answer was lost is resent."""
    rows = [RowArguments(b"1", b"i" * 16, (b"frame",)), RowArguments(b"2")]
    for n_new in (2, 0):
        record.begin()
        assert record.add_range(6, 2, b"", NOT_COMPARED * 2, pack_rows(rows)) == n_new
        record.commit()
    record.begin()
    with pytest.raises(RowsDiffer, match="row 6"):
        record.add_range(6, 2, b"", NOT_COMPARED * 2, pack_rows([rows[0]._replace(frames=(b"other",)), rows[1]]))
    record.commit()


def test_a_range_that_overlaps_stored_rows_adds_only_its_new_rows(record: JobRecord) -> None:
    assert add(record, 5, [b"f", b"g", b"h"], b"fgh") == 2
    assert [(each.first, each.n_rows, each.digest) for each in record.ranges.values()][2:] == [(6, 2, b"")]
    assert values_of(record)[5:] == [b"f", b"g", b"h"]
    assert record.row_digests(6) == b"-------g-------h"
    assert add(record, 5, [b"f", b"g", b"h"], b"fgh") == 0
    record.begin()
    mixed = pack_rows([RowArguments(b"h"), RowArguments(b"i", b"x" * 16)])
    assert record.add_range(7, 2, b"", digest_of(b"h") + digest_of(b"i"), mixed) == 1
    record.commit()
    assert record.arguments_of(8) == RowArguments(b"i", b"x" * 16)


@pytest.mark.parametrize("digests", [b"", bytes(7), bytes(24)])
def test_digests_of_another_number_of_rows_are_an_error(record: JobRecord, digests: bytes) -> None:
    record.begin()
    with pytest.raises(ValueError, match="are not the digests of 2 rows"):
        record.add_range(6, 2, b"", digests, pack_rows([b"", b""]))
    record.commit()


def end(record: JobRecord, *results: RowResult) -> None:
    record.begin()
    record.add_results(results)
    record.commit()


def test_ended_rows_whose_arguments_are_replaced_run_again(record: JobRecord) -> None:
    end(record, RowResult(0, 0, (pack([b"A", b"B"]),), 2), RowResult(3, 1, (b"no",)), RowResult(4, 0, (b"E",)))
    assert replace(record, 0, [b"a", b"x", b"y"]) == [1]
    assert values_of(record)[:3] == [b"a", b"x", b"y"]
    assert (record.ranges[0].digest, record.row_digests(0)) == (b"new", b"-------a-------x-------y")
    assert record.results(0, 3, 100) == [RowResult(0, 0, (b"A",))]
    assert replace(record, 3, [b"D", None, b"f"], keep=True) == [3]
    assert replace(record, 3, [b"D", None, b"f"]) == [4]
    assert (record.done, record.failed, record.problems()) == (1, 0, [])
    record.begin()
    with pytest.raises(ValueError, match="no range"):
        record.replace_range(1, b"", b"", b"", keep_uncompared=False, at_most_once=False)
    record.commit()


def test_an_at_most_once_row_never_runs_again_with_other_arguments(record: JobRecord) -> None:
    end(record, RowResult(0, 0, (pack([b"A", b"B"]),), 2), RowResult(2, NO_WORKER, (b"no",)))
    with pytest.raises(RowsDiffer, match="row 1 has started with other arguments, and has the option at_most_once"):
        replace(record, 0, [b"a", b"x", b"y"], once=True)
    record.commit()
    found = record.results(0, 3, 100)
    assert [(each.row, each.n_rows, each.status) for each in found] == [(0, 2, 0), (2, 1, NO_WORKER)]
    assert replace(record, 0, [b"a", b"b", b"y"], once=True) == [2]
    record.begin()
    with pytest.raises(RowsDiffer, match="row 1 would be dropped after it has started"):
        record.truncate(1, at_most_once=True)
    record.truncate(2, at_most_once=True)
    record.commit()
    assert (record.rows, record.done) == (2, 2)


def test_truncated_rows_are_removed_with_their_results(record: JobRecord) -> None:
    record.begin()
    record.add_range(6, 2, b"", b"12345678" * 2, pack_rows([LARGE, b"x"]))
    record.add_results([RowResult(6, 0, (LARGE + b"!",)), RowResult(3, 0, (pack([b"D", b"E", b"F"]),), 3)])
    record.mark([0, 7])
    record.commit()
    assert {file.name for file in (record.folder / VALUES).iterdir()} == {"rows-6", "row-6"}
    record.begin()
    record.truncate(4)
    record.roll_back()
    assert (record.rows, record.done) == (8, 4)
    end(record, RowResult(0, 0, (b"A",)))
    assert record.problems() == []
    record.begin()
    record.truncate(4)
    record.commit()
    assert list((record.folder / VALUES).iterdir()) == []
    record.close()
    again = JobRecord.open(record.folder)
    assert (again.rows, again.done, again.marked, again.problems()) == (4, 2, set(), [])
    assert values_of(again) == [b"a", b"b", b"c", b"d"]
    assert again.results(1, 9, 100) == [RowResult(3, 0, (b"D",))]
    assert add(again, 3, [b"d", b"e"]) == 1
    again.begin()
    again.truncate(0)
    again.commit()
    assert (again.rows, again.done, again.ranges) == (0, 0, {})
    again.close()


def test_a_replaced_large_block_stays_until_the_change_is_committed(record: JobRecord) -> None:
    add(record, 6, [LARGE, b"x"])
    record.begin()
    other = pack_rows([LARGE[::-1], b"x"])
    record.replace_range(6, b"", b"7" * 16, other, keep_uncompared=False, at_most_once=False)
    record.close()  # as after a power failure
    again = JobRecord.open(record.folder)
    assert again.rows_of(6).one(0) == RowArguments(LARGE)
    again.begin()
    again.replace_range(6, b"", b"7" * 16, other, keep_uncompared=False, at_most_once=False)
    again.commit()
    assert (again.rows_of(6).one(0), again.problems()) == (RowArguments(LARGE[::-1]), [])
    again.close()


def flip(file: Path) -> None:
    spoilt = bytearray(file.read_bytes())
    spoilt[-2] ^= 1
    file.write_bytes(spoilt)


@pytest.mark.parametrize("spoil", [Path.unlink, flip, lambda file: file.write_bytes(b"cut")])
def test_damaged_arguments_are_repaired_by_submitting_the_same_rows(
    record: JobRecord, spoil: Callable[[Path], None]
) -> None:
    add(record, 6, [LARGE, b"x"], b"digest")
    record.close()
    spoil(record.folder / VALUES / "rows-6")
    again = JobRecord.open(record.folder)
    again.begin()
    with pytest.raises(DamagedError, match=r"the arguments of the rows 6 to 7 are damaged on disk \(rows-6: "):
        again.rows_of(6)
    again.commit()
    assert len(again.problems()) == 1
    again.close()
    again = JobRecord.open(record.folder)
    assert again.damaged == {"rows-6"}
    with pytest.raises(RowsDiffer, match="row 7"):
        add(again, 6, [LARGE, b"y"])
    assert add(again, 6, [LARGE, b"x"], b"digest") == 0
    assert (again.damaged, again.problems(), again.rows_of(6).one(0)) == (set(), [], RowArguments(LARGE))
    again.close()
    assert JobRecord.open(record.folder, writing=False).damaged == set()


@pytest.mark.parametrize("column", ["digest", "digests", "value", "sum", "sizes"])
def test_a_damaged_column_of_a_range_is_noticed_and_repaired_by_the_same_rows(record: JobRecord, column: str) -> None:
    record = damage(record, f"UPDATE ranges SET {column} = CAST(x'07' || substr({column}, 2) AS BLOB) WHERE first = 0")
    assert len(record.problems()) == 1
    if column in ("digest", "digests"):
        assert record.row_digests(0) == NOT_COMPARED * 3
    else:
        with pytest.raises(DamagedError):
            record.rows_of(0)
    assert add(record, 0, [b"a", b"b", b"c"], b"abc") == 0
    assert (record.problems(), record.damaged) == ([], set())
    record.close()


def test_damaged_objects_are_replaced_when_they_are_sent_again(record: JobRecord) -> None:
    function, value = JobObject(b"F" * 16, FUNCTION, "f", (LARGE, b"f")), JobObject(b"v" * 16, 0, "", (b"value",))
    for each in (function, value):
        record.begin()
        record.add_object(each)
        record.commit()
    file = record.folder / VALUES / f"object-{function.object_id.hex()}"
    flip(file)
    record.begin()
    with pytest.raises(
        DamagedError, match=rf"the function is damaged on disk \({file.name}: its checksum does not match"
    ):
        record.objects()
    record.commit()
    assert (record.damaged, record.object_ids()) == ({file.name}, {value.object_id})
    record = damage(record, "UPDATE objects SET value = x'00' WHERE kind = 0")
    assert len(record.problems()) == 2
    record.begin()
    record.add_object(function)
    record.commit()
    record.begin()
    with pytest.raises(DamagedError, match="a value that rows use is damaged"):
        record.objects()
    record.add_object(value)
    record.commit()
    assert (record.objects(), record.problems(), record.damaged) == ([function, value], [], set())
    flip(file)
    record.begin()
    with pytest.raises(DamagedError):
        record.objects()
    other = JobObject(b"G" * 16, FUNCTION, "f", (b"pickled otherwise",))
    record.add_object(other)
    record.commit()
    assert record.terms.function_id == other.object_id
    assert ({each.object_id for each in record.objects()}, record.damaged) == ({other.object_id, b"v" * 16}, set())
    record.close()
