"""The record of one job."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler.jobs.folder import UNREADABLE
from scaler.jobs.record import (
    CANCELED,
    DATABASE,
    DONE,
    ENDED_WELL,
    FAILED,
    OPEN,
    VALUES,
    JobObject,
    JobRecord,
    JobTerms,
    RowResult,
    RowsDiffer,
)
from scaler.jobs.tables import schema
from scaler.jobs.tables.objects import FUNCTION
from scaler.jobs.tables.schema import RecordError
from scaler.jobs.value_files import IN_DATABASE_BYTES
from scaler.jobs.values import RowArguments, pack, pack_rows

TERMS = JobTerms(
    "prices", "alice", b"12345678", b"f" * 16, "price", "run.py", "3.11", {"code": "ab"}, b"\x00\x01", 3, "", True,
    0.5, 60.0, 1.0,
)  # fmt: skip
LARGE = bytes(IN_DATABASE_BYTES + 1)


@pytest.fixture
def record(tmp_path: Path) -> Iterator[JobRecord]:
    record = JobRecord.create(tmp_path / "job", TERMS)
    yield record
    record.close()


def digests(first: int, n_rows: int) -> bytes:
    return b"".join((row + 1).to_bytes(8, "little") for row in range(first, first + n_rows))


def add_rows(record: JobRecord, first: int, n_rows: int) -> None:
    record.begin()
    block = pack_rows([RowArguments(b"%d" % row) for row in range(first, first + n_rows)])
    record.add_range(first, n_rows, b"d", digests(first, n_rows), block)
    record.commit()


def add_results(record: JobRecord, *results: RowResult) -> int:
    record.begin()
    added = record.add_results(results)
    record.commit()
    return added


@pytest.mark.parametrize("seed", range(60))
def test_a_record_with_damaged_bytes_is_read_or_is_an_expected_error(record: JobRecord, seed: int) -> None:
    add_rows(record, 0, 300)
    add_results(record, *(RowResult(row, row % 7 == 3, (b"%d" % row,)) for row in range(200)))
    record.close()
    chance, file = random.Random(seed), record.folder / DATABASE
    damaged = bytearray(file.read_bytes())
    for _ in range(chance.choice((1, 3, 20, 200))):
        damaged[chance.randrange(chance.choice((0, 4096)), len(damaged))] ^= chance.randrange(1, 256)
    file.write_bytes(damaged[: chance.choice((None, None, chance.randrange(len(damaged))))])
    with contextlib.suppress(*UNREADABLE):
        other = JobRecord.open(record.folder, writing=False)
        try:
            for read in (other.problems, other.objects, other.summary, lambda: other.results(0, 300, 2**40)):
                with contextlib.suppress(*UNREADABLE):
                    read()
        finally:
            other.close()


def test_a_record_that_cannot_be_written_is_read_without_making_files(
    record: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_rows(record, 0, 5)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    other = JobRecord.open(record.folder, writing=False)
    assert other.rows == 5, "what its log has is read with it"
    other.close()
    record.close()
    before = {path.name for path in record.folder.iterdir()}
    other = JobRecord.open(record.folder, writing=False)
    assert other.rows == 5
    assert {path.name for path in record.folder.iterdir()} == before, "no file is made beside it"
    other.close()


def test_a_record_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_file: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(schema, "create", fail)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        JobRecord.create(tmp_path / "job", TERMS)
    assert list(tmp_path.iterdir()) == []


def reopened(record: JobRecord) -> JobRecord:
    record.close()
    return JobRecord.open(record.folder)


def test_terms_of_a_job_are_read_as_they_were_written(record: JobRecord) -> None:
    assert JobRecord.open(record.folder, writing=False).terms == TERMS


def test_rows_results_and_counts_are_read_as_they_were_written(record: JobRecord) -> None:
    add_rows(record, 0, 3)
    add_rows(record, 3, 2)
    assert (
        add_results(record, RowResult(4, 0, (b"four",)), RowResult(1, 1, (b"no",)), RowResult(0, 0, (b"a", b"bc"))) == 3
    )
    again = reopened(record)
    assert (again.rows, again.done, again.failed) == (5, 2, 1)
    assert [again.rows_of(3).one(at).payload for at in range(2)] == [b"3", b"4"]
    assert again.ended_rows(0) == bytes((ENDED_WELL, FAILED, 0))
    assert again.results(0, 5, 100) == [
        RowResult(0, 0, (b"a", b"bc")),
        RowResult(1, 1, (b"no",)),
        RowResult(4, 0, (b"four",)),
    ]
    assert again.results_of([range(4, 5), range(3, 4), range(1, 2)], 100) == (
        [RowResult(4, 0, (b"four",)), RowResult(1, 1, (b"no",))],
        3,
    )
    assert again.failures() == [RowResult(1, 1, (b"no",))]
    assert again.arguments_of(4) == RowArguments(b"4")
    assert again.problems() == []
    again.close()


def test_a_single_object_and_the_version_of_a_row_can_be_read(record: JobRecord) -> None:
    add_rows(record, 0, 3)
    add_results(record, RowResult(0, 1, (b"no",)))
    record.begin()
    record.add_object(JobObject(b"o" * 16, 0, "weights", (b"a", LARGE)))
    record.add_version(replace(TERMS, prefix=b"other678"))
    record.commit()
    add_results(record, RowResult(1, 1, (b"no",)))
    again = reopened(record)
    assert again.object(b"o" * 16) == JobObject(b"o" * 16, 0, "weights", (b"a", LARGE))
    assert [again.version_of(row) for row in range(3)] == [0, 1, -1]
    with pytest.raises(RecordError, match=f"the job has no object-{(b'x' * 16).hex()}: run its program again"):
        again.object(b"x" * 16)
    [file] = (record.folder / VALUES).glob("object-*")
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(RecordError, match="a value that rows use is damaged on disk"):
        again.object(b"o" * 16)
    again.close()


def test_a_second_result_of_a_row_is_not_recorded(record: JobRecord) -> None:
    add_rows(record, 0, 2)
    assert add_results(record, RowResult(0, 0, (b"first",)), RowResult(1, 0, (LARGE,))) == 2
    assert add_results(record, RowResult(0, 1, (b"second",)), RowResult(1, 0, (b"x" * len(LARGE),))) == 0
    assert (record.done, record.failed) == (2, 0)
    assert record.results(0, 2, 2**30) == [RowResult(0, 0, (b"first",)), RowResult(1, 0, (LARGE,))]


def test_results_are_read_up_to_a_number_of_bytes_and_at_least_one_of_them(record: JobRecord) -> None:
    add_rows(record, 0, 3)
    add_results(record, *(RowResult(row, 0, (bytes(10),)) for row in range(3)))
    assert [each.row for each in record.results(0, 3, 1)] == [0]
    assert [each.row for each in record.results(0, 3, 11)] == [0, 1]
    assert [each.row for each in record.results(1, 1, 100)] == [1]


def test_results_of_adjacent_rows_are_recorded_and_read_together(record: JobRecord) -> None:
    add_rows(record, 0, 10)
    blocks = [b"%d" % row * row for row in range(10)]
    assert (
        add_results(
            record, RowResult(1, 0, (pack(blocks[1:6]),), 5), RowResult(6, 1, (b"no",)), RowResult(7, 0, (b"7",))
        )
        == 3
    )
    assert (record.done, record.failed) == (6, 1)
    assert list(record.ended_rows(0)) == [0, *[ENDED_WELL] * 5, FAILED, ENDED_WELL, 0, 0]
    assert record.results(0, 10, 1) == [RowResult(1, 0, (pack(blocks[1:6]),), 5)]
    assert record.results(3, 2, 100) == [RowResult(3, 0, (pack(blocks[3:5]),), 2)]
    assert record.results(5, 3, 100) == [
        RowResult(5, 0, (blocks[5],)),
        RowResult(6, 1, (b"no",)),
        RowResult(7, 0, (b"7",)),
    ]
    assert record.results_of([range(7, 8), range(2, 4), range(6, 7)], 100)[0] == [
        RowResult(7, 0, (b"7",)), RowResult(2, 0, (pack(blocks[2:4]),), 2), RowResult(6, 1, (b"no",))
    ]  # fmt: skip
    assert add_results(record, RowResult(1, 0, (pack(blocks[1:6]),), 5), RowResult(8, 0, (b"8",))) == 1
    assert (record.done, record.failed) == (7, 1)
    record.begin()
    assert record.reopen_failed() == [6]
    record.commit()
    assert (record.done, record.failed) == (7, 0)
    again = reopened(record)
    assert (again.done, again.problems()) == (7, [])
    again.close()


def test_durations_of_rows_are_read_as_they_were_written(record: JobRecord) -> None:
    add_rows(record, 0, 4)
    add_rows(record, 4, 4)
    add_results(
        record,
        RowResult(0, 0, (pack([b"", b""]),), 2, 300),
        RowResult(2, 1, (b"no",), 1, 20),
        RowResult(5, 0, (b"",), 1, 1),
    )
    assert add_results(record, RowResult(5, 0, (b"",), 1, 1)) == 0
    again = reopened(record)
    assert (again.ranges[0].duration_us, again.ranges[4].duration_us, again.duration_us) == (320, 1, 321)
    again.close()


def test_large_values_are_in_files(record: JobRecord) -> None:
    record.begin()
    record.add_range(0, 1, b"", bytes(8), pack_rows([RowArguments(LARGE)]))
    record.add_object(JobObject(b"id", 3, "f", (LARGE, b"tail")))
    record.add_results([RowResult(0, 0, (LARGE, b"more"))])
    record.commit()
    assert {file.name for file in (record.folder / VALUES).iterdir()} == {"rows-0", "object-6964", "row-0"}
    again = reopened(record)
    assert again.objects() == [JobObject(b"id", 3, "f", (LARGE, b"tail"))]
    assert again.object_ids() == {b"id"}
    assert again.rows_of(0).one(0) == RowArguments(LARGE)
    assert again.results(0, 1, 1) == [RowResult(0, 0, (LARGE, b"more"))]
    assert again.size_bytes > 3 * len(LARGE)
    again.close()


def test_changes_that_are_not_committed_are_lost(record: JobRecord) -> None:
    add_rows(record, 0, 2)
    record.begin()
    record.add_results([RowResult(0, 0, (b"",))])
    record.move(DONE)
    record.seal(2)
    record.roll_back()
    assert (record.done, record.state, record.is_sealed) == (0, OPEN, False)
    assert add_results(record, RowResult(0, 0, (b"",))) == 1


def test_rows_must_be_consecutive_and_are_refused_after_the_seal(record: JobRecord) -> None:
    add_rows(record, 0, 3)
    block = pack_rows([b"0", b"1", b"2"])
    record.begin()
    assert record.add_range(0, 3, b"", digests(0, 3), block) == 0
    with pytest.raises(RowsDiffer, match="the job has 3 rows, and row 5 does not follow them"):
        record.add_range(5, 1, b"", bytes(8), pack_rows([b""]))
    with pytest.raises(RowsDiffer, match="the job has 3 rows, and not 2") as differ:
        record.seal(2)
    assert (differ.value.row, record.is_sealed) == (2, False)
    record.seal(3)
    record.commit()
    record.begin()
    with pytest.raises(RowsDiffer, match="the job has 3 rows, and row 3 is one too many") as differ:
        record.add_range(3, 1, b"", bytes(8), pack_rows([b""]))
    assert differ.value.row == 3
    record.commit()
    assert JobRecord.open(record.folder, writing=False).is_sealed
    record.begin()
    record.unseal()
    assert record.add_range(3, 1, b"", bytes(8), pack_rows([b""])) == 1
    record.commit()
    assert not reopened(record).is_sealed


def test_failed_rows_can_be_reopened(record: JobRecord) -> None:
    add_rows(record, 0, 3)
    add_results(record, RowResult(0, 1, (LARGE,)), RowResult(1, 0, (b"",)), RowResult(2, 4, (b"no",)))
    record.begin()
    assert record.reopen_failed() == [0, 2]
    record.commit()
    assert (record.done, record.failed) == (1, 0)
    assert add_results(record, RowResult(0, 0, (b"well",))) == 1
    assert record.problems() == []


def test_marks_of_rows_are_stored_until_the_rows_have_ended(record: JobRecord) -> None:
    add_rows(record, 0, 6)
    for rows in ((0, 1, 2), (4,)):
        record.begin()
        record.mark(rows)
        record.commit()
    add_results(record, RowResult(1, 1, (b"no",)), RowResult(5, 0, (b"",)))
    assert record.marked == {0, 2, 4}
    record.begin()
    record.mark([3])
    record.roll_back()
    assert record.marked == {0, 2, 4}
    record.begin()
    assert record.reopen_failed() == [1]
    record.commit()
    record = reopened(record)
    assert record.marked == {0, 2, 4}  # row 1 may run again: its retry was requested
    record.close()


def test_a_state_has_a_reason(record: JobRecord) -> None:
    record.begin()
    record.move(CANCELED, "by its user")
    record.commit()
    summary = JobRecord.open(record.folder, writing=False).summary()
    assert (summary.state, summary.reason, summary.rows) == (CANCELED, "by its user", 0)


def test_a_folder_without_a_job_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"holds no job: it has no file job\.sqlite"):
        JobRecord.open(tmp_path)


def test_another_database_is_no_record(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute("CREATE TABLE job (a)")
    connection.close()
    with pytest.raises(RecordError, match="is not a job record"):
        JobRecord.open(tmp_path)


@pytest.mark.parametrize(("version", "which"), [(99, "a later"), (1, "an earlier")])
def test_a_record_of_another_version_is_refused_in_a_sentence(record: JobRecord, version: int, which: str) -> None:
    record.close()
    connection = sqlite3.connect(record.folder / DATABASE)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(RecordError, match=rf"{which} version of Scaler \(its tables have version {version}"):
        JobRecord.open(record.folder)


def test_problems_name_what_is_missing(record: JobRecord) -> None:
    add_rows(record, 0, 2)
    add_results(record, RowResult(0, 0, (LARGE,)), RowResult(1, 0, (LARGE,)))
    (record.folder / VALUES / "row-0").unlink()
    (record.folder / VALUES / "row-1").write_bytes(b"short")
    record.close()
    found = JobRecord.open(record.folder, writing=False)
    assert found.problems() == [
        f"values/row-0: it should have {len(LARGE)} bytes, and has no file",
        f"values/row-1: it should have {len(LARGE)} bytes, and has 5",
    ]
    found.close()


def test_rows_cost_at_most_34_bytes_in_addition_to_their_values(record: JobRecord) -> None:
    n_rows = 20_000
    for first in range(0, n_rows, 4000):
        record.begin()
        record.add_range(first, 4000, bytes(16), os.urandom(32_000), pack_rows([RowArguments(bytes(20))] * 4000))
        record.add_results([RowResult(row, 0, (bytes(10),)) for row in range(first, first + 4000)])
        record.commit()
    again = reopened(record)
    assert again.size_bytes / n_rows - 30 <= 34
    again.close()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.integers(1, 4)),
        st.tuples(st.just("end"), st.integers(0, 30), st.sampled_from((0, 1)), st.sampled_from((b"", b"v", LARGE))),
        st.tuples(st.just("retry")),
        st.tuples(st.just("roll back")),
        st.tuples(st.just("open again")),
    ),
    max_size=15,
)


@given(steps)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
def test_a_record_behaves_as_a_dictionary_of_results(
    tmp_path_factory: pytest.TempPathFactory, given_steps: list[tuple]
) -> None:
    record = JobRecord.create(tmp_path_factory.mktemp("jobs") / "job", TERMS)
    truth: dict[int, RowResult] = {}
    rows = 0
    for step in given_steps:
        if step[0] == "rows":
            add_rows(record, rows, step[1])
            rows += step[1]
        elif step[0] == "end" and step[1] < rows:
            truth.setdefault(step[1], RowResult(step[1], step[2], (step[3],)))
            add_results(record, RowResult(step[1], step[2], (step[3],)))
        elif step[0] == "retry":
            record.begin()
            record.reopen_failed()
            record.commit()
            truth = {row: result for row, result in truth.items() if not result.status}
        elif step[0] == "roll back":
            record.begin()
            record.add_results([RowResult(row, 0, (b"lost",)) for row in range(rows) if row not in truth])
            record.roll_back()
        elif step[0] == "open again":
            record = reopened(record)
    assert record.results(0, rows, 2**40) == [truth[row] for row in sorted(truth)]
    failed = sum(1 for result in truth.values() if result.status)
    assert (record.rows, record.done, record.failed) == (rows, len(truth) - failed, failed)
    assert record.problems() == []
    record.close()


def test_the_first_function_of_a_record_is_that_of_all_rows(record: JobRecord) -> None:
    first, second = (JobObject(letter * 16, FUNCTION, "price", (letter,)) for letter in (b"a", b"b"))
    record.begin()
    record.add_object(JobObject(b"v" * 16, 0, "", (b"no function",)))
    record.add_object(first)
    record.roll_back()
    assert record.terms.function_id == TERMS.function_id
    for each in (second, first):
        record.begin()
        record.add_object(each)
        record.commit()
    assert JobRecord.open(record.folder, writing=False).terms.function_id == second.object_id


def test_results_of_given_rows_count_open_rows_and_stop_at_a_number_of_bytes(record: JobRecord) -> None:
    record.begin()
    record.add_range(0, 4, b"", bytes(32), pack_rows([RowArguments(b"")] * 4))
    record.add_results([RowResult(row, 0, (b"12345678",)) for row in (0, 1, 3)])
    record.commit()
    assert record.results_of([range(2, 3)], 100) == ([], 1)
    assert record.results_of([range(4)], 8) == ([RowResult(0, 0, (b"12345678",))], 1)
    assert [each.row for each in record.results_of([range(3, 4), range(4)], 16)[0]] == [3, 0]
    assert record.results_of([range(3, 4), range(4)], 16)[1] == 2
    assert record.results_of([range(3, 4), range(2, 3), range(1)], 100)[1] == 3


def test_requests_that_have_changed_a_record_are_recognised_after_a_restart(record: JobRecord) -> None:
    tokens = [bytes((number,)) * 4 for number in range(18)]
    for token in tokens:
        record.begin()
        record.note_request(token)
        record.commit()
    record.begin()
    record.note_request(b"lost")
    record.roll_back()
    again = reopened(record)
    assert [again.has_done(token) for token in tokens] == [False] * 2 + [True] * 16
    assert not again.has_done(b"lost")
    again.close()


def test_a_record_whose_folder_was_moved_or_removed_is_not_written(record: JobRecord) -> None:
    add_rows(record, 0, 2)
    moved = record.folder.with_name("moved")
    record.folder.rename(moved)
    record.begin()
    record.add_results([RowResult(0, 0, (b"",))])
    with pytest.raises(OSError, match=r"the folder of the job is gone: .* was removed or moved while the job was open"):
        record.commit()
    record.roll_back()
    assert record.done == 0
    moved.rename(record.folder)
    assert add_results(record, RowResult(0, 0, (b"",))) == 1
    shutil.rmtree(record.folder)
    JobRecord.create(record.folder, TERMS).close()
    record.begin()
    with pytest.raises(OSError, match="is gone"):
        record.commit()
    record.roll_back()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_a_record_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        record = JobRecord.create(tmp_path / "job", TERMS)
        add_rows(record, 0, 1)
        add_results(record, RowResult(0, 0, (LARGE,)))
        modes = {path.name: path.stat().st_mode & 0o777 for path in record.folder.rglob("*")}
        record.close()
    finally:
        os.umask(before)
    assert modes == {
        "job.sqlite": 0o600, "job.sqlite-wal": 0o600, "job.sqlite-shm": 0o600, "witness": 0o600, "values": 0o700,
        "row-0": 0o600,
    }  # fmt: skip
    assert record.folder.stat().st_mode & 0o777 == 0o700


def test_the_log_of_a_record_is_short_and_can_be_emptied(record: JobRecord) -> None:
    add_rows(record, 0, 2000)
    log = record.folder / f"{DATABASE}-wal"
    for row in range(2000):
        add_results(record, RowResult(row, 0, (b"%d" % row,)))
        assert log.stat().st_size <= 4_200 * (schema.CHECKPOINT_PAGES + 20)
    record.checkpoint()
    assert log.stat().st_size == 0
    assert record.size_bytes < 300_000


def test_a_job_resumed_by_a_new_version_has_results_of_both_versions(record: JobRecord) -> None:
    add_rows(record, 0, 6)
    record.begin()
    record.add_object(JobObject(b"a" * 16, FUNCTION, "price", (b"a",)))
    record.add_results([RowResult(0, 0, (pack([b"0", b"1"]),), 2), RowResult(2, 1, (b"no",))])
    record.commit()
    later = replace(TERMS, prefix=b"87654321", function_id=b"n" * 16, options=b"\x02")
    record.begin()
    record.add_version(later)
    record.roll_back()
    assert record.versions == [replace(TERMS, function_id=b"a" * 16)]
    record.begin()
    record.add_version(later)
    record.add_object(JobObject(b"v" * 16, 0, "", (b"no function",)))
    record.add_object(JobObject(b"b" * 16, FUNCTION, "price", (b"b",)))
    assert record.reopen_failed() == [2]
    record.add_results([RowResult(2, 0, (b"2",)), RowResult(3, 1, (b"no",)), RowResult(4, 0, (pack([b"", b""]),), 2)])
    record.commit()
    again = reopened(record)
    assert again.record_id == TERMS.prefix
    assert again.terms == again.versions[1] == replace(later, function_id=b"b" * 16, version=1)
    assert again.versions[0] == replace(TERMS, function_id=b"a" * 16)
    assert again.counts_by_version() == {0: 2, 1: 4}
    assert (again.done, again.failed) == (5, 1)
    assert [each.status for each in again.results(0, 6, 2**30)] == [0, 0, 1, 0]
    assert again.problems() == []
    again.close()


def test_a_version_whose_function_is_recorded_keeps_it(record: JobRecord) -> None:
    first, second = (JobObject(letter * 16, FUNCTION, "f", (letter,)) for letter in (b"a", b"b"))
    record.begin()
    record.add_object(first)
    record.add_version(replace(TERMS, function_id=first.object_id))
    record.add_object(second)
    record.commit()
    assert record.terms.function_id == first.object_id
