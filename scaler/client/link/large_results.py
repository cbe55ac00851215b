"""LargeResults: the large results of a client that it has not fetched, the requests for them, and the calls to repeat.

A large result stays with its agent or the scheduler until it is requested. If it is lost before, the task must run
again. So the client keeps the call until then.

    THERE  --another scheduler answers-->  CLAIMED  --an agent has it-->  THERE
    CLAIMED  --no agent has it-->  LOST  --one is requested-->  AGAIN  --a large result arrives-->  THERE
    THERE  --it went with its agent-->  LOST
    THERE  --the same scheduler begins a new session-->  DOUBTED  --it does not have one of these-->  LOST
    AGAIN  --its graph is cancelled-->  CANCELED  --it is requested itself-->  AGAIN
    LOST  --one is requested, and its task must not run again-->  GONE

Used by the open work, which has the open calls.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Container, Iterable
from concurrent.futures import CancelledError
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from typing import Any, Protocol

from scaler.client.calls.entry import Call, Entry, GraphEntry, MakeError, ResultReceiver, Sink, call_of
from scaler.client.link.at_most_once import claim_of_node, claim_of_task, is_at_most_once
from scaler.client.outcome import BECAUSE_OF_SCHEDULER, lost_result, unrepeatable_result
from scaler.ids import GraphId, ObjectId, TaskId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import BYTES_HEAD, Frames
from scaler.shared_memory import can_share, frames_at
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import FOUND, LOST, ObjectRequest, ObjectResponse
from scaler.wire.messages.priority import MOST, with_wish


class ResultState(Enum):
    """Where a large result is."""

    THERE = auto()
    """at the current scheduler, or with an agent, as that says"""
    DOUBTED = auto()
    """at the current scheduler, unless that has ended this client's session and deleted what belonged to it"""
    CLAIMED = auto()
    """it was at another scheduler: the current one is asked for what its agent may still have"""
    LOST = auto()
    """it was at another scheduler, or was deleted, or went with its agent"""
    AGAIN = auto()
    """its task runs again, or has run and has no large result this time"""
    CANCELED = auto()
    """its graph was cancelled while its task ran again: it runs only for a request for this very result"""
    GONE = auto()
    """it was lost, and its task must not run again: each request fails with the same error"""


class SharedReceiver:
    """Two receivers of one large result: the second requested it while it was on its way to the first."""

    def __init__(self, first: ResultReceiver, second: ResultReceiver) -> None:
        self._both = first, second

    def deliver(self, result: TaskResult) -> None:
        for each in self._both:
            each.deliver(result)

    def refuse(self, result: TaskResult) -> None:
        for each in self._both:
            each.refuse(result)

    def store(self, result: TaskResult) -> None:
        for each in self._both:
            each.store(result)

    def receive_frames(self, object_id: ObjectId, frames: Frames | None) -> None:
        for each in self._both:
            each.receive_frames(object_id, frames)

    def fail(self, make_error: MakeError) -> None:
        for each in self._both:
            each.fail(make_error)

    def notify(self) -> None:
        for each in self._both:
            each.notify()


def shared(known: ResultReceiver | None, receiver: ResultReceiver) -> ResultReceiver:
    """Return what receives a result for both; `known`: the receiver that waits for it already, if there is one."""
    return receiver if known is None or known is receiver else SharedReceiver(known, receiver)


class UnreadResult:
    """One large result, and the sink of its call when that is submitted again.

    Attributes:
        object_id: the id of the result, the same as that of its task.
        call: the call that made it.
        state: where it is.
        times_lost: how often it was lost: on its way here because its scheduler ended, or with its agent.
        why: how it was lost last.
        make_error: makes the error of each request if it is gone.
    """

    __slots__ = (
        *("_asked_by", "_outcome", "_receiver", "_table"),
        *("call", "make_error", "object_id", "state", "times_lost", "why"),
    )

    def __init__(self, object_id: ObjectId, call: Call, table: UnreadResults) -> None:
        self.object_id = object_id
        self.call = call
        self.state = ResultState.THERE
        self.times_lost = 0
        self.why = BECAUSE_OF_SCHEDULER
        self.make_error: MakeError | None = None
        self._asked_by: weakref.ref[ResultReceiver] | None = None
        self._receiver: ResultReceiver | None = None
        self._outcome: TaskResult | None = None
        self._table = table

    @property
    def is_at_scheduler(self) -> bool:
        """Whether the scheduler may have it."""
        return self.state is ResultState.THERE or self.state is ResultState.DOUBTED

    @property
    def asked_by(self) -> ResultReceiver | None:
        """The last receiver that has asked for it since it was lost, while that lives: one that failed has an error,
        and so the frames of those that read it.
        """
        return None if self._asked_by is None else self._asked_by()

    @property
    def outcome(self) -> TaskResult | None:
        """How its task has ended when it ran again, if not with a large result."""
        return self._outcome

    def ask(self, receiver: ResultReceiver) -> None:
        """Hand the outcome of the call to `receiver`: now if it is known, else when it arrives."""
        if self.make_error is not None:
            receiver.fail(self.make_error)
            return
        receiver = self._receiver = shared(self._receiver, receiver)
        self._asked_by = weakref.ref(receiver)
        if self._outcome is not None:
            self._hand_over(self._outcome, receiver)
            receiver.notify()

    def deliver(self, result: TaskResult) -> None:
        was_claimed, self._outcome = self.state is ResultState.CLAIMED, result
        if was_claimed:
            self.state = ResultState.AGAIN
            self._table.on_answered(self)
        if self._receiver is not None:
            self._hand_over(result, self._receiver)

    def refuse(self, result: TaskResult) -> None:
        if self.state is ResultState.CLAIMED:
            self.state = ResultState.LOST
            self._table.on_answered(self)
        else:
            self.deliver(result)

    def store(self, result: TaskResult) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.store(result)

    def fail(self, make_error: MakeError) -> None:
        """The receiver fails. The next one that asks may succeed."""
        self.state = ResultState.CANCELED if make_error is CancelledError else ResultState.LOST
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.fail(make_error)

    def end(self, make_error: MakeError) -> None:
        """Fail the receiver, and all later ones: the task must not run again."""
        self.fail(make_error)
        self.state, self.make_error = ResultState.GONE, make_error

    def notify(self) -> None:
        asked_by = self.asked_by
        if asked_by is not None:
            asked_by.notify()

    def _hand_over(self, outcome: TaskResult, receiver: ResultReceiver) -> None:
        self._table.pop(self.object_id, None)
        self._receiver = None
        if outcome.status:
            receiver.refuse(outcome)
        else:
            receiver.deliver(outcome)


class UnreadResults(dict[ObjectId, UnreadResult]):
    """All unread results of a client, by id.

    Args:
        on_answered: called with each that was claimed, when it is known whether an agent has it.
    """

    def __init__(self, on_answered: Callable[[UnreadResult], None]) -> None:
        super().__init__()
        self.on_answered = on_answered

    def keep(self, task_id: TaskId, open_call: Entry | tuple[GraphEntry, Sink]) -> None:
        """Keep a call whose large result stays with the scheduler."""
        object_id = ObjectId(task_id)
        known = self.get(object_id)
        if known is not None:
            was_claimed, known.state = known.state is ResultState.CLAIMED, ResultState.THERE
            known.make_error = None
            if was_claimed:
                self.on_answered(known)
            return
        self[object_id] = UnreadResult(object_id, call_of(open_call), self)

    def is_there(self, object_id: ObjectId) -> bool:
        """Return whether the scheduler may have it."""
        unread = self.get(object_id)
        return unread is not None and unread.is_at_scheduler

    def at_scheduler(self) -> list[UnreadResult]:
        """Return all that the scheduler may have."""
        return [unread for unread in self.values() if unread.is_at_scheduler]

    def in_state(self, state: ResultState) -> list[UnreadResult]:
        """Return all results in one state, in the order of their arrival."""
        return [unread for unread in self.values() if unread.state is state]

    def has_claims(self, call: Call) -> bool:
        """Return whether it is not known yet if agents have further results of a graph."""
        is_graph = isinstance(call, GraphEntry)
        return is_graph and any(each.call is call and each.state is ResultState.CLAIMED for each in self.values())

    def doubt(self) -> None:
        """Note that the scheduler may have deleted all that it had: a new session begins."""
        for unread in self.in_state(ResultState.THERE):
            unread.state = ResultState.DOUBTED

    def lose(self, on_their_way: Container[ObjectId]) -> None:
        """Mark all that the last scheduler, or the last session at the same scheduler, had as lost.

        The loss counts against those that were on their way to the client: they may be what ended the scheduler.
        """
        for unread in self.in_state(ResultState.DOUBTED):
            unread.state, unread.why = ResultState.LOST, BECAUSE_OF_SCHEDULER
            unread.times_lost += unread.object_id in on_their_way

    def drop_asked_by(self, receiver: object) -> list[UnreadResult]:
        """Remove and return all that `receiver` has asked for since they were lost."""
        dropped = [unread for unread in self.values() if unread.asked_by is receiver]
        for unread in dropped:
            del self[unread.object_id]
        return dropped


class Calls(Protocol):
    """The part of the open work that large results need."""

    out: list[Any]

    @property
    def graphs(self) -> Container[object]: ...

    def add(self, entry: Entry) -> None: ...

    def add_graph(self, graph: GraphEntry) -> None: ...

    def claim(self, entries: Iterable[Entry]) -> None: ...

    def delete(self, object_ids: Iterable[ObjectId]) -> None: ...

    def say_graph_again(self, graph_id: GraphId, why: str) -> bool: ...

    def on_graph_over(self) -> None: ...


class LargeResults:
    """The large results of a client that were not fetched yet, and the requests for them."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.requests: dict[ObjectId, ResultReceiver] = {}
        self.unread = UnreadResults(self._claim_answered)
        self._kept: set[ObjectId] = set()
        """results that are deleted only when their futures are gone"""
        self._waits_for_graph = False
        """whether a lost result is to be made again when its graph has ended"""

    def request(self, object_id: ObjectId, receiver: ResultReceiver, keep: bool = False) -> None:
        """Ask for a large result. If it was lost with its scheduler, its task is submitted again.

        Args:
            keep: whether it stays with the scheduler, because other tasks need it, until its future is gone.
        """
        if keep:
            self._kept.add(object_id)
        unread = self.unread.get(object_id)
        if unread is None or self.unread.is_there(object_id):
            known = self.requests.get(object_id)
            self.requests[object_id] = shared(known, receiver)
            if known is None:
                self._calls.out.append(as_request(object_id))
        else:
            unread.ask(receiver)
            if unread.state is ResultState.CANCELED:
                self._make_again(self._with_its_graph(unread))
            elif unread.state is ResultState.LOST:
                self._make_again(self.unread.in_state(ResultState.LOST))  # all, so that they run in parallel

    def _make_again(self, lost: Iterable[UnreadResult], with_open_graphs: bool = False) -> None:
        """Say the calls of lost results again. A graph that is open at the scheduler has to end first, unless all that
        is open is said again, and it has to be known what else of a graph was lost.
        """
        graphs: dict[GraphId, GraphEntry] = {}
        for unread in lost:
            call = unread.call
            if not with_open_graphs and (call in self._calls.graphs or self.unread.has_claims(call)):
                self._waits_for_graph = True
                continue
            spec = call.spec if isinstance(call, GraphEntry) else call[0]
            # An open graph is said again as one that may have been started.
            is_once = is_at_most_once(spec.options) and call not in self._calls.graphs
            if unread.times_lost >= TRIES_MOST or is_once:
                unread.end(partial(unrepeatable_result if is_once else lost_result, unread.why, unread.times_lost))
                continue
            unread.state = ResultState.AGAIN
            if isinstance(call, GraphEntry):
                call.sinks[TaskId(unread.object_id)] = unread
                graphs[call.spec.graph_id] = call
            else:
                first = replace(call[0], priority=with_wish(call[0].priority, MOST - 1))  # before all but a wanted one
                self._calls.add((first, unread, *call[1:]))
        for graph in graphs.values():
            self._calls.add_graph(graph)

    def drop(self, object_id: ObjectId) -> UnreadResult | None:
        """Remove and return a result whose future is gone."""
        self._kept.discard(object_id)
        return self.unread.pop(object_id, None)

    def needed(self, object_id: ObjectId) -> UnreadResult | None:
        """Return a large result that a task needs. If it was lost, what made it runs again, unless it is gone; None: it
        is not known here.
        """
        unread = self.unread.get(object_id)
        if unread is not None and unread.state is ResultState.DOUBTED:
            unread.state = ResultState.LOST  # to ask whether it is there would take as long as most tasks
        if unread is not None and unread.state in (ResultState.LOST, ResultState.CANCELED):
            lost = self._with_its_graph(unread)
            self._take_over(lost)  # an answer to a request on its way is not about the result that comes
            self._make_again(lost)
        return self.unread.get(object_id)

    def _with_its_graph(self, unread: UnreadResult) -> list[UnreadResult]:
        """Return what was lost in the same way and is made by the same call: so that this runs once."""
        if not isinstance(unread.call, GraphEntry):
            return [unread]
        return [each for each in self.unread.in_state(unread.state) if each.call is unread.call]

    def abandon(self, receiver: object) -> None:
        """Drop the requests of `receiver`."""
        for object_id in [object_id for object_id, known in self.requests.items() if known is receiver]:
            del self.requests[object_id]
            self.unread.pop(object_id, None)
            self._calls.delete([object_id])

    def give_up_on(self, object_id: ObjectId, make_error: MakeError) -> None:
        """Fail one request, if there is such a one."""
        receiver = self.requests.pop(object_id, None)
        if receiver is not None:
            self.unread.pop(object_id, None)
            self._calls.delete([object_id])
            receiver.fail(make_error)

    def fail(self, make_error: MakeError) -> None:
        """Fail all requests."""
        requests, self.requests = self.requests, {}
        for receiver in requests.values():
            receiver.fail(make_error)

    def forget(self) -> None:
        """Forget all results. Requests stay."""
        self.unread = UnreadResults(self._claim_answered)
        self._kept.clear()

    # What the scheduler answers

    def on_late(self, result: TaskResult) -> None:
        """Handle a result that is not wanted any more."""
        object_id = ObjectId(result.task_id)
        if result.size and not self.unread.is_there(object_id):
            self._calls.delete([object_id])  # else the scheduler would keep it as long as this client lives

    def on_objects(self, responses: Iterable[ObjectResponse]) -> None:
        for response in responses:
            self._on_object(response)

    def _on_object(self, response: ObjectResponse) -> None:
        unread = self.unread.get(response.object_id)
        if response.found == LOST and self._on_lost(response, unread):
            return
        if not response.found and unread is not None and unread.state is ResultState.DOUBTED:
            self._lose_unread({response.object_id})
            return
        if response.object_id not in self.requests:
            return
        is_found, frames = response.found == FOUND, response.frames
        if is_found and response.location:
            try:
                frames = frames_at(response.location, BYTES_HEAD)
            except (OSError, MemoryError):  # its agent is on another host, or has just ended
                self._calls.out.append(ObjectRequest(response.object_id, 1))
                return
        receiver = self.requests.pop(response.object_id)
        if not (is_found and response.object_id in self._kept):
            self.unread.pop(response.object_id, None)
            if is_found:
                self._calls.delete([response.object_id])
        receiver.receive_frames(response.object_id, frames if is_found else None)

    def _on_lost(self, response: ObjectResponse, unread: UnreadResult | None) -> bool:
        """A result went with its agent, or one that an open graph needs. Return whether that is all there is to it."""
        if (
            unread is None or unread.state is ResultState.AGAIN
        ):  # a call whose arguments are futures: its graph has its id
            return self._calls.say_graph_again(GraphId(response.object_id), response.reason)
        if unread.is_at_scheduler:
            unread.state, unread.times_lost = ResultState.LOST, unread.times_lost + 1
            unread.why = f"{response.reason} (told at {time.strftime('%H:%M:%S')})"
            if self._take_over([unread]):
                self._make_again([unread])
        return True

    def make_waiting_again(self) -> None:
        """Make again what is asked for and was lost with a graph that was open, or whose other results were claimed."""
        if not self._waits_for_graph:
            return
        self._waits_for_graph = False
        lost = self.unread.in_state(ResultState.LOST)
        calls = {id(each.call) for each in lost if each.asked_by is not None}
        self._make_again([each for each in lost if id(each.call) in calls])

    def on_new_session(self) -> None:
        """The scheduler may have deleted what was not read.

        Open graphs are sent again anyway, so their results are wanted again.
        """
        self.unread.doubt()
        of_open_graphs = [each for each in self.unread.in_state(ResultState.DOUBTED) if self._may_want_again(each)]
        self._take_over(of_open_graphs)
        self._make_again(of_open_graphs, with_open_graphs=True)

    def _may_want_again(self, unread: UnreadResult) -> bool:
        call = unread.call
        return isinstance(call, GraphEntry) and call in self._calls.graphs and not is_at_most_once(call.spec.options)

    def _take_over(self, lost: Iterable[UnreadResult]) -> list[UnreadResult]:
        """Keep the requests for results that have to be made first. Return these results."""
        asked = [unread for unread in lost if unread.object_id in self.requests]
        for unread in asked:
            unread.ask(self.requests.pop(unread.object_id))
        return asked

    def on_other_scheduler(self) -> None:
        """Submit again what made the large results that are requested now: if an agent still has one, its task does not
        run. The others are claimed.

        A graph that is open, or said again, says all its results again.
        """
        self.unread.doubt()
        doubted = self.unread.in_state(ResultState.DOUBTED)
        self.unread.lose(self.requests)
        wanted = self._take_over(self.unread.in_state(ResultState.LOST))
        again = [each for each in wanted if each.call in self._calls.graphs or not is_at_most_once(_options(each))]
        calls = {id(each.call) for each in again}
        lost = self.unread.in_state(ResultState.LOST)
        again = [each for each in lost if id(each.call) in calls or each.call in self._calls.graphs]
        self._make_again(again, with_open_graphs=True)
        self._claim([each for each in doubted if each.state is ResultState.LOST and each.object_id in self.unread])

    def _claim(self, lost: Iterable[UnreadResult]) -> None:
        entries: list[Entry] = []
        for unread in lost:
            unread.state = ResultState.CLAIMED
            if isinstance(unread.call, GraphEntry):
                task, function = claim_of_node(unread.call, TaskId(unread.object_id))
            else:
                task, function = claim_of_task(unread.call[0]), unread.call[1]
            entries.append((task, unread, function, (), ()))
        self._calls.claim(entries)

    def _claim_answered(self, unread: UnreadResult) -> None:
        """It is known whether an agent has it."""
        if unread.state is ResultState.LOST and unread.asked_by is not None:
            self._make_again(self._with_its_graph(unread))
        elif not self.unread.has_claims(unread.call):
            self._calls.on_graph_over()

    def is_claimed(self, object_id: ObjectId) -> bool:
        """Return whether it is not known yet if an agent still has a result."""
        unread = self.unread.get(object_id)
        return unread is not None and unread.state is ResultState.CLAIMED

    def _lose_unread(self, on_their_way: Container[ObjectId]) -> None:
        """Submit again what made the large results that are lost now, if one of them is requested."""
        self.unread.lose(on_their_way)
        lost = self.unread.in_state(ResultState.LOST)
        wanted = lost if self._take_over(lost) else [each for each in lost if each.call in self._calls.graphs]
        self._make_again(wanted, with_open_graphs=True)


def _options(unread: UnreadResult) -> bytes:
    call = unread.call
    return call.spec.options if isinstance(call, GraphEntry) else call[0].options


def as_request(object_id: ObjectId) -> ObjectRequest:
    """Return the request for a large result: for its location, if this process could open it."""
    return ObjectRequest(object_id, not can_share())
