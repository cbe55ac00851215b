"""One task, from ready to its end; recorders play all other actors."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.actors.messages.adoption import AdoptRun, NotHeld, RunFound
from scaler.actors.messages.monitor import ReportTask
from scaler.actors.messages.objects import ReleaseObjects, UseObjects
from scaler.actors.messages.tasks import (
    BalancerRestarted,
    CancelOrphan,
    CancelRun,
    CancelTask,
    ExplainRun,
    ExplainTask,
    RecallRun,
    RunLost,
    RunRecalled,
    TaskAssigned,
    TaskDone,
    TaskNotWaiting,
    TaskReady,
    TaskRefused,
    TaskWithdrawn,
    WithdrawTask,
)
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.retries import NOT_RETRIED
from scaler.actors.tasks.task import TaskActor
from scaler.actors.vocabulary.events import SEEN, TaskMoved
from scaler.actors.vocabulary.task_states import CANCELING, DELAYED, READY, RUNNING, WITHDRAWING
from scaler.ids import ClientId, ObjectId, TaskId
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack, row_ids
from scaler.wire.messages.worker import RunResult
from tests.support.bench import Bench
from tests.support.services import services

TASK_ID = TaskId(b"t" * 16)
CLIENT_ID = ClientId(b"c" * 16)
OBJECT_IDS = b"o" * 16 + b"p" * 16
PLAIN = Task(TASK_ID, ObjectId(b"f" * 16), b"arguments", b"")
WITH_OBJECTS = Task(TASK_ID, ObjectId(b"f" * 16), b"arguments", OBJECT_IDS)


def result(
    attempt: int, status: TaskStatus = TaskStatus.SUCCESS, payload: bytes = b"42", frames: Any = ()
) -> RunResult:
    return RunResult(TASK_ID, 0, attempt, status, payload, 1000, frames)


class Scene:
    """A task and its neighbours."""

    def __init__(self, bench: Bench, spec: Task = PLAIN, is_back: bool = False) -> None:
        self.bench = bench
        self.adoption, adoption_ref = bench.recorder()
        adoption = adoption_ref if is_back else None
        self.session, session_ref = bench.recorder()
        self.balancer, balancer_ref = bench.recorder()
        self.store, store_ref = bench.recorder()
        self.worker, self.worker_ref = bench.recorder()
        parts = services(balancer_ref, store_ref)
        self.events = parts.events
        self.actor = TaskActor(spec, ClientContext(parts, session_ref, CLIENT_ID, adoption=adoption))
        self.task = bench.dispatcher.spawn(self.actor, session_ref)
        bench.run()

    def tell(self, *messages: Any) -> None:
        self.bench.tell(self.task, *messages)

    def assign(self, attempt: int) -> None:
        self.tell(TaskAssigned(self.worker_ref, {self.task: attempt}))

    def run_and(self, attempt: int, *news: Any) -> None:
        self.assign(attempt)
        self.tell(*news)

    def end(self) -> TaskResult:
        (done,) = self.session.take()
        assert self.task.is_stopped()
        assert type(done) is TaskResult
        return done


@pytest.fixture
def scene(bench: Bench) -> Scene:
    return Scene(bench)


def test_a_new_task_is_ready_at_once(scene: Scene) -> None:
    assert scene.balancer.take() == [TaskReady(scene.task, PLAIN, 1, goes_first=False, is_new=True)]
    assert scene.store.take() == []


def test_a_task_that_finishes_reports_to_its_session_and_ends(scene: Scene) -> None:
    scene.run_and(1, result(1))
    assert scene.end() == TaskResult(TASK_ID, TaskStatus.SUCCESS, b"42", 0, duration_us=1000)


def test_a_large_result_is_announced_by_its_size(scene: Scene) -> None:
    scene.run_and(1, result(1, payload=b"", frames=[b"123", b"4567"]))
    (done,) = scene.session.take()
    assert done == TaskDone(
        TaskResult(TASK_ID, TaskStatus.SUCCESS, b"", 7, duration_us=1000),
        [b"123", b"4567"],
        scene.worker_ref,
        PLAIN.function_id,
    )


def test_a_task_that_raised_fails_with_the_exception_from_the_processor(scene: Scene) -> None:
    scene.run_and(1, result(1, TaskStatus.FAILED, b"ValueError"))
    assert scene.end() == TaskResult(TASK_ID, TaskStatus.FAILED, b"ValueError", 0)


@pytest.mark.parametrize("status", [TaskStatus.SUCCESS, TaskStatus.FAILED])
def test_profile_and_duration_of_a_task_are_reported_with_its_end(scene: Scene, status: TaskStatus) -> None:
    scene.run_and(1, RunResult(TASK_ID, 0, 1, status, b"42", 1000, (), b"profile"))
    duration_us = 0 if status else 1000
    assert scene.end() == TaskResult(TASK_ID, status, b"42", 0, b"profile", duration_us=duration_us)


def test_a_task_uses_its_objects_until_its_end(bench: Bench) -> None:
    scene = Scene(bench, WITH_OBJECTS)
    assert scene.store.take() == [UseObjects(OBJECT_IDS)]
    scene.run_and(1, result(1))
    assert scene.store.take() == [ReleaseObjects(OBJECT_IDS)]


def test_a_recalled_task_is_ready_again_and_not_counted_as_crashed(scene: Scene) -> None:
    for attempt in range(1, 9):
        scene.balancer.take()
        scene.run_and(attempt, RunRecalled(attempt))
        assert scene.balancer.take() == [TaskReady(scene.task, PLAIN, attempt + 1, goes_first=True)]
    scene.run_and(9, RunRecalled(8), result(9))
    assert scene.end().status == TaskStatus.SUCCESS


def test_a_task_recalled_while_it_is_being_cancelled_is_cancelled(scene: Scene) -> None:
    scene.run_and(1, CancelTask(), RunRecalled(1))
    assert scene.end().status == TaskStatus.CANCELED


def test_a_refused_task_fails_with_the_reason_of_the_balancer(scene: Scene) -> None:
    scene.tell(TaskRefused(1, "too many wait"))
    assert scene.end() == TaskResult(TASK_ID, TaskStatus.NO_WORKER, b"too many wait", 0)


def test_a_task_refused_while_it_is_being_cancelled_is_cancelled(scene: Scene) -> None:
    scene.tell(CancelTask(), TaskRefused(1, "too many wait"), TaskNotWaiting())
    assert scene.end().status == TaskStatus.CANCELED


def test_a_refusal_of_an_older_attempt_is_dropped(scene: Scene) -> None:
    scene.tell(BalancerRestarted(9), TaskRefused(1, "too many wait"))
    assert scene.actor.state is READY


def test_a_crashed_task_is_ready_again_before_other_tasks(scene: Scene) -> None:
    scene.balancer.take()
    scene.run_and(1, result(1, TaskStatus.PROCESSOR_DIED))
    assert scene.balancer.take() == [TaskReady(scene.task, PLAIN, 2, goes_first=True)]


@pytest.mark.parametrize("status", [TaskStatus.PROCESSOR_DIED, TaskStatus.OUT_OF_MEMORY])
def test_the_third_crash_is_the_last_and_names_the_attempts(scene: Scene, status: TaskStatus) -> None:
    for attempt in (1, 2, 3):
        scene.run_and(attempt, result(attempt, status, b"it died by signal 9"))
    assert scene.end() == TaskResult(TASK_ID, status, b"it died by signal 9 (attempt 3 of 3)", 0)


def test_a_worker_that_is_lost_while_the_task_runs_counts_as_a_crash(scene: Scene) -> None:
    for attempt in (1, 2, 3):
        scene.run_and(attempt, RunLost(attempt, "alpha", was_running=True))
    ended = scene.end()
    assert ended.status == TaskStatus.WORKER_DIED
    assert ended.payload == b"its worker alpha was lost (attempt 3 of 3)"


def test_a_task_that_was_only_queued_at_lost_workers_is_not_counted_as_crashed(scene: Scene) -> None:
    for attempt in range(1, 20):
        scene.run_and(attempt, RunLost(attempt, "alpha", was_running=False))
    assert scene.actor.state is READY


def in_transit(attempt: int) -> RunLost:
    return RunLost(attempt, "alpha", was_running=False, was_unacknowledged=True)


def test_a_task_that_was_in_transit_to_five_lost_agents_fails(scene: Scene) -> None:
    for attempt in range(1, 6):
        scene.run_and(attempt, in_transit(attempt))
    assert scene.end().payload == (
        b"its worker alpha was lost: 5 agents in a row were lost while it, or a value for it, was being sent to them"
    )


def test_a_task_is_ready_again_if_one_of_the_lost_agents_had_received_it(scene: Scene) -> None:
    for attempt in range(1, 5):
        scene.run_and(attempt, in_transit(attempt))
    scene.run_and(5, RunLost(5, "alpha", was_running=False))
    for attempt in range(6, 10):
        scene.run_and(attempt, in_transit(attempt))
    assert scene.actor.state is READY


@pytest.mark.parametrize("status", [TaskStatus.CANCELED, TaskStatus.NOT_FOUND, TaskStatus.NO_WORKER])
def test_a_task_that_its_worker_dropped_is_ready_again(scene: Scene, status: TaskStatus) -> None:
    scene.run_and(1, result(1, status))
    assert scene.actor.state is READY


def test_results_of_an_older_attempt_are_dropped(scene: Scene) -> None:
    scene.run_and(1, RunLost(1, "alpha", was_running=False))
    scene.run_and(2, result(1, payload=b"late"), RunLost(1, "alpha", was_running=True))
    assert scene.actor.state is RUNNING
    scene.tell(result(2, payload=b"right"))
    assert scene.end().payload == b"right"


def test_a_late_result_of_an_ended_run_is_dropped(scene: Scene) -> None:
    scene.run_and(1, result(1, TaskStatus.PROCESSOR_DIED))
    scene.tell(result(2, payload=b"of a run that never began"))
    assert scene.actor.state is READY


ONCE = Task(TASK_ID, ObjectId(b"f" * 16), b"arguments", b"", options=RunOptions(at_most_once=True).encode())


def is_known_as_unstarted(scene: Scene) -> bool:
    assert scene.end().status == TaskStatus.CANCELED
    return scene.actor._context.directory.unstarted.take(TASK_ID)


def test_a_cancelled_at_most_once_task_that_only_waited_is_recorded_as_unstarted(bench: Bench) -> None:
    scene = Scene(bench, ONCE)
    scene.run_and(1, RunRecalled(1))
    scene.tell(CancelTask(), TaskWithdrawn())
    assert is_known_as_unstarted(scene)


def test_a_cancelled_at_most_once_task_that_may_run_is_not_recorded_as_unstarted(bench: Bench) -> None:
    scene = Scene(bench, ONCE)
    scene.run_and(1, CancelTask(), result(1, TaskStatus.CANCELED))
    assert not is_known_as_unstarted(scene)
    scene = Scene(bench, ONCE)
    scene.tell(CancelTask(), TaskNotWaiting(), TaskWithdrawn())
    assert not is_known_as_unstarted(scene)


def test_an_at_most_once_task_that_ran_out_of_memory_fails_as_such(bench: Bench) -> None:
    scene = Scene(bench, ONCE)
    scene.run_and(1, result(1, TaskStatus.OUT_OF_MEMORY, b"killed"))
    assert scene.end() == TaskResult(TASK_ID, TaskStatus.OUT_OF_MEMORY, b"killed" + NOT_RETRIED.encode(), 0)


def test_a_stale_assignment_is_cancelled_at_the_worker(scene: Scene) -> None:
    scene.tell(BalancerRestarted(9))  # the task reports ready again, while an assignment is in transit
    scene.assign(1)
    assert scene.worker.take() == [CancelRun(TASK_ID, 1)]
    assert scene.actor.state is READY


def test_a_waiting_task_reports_ready_again_to_a_restarted_balancer(scene: Scene) -> None:
    scene.balancer.take()
    scene.tell(BalancerRestarted(9))
    assert scene.balancer.take() == [TaskReady(scene.task, PLAIN, 2, goes_first=False)]


def test_a_task_does_not_report_ready_twice_to_a_restarted_balancer(scene: Scene) -> None:
    scene.balancer.take()
    scene.tell(BalancerRestarted(0))  # before the task had its number
    assert scene.balancer.take() == []
    scene.run_and(1, result(1))
    assert scene.worker.take() == []
    assert scene.end().status == TaskStatus.SUCCESS


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_restarted_balancer_does_not_concern_a_task_at_a_worker(scene: Scene, cancelled: bool) -> None:
    scene.balancer.take()
    scene.run_and(1, *([CancelTask()] if cancelled else []), BalancerRestarted(9))
    assert scene.balancer.take() == []


def test_a_waiting_task_is_cancelled_when_the_balancer_has_withdrawn_it(scene: Scene) -> None:
    scene.balancer.take()
    scene.tell(CancelTask(), CancelTask())
    assert scene.balancer.take() == [WithdrawTask(scene.task, 0)]
    assert scene.actor.state is WITHDRAWING
    scene.tell(TaskWithdrawn())
    assert scene.end().status == TaskStatus.CANCELED


def test_a_task_that_is_assigned_while_it_is_withdrawn_is_cancelled_at_the_worker(scene: Scene) -> None:
    scene.tell(CancelTask(), TaskAssigned(scene.worker_ref, {scene.task: 1}))
    assert scene.worker.take() == [CancelRun(TASK_ID, 1)]
    assert scene.actor.state is CANCELING
    scene.tell(result(1, TaskStatus.CANCELED))
    assert scene.end().status == TaskStatus.CANCELED


def test_a_run_that_is_offered_to_a_running_task_is_cancelled_as_an_orphan(bench: Bench, scene: Scene) -> None:
    other, other_ref = bench.recorder()
    scene.run_and(1, RunFound(other_ref, 7))
    assert (other.take(), scene.worker.take()) == ([CancelOrphan(TASK_ID, 7)], [])
    assert scene.actor.state is RUNNING


def test_an_offered_run_that_the_worker_proxy_does_not_give_to_the_task_is_cancelled(
    bench: Bench, scene: Scene
) -> None:
    """Its worker may have another run of the task."""
    other, other_ref = bench.recorder()
    scene.tell(RunFound(other_ref, 7), TaskWithdrawn())
    assert [type(each) for each in other.take()] == [AdoptRun]
    scene.tell(NotHeld())
    assert other.take() == [CancelRun(TASK_ID, 7), CancelOrphan(TASK_ID, 7)]


@pytest.mark.parametrize("news", [TaskNotWaiting(), BalancerRestarted(9)])
def test_a_cancelled_task_that_the_balancer_has_forgotten_reports_ready_to_be_withdrawn(
    scene: Scene, news: Any
) -> None:
    scene.tell(CancelTask())
    scene.balancer.take()
    scene.tell(news)
    assert scene.balancer.take() == [TaskReady(scene.task, PLAIN, 2, goes_first=False), WithdrawTask(scene.task, 0)]
    scene.assign(1)  # so it was assigned after all
    assert scene.worker.take() == [CancelRun(TASK_ID, 1)]
    scene.tell(TaskWithdrawn())
    assert scene.end().status == TaskStatus.CANCELED


def test_a_task_assigned_before_its_failed_withdrawal_is_cancelled_at_the_worker(scene: Scene) -> None:
    scene.tell(CancelTask(), TaskAssigned(scene.worker_ref, {scene.task: 1}), TaskNotWaiting())
    assert scene.actor.state is CANCELING


@pytest.mark.parametrize(
    "news",
    [
        result(1),
        result(1, TaskStatus.FAILED),
        result(1, TaskStatus.CANCELED),
        result(1, TaskStatus.PROCESSOR_DIED),
        result(1, TaskStatus.NOT_FOUND),
        RunLost(1, "alpha", was_running=True),
    ],
)
def test_a_running_task_is_cancelled_however_its_run_ends(scene: Scene, news: Any) -> None:
    scene.run_and(1, CancelTask(), CancelTask())
    assert scene.worker.take() == [CancelRun(TASK_ID, 1)]
    assert scene.session.take() == []
    scene.tell(news)
    assert scene.end() == TaskResult(TASK_ID, TaskStatus.CANCELED, b"", 0)


def test_a_task_actor_that_fails_cancels_its_run_and_releases_its_objects() -> None:
    bench = Bench()
    scene = Scene(bench, WITH_OBJECTS)
    scene.store.take()
    scene.assign(1)
    scene.tell("nobody handles this")
    assert scene.worker.take() == [CancelRun(TASK_ID, 1)]
    assert scene.store.take() == [ReleaseObjects(OBJECT_IDS)]
    assert bench.dispatcher.failures == 1


def test_a_waiting_task_whose_actor_fails_leaves_the_queue() -> None:
    scene = Scene(Bench())
    scene.balancer.take()
    scene.tell("nobody handles this")
    assert scene.balancer.take() == [WithdrawTask(scene.task, 0)]


RETRIED = Task(
    TASK_ID,
    ObjectId(b"f" * 16),
    b"",
    OBJECT_IDS,
    options=RunOptions(retries=2, retry_on=("OSError",), retry_delay_ms=500).encode(),
)
RESET = TaskFailure("ConnectionResetError", "by peer", "...", b"", ("ConnectionError", "OSError", "Exception")).encode()
OTHER = TaskFailure("ValueError", "bad", "...", b"", ("Exception",)).encode()


class TestRetries:
    def test_a_task_that_has_raised_runs_again_after_pauses_that_double(self, bench: Bench) -> None:
        scene = Scene(bench, RETRIED)
        scene.store.take()
        for attempt, seconds in ((1, 0.5), (2, 1.0)):
            scene.balancer.take()
            scene.run_and(attempt, result(attempt, TaskStatus.FAILED, RESET))
            assert scene.actor.state is DELAYED
            bench.advance(seconds - 0.01)
            assert scene.balancer.take() == []
            bench.advance(0.02)
            assert scene.balancer.take() == [TaskReady(scene.task, RETRIED, attempt + 1, goes_first=True)]
        assert scene.store.take() == []
        scene.run_and(3, result(3, TaskStatus.FAILED, RESET))
        assert scene.end() == TaskResult(TASK_ID, TaskStatus.FAILED, RESET, 0)

    def test_a_retried_task_may_succeed(self, bench: Bench) -> None:
        scene = Scene(bench, RETRIED)
        scene.run_and(1, result(1, TaskStatus.FAILED, RESET))
        bench.advance(0.5)
        scene.run_and(2, result(2))
        assert scene.end().status == TaskStatus.SUCCESS

    @pytest.mark.parametrize("payload", [OTHER, b"no failure at all", b""])
    def test_a_failure_that_the_options_do_not_name_is_not_retried(self, bench: Bench, payload: bytes) -> None:
        scene = Scene(bench, RETRIED)
        scene.run_and(1, result(1, TaskStatus.FAILED, payload))
        assert scene.end() == TaskResult(TASK_ID, TaskStatus.FAILED, payload, 0)

    def test_retry_on_os_error_matches_a_time_out(self, bench: Bench) -> None:
        scene = Scene(bench, RETRIED)
        scene.run_and(1, result(1, TaskStatus.TIMED_OUT, b"too long"))
        assert scene.actor.state is DELAYED

    def test_a_crash_does_not_count_as_a_retry(self, bench: Bench) -> None:
        scene = Scene(bench, RETRIED)
        scene.run_and(1, result(1, TaskStatus.PROCESSOR_DIED, b"killed"))
        assert scene.actor.state is READY
        assert scene.actor._retries == 0

    def test_a_task_that_waits_for_its_retry_can_be_cancelled(self, bench: Bench) -> None:
        scene = Scene(bench, RETRIED)
        scene.run_and(1, result(1, TaskStatus.FAILED, RESET))
        scene.balancer.take()
        scene.tell(CancelTask())
        assert scene.end().status == TaskStatus.CANCELED
        assert ReleaseObjects(OBJECT_IDS) in scene.store.take()
        bench.advance(5)
        assert scene.balancer.take() == []

    def test_a_cancelled_task_that_raised_is_not_retried(self, bench: Bench) -> None:
        scene = Scene(bench, RETRIED)
        scene.run_and(1, CancelTask(), result(1, TaskStatus.FAILED, RESET))
        assert scene.end().status == TaskStatus.CANCELED

    def test_the_explanation_of_a_task_that_waits_for_its_retry_says_so(self, bench: Bench) -> None:
        scene = Scene(bench, RETRIED)
        scene.run_and(1, result(1, TaskStatus.FAILED, RESET))
        asker, ref = bench.recorder()
        scene.tell(ExplainTask(ref, TASK_ID, asked_at=bench.clock() + 90))
        (told,) = asker.take()
        assert (told.state, told.waits_for) == ("inactive", "retry")
        assert (told.tries, told.past) == (2, "try 1 retried 90 s ago: ConnectionResetError: by peer")

    def test_a_task_that_waits_for_its_retry_is_not_ready_early_for_a_restarted_balancer(self, bench: Bench) -> None:
        scene = Scene(bench, RETRIED)
        scene.run_and(1, result(1, TaskStatus.FAILED, RESET))
        scene.balancer.take()
        scene.tell(BalancerRestarted(9))
        assert scene.balancer.take() == []
        bench.advance(0.5)
        assert len(scene.balancer.take()) == 1

    def test_a_retry_is_reported_to_a_listener_with_its_reason(self, bench: Bench) -> None:
        scene = Scene(bench, RETRIED)
        listener, ref = bench.recorder()
        scene.events.listen(ref)
        scene.run_and(1, result(1, TaskStatus.FAILED, RESET))
        (moved,) = listener.take()
        assert (moved.event, moved.state, moved.attempt, moved.worker, moved.reason) == (
            "retried",
            "inactive",
            1,
            scene.worker_ref,
            "ConnectionResetError: by peer",
        )


def test_a_cancel_of_waiting_tasks_withdraws_a_ready_task(scene: Scene) -> None:
    scene.tell(CancelTask(waiting=True))
    assert scene.actor.state is WITHDRAWING
    scene.tell(TaskWithdrawn())
    assert scene.end().status == TaskStatus.CANCELED


def test_a_cancel_of_waiting_tasks_recalls_an_assigned_task_unless_it_has_started(scene: Scene) -> None:
    scene.run_and(1, CancelTask(waiting=True))
    assert scene.worker.take() == [RecallRun(TASK_ID, 1)]
    assert scene.actor.state is RUNNING
    scene.tell(result(1))
    assert scene.end().status == TaskStatus.SUCCESS


def test_a_task_recalled_after_a_cancel_of_waiting_tasks_is_cancelled(scene: Scene) -> None:
    scene.run_and(1, CancelTask(waiting=True), RunRecalled(1), TaskWithdrawn())
    assert scene.end().status == TaskStatus.CANCELED


def test_a_later_attempt_recalled_after_a_cancel_of_waiting_tasks_is_not_cancelled(scene: Scene) -> None:
    scene.run_and(1, CancelTask(waiting=True), RunLost(1, "w", was_running=True, was_ordered=True))
    assert scene.actor.state is READY
    scene.run_and(2, RunRecalled(2))
    assert scene.actor.state is READY


def test_a_cancel_of_waiting_tasks_spares_a_task_that_another_scheduler_may_have_started(bench: Bench) -> None:
    scene = Scene(bench, is_back=True)
    scene.tell(CancelTask(waiting=True))
    assert scene.session.take() == []
    assert not scene.task.is_stopped()


def test_a_task_without_a_run_ends_after_a_cancel_of_waiting_tasks(bench: Bench) -> None:
    scene = Scene(bench, is_back=True)
    scene.tell(CancelTask(waiting=True), NotHeld(), TaskWithdrawn())
    assert scene.end().status == TaskStatus.CANCELED


def test_an_awaited_task_that_is_ready_again_notifies_the_balancer_that_it_is_awaited(
    bench: Bench, scene: Scene
) -> None:
    scene.run_and(1)
    scene.balancer.take()
    question = ExplainTask(bench.recorder()[1], TASK_ID, is_wanted=True)
    scene.tell(question)
    assert [type(each) for each in scene.worker.take()] == [ExplainRun]
    scene.tell(RunRecalled(1))
    ready, waiting = scene.balancer.take()
    assert (type(ready), waiting.question, waiting.task) == (TaskReady, question, scene.task)


def test_a_task_that_is_asked_reports_its_state_and_its_age(scene: Scene, bench: Bench) -> None:
    listener, listener_ref = bench.recorder()
    scene.events.listen(listener_ref)
    context = scene.actor._context
    mark, next_attempt = context.directory.attempt_times.mark, context.next_attempt

    def asked() -> tuple[str, str, float]:
        scene.tell(ReportTask(TASK_ID))
        moved = listener.take(TaskMoved)[-1]
        return moved.event, moved.state, moved.age_seconds

    assert asked() == (SEEN, "inactive", 0.0), "no time is known from before its submission"
    mark(next_attempt, scene.actor.now())
    scene.actor = TaskActor(PLAIN, context)
    scene.task = bench.dispatcher.spawn(scene.actor)
    bench.advance(7.0)
    assert asked() == (SEEN, "inactive", 7.0)
    mark(next_attempt, scene.actor.now())
    scene.run_and(scene.actor._attempt, RunRecalled(scene.actor._attempt))
    assert asked() == (SEEN, "inactive", 7.0), "the age is that of the task, not of its attempt"


def test_a_range_that_is_asked_for_a_row_reports_that_row(bench: Bench) -> None:
    first = TaskId(bytes(16))
    scene = Scene(bench, Task(first, ObjectId(b"f" * 16), pack([b"a", b"b"]), b"", rows=2))
    listener, listener_ref = bench.recorder()
    scene.events.listen(listener_ref)
    scene.tell(ReportTask(row_ids(first, 2)[1]))
    (moved,) = listener.take(TaskMoved)
    assert (moved.spec.task_id, moved.spec.rows, moved.spec.payload) == (row_ids(first, 2)[1], 0, b"b")
