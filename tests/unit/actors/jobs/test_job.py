"""One job of at-most-once rows, with a real record; recorders play all other actors."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from scaler.actors.jobs.job import INCONSISTENT, TRY_AGAIN_SECONDS, WRITE_SECONDS, JobActor
from scaler.actors.jobs.job_catalog import JobCatalog
from scaler.actors.jobs.job_reads import READ_BYTES
from scaler.actors.jobs.job_state import JobState
from scaler.actors.jobs.row_values import store_objects
from scaler.actors.jobs.submitted_rows import RowSizes
from scaler.actors.messages.adoption import FindRun, FindRuns, NotHeld, RunAdopted, RunFound, RunsAreHeld
from scaler.actors.messages.jobs import OwnersChanged, RequestJob
from scaler.actors.messages.objects import ObjectLost, StoreObject
from scaler.actors.messages.tasks import (
    RangeEnded,
    ReturnedRows,
    RunLost,
    RunRecalled,
    StartRequested,
    StartRun,
    TaskAssigned,
    TaskReady,
    TaskRefused,
    TaskWithdrawn,
    WithdrawTask,
)
from scaler.actors.tasks.adoption import HOLD_SECONDS
from scaler.actors.vocabulary.owners import Owner, RoomInQuota
from scaler.client.jobs.job_requests import read_rows
from scaler.ids import ClientId, ObjectId, TaskId, content_id
from scaler.jobs.folder import JobFolder
from scaler.jobs.record import DONE, OPEN, STOPPED, JobObject, JobRecord, JobTerms, RowResult
from scaler.jobs.terms import BY_FILE, BY_KEY
from scaler.jobs.values import RowArguments, pack_rows
from scaler.jobs.writer import JobWriter
from scaler.keys.allowed import Lockout, OwnerTerms
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import AT_END, JobAnswerKind, JobReadFlags, JobRequest, JobResponse, JobVerb
from scaler.wire.messages.common import InstructionKind, TaskStatus
from scaler.wire.messages.rows import pack, part_of, unpack
from scaler.wire.messages.worker import RunResult
from tests.support.bench import Bench
from tests.support.services import services

ONCE = RunOptions(at_most_once=True).encode()
TERMS = JobTerms("orders", "tester", b"12345678", b"f" * 16, "order", options=ONCE)
ROWS = 20
RANGE = 100


def row_of(task_id: bytes) -> int:
    return int.from_bytes(task_id[8:], "big")


class Scene:
    """A scheduler with one job. `restart` kills it and starts the next one."""

    def __init__(self, bench: Bench, place: Path, terms: JobTerms = TERMS, n_rows: int = ROWS, quota: int = 0) -> None:
        self.bench, self.place, self.terms, self.quota = bench, place, terms, quota
        self.lockouts: dict[str, Lockout] = {}
        self.audited: list[dict[str, str]] = []
        self.balancer, self.balancer_ref = bench.recorder()
        self.adoption, self.adoption_ref = bench.recorder()
        self.worker, self.worker_ref = bench.recorder()
        self.folder = JobFolder(place)
        record = self.folder.create(terms)
        record.begin()
        for first in range(0, n_rows, RANGE):
            rows = range(first, min(n_rows, first + RANGE))
            block = pack_rows([RowArguments(b"%d" % row) for row in rows])
            record.add_range(first, len(rows), b"", bytes(8 * len(rows)), block)
        record.seal(n_rows)
        record.commit()
        self.start(record, is_new=True)

    def start(self, record: JobRecord, *, is_new: bool, is_shared: bool = False) -> None:
        self.writer = JobWriter(has_thread=False)
        about = ("tester", 2**40, is_shared, self.lockouts.get)
        catalog = JobCatalog(self.folder, self.writer, lambda ref, message: ref.send(message), *about)
        nobody = [self.bench.recorder()[1] for _ in range(2)]
        parts = replace(services(self.balancer_ref, nobody[0]), adoption=self.adoption_ref, audit=self.audit)
        self.owner = parts.directory.owners.of("tester", OwnerTerms(tasks=self.quota))
        self.record, self.services = record, parts
        self.answers: list[JobResponse] = []
        setattr(parts.outbox, "put", lambda _peer, answer: self.answers.append(answer))  # noqa: B010 - it is a method
        job_state = JobState(record, is_new)
        self.actor = JobActor(record, job_state, catalog, parts, nobody[1])
        self.job = self.bench.dispatcher.spawn(self.actor)

    def audit(self, event: str, _bounded_by: str, **about: str) -> None:
        self.audited.append({"event": event, **about})

    def restart(self, *, is_shared: bool = False) -> None:
        """Start the next scheduler without any message of the old one, as after a kill."""
        self.folder.close()
        self.folder = JobFolder(self.place)
        self.balancer.take()
        self.adoption.take()
        record = self.folder.open(self.folder.place_of("tester", "orders"))
        self.start(record, is_new=False, is_shared=is_shared)
        self.run_all()

    def run_all(self) -> None:
        """Run until no message and no order of the job writer is left."""
        for _ in range(20):
            self.bench.run()
            self.writer.work()

    def submitted(self) -> dict[int, TaskReady]:
        """Return the rows that the balancer has received, by number."""
        return {row_of(each.spec.task_id): each for each in self.balancer.take(TaskReady)}

    def marks_on_disk(self) -> set[int]:
        other = JobRecord.open(self.record.folder, writing=False)
        try:
            return other.marked
        finally:
            other.close()

    def results(self, n_rows: int = ROWS) -> dict[int, tuple[int, bytes]]:
        other = JobRecord.open(self.record.folder, writing=False)
        try:
            found: dict[int, tuple[int, bytes]] = {}
            for each in other.results(0, n_rows, 2**40):
                blocks = unpack(each.frames[0], each.n_rows) if each.n_rows > 1 else each.frames
                found |= {row: (each.status, bytes(block)) for row, block in enumerate(blocks, each.row)}
            return found
        finally:
            other.close()

    def assign(self, ready: TaskReady) -> None:
        """Assign a row to a worker, whose proxy holds the order."""
        self.bench.tell(ready.task, TaskAssigned(self.worker_ref, {ready.task: ready.attempt}))
        self.bench.tell(self.job, StartRequested(self.worker_ref, ready.spec.task_id, ready.attempt))

    def started(self) -> list[int]:
        """Return the rows whose orders have been released since the last call."""
        return [row_of(each.task_id) for each in self.worker.take(StartRun)]

    def ask(self, verb: JobVerb, amount: int = 0, first: int = 0, body: bytes = b"") -> None:
        session = self.bench.recorder()[1]
        request = JobRequest(1, verb, "orders", first, amount, b"{}" if verb == JobVerb.OPEN else body)
        self.bench.tell(self.job, RequestJob(session, cast("Any", None), request, "tester"))

    def run_row(self, ready: TaskReady, status: TaskStatus = TaskStatus.SUCCESS) -> None:
        """Assign a row to a worker and end it."""
        self.bench.tell(ready.task, TaskAssigned(self.worker_ref, {ready.task: ready.attempt}))
        self.end_row(ready, status)

    def end_row(self, ready: TaskReady, status: TaskStatus = TaskStatus.SUCCESS) -> None:
        """End a row that a worker has."""
        self.bench.tell(ready.task, RunResult(ready.spec.task_id, 0, ready.attempt, status, b"well", 1, ()))


@pytest.fixture
def scene(bench: Bench, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(bench, tmp_path / "jobs")
    yield scene
    scene.folder.close()


def test_an_at_most_once_row_starts_after_its_mark_is_on_disk(scene: Scene) -> None:
    scene.run_all()
    submitted = scene.submitted()
    assert sorted(submitted) == list(range(ROWS))
    scene.assign(submitted[1])
    assert scene.marks_on_disk() == set()
    assert scene.started() == []
    scene.writer.work()
    assert scene.marks_on_disk() == {1}
    scene.bench.run()
    assert scene.started() == [1]
    scene.end_row(submitted[1])
    scene.assign(submitted[2])
    scene.run_all()
    assert scene.marks_on_disk() == {2}
    assert scene.started() == [2]


def test_the_next_scheduler_starts_only_at_most_once_rows_that_have_not_started(scene: Scene) -> None:
    scene.run_all()
    submitted = scene.submitted()
    for row in range(5):
        scene.assign(submitted[row])
    scene.run_all()
    scene.end_row(submitted[1])
    scene.run_all()
    scene.restart()
    asks = {row_of(each.task_id): each for each in scene.adoption.take(FindRun)}
    assert {row: ask.patient for row, ask in asks.items()} == {
        row: row in (0, 2, 3, 4) for row in range(ROWS) if row != 1
    }
    scene.bench.tell(asks[3].task, RunFound(scene.worker_ref, 77), RunAdopted(scene.worker_ref, 77))
    for row in {*asks} - {3}:
        scene.bench.tell(asks[row].task, NotHeld())
    assert sorted(scene.submitted()) == list(range(5, ROWS))
    result = RunResult(asks[3].task_id, 0, 77, TaskStatus.SUCCESS, b"adopted", 1, ())
    scene.bench.tell(asks[3].task, result)
    scene.run_all()
    ended = scene.results()
    assert (ended[1], ended[3]) == ((TaskStatus.SUCCESS, b"well"), (TaskStatus.SUCCESS, b"adopted"))
    assert [ended[row][0] for row in (0, 2, 4)] == [TaskStatus.NOT_FOUND] * 3
    assert b"it is not run again because of its option at_most_once" in ended[0][1]
    assert scene.marks_on_disk() == set()


def test_a_row_that_its_worker_returned_has_not_started(scene: Scene) -> None:
    scene.run_all()
    submitted = scene.submitted()
    for row in (1, 2, 3):
        scene.assign(submitted[row])
    scene.run_all()
    scene.bench.tell(submitted[1].task, RunRecalled(submitted[1].attempt))
    scene.bench.tell(submitted[2].task, RunLost(submitted[2].attempt, "w", was_running=False, was_ordered=False))
    again = scene.submitted()
    scene.run_all()
    assert scene.marks_on_disk() == {3}
    scene.assign(again[1])
    scene.bench.tell(again[1].task, RunRecalled(again[1].attempt))  # before its mark is on disk
    scene.assign(scene.submitted()[1])
    scene.run_all()
    assert scene.marks_on_disk() == {1, 3}


def test_at_most_once_rows_do_not_start_while_their_marks_cannot_be_written(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_rows: Any) -> None:
        raise OSError("no room")

    scene.run_all()
    monkeypatch.setattr(scene.record, "mark", fail)
    scene.assign(scene.submitted()[4])
    scene.run_all()
    assert scene.started() == []
    monkeypatch.undo()
    scene.bench.advance(2.0)
    scene.run_all()
    assert scene.started() == [4]


def test_a_retry_runs_cancelled_at_most_once_rows_only_if_they_had_not_started(scene: Scene) -> None:
    scene.run_all()
    submitted = scene.submitted()
    scene.assign(submitted[0])
    scene.run_all()
    scene.ask(JobVerb.CANCEL)
    scene.run_all()
    for row in range(1, ROWS):
        scene.bench.tell(submitted[row].task, TaskWithdrawn())
    scene.end_row(submitted[0], TaskStatus.CANCELED)
    scene.run_all()
    assert {row: status for row, (status, _) in scene.results().items()} == {0: TaskStatus.CANCELED}
    scene.ask(JobVerb.RETRY)
    scene.run_all()
    assert sorted(scene.submitted()) == list(range(1, ROWS))


def test_a_retry_runs_failed_at_most_once_rows_only_if_no_worker_had_them(scene: Scene) -> None:
    scene.run_all()
    for row, ready in scene.submitted().items():
        if row == 7:
            scene.bench.tell(ready.task, TaskRefused(ready.attempt, "nobody has a licence"))
        else:
            scene.run_row(ready, TaskStatus.FAILED if row == 3 else TaskStatus.SUCCESS)
    scene.run_all()
    assert scene.actor._rows.failed == 2
    scene.ask(JobVerb.RETRY)
    scene.run_all()
    [(row, ready)] = scene.submitted().items()
    assert row == 7
    scene.run_row(ready)
    scene.run_all()
    assert (scene.actor._state.state, scene.actor._rows.failed) == (DONE, 1)
    scene.answers.clear()
    scene.ask(JobVerb.RETRY)
    scene.ask(JobVerb.OPEN, 3)
    scene.run_all()
    assert [each.reason for each in scene.answers] == [
        "1 failed row cannot run again: the option at_most_once forbids it for rows that may have started",
        "",
    ]
    assert scene.submitted() == {}


def test_an_at_most_once_row_whose_large_result_was_lost_is_not_run_again(scene: Scene) -> None:
    scene.run_all()
    ready = scene.submitted()[2]
    task_id = ObjectId(ready.spec.task_id)
    cast("Any", scene.actor)._large._awaited[task_id] = 7
    scene.bench.tell(scene.job, ObjectLost(task_id, "its agent was lost"))
    scene.run_all()
    assert scene.results()[2][0] == TaskStatus.MISSING_OBJECTS
    assert 2 not in scene.submitted()


def test_rows_of_other_jobs_are_not_marked(bench: Bench, tmp_path: Path) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""))
    scene.run_all()
    assert sorted(scene.submitted()) == list(range(ROWS))
    assert scene.marks_on_disk() == set()
    scene.folder.close()


def test_a_row_whose_result_is_still_being_written_is_not_submitted_again(bench: Bench, tmp_path: Path) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""))
    scene.run_all()
    submitted = scene.submitted()
    scene.run_row(submitted[5])
    scene.actor._end_and_requeue(6)  # as when its large result is lost
    scene.bench.run()
    assert 5 not in scene.submitted()
    scene.run_all()
    assert scene.results() == {5: (TaskStatus.SUCCESS, b"well")}
    scene.folder.close()


def test_rows_travel_as_ranges_once_their_duration_is_known(bench: Bench, tmp_path: Path) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""))
    try:
        actor = scene.actor
        actor._sizes = RowSizes(8)
        actor._sizes.learn(1, 100)
        scene.run_all()
        submitted = scene.submitted()
        assert {first: ready.spec.rows for first, ready in submitted.items()} == {0: 8, 8: 8, 16: 4}
        assert actor._rows.live.handed_out == ROWS
        whole, parted = submitted[0], submitted[8]
        statuses = bytes([0, TaskStatus.FAILED, *[0] * 6])
        for ready, failed in ((whole, statuses), (submitted[16], b"")):
            rows = ready.spec.rows
            blocks = pack([b"%d" % row for row in range(rows)])
            result = RunResult(
                ready.spec.task_id, 0, ready.attempt, TaskStatus.SUCCESS, blocks, 1, (), rows=rows, statuses=failed
            )
            bench.tell(ready.task, TaskAssigned(scene.worker_ref, {ready.task: ready.attempt}), result)
        early = RunResult(parted.spec.task_id, 0, parted.attempt, 0, pack([b"8", b"9"]), 1, (), rows=2, running=4)
        bench.tell(parted.task, TaskAssigned(scene.worker_ref, {parted.task: parted.attempt}), early)
        again = {first: (ready.spec.rows, ready.goes_first) for first, ready in scene.submitted().items()}
        assert again == {10: (0, True), 12: (4, True)}, "row 11 goes on"
        assert (sorted(actor._tasks), actor._tasks.ranges) == ([10, 11, 12], {12: 4})
        scene.run_all()
        bench.advance(WRITE_SECONDS)
        scene.run_all()
        found = scene.results()
        assert found == {
            **{row: (statuses[row], b"%d" % row) for row in range(8)},
            **{row: (0, b"%d" % row) for row in (8, 9)},
            **{16 + row: (0, b"%d" % row) for row in range(4)},
        }
        assert actor._rows.live.handed_out == ROWS - 14
        assert [(each.row, each.n_rows) for each in scene.record.results(0, ROWS, 2**40)] == [
            (0, 1),
            (1, 1),
            (2, 6),
            (8, 2),
            (16, 4),
        ]
        actor.end_tasks()
        returned = ReturnedRows(part_of(parted.spec, 6, 2))
        bench.tell(scene.job, RangeEnded(actor._context, part_of(parted.spec, 4, 4).task_id, [], None, [returned]))
        assert (12 in actor._tasks, actor._rows.live.handed_out) == (False, 4), (
            "the job was cancelled: its rows are open"
        )
    finally:
        scene.folder.close()


def test_rows_of_a_job_count_for_the_quota_of_its_owner_and_take_turns_with_clients(
    bench: Bench, tmp_path: Path
) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""), quota=5)
    try:
        owner = scene.owner
        session, session_ref = bench.recorder()
        scene.run_all()
        first = scene.submitted()
        assert (sorted(first), owner.tasks) == ([0, 1, 2, 3, 4], 5)
        assert all(ready.task is not None for ready in first.values())
        owner.wait(session_ref)
        for row in (0, 1):
            scene.run_row(first[row])
            scene.run_all()
        assert [type(each) for each in session.take()] == [RoomInQuota]
        assert (sorted(scene.submitted()), owner.tasks) == ([5], 4), "its turn, and that of the session"
        owner.wake()  # as a session does that needs no more of the quota
        scene.run_all()
        assert (sorted(scene.submitted()), owner.tasks) == ([6], 5)
        scene.services.directory.owners.of("tester", OwnerTerms(tasks=3))
        for row in (2, 3):
            scene.run_row(first[row])
            scene.run_all()
        assert (scene.submitted(), owner.tasks) == ({}, 3)
        scene.services.directory.owners.of("tester", OwnerTerms())
        scene.run_all()
        assert sorted(scene.submitted()) == list(range(7, ROWS))
        assert scene.actor._context.owner is owner
        scene.actor.actor_ref.stop(block=False)
        scene.run_all()
        assert owner.tasks == 0
    finally:
        scene.folder.close()


def test_after_a_restart_rows_at_agents_continue_and_other_rows_wait_for_the_quota(
    bench: Bench, tmp_path: Path
) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""), quota=3)
    try:
        scene.run_all()
        ids = [ready.spec.task_id for ready in scene.submitted().values()]
        assert len(ids) == 3
        scene.restart()
        scene.owner.tasks = 2  # of other clients, which were quicker
        ask = FindRuns(scene.owner.tag, scene.job, prefix=ids[0][:8])
        assert (scene.submitted(), scene.adoption.take(FindRuns)) == ({}, [ask])
        unknown = TaskId(ids[0][:8] + (10**6).to_bytes(8, "big"))
        scene.job.send(RunsAreHeld([*ids[:2], unknown]))
        scene.run_all()
        asked = [row_of(each.task_id) for each in scene.adoption.take(FindRun)]
        assert (asked, scene.owner.tasks) == ([0, 1], 4)
        scene.job.send(RunsAreHeld(ids[:2]))
        scene.run_all()
        assert scene.adoption.take(FindRun) == [], "these rows are open already"
        scene.job.send(NotHeld())
        scene.run_all()
        assert scene.adoption.take(FindRun) == [], "the quota is full"
        scene.owner.end(2)
        scene.run_all()
        assert [row_of(each.task_id) for each in scene.adoption.take(FindRun)] == [2]
        assert scene.owner.tasks == 3
    finally:
        scene.folder.close()


def test_a_job_over_the_quota_is_audited_and_starts_rows_when_the_quota_allows(bench: Bench, tmp_path: Path) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""), quota=2)
    try:
        scene.owner.tasks = 2  # of other clients
        scene.run_all()
        assert scene.submitted() == {}
        why = "its owner, tester, has 2 open tasks, and may have 2: rows wait"
        about = {"event": "over quota", "owner": "tester", "name": "job orders", "why": why}
        assert scene.audited == [about]
        scene.owner.end(1)
        scene.run_all()
        assert sorted(scene.submitted()) == [0]
    finally:
        scene.folder.close()


def test_rows_that_are_handed_out_and_rows_at_workers_are_shown_at_each_moment(bench: Bench, tmp_path: Path) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""))
    try:
        scene.run_all()
        (shown,) = scene.actor._catalog.seen.values()
        submitted = scene.submitted()
        assert (shown.live.handed_out, shown.live.running) == (ROWS, 0)
        for row in range(3):
            bench.tell(
                submitted[row].task, TaskAssigned(scene.worker_ref, {submitted[row].task: submitted[row].attempt})
            )
        assert (shown.live.handed_out, shown.live.running) == (ROWS, 3), "no row has ended since"
        bench.tell(submitted[0].task, RunRecalled(submitted[0].attempt))
        scene.end_row(submitted[1])
        scene.run_all()
        assert (shown.live.handed_out, shown.live.running) == (ROWS - 1, 1)
        info = scene.actor._state.info()
        assert (info["handed_out"], info["running"]) == (ROWS - 1, 1)
    finally:
        scene.folder.close()


def test_the_first_failed_rows_are_shown_in_row_order(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.jobs.job_state.FAILURES_SHOWN", 3)
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""))
    try:
        scene.run_all()
        submitted = scene.submitted()
        for row in (7, 2, 5, 6, 0):
            scene.run_row(submitted[row], TaskStatus.FAILED)
            bench.advance(WRITE_SECONDS)
            scene.run_all()
        (shown,) = scene.actor._catalog.seen.values()
        assert (shown.failed, [each.row for each in shown.failures]) == (5, [0, 2, 5])
    finally:
        scene.folder.close()


def test_objects_of_a_job_belong_to_its_owner(bench: Bench, tmp_path: Path) -> None:
    store, store_ref = bench.recorder()
    owner = Owner("alice")
    objects = [JobObject(b"i" * 16, InstructionKind.CREATE, "", (b"value",)), function_of(b"code")]
    store_objects(objects, "price", ClientId(b"c" * 16), owner, store_ref, store_ref)
    bench.run()
    assert [(each.payer, each.is_function) for each in store.take(StoreObject)] == [(owner, False), (None, True)]


def test_the_function_of_a_job_has_the_name_in_the_terms_unless_the_record_has_one(bench: Bench) -> None:
    store, store_ref = bench.recorder()
    objects = [
        JobObject(b"i" * 16, InstructionKind.CREATE, "", (b"value",)),
        function_of(b"nameless", ""),
        function_of(b"named", "f"),
    ]
    store_objects(objects, "price", ClientId(b"c" * 16), Owner("alice"), store_ref, store_ref)
    bench.run()
    assert [each.name for each in store.take(StoreObject)] == ["", "price", "f"]


def function_of(code: bytes, name: str = "f") -> JobObject:
    return JobObject(content_id([code]), InstructionKind.CREATE_FUNCTION, name, (code,))


@pytest.fixture
def repeatable(bench: Bench, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""), n_rows=4)
    scene.run_all()
    for row, ready in scene.submitted().items():
        status = TaskStatus.FAILED if row == 1 else TaskStatus.SUCCESS
        result = RunResult(ready.spec.task_id, 0, ready.attempt, status, b"%d" % row, 1, ())
        bench.tell(ready.task, TaskAssigned(scene.worker_ref, {ready.task: ready.attempt}), result)
    for _ in range(2):
        scene.run_all()
        bench.advance(WRITE_SECONDS)
    assert scene.actor._state.state == DONE
    yield scene
    scene.folder.close()


def test_reading_while_failed_rows_are_reopened_returns_each_row_under_its_own_number(repeatable: Scene) -> None:
    session = repeatable.bench.recorder()[1]
    for verb in (JobVerb.RETRY, JobVerb.READ):
        request = JobRequest(int(verb), verb, "orders")
        repeatable.bench.tell(repeatable.job, RequestJob(session, cast("Any", None), request, "tester"))
    repeatable.run_all()
    [answer] = [each for each in repeatable.answers if each.status == JobAnswerKind.ROWS]
    assert [(row, bytes(frames[0])) for row, _, frames in read_rows(answer)] == [(0, b"0")]


@pytest.mark.parametrize("flags", [JobReadFlags.ENDED_ONLY, JobReadFlags.ENDED_ONLY | JobReadFlags.BY_LOG])
def test_answers_with_large_values_have_a_bounded_size(scene: Scene, flags: int) -> None:
    scene.record.begin()
    scene.record.add_results([RowResult(row, 0, (bytes(2**20),)) for row in range(ROWS) if row != 7])
    scene.record.commit()
    scene.restart()
    first, found, n_answers = 0, [], 0
    while True:
        scene.ask(JobVerb.READ, flags, first)
        scene.run_all()
        answer = scene.answers.pop()
        assert sum(map(len, answer.frames)) <= READ_BYTES
        found += [end.row for end in read_rows(answer)]
        if answer.first == first:
            break
        first, n_answers = answer.first, n_answers + 1
    assert found == [row for row in range(ROWS) if row != 7]
    assert n_answers == ROWS * 2**20 // READ_BYTES


def test_a_retried_row_is_not_matched_to_an_old_run_of_it(repeatable: Scene) -> None:
    repeatable.restart()
    assert repeatable.actor._state.size_bytes == repeatable.record.size_bytes > 0
    repeatable.ask(JobVerb.RETRY)
    repeatable.run_all()
    assert repeatable.adoption.take(FindRun) == []
    assert list(repeatable.submitted()) == [1]


def test_a_row_retried_after_a_cancel_is_not_matched_to_an_old_run_of_it(repeatable: Scene) -> None:
    repeatable.restart()
    repeatable.ask(JobVerb.RETRY)
    repeatable.run_all()
    [ready] = repeatable.submitted().values()
    repeatable.ask(JobVerb.CANCEL)
    repeatable.run_all()
    repeatable.bench.tell(ready.task, TaskWithdrawn())
    repeatable.run_all()
    repeatable.ask(JobVerb.RETRY)
    repeatable.run_all()
    assert repeatable.adoption.take(FindRun) == []
    assert list(repeatable.submitted()) == [1]


def test_a_job_whose_scheduler_died_after_its_last_row_is_done(repeatable: Scene) -> None:
    repeatable.record.begin()
    repeatable.record.move(OPEN)
    repeatable.record.commit()
    repeatable.restart()
    assert repeatable.actor._state.state == DONE


def test_rows_travel_as_ranges_again_soon_after_a_restart(bench: Bench, tmp_path: Path) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""), n_rows=400)
    scene.restart()
    scene.actor._sizes = RowSizes(8)
    for ask in scene.adoption.take(FindRun):
        bench.tell(ask.task, NotHeld())
    bench.advance(HOLD_SECONDS)
    for ready in scene.submitted().values():
        scene.run_row(ready)
    scene.run_all()
    assert scene.adoption.take(FindRun) == []
    assert max(ready.spec.rows for ready in scene.submitted().values()) == 8
    scene.folder.close()


def test_a_retry_on_a_full_disk_is_refused_and_the_full_disk_is_logged_once(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_results: Any) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b""), n_rows=4)
    scene.run_all()
    monkeypatch.setattr(scene.record, "add_results", fail)
    scene.run_row(scene.submitted()[0])
    scene.ask(JobVerb.CANCEL)
    scene.ask(JobVerb.RETRY)
    for _ in range(5):
        scene.run_all()
        bench.advance(TRY_AGAIN_SECONDS)
    assert "database or disk is full" in scene.answers[-1].reason
    assert caplog.text.count("pauses: results cannot be written") == 1
    monkeypatch.undo()
    bench.advance(TRY_AGAIN_SECONDS)
    scene.run_all()
    assert sorted(scene.results(4)) == [0]
    scene.folder.close()


@pytest.mark.parametrize("order", [0, JobReadFlags.BY_LOG])
def test_a_map_runs_while_its_results_are_read_and_a_client_that_leaves_gets_the_answer(
    bench: Bench, tmp_path: Path, order: int
) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b"", is_attended=True), n_rows=4)
    session = bench.recorder()[1]

    def ask(number: int, verb: JobVerb, flags: int = 0) -> list[tuple[int, str]]:
        request = JobRequest(number, verb, "orders", 0, flags)
        scene.answers.clear()
        bench.tell(scene.job, RequestJob(session, cast("Any", None), request, "tester"))
        scene.run_all()
        return [(each.number, each.reason) for each in scene.answers if each.status != JobAnswerKind.WAITS]

    assert ask(1, JobVerb.READ, order) == []
    assert ask(2, JobVerb.ATTEND) == [(2, "")]
    assert scene.submitted() == {}
    assert ask(3, JobVerb.READ, order | JobReadFlags.ATTEND) == []
    assert sorted(scene.submitted()) == [0, 1, 2, 3]
    assert ask(4, JobVerb.LEAVE) == [(3, "its client no longer needs the job"), (4, "")]
    assert len(scene.balancer.take(WithdrawTask)) == 4
    scene.folder.close()


def test_a_damaged_row_that_cannot_run_again_is_read_as_failed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b"", is_attended=True), n_rows=4)
    scene.ask(JobVerb.READ, JobReadFlags.ATTEND, first=4)
    scene.run_all()
    for ready in scene.submitted().values():
        scene.run_row(ready)
    for _ in range(2):
        scene.run_all()
        bench.advance(WRITE_SECONDS)
    scene.record.begin()
    scene.record._connection.execute("UPDATE results SET sums = 0 WHERE row = 1")
    scene.record.commit()

    def fail(_record: JobRecord, _rows: list[int]) -> list[int]:
        raise OSError("the disk is gone")

    monkeypatch.setattr(JobRecord, "reopen_rows", fail)
    position, found = 0, dict[int, int]()
    for _ in range(3):
        scene.ask(JobVerb.READ, JobReadFlags.BY_LOG, position)
        scene.run_all()
        position = scene.answers[-1].first
        found |= {end.row: end.status for end in read_rows(scene.answers[-1])}
    assert found == {0: 0, 1: TaskStatus.MISSING_OBJECTS, 2: 0, 3: 0}
    assert (scene.actor._state.rows.done, scene.actor._state.rows.failed) == (3, 1)
    scene.folder.close()


def test_a_read_before_a_forget_is_answered_with_the_existing_rows(repeatable: Scene) -> None:
    session = repeatable.bench.recorder()[1]
    for number, verb in enumerate((JobVerb.READ, JobVerb.FORGET)):
        request = JobRequest(number, verb, "orders")
        repeatable.bench.tell(repeatable.job, RequestJob(session, cast("Any", None), request, "tester"))
    repeatable.run_all()
    assert [each.status for each in repeatable.answers] == [JobAnswerKind.ROWS, JobAnswerKind.KNOWN]


def test_a_local_cluster_does_not_wait_for_runs_of_an_earlier_scheduler(bench: Bench, tmp_path: Path) -> None:
    scene = Scene(bench, tmp_path / "jobs")
    scene.run_all()
    scene.assign(scene.submitted()[2])
    scene.run_all()
    scene.restart(is_shared=True)
    scene.run_all()
    assert scene.adoption.take(FindRun) == []
    assert sorted(scene.submitted()) == [row for row in range(ROWS) if row != 2]
    assert scene.results()[2][0] == TaskStatus.NOT_FOUND
    scene.folder.close()


def test_a_retry_of_a_job_without_failures_leaves_it_done(repeatable: Scene) -> None:
    repeatable.record.begin()
    repeatable.record.reopen_failed()
    repeatable.record.add_results([RowResult(1, 0, (b"1",))])
    repeatable.record.commit()
    repeatable.restart()
    repeatable.ask(JobVerb.RETRY)
    repeatable.run_all()
    assert repeatable.actor._state.state == DONE


def test_a_job_whose_record_lacks_a_result_stops_and_gives_the_reason(repeatable: Scene) -> None:
    repeatable.record.begin()
    repeatable.record.reopen_failed()
    repeatable.record.move(OPEN)
    repeatable.record.commit()
    repeatable.restart()
    repeatable.record._ranges.done -= 1  # as after a damaged key of a row
    repeatable.ask(JobVerb.SHOW, amount=AT_END)
    for ready in repeatable.submitted().values():
        repeatable.run_row(ready)
    repeatable.run_all()
    assert repeatable.answers
    assert (repeatable.actor._state.state, repeatable.actor._state.reason) == (STOPPED, INCONSISTENT)


class Life:
    """A job whose scheduler is killed at any moment, and its clients.

    Args:
        chance: decides what happens.
    """

    n_rows = 250

    def __init__(self, bench: Bench, place: Path, chance: random.Random) -> None:
        self.scene = Scene(bench, place, replace(TERMS, options=b""), self.n_rows)
        self.chance, self.session = chance, bench.recorder()[1]
        self.open: dict[int, TaskReady] = {}
        """tasks that workers have, by first row"""
        self.received_rows: dict[int, tuple[int, bytes]] = {}
        """results that clients have received"""
        self.position = 0
        """where a client continues that reads the log, whichever scheduler has made it"""
        self.logged: set[int] = set()
        """rows that this client has received"""
        self.n_runs = self.n_deaths = self.n_ranges = 0

    def settle(self) -> None:
        """Handle all messages of this moment, without the job writer."""
        self.scene.bench.run()
        for ask in self.scene.adoption.take(FindRun):
            self.scene.bench.tell(ask.task, NotHeld())
        for ready in self.scene.balancer.take(TaskReady):
            rows = self.rows_of(ready)
            held = {row for each in self.open.values() for row in self.rows_of(each)}
            assert not held.intersection(rows), "a row was submitted twice at a time"
            known = [row for row in rows if row in self.received_rows and not self.received_rows[row][0]]
            assert not known, f"rows {known} were acknowledged, and were submitted again"
            self.open[rows[0]] = ready
            self.n_ranges += len(rows) > 1
        for answer in self.scene.answers:
            self.receive(answer)
        self.scene.answers.clear()

    def rows_of(self, ready: TaskReady) -> range:
        first = row_of(ready.spec.task_id)
        return range(first, first + max(1, ready.spec.rows))

    def receive(self, answer: JobResponse) -> None:
        for row, status, frames in read_rows(answer) if answer.status == JobAnswerKind.ROWS else ():
            received = (status, bytes(frames[0]))
            assert self.received_rows.setdefault(row, received) == received, "an acknowledged result has changed"
            if answer.number == JobReadFlags.BY_LOG:
                self.logged.add(row)
        if answer.status == JobAnswerKind.ROWS and answer.number == JobReadFlags.BY_LOG:
            self.position = answer.first

    def ask(self, verb: JobVerb, first: int = 0, flags: int = 0) -> None:
        request = JobRequest(flags, verb, "orders", first, flags)
        self.scene.bench.tell(self.scene.job, RequestJob(self.session, cast("Any", None), request, "tester"))

    def run_one(self) -> None:
        if not self.open:
            return
        ready = self.open.pop(self.chance.choice(sorted(self.open)))
        spec, rows = ready.spec, self.rows_of(ready)
        self.n_runs += len(rows)
        statuses = [TaskStatus.FAILED if self.chance.random() < 0.02 else TaskStatus.SUCCESS for _ in rows]
        blocks = [b"%d of run %d" % (row, self.n_runs) for row in rows]
        ends = (TaskStatus.SUCCESS, pack(blocks)) if spec.rows else (statuses[0], blocks[0])
        submitted = bytes(statuses) if spec.rows and any(statuses) else b""
        result = RunResult(
            spec.task_id, 0, ready.attempt, *ends, 10 * len(rows), (), rows=spec.rows, statuses=submitted
        )
        self.scene.bench.tell(ready.task, TaskAssigned(self.scene.worker_ref, {ready.task: ready.attempt}), result)

    def crash(self) -> None:
        """Kill the scheduler: pending orders of the job writer are lost."""
        self.n_deaths += 1
        self.open.clear()
        self.scene.answers.clear()
        self.scene.folder.close()
        self.scene.folder = JobFolder(self.scene.place)
        self.scene.balancer.take()
        self.scene.adoption.take()
        place = self.scene.folder.place_of("tester", "orders")
        self.scene.start(self.scene.folder.open(place), is_new=False)

    def step(self) -> None:
        what = self.chance.choices(
            ("run", "clerk", "tick", "ask", "retry", "back", "crash"), (40, 20, 20, 10, 1, 3, 2)
        )[0]
        if what == "run":
            self.run_one()
        elif what == "clerk":
            self.scene.writer.work()
        elif what == "tick":
            self.scene.bench.advance(WRITE_SECONDS)
        elif what == "ask":
            first = self.chance.randrange(self.n_rows)
            reads = ((first, 0), (0, JobReadFlags.ENDED_ONLY), (self.position, JobReadFlags.BY_LOG))
            self.ask(JobVerb.READ, *self.chance.choice(reads))
        elif what == "retry":
            self.scene.writer.work()
            self.settle()  # answers to earlier requests
            self.received_rows = {row: received for row, received in self.received_rows.items() if not received[0]}
            self.ask(JobVerb.RETRY)
            self.scene.writer.work()
        elif what == "back":
            self.scene.bench.advance(self.scene.services.config.client_timeout_seconds)
        else:
            self.crash()
        self.settle()


@pytest.mark.parametrize("seed", range(12))
def test_no_acknowledged_row_is_submitted_again_whenever_the_scheduler_dies(
    bench: Bench, tmp_path: Path, seed: int
) -> None:
    life = Life(bench, tmp_path / "jobs", random.Random(seed))
    for _ in range(600):
        life.step()
    for _ in range(3000):  # no more deaths
        if life.scene.actor._state.state == DONE:
            break
        life.run_one()
        life.scene.writer.work()
        bench.advance(WRITE_SECONDS)
        life.settle()
    life.scene.run_all()
    ended = life.scene.results(life.n_rows)
    assert sorted(ended) == list(range(life.n_rows))
    assert {row: ended[row] for row in life.received_rows} == life.received_rows
    record = JobRecord.open(life.scene.record.folder, writing=False)
    assert record.problems() == []
    record.close()
    position = -1
    while position != life.position:
        position = life.position
        life.ask(JobVerb.READ, position, JobReadFlags.BY_LOG)
        life.scene.run_all()
        life.settle()
    assert life.logged == {*range(life.n_rows)}
    assert life.n_deaths
    assert life.n_ranges
    life.scene.folder.close()


def test_requests_are_answered_while_a_job_cannot_be_removed(
    repeatable: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_record: JobRecord) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(repeatable.folder, "remove", fail)
    session = repeatable.bench.recorder()[1]
    for number, verb in enumerate((JobVerb.FORGET, JobVerb.SHOW)):
        request = JobRequest(number, verb, "orders")
        repeatable.bench.tell(repeatable.job, RequestJob(session, cast("Any", None), request, "tester"))
    repeatable.run_all()
    answers = {each.number: each for each in repeatable.answers}
    assert (answers[0].status, answers[0].reason) == (JobAnswerKind.REFUSED, "the disk is gone")
    assert answers[1].status == JobAnswerKind.KNOWN
    assert repeatable.actor._state.state == DONE


REVOKED, EXPIRED = Lockout("its key was revoked", False), Lockout("its key has expired", True)


@pytest.mark.parametrize("lockout", [REVOKED, EXPIRED], ids=["revoked", "expired"])
@pytest.mark.parametrize("door", [BY_KEY, BY_FILE, ""])
def test_locking_out_an_owner_pauses_only_jobs_that_were_submitted_with_a_key(
    bench: Bench, tmp_path: Path, door: str, lockout: Lockout
) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b"", door=door))
    scene.run_all()
    assert set(scene.submitted()) == {*range(ROWS)}
    scene.lockouts["tester"] = lockout
    bench.tell(scene.job, OwnersChanged())
    scene.run_all()
    withdrawn = len(scene.balancer.take(WithdrawTask))
    assert withdrawn == (ROWS if door == BY_KEY else 0)
    summary = scene.actor._state.summary()
    assert (summary.state, summary.reason) == (("paused", lockout.reason) if door == BY_KEY else ("open", ""))
    scene.restart()
    assert len(scene.adoption.take(FindRun)) == (0 if door == BY_KEY else ROWS), "and so at the next start"
    assert scene.actor._state.summary().state == summary.state
    assert scene.record.state == "open"
    del scene.lockouts["tester"]
    bench.tell(scene.job, OwnersChanged())
    scene.run_all()
    assert len(scene.adoption.take(FindRun)) == (ROWS if door == BY_KEY else 0)
    assert scene.actor._state.summary().state == "open"


def test_a_paused_job_is_transferred_after_its_running_rows_have_ended(bench: Bench, tmp_path: Path) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b"", door=BY_KEY))
    scene.run_all()
    first, *_ = scene.submitted().values()
    bench.tell(first.task, TaskAssigned(scene.worker_ref, {first.task: first.attempt}))
    scene.lockouts["tester"] = EXPIRED
    bench.tell(scene.job, OwnersChanged())
    for withdrawn in scene.balancer.take(WithdrawTask):
        bench.tell(withdrawn.task, TaskWithdrawn())
    scene.run_all()
    request = JobRequest(7, JobVerb.GIVE, "orders", body=b"other")
    bench.tell(scene.job, RequestJob(scene.worker_ref, cast("Any", None), request, "tester"))
    scene.run_all()
    assert [each.status for each in scene.answers] == [JobAnswerKind.WAITS]
    result = RunResult(first.spec.task_id, 0, first.attempt, TaskStatus.SUCCESS, b"done", 1, ())
    bench.tell(first.task, result)
    scene.run_all()
    bench.advance(WRITE_SECONDS)
    scene.run_all()
    assert scene.answers[-1].status == JobAnswerKind.KNOWN
    assert scene.folder.place_of("other", "orders").is_dir()


def test_a_client_that_waits_for_a_paused_job_is_notified_once_that_it_continues(bench: Bench, tmp_path: Path) -> None:
    scene = Scene(bench, tmp_path / "jobs", replace(TERMS, options=b"", door=BY_KEY))
    scene.run_all()
    scene.lockouts["tester"] = REVOKED
    bench.tell(scene.job, OwnersChanged())
    scene.ask(JobVerb.SHOW, amount=1)
    scene.run_all()
    del scene.lockouts["tester"]
    for _ in range(3):
        bench.tell(scene.job, OwnersChanged())
        scene.run_all()
    assert [(each.status, each.reason) for each in scene.answers] == [
        (JobAnswerKind.WAITS, REVOKED.reason),
        (JobAnswerKind.WAITS, ""),
    ]
    scene.folder.close()


def test_rows_of_versions_are_counted_only_on_request(repeatable: Scene) -> None:
    for amount in (0, 2):
        repeatable.record.begin()
        repeatable.record.add_version(repeatable.record.terms)
        repeatable.record.commit()
        repeatable.answers.clear()
        repeatable.ask(JobVerb.SHOW, amount)
        repeatable.run_all()
        assert ("versions" in json.loads(repeatable.answers[0].body)) is bool(amount)
