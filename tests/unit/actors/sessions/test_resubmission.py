from __future__ import annotations

import pytest

from scaler.actors.sessions.resubmission import Resubmission
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId
from scaler.wire.messages.client import ClientHeartbeat, GraphInput, GraphNode, GraphTask, Task, TaskResult
from scaler.wire.messages.columns import Batch

GRAPH_ID, FUNCTION_ID = GraphId(b"g" * 16), ObjectId(b"f" * 16)
SPEC = GraphTask(GRAPH_ID, 3)
BEAT = ClientHeartbeat(1)


def task_id(number: int) -> TaskId:
    return TaskId(bytes([number]) * 16)


def task(number: int) -> Task:
    return Task(task_id(number), FUNCTION_ID, b"", b"")


def nodes(*numbers: int) -> Batch[GraphNode]:
    """The first one is not wanted."""
    each = (GraphNode(GRAPH_ID, task_id(number), FUNCTION_ID, b"", b"", b"", int(number > 0)) for number in numbers)
    return Batch[GraphNode](each)


def test_what_was_open_and_is_not_any_more_has_ended() -> None:
    again = Resubmission([task_id(1), task_id(2)], [TaskResult(task_id(3), 0, b"", 0), "something else"])
    batch = [task(number) for number in (1, 2, 3, 4)]
    assert again.still_to_run(batch, {task_id(2)}) == [task(2), task(4)]


@pytest.mark.parametrize(("told", "runs"), [((1, 2), False), ((1,), True), ((), True)])
def test_a_graph_runs_unless_all_its_results_are_on_their_way(told: tuple[int, ...], runs: bool) -> None:
    again = Resubmission((), [TaskResult(task_id(1), 0, b"", 0)] if told else ())
    for number in told[1:]:
        again.tell(task_id(number))
    again.announce(SPEC)
    assert not again.is_over(BEAT, 0)
    assert again.has_graph(GRAPH_ID)
    assert again.hear(GRAPH_ID, nodes(0, 1)) is None
    assert again.hear(GRAPH_ID, nodes(2)) == ((SPEC, [], nodes(0, 1, 2)) if runs else None)
    assert again.is_over(BEAT, 0)


def test_it_is_not_over_while_something_is_on_its_way() -> None:
    again = Resubmission((), ())
    assert not again.is_over(BEAT, 1)
    assert not again.is_over(ClientHeartbeat(1, has_unsaid=1), 0)
    assert again.is_over(BEAT, 0)


def test_the_inputs_of_a_graph_count_as_its_nodes() -> None:
    again = Resubmission((), ())
    again.announce(SPEC)
    inputs = [GraphInput(GRAPH_ID, position, task_id(9), GraphId(NO_ID)) for position in range(2)]
    again.hear_inputs(GRAPH_ID, inputs)
    assert again.hear(GRAPH_ID, nodes(1)) == (SPEC, inputs, nodes(1))


def test_a_graph_that_is_cancelled_is_not_awaited() -> None:
    again = Resubmission((), ())
    again.announce(SPEC)
    again.forget(GRAPH_ID)
    again.forget(GRAPH_ID)
    assert again.is_over(BEAT, 0)
    assert not again.has_graph(GRAPH_ID)
