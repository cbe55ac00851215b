"""Results that are damaged or missing on disk: each fails its own row only."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.jobs.record import DATABASE, VALUES, JobRecord, JobTerms, RowResult
from scaler.jobs.tables import results
from scaler.jobs.tables.objects import FUNCTION
from scaler.jobs.terms import DAMAGED, NO_WORKER
from scaler.jobs.value_files import IN_DATABASE_BYTES
from scaler.jobs.values import PackedBlocks, pack, pack_rows
from scaler.wire.messages.common import InstructionKind, TaskStatus

TERMS = JobTerms("prices", "alice", b"12345678", b"f" * 16, "price")
ROWS = 20
LARGE = bytes(range(256)) * (IN_DATABASE_BYTES // 256) + b"x"


def block_of(row: int) -> bytes:
    return LARGE + b"%d" % row if row in (0, 1) else b"%d:" % row + bytes(range(30)) * row


@pytest.fixture
def record(tmp_path: Path) -> Iterator[JobRecord]:
    """Return a record: rows 0 and 1 in files, 2 and 3 alone, 4 to 15 packed, 16 failed, 17 to 19 open."""
    record = JobRecord.create(tmp_path / "job", TERMS)
    record.begin()
    record.add_range(0, ROWS - 3, b"", bytes(8 * (ROWS - 3)), pack_rows([b"%d" % row for row in range(ROWS - 3)]))
    record.add_range(ROWS - 3, 3, b"", bytes(24), pack_rows([b"", b"", b""]))
    record.add_results([RowResult(row, 0, (block_of(row),)) for row in range(4)])
    record.add_results(
        [RowResult(4, 0, (pack([block_of(row) for row in range(4, 16)]),), 12), RowResult(16, 1, (b"no",))]
    )
    record.commit()
    yield record
    record.close()


def change(record: JobRecord, statement: str, *values: object) -> JobRecord:
    """Damage the database, and reopen the record."""
    record.close()
    connection = sqlite3.connect(record.folder / DATABASE)
    connection.execute(statement, values)
    connection.commit()
    connection.close()
    return JobRecord.open(record.folder)


def read(record: JobRecord, first: int = 0, count: int = ROWS) -> dict[int, bytes | None]:
    """Return the result of each row; None: it is damaged."""
    record.begin()
    found: dict[int, bytes | None] = {}
    for each in record.results(first, count, 2**40):
        if each.n_rows > 1:
            packed = PackedBlocks(each.frames[0], each.n_rows)
            found |= {each.row + at: packed.one(at) for at in range(each.n_rows)}
        else:
            found[each.row] = None if each.status == DAMAGED else each.frames[0]
    record.commit()
    return found


TRUTH: dict[int, bytes | None] = {**{row: block_of(row) for row in range(16)}, 16: b"no"}


def check_lost(record: JobRecord, lost: set[int]) -> None:
    """Check that exactly the rows in `lost` are damaged, twice, and after the record was reopened."""
    expected = {row: None if row in lost else block for row, block in TRUTH.items()}
    assert read(record) == expected
    assert {each.row for each in record.take_damaged()} == lost - {16}
    assert record.take_damaged() == []
    counts = (16 - len(lost - {16}), 1 + len(lost - {16}))
    assert (record.done, record.failed) == counts
    record.close()
    again = JobRecord.open(record.folder)
    assert (again.done, again.failed) == counts
    assert read(again) == expected
    assert again.take_damaged() == []
    assert again.problems() == []
    again.begin()
    assert again.reopen_failed() == sorted(lost | {16})
    again.add_results([RowResult(row, 0, (block_of(row),)) for row in lost])
    again.commit()
    assert read(again) == {row: TRUTH[row] for row in range(16)} | ({16: block_of(16)} if 16 in lost else {})
    again.close()


def test_constants_of_results_are_those_of_the_protocol() -> None:
    assert (DAMAGED, NO_WORKER) == (TaskStatus.MISSING_OBJECTS, TaskStatus.NO_WORKER)
    assert InstructionKind.CREATE_FUNCTION == FUNCTION


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_in_a_value_file_costs_only_its_row(record: JobRecord, seed: int) -> None:
    chance, file = random.Random(seed), record.folder / VALUES / f"row-{seed % 2}"
    spoilt = bytearray(file.read_bytes())
    spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
    file.write_bytes(spoilt)
    assert record.problems() == [f"values/{file.name}: its checksum does not match"]
    check_lost(record, {seed % 2})


@pytest.mark.parametrize("content", [None, b"short", LARGE * 2])
def test_a_missing_or_short_value_file_fails_its_row_when_the_record_is_opened(
    record: JobRecord, content: bytes | None
) -> None:
    file = record.folder / VALUES / "row-1"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    record.close()
    looked_at = JobRecord.open(record.folder, writing=False)
    assert (looked_at.done, looked_at.failed) == (16, 1)
    assert "values/row-1: it should have" in looked_at.problems()[0]
    assert [each.status for each in looked_at.results(0, 3, 2**40)] == [0, DAMAGED, 0]
    looked_at.close()
    again = JobRecord.open(record.folder)
    assert (again.done, again.failed) == (15, 2)
    assert [each.row for each in again.first_failures] == [1, 16]
    text = again.first_failures[0].frames[0].decode()
    assert text.startswith("the result of row 1 is damaged or missing on disk (row-1: it should have 65538 bytes")
    assert "retry()" in text
    assert again.take_damaged() == []
    again.close()
    again = JobRecord.open(record.folder)
    assert read(again) == TRUTH | {1: None}
    again.close()


def test_a_value_file_lost_while_the_record_is_open_costs_only_its_row(record: JobRecord) -> None:
    (record.folder / VALUES / "row-0").unlink()
    check_lost(record, {0})


def test_a_result_that_names_a_missing_file_fails_its_row(record: JobRecord) -> None:
    record = change(record, "UPDATE results SET value = NULL WHERE row = 2")
    assert (record.done, record.failed, record.take_damaged()) == (15, 2, []), "known when it was opened"
    assert read(record) == TRUTH | {2: None}
    record.close()


@pytest.mark.parametrize(
    ("row", "statement", "lost"),
    [
        (2, "UPDATE results SET value = x'313233' WHERE row = 2", {2}),
        (2, "UPDATE results SET value = 'text' WHERE row = 2", {2}),
        (2, "UPDATE results SET value = 17 WHERE row = 2", {2}),
        (3, "UPDATE results SET how = 1 WHERE row = 3", {3}),
        (16, "UPDATE results SET how = 0 WHERE row = 16", {16}),
        (3, "UPDATE results SET sums = x'00000000' WHERE row = 3", {3}),
        (3, "UPDATE results SET sums = sums + 1 WHERE row = 3", {3}),
        (3, "UPDATE results SET sums = 9e99 WHERE row = 3", {3}),
        (3, "UPDATE results SET sums = NULL WHERE row = 3", {3}),
        (3, "UPDATE results SET how = 256 WHERE row = 3", {3}),
        (3, "UPDATE results SET how = 'x' WHERE row = 3", {3}),
        (2, "UPDATE results SET sizes = x'05' WHERE row = 2", {2}),
        (16, "UPDATE results SET value = x'4e6f' WHERE row = 16", {16}),
        (4, "UPDATE results SET sums = x'0000' WHERE row = 4", set(range(4, 16))),
        (4, "UPDATE results SET how = 256 WHERE row = 4", set(range(4, 16))),
        (4, "UPDATE results SET value = x'' WHERE row = 4", set(range(4, 16))),
    ],
)
def test_damage_in_the_database_costs_only_its_rows(
    record: JobRecord, row: int, statement: str, lost: set[int]
) -> None:
    check_lost(change(record, statement), lost)


def test_swapped_values_count_as_damaged(record: JobRecord) -> None:
    record = change(record, "UPDATE results SET row = CASE row WHEN 2 THEN -3 ELSE -2 END WHERE row IN (2, 3)")
    check_lost(change(record, "UPDATE results SET row = -row WHERE row < 0"), {2, 3})


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_bit_in_a_packed_value_costs_one_row(record: JobRecord, seed: int) -> None:
    value = bytearray(pack([block_of(row) for row in range(4, 16)]))
    at = random.Random(seed).randrange(48) if seed % 2 else random.Random(seed).randrange(48, len(value))
    value[at] ^= 1 << seed % 8
    record = change(record, "UPDATE results SET value = ? WHERE row = 4", bytes(value))
    [problem] = record.problems()
    assert problem.startswith("the database: row-")
    check_lost(record, {int(problem.removeprefix("the database: row-").split(":")[0])})


def test_only_requested_rows_are_checked(record: JobRecord) -> None:
    value = bytearray(pack([block_of(row) for row in range(4, 16)]))
    value[-1] ^= 1
    record = change(record, "UPDATE results SET value = ? WHERE row = 4", bytes(value))
    assert read(record, 5, 3) == {row: TRUTH[row] for row in (5, 6, 7)}
    assert record.done == 16
    assert read(record, 14, 2) == {14: TRUTH[14], 15: None}
    assert (record.done, [each.row for each in record.take_damaged()]) == (15, [15])
    record.close()


def test_reading_returns_missing_results_as_damaged_rows(record: JobRecord) -> None:
    record = change(record, "DELETE FROM results WHERE row IN (1, 4, 16)")
    assert "rows 0 to 16: the results do not match their count" in record.problems()
    assert [each.row for each in record.results(0, ROWS, 2**40)] == [*range(17)]
    assert [each.row for each in record.results(0, 4, 1)] == [0]
    assert [each.row for each in record.results(4, 3, 2**40)] == [4, 5, 6]
    record.close()


def test_missing_results_count_as_failed(record: JobRecord) -> None:
    check_lost(change(record, "DELETE FROM results WHERE row IN (1, 4)"), {1, *range(4, 16)})


def test_missing_results_of_a_range_with_open_rows_are_reported_and_run_again(record: JobRecord) -> None:
    record.begin()
    record.add_results([RowResult(17, 0, (b"17",)), RowResult(18, 0, (b"18",))])
    record.commit()
    record = change(record, "DELETE FROM results WHERE row = 17")
    assert record.lost == "the results of the range from row 17 on do not match their count"
    assert (record.done, record.ranges[17].done, record.problems()) == (17, 1, [record.lost])
    assert list(record.ended_rows(17)) == [0, 1, 0]
    record.close()


def test_damage_found_outside_a_committed_transaction_changes_nothing(record: JobRecord) -> None:
    record = change(record, "UPDATE results SET value = x'313233' WHERE row = 2")
    assert record.results(2, 1, 1)[0].status == DAMAGED
    assert (record.done, record.take_damaged()) == (16, [])
    record.begin()
    assert record.results(2, 1, 1)[0].status == DAMAGED
    record.roll_back()
    assert (record.done, record.failed, record.take_damaged()) == (16, 1, [])
    record.close()


def test_a_failed_row_with_a_damaged_result_stays_failed(record: JobRecord) -> None:
    record = change(record, "UPDATE results SET value = x'4e6f' WHERE row = 16")
    record.begin()
    [found] = record.failures()
    record.commit()
    assert (found.row, found.status, record.failed, record.take_damaged()) == (16, DAMAGED, 1, [])
    record.begin()
    assert record.reopen_failed(NO_WORKER) == [], "at_most_once: it never runs again"
    record.commit()
    record.close()


def test_adjacent_rows_whose_packed_result_is_malformed_fail_and_affect_no_others(record: JobRecord) -> None:
    record.begin()
    record.add_results([RowResult(17, 0, (b"\xff" * 20,), 3)])
    record.commit()
    assert {row: value for row, value in read(record).items() if row >= 17} == {17: None, 18: None, 19: None}
    assert (record.done, record.failed) == (16, 4)


def test_without_the_checksum_a_damaged_value_would_be_returned(
    record: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This shows that the other tests can fail: only a checksum detects a different value of the same length."""
    record = change(record, "UPDATE results SET value = x'323A31' || substr(value, 4) WHERE row = 2")
    monkeypatch.setattr(results, "_whole", lambda line, first, end: RowResult(line[0], 0, (line[5],)))
    assert read(record, 2, 1)[2] != TRUTH[2]
    record.close()
