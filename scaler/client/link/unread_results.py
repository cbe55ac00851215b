"""UnreadResults: the large results of a client that were not fetched yet, and the calls that made them.

A large result stays with the scheduler until it is requested. If the scheduler dies before, the task must run again.
So the client keeps the call until then.

    THERE  --another scheduler answers-->  LOST  --one is requested-->  AGAIN  --a large result arrives-->  THERE
    THERE  --the same scheduler begins a new session-->  DOUBTED  --it does not have one of these-->  LOST
    AGAIN  --its graph is cancelled-->  CANCELED  --it is requested itself-->  AGAIN

Changed by `OpenWork` only. Must never send.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Sequence
from concurrent.futures import CancelledError
from enum import Enum, auto
from typing import Any, TypeAlias

from scaler.client.calls.entry import Entry, GraphEntry, MakeError, Receiver, Sink
from scaler.client.object_reference import ObjectReference
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import ObjectInstruction

Call: TypeAlias = tuple[Task, ObjectInstruction, Sequence[ObjectInstruction], Sequence[ObjectReference]] | GraphEntry
"""An entry without its sink, since that would keep a dropped future alive; or the graph of the call."""


class State(Enum):
    """Where a large result is."""

    THERE = auto()
    """at the current scheduler"""
    DOUBTED = auto()
    """at the current scheduler, unless that has ended this client's session and deleted what belonged to it"""
    LOST = auto()
    """it was at another scheduler, or was deleted"""
    AGAIN = auto()
    """its task runs again, or has run and has no large result this time"""
    CANCELED = auto()
    """its graph was cancelled while its task ran again: that runs for nobody but who asks for this very result"""


class UnreadResult:
    """One large result, and the sink of its call when that is submitted again.

    Attributes:
        object_id: the id of the result, the same as that of its task.
        call: the call that made it.
        state: where it is.
        times_lost: how often it was lost on its way here, because its scheduler ended.
    """

    __slots__ = ("_asked_by", "_outcome", "_receiver", "_table", "call", "object_id", "state", "times_lost")

    def __init__(self, object_id: ObjectId, call: Call, table: UnreadResults) -> None:
        self.object_id = object_id
        self.call = call
        self.state = State.THERE
        self.times_lost = 0
        self._asked_by: weakref.ref[Receiver] | None = None
        self._receiver: Receiver | None = None
        self._outcome: TaskResult | None = None
        self._table = table

    @property
    def is_at_scheduler(self) -> bool:
        """Whether the scheduler may have it."""
        return self.state is State.THERE or self.state is State.DOUBTED

    @property
    def asked_by(self) -> Receiver | None:
        """The last receiver that has asked for it since it was lost, while that lives: one that failed has an error,
        and so the frames of those that read it.
        """
        return None if self._asked_by is None else self._asked_by()

    @property
    def outcome(self) -> TaskResult | None:
        """How its task has ended when it ran again, if not with a large result."""
        return self._outcome

    def ask(self, receiver: Receiver) -> None:
        """Hand the outcome of the call to `receiver`: now if it is known, else when it arrives."""
        self._receiver = receiver
        self._asked_by = weakref.ref(receiver)
        if self._outcome is not None:
            self._hand_over(self._outcome, receiver)
            receiver.notify()

    def deliver(self, result: TaskResult) -> None:
        self._outcome = result
        if self._receiver is not None:
            self._hand_over(result, self._receiver)

    def refuse(self, result: TaskResult) -> None:
        self.deliver(result)

    def store(self, result: TaskResult) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.store(result)

    def fail(self, make_error: MakeError) -> None:
        """The receiver fails. The next one that asks may succeed."""
        self.state = State.CANCELED if make_error is CancelledError else State.LOST
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.fail(make_error)

    def notify(self) -> None:
        asked_by = self.asked_by
        if asked_by is not None:
            asked_by.notify()

    def _hand_over(self, outcome: TaskResult, receiver: Receiver) -> None:
        self._table.pop(self.object_id, None)
        self._receiver = None
        if outcome.status:
            receiver.refuse(outcome)
        else:
            receiver.deliver(outcome)


class UnreadResults(dict[ObjectId, UnreadResult]):
    """All unread results of a client, by id."""

    def keep(self, task_id: TaskId, open_call: Entry | tuple[GraphEntry, Sink]) -> None:
        """Keep a call whose large result stays with the scheduler."""
        object_id = ObjectId(task_id)
        known = self.get(object_id)
        if known is not None:
            known.state = State.THERE
            return
        call: Any = open_call[0] if isinstance(open_call[0], GraphEntry) else (open_call[0], *open_call[2:])
        self[object_id] = UnreadResult(object_id, call, self)

    def is_there(self, object_id: ObjectId) -> bool:
        """Return whether the scheduler may have it."""
        unread = self.get(object_id)
        return unread is not None and unread.is_at_scheduler

    def at_scheduler(self) -> list[UnreadResult]:
        """Return all that the scheduler may have."""
        return [unread for unread in self.values() if unread.is_at_scheduler]

    def in_state(self, state: State) -> list[UnreadResult]:
        """Return all results in one state, in the order of their arrival."""
        return [unread for unread in self.values() if unread.state is state]

    def doubt(self) -> None:
        """Note that the scheduler may have deleted all that it had: a new session begins."""
        for unread in self.in_state(State.THERE):
            unread.state = State.DOUBTED

    def lose(self, on_their_way: Container[ObjectId]) -> None:
        """Mark all that the last scheduler, or the last session at the same scheduler, had as lost.

        The loss counts against those that were on their way to the client: they may be what ended the scheduler.
        """
        for unread in self.in_state(State.DOUBTED):
            unread.state = State.LOST
            unread.times_lost += unread.object_id in on_their_way

    def drop_asked_by(self, receiver: object) -> list[UnreadResult]:
        """Remove and return all that `receiver` has asked for since they were lost."""
        dropped = [unread for unread in self.values() if unread.asked_by is receiver]
        for unread in dropped:
            del self[unread.object_id]
        return dropped
