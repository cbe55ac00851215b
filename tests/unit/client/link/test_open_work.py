"""OpenWork: tested without a socket, a thread or a clock, as it has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.client.calls.entry import POSITION, Entry, GraphCalls
from scaler.client.link import objects as objects_module
from scaler.client.link.objects import as_sent
from scaler.client.link.open_work import OpenWork
from scaler.client.link.requests import Answer, Inquiry, JobQuestion
from scaler.errors import (
    ClientShutdownException,
    DisconnectedError,
    MissingObjects,
    ObjectTooLargeError,
    ProtocolError,
)
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.shared_memory import SharedBlock, SharedFrames, can_share
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import (
    NO_GRAPH,
    ClientDisconnect,
    ClientShutdownResponse,
    GoodbyeKind,
    InputResult,
    JobRequest,
    JobVerb,
    Task,
    TaskCancel,
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
from scaler.wire.messages.priority import MOST
from tests.support.examples import examples
from tests.support.graphs import graph_calls

ONCE = RunOptions(at_most_once=True).encode()
SAID = RunOptions(at_most_once=True, was_submitted=True).encode()


class Leaving:
    """A lane in which `bytes_before` bytes are sent before an item."""

    def __init__(self, bytes_before: int = 0) -> None:
        self._bytes = bytes_before

    def bytes_before(self, _item: object) -> int:
        return self._bytes


class Sink:
    """A receiver of results, as a future, a map, or a reader of an object."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, Any]] = []
        self.notified = 0

    def deliver(self, result: TaskResult) -> None:
        self.ends.append(("delivered", result.payload))

    def refuse(self, result: TaskResult) -> None:
        self.ends.append(("refused", result.status))

    def store(self, result: TaskResult) -> None:
        self.ends.append(("stored", result.size))

    def fail(self, make_error: Callable[[], BaseException]) -> None:
        self.ends.append(("failed", type(make_error())))

    def receive_frames(self, object_id: ObjectId, frames: Any) -> None:
        self.ends.append(("received", frames))

    def notify(self) -> None:
        self.notified += 1


class Reply(Answer[None]):
    def __init__(self) -> None:
        super().__init__(lambda: None)

    @property
    def ends(self) -> list[Any]:
        if not self.done():
            return []
        return [None if self.exception() is None else type(self.exception())]


def task_id(number: int) -> TaskId:
    return TaskId(b"t" * 15 + bytes([number]))


def object_id(number: int) -> ObjectId:
    return ObjectId(b"o" * 15 + bytes([number]))


def function(number: int = 0) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.CREATE_FUNCTION, ObjectId(b"f" * 15 + bytes([number])), "f", [b"f"])


def entry(number: int, sink: Any = None, objects: Sequence[ObjectInstruction] = (), of: int = 0) -> Entry:
    instruction = function(of)
    task = Task(task_id(number), instruction.object_id, b"arguments", b"")
    return task, sink if sink is not None else Sink(), instruction, objects, ()


def first(task: Task) -> Task:
    """Return a task as it is sent when its result was lost: before all other tasks of its client."""
    return replace(task, priority=MOST - 1)


def brought(number: int, frames: Any = (b"large",)) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.CREATE_FOR_TASK, object_id(number), "", frames)


def held(number: int) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.CREATE, object_id(number), "table", [b"table"])


def delete(of: bytes) -> ObjectInstruction:
    return ObjectInstruction(InstructionKind.DELETE, ObjectId(of), "", ())


def result(number: int, status: int = 0, size: int = 0, payload: bytes = b"") -> TaskResult:
    return TaskResult(task_id(number), status, payload, size)


def graph(
    sinks: dict[int, Any], objects: Sequence[ObjectInstruction] = (), options: bytes = b"", n_tasks: int = 3
) -> GraphCalls:
    """Return a graph of a chain of tasks, 100 and so on; the results of those with a sink are wanted.

    The first task has the objects.
    """
    graph_id, instruction = GraphId(b"t" * 15 + b"g"), function(9)
    tasks = [
        Task(
            task_id(100 + position),
            instruction.object_id,
            b"arguments",
            b"" if position else b"".join(each.object_id for each in objects),
            options=options,
            graph_id=graph_id,
            graph_tasks=n_tasks,
            dependencies=POSITION.pack(position - 1) if position else b"",
            unwanted=int(100 + position not in sinks),
        )
        for position in range(n_tasks)
    ]
    made = graph_calls(tasks, [instruction], objects=objects)
    made.sinks = {task_id(number): sink for number, sink in sinks.items()}
    return made


def store(work: OpenWork, number: int, sink: Any = None) -> None:
    """Submit a task, and report that its result is stored."""
    work.add(entry(number, sink))
    work.on_results([result(number, size=80_000)])


def cancel_of(graph: GraphCalls) -> TaskCancel:
    return TaskCancel(graph.tasks[0].task_id, graph_id=graph.graph_id)


def said(work: OpenWork) -> list[Any]:
    out, work.out = work.out, []
    return out


@pytest.fixture
def work() -> OpenWork:
    return OpenWork()


class TestAsking:
    def test_a_function_is_sent_once_before_its_first_task(self, work: OpenWork) -> None:
        first, second = entry(1, objects=[brought(1)]), entry(2)
        work.add(first)
        work.add(second)
        assert said(work) == [first[2], brought(1), first[0], second[0]]
        assert work.is_waiting()

    def test_tasks_of_one_function_are_added_together_as_far_as_the_window_allows(self, work: OpenWork) -> None:
        tasks = [entry(number) for number in range(1, 5)]
        work.window.resize(3, 0)
        work.add_all(tasks[:2])
        assert said(work) == [function(), tasks[0][0], tasks[1][0]]
        work.add_all(tasks[2:])
        assert said(work) == [tasks[2][0]]
        assert list(work.window.waiting) == [task_id(4)]
        work.on_results([result(1), result(2)])
        assert said(work) == [tasks[3][0]]
        assert [task_id(number) for number in (1, 2, 3, 4) if work.is_open(task_id(number))] == [task_id(3), task_id(4)]

    def test_tasks_of_several_functions_are_added_together(self, work: OpenWork) -> None:
        tasks = [entry(1), entry(2, of=1), entry(3)]
        work.add_all(tasks)
        assert said(work) == [function(), function(1), *(task for task, *_ in tasks)]

    def test_a_graph_is_sent_after_its_functions_and_objects(self, work: OpenWork) -> None:
        made = graph({102: Sink()}, [brought(1)])
        work.add_graph(made)
        assert said(work) == [function(9), brought(1), *made.tasks]
        assert work.is_waiting()

    @pytest.mark.skipif(not can_share(), reason="memory is not shared on this system")
    def test_shared_memory_is_sent_as_its_location_and_as_bytes_on_request(self, work: OpenWork) -> None:
        frames = SharedFrames([b"x" * 5000])
        work.add(entry(1, objects=[brought(1, frames)]))
        (instruction,) = [item for item in said(work) if item == brought(1, ()) or getattr(item, "location", b"")]
        assert (instruction.frames, instruction.location) == ((), frames.location)
        work.on_object_requests([ObjectRequest(object_id(1), by_value=1)])
        assert [bytes(frame) for frame in said(work)[0].frames] == [b"x" * 5000]

    def test_a_requested_object_is_sent_and_an_unknown_one_deleted(self, work: OpenWork) -> None:
        work.store_object(held(1))
        work.add_graph(graph({102: Sink()}, [brought(2)]))
        said(work)
        for number in (1, 2, 3):
            work.on_object_requests([ObjectRequest(object_id(number))])
        *sent, refusal = said(work)
        assert sent == [held(1), brought(2), delete(object_id(3))]
        assert (type(refusal), refusal.task_id, refusal.status) == (InputResult, object_id(3), TaskStatus.NOT_FOUND)

    def test_unused_functions_are_deleted_when_too_many_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(objects_module, "FUNCTIONS_MOST", 4)
        work = OpenWork()
        work.add_graph(graph({102: Sink()}))
        for number in range(3):
            work.add(entry(number, of=number))
        work.on_results([result(0), result(2)])
        said(work)
        last = entry(3, of=3)
        work.add(last)
        assert said(work) == [*(delete(function(number).object_id) for number in (0, 2)), function(3), last[0]]

    def test_an_object_is_held_until_it_is_released(self, work: OpenWork) -> None:
        work.store_object(held(1))
        work.release(object_id(1))
        work.release(object_id(1))
        assert said(work) == [held(1), delete(object_id(1))]
        assert not work.is_waiting()


class TestAnswers:
    def test_each_kind_of_result_is_delivered_to_its_sink(self, work: OpenWork) -> None:
        sinks = [Sink() for _ in range(3)]
        for number, sink in enumerate(sinks):
            work.add(entry(number, sink))
        work.on_results([result(0, payload=b"7"), result(1, TaskStatus.FAILED), result(2, size=80_000)])
        assert [sink.ends for sink in sinks] == [
            [("delivered", b"7")],
            [("refused", TaskStatus.FAILED)],
            [("stored", 80_000)],
        ]
        assert not work.is_waiting()

    def test_a_sink_is_notified_once_for_a_row_of_its_results(self, work: OpenWork) -> None:
        a_map, future = Sink(), Sink()
        for number in range(5):
            work.add(entry(number, future if number == 3 else a_map))
        work.on_results([result(number) for number in range(5)])
        assert (a_map.notified, future.notified) == (2, 1)

    def test_a_large_result_of_an_unknown_task_is_deleted_and_one_reported_again_stays(self, work: OpenWork) -> None:
        store(work, 1)
        said(work)
        work.on_results([result(1, size=80_000), result(2), result(3, size=80_000)])
        assert said(work) == [delete(task_id(3))]

    def test_a_large_result_is_fetched_and_deleted(self, work: OpenWork) -> None:
        sink = Sink()
        store(work, 1, sink)
        said(work)
        work.large.request(ObjectId(task_id(1)), sink)
        assert work.is_waiting()
        work.large.on_objects([ObjectResponse(ObjectId(task_id(1)), 1, (b"large",))])
        assert said(work) == [ObjectRequest(ObjectId(task_id(1))), delete(task_id(1))]
        assert sink.ends[1:] == [("received", (b"large",))]
        assert not work.is_waiting()
        work.forget_result(ObjectId(task_id(1)))
        assert said(work) == []

    def test_a_large_result_is_requested_once_for_all_its_receivers(self, work: OpenWork) -> None:
        sinks = [Sink() for _ in range(3)]
        for sink in sinks:
            work.large.request(object_id(1), sink)
        assert said(work) == [ObjectRequest(object_id(1))]
        work.large.on_objects([ObjectResponse(object_id(1), 1, (b"large",))])
        assert [sink.ends for sink in sinks] == [[("received", (b"large",))]] * 3

    def test_a_large_result_that_is_no_longer_stored_is_received_as_none(self, work: OpenWork) -> None:
        sink = Sink()
        work.large.request(object_id(1), sink)
        work.large.on_objects([ObjectResponse(object_id(1), 0, ())])
        work.large.on_objects([ObjectResponse(object_id(1), 0, ())])
        assert sink.ends == [("received", None)]

    def test_a_forgotten_large_result_is_deleted_unless_it_was_requested(self, work: OpenWork) -> None:
        for number in (1, 2):
            work.add(entry(number))
        work.on_results([result(1, size=80_000), result(2, size=80_000)])
        work.large.request(ObjectId(task_id(2)), Sink())
        said(work)
        for number in (1, 2, 1):
            work.forget_result(ObjectId(task_id(number)))
        assert said(work) == [delete(task_id(1))]

    def test_results_of_a_graph_reach_their_sinks(self, work: OpenWork) -> None:
        sinks: dict[int, Any] = {101: Sink(), 102: Sink()}
        work.add_graph(graph(sinks))
        work.on_results([result(102, payload=b"b"), result(101, payload=b"a")])
        assert [sinks[number].ends for number in (101, 102)] == [[("delivered", b"a")], [("delivered", b"b")]]
        assert not work.is_waiting()

    @pytest.mark.parametrize(("accepted", "end"), [(1, None), (0, ClientShutdownException)])
    def test_all_requests_for_a_shutdown_get_the_answer(self, work: OpenWork, accepted: int, end: Any) -> None:
        replies = [Reply(), Reply()]
        for reply in replies:
            work.shut_down(reply)
        assert said(work) == [ClientDisconnect(GoodbyeKind.SHUTDOWN)] * 2
        work.on_shutdown_responses([ClientShutdownResponse(accepted, "protected")])
        assert [reply.ends for reply in replies] == [[end], [end]]
        assert not work.is_waiting()


class TestEnding:
    def test_a_task_is_cancelled_once(self, work: OpenWork) -> None:
        sink = Sink()
        work.add(entry(1, sink))
        said(work)
        for _ in range(2):
            work.cancel(task_id(1))
        work.on_results([result(1, TaskStatus.CANCELED)])
        assert said(work) == [TaskCancel(task_id(1))]
        assert sink.ends == [("failed", CancelledError)]

    def test_tasks_that_have_not_arrived_are_cancelled_here_and_others_by_the_scheduler(self, work: OpenWork) -> None:
        work.window.resize(2, 0)
        at_scheduler, leaving, here = sinks = Sink(), Sink(), Sink()
        for number, sink in enumerate(sinks):
            work.add(entry(number, sink))
        said(work)
        work.cancel_waiting(task_id(0), Leaving())
        assert (said(work), at_scheduler.ends) == ([TaskCancel(task_id(0), waiting=1)], [])
        work.cancel_waiting(task_id(2), Leaving())
        assert (said(work), here.ends) == ([], [("failed", CancelledError)])
        work.cancel_waiting(task_id(1), Leaving(bytes_before=1))
        assert (said(work), leaving.ends) == ([TaskCancel(task_id(1))], [("failed", CancelledError)])
        work.on_results([result(0, TaskStatus.CANCELED)])
        work.cancel_waiting(task_id(0), Leaving())
        assert said(work) == []

    def test_an_abandoned_sink_receives_nothing(self, work: OpenWork) -> None:
        a_map, other = Sink(), Sink()
        for number, sink in enumerate((a_map, other, a_map)):
            work.add(entry(number, sink))
        work.large.request(object_id(1), a_map)
        said(work)
        work.abandon(a_map)
        assert said(work) == [TaskCancel(task_id(0)), TaskCancel(task_id(2)), delete(object_id(1))]
        work.on_results([result(number) for number in range(3)])
        work.large.on_objects([ObjectResponse(object_id(1), 1, (b"x",))])
        assert (a_map.ends, other.ends) == ([], [("delivered", b"")])

    def test_clear_cancels_and_deletes_everything(self, work: OpenWork) -> None:
        task, node, fetcher = Sink(), Sink(), Sink()
        work.store_object(held(1))
        work.add(entry(1, task))
        store(work, 2)
        made = graph({102: node})
        work.add_graph(made)
        work.large.request(object_id(2), fetcher)
        said(work)
        work.clear(CancelledError)
        assert said(work) == [
            TaskCancel(task_id(1)),
            cancel_of(made),
            *map(delete, (object_id(1), function().object_id, function(9).object_id, task_id(2))),
        ]
        assert [sink.ends for sink in (task, node, fetcher)] == [
            [("failed", CancelledError)],
            [("failed", CancelledError)],
            [("failed", MissingObjects)],
        ]
        assert not work.is_waiting()
        work.add(entry(3))
        assert said(work)[0] == function(), "it was deleted, and is said again"

    @pytest.mark.parametrize("tell", [True, False])
    def test_giving_up_fails_all_calls_and_sends_cancels_only_on_request(self, work: OpenWork, tell: bool) -> None:
        task, fetcher, reply = Sink(), Sink(), Reply()
        work.add(entry(1, task))
        work.large.request(object_id(1), fetcher)
        work.shut_down(reply)
        work.give_up(TimeoutError, DisconnectedError, tell)
        out = said(work)
        assert out[-1:] == ([TaskCancel(task_id(1))] if tell else [])
        assert len(out) > 1 or not tell, "what was queued may be said yet: the session may go on"
        assert (task.ends, fetcher.ends) == ([("failed", TimeoutError)], [("failed", DisconnectedError)])
        assert reply.ends == [DisconnectedError]
        assert not work.is_waiting()

    def test_calls_fail_after_some_unreadable_answers(self, work: OpenWork) -> None:
        task, fetcher, node, late = Sink(), Sink(), Sink(), Sink()
        work.add(entry(1, task))
        work.large.request(object_id(1), fetcher)
        work.add_graph(graph({102: node}))
        for tries in range(TRIES_MOST):
            assert work.is_waiting()
            if tries == 1:
                work.add(entry(2, late))
            work.on_unreadable(DisconnectedError)
        assert [sink.ends for sink in (task, fetcher, node)] == [[("failed", DisconnectedError)]] * 3
        assert late.ends == []
        work.on_unreadable(DisconnectedError)
        assert late.ends == [("failed", DisconnectedError)]


def question() -> JobQuestion:
    return JobQuestion(JobVerb.SHOW, "job")


class TestWhatCannotBeWritten:
    def test_requests_fail_after_as_many_tries_as_tasks(self, work: OpenWork) -> None:
        asked, inquiry, late = question(), Inquiry(lambda *answer: answer), question()
        work.jobs.add(asked, asked.item)
        work.inquire(inquiry)
        for tries in range(TRIES_MOST):
            assert not any(each.done() for each in (asked, inquiry))
            if tries == 1:
                work.jobs.add(late, late.item)
            work.on_unreadable(ProtocolError)
        assert isinstance(asked.exception(0), ProtocolError)
        assert isinstance(inquiry.exception(0), ProtocolError)
        assert not late.done()
        work.on_unreadable(ProtocolError)
        assert isinstance(late.exception(0), ProtocolError)

    def test_an_item_that_cannot_be_written_fails_its_own_call_and_no_other(self, work: OpenWork) -> None:
        task, other, node = Sink(), Sink(), Sink()
        made, asked, also = graph({102: node}), question(), question()
        work.add(entry(1, task))
        work.add(entry(2, other))
        work.add_graph(made)
        for each in (asked, also):
            work.jobs.add(each, each.item)
        items = said(work)
        culprits = made.tasks[:1]
        culprits += [item for item in items if type(item) is Task and item.task_id == task_id(1)]
        culprits += [item for item in items if type(item) is JobRequest][:1]
        for culprit in culprits:
            work.on_unwritable(culprit, TypeError)
        assert task.ends == node.ends == [("failed", TypeError)]
        assert isinstance(asked.exception(0), TypeError)
        assert other.ends == []
        assert not also.done()

    def test_an_object_that_cannot_be_written_fails_all_calls_that_need_it(self, work: OpenWork) -> None:
        one, other, later = Sink(), Sink(), Sink()
        work.store_object(held(1))
        needs = entry(1, one)
        work.add((replace(needs[0], object_ids=held(1).object_id), *needs[1:]))
        work.add(entry(2, other, of=1))
        work.on_unwritable(held(1), TypeError)
        work.on_unwritable(function(1), ValueError)
        assert (one.ends, other.ends) == ([("failed", TypeError)], [("failed", ValueError)])
        work.add(entry(3, later, of=1))
        assert later.ends == [("failed", ValueError)]
        fine = Sink()
        work.add(entry(4, fine))
        assert fine.ends == []

    def test_an_unwritable_task_makes_room_in_the_window(self, work: OpenWork) -> None:
        work.window.resize(1, 0)
        work.add(entry(1))
        work.add(entry(2))
        said(work)
        work.on_unwritable(entry(1)[0], TypeError)
        assert entry(2)[0] in said(work)

    def test_leaving_an_unattended_job_sends_nothing(self, work: OpenWork) -> None:
        work.leave_job("job")
        assert said(work) == []
        assert not work.is_waiting()


class TestNewConnection:
    def test_open_work_is_resent_after_pending_cancels_and_deletes(self, work: OpenWork) -> None:
        work.store_object(held(1))
        work.store_object(held(2))
        open_task, made = entry(1, objects=[brought(3)]), graph({101: Sink(), 102: Sink()})
        work.add(open_task)
        work.add(entry(2, of=1))
        work.add_graph(made)
        work.on_results([result(101)])
        work.large.request(object_id(5), Sink())
        work.shut_down(Reply())
        said(work)
        work.release(object_id(2))
        work.cancel(task_id(2))
        work.start_over()
        assert said(work) == [
            delete(object_id(2)),
            TaskCancel(task_id(2)),
            held(1),
            function(0),
            function(1),
            function(9),
            brought(3),
            open_task[0],
            *made.tasks_to_send(),
            ObjectRequest(object_id(5)),
            ClientDisconnect(GoodbyeKind.SHUTDOWN),
        ]
        assert [task.unwanted for task in made.tasks_to_send()] == [1, 1, 0]

    def test_a_dropped_function_is_resent_with_its_open_task(self, work: OpenWork) -> None:
        made = graph({102: Sink()})
        work.add(entry(1))
        work.add_graph(made)
        work._functions.clear()
        said(work)
        work.start_over()
        assert said(work) == [function(), function(9), entry(1)[0], *made.tasks]

    def test_of_unacknowledged_and_pending_items_only_withdrawals_are_resent(self, work: OpenWork) -> None:
        work.add(entry(1))
        work.cancel(task_id(1))
        unacknowledged = said(work)
        work.add(entry(2))
        work.cancel(task_id(2))
        work.store_object(held(1))
        work.release(object_id(1))
        work.start_over(unacknowledged)
        out = said(work)
        assert out[:3] == [TaskCancel(task_id(1)), TaskCancel(task_id(2)), delete(object_id(1))]
        assert out[3:] == [function()]


class Reader(Sink):
    """A receiver that requests a large result, and again when the recomputed one is large."""

    def __init__(self, work: OpenWork, number: int) -> None:
        super().__init__()
        self.work, self.object_id = work, ObjectId(task_id(number))
        work.large.request(self.object_id, self)

    def store(self, result: TaskResult) -> None:
        self.work.large.request(ObjectId(result.task_id), self)


def is_claim(item: object) -> bool:
    return type(item) is Task and not item.payload and RunOptions.decode(item.options).was_submitted


def next_scheduler(work: OpenWork) -> list[Any]:
    """Connect to another scheduler, whose agents have none of the claimed results. Return all items but the claims."""
    work.start_over((), ())
    heard = said(work)
    claims = [item for item in heard if is_claim(item)]
    work.on_results([TaskResult(claim.task_id, TaskStatus.NOT_FOUND, b"", 0) for claim in claims])
    return [item for item in heard if item not in claims] + said(work)


@pytest.mark.parametrize("in_transit", [None, ()])
def test_an_open_at_most_once_graph_with_an_unread_result_is_resubmitted_as_possibly_started(
    in_transit: tuple[Any, ...] | None,
) -> None:
    work, made = OpenWork(), graph({101: Sink(), 102: Sink()}, options=ONCE)
    work.add_graph(made)
    said(work)
    work.on_results([result(101, size=80_000)])
    work.start_over((), in_transit)
    tasks = [item for item in said(work) if type(item) is Task]
    assert [(task.options, task.unwanted) for task in tasks] == [(SAID, 1), (SAID, 0), (SAID, 0)]


def test_at_most_once_tasks_are_resent_as_submitted_and_never_recomputed() -> None:
    work, reader = OpenWork(), Sink()
    for number in (1, 2):
        task, *rest = entry(number)
        work.add((replace(task, options=ONCE), *rest))
    work.on_results([result(1, size=80_000)])
    said(work)
    new, *rest = entry(3)
    again = next_scheduler(work)
    assert [item.options for item in again if isinstance(item, Task)] == [SAID]
    work.add((replace(new, options=ONCE), *rest))
    assert [item.options for item in said(work) if isinstance(item, Task)] == [ONCE]
    work.large.request(ObjectId(task_id(1)), reader)
    assert reader.ends == [("failed", MissingObjects)]
    assert [item for item in said(work) if isinstance(item, Task)] == []


class TestLostResults:
    @pytest.fixture
    def work(self) -> OpenWork:
        """Return work with two large results at the scheduler, and one open task."""
        work = OpenWork()
        for number in (1, 2, 3):
            work.add(entry(number, objects=[brought(number)], of=number))
        work.on_results([result(1, size=80_000), result(2, size=80_000)])
        said(work)
        return work

    def test_lost_results_without_readers_are_not_recomputed(self, work: OpenWork) -> None:
        heard = next_scheduler(work)
        assert [item for item in heard if type(item) is Task] == [entry(3, of=3)[0]]

    def test_the_first_reader_has_all_lost_results_recomputed_with_their_functions_and_objects(
        self, work: OpenWork
    ) -> None:
        next_scheduler(work)
        work._functions.clear()
        reader = Reader(work, 2)
        calls = [entry(number, objects=[brought(number)], of=number) for number in (1, 2)]
        assert said(work) == [item for call in calls for item in (call[2], *call[3], first(call[0]))]
        assert work.is_waiting()
        assert reader.ends == []

    @pytest.mark.parametrize(
        ("outcome", "end"),
        [
            (result(1, payload=b"small"), ("delivered", b"small")),
            (result(1, TaskStatus.FAILED), ("refused", TaskStatus.FAILED)),
        ],
    )
    def test_a_recomputed_call_may_end_differently(
        self, work: OpenWork, outcome: TaskResult, end: tuple[str, Any]
    ) -> None:
        next_scheduler(work)
        other, reader = Reader(work, 2), Reader(work, 1)
        work.on_results([outcome])
        assert (reader.ends, reader.notified, other.ends) == ([end], 1, [])
        assert ObjectId(task_id(1)) not in work.large.unread

    def test_in_a_new_session_a_requested_result_is_resubmitted_and_the_others_are_claimed(
        self, work: OpenWork
    ) -> None:
        reader = Reader(work, 1)
        said(work)
        work.start_over()
        items = [item for item in said(work) if type(item) in (Task, ObjectRequest)]
        assert [item.task_id for item in items if is_claim(item)] == [task_id(2)]
        assert [item for item in items if not is_claim(item)] == [entry(3, of=3)[0], first(entry(1, of=1)[0])]
        work.on_results([result(1, size=80_000), result(2, size=80_000)])  # the scheduler has both
        assert said(work) == [ObjectRequest(reader.object_id)]
        assert reader.ends == []
        work.large.on_objects([ObjectResponse(reader.object_id, 1, (b"large",))])
        assert reader.ends == [("received", (b"large",))]
        assert said(work) == [delete(task_id(1))]

    def test_a_result_that_is_lost_repeatedly_is_a_missing_objects_error(self, work: OpenWork) -> None:
        reader = Reader(work, 1)
        for times in range(TRIES_MOST):
            assert reader.ends == []
            assert work.is_waiting()
            next_scheduler(work)
            if times < TRIES_MOST - 1:
                work.on_results([result(1, size=80_000)])
        assert reader.ends == [("failed", MissingObjects)]
        assert Reader(work, 1).ends == [("failed", MissingObjects)], "who asks once more hears the same"
        assert not work.large.requests
        work.forget_result(ObjectId(task_id(1)))
        assert ObjectId(task_id(1)) not in work.large.unread

    def test_a_recomputation_is_cancelled_when_its_result_is_forgotten(self, work: OpenWork) -> None:
        next_scheduler(work)
        Reader(work, 1)
        said(work)
        work.forget_result(ObjectId(task_id(2)))
        assert said(work) == [TaskCancel(task_id(2))]
        work.on_results([result(2, size=80_000)])
        assert said(work) == [delete(task_id(2))]

    def test_after_a_timeout_the_next_reader_requests_the_recomputation_again(self, work: OpenWork) -> None:
        reader = Reader(work, 1)
        next_scheduler(work)
        work.give_up(TimeoutError, TimeoutError, tell=True)
        assert reader.ends == [("failed", TimeoutError)]
        said(work)
        Reader(work, 1)
        assert [item.task_id for item in said(work) if type(item) is Task] == [task_id(1), task_id(2)]

    def test_clear_forgets_calls_of_lost_results(self, work: OpenWork) -> None:
        next_scheduler(work)
        work.clear(CancelledError)
        said(work)
        Reader(work, 1)
        assert said(work) == [ObjectRequest(ObjectId(task_id(1)))]


class TestClaims:
    """Results that agents have kept while another scheduler started."""

    @pytest.fixture
    def work(self) -> OpenWork:
        """Return work with two large results, the first of an at-most-once task, and one open task."""
        work = OpenWork()
        task, *rest = entry(1, objects=[brought(1)])
        work.add((replace(task, options=ONCE), *rest))
        work.add(entry(2))
        work.add(entry(3))
        work.on_results([result(1, size=80_000), result(2, size=80_000)])
        said(work)
        work.start_over((), ())
        return work

    def test_claims_are_sent_before_open_tasks_and_run_nothing(self, work: OpenWork) -> None:
        first, second, third = (item for item in said(work) if type(item) is Task)
        assert [each.task_id for each in (first, second, third)] == [task_id(1), task_id(2), task_id(3)]
        assert (first.payload, first.object_ids, first.options) == (b"", b"", SAID)
        assert (second.payload, RunOptions.decode(second.options)) == (b"", RunOptions(was_submitted=True))
        assert third == entry(3)[0]

    def test_a_claimed_result_that_is_lost_is_recomputed_for_its_reader(self, work: OpenWork) -> None:
        reader = Reader(work, 2)
        assert entry(2)[0] not in said(work)
        work.on_results([result(2, TaskStatus.NOT_FOUND)])
        assert said(work) == [first(entry(2)[0])]
        assert reader.ends == []

    def test_a_claimed_at_most_once_result_that_is_lost_is_a_missing_objects_error(self, work: OpenWork) -> None:
        reader = Reader(work, 1)
        assert reader.ends == []
        work.on_results([result(1, TaskStatus.NOT_FOUND)])
        assert reader.ends == [("failed", MissingObjects)]


class TestLostResultsOfGraphs:
    """The graph is 100 -> 101 -> 102: each task needs the one before it."""

    @pytest.fixture
    def made(self, work: OpenWork) -> GraphCalls:
        """Return an open graph that has an unread result, that of 101."""
        made = graph({101: Sink(), 102: Sink()})
        work.add_graph(made)
        work.on_results([result(101, size=80_000)])
        return made

    def test_each_lost_result_of_an_ended_graph_is_recomputed_by_itself(self, work: OpenWork) -> None:
        made = graph({100: Sink(), 101: Sink(), 102: Sink()}, [brought(1)])
        work.add_graph(made)
        work.on_results([result(n, size=80_000 * (n > 100)) for n in (100, 101, 102)])
        next_scheduler(work)
        work._functions.clear()
        reader = Reader(work, 102)
        second, third = (first(made.call(task_id(number))[0]) for number in (101, 102))
        assert said(work) == [function(9), second, third]
        assert (second.inputs, third.inputs) == (task_id(100), task_id(101))
        assert {second.graph_id, third.graph_id} == {NO_GRAPH}
        assert (second.dependencies, second.unwanted) == (b"", 0)
        later = Reader(work, 101)
        assert said(work) == []
        work.on_results([result(101, payload=b"small"), result(102, size=80_000)])
        assert said(work) == [ObjectRequest(reader.object_id)]
        work.large.on_objects([ObjectResponse(reader.object_id, 1, (b"large",))])
        assert (reader.ends, later.ends) == ([("received", (b"large",))], [("delivered", b"small")])
        assert not work.large.unread
        assert not work.is_waiting()

    @pytest.mark.parametrize("is_open", [False, True])
    def test_a_lost_result_whose_future_is_gone_is_made_again_for_its_open_graph(
        self, work: OpenWork, *, is_open: bool
    ) -> None:
        work.add_graph(graph({101: Sink(), **({102: Sink()} if is_open else {})}))
        work.on_results([result(101, size=80_000)])
        work.large.on_objects([lost(task_id(101))])
        kept = work.graphs.kept(task_id(101))
        work.on_object_requests([ObjectRequest(ObjectId(task_id(101)), 1)])
        said(work)
        work.forget_result(ObjectId(task_id(101)))
        assert [type(item) for item in said(work)] == ([] if is_open else [TaskCancel, InputResult])
        work.on_results([result(101, size=80_000)])
        assert said(work) == [delete(task_id(101))], "the scheduler keeps it while tasks need it"
        del kept  # it has kept the calls of the graph

    def test_a_result_that_its_graph_has_made_again_is_kept_if_it_arrives_after_its_loss(self, work: OpenWork) -> None:
        work.add_graph(graph({101: Sink(), 102: Sink()}))
        work.on_results([result(101, size=80_000)])
        work.large.on_objects([lost(task_id(101))])
        work.on_results([result(101, size=80_000)])
        assert delete(task_id(101)) not in said(work)
        reader = Reader(work, 101)
        assert said(work) == [ObjectRequest(reader.object_id)]

    def test_in_a_new_session_an_open_graph_makes_its_lost_results_again_itself(
        self, work: OpenWork, made: GraphCalls
    ) -> None:
        reader = Reader(work, 101)
        said(work)
        work.large.on_objects([lost(task_id(101))])
        assert said(work) == [first(made.call(task_id(101))[0])]
        work.start_over((), ())
        assert [item for item in said(work) if type(item) is Task] == made.tasks
        work.on_results([result(101, payload=b"again"), result(102)])
        assert reader.ends == [("delivered", b"again")]
        assert not work.is_waiting()

    @pytest.mark.parametrize("gives_up", [False, True])
    def test_a_lost_result_is_recomputed_however_its_open_graph_ends(self, work: OpenWork, gives_up: bool) -> None:
        made = graph({101: Sink(), 102: Sink()})
        work.add_graph(made)
        for _ in range(TRIES_MOST - 1 if gives_up else 0):
            work.on_unreadable(MissingObjects)
        work.on_results([result(101, size=80_000)])
        reader = Reader(work, 101)
        work.large.on_objects([lost(task_id(101))])
        said(work)
        if gives_up:
            work.on_unreadable(MissingObjects)
        else:
            work.cancel(task_id(102))
        assert said(work) == [cancel_of(made)]
        work.on_results([result(101, payload=b"small")])
        assert reader.ends == [("delivered", b"small")]

    def test_a_cancelled_graph_runs_again_only_for_a_reader_of_its_results(
        self, work: OpenWork, made: GraphCalls
    ) -> None:
        reader = Reader(work, 101)
        next_scheduler(work)
        work.cancel(task_id(102))
        assert reader.ends == [("failed", CancelledError)]
        assert next_scheduler(work) == [cancel_of(made), function(9)]
        Reader(work, 101)
        assert said(work) == [first(made.call(task_id(101))[0])]

    def test_a_forgotten_result_of_a_graph_is_not_requested_again(self, work: OpenWork, made: GraphCalls) -> None:
        work.start_over()
        said(work)
        work.forget_result(ObjectId(task_id(101)))
        assert list(made.sinks) == [task_id(102)]
        work.start_over()
        assert [task.unwanted for task in said(work) if type(task) is Task] == [1, 1, 0]
        work.on_results([result(102, size=80_000)])
        work.start_over()  # its claim is the only open task
        said(work)
        work.forget_result(ObjectId(task_id(102)))
        assert said(work) == [TaskCancel(task_id(102))]
        assert not work.is_waiting()

    def test_a_graph_without_wanted_results_is_cancelled(self, work: OpenWork, made: GraphCalls) -> None:
        work.start_over()
        work.on_results([result(102)])
        said(work)
        work.forget_result(ObjectId(task_id(101)))
        assert said(work) == [cancel_of(made)]
        assert not work.is_waiting()


ACTIONS: list[Callable[[OpenWork, int], object]] = [
    lambda work, n: work.cancel(task_id(n)),
    lambda work, n: work.on_results([result(n, payload=b"x")]),
    lambda work, n: work.on_results([result(n, TaskStatus.PROCESSOR_DIED)]),
    lambda work, n: work.on_results([result(n, size=80_000), result(n, size=80_000)]),
    lambda work, _: work.on_unreadable(DisconnectedError),
    lambda work, _: work.start_over(),
    lambda work, _: next_scheduler(work),
    lambda work, _: work.clear(CancelledError),
    lambda work, n: work.release(object_id(n)),
    lambda work, n: work.forget_result(ObjectId(task_id(n))),
    lambda work, _: work.give_up(TimeoutError, TimeoutError, tell=True),
]


@examples(100)
@given(st.lists(st.none() | st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9)), max_size=40))
def test_each_task_ends_once_in_any_sequence_of_requests_and_answers(
    story: list[tuple[Callable[[OpenWork, int], object], int] | None],
) -> None:
    """A step None adds the next task, and an object."""
    work = OpenWork()
    sinks: list[Sink] = []
    for step in story:
        if step is None:
            sinks.append(Sink())
            work.add(entry(len(sinks) - 1, sinks[-1], of=len(sinks) % 3))
            work.store_object(held(len(sinks)))
        else:
            step[0](work, step[1])
        assert all(len(sink.ends) <= 1 for sink in sinks)
        assert work.is_waiting() == any(not sink.ends for sink in sinks)
    still_open = {task_id(number) for number, sink in enumerate(sinks) if not sink.ends}
    said(work)
    work.start_over()
    assert {item.task_id for item in said(work) if type(item) is Task and not is_claim(item)} == still_open
    work.give_up(CancelledError, CancelledError, tell=False)
    work.forget_everything()
    assert [len(sink.ends) for sink in sinks] == [1] * len(sinks)
    assert (work.out, work.is_waiting()) == ([], False)


# The window


def windowed(count: int) -> OpenWork:
    work = OpenWork()
    work.window.resize(count, 0)
    return work


def said_tasks(work: OpenWork) -> list[int]:
    said = [item.task_id[-1] for item in work.out if isinstance(item, Task)]
    work.out = []
    return said


def test_tasks_beyond_the_window_are_sent_when_earlier_ones_have_ended() -> None:
    work = windowed(2)
    for number in range(5):
        work.add(entry(number, objects=[brought(number)]))
    assert len([item for item in work.out if isinstance(item, ObjectInstruction)]) == 3  # the function and two objects
    assert said_tasks(work) == [0, 1]
    work.on_results([TaskResult(task_id(1), TaskStatus.SUCCESS, b"", 0)])
    assert said_tasks(work) == [2]
    work.cancel(task_id(0))
    assert TaskCancel(task_id(0)) in work.out
    assert said_tasks(work) == [3]


def test_on_a_new_connection_only_the_window_is_resent() -> None:
    work = OpenWork()
    for number in range(5):
        work.add(entry(number))
    work.window.resize(3, 0)
    work.start_over()
    assert said_tasks(work) == [0, 1, 2]
    assert len(work.window.waiting) == 2


# Values that are not sent

TOO_LARGE = [("failed", ObjectTooLargeError)]


def limited() -> OpenWork:
    work = OpenWork()
    work.limit.n_bytes = 10
    return work


def test_calls_with_a_value_above_the_limit_fail_and_are_not_sent() -> None:
    work, sink = limited(), Sink()
    work.add(entry(1, sink, [brought(1, (bytes(11),))]))
    node = graph({100: sink}, [brought(2, (bytes(11),))])
    work.add_graph(node)
    large = replace(function(), frames=[bytes(11)])
    work.add((entry(2)[0], sink, large, (), ()))
    work.add_all([(entry(number)[0], sink, large, (), ()) for number in (3, 4)])
    assert sink.ends == TOO_LARGE * 5
    assert said(work) == []
    assert not work.is_waiting()


def test_calls_with_an_object_above_the_limit_fail_until_it_is_released() -> None:
    work, sink = limited(), Sink()
    large = replace(held(1), frames=[bytes(11)])
    work.store_object(large)
    with_it = replace(entry(1)[0], object_ids=large.object_id)
    work.add((with_it, sink, function(), (), ()))
    work.add_all([(replace(with_it, task_id=task_id(number)), sink, function(), (), ()) for number in (2, 3)])
    assert sink.ends == TOO_LARGE * 3
    assert said(work) == []
    work.release(large.object_id)
    assert said(work) == []
    assert not work._refusals


def test_calls_above_a_limit_that_becomes_known_fail_and_the_others_are_sent() -> None:
    work, large, small = OpenWork(), Sink(), Sink()
    too_large = replace(held(1), frames=[bytes(11)])
    work.store_object(too_large)
    work.store_object(held(2))
    work.add(entry(1, large, [brought(3, (bytes(11),))]))
    work.add((replace(entry(2)[0], object_ids=too_large.object_id), large, function(), (), ()))
    work.add((entry(3)[0], large, replace(function(5), frames=[bytes(11)]), (), ()))
    work.add_graph(graph({100: large}, [brought(4, (bytes(11),))]))
    work.add(entry(4, small, [brought(5, (bytes(10),))]))
    work.limit.n_bytes = 10
    work.start_over()
    assert large.ends == TOO_LARGE * 4
    assert small.ends == []
    items = said(work)
    assert [item.task_id for item in items if isinstance(item, Task)] == [task_id(4)]
    created = [item for item in items if isinstance(item, ObjectInstruction) and item.kind != InstructionKind.DELETE]
    assert {item.object_id for item in created} == {
        object_id(2),
        object_id(5),
        function().object_id,
        function(9).object_id,
    }


@pytest.mark.skipif(not can_share(), reason="no shared memory")
def test_bytes_of_a_shared_value_above_the_limit_are_not_sent_on_request() -> None:
    work, sink = limited(), Sink()
    shared = replace(held(1), frames=SharedFrames([bytes(5000)]))
    work.store_object(shared)
    work.add((replace(entry(1)[0], object_ids=shared.object_id), sink, function(), (), ()))
    assert [item.location != b"" for item in said(work) if item == as_sent(shared)] == [True]
    work.on_object_requests([ObjectRequest(shared.object_id, 1)])
    assert sink.ends == TOO_LARGE
    assert said(work) == [delete(shared.object_id), TaskCancel(task_id(1))]


def test_a_value_lost_with_five_schedulers_fails_the_calls_that_need_it() -> None:
    work, sink, other = OpenWork(), Sink(), Sink()
    work.store_object(held(1))
    work.add((replace(entry(1)[0], object_ids=held(1).object_id), sink, function(), (), ()))
    work.add(entry(2, other))
    for _ in range(TRIES_MOST):
        assert sink.ends == []
        assert held(1) in said(work)
        work.start_over([held(1), *work.out], [held(1)])
    assert sink.ends == TOO_LARGE
    assert other.ends == []
    assert held(1) not in said(work)


# Results that are lost with their agent


def lost(of: bytes, why: str = "its agent is gone") -> ObjectResponse:
    return ObjectResponse(ObjectId(of), LOST, (), reason=why)


def test_a_requested_result_lost_with_its_agent_is_recomputed_a_limited_number_of_times(
    work: OpenWork,
) -> None:
    store(work, 1)
    reader = Reader(work, 1)
    for _ in range(TRIES_MOST - 1):
        said(work)
        work.large.on_objects([lost(task_id(1))])
        work.large.on_objects([lost(task_id(1))])  # once for the waiting reader, and once for the owner
        assert said(work) == [first(entry(1)[0])]
        work.on_results([result(1, size=80_000)])
        assert said(work) == [ObjectRequest(reader.object_id)]
    work.large.on_objects([lost(task_id(1))])
    assert (said(work), reader.ends) == ([], [("failed", MissingObjects)])


def test_a_result_that_cannot_be_opened_is_requested_by_value(work: OpenWork) -> None:
    store(work, 1)
    reader = Reader(work, 1)
    said(work)
    work.large.on_objects([ObjectResponse(reader.object_id, 1, (), b"nowhere")])
    assert (said(work), reader.ends) == ([ObjectRequest(reader.object_id, 1)], [])
    work.large.on_objects([ObjectResponse(reader.object_id, 1, (b"bytes",))])
    assert reader.ends == [("received", (b"bytes",))]


def test_a_result_in_shared_memory_is_read_in_place_and_writable(work: OpenWork) -> None:
    block = SharedBlock.of([b"head", bytes(100_000)])
    work.add(entry(1))
    work.on_results([result(1, size=100_004)])
    reader = Reader(work, 1)
    said(work)
    work.large.on_objects([ObjectResponse(reader.object_id, 1, (), block.location())])
    assert said(work) == [delete(reader.object_id)]
    ((_, frames),) = reader.ends
    frames[1][0] = 7
    assert (bytes(frames[0]), bytes(block.map()[1])) == (b"head", bytes(100_000))
