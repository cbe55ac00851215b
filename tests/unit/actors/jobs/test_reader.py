"""A job that another program has open. Both programs have real folders, and one of them has the virtual clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scaler.actors.jobs.job import JobActor
from scaler.actors.jobs.reader import ENDING_SECONDS, IDLE_SECONDS, JobReader
from scaler.actors.messages.jobs import ReaderLeft
from scaler.client.jobs.job_requests import read_rows
from scaler.jobs.folder import JobFolder
from scaler.jobs.locks import Holder
from scaler.jobs.record import DONE, JobRecord, JobTerms, RowResult
from scaler.jobs.values import RowArguments, pack, pack_rows
from scaler.wire.messages.client import JobAnswerKind, JobReadFlags, JobRequest, JobVerb
from scaler.wire.messages.common import TaskStatus
from tests.support.bench import Bench
from tests.support.job_scene import Scene
from tests.support.processes import open_memory

N_ROWS, RANGE = 12, 5
ATTEND, BY_LOG, ENDED_ONLY = JobReadFlags
TERMS = JobTerms("orders", "tester", b"12345678", b"f" * 16, "price", keep_seconds=1e9, created=1.0)
KNOWN, ROWS, REFUSED, NOT_FOUND = (
    JobAnswerKind.KNOWN,
    JobAnswerKind.ROWS,
    JobAnswerKind.REFUSED,
    JobAnswerKind.NOT_FOUND,
)
USED = (
    "the job 'orders' is in use: prices.py 4711 has it open. Its progress and results can be read; to change or run "
    "it, end that program, or take another name"
)


class OtherProgram:
    """The program that has the job open, and writes its record."""

    def __init__(self, place: Path, pid: int = 1, terms: JobTerms = TERMS) -> None:
        self.folder = JobFolder(place, is_shared=True, holder=Holder(pid, "another"))
        self.record = self.folder.create(terms, "prices.py 4711")
        with self:
            for first in range(0, N_ROWS, RANGE):
                rows = [RowArguments(b"%d" % row) for row in range(first, min(N_ROWS, first + RANGE))]
                self.record.add_range(first, len(rows), b"", bytes(8 * len(rows)), pack_rows(rows))
            self.record.seal(N_ROWS)

    def __enter__(self) -> JobRecord:
        self.record.begin()
        return self.record

    def __exit__(self, *_error: object) -> None:
        self.record.commit()

    def end(self, *rows: int, status: int = 0) -> None:
        with self as record:
            record.add_results([RowResult(row, status, (b"value %d" % row,)) for row in rows])


@pytest.fixture
def other(tmp_path: Path) -> Iterator[OtherProgram]:
    other = OtherProgram(tmp_path / "jobs")
    yield other
    other.folder.close()


@pytest.fixture
def scene(bench: Bench, other: OtherProgram, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(bench, other.folder.path, monkeypatch, is_shared=True)
    yield scene
    scene.folder.close()


def read(scene: Scene) -> dict[int, bytes]:
    """Return the rows in the last answer."""
    return {end.row: bytes(end.frames[0]) for end in read_rows(scene.answers[-1])}


def info(scene: Scene) -> dict[str, Any]:
    assert scene.ask(50, JobVerb.SHOW) == [(50, KNOWN)]
    found: dict[str, Any] = json.loads(scene.answers[0].body)
    return found


READING = {
    JobVerb.READ,
    JobVerb.SHOW,
    JobVerb.FAILURES,
    JobVerb.DIGESTS,
    JobVerb.ARGUMENTS,
    JobVerb.STORED,
}


@pytest.mark.parametrize("verb", [each for each in JobVerb if each not in {*READING, JobVerb.LEAVE, JobVerb.LIST}])
def test_requests_that_change_a_job_in_use_are_refused_and_name_its_program(scene: Scene, verb: JobVerb) -> None:
    assert scene.ask(1, verb) == [(1, REFUSED)]
    assert scene.answers[0].reason == USED
    assert scene.ask(2, JobVerb.READ, ATTEND) == [(2, REFUSED)], "a map needs the job to run"
    assert scene.ask(3, JobVerb.LEAVE) == [(3, KNOWN)]
    assert scene.catalog.unanswered == {}


def test_rows_are_read_as_they_reach_the_disk(scene: Scene, other: OtherProgram) -> None:
    first = info(scene)
    about = {"state": "open", "rows": N_ROWS, "done": 0, "sealed": True, "programs": ["prices.py 4711"]}
    assert first.items() >= about.items()
    assert scene.ask(1, JobVerb.READ) == []
    assert scene.ask(2, JobVerb.SHOW, 1) == [], "it has not ended"
    assert scene.ask(3, JobVerb.READ, BY_LOG) == []
    other.end(1, 2)
    scene.answers.clear()
    scene.pass_time(1)
    assert [(each.number, each.status) for each in scene.answers] == [(3, ROWS)]
    assert read(scene) == {1: b"value 1", 2: b"value 2"}
    position = scene.answers[-1].first
    assert info(scene)["done"] == 2
    assert scene.ask(4, JobVerb.READ, ENDED_ONLY) == [(4, ROWS)]
    assert read(scene) == {1: b"value 1", 2: b"value 2"}
    other.end(0, 7)
    scene.answers.clear()
    scene.pass_time(1)
    assert [(each.number, each.status) for each in scene.answers] == [(1, ROWS)]
    assert read(scene) == {0: b"value 0", 1: b"value 1", 2: b"value 2"}
    assert scene.ask(5, JobVerb.READ, BY_LOG, first=position) == [(5, ROWS)]
    assert read(scene) == {0: b"value 0", 7: b"value 7"}
    position = scene.answers[-1].first
    other.end(5, status=TaskStatus.FAILED)
    assert scene.ask(6, JobVerb.FAILURES, 10) == [(6, ROWS)]
    assert list(read(scene)) == [5]
    assert scene.ask(7, JobVerb.ARGUMENTS, first=5) == [(7, KNOWN)]
    assert scene.answers[0].frames[0] == b"5"
    assert scene.ask(8, JobVerb.DIGESTS, first=5) == [(8, KNOWN)]
    assert list(scene.answers[0].frames[1]) == [2, 0, 1, 0, 0]
    with other as record:
        record.add_results([RowResult(8, 0, (pack([b"8", b"9"]),), 2)])
    other.end(3, 4, 6, 10, 11)
    with other as record:
        record.move(DONE)
    scene.answers.clear()
    scene.pass_time(1)
    assert [(each.number, each.status) for each in scene.answers] == [(2, KNOWN)]
    assert scene.ask(9, JobVerb.READ, BY_LOG, first=position) == [(9, ROWS)]
    assert sorted(read(scene)) == [3, 4, 5, 6, 8, 9, 10, 11]
    for number, flags, end in ((10, BY_LOG, scene.answers[-1].first), (11, 0, 12)):
        assert scene.ask(number, JobVerb.READ, flags, first=end) == [(number, ROWS)]
        assert (read(scene), scene.answers[-1].first) == ({}, end), "no further row ends"
    assert other.record.state == DONE


def test_a_row_that_ends_while_an_earlier_row_runs_again_is_not_missed(scene: Scene, other: OtherProgram) -> None:
    other.end(0, status=TaskStatus.FAILED)
    assert scene.ask(1, JobVerb.READ, BY_LOG) == [(1, ROWS)]
    assert read(scene) == {0: b"value 0"}
    with other as record:
        record.reopen_failed()
    other.end(1)
    assert scene.ask(2, JobVerb.READ, BY_LOG, first=scene.answers[-1].first) == [(2, ROWS)]
    assert read(scene) == {1: b"value 1"}
    assert scene.ask(3, JobVerb.READ, BY_LOG, first=scene.answers[-1].first) == []
    other.end(0)
    scene.pass_time(1)
    assert read(scene) == {0: b"value 0"}, "it has ended again"


def test_results_of_other_work_or_of_another_job_are_never_returned(scene: Scene, other: OtherProgram) -> None:
    other.end(0)
    found = info(scene)
    record_id = bytes.fromhex(found["record"])
    handle = record_id + found["work"].to_bytes(4, "little")
    assert scene.ask(1, JobVerb.READ, record=handle) == [(1, ROWS)]
    with other as record:
        record.add_version(replace(record.terms, program="prices.py", work=7, prefix=b"87654321"))
    assert scene.ask(2, JobVerb.READ, record=handle) == [(2, JobAnswerKind.CONFLICT)]
    assert scene.answers[0].reason == "prices.py has changed the job 'orders': look it up again"
    other.folder.remove(other.record)
    other.record = other.folder.create(replace(TERMS, prefix=b"abcdefgh"), "prices.py 4711")
    assert scene.ask(3, JobVerb.READ, record=record_id) == [(3, NOT_FOUND)]
    assert info(scene)["record"] == b"abcdefgh".hex()


def test_requests_move_to_the_actor_of_the_job_when_the_lock_is_free(scene: Scene, other: OtherProgram) -> None:
    assert scene.ask(1, JobVerb.READ) == []
    assert type(reader_of(scene)) is JobReader
    other.end(0)
    other.folder.shut(other.record)
    scene.answers.clear()
    scene.pass_time(1)
    assert [(each.number, each.status) for each in scene.answers] == [(1, ROWS)]
    assert scene.folder.in_use_error(scene.folder.place_of("tester", "orders")) is None
    assert other.folder.is_used(other.record.folder)
    assert scene.ask(2, JobVerb.CANCEL) == [(2, KNOWN)]
    assert scene.bench.dispatcher.failures == 0


def test_reading_a_map_without_its_program_leaves_the_lock_to_the_program(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = OtherProgram(tmp_path / "jobs", terms=replace(TERMS, is_attended=True))
    scene = Scene(bench, tmp_path / "jobs", monkeypatch, is_shared=True)
    assert scene.ask(1, JobVerb.READ) == []
    other.folder.shut(other.record)
    scene.pass_time(1)
    assert [(each.number, each.status) for each in scene.answers] == [(1, JobAnswerKind.WAITS)]
    reason, found = scene.answers[0].reason, info(scene)
    assert (found["programs"], found["rows"], found["reason"]) == ([], N_ROWS, reason)
    assert reason.startswith("no program waits for it: a job of map runs only while its program does")
    scene.pass_time(2 * IDLE_SECONDS)
    late = Scene(bench, tmp_path / "jobs", monkeypatch, is_shared=True, name="late")
    assert late.ask(2, JobVerb.READ) == [(2, JobAnswerKind.WAITS)], "the first request finds the job free"
    assert not scene.folder.is_used(other.record.folder)
    other.record = other.folder.open(other.record.folder, "prices.py 4712")
    other.end(0)
    for each in (scene, late):
        each.answers.clear()
        each.pass_time(1)
    assert [(each.number, each.status) for each in late.answers] == [(2, ROWS)]
    assert info(scene)["programs"] == ["prices.py 4712"]
    other.folder.shut(other.record)
    late.send(JobRequest(3, JobVerb.READ, "orders", 1))
    assert late.ask(4, JobVerb.READ, ATTEND, first=1) == [(3, JobAnswerKind.WAITS)], "its own map takes the lock"
    assert type(reader_of(late)) is JobActor
    assert {each.request.number for _, each in late.catalog.unanswered.values()} == {3, 4}
    for each in (scene, late):
        each.folder.close()


def reader_of(scene: Scene) -> object:
    [ref] = scene.keeper._jobs.values()
    return ref._actor


def test_requests_about_a_job_that_another_program_removes_are_answered_with_not_found(
    scene: Scene, other: OtherProgram
) -> None:
    record = bytes.fromhex(info(scene)["record"])
    assert scene.ask(1, JobVerb.SHOW, 1, record=record) == []
    other.folder.remove(other.record)
    scene.answers.clear()
    scene.pass_time(1)
    assert [(each.number, each.status) for each in scene.answers] == [(1, NOT_FOUND)]
    assert "it was forgotten, or has expired" in scene.answers[0].reason


def test_a_request_waits_a_limited_time_for_an_ended_program_to_release_the_lock(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler of the program, a separate process, holds the lock for a moment longer."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    other = OtherProgram(tmp_path / "jobs", ended.pid)
    scene = Scene(bench, tmp_path / "jobs", monkeypatch, is_shared=True)
    assert scene.ask(1, JobVerb.CANCEL) == [(1, JobAnswerKind.WAITS)]
    assert scene.answers[0].reason == "prices.py 4711 is ending, or its scheduler is starting again"
    scene.answers.clear()
    scene.pass_time(ENDING_SECONDS - 1)
    assert scene.answers == []
    scene.pass_time(2)
    assert [(each.number, each.reason) for each in scene.answers] == [(1, USED)]
    assert scene.ask(2, JobVerb.READ) == [], "it can be read meanwhile"
    other.folder.close()
    assert scene.ask(3, JobVerb.CANCEL) == [(3, KNOWN), (2, ROWS)]
    scene.folder.close()


def test_a_job_is_reserved_for_a_limited_time_for_a_program_whose_scheduler_was_killed(
    scene: Scene, other: OtherProgram
) -> None:
    assert scene.ask(1, JobVerb.READ) == []
    for _ in range(2):
        other.record.close()
        [lock] = other.folder._locks.values()
        assert lock is not None
        os.close(lock)
        other.folder._locks.clear()  # as when its process is killed: the file keeps its name
        scene.answers.clear()
        scene.pass_time(ENDING_SECONDS - 1)
        assert scene.answers == []
        assert scene.ask(2, JobVerb.CANCEL) == [(2, JobAnswerKind.WAITS)]
        other.record = other.folder.open(other.record.folder, "prices.py 4711")
        other.end(3)
        scene.answers.clear()
        scene.pass_time(1)
        assert [(each.number, each.reason) for each in scene.answers] == [(2, USED)]
    other.record.close()
    os.close(next(iter(other.folder._locks.values())) or 0)
    other.folder._locks.clear()
    assert scene.ask(3, JobVerb.CANCEL) == [(3, JobAnswerKind.WAITS)]
    scene.answers.clear()
    scene.pass_time(ENDING_SECONDS + 1)
    assert sorted((each.number, each.status) for each in scene.answers) == [(1, ROWS), (3, KNOWN)]


def test_a_client_that_left_and_a_job_that_is_not_read_take_no_memory(scene: Scene) -> None:
    before = open_memory(scene.folder.path)
    assert scene.ask(1, JobVerb.READ) == []
    scene.bench.tell(scene.ref, ReaderLeft(scene.session))
    scene.pass_time(2 * IDLE_SECONDS + 1)
    assert scene.keeper._jobs == {}
    assert scene.catalog.unanswered == {}
    assert len(open_memory(scene.folder.path)) <= len(before)


def test_a_request_for_an_unreadable_job_is_refused_with_a_reason(scene: Scene, other: OtherProgram) -> None:
    (other.record.folder / "job.sqlite").write_bytes(bytes(5000))
    assert scene.ask(1, JobVerb.SHOW) == [(1, REFUSED)]
    assert scene.answers[0].reason == "the job cannot be read: file is not a database"


def test_jobs_in_the_folder_of_another_scheduler_can_be_read_and_new_jobs_are_refused(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = JobFolder(tmp_path / "jobs", holder=Holder(1, "the scheduler at tcp://h:1, process 7"))
    record = scheduler.create(TERMS)
    scene = Scene(bench, tmp_path / "jobs", monkeypatch, is_shared=True)
    assert info(scene)["programs"] == ["the scheduler at tcp://h:1, process 7"]
    reason = (
        f"another scheduler keeps its jobs in {scheduler.path}: the scheduler at tcp://h:1, process 7. Connect to it"
    )
    assert scene.ask(1, JobVerb.CANCEL) == [(1, REFUSED)]
    assert scene.answers[0].reason.startswith(reason)
    assert scene.names() == ["orders"]
    scheduler.shut(record)
    scheduler.close()
    assert info(scene)["rows"] == 0, "it is read while the scheduler starts again"
    assert scene.ask(1, JobVerb.READ) == [(1, JobAnswerKind.WAITS)]
    assert scene.answers[0].reason == "the scheduler at tcp://h:1, process 7 has ended: retry() runs it here"
    scheduler = JobFolder(tmp_path / "jobs", holder=Holder(1, "the scheduler at tcp://h:1, process 7"))
    scheduler.remove(scheduler.open(record.folder))
    scene.answers.clear()
    scene.pass_time(1)
    assert [(each.number, each.status) for each in scene.answers] == [(1, NOT_FOUND)]
    body = json.dumps({
        "function_id": "66" * 16, "function": "f", "program": "p", "python": "3", "fingerprint": {}, "options": "",
        "priority": 0, "task_name": "", "attended": False, "max_failures": None, "keep_seconds": 1.0, "created": 1.0,
    }).encode()  # fmt: skip
    assert scene.ask(2, JobVerb.OPEN, body=body) == [(2, REFUSED)]
    assert scene.answers[0].reason.startswith(reason)
    scheduler.close()
    assert scene.ask(3, JobVerb.OPEN, body=body) == [(3, KNOWN)]
    scene.folder.close()
