"""LargeResults: the unread large results of a client, the requests for them, and the calls that can make them again.

A large result stays with its agent or the scheduler until it is requested. If it is lost first, its task must run
again, so the client keeps the call until then.

    STORED  --a new session starts-->  CLAIMED  --the scheduler or an agent has it-->  STORED
    CLAIMED  --neither has it-->  LOST  --any is requested-->  RESUBMITTED  --a large result arrives-->  STORED
    STORED  --its agent is lost-->  LOST
    RESUBMITTED  --its task or graph is cancelled-->  LOST
    LOST  --any is requested, and the task of this one must not run again-->  UNREPEATABLE

*Any* is this result, or another one in the same state.

Used by the open work, which has the open calls.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from typing import Any, Protocol

from scaler.client.calls.entry import Call, Entry, GraphCalls, MakeError, ResultReceiver
from scaler.client.link.at_most_once import claim_of_task, is_at_most_once
from scaler.client.outcome import SCHEDULER_ENDED, SESSION_ENDED, lost_result, unrepeatable_result
from scaler.ids import ObjectId, TaskId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import BYTES_HEAD, Frames
from scaler.shared_memory import can_share, frames_at
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import FOUND, LOST, ObjectRequest, ObjectResponse
from scaler.wire.messages.priority import MOST, with_user_priority


class ResultState(Enum):
    """The place of a large result, or what has happened to it."""

    STORED = auto()
    """the result is at the current scheduler, or with an agent that the scheduler knows"""
    CLAIMED = auto()
    """a new session has started; the scheduler is asked whether it, or an agent, still has the result"""
    LOST = auto()
    """the result was lost with its agent, or no scheduler or agent has it any longer"""
    RESUBMITTED = auto()
    """the task of the result runs again, or has run again and returned a value that is not large"""
    UNREPEATABLE = auto()
    """the result was lost, and its task must not run again: each request fails with the same error"""


class SharedReceiver:
    """Passes one large result to two receivers: the second requested the result before the first had received it."""

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
    """Return a receiver that passes a result to `receiver` and to `known`; `receiver` alone if `known` is None."""
    return receiver if known is None or known is receiver else SharedReceiver(known, receiver)


class UnreadResult:
    """One large result. If its call is resubmitted, this object also receives the new result.

    Attributes:
        object_id: the id of the result, the same as that of its task.
        size: the size of the result, in bytes.
        times_lost: how often the result was lost: with its agent, or because the scheduler ended during its transfer.
        why: the reason of the last loss.
        make_error: makes the error with which each request fails; None while the result may be made again.
    """

    __slots__ = (
        *("_requested_by", "_outcome", "_receiver", "_table"),
        *("call", "make_error", "object_id", "size", "state", "times_lost", "why"),
    )

    def __init__(self, object_id: ObjectId, size: int, call: Call, table: UnreadResults) -> None:
        self.object_id = object_id
        self.size = size
        self.call = call
        self.state = ResultState.STORED
        self.times_lost = 0
        self.why = SCHEDULER_ENDED
        self.make_error: MakeError | None = None
        self._requested_by: weakref.ref[ResultReceiver] | None = None
        self._receiver: ResultReceiver | None = None
        self._outcome: TaskResult | None = None
        self._table = table

    @property
    def is_at_scheduler(self) -> bool:
        """Whether the scheduler may have the result."""
        return self.state is ResultState.STORED

    @property
    def requested_by(self) -> ResultReceiver | None:
        """The last receiver that requested the lost result. The reference is weak, because the receiver's error may
        hold stack frames.
        """
        return None if self._requested_by is None else self._requested_by()

    @property
    def outcome(self) -> TaskResult | None:
        """The result of the resubmitted task; None if the result has not arrived, or is large."""
        return self._outcome

    def ask(self, receiver: ResultReceiver) -> None:
        """Pass the outcome of the call to `receiver`, at once if the outcome is known, otherwise when it arrives."""
        if self.make_error is not None:
            receiver.fail(self.make_error)
            return
        receiver = self._receiver = shared(self._receiver, receiver)
        self._requested_by = weakref.ref(receiver)
        if self._outcome is not None:
            self._hand_over(self._outcome, receiver)
            receiver.notify()

    def deliver(self, result: TaskResult) -> None:
        self._outcome, self.state = result, ResultState.RESUBMITTED
        if self._receiver is not None:
            self._hand_over(result, self._receiver)

    def refuse(self, result: TaskResult) -> None:
        if self.state is ResultState.CLAIMED:
            self.state = ResultState.LOST
            self._table.on_claim_refused(self)
        else:
            self.deliver(result)

    def store(self, result: TaskResult) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.store(result)

    def fail(self, make_error: MakeError) -> None:
        """Fail the receiver of the result; a later request may succeed."""
        self.state = ResultState.LOST
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.fail(make_error)

    def end(self, make_error: MakeError) -> None:
        """Fail the receiver of the result and all later requests: the task must not run again."""
        self.fail(make_error)
        self.state, self.make_error = ResultState.UNREPEATABLE, make_error

    def notify(self) -> None:
        requested_by = self.requested_by
        if requested_by is not None:
            requested_by.notify()

    def _hand_over(self, outcome: TaskResult, receiver: ResultReceiver) -> None:
        self._table.pop(self.object_id, None)
        self._receiver = None
        if outcome.status:
            receiver.refuse(outcome)
        else:
            receiver.deliver(outcome)


class UnreadResults(dict[ObjectId, UnreadResult]):
    """All unread large results of a client, by id.

    Args:
        on_claim_refused: called with a claimed result that no agent has.
    """

    def __init__(self, on_claim_refused: Callable[[UnreadResult], None]) -> None:
        super().__init__()
        self.on_claim_refused = on_claim_refused

    def keep(self, result: TaskResult, call: Call) -> None:
        """Keep the call of a large result that stays with the scheduler. Of a known result, the call is kept already.

        The scheduler has then answered a claim, or the task has run again.
        """
        object_id = ObjectId(result.task_id)
        known = self.get(object_id)
        if known is not None:
            known.state, known.make_error, known.size = ResultState.STORED, None, result.size
            return
        self[object_id] = UnreadResult(object_id, result.size, call, self)

    def is_stored(self, object_id: ObjectId) -> bool:
        """Return whether the scheduler may have a result."""
        unread = self.get(object_id)
        return unread is not None and unread.is_at_scheduler

    def at_scheduler(self) -> list[UnreadResult]:
        """Return all results that the scheduler may have."""
        return [unread for unread in self.values() if unread.is_at_scheduler]

    def in_state(self, state: ResultState) -> list[UnreadResult]:
        """Return all results in one state, in the order in which the results arrived."""
        return [unread for unread in self.values() if unread.state is state]

    def mark_lost(self, in_transit: Container[ObjectId], why: str = SCHEDULER_ENDED) -> list[UnreadResult]:
        """Mark all stored results as lost, for the reason `why`, and return these. Add 1 to `times_lost` of each result
        that was `in_transit`, because the transfer may have ended the scheduler.
        """
        stored = self.in_state(ResultState.STORED)
        for unread in stored:
            unread.state, unread.why = ResultState.LOST, why
            unread.times_lost += unread.object_id in in_transit
        return stored

    def drop_requested_by(self, receiver: object) -> list[UnreadResult]:
        """Remove and return the lost results that `receiver` has requested."""
        dropped = [unread for unread in self.values() if unread.requested_by is receiver]
        for unread in dropped:
            del self[unread.object_id]
        return dropped


class Calls(Protocol):
    """The methods of the open work that large results need."""

    out: list[Any]

    def resubmit(self, entry: Entry) -> None: ...

    def claim(self, entries: Iterable[Entry]) -> None: ...

    def open_graph_of(self, call: Call) -> GraphCalls | None: ...

    def delete(self, object_ids: Iterable[ObjectId]) -> None: ...


class LargeResults:
    """Requests the large results of a client, and resubmits the calls of lost results."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.requests: dict[ObjectId, ResultReceiver] = {}
        self.unread = UnreadResults(self._claim_refused)
        self._kept: set[ObjectId] = set()
        """ids of results that are not deleted when they are read, but when their futures are garbage-collected"""

    def request(self, object_id: ObjectId, receiver: ResultReceiver, keep: bool = False) -> None:
        """Request a large result. If the result was lost, its task is resubmitted.

        Args:
            keep: whether the scheduler keeps the result for other tasks until the future of the result is
                garbage-collected.
        """
        if keep:
            self._kept.add(object_id)
        unread = self.unread.get(object_id)
        if unread is None or self.unread.is_stored(object_id):
            known = self.requests.get(object_id)
            self.requests[object_id] = shared(known, receiver)
            if known is None:
                self._calls.out.append(as_request(object_id))
        else:
            unread.ask(receiver)
            if unread.state is ResultState.LOST:
                self._resubmit(self.unread.in_state(ResultState.LOST))  # all, so that they run in parallel

    def _resubmit(self, lost: Iterable[UnreadResult]) -> None:
        """Resubmit the calls of lost results, each by itself. Results that these calls need are not requested here."""
        for unread in lost:
            task, *_ = call = unread.call
            is_once = is_at_most_once(task.options)
            if unread.times_lost >= TRIES_MOST or is_once:
                unread.end(partial(unrepeatable_result if is_once else lost_result, unread.why, unread.times_lost))
                continue
            unread.state = ResultState.RESUBMITTED
            priority = with_user_priority(task.priority, MOST - 1)  # before all but a wanted one
            self._calls.resubmit((replace(task, priority=priority), unread, *call[1:]))

    def drop(self, object_id: ObjectId) -> UnreadResult | None:
        """Remove and return a large result whose future was garbage-collected."""
        self._kept.discard(object_id)
        return self.unread.pop(object_id, None)

    def needed(self, object_id: ObjectId) -> UnreadResult | None:
        """Return a large result that a task needs; None if unknown. If the result is lost, try to resubmit its call."""
        unread = self.unread.get(object_id)
        if unread is not None and unread.state is ResultState.LOST:
            self._resubmit([unread])
        return unread

    def abandon(self, receiver: object) -> None:
        """Drop the requests of `receiver`."""
        for object_id in [object_id for object_id, known in self.requests.items() if known is receiver]:
            del self.requests[object_id]
            self.unread.pop(object_id, None)
            self._calls.delete([object_id])

    def give_up_on(self, object_id: ObjectId, make_error: MakeError) -> None:
        """Fail the request for a result, if there is one."""
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
        """Forget all unread results, but not the requests."""
        self.unread = UnreadResults(self._claim_refused)
        self._kept.clear()

    # Answers of the scheduler

    def on_late(self, result: TaskResult) -> None:
        """Handle the result of a task that is no longer open."""
        object_id = ObjectId(result.task_id)
        unread = self.unread.get(object_id)
        if result.size and unread is not None and unread.state is ResultState.LOST:
            self.unread.keep(result, unread.call)  # its graph has made it again
        elif result.size and not self.unread.is_stored(object_id):
            self._calls.delete([object_id])  # else the scheduler would keep it as long as this client lives

    def on_objects(self, responses: Iterable[ObjectResponse]) -> None:
        for response in responses:
            self._on_object(response)

    def _on_object(self, response: ObjectResponse) -> None:
        if response.found == LOST and self._on_lost(response):
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

    def _on_lost(self, response: ObjectResponse) -> bool:
        """Handle a response that says that a result is lost. Return False if the result is unknown."""
        unread = self.unread.get(response.object_id)
        if unread is not None and unread.is_at_scheduler:
            unread.state, unread.times_lost = ResultState.LOST, unread.times_lost + 1
            unread.why = f"{response.reason} (reported at {time.strftime('%H:%M:%S')})"
            if self._defer_requests([unread]):
                self._resubmit([unread])
        return unread is not None

    def _defer_requests(self, lost: Iterable[UnreadResult]) -> list[UnreadResult]:
        """Keep the requests for lost results until the results are made again. Return the results with a request."""
        asked = [unread for unread in lost if unread.object_id in self.requests]
        for unread in asked:
            unread.ask(self.requests.pop(unread.object_id))
        return asked

    def start_over(self, has_ended: bool) -> None:
        """Resubmit the calls of requested results. Submit the results of open graphs with their graphs. Claim all other
        results.

        Args:
            has_ended: whether the scheduler of the last session has ended.
        """
        stored = self.unread.mark_lost(*((self.requests, SCHEDULER_ENDED) if has_ended else ((), SESSION_ENDED)))
        requested = self._defer_requests(stored)
        for unread in stored:
            graph = self._calls.open_graph_of(unread.call)
            if graph is not None:
                unread.state = ResultState.RESUBMITTED
                graph.sinks[TaskId(unread.object_id)] = unread
        lost = [unread for unread in requested if unread.state is ResultState.LOST]
        self._resubmit([unread for unread in lost if not is_at_most_once(unread.call[0].options)])
        self._claim([each for each in stored if each.state is ResultState.LOST and each.object_id in self.unread])

    def _claim(self, lost: Iterable[UnreadResult]) -> None:
        entries: list[Entry] = []
        for unread in lost:
            unread.state = ResultState.CLAIMED
            entries.append((claim_of_task(unread.call[0]), unread, unread.call[1], (), ()))
        self._calls.claim(entries)

    def _claim_refused(self, unread: UnreadResult) -> None:
        if unread.requested_by is not None:
            self._resubmit([unread])


def as_request(object_id: ObjectId) -> ObjectRequest:
    """Return a request for a large result. If this process can map shared memory, the answer may be a location."""
    return ObjectRequest(object_id, not can_share())
