"""Ranges at a worker proxy: assigned, ended early, refused, lost, and held by an agent since before its hello."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scaler.actors.messages.adoption import AdoptRun, RunAdopted, RunsLost
from scaler.actors.messages.outputs import RunsPrinted
from scaler.actors.messages.peers import StopWorker
from scaler.actors.messages.tasks import (
    AssignTasks,
    CancelOrphan,
    CancelRun,
    LoadFreed,
    RangeRefused,
    RunLost,
    RunRecalled,
    TaskReady,
    TasksRecalled,
)
from scaler.actors.vocabulary.hellos import HeldRun
from scaler.ids import TaskId
from scaler.wire.messages.client import Task
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import OutputStream, TaskStatus
from scaler.wire.messages.rows import pack, part_of, row_ids
from scaler.wire.messages.worker import RecallResponse, RunCancel, RunOutput, RunResult, RunTask
from tests.support.bench import Bench
from tests.unit.actors.workers.test_worker_proxy import INDEX, SHORT, Scene

FIRST = TaskId(b"prefix--" + (7).to_bytes(8, "big"))
ROWS = row_ids(FIRST, 4)
RANGE = Task(FIRST, SHORT, pack([b"%d" % row for row in range(4)]), b"", rows=4)
SUCCESS, INTERNAL_ERROR = TaskStatus.SUCCESS, TaskStatus.INTERNAL_ERROR


def result_of(rows: int, running: int = 0, attempt: int = 1, status: TaskStatus = SUCCESS) -> RunResult:
    """Return a result of the first rows. `running`: 1 + the number of the row that goes on, if the range ends early."""
    payload = pack([b"%d" % row for row in range(rows)])
    return RunResult(FIRST, INDEX, attempt, status, payload, 40, (), rows=rows, running=running)


def single(row: int, status: TaskStatus = SUCCESS) -> RunResult:
    return RunResult(ROWS[row], INDEX, 1, status, b"", 10, ())


def assign(scene: Scene, spec: Task = RANGE, number: int = 0, takes_rows: bool = True) -> None:
    scene.actor._takes_rows = takes_rows
    scene.tell(AssignTasks([(TaskReady(scene.refs[number], spec, 1, goes_first=False), 400)]))


def finish(scene: Scene, *results: RunResult) -> None:
    scene.tell(Batch[RunResult](results))


@pytest.fixture
def scene(bench: Bench) -> Iterator[Scene]:
    scene = Scene(bench)
    yield scene
    scene.actor.check()


@pytest.fixture
def at_worker(scene: Scene) -> Scene:
    assign(scene)
    scene.forget()
    return scene


def test_a_range_is_one_order_and_frees_a_place_for_each_row(at_worker: Scene) -> None:
    assert at_worker.actor.load == (4, 400)
    finish(at_worker, result_of(4))
    assert at_worker.tasks[0].take() == [result_of(4)]
    assert at_worker.balancer.take() == [LoadFreed(at_worker.proxy, 4, 400, {SHORT: (40, 4)})]


def test_the_running_row_of_a_range_that_ends_early_is_the_run_of_its_task(at_worker: Scene) -> None:
    finish(at_worker, result_of(1, running=3))
    assert at_worker.tasks[0].take() == [result_of(1, running=3)]
    assert at_worker.balancer.take() == [LoadFreed(at_worker.proxy, 3, 300, {SHORT: (40, 1)})]
    (run,) = at_worker.actor._runs.values()
    assert (run.spec, run.attempt, run.load) == (part_of(RANGE, 2, 1), 1, (1, 100))
    finish(at_worker, single(2))
    assert at_worker.tasks[0].take() == [single(2)]
    assert at_worker.balancer.take() == [LoadFreed(at_worker.proxy, 1, 100, {SHORT: (10, 1)})]
    finish(at_worker, result_of(1, running=3), result_of(4))
    assert at_worker.tasks[0].take() == [], "sent again"


def test_row_0_can_be_the_row_that_goes_on(at_worker: Scene) -> None:
    finish(at_worker, result_of(0, running=1), single(0))
    assert at_worker.tasks[0].take() == [result_of(0, running=1), single(0)]
    assert at_worker.actor.load == (0, 0)


def test_a_running_row_can_be_cancelled_after_its_range(at_worker: Scene) -> None:
    at_worker.tell(CancelRun(FIRST, 1))
    finish(at_worker, result_of(1, running=3))
    at_worker.tell(CancelRun(ROWS[2], 1))
    cancels = [item for item in at_worker.outbox.sent_to(at_worker.peer) if type(item) is RunCancel]
    assert cancels == [RunCancel(FIRST, INDEX, 1, 4), RunCancel(ROWS[2], INDEX, 1)]


@pytest.mark.parametrize("result", [result_of(2, running=2), result_of(2, running=5), result_of(4, running=4)])
@pytest.mark.parametrize("of_range", [True, False])
def test_an_early_end_that_does_not_fit_the_range_is_a_failure(scene: Scene, result: RunResult, of_range: bool) -> None:
    assign(scene, RANGE if of_range else Task(FIRST, SHORT, b"", b""))
    scene.forget()
    finish(scene, result)
    (told,) = scene.tasks[0].take()
    assert (told.status, told.rows, told.running) == (INTERNAL_ERROR, 4 if of_range else 0, 0)
    assert scene.actor.load == (0, 0)


def test_an_agent_that_takes_no_ranges_gets_none(scene: Scene) -> None:
    scene.forget()
    assign(scene, takes_rows=False)
    assert scene.outbox.sent_to(scene.peer) == []
    assert scene.tasks[0].take() == [RangeRefused(1)]
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 4, 400, {})]


def test_no_row_of_a_lost_range_is_suspected_and_its_session_announces_the_rows(at_worker: Scene) -> None:
    assign(at_worker, Task(TaskId(bytes(16)), SHORT, b"", b""), number=1)
    at_worker.forget()
    at_worker.tell(StopWorker(was_lost=True))
    assert at_worker.tasks[0].take() == [RunLost(1, "alpha", was_running=False)]
    assert at_worker.tasks[1].take() == [RunLost(1, "alpha", was_running=False)], "the range was first"
    (lost,) = at_worker.adoption.take(RunsLost)
    assert [task_id for _, task_id, _ in lost.runs] == [bytes(16)]


def test_a_recalled_range_returns_as_a_whole(at_worker: Scene) -> None:
    at_worker.tell(Batch[RecallResponse]([RecallResponse(FIRST, INDEX, 1, 4)]))
    assert at_worker.tasks[0].take() == [RunRecalled(1)]
    assert at_worker.balancer.take() == [TasksRecalled(at_worker.proxy, 4, 400, {SHORT})]


def test_a_line_names_the_row_that_has_written_it(at_worker: Scene) -> None:
    line = RunOutput(FIRST, INDEX, 1, OutputStream.STANDARD_OUTPUT, 7, 0, "text", 2)
    at_worker.tell(Batch[RunOutput]([line]))
    ((printed, spec, _),) = at_worker.outputs.take(RunsPrinted)[0].lines
    assert (printed.task_id, printed.row, spec) == (ROWS[2], 0, RANGE)


# In a new session of the agent


def test_a_range_that_the_hello_names_goes_on(at_worker: Scene) -> None:
    at_worker.start_over(*(HeldRun(row, 1, INDEX, 0, True) for row in ROWS))
    assert at_worker.outbox.sent_to(at_worker.peer) == []
    finish(at_worker, result_of(4))
    assert at_worker.tasks[0].take() == [result_of(4)]


def test_a_range_that_ended_early_just_before_the_hello_is_settled_by_its_result(at_worker: Scene) -> None:
    held = [HeldRun(row, 1, INDEX, 0, True) for row in ROWS[:1]]
    at_worker.start_over(*held, HeldRun(ROWS[2], 1, INDEX, 0))
    assert at_worker.outbox.sent_to(at_worker.peer) == [], "the row that goes on is not cancelled"
    finish(at_worker, result_of(1, running=3), single(2))
    assert at_worker.tasks[0].take() == [result_of(1, running=3), single(2)]


def test_a_range_that_the_hello_does_not_name_returns(at_worker: Scene) -> None:
    at_worker.start_over()
    assert at_worker.tasks[0].take() == [RunRecalled(1)]


# A range that the agent had under another scheduler: here, each of its rows is a task


@pytest.fixture
def held(bench: Bench) -> Iterator[Scene]:
    """A proxy with a held range, of which the tasks of the rows 1 and 2 have adopted their runs."""
    scene = Scene(bench, [HeldRun(row, 1, INDEX, 0, True) for row in ROWS])
    for number, row in enumerate((1, 2)):
        spec = part_of(RANGE, row, 1)
        scene.tell(AdoptRun(scene.refs[number], spec, 1, 0, None))
        assert scene.tasks[number].take() == [RunAdopted(scene.proxy, 1)]
    scene.forget()
    yield scene
    scene.actor.check()


def test_the_result_of_a_held_range_is_that_of_each_row(held: Scene) -> None:
    finish(held, result_of(4))
    for number, row in enumerate((1, 2)):
        (told,) = held.tasks[number].take()
        assert (told.task_id, told.payload, told.rows) == (ROWS[row], b"%d" % row, 0)
    spec = part_of(RANGE, 3, 1)
    held.tell(AdoptRun(held.refs[2], spec, 1, 0, None))
    assert [getattr(each, "payload", None) for each in held.tasks[2].take()] == [None, b"3"], "kept for its task"
    assert held.actor.load == (0, 0)


def test_a_held_range_that_ends_early_returns_the_other_rows_to_their_tasks(held: Scene) -> None:
    finish(held, result_of(1, running=3))
    assert held.tasks[0].take() == [RunRecalled(1)]
    assert held.tasks[1].take() == [], "row 2 goes on"
    finish(held, single(2))
    assert held.tasks[1].take() == [single(2)]
    assert (held.actor.load, len(held.actor._orphans)) == ((0, 0), 1), "the result of row 0 is kept"


def test_a_held_range_of_which_no_row_has_a_result_returns_all_but_the_running_one(held: Scene) -> None:
    held.tell(AdoptRun(held.refs[2], part_of(RANGE, 0, 1), 1, 0, None))
    held.forget()
    finish(held, result_of(0, running=2))
    assert [task.take() for task in held.tasks[:3]] == [[], [RunRecalled(1)], [RunRecalled(1)]]
    finish(held, single(1))
    assert (held.actor.load, len(held.actor._orphans)) == ((0, 0), 0)


def test_a_held_range_that_its_agent_returns_is_returned_to_the_tasks_of_its_rows(held: Scene) -> None:
    held.tell(Batch[RecallResponse]([RecallResponse(FIRST, INDEX, 1, 4)]))
    assert [task.take() for task in held.tasks[:2]] == [[RunRecalled(1)]] * 2
    assert (held.actor.load, len(held.actor._orphans)) == ((0, 0), 0)


def test_rows_of_a_held_range_are_cancelled_one_by_one(held: Scene) -> None:
    held.tell(CancelRun(ROWS[1], 1), CancelOrphan(ROWS[3], 1))
    assert held.outbox.sent_to(held.peer) == [RunCancel(ROWS[1], INDEX, 1), RunCancel(ROWS[3], INDEX, 1)]


def test_a_malformed_result_of_a_held_range_fails_its_rows(held: Scene) -> None:
    finish(held, RunResult(FIRST, INDEX, 1, SUCCESS, b"no table", 1, (), rows=4))
    assert [task.take()[0].status for task in held.tasks[:2]] == [INTERNAL_ERROR] * 2


def test_an_order_has_the_rows_of_its_range(scene: Scene) -> None:
    assign(scene)
    (order,) = scene.outbox.sent_to(scene.peer)
    assert type(order) is RunTask
    assert (order.rows, order.payload) == (4, RANGE.payload)
