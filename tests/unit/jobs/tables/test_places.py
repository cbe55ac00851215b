"""Places: facts that many failures have in common are stored once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from scaler.jobs.record import JobRecord, RowResult
from scaler.jobs.tables import places
from scaler.jobs.values import RowArguments, pack_rows
from scaler.wire.codec.structs import TaskFailure
from tests.unit.jobs.test_record import TERMS

PLACE = bytes(range(100)) * 4
FAILURE = TaskFailure("ValueError", "bad", "Traceback\n", b"pickled", ("Exception",), b"i" * 16, PLACE)


def record_of(folder: Path, *payloads: bytes) -> JobRecord:
    record = JobRecord.create(folder / "job", TERMS)
    record.begin()
    count = len(payloads)
    record.add_range(
        0, count, b"d", bytes(range(1, 9)) * count, pack_rows([RowArguments(b"%d" % row) for row in range(count)])
    )
    record.add_results([RowResult(row, 1, (payload,)) for row, payload in enumerate(payloads)])
    record.commit()
    record.close()
    return JobRecord.open(folder / "job")


def stored_bytes(record: JobRecord) -> int:
    with sqlite3.connect(record.folder / "job.sqlite") as connection:
        return int(connection.execute("SELECT sum(length(value)) FROM results").fetchone()[0])


def test_failures_of_one_place_store_it_once(tmp_path: Path) -> None:
    payloads = [FAILURE._replace(text=str(row)).encode() for row in range(50)]
    record = record_of(tmp_path, *payloads)
    assert [each.frames for each in record.failures()] == [(payload,) for payload in payloads]
    assert stored_bytes(record) == sum(len(payload) - len(PLACE) + places.DIGEST_BYTES for payload in payloads)
    [first, *_] = record.results(0, 1, 2**20)
    assert TaskFailure.decode(first.frames[0])[:6] == TaskFailure.decode(payloads[0])[:6]
    assert record.problems() == []
    record.close()


@pytest.mark.parametrize(
    "payload",
    [
        FAILURE._replace(place=b"").encode(),
        FAILURE._replace(place=b"12345678").encode(),
        FAILURE.encode()[:40],
        b"",
        b"no",
        b"a sentence that is no message",
        b"\xff" * 16,
        b"\2\0\0\0" + bytes(4),
    ],
)
def test_a_payload_without_a_place_is_stored_unchanged(tmp_path: Path, payload: bytes) -> None:
    record = record_of(tmp_path, payload)
    [failure] = record.failures()
    assert failure.frames == (payload[:-8] if payload.endswith(b"12345678") else payload,)
    record.close()


def test_places_beyond_the_bound_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "PLACES_MOST", 2)
    found = record_of(tmp_path, *(FAILURE._replace(place=PLACE + bytes([row])).encode() for row in range(4)))
    assert [TaskFailure.decode(each.frames[0]).place for each in found.failures()] == [
        PLACE + b"\0", PLACE + b"\1", b"", b""
    ]  # fmt: skip
    found.close()


def test_a_damaged_place_is_unknown_and_does_not_affect_the_job(tmp_path: Path) -> None:
    record = record_of(tmp_path, FAILURE.encode())
    record.close()
    with sqlite3.connect(record.folder / "job.sqlite") as connection:
        assert connection.execute("UPDATE job SET value = x'00' WHERE key LIKE 'place-%'").rowcount == 1
    again = JobRecord.open(record.folder)
    assert again.lost == ""
    assert TaskFailure.decode(again.failures()[0].frames[0]) == FAILURE._replace(place=b"")
    again.close()
