"""JobWriter: orders are executed in groups, and answered when they are on disk."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from scaler.jobs.record import DATABASE, JobRecord, JobTerms, RowResult, RowsDiffer
from scaler.jobs.values import RowArguments, pack_rows
from scaler.jobs.writer import JobWriter


@pytest.fixture
def record(tmp_path: Path) -> JobRecord:
    record = JobRecord.create(tmp_path / "job", JobTerms("a", "b", b"12345678", b"f" * 16, "f"))
    record.begin()
    record.add_range(0, 10, b"", bytes(80), pack_rows([RowArguments(b"")] * 10))
    record.commit()
    return record


def test_the_writer_answers_when_the_group_is_on_disk(record: JobRecord) -> None:
    writer, told = JobWriter(has_thread=False), []

    def on_disk(value: Any, error: BaseException | None) -> None:
        other = JobRecord.open(record.folder, writing=False)
        told.append((value, error, other.done))
        other.close()

    for row in range(3):
        writer.order(record, lambda row=row: record.add_results([RowResult(row, 0, (b"",))]), on_disk)
    assert told == []
    writer.work()
    assert told == [(1, None, 3)] * 3


def test_when_the_disk_fails_all_changes_of_the_group_report_the_error(record: JobRecord) -> None:
    writer, told = JobWriter(has_thread=False), []

    def full() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    def answer(value: Any, error: BaseException | None) -> None:
        told.append((value, str(error)))

    writer.order(record, lambda: record.add_results([RowResult(0, 0, (b"",))]), answer)
    writer.order(record, full, answer)
    writer.order(record, lambda: record.add_results([RowResult(1, 0, (b"",))]), answer)
    writer.order(None, lambda: 7, answer)
    writer.work()
    assert told == [(None, "database or disk is full")] * 3 + [(7, "None")]
    assert record.done == 0
    writer.order(record, lambda: record.add_results([RowResult(0, 0, (b"",))]), answer)
    writer.work()
    assert told[-1] == (1, "None")


def test_a_wrong_order_of_the_writer_does_not_affect_the_others(record: JobRecord) -> None:
    writer, told = JobWriter(has_thread=False), []
    writer.order(
        record, lambda: record.add_range(99, 1, b"", bytes(8), b""), lambda _value, error: told.append(type(error))
    )
    writer.order(
        record, lambda: record.add_results([RowResult(1, 0, (b"",))]), lambda value, _error: told.append(value)
    )
    writer.work()
    assert told == [RowsDiffer, 1]
    assert record.done == 1


def test_the_thread_of_the_writer_executes_all_orders_before_it_ends(record: JobRecord) -> None:
    writer, told = JobWriter(), []
    for row in range(10):
        writer.order(
            record,
            lambda row=row: (threading.current_thread().name, record.add_results([RowResult(row, 0, (b"",))])),
            lambda value, _error: told.append(value),
        )
    writer.end()
    assert told == [("scaler-job-writer", 1)] * 10


def test_a_record_is_closed_after_all_earlier_orders_are_on_disk(record: JobRecord) -> None:
    writer, told = JobWriter(has_thread=False), []
    writer.order(record, lambda: record.results(0, 10, 100), lambda *answer: told.append(answer))
    writer.order(None, record.close, lambda *answer: told.append(answer))
    writer.work()
    assert told == [([], None), (None, None)]


@pytest.mark.parametrize("full", [sqlite3.OperationalError("database or disk is full"), OSError(28, "No space left")])
def test_when_the_disk_is_full_the_log_is_emptied_and_the_group_is_retried(record: JobRecord, full: Exception) -> None:
    writer, told, tries = JobWriter(has_thread=False), [], []

    def order() -> int:
        tries.append(record.size_bytes)
        if len(tries) == 1:
            raise full
        return record.add_results([RowResult(1, 0, (b"",))])

    def answer(value: Any, error: BaseException | None) -> None:
        told.append((value, error))

    writer.order(record, lambda: record.add_results([RowResult(0, 0, (b"",))]), answer)
    writer.order(record, order, answer)
    writer.order(None, lambda: 7, answer)
    writer.work()
    assert told == [(1, None), (1, None), (7, None)]
    assert record.done == 2
    assert tries[1] < tries[0], "its log is empty"
    writer.order(record, lambda: tries.clear() or order(), answer)  # full again, both times
    writer.work()
    assert told[-1] == (None, full)


@pytest.mark.parametrize("count", [1, "x", 2**40, -3, None])
def test_rows_in_a_damaged_page_fail_and_other_rows_are_read_and_written(tmp_path: Path, count: object) -> None:
    record = JobRecord.create(tmp_path / "job", JobTerms("a", "b", b"12345678", b"f" * 16, "f"))
    record.begin()
    record.add_range(0, 10, b"", bytes(80), pack_rows([RowArguments(b"")] * 10))
    blocks = [b"%d" % row * 30_000 for row in range(9)]
    record.add_results([RowResult(row, 0, (block,)) for row, block in enumerate(blocks)])
    record._connection.execute("UPDATE results SET count = ? WHERE row = 4", (count,))  # as other damage may leave it
    record.commit()
    record.close()
    file = record.folder / DATABASE
    damaged = bytearray(file.read_bytes())
    begin = damaged.find(b"4" * 3000) // 4096 * 4096 + 4096  # a page in the middle of the result of row 4
    damaged[begin : begin + 4096] = bytes(4096)
    file.write_bytes(damaged)
    record = JobRecord.open(record.folder)
    writer, told = JobWriter(has_thread=False), []
    writer.order(record, lambda: record.results(0, 10, 2**30), lambda *answer: told.append(answer))
    writer.work()
    (found, error) = told.pop()
    assert error is None
    assert [each.frames[0] for each in found if each.row != 4] == [block for block in blocks if block[0] != ord("4")]
    assert b"the result of row 4 is damaged or missing on disk" in found[4].frames[0]
    assert [each.row for each in record.take_damaged()] == [4]
    writer.order(record, record.reopen_failed, lambda *answer: told.append(answer))
    writer.order(
        record, lambda: record.add_results([RowResult(4, 0, (blocks[4],))]), lambda *answer: told.append(answer)
    )
    writer.work()
    assert told == [([4], None), (1, None)]
    record.close()
    record = JobRecord.open(record.folder)
    assert [each.frames[0] for each in record.results(0, 10, 2**30)] == blocks
    record.close()


def test_a_record_that_cannot_be_repaired_does_not_affect_other_orders(
    record: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, told = JobWriter(has_thread=False), list[str]()

    def malformed() -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    def wrong() -> None:
        raise TypeError("a page has another type")

    monkeypatch.setattr(record, "salvage", wrong)
    monkeypatch.setattr(record, "roll_back", wrong)
    writer.order(record, malformed, lambda _value, error: told.append(str(error)))
    writer.order(None, lambda: 7, lambda value, _error: told.append(str(value)))
    writer.work()
    assert told == ["a page has another type", "7"]


def test_deferred_work_is_done_in_pieces_between_the_groups() -> None:
    done: list[str] = []

    def tidy() -> bool:
        done.append("tidy")
        if len(done) == 2:
            writer.order(None, lambda: done.append("late"), lambda *_: None)
        return len(done) < 6

    writer = JobWriter(has_thread=False, tidy=tidy)
    writer.order(None, lambda: done.append("first"), lambda *_: None)
    writer.work()
    assert done == ["first", "tidy", "late", "tidy", "tidy", "tidy"]
    writer.end()
    assert len(done) == 6, "not at the end"
