"""The dispatcher: one thread that runs all actors of a process, one turn after the other.

A turn takes the mail of one actor and runs it to completion, at most `TURN_MESSAGES` messages, then the next actor has its
turn. Urgent mail (failures, supervision) goes before every turn. The shell of the process calls `run` whenever something
arrived, and sleeps until `next_deadline` when it returns True.

Must never: block, sleep, read a clock of its own, or let an exception of an actor reach the caller of `run`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pykka
from pykka._envelope import Envelope

from scaler.actors.kit.actor import Actor, ActorRef, SupervisedRef
from scaler.actors.kit.clock import Clock, Timer, Timers
from scaler.actors.kit.lifecycle import ActorStoppedError, ChildFailed, ChildStopped

logger = logging.getLogger(__name__)

TURN_MESSAGES = 256
"""The most messages that one actor handles before the others have their turn."""

RUN_MESSAGES = 8192
"""The most messages handled in one call of `run`, so that the shell gets to its sockets."""


class DeadLetters:
    """The mailbox of every stopped actor: counts what arrives, and refuses those who wait for an answer."""

    def __init__(self) -> None:
        self.count = 0

    def append(self, message: Any) -> None:
        self.count += 1
        if isinstance(message, Envelope) and message.reply_to is not None:
            try:
                raise pykka.ActorDeadError("the actor stopped before handling the message")
            except pykka.ActorDeadError:
                message.reply_to.set_exception()

    def extend(self, messages: Iterable[Any]) -> None:
        for message in messages:
            self.append(message)


def _nothing() -> None:
    pass


class Dispatcher:
    """Runs actors.

    Args:
        clock: seconds, monotonic.
        wake: called, from any thread, when mail came from another thread; it must make the shell call `run` soon.
        on_escalation: called with the error when an actor without a parent fails: nobody is left to restart it.
    """

    def __init__(
        self,
        clock: Clock,
        wake: Callable[[], None] = _nothing,
        on_escalation: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.clock = clock
        self.dead_letters = DeadLetters()
        self.messages_handled = 0
        self.failures = 0
        self._wake = wake
        self._on_escalation = on_escalation
        self._ready: deque[ActorRef] = deque()
        self._urgent: deque[tuple[ActorRef, Any]] = deque()
        self._posted: deque[tuple[ActorRef, Any]] = deque()
        self._timers = Timers()
        self._closed = False

    # Life of an actor

    def spawn(self, actor: Actor, parent: ActorRef | None = None) -> ActorRef:
        """Start `actor`; `parent` hears of its failure. Its `on_start` has run when this returns."""
        ref = ActorRef(type(actor), self, parent)
        self._put_behind(ref, actor)
        return ref

    def address(self, actor_type: type[Actor], parent: ActorRef) -> SupervisedRef:
        """Return an address without an actor; mail waits there until `put_behind`."""
        ref = SupervisedRef(actor_type, self, parent)
        ref._mailbox = []
        return ref

    def put_behind(self, ref: SupervisedRef, actor: Actor) -> None:
        """Start `actor` behind an address that has none. It gets the mail that waited."""
        if ref._actor is not None or ref.is_stopped():
            raise ActorStoppedError(f"{ref} is not waiting for an actor")
        self._put_behind(ref, actor)
        if ref._mailbox:
            self._ready.append(ref)
        elif ref._actor is not None:
            ref._mailbox = None

    def _put_behind(self, ref: ActorRef, actor: Actor) -> None:
        ref._actor = actor
        actor._actor_ref = ref
        actor._start_actor_loop()

    def stop(self, ref: ActorRef) -> None:
        """End the actor now. Mail that waits becomes dead letters. A supervisor is told of it."""
        actor, waiting = ref._actor, ref._mailbox
        ref._actor, ref._mailbox = None, self.dead_letters
        if isinstance(waiting, list):
            self.dead_letters.extend(waiting)
        if actor is None:
            return
        if ref.supervised and ref._parent is not None:
            ref._parent.notify(ChildStopped(ref))
        self._run_hook(ref, actor, actor.on_stop)

    def withdraw(self, ref: SupervisedRef) -> None:
        """Take the actor away from behind its address, in good order, so that another can be put there. Mail waits."""
        actor, ref._actor = ref._actor, None
        if ref._mailbox is None:
            ref._mailbox = []
        if actor is not None:
            self._run_hook(ref, actor, actor.on_stop)

    # Mail

    def post(self, ref: ActorRef, message: Any) -> None:
        """Send `message` from any thread, and wake the dispatcher. After `close`: a dead letter."""
        self._posted.append((ref, message))
        if self._closed:
            self._refuse_posted()
        else:
            self._wake()

    def schedule(self, delay_seconds: float, ref: ActorRef, message: Any) -> Timer:
        """Send `message` to `ref` after `delay_seconds`."""
        return self._timers.add(self.clock() + delay_seconds, ref, message)

    def next_deadline(self) -> float | None:
        """Return the clock's time at which the next timer is due, or None."""
        return self._timers.next_deadline()

    # The loop

    def run(self, budget: int = RUN_MESSAGES) -> bool:
        """Run actors with mail until there is none or `budget` messages were handled.

        Returns:
            True when no mail waits; False when the budget ended the run.
        """
        posted, ready, urgent = self._posted, self._ready, self._urgent
        while posted:
            ref, message = posted.popleft()
            ref.send(message)
        if self._timers:
            self._timers.fire(self.clock())
        left = budget
        while left > 0:
            if urgent:
                self._run_urgent()
            if not ready:
                break
            left -= self._turn(ready.popleft())
        self.messages_handled += budget - left
        return not (ready or urgent or posted)

    def _turn(self, ref: ActorRef) -> int:
        """Let one actor handle the mail it had when its turn began. Returns the number of messages."""
        mailbox, actor = ref._mailbox, ref._actor
        if type(mailbox) is not list or actor is None:
            return 0
        if len(mailbox) > TURN_MESSAGES:
            # A share of a very long mailbox, so that moving up the rest stays cheap beside handling the share.
            share = max(TURN_MESSAGES, len(mailbox) >> 7)
            waiting = mailbox
            mailbox = waiting[:share]
            del waiting[:share]
            self._ready.append(ref)
        else:
            ref._mailbox = None
        handlers = actor.handlers
        mail = iter(mailbox)
        try:
            for message in mail:
                handlers[type(message)](actor, message)
                if ref._actor is not actor:
                    self._put_back(ref, mail)
                    break
        except BaseException as error:
            self._fail(ref, actor, error)
            self._put_back(ref, mail)
        return len(mailbox)

    def _run_urgent(self) -> None:
        while self._urgent:
            ref, message = self._urgent.popleft()
            actor = ref._actor
            if actor is None:
                self.dead_letters.append(message)
                continue
            try:
                actor.handlers[type(message)](actor, message)
            except BaseException as error:
                self._fail(ref, actor, error)

    def _run_hook(self, ref: ActorRef, actor: Actor, hook: Callable[[], None]) -> None:
        try:
            hook()
        except BaseException as error:
            self._fail(ref, actor, error)

    def _fail(self, ref: ActorRef, actor: Actor, error: BaseException) -> None:
        """An actor raised: it is gone; mail waits if a supervisor may restart it, else it becomes dead letters."""
        self.failures += 1
        parent = ref._parent
        if ref._actor is actor:
            if ref.supervised:
                ref._actor = None
                if ref._mailbox is None:
                    ref._mailbox = []
            else:
                ref._actor, waiting = None, ref._mailbox
                ref._mailbox = self.dead_letters
                if isinstance(waiting, list):
                    self.dead_letters.extend(waiting)
        logger.error("%s failed: %r", ref, error, exc_info=error)
        try:
            actor.on_failure(type(error), error, error.__traceback__)
        except BaseException as second:
            logger.error("%s failed again in on_failure: %r", ref, second, exc_info=second)
        if parent is not None:
            parent.notify(ChildFailed(ref, error))
        elif self._on_escalation is not None:
            self._on_escalation(error)

    def _put_back(self, ref: ActorRef, mail: Iterator[Any]) -> None:
        """Mail that an actor did not get to: it waits for the next actor at that address, or is dead."""
        rest = list(mail)
        mailbox = ref._mailbox
        if isinstance(mailbox, list):
            mailbox[:0] = rest
        else:
            self.dead_letters.extend(rest)

    # The end

    def close(self) -> None:
        """Take no more mail from other threads. Whoever waits for an answer gets `pykka.ActorDeadError`."""
        self._closed = True
        self._refuse_posted()
        while self._ready:
            ref = self._ready.popleft()
            if isinstance(ref._mailbox, list):
                self.dead_letters.extend(ref._mailbox)
            ref._mailbox = self.dead_letters

    def _refuse_posted(self) -> None:
        while self._posted:
            try:
                self.dead_letters.append(self._posted.popleft()[1])
            except IndexError:  # another thread refused it first
                return

    def statistics(self) -> dict[str, int]:
        """Return counts: handled messages, dead letters, failures, actors with mail, timers."""
        return {
            "messages_handled": self.messages_handled,
            "dead_letters": self.dead_letters.count,
            "failures": self.failures,
            "actors_with_mail": len(self._ready),
            "timers": len(self._timers),
        }
