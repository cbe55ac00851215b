"""A task that is a range: which of its rows end, go on or return when it ends early; recorders play all others."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.actors.messages.adoption import FindRun
from scaler.actors.messages.objects import CountArguments
from scaler.actors.messages.tasks import (
    CancelRun,
    CancelTask,
    RangeEnded,
    RangeRefused,
    ReturnedRows,
    RunLost,
    RunRecalled,
    TaskReady,
)
from scaler.actors.tasks.task import TaskActor
from scaler.actors.vocabulary.task_states import CANCELING, DELAYED, READY, RUNNING
from scaler.ids import ObjectId, TaskId
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack, part_of, row_ids
from scaler.wire.messages.worker import RunResult
from tests.support.bench import Bench
from tests.unit.actors.tasks.test_task import Scene

FIRST = TaskId(b"prefix--" + (7).to_bytes(8, "big"))
ROWS = row_ids(FIRST, 5)
BLOCKS = [b"%d" % row for row in range(5)]
FRAMES = tuple(bytes(row) for row in range(1, 6))
RANGE = Task(FIRST, ObjectId(b"f" * 16), pack(BLOCKS), b"", frames=FRAMES, rows=5)
SUCCESS, FAILED = TaskStatus.SUCCESS, TaskStatus.FAILED


def early(done: int, running: int, attempt: int = 1) -> RunResult:
    """Return the result of a range whose first `done` rows have ended while row `running` runs."""
    payload = pack([b"r"] * done)
    return RunResult(FIRST, 0, attempt, SUCCESS, payload, 40, (), rows=done, running=running + 1)


def single(row: int, status: TaskStatus = SUCCESS, attempt: int = 1) -> RunResult:
    return RunResult(ROWS[row], 0, attempt, status, b"r", 1, ())


def ended(scene: Scene) -> RangeEnded:
    (news,) = scene.session.take(RangeEnded)
    return news  # type: ignore[no-any-return]


@pytest.fixture
def scene(bench: Bench) -> Scene:
    return Scene(bench, RANGE)


def test_a_range_that_ends_early_goes_on_as_its_running_row(scene: Scene) -> None:
    scene.run_and(1, early(2, 2))
    news = ended(scene)
    assert news.first == FIRST
    assert news.results == [TaskResult(FIRST, SUCCESS, pack([b"r"] * 2), 0, rows=2, duration_us=40)]
    assert news.running == part_of(RANGE, 2, 1)
    assert news.returned == [ReturnedRows(part_of(RANGE, 3, 2))]
    assert scene.actor.state is RUNNING
    scene.tell(single(2))
    assert scene.end() == TaskResult(ROWS[2], SUCCESS, b"r", 0, duration_us=1)


def test_rows_whose_results_are_lost_with_their_processor_return_too(scene: Scene) -> None:
    scene.run_and(1, early(0, 3), single(3, TaskStatus.PROCESSOR_DIED))
    news = ended(scene)
    assert (news.results, news.running) == ([], part_of(RANGE, 3, 1))
    assert news.returned == [ReturnedRows(part_of(RANGE, 0, 3)), ReturnedRows(part_of(RANGE, 4, 1))]
    assert scene.actor.state is READY, "the row that crashed runs again"
    assert scene.balancer.take()[-1].spec == part_of(RANGE, 3, 1)


def test_the_memory_of_arguments_counts_for_the_rows_that_need_it(scene: Scene) -> None:
    assert [each.size_bytes for each in scene.store.take(CountArguments)] == [15]
    scene.run_and(1, early(2, 2))
    assert [each.size_bytes for each in scene.store.take(CountArguments)] == [3 - 15], "what returns counts again"
    scene.tell(single(2))
    assert [each.size_bytes for each in scene.store.take(CountArguments)] == [-3]


def of_returned(bench: Bench, scene: Scene, returned: ReturnedRows) -> TaskActor:
    actor = TaskActor.of_returned(returned, scene.actor._context)
    bench.dispatcher.spawn(actor)
    bench.run()
    return actor


def test_rows_that_return_wait_before_newer_tasks_and_return_as_single_tasks_the_second_time(
    bench: Bench, scene: Scene
) -> None:
    scene.balancer.take()
    actor = of_returned(bench, scene, ReturnedRows(RANGE))
    assert scene.balancer.take() == [TaskReady(actor.actor_ref, RANGE, 2, goes_first=True)]
    scene.task = actor.actor_ref
    scene.run_and(2, early(1, 1, attempt=2))
    assert ended(scene).returned == [ReturnedRows(part_of(RANGE, row, 1)) for row in (2, 3, 4)]


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_range_that_no_worker_takes_returns_as_single_tasks(scene: Scene, attempt: int) -> None:
    scene.tell(RangeRefused(attempt))
    if attempt == 2:
        assert not scene.session.take(), "the balancer was restarted meanwhile"
        return
    news = ended(scene)
    assert (list(news.results), news.running) == ([], None)
    assert news.returned == [ReturnedRows(part_of(RANGE, row, 1)) for row in range(5)]
    assert scene.task.is_stopped()


def test_each_row_of_a_lost_range_runs_again_and_none_is_to_blame(bench: Bench, scene: Scene) -> None:
    lost = RunLost(1, "alpha", was_running=False, was_unacknowledged=True)
    scene.run_and(1, lost)
    news = ended(scene)
    assert news.returned == [ReturnedRows(part_of(RANGE, row, 1), lost, scene.worker_ref) for row in range(5)]
    scene.balancer.take()
    row = of_returned(bench, scene, news.returned[0])
    assert (row.state, row._crashes, row._lost_in_transit) == (READY, 0, 1)
    (ready,) = scene.balancer.take()
    assert (ready.spec, ready.goes_first) == (part_of(RANGE, 0, 1), True)


def test_a_range_that_was_never_sent_waits_again_as_a_whole(scene: Scene) -> None:
    scene.run_and(1, RunLost(1, "alpha", was_running=False, was_ordered=False))
    assert scene.session.take() == []
    assert scene.balancer.take()[-1].spec is RANGE
    scene.run_and(2, RunRecalled(2))
    assert scene.balancer.take()[-1].spec is RANGE


def test_rows_that_are_retried_return_with_their_failures(bench: Bench) -> None:
    options = RunOptions(retries=1, retry_delay_ms=1000, retry_on=("LookupError",)).encode()
    spec = Task(FIRST, ObjectId(b"f" * 16), pack(BLOCKS), b"", options=options, rows=5)
    scene, (listener, ref) = Scene(bench, spec), bench.recorder()
    scene.events.listen(ref)
    failures = [TaskFailure(name, "it", "", b"").encode() for name in ("ValueError", "LookupError")]
    payload, statuses = pack([b"r", *failures, b"r", b"r"]), bytes([0, FAILED, FAILED, 0, 0])
    scene.run_and(1, RunResult(FIRST, 0, 1, SUCCESS, payload, 5, (), rows=5, statuses=statuses))
    news = ended(scene)
    assert [(each.task_id, each.status) for each in news.results] == [
        (ROWS[0], SUCCESS),
        (ROWS[1], FAILED),
        (ROWS[3], SUCCESS),
        (ROWS[4], SUCCESS),
    ]
    assert (news.running, scene.task.is_stopped()) == (None, True)
    (returned,) = news.returned
    assert (returned.spec.task_id, returned.worker) == (ROWS[2], scene.worker_ref)
    row = of_returned(bench, scene, returned)
    assert row.state is DELAYED
    assert row._retries == 1
    moves = [(moved.event, moved.state, moved.spec.task_id, moved.worker) for moved in listener.take()]
    assert moves == [
        ("raised", "failed", ROWS[1], scene.worker_ref),
        ("retried", "inactive", ROWS[2], scene.worker_ref),
    ]


def test_failed_rows_without_retries_end_with_their_range(scene: Scene) -> None:
    statuses = bytes([0, FAILED, 0, 0, 0])
    scene.run_and(1, RunResult(FIRST, 0, 1, SUCCESS, pack([b"r"] * 5), 5, (), rows=5, statuses=statuses))
    assert (scene.end().rows, scene.events.ended[FAILED], scene.events.ended[SUCCESS]) == (5, 1, 4)


@pytest.mark.parametrize("comes_first", [True, False])
def test_the_cancel_of_a_range_reaches_its_running_row(scene: Scene, comes_first: bool) -> None:
    news: list[Any] = [CancelTask(), early(2, 2)]
    scene.run_and(1, *(news if comes_first else reversed(news)))
    assert ended(scene).running == part_of(RANGE, 2, 1)
    assert scene.actor.state is CANCELING
    cancels = [cancel.task_id for cancel in scene.worker.take(CancelRun)]
    assert cancels == [FIRST] * comes_first + [ROWS[2]], "the worker proxy may not have had the range any more"
    scene.tell(single(2, TaskStatus.CANCELED))
    assert scene.session.take() == [TaskResult(ROWS[2], TaskStatus.CANCELED, b"", 0)]


def test_a_range_requests_no_run_that_an_agent_has(bench: Bench) -> None:
    """Rows that were sent to another scheduler are resubmitted as single tasks."""
    scene = Scene(bench, RANGE, is_back=True)
    assert scene.adoption.take(FindRun) == []
    assert [ready.spec for ready in scene.balancer.take(TaskReady)] == [RANGE]


def test_single_rows_of_an_ended_range_request_no_runs_either(bench: Bench) -> None:
    scene = Scene(bench, RANGE, is_back=True)
    of_returned(bench, scene, ReturnedRows(part_of(RANGE, 0, 1)))
    assert scene.adoption.take(FindRun) == []
