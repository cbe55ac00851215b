"""The witness, and other signs that an acknowledged change is missing."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.jobs.record import DATABASE, DONE, STOPPED, JobRecord, JobTerms, RecordError
from scaler.jobs.witness import FILE

TERMS = JobTerms("prices", "alice", b"12345678", b"f" * 16, "price")


@pytest.fixture
def record(tmp_path: Path) -> Iterator[JobRecord]:
    record = JobRecord.create(tmp_path / "job", TERMS)
    yield record
    record.close()


def change(record: JobRecord) -> None:
    record.begin()
    record.note_request(b"token")
    record.commit()


def reopened(record: JobRecord) -> JobRecord:
    record.close()
    return JobRecord.open(record.folder)


def test_a_new_record_has_no_witness_and_reading_does_not_write_one(record: JobRecord) -> None:
    record.begin()
    record.results(0, 1, 1)
    record.commit()
    assert not (record.folder / FILE).exists()
    change(record)
    before = (record.folder / FILE).read_bytes()
    record.begin()
    record.commit()
    assert (record.folder / FILE).read_bytes() == before
    assert len(before) < 64


def test_a_database_older_than_its_witness_is_reported_until_that_is_forgotten(
    record: JobRecord, tmp_path: Path
) -> None:
    change(record)
    record.checkpoint()
    shutil.copy(record.folder / DATABASE, tmp_path / "older")
    for _ in range(3):
        change(record)
    record.close()
    shutil.copy(tmp_path / "older", record.folder / DATABASE)
    looked_at = JobRecord.open(record.folder, writing=False)
    assert looked_at.lost.startswith(
        "the last 3 groups of changes are missing, although they were acknowledged: the log"
    )
    assert looked_at.problems() == [looked_at.lost]
    looked_at.close()
    for _ in range(2):
        again = JobRecord.open(record.folder)
        assert again.lost == looked_at.lost, "until it is forgotten"
        change(again)
        again.close()
    again = JobRecord.open(record.folder)
    again.begin()
    again.forget_lost()
    again.commit()
    assert reopened(again).lost == ""


def test_after_a_roll_back_no_loss_is_reported(record: JobRecord) -> None:
    change(record)
    for _ in range(3):
        record.begin()
        record.move(DONE)
        record.roll_back()
    assert reopened(record).lost == ""


@pytest.mark.parametrize("rubbish", [b"", b"\0" * 20, b"\xff" * 20, b"12345678" + b"\xff" * 12, b"x" * 5000, None])
def test_a_damaged_witness_is_ignored(record: JobRecord, rubbish: bytes | None) -> None:
    change(record)
    record.close()
    (record.folder / FILE).unlink()
    if rubbish is None:
        (record.folder / FILE).mkdir()
    else:
        (record.folder / FILE).write_bytes(rubbish)
    again = JobRecord.open(record.folder)
    change(again)
    assert reopened(again).lost == ""


def test_the_witness_of_another_record_is_ignored(record: JobRecord, tmp_path: Path) -> None:
    other = JobRecord.create(tmp_path / "other", JobTerms("b", "alice", b"87654321", b"f" * 16, "f"))
    for _ in range(3):
        change(other)
    other.close()
    shutil.copy(other.folder / FILE, record.folder / FILE)
    assert reopened(record).lost == ""


def damage(record: JobRecord, statement: str) -> None:
    record.close()
    connection = sqlite3.connect(record.folder / DATABASE)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("key", ["marked", "state", "is_sealed", "commits", "changed"])
def test_a_damaged_fact_is_reported_and_counts_as_absent(record: JobRecord, key: str) -> None:
    record.begin()
    record.mark([1, 2])
    record.commit()
    damage(record, f"UPDATE job SET value = x'0102030405060708' WHERE key = '{key}'")
    again = JobRecord.open(record.folder)
    assert again.lost == f"its stored state is damaged ({key})"
    assert again.marked == (set() if key == "marked" else {1, 2})
    assert (again.state == STOPPED) is (key == "state")
    again = reopened(again)
    assert again.lost == f"its stored state is damaged ({key})", "once"
    assert again.problems() == [again.lost]
    again.close()


@pytest.mark.parametrize("column", ["terms", "prefix", "options", "sum"])
def test_damaged_terms_are_an_error(record: JobRecord, column: str) -> None:
    damage(record, f"UPDATE versions SET {column} = x'00'")
    with pytest.raises(RecordError, match="its terms are damaged"):
        JobRecord.open(record.folder)
