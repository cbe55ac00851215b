"""ConversationState: where a peer is in its conversation with the schedulers at one address, and what it does next.

    what happened, the time --> ConversationState --> what to do: open a connection, say the hello, hang up, ...

Clients and agents have one each and do what it says. It has no socket, thread, clock or log of its own.

Must never: have two hellos said on one connection, or anything before the hello was accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from scaler.ids import NO_ID
from scaler.peer import states
from scaler.peer.states import NOTHING, Action, Event, State
from scaler.peer.times import LATE_SECONDS, Patience, Times

TRIES_MOST = 5
"""After so many unreadable messages in a row, with nothing in between that could be read, there is no hope."""


class ConversationState:
    """The conversation of one peer.

    Args:
        patience: how long it waits for what.
        is_waiting: returns whether anything waits for the scheduler, and may time out.
    """

    def __init__(self, patience: Patience, is_waiting: Callable[[], bool]) -> None:
        self.state: State = states.AWAY
        self.scheduler_id = NO_ID
        """the last scheduler that accepted a hello"""
        self.next_at = -inf
        """when to look at the clock again, at the latest"""
        self._times = Times(patience)
        self._is_waiting = is_waiting
        self._has_news = False
        """whether anything was heard on this connection after the welcome"""
        self._unreadable = 0

    # What happened

    def happened(self, event: Event, now: float) -> Action:
        """Return what to do after an event."""
        if event is states.UNREADABLE and (self.state is states.UP or self._is_first_greeting):
            event = self._unreadable_again()
        before = self.state
        self.state, action = states.next_step(before, event)
        if self.state is not before:
            self._moved(now)
        elif event is states.HEARTBEAT_DUE and before is states.UP:
            self._times.beaten(now)
        elif event is states.TIMED_OUT:
            self._times.set_waiting(False, now)
        self._plan(now)
        return action

    def welcomed(self, scheduler_id: bytes, is_resumed: bool, now: float, dead_after_seconds: float = 0.0) -> Action:
        """Return what to do after a hello was accepted. A second reply changes nothing.

        Args:
            scheduler_id: the id in the reply.
            is_resumed: whether the reply says that the session goes on.
            dead_after_seconds: after this silence the scheduler takes this peer for dead; 0 if it does not say.
        """
        if self.state is not states.GREETING:
            return NOTHING
        self._times.beat_within(dead_after_seconds)
        is_other = self.scheduler_id not in (NO_ID, scheduler_id)
        self.scheduler_id = scheduler_id
        if is_other:
            return self.happened(states.REPLACED, now)
        return self.happened(states.RESUMED if is_resumed else states.RESET, now)

    def refused(self, is_certain: bool, now: float) -> Action:
        """Return what to do after a refusal. After the first welcome one that is not certain counts as a lost
        connection: another program may have taken the address for some time.

        Args:
            is_certain: whether the scheduler that accepted this peer has refused it, or one with the same key; or it
                was refused on this side.
        """
        is_final = is_certain or self.scheduler_id == NO_ID
        return self.happened(states.REFUSED if is_final else states.CUT, now)

    @property
    def _is_first_greeting(self) -> bool:
        """Whether no scheduler has accepted a hello yet, so that what listens there is all that there ever was."""
        return self.state is states.GREETING and self.scheduler_id == NO_ID

    def heard(self) -> None:
        """Note that a message came on a connection that is up; not if it asks for a hello, which proves nothing."""
        self._has_news = True
        self._times.unanswered_since = inf

    def began_to_wait(self, now: float) -> None:
        """Note that something waits from now on. Without this, its time-out counts from the next look at the clock."""
        if self._times.unanswered_since < inf:
            self._plan(now)

    # The clock

    def look(self, now: float) -> Action:
        """Return what is due; call it again until that is nothing. A time in which the peer itself was stopped does not
        count.
        """
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
        """Set the times of the state that has just begun."""
        if self.state is states.GREETING:
            self._has_news = False
            self._times.opened(now)
        elif self.state is states.UP:
            self._times.welcomed(now)
        elif self.state is states.AWAY:
            self._times.lost(now, self._has_news)
        elif self.state is states.LEAVING:
            self._times.left(now)
        elif self.state is states.ENDED:
            self._times.ended()

    def _unreadable_again(self) -> Event:
        self._unreadable = 1 if self._has_news else self._unreadable + 1
        if self._unreadable < TRIES_MOST:
            return states.UNREADABLE
        self._unreadable = 0
        return states.GARBLED
