"""InlineWorker: which task runs next, and how tasks are answered, with recorders instead of threads."""

from __future__ import annotations

from typing import Any, cast

import pytest

from scaler.executors.inline.thread import (
    PreparedTask,
    TaskEnded,
    TaskThread,
    ThreadBlocked,
    ThreadResumable,
    ThreadUnblocked,
)
from scaler.executors.inline.worker import InlineWorker
from scaler.executors.messages import (
    CachedObject,
    CollectionDue,
    ForgetObjects,
    NeedObject,
    ObjectFound,
    ReportRuns,
    RunsNotHere,
    WorkersView,
)
from scaler.ids import IdSource, ObjectId, TaskId
from scaler.kit import ActorRef, Dispatcher
from scaler.pickling.serialization import DefaultSerializer, to_frames
from scaler.processor.execution.values import LoadedValues
from scaler.shared_memory import SharedBlock
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RecallRequest, RunCancel, RunResult, RunTask
from tests.support.recorder import Recorder
from tests.support.virtual_clock import VirtualClock

FUNCTION, ONE = ObjectId(b"f" * 16), ObjectId(b"1" * 16)
DEFAULT = DefaultSerializer()


class Thread:
    """A stand-in for a thread; it acts when the test tells it to."""

    def __init__(self) -> None:
        self.prepared: PreparedTask | None = None
        self.permitted: list[int] = []
        self.done: list[str] = []

    def hand(self, prepared: PreparedTask) -> None:
        assert self.prepared is None
        self.prepared = prepared

    def permit(self, number: int) -> None:
        self.permitted.append(number)

    def cancel(self) -> None:
        self.done.append("children cancelled")

    def end(self) -> None:
        self.done.append("ended")

    def join(self) -> None:
        self.done.append("joined")


class Bench:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.dispatcher = Dispatcher(self.clock)
        self.link, self.cache = Recorder(), Recorder()
        self.threads: list[Thread] = []
        link, cache = self.dispatcher.spawn(self.link), self.dispatcher.spawn(self.cache)
        self.worker = self.dispatcher.spawn(InlineWorker(link, cache, self._new_thread))
        self._new_id = IdSource()
        self.asked: list[ObjectId] = []
        self.stored: dict[ObjectId, CachedObject] = {}

    def _new_thread(self, _worker: ActorRef) -> TaskThread:
        self.threads.append(Thread())
        return cast("TaskThread", self.threads[-1])

    def tell(self, message: Any) -> None:
        self.worker.send(message)
        assert self.dispatcher.run()
        for need in self.cache.take(NeedObject):
            self.asked.append(need.object_id)
            empty = CachedObject(need.object_id, [b""], None)
            need.worker.send(ObjectFound(self.stored.get(need.object_id, empty)))
        assert self.dispatcher.run()
        assert self.dispatcher.failures == 0

    def task(self, priority: int = 0, object_ids: bytes = b"") -> RunTask:
        task = RunTask(TaskId(self._new_id()), 3, 1, FUNCTION, b"", object_ids, priority)
        self.tell(Batch[RunTask]([task]))
        return task

    def cancel(self, task: RunTask) -> None:
        self.tell(Batch[RunCancel]([RunCancel(task.task_id, task.worker, task.attempt)]))

    def values_of(self, task: RunTask) -> LoadedValues:
        prepared = self.of(task).prepared
        assert prepared is not None
        return prepared.values

    def of(self, task: RunTask) -> Thread:
        [thread] = [each for each in self.threads if each.prepared is not None and each.prepared.task is task]
        return thread

    def runs(self, task: RunTask) -> bool:
        return any(each.prepared is not None and each.prepared.task is task for each in self.threads)

    def report(self, kind: Any, task: RunTask) -> None:
        thread = self.of(task)
        assert thread.prepared is not None
        self.tell(kind(thread, thread.prepared.number))

    def finish(self, task: RunTask) -> None:
        thread, prepared = self.of(task), None
        thread.prepared = prepared
        result = RunResult(task.task_id, task.worker, task.attempt, TaskStatus.SUCCESS, b"", 0, ())
        self.tell(TaskEnded(cast("TaskThread", thread), result))

    def reports(self) -> list[tuple[str, bytes]]:
        words = []
        for message in self.link.messages:
            for item in message:
                word = TaskStatus(item.status).name if type(item) is RunResult else type(item).__name__
                words.append((word, item.task_id))
        self.link.messages.clear()
        return words


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_one_thread_runs_all_tasks_that_do_not_wait(bench: Bench) -> None:
    first, second = bench.task(), bench.task()
    assert (bench.runs(first), bench.runs(second)) == (True, False)
    bench.finish(first)
    bench.finish(second)
    assert bench.reports() == [("SUCCESS", first.task_id), ("SUCCESS", second.task_id)]
    assert len(bench.threads) == 1


def test_a_worker_reports_the_task_that_it_executes_and_those_that_are_blocked(bench: Bench) -> None:
    def reported() -> list[tuple[int, RunTask | None, float, bool]]:
        view = WorkersView()
        bench.worker.notify(ReportRuns(view))
        assert bench.dispatcher.run()
        return [(each.worker, each.task, each.ran_seconds, each.is_waiting) for each in view.processes]

    assert reported() == []
    parent = bench.task()
    child = bench.task()
    bench.clock.advance(2.0)
    assert reported() == [(3, parent, 2.0, False)], "the queued task does not run"
    bench.report(ThreadBlocked, parent)
    assert reported() == [(3, parent, 2.0, True), (3, child, 0.0, False)]
    bench.cancel(child)
    assert reported() == [(3, parent, 2.0, True)]


def test_a_second_thread_runs_tasks_while_a_task_is_blocked(bench: Bench) -> None:
    parent = bench.task()
    child = bench.task(1)
    bench.report(ThreadBlocked, parent)
    assert bench.reports() == [("RunBlocked", parent.task_id)]
    assert bench.runs(child)
    bench.report(ThreadResumable, parent)
    assert bench.of(parent).permitted == []
    bench.finish(child)
    assert bench.reports() == [("SUCCESS", child.task_id), ("RunUnblocked", parent.task_id)]
    assert len(bench.of(parent).permitted) == 1


def test_resumable_tasks_precede_queued_tasks_and_the_deepest_is_first(bench: Bench) -> None:
    parents = [bench.task() for _ in range(1)]
    bench.report(ThreadBlocked, parents[0])
    parents.append(bench.task(1))
    bench.report(ThreadBlocked, parents[1])
    runs, behind = bench.task(2), bench.task(7)
    for parent in parents:
        bench.report(ThreadResumable, parent)
    bench.reports()
    bench.finish(runs)
    assert bench.reports()[1:] == [("RunUnblocked", parents[1].task_id)]
    bench.finish(parents[1])
    assert bench.reports()[1:] == [("RunUnblocked", parents[0].task_id)]
    assert not bench.runs(behind)
    bench.finish(parents[0])
    assert bench.runs(behind)


def test_a_task_whose_wait_timed_out_resumes_beside_the_running_task(bench: Bench) -> None:
    parent, child = bench.task(), bench.task()
    bench.report(ThreadBlocked, parent)
    bench.report(ThreadUnblocked, parent)
    assert bench.reports() == [("RunBlocked", parent.task_id), ("RunUnblocked", parent.task_id)]
    behind = bench.task()
    bench.finish(child)
    assert not bench.runs(behind)  # the parent has the slot
    bench.finish(parent)
    assert bench.runs(behind)


def test_a_cancelled_task_is_answered_once_and_the_next_task_runs(bench: Bench) -> None:
    unwanted, behind = bench.task(), bench.task()
    thread = bench.of(unwanted)
    bench.cancel(unwanted)
    bench.cancel(unwanted)
    assert bench.reports() == [("CANCELED", unwanted.task_id)]
    assert thread.done == ["children cancelled"]
    assert bench.runs(behind)
    bench.finish(unwanted)
    bench.finish(behind)
    assert bench.reports() == [("SUCCESS", behind.task_id)]


def test_the_link_is_notified_of_runs_that_the_worker_does_not_have(bench: Bench) -> None:
    runs, started, ended = bench.task(), bench.task(), bench.task(7)
    bench.cancel(runs)
    bench.finish(runs)
    bench.finish(ended)
    bench.link.messages.clear()
    for task in (ended, started):
        bench.tell(Batch[RecallRequest]([RecallRequest(task.task_id, task.worker, task.attempt)]))
        bench.cancel(task)
    news = bench.link.take(RunsNotHere)
    assert [[run.task_id for run in each.runs] for each in news] == [[ended.task_id]] * 2
    assert bench.reports() == [("CANCELED", started.task_id)]


def test_a_cancelled_task_resumes_without_a_slot_to_end(bench: Bench) -> None:
    asking, waiting = bench.task(), bench.task()
    bench.report(ThreadBlocked, asking)
    bench.report(ThreadBlocked, waiting)
    runs = bench.task()
    bench.report(ThreadResumable, asking)
    for task in (asking, waiting):
        bench.cancel(task)
    assert bench.of(asking).permitted
    bench.report(ThreadResumable, waiting)
    assert bench.of(waiting).permitted
    bench.report(ThreadBlocked, waiting)
    bench.report(ThreadUnblocked, waiting)
    assert [word for word, _ in bench.reports()] == ["RunBlocked", "RunBlocked", "CANCELED", "CANCELED"]
    bench.finish(runs)


def test_reports_about_an_ended_task_are_ignored(bench: Bench) -> None:
    first, second = bench.task(), bench.task()
    thread = cast("TaskThread", bench.of(first))
    bench.finish(first)
    bench.reports()
    for kind in (ThreadBlocked, ThreadUnblocked):
        bench.tell(kind(thread, 1))
    assert bench.reports() == []
    assert bench.runs(second)


def test_all_but_two_of_the_extra_threads_end(bench: Bench) -> None:
    tasks = []
    for _ in range(5):
        tasks.append(bench.task())
        bench.report(ThreadBlocked, tasks[-1])
    for task in tasks:
        bench.report(ThreadUnblocked, task)
        bench.finish(task)
    assert [thread.done for thread in bench.threads] == [[], [], ["ended"], ["ended"], ["ended"]]


def test_the_end_of_a_worker_waits_only_for_idle_threads(bench: Bench) -> None:
    waits, runs = bench.task(), bench.task()
    bench.report(ThreadBlocked, waits)
    running, idle = bench.of(runs), bench.of(waits)
    bench.report(ThreadUnblocked, waits)
    bench.finish(waits)
    bench.dispatcher.end(bench.worker)
    assert (running.done, idle.done) == (["ended"], ["ended", "joined"])


def test_an_object_in_shared_memory_can_be_read(bench: Bench) -> None:
    value = [b"x" * 100_000]
    bench.stored[ONE] = CachedObject(ONE, (), SharedBlock.of(to_frames(DEFAULT, value)))
    assert bench.values_of(bench.task(object_ids=ONE)).stored(DEFAULT, ONE) == value


def test_a_forgotten_object_stays_available_to_started_tasks(bench: Bench) -> None:
    values = []
    for value in (7, 8):
        bench.stored[ONE] = CachedObject(ONE, [bytes(frame) for frame in to_frames(DEFAULT, value)], None)
        task = bench.task(object_ids=ONE)
        values.append(bench.values_of(task))
        bench.finish(task)
        bench.tell(ForgetObjects([ONE, ObjectId(b"?" * 16)]))
    assert bench.asked == [FUNCTION, ONE, ONE]
    assert [each.stored(DEFAULT, ONE) for each in values] == [7, 8]


def test_a_collection_drops_objects_unused_since_the_last_collection(bench: Bench) -> None:
    def collect_and_run() -> None:
        bench.tell(CollectionDue())
        bench.finish(bench.task())

    bench.finish(bench.task(object_ids=ONE))
    collect_and_run()
    assert bench.asked == [FUNCTION, ONE]
    collect_and_run()
    bench.task(object_ids=ONE)
    assert bench.asked == [FUNCTION, ONE, ONE]
