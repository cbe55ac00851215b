"""EngineWorker: which tasks it sends to the host, and when it sends more than one."""

from __future__ import annotations

import pytest

from scaler.executors.engines.call import ended
from scaler.executors.engines.host_proxy import DropHostObjects, DropRun, SubmitRun
from scaler.executors.engines.worker import EngineWorker
from scaler.executors.inline.thread import TaskEnded
from scaler.executors.messages import CachedObject, ForgetObjects, NeedObject, ObjectFound, ReportRuns, WorkersView
from scaler.ids import IdSource, ObjectId, TaskId
from scaler.kit import Dispatcher
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.priority import of_child
from scaler.wire.messages.worker import ProcessorNews, RunBlocked, RunCancel, RunResult, RunTask, RunUnblocked
from tests.support.recorder import Recorder
from tests.support.virtual_clock import VirtualClock

FUNCTION = ObjectId(b"f" * 16)


class Bench:
    def __init__(self, is_deeper_first: bool = False) -> None:
        self.dispatcher = Dispatcher(VirtualClock())
        self.link, self.cache, self.host = Recorder(), Recorder(), Recorder()
        link, cache, host = (self.dispatcher.spawn(each) for each in (self.link, self.cache, self.host))
        self.worker = self.dispatcher.spawn(EngineWorker(link, cache, host, is_deeper_first))
        self._new_id = IdSource()
        self._attempts = 0

    def run(self, priority: int = 0) -> RunTask:
        self._attempts += 1
        task = RunTask(TaskId(self._new_id()), 0, self._attempts, FUNCTION, b"", b"", priority)
        self.worker.send(Batch[RunTask]([task]))
        self.go_on()
        return task

    def go_on(self) -> None:
        self.dispatcher.run(1000)
        for need in self.cache.take(NeedObject):
            need.worker.send(ObjectFound(CachedObject(need.object_id, [b"", b"it"], None)))
            self.dispatcher.run(1000)

    def handed(self) -> list[RunTask]:
        self.hands = self.host.take(SubmitRun)
        return [hand.task for hand in self.hands]

    def reported(self, kind: type) -> list[int]:
        """Return the attempts in the messages of this type to the link."""
        return [item.attempt for batch in self.link.take(Batch.__class_getitem__(kind)) for item in batch]


def test_one_task_at_a_time_is_sent_to_the_host() -> None:
    bench = Bench()
    first, second = bench.run(), bench.run()
    assert bench.handed() == [first]
    [hand] = bench.hands
    assert hand.values.frames(FUNCTION) == [b"", b"it"]
    bench.worker.send(TaskEnded(hand.runner, ended(first, TaskStatus.SUCCESS, b"done")))
    bench.go_on()
    assert bench.reported(RunResult) == [first.attempt]
    assert bench.handed() == [second]


def test_the_task_in_the_engine_is_reported_as_running() -> None:
    bench = Bench()
    first, second = bench.run(), bench.run()

    def reported() -> list[RunTask | None]:
        view = WorkersView()
        bench.worker.notify(ReportRuns(view))
        bench.go_on()
        assert {(each.pid, each.is_waiting) for each in view.processes} == {(0, False)}
        return [each.task for each in view.processes]

    assert reported() == [first]
    bench.handed()
    bench.worker.send(TaskEnded(bench.hands[0].runner, ended(first, TaskStatus.SUCCESS, b"done")))
    bench.go_on()
    assert reported() == [second]


def test_another_task_runs_while_the_client_of_a_task_only_waits() -> None:
    bench = Bench()
    parent, child = bench.run(), bench.run()
    assert bench.handed() == [parent]
    bench.worker.send(Batch[ProcessorNews]([ProcessorNews(parent.attempt, 1, 0)]))
    bench.go_on()
    assert bench.reported(RunBlocked) == [parent.attempt]
    assert bench.handed() == [child]
    bench.worker.send(Batch[ProcessorNews]([ProcessorNews(parent.attempt, 1, 1)]))
    bench.go_on()
    assert bench.reported(RunUnblocked) == [parent.attempt]


def test_a_report_about_an_unknown_run_is_ignored() -> None:
    bench = Bench()
    bench.run()
    bench.worker.send(Batch[ProcessorNews]([ProcessorNews(77, 1, 0)]))
    bench.go_on()
    assert bench.reported(RunBlocked) == []


@pytest.mark.parametrize("is_deeper_first", [False, True])
def test_a_deeper_task_starts_at_once_if_the_engine_requests_that(is_deeper_first: bool) -> None:
    bench = Bench(is_deeper_first)
    parent, sibling, child = bench.run(), bench.run(), bench.run(of_child(0))
    assert bench.handed() == ([parent, child] if is_deeper_first else [parent])
    assert sibling.priority == 0


def test_a_cancelled_run_is_answered_at_once_and_dropped_by_the_host() -> None:
    bench = Bench()
    first, second = bench.run(), bench.run()
    bench.worker.send(Batch[RunCancel]([RunCancel(first.task_id, 0, first.attempt)]))
    bench.go_on()
    assert bench.reported(RunResult) == [first.attempt]
    assert [drop.key for drop in bench.host.take(DropRun)] == [(first.task_id, first.attempt)]
    assert bench.handed() == [first, second]


def test_deleted_objects_are_dropped_at_the_host() -> None:
    bench = Bench()
    bench.run()
    bench.worker.send(ForgetObjects([FUNCTION, ObjectId(b"o" * 16)]))
    bench.go_on()
    assert [set(drop.object_ids) for drop in bench.host.take(DropHostObjects)][-1] == {FUNCTION}
