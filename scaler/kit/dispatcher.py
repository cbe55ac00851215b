"""The dispatcher: one thread that runs all actors of a process, one turn after the other.

In its turn, an actor handles the messages in its mailbox: all, or a part if there are more than `TURN_MESSAGES`. Then
the next actor has its turn. Actors that are marked to run last have their turns when no other actor has mail. Urgent
mail (failures, supervision) is handled before every turn. The main loop of the process, the shell, calls `run` whenever
something has arrived, and sleeps until `next_deadline` when no mail waits. The dispatcher never blocks and reads no
clock of its own.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scaler.kit.actor import Actor, ActorRef, Question, SupervisedRef
from scaler.kit.clock import Clock, Timer, Timers
from scaler.kit.lifecycle import ActorStoppedError, ChildFailed, ChildStopped, ExplainedError, MessageRefused

logger = logging.getLogger(__name__)

TURN_MESSAGES = 256

RUN_MESSAGES = 8192
"""The maximum number of messages handled in one call of `run`, so that the shell gets to its sockets."""


class DeadLetters:
    """The mailbox of all stopped actors: counts the messages, and refuses each `Question`."""

    def __init__(self) -> None:
        self.count = 0

    def append(self, message: Any) -> None:
        self.count += 1
        if type(message) is Question:
            message.refuse()

    def extend(self, messages: Iterable[Any]) -> None:
        for message in messages:
            self.append(message)


def _nothing() -> None:
    pass


class Dispatcher:
    """Runs all actors of a process in one thread.

    Args:
        clock: a function that returns monotonic seconds.
        wake: a function that makes the shell call `run` soon, called by other threads that have sent mail. It must not
            raise, even if called once more after `close`.
        on_escalation: a function that is called with the error when an actor without a parent fails, because no actor
            can restart it. The function must not raise.
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
        self._last: deque[ActorRef] = deque()
        self._urgent: deque[tuple[ActorRef, Any]] = deque()
        self._posted: deque[tuple[ActorRef, Any]] = deque()
        self._timers = Timers()
        self.next_deadline = self._timers.next_deadline
        """a function that returns the clock's time at which the next timer is due, or None"""
        self._addresses: set[ActorRef] = set()
        self.is_closed = False

    # Life of an actor

    def spawn(self, actor: Actor, parent: ActorRef | None = None) -> ActorRef:
        """Start `actor` and run its `on_start`. A failure of the actor is reported to `parent`."""
        ref = ActorRef(type(actor), self, parent)
        ref._actor = actor
        actor._actor_ref = ref
        actor._start_actor_loop()
        return ref

    def address(self, actor_type: type[Actor], parent: ActorRef) -> SupervisedRef:
        """Return an address without an actor. Mail to the address waits until `attach` is called."""
        ref = SupervisedRef(actor_type, self, parent)
        ref._mailbox = []
        self._addresses.add(ref)
        return ref

    def attach(self, ref: SupervisedRef, actor: Actor) -> None:
        """Start `actor` at an address that has no actor, and deliver the mail that waits there.

        Raises:
            ActorStoppedError: if the address has an actor, or is closed.
        """
        if ref._actor is not None or ref.is_stopped():
            raise ActorStoppedError(f"cannot start an actor at {ref}: it has one, or the address is closed")
        ref._actor = actor
        ref._handlers = actor.handlers
        actor._actor_ref = ref
        actor._start_actor_loop()
        if ref._actor is not actor:
            return  # on_start raised, or it has stopped itself
        if ref._mailbox:
            ref._queue.append(ref)
        else:
            ref._mailbox = None

    def stop(self, ref: ActorRef) -> None:
        """End the actor normally, now. A supervisor, if any, decides whether the address gets a new actor."""
        if not ref.supervised:
            self.end(ref)
        elif ref._actor is not None:
            assert ref._parent is not None
            ref._parent.notify(ChildStopped(ref))
            self.detach(ref)

    def end(self, ref: ActorRef) -> None:
        """End the actor normally, now, and close its address for good. Mail that waits becomes dead letters."""
        actor, waiting = ref._actor, ref._mailbox
        ref._actor, ref._mailbox = None, self.dead_letters
        if ref.supervised:
            self._addresses.discard(ref)
        if waiting is not None and type(waiting) is list:
            self.dead_letters.extend(waiting)
        if actor is not None and actor.has_on_stop:
            self._run_on_stop(ref, actor)

    def detach(self, ref: ActorRef) -> None:
        """End the actor at an address normally, and keep the mail for the next actor at the address."""
        actor, ref._actor = ref._actor, None
        if ref._mailbox is None:
            ref._mailbox = []
        if actor is not None:
            self._run_on_stop(ref, actor)

    def _run_on_stop(self, ref: ActorRef, actor: Actor) -> None:
        try:
            actor.on_stop()
        except BaseException:
            self.failures += 1
            logger.exception("%s raised in on_stop", ref)

    # Mail

    def post(self, ref: ActorRef, message: Any) -> None:
        """Send `message` from any thread, and wake the dispatcher. After `close` the message becomes a dead letter."""
        self._posted.append((ref, message))
        if self.is_closed:
            self._refuse_posted()
        else:
            self._wake()

    def schedule(self, delay_seconds: float, ref: ActorRef, message: Any, owner: Actor | None = None) -> Timer:
        """Send `message` to `ref` after `delay_seconds`; with an `owner`, only if that is still the actor at `ref`."""
        return self._timers.add(self.clock() + delay_seconds, ref, message, owner)

    # The loop

    def run(self, budget: int = RUN_MESSAGES, flush: Callable[[], object] = _nothing) -> bool:
        """Run actors until no mail waits (return True), or until about `budget` messages were handled (return False).

        Args:
            flush: sends the outgoing messages of actors, so that peers can work meanwhile. Called at the end, before
                each turn of an actor that runs last, and after the turns of the actors to which that actor has sent
                mail.
        """
        if self.is_closed:
            self._refuse_waiting()
            return True
        if self._posted:
            self._take_posted()
        self._timers.fire(self.clock())
        left = budget - self._run_mail(budget)
        while self._last and not self._urgent:
            flush()
            left -= self._run_last()
            if left <= 0:
                break
            if self._ready:
                left -= self._run_ready(len(self._ready))
                flush()
                left -= self._run_mail(left)
        self.messages_handled += budget - left
        flush()
        return self._refuse_if_closed() or not (self._ready or self._last or self._urgent or self._posted)

    def _run_mail(self, most: int) -> int:
        """Give turns to actors that are not marked to run last, until none has mail or `most` messages were handled.

        Return the number of handled messages.
        """
        ready, urgent = self._ready, self._urgent
        left = most
        while left > 0:
            if urgent:
                left -= self._run_urgent(left)
            elif ready:
                left -= self._run_ready(left)
            elif self._posted:
                self._take_posted()
            else:
                break
        return most - left

    @property
    def has_mail(self) -> bool:
        """Whether `run` has mail to handle, not counting timers."""
        return bool(self._ready or self._last or self._urgent or self._posted)

    def _take_posted(self) -> None:
        """Move mail that other threads have posted into mailboxes. Mail posted meanwhile waits for the next call."""
        posted = self._posted
        for _ in range(len(posted)):
            try:
                ref, message = posted.popleft()
            except IndexError:  # closed by a handler in this very run, and another thread refused it first
                return
            ref.send(message)

    def _run_ready(self, most: int) -> int:
        """Give turns to actors. Stop after a turn with several messages, at urgent mail, or after `most` messages.

        Return the number of handled messages. A turn with one message is inlined here, because most turns have one.
        """
        ready, urgent = self._ready, self._urgent
        next_ref = ready.popleft
        for handled in range(most):
            if urgent or not ready:
                return handled
            ref = next_ref()
            actor = ref._actor
            mailbox: Any = ref._mailbox  # a list while there is an actor, or None if it had its turn
            if actor is None or mailbox is None or len(mailbox) > 1:
                return handled + self._turn(ref)
            ref._mailbox = None
            message = mailbox[0]
            try:
                ref._handlers[type(message)](actor, message)
            except BaseException as error:
                self._refuse_or_fail(ref, actor, message, error)
        return most

    def _run_last(self) -> int:
        ref = self._last.popleft()
        handled = self._turn(ref, RUN_MESSAGES)
        actor = ref._actor
        if actor is not None:
            try:
                actor.on_turn_end()
            except BaseException as error:
                self._fail(ref, actor, error)
        return handled

    def _turn(self, ref: ActorRef, most: int = TURN_MESSAGES) -> int:
        """Let one actor handle the mail that it had at the start of its turn. Return the number of handled messages."""
        mailbox, actor = ref._mailbox, ref._actor
        if type(mailbox) is not list or actor is None:
            return 0
        if len(mailbox) > most:
            # The share grows with the mailbox, so that moving up the rest stays cheap beside handling the share.
            share = max(most, len(mailbox) >> 7)
            waiting = mailbox
            mailbox = waiting[:share]
            del waiting[:share]
            ref._queue.append(ref)
        else:
            ref._mailbox = None
        handlers, mail, message = ref._handlers, iter(mailbox), None
        while ref._actor is actor:
            try:
                for message in mail:
                    handlers[type(message)](actor, message)
                    if ref._actor is not actor:
                        break
                else:
                    return len(mailbox)
            except BaseException as error:
                self._refuse_or_fail(ref, actor, message, error)
        return len(mailbox) - self._put_back(ref, mail)

    def _run_urgent(self, most: int) -> int:
        """Handle at most `most` urgent messages, also those that arrive meanwhile. Return the number of messages."""
        urgent, handled = self._urgent, 0
        while urgent and handled < most:
            ref, message = urgent.popleft()
            handled += 1
            actor = ref._actor
            if actor is None:
                ref.send(message)  # the message waits for the next actor, or is a dead letter
                continue
            try:
                actor.handlers[type(message)](actor, message)
            except BaseException as error:
                self._refuse_or_fail(ref, actor, message, error)
        return handled

    def _refuse_or_fail(self, ref: ActorRef, actor: Actor, message: Any, error: BaseException) -> None:
        """After an error: if the handler is marked `charged_to`, notify the message's sender; else end the actor."""
        senders = actor.handlers.senders
        if type(message) in senders and ref._actor is actor and isinstance(error, Exception):
            sender_of = senders[type(message)]
            sender = ref if sender_of is None else sender_of(message)
            if sender is not None:
                sender.send(MessageRefused(message, error))
                return
        self._fail(ref, actor, error)

    def _fail(self, ref: ActorRef, actor: Actor, error: BaseException) -> None:
        """Remove an actor that raised. With a supervisor, the actor's mail waits; else it becomes dead letters."""
        self._log_failure(ref, error)
        if ref._actor is actor:
            waiting, ref._actor = ref._mailbox, None
            if not ref.supervised:
                ref._mailbox = self.dead_letters
                if type(waiting) is list:
                    self.dead_letters.extend(waiting)
            elif waiting is None:
                ref._mailbox = []
            try:
                actor.on_failure(type(error), error, error.__traceback__)
            except BaseException:
                logger.exception("%s failed again in on_failure", ref)
        self._notify_parent(ref, error)

    def report_failure(self, ref: ActorRef, error: BaseException) -> None:
        """Count and log the failure to create an actor at `ref`, and notify the parent of `ref`."""
        self._log_failure(ref, error)
        self._notify_parent(ref, error)

    def _log_failure(self, ref: ActorRef, error: BaseException) -> None:
        self.failures += 1
        if isinstance(error, ExplainedError):
            logger.debug("%s failed: %r", ref, error)  # its supervisor logs the error, and what it does about it
        else:
            logger.error("%s failed: %r", ref, error, exc_info=error)

    def _notify_parent(self, ref: ActorRef, error: BaseException) -> None:
        if ref._parent is not None:
            ref._parent.notify(ChildFailed(ref, error))
        elif self._on_escalation is not None:
            self._on_escalation(error)

    def _put_back(self, ref: ActorRef, mail: Iterator[Any]) -> int:
        """Put unhandled mail back; the mail of a closed address becomes dead letters. Return the number of messages."""
        rest = list(mail)
        mailbox = ref._mailbox
        if isinstance(mailbox, list):
            mailbox[:0] = rest
        else:
            self.dead_letters.extend(rest)
        return len(rest)

    # The end

    def close(self) -> None:
        """Stop accepting mail. Waiting mail becomes dead letters; threads that wait for answers get
        `pykka.ActorDeadError`.

        Call this method in the thread of `run`, any number of times. No actor is notified, so stop the root first.
        """
        self.is_closed = True
        self._refuse_posted()
        self._refuse_waiting()

    def _refuse_posted(self) -> None:
        while self._posted:
            try:
                self.dead_letters.append(self._posted.popleft()[1])
            except IndexError:  # another thread refused it first
                return

    def _refuse_if_closed(self) -> bool:
        """Refuse waiting mail if a handler has closed this dispatcher. Return whether this dispatcher is closed."""
        if self.is_closed:
            self._refuse_waiting()
        return self.is_closed

    def _refuse_waiting(self) -> None:
        """Turn the mail of all mailboxes into dead letters, including the mail of addresses without an actor."""
        for ref in (*self._ready, *self._last, *self._addresses):
            waiting, ref._mailbox = ref._mailbox, self.dead_letters
            if type(waiting) is list:
                self.dead_letters.extend(waiting)
        self.dead_letters.extend(message for _, message in self._urgent)
        self._ready.clear()
        self._last.clear()
        self._addresses.clear()
        self._urgent.clear()

    def statistics(self) -> dict[str, int]:
        """Return counts: handled messages, dead letters, failures, actors with mail, timers."""
        return {
            "messages_handled": self.messages_handled,
            "dead_letters": self.dead_letters.count,
            "failures": self.failures,
            "actors_with_mail": len(self._ready) + len(self._last),
            "timers": len(self._timers),
        }
