from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import pytest

from scaler.client.calls.entry import Entry, GraphEntry
from scaler.client.calls.inputs import Input
from scaler.client.link.graphs import OpenGraphs
from scaler.client.link.open_work import OpenWork
from scaler.errors import DisconnectedError
from scaler.ids import NO_ID, GraphId, ObjectId, TaskId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import (
    GraphInput,
    GraphNode,
    GraphTask,
    GraphTaskCancel,
    InputKnowledge,
    Task,
    TaskResult,
)
from scaler.wire.messages.common import (
    LOST,
    InstructionKind,
    ObjectInstruction,
    ObjectRequest,
    ObjectResponse,
    TaskStatus,
)
from tests.unit.client.link.test_open_work import Sink, entry, function, result, task_id

LARGE = 100_000


class Future(Sink):
    """A sink whose result is an argument of other calls, as that of a future."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.input = Input(task_id(number), f"task {number}", ())

    def deliver(self, result: TaskResult) -> None:
        super().deliver(result)
        self.input.end(result)

    refuse = store = deliver

    def fail(self, make_error: Any) -> None:
        super().fail(make_error)
        self.input.fail(make_error)


def needs(number: int, *futures: Future, options: bytes = b"") -> tuple[GraphEntry, Future]:
    """Return a call whose arguments are the results of `futures`, and its own future."""
    graph_id, ours = GraphId(task_id(number)), Future(number)
    node = GraphNode(graph_id, task_id(number), function().object_id, b"arguments", b"", b"positions", 1)
    spec = GraphTask(graph_id, len(futures) + 1, 0, "", options)
    graph = GraphEntry(spec, [node], [function()], (), (), [future.input for future in futures])
    graph.keepers = futures
    graph.sinks[task_id(number)] = ours
    return graph, ours


def refuse(work: OpenWork, *numbers: int) -> None:
    """Report for each claim that no agent has the result."""
    work.on_results([TaskResult(task_id(number), TaskStatus.NOT_FOUND, b"", 0) for number in numbers])


def awaited(number: int, of: int, source: bytes = NO_ID) -> GraphInput:
    return GraphInput(GraphId(task_id(of)), 0, task_id(number), GraphId(source), 0)


def said(work: OpenWork) -> list[Any]:
    """Take the pending items about tasks and graphs."""
    out, work.out = work.out, []
    return [item for item in out if isinstance(item, (Task, GraphTask, GraphInput, GraphNode, GraphTaskCancel))]


def add(work: OpenWork, number: int, options: bytes = b"") -> Future:
    future = Future(number)
    made: Entry = entry(number, future)
    work.add((Task(task_id(number), made[0].function_id, b"", b"", 0, "", options), *made[1:]))
    return future


def test_a_task_is_sent_before_its_inputs_have_ended() -> None:
    work = OpenWork()
    first = add(work, 1)
    graph, second = needs(2, first)
    further, _ = needs(3, second)
    work.add_graph(graph)
    work.add_graph(further)
    kinds = [type(item) for item in said(work)]
    assert kinds == [Task, GraphTask, GraphInput, GraphNode, GraphTask, GraphInput, GraphNode]
    work.start_over()
    items = [item for item in said(work) if type(item) is GraphInput]
    assert items[0] == awaited(1, of=2)
    assert items[1] == GraphInput(GraphId(task_id(3)), 0, task_id(2), GraphId(task_id(2)), 1)


@pytest.mark.parametrize(
    ("ended", "known", "payload"),
    [
        (result(1, payload=b"value"), InputKnowledge.HERE, b"value"),
        (result(1, size=LARGE), InputKnowledge.STORED, b""),
        (result(1, status=TaskStatus.FAILED, payload=b"why"), InputKnowledge.HERE, b"why"),
    ],
)
def test_a_known_result_is_sent_with_the_task_that_needs_it(
    ended: TaskResult, known: InputKnowledge, payload: bytes
) -> None:
    work = OpenWork()
    first = add(work, 1)
    work.on_results([ended])
    work.add_graph(needs(2, first)[0])
    (item,) = (item for item in said(work) if type(item) is GraphInput)
    assert (item.known, item.payload, item.status) == (known, payload, ended.status)


def test_a_result_is_sent_when_the_scheduler_requests_it() -> None:
    work = OpenWork()
    first = add(work, 1)
    work.add_graph(needs(2, first)[0])
    work.add_graph(needs(3, first)[0])
    said(work)
    work.on_results([result(1, payload=b"value"), result(3)])
    work.on_object_requests([ObjectRequest(ObjectId(task_id(1)), 1)])
    where = (GraphId(task_id(2)), 0, task_id(1), GraphId(NO_ID), 0)
    assert said(work) == [GraphInput(*where, InputKnowledge.HERE, b"value")]  # 3 has ended


def test_an_open_input_is_sent_as_awaited_when_the_scheduler_requests_it() -> None:
    work = OpenWork()
    first = add(work, 1)
    work.add_graph(needs(2, first)[0])
    said(work)
    work.on_object_requests([ObjectRequest(ObjectId(task_id(1)), 1)])
    assert said(work) == [awaited(1, of=2)]


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (CancelledError, TaskStatus.CANCELED, b""),
        (lambda: DisconnectedError("gone"), TaskStatus.MISSING_OBJECTS, b"gone"),
    ],
)
def test_a_task_that_failed_in_the_client_fails_its_dependents(error: Any, status: TaskStatus, text: bytes) -> None:
    work = OpenWork()
    first = Future(1)
    first.input.fail(error)
    work.add_graph(needs(2, first)[0])
    (item,) = (item for item in said(work) if type(item) is GraphInput)
    assert (item.known, item.status) == (InputKnowledge.HERE, status)
    assert text in item.payload


class TestWhileTasksWaitForRoom:
    @staticmethod
    def full() -> tuple[OpenWork, Future]:
        """Return work with one task that was sent, and one that waits for the window."""
        work = OpenWork()
        work.window.resize(1, 0)
        add(work, 1)
        second = add(work, 2)
        said(work)
        return work, second

    def test_dependents_of_tasks_beyond_the_window_wait_and_follow_in_order(self) -> None:
        work, second = self.full()
        graph, third = needs(3, second)
        work.add_graph(graph)
        work.add_graph(needs(4, third)[0])
        assert said(work) == []
        work.on_results([result(1)])
        assert [item.task_id for item in said(work) if type(item) in (Task, GraphNode)] == list(map(task_id, (2, 3, 4)))

    def test_dependents_of_a_waiting_task_are_cancelled_with_it(self) -> None:
        work, second = self.full()
        graph, third = needs(3, second)
        work.add_graph(graph)
        further, fourth = needs(4, third)
        work.add_graph(further)
        work.cancel(task_id(2))
        assert [third.ends, fourth.ends] == [[("failed", CancelledError)]] * 2
        assert said(work) == []
        assert list(work.graphs) == []

    def test_a_cancelled_waiting_graph_cancels_its_dependents(self) -> None:
        work, second = self.full()
        graph, third = needs(3, second)
        work.add_graph(graph)
        further, fourth = needs(4, third)
        work.add_graph(further)
        work.cancel(task_id(3))
        assert [third.ends, fourth.ends] == [[("failed", CancelledError)]] * 2
        work.on_results([result(1)])
        assert [item.task_id for item in said(work) if type(item) in (Task, GraphNode)] == [task_id(2)]

    def test_on_a_new_connection_only_tasks_within_the_window_are_sent(self) -> None:
        work, second = self.full()
        work.add_graph(needs(3, second)[0])
        work.start_over()
        assert [type(item) for item in said(work)] == [Task]
        work.on_results([result(1)])
        assert [type(item) for item in said(work)] == [Task, GraphTask, GraphInput, GraphNode]


class TestLargeResults:
    @staticmethod
    def work(options: bytes = b"") -> tuple[OpenWork, Future]:
        work = OpenWork()
        first = add(work, 1, options)
        work.on_results([result(1, size=LARGE)])
        said(work)
        return work, first

    def test_a_lost_large_input_is_computed_again(self) -> None:
        work, first = self.work()
        work.add_graph(needs(2, first)[0])
        said(work)
        work.start_over((), ())
        assert [type(item) for item in said(work)] == [Task]  # an agent may still have it
        refuse(work, 1)
        items = said(work)
        assert [type(item) for item in items] == [Task, GraphTask, GraphInput, GraphNode]
        assert awaited(1, of=2) in items
        work.on_results([result(1, size=LARGE)])
        work.on_object_requests([ObjectRequest(ObjectId(task_id(1)), 1)])
        assert [item.known for item in said(work)] == [InputKnowledge.STORED]

    def test_a_large_input_that_an_agent_still_has_is_used(self) -> None:
        work, first = self.work()
        work.start_over((), ())
        work.add_graph(needs(2, first)[0])
        assert [type(item) for item in said(work)] == [Task]
        work.on_results([result(1, size=LARGE)])
        items = said(work)
        assert [type(item) for item in items] == [GraphTask, GraphInput, GraphNode]
        assert items[1].known == InputKnowledge.STORED

    def test_a_claimed_input_that_is_given_up_blocks_no_dependents(self) -> None:
        work, first = self.work()
        work.start_over((), ())
        work.add_graph(needs(2, first)[0])
        said(work)
        for _ in range(TRIES_MOST):
            work.on_unreadable(RuntimeError)
        assert not work._dependents

    @pytest.mark.parametrize("was_cancelled", [False, True])
    def test_lost_results_of_one_graph_are_computed_again_by_one_run(self, was_cancelled: bool) -> None:
        work, graph, (first, _, _) = self.of_a_graph()
        if was_cancelled:  # while the two are recomputed
            work.start_over((), ())
            work.cancel(task_id(3))
        else:
            work.on_results([result(3)])
            work.start_over((), ())
            refuse(work, 1, 2)
        said(work)
        work.add_graph(needs(4, first)[0])
        assert graph.spec in said(work)
        assert set(graph.sinks) == {task_id(1), task_id(2)}

    def of_a_graph(self) -> tuple[OpenWork, GraphEntry, list[Future]]:
        """Return work with a graph of three results, two of which have arrived."""
        work, graph_id = OpenWork(), GraphId(b"g" * 16)
        futures = [Future(number) for number in (1, 2, 3)]
        nodes = [GraphNode(graph_id, task_id(n), function().object_id, b"", b"", b"", 1) for n in (1, 2, 3)]
        graph = GraphEntry(GraphTask(graph_id, 3), nodes, [function()], (), ())
        graph.sinks = {task_id(number): sink for number, sink in enumerate(futures, 1)}
        work.add_graph(graph)
        work.on_results([result(number, size=LARGE) for number in (1, 2)])
        return work, graph, futures

    def test_a_lost_input_of_an_open_graph_is_reported_after_the_graph_has_ended(self) -> None:
        work, graph, (first, _, _) = self.of_a_graph()
        work.large.on_objects([ObjectResponse(ObjectId(task_id(1)), LOST, (), reason="its host left")])
        work.add_graph(needs(4, first)[0])
        assert awaited(1, of=4) in said(work)
        for _ in range(2):
            work.on_object_requests([ObjectRequest(ObjectId(task_id(1)), 1)])
            assert said(work) == []
        work.on_results([result(3)])
        items = said(work)
        assert items.index(graph.spec) < items.index(awaited(1, of=4, source=graph.spec.graph_id))

    def test_a_recomputed_call_whose_inputs_are_lost_is_sent_again(self) -> None:
        work, first = self.work()
        graph, _ = needs(2, first)
        work.add_graph(graph)
        work.on_results([result(2, size=LARGE)])
        work.large.request(ObjectId(task_id(2)), Sink())
        lost = [ObjectResponse(ObjectId(task_id(number)), LOST, (), reason="its host left") for number in (2, 1, 2)]
        work.large.on_objects(lost[:2])
        assert graph.spec in said(work)
        work.large.on_objects(lost[2:])  # the scheduler reports it for the graph, which has the id of its call
        assert [type(item) for item in said(work)] == [Task, GraphTask, GraphInput, GraphNode]

    def test_a_lost_input_is_reported_only_after_its_task_has_entered_the_window(self) -> None:
        work, first = self.work()
        work.add_graph(needs(2, first)[0])
        work.window.resize(1, 0)
        add(work, 5)
        said(work)
        work.large.on_objects([ObjectResponse(ObjectId(task_id(1)), LOST, (), reason="its host left")])
        work.on_object_requests([ObjectRequest(ObjectId(task_id(1)), 1)])
        assert said(work) == []
        work.on_results([result(5)])
        assert [type(item) for item in said(work)] == [Task, GraphInput]

    def test_a_lost_graph_runs_again_once_after_all_its_claims_are_answered(self) -> None:
        work, graph, _ = self.of_a_graph()
        work.on_results([result(3, size=LARGE)])
        work.start_over((), ())
        readers = {number: Sink() for number in (1, 2, 3)}
        for number, reader in readers.items():
            work.large.request(ObjectId(task_id(number)), reader)
        said(work)
        refuse(work, 1, 2)
        assert said(work) == []  # an agent may still have the third one
        work.on_results([result(3, size=LARGE)])
        assert graph.spec in said(work)
        assert set(graph.sinks) == {task_id(1), task_id(2)}

    def test_a_recomputed_input_that_is_small_is_sent_by_value(self) -> None:
        work, first = self.work()
        work.start_over((), ())
        refuse(work, 1)
        work.add_graph(needs(2, first)[0])
        said(work)
        work.on_results([result(1, payload=b"small")])
        work.on_object_requests([ObjectRequest(ObjectId(task_id(1)), 1)])
        assert [(item.known, item.payload) for item in said(work)] == [(InputKnowledge.HERE, b"small")]

    def test_a_waiting_reader_receives_the_recomputed_result(self) -> None:
        work, first = self.work()
        reader = Sink()
        work.large.request(ObjectId(task_id(1)), reader, keep=True)
        work.add_graph(needs(2, first)[0])
        work.start_over()
        assert Task in [type(item) for item in said(work)]
        assert reader.ends == []
        work.on_results([result(1, payload=b"small")])
        assert reader.ends == [("delivered", b"small")]

    def test_a_lost_at_most_once_input_fails_its_dependents(self) -> None:
        work, first = self.work(RunOptions(at_most_once=True).encode())
        work.start_over((), ())
        refuse(work, 1)
        work.add_graph(needs(2, first)[0])
        (item,) = (item for item in said(work) if type(item) is GraphInput)
        assert item.status == TaskStatus.MISSING_OBJECTS
        assert b"its scheduler ended" in item.payload
        assert b"at_most_once" in item.payload

    def test_a_kept_large_result_is_deleted_with_its_future(self) -> None:
        work, _ = self.work()
        reader = Sink()
        work.large.request(ObjectId(task_id(1)), reader, keep=True)
        work.large.on_objects([response(1)])
        assert reader.ends == [("received", (b"value",))]
        assert deletes(work) == []
        work.forget_result(ObjectId(task_id(1)))
        assert deletes(work) == [task_id(1)]

    def test_futures_of_inputs_are_released_when_the_call_has_ended(self) -> None:
        work, first = self.work()
        graph, _ = needs(2, first)
        work.add_graph(graph)
        assert graph.keepers == (first,)
        work.on_results([result(2)])
        assert graph.keepers == ()


def response(number: int) -> Any:
    return ObjectResponse(ObjectId(task_id(number)), 1, (b"value",))


def deletes(work: OpenWork) -> list[TaskId]:
    out, work.out = work.out, []
    return [
        item.object_id for item in out if isinstance(item, ObjectInstruction) and item.kind == InstructionKind.DELETE
    ]


def graph(name: bytes, *wanted: int) -> GraphEntry:
    graph_id = GraphId(name * 16)
    nodes = [
        GraphNode(graph_id, TaskId(name + bytes([n]) * 15), ObjectId(b"f" * 16), b"", b"", b"", int(n in wanted))
        for n in range(3)
    ]
    made = GraphEntry(GraphTask(graph_id, 3), nodes, (), (), ())
    made.sinks = {node.task_id: Sink() for node in nodes if node.wanted}  # type: ignore[misc]
    return made


def test_a_graph_is_open_until_its_last_result_has_arrived() -> None:
    graphs, first = OpenGraphs(), graph(b"a", 0, 2)
    graphs.add(first)
    graphs.add(graph(b"b", 1))
    sinks = dict(first.sinks)
    assert [graphs.pop(task_id) for task_id in sinks] == [(first, sink) for sink in sinks.values()]
    assert [each.spec.graph_id[:1] for each in graphs] == [b"b"]
    assert graphs.pop(first.nodes[0].task_id) is None


def test_a_resent_graph_requests_only_open_results() -> None:
    graphs, first = OpenGraphs(), graph(b"a", 0, 2)
    graphs.add(first)
    assert first.nodes_to_send() == first.nodes
    graphs.pop(first.nodes[0].task_id)
    assert [node.wanted for node in first.nodes_to_send()] == [0, 0, 1]


def test_a_graph_is_removed_by_any_of_its_tasks_and_fails_all_its_sinks() -> None:
    graphs, first = OpenGraphs(), graph(b"a", 0, 2)
    graphs.add(first)
    sinks = list(first.sinks.values())
    assert graphs.remove(first.nodes[1].task_id) is None
    assert graphs.remove(first.nodes[2].task_id) is first
    assert len(graphs) == 0
    first.fail(lambda: ValueError("why"))
    assert [len(sink.ends) for sink in sinks] == [1, 1]
    assert graphs.pop(first.nodes[0].task_id) is None


def test_a_graph_is_removed_by_its_id() -> None:
    graphs, first = OpenGraphs(), graph(b"a", 0, 2)
    graphs.add(first)
    assert graphs.remove_graph(first.spec.graph_id) is first
    assert graphs.remove_graph(first.spec.graph_id) is None
    assert graphs.pop(first.nodes[2].task_id) is None
