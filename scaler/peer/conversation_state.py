"""ConversationState: where a peer is in its conversation with the schedulers at one address, and what it does next.

    an event, the time --> ConversationState --> what to do: open a connection, send the hello, hang up, ...

Each client and each agent has one `ConversationState`, which has no socket, thread, clock or log of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from scaler.ids import NO_ID
from scaler.peer import states
from scaler.peer.states import NOTHING, Action, Event, State
from scaler.peer.times import LATE_SECONDS, Patience, Times

TRIES_MOST = 5
"""The number of unreadable messages in a row after which the peer gives up the connection."""


class ConversationState:
    """The state of one peer's conversation with schedulers. Each event changes the state and returns the next action.

    Args:
        is_waiting: returns whether there is work that waits for the scheduler and may time out.
    """

    def __init__(self, patience: Patience, is_waiting: Callable[[], bool]) -> None:
        self.state: State = states.DISCONNECTED
        self.scheduler_id = NO_ID
        """the id of the last scheduler that accepted a hello"""
        self.has_other_scheduler = False
        """whether the last welcome came from another scheduler than the welcome before"""
        self.next_at = -inf
        self._times = Times(patience)
        self._is_waiting = is_waiting
        self._has_messages = False
        """whether a message was received on this connection after the welcome"""
        self._unreadable = 0

    # What happened

    def happened(self, event: Event, now: float) -> Action:
        """Change the state of the conversation after an event. Return what to do."""
        if event is states.UNREADABLE and (self.state is states.CONNECTED or self._is_first_greeting):
            event = self._unreadable_again()
        before = self.state
        self.state, action = states.next_step(before, event)
        if self.state is not before:
            self._moved(now)
        elif event is states.HEARTBEAT_DUE and before is states.CONNECTED:
            self._times.heartbeat_sent(now)
        elif event is states.TIMED_OUT:
            self._times.set_waiting(False, now)
        self._plan(now)
        return action

    def welcomed(self, scheduler_id: bytes, is_resumed: bool, now: float, dead_after_seconds: float = 0.0) -> Action:
        """Return what to do after a hello was accepted. A second reply to a hello changes nothing.

        Args:
            dead_after_seconds: the silence after which the scheduler takes this peer for dead; 0 if unknown.
        """
        if self.state is not states.GREETING:
            return NOTHING
        self._times.limit_heartbeat(dead_after_seconds)
        self.has_other_scheduler = self.scheduler_id not in (NO_ID, scheduler_id)
        self.scheduler_id = scheduler_id
        goes_on = is_resumed and not self.has_other_scheduler
        return self.happened(states.RESUMED if goes_on else states.NEW_SESSION, now)

    def refused(self, is_certain: bool, now: float) -> Action:
        """Return what to do after a refusal.

        If a scheduler has accepted this peer before, an uncertain refusal counts as a lost connection, because another
        program may have taken the address for some time.

        Args:
            is_certain: whether the refusal came from this process, from the scheduler that accepted this peer, or from
                a scheduler with the expected key.
        """
        is_final = is_certain or self.scheduler_id == NO_ID
        return self.happened(states.REFUSED if is_final else states.CONNECTION_LOST, now)

    @property
    def _is_first_greeting(self) -> bool:
        """Whether the peer waits for the reply to a hello, and was never accepted before."""
        return self.state is states.GREETING and self.scheduler_id == NO_ID

    def heard(self) -> None:
        """Record that a message arrived after the welcome. The scheduler's request for a hello does not count."""
        self._has_messages = True
        self._times.unanswered_since = inf

    def started_waiting(self, now: float) -> None:
        """Record that work now waits for the scheduler. Without this call, the time-out counts from the next `look`."""
        if self._times.unanswered_since < inf:
            self._plan(now)

    # The clock

    def look(self, now: float) -> Action:
        """Return the due action; call again until it is `NOTHING`. Time in which the process was stopped is ignored."""
        times = self._times
        if now < self.next_at and times.unanswered_since == inf:
            return NOTHING
        if -inf < self.next_at < now - LATE_SECONDS:
            times.paused(now - self.next_at)
        self._plan(now)
        due_at, event = times.next_due()
        return self.happened(event, now) if due_at <= now else NOTHING

    def _plan(self, now: float) -> None:
        times = self._times
        if times.unanswered_since < inf:
            times.set_waiting(self._is_waiting(), now)
        self.next_at = max(now, times.next_due()[0])

    # After a step

    def _moved(self, now: float) -> None:
        if self.state is states.GREETING:
            self._has_messages = False
            self._times.opened(now)
        elif self.state is states.CONNECTED:
            self._times.welcomed(now)
        elif self.state is states.DISCONNECTED:
            self._times.lost(now, self._has_messages)
        elif self.state is states.LEAVING:
            self._times.left(now)
        elif self.state is states.ENDED:
            self._times.ended()

    def _unreadable_again(self) -> Event:
        self._unreadable = 1 if self._has_messages else self._unreadable + 1
        if self._unreadable < TRIES_MOST:
            return states.UNREADABLE
        self._unreadable = 0
        return states.UNREADABLE_TOO_OFTEN
