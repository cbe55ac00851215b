"""Actor and ActorRef: Pykka's actor model on a runtime that can afford one actor for every task.

Pykka's `ThreadingActor` costs a thread. This runtime gives each actor a mailbox only while it has mail, and one
dispatcher runs all actors in turn. Pykka's methods for other threads (`tell`, `ask`, `stop`, `proxy`) work as Pykka
documents them. Inside the system, actors use `send`, which is one list append.

    send ------------------+
    tell, ask (threads) ---+--> ActorRef: mailbox --> Dispatcher --> Actor: handler for the message's type

An `ActorRef` is an address, which stays valid when a supervisor replaces the actor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import pykka
from pykka import messages as pykka_messages

from scaler.kit.lifecycle import ActorStoppedError, MessageRefused, UnknownMessageError

if TYPE_CHECKING:
    from types import TracebackType

    from scaler.kit.clock import Timer
    from scaler.kit.dispatcher import DeadLetters, Dispatcher

A = TypeVar("A", bound="Actor")
M = TypeVar("M")
N = TypeVar("N")
R = TypeVar("R")

ActorStop = pykka_messages._ActorStop
"""The message of Pykka's `stop`: a private class of Pykka; tests/architecture/test_pykka_contract.py checks that it
exists.
"""


class Question:
    """A message whose sender, in another thread, waits for the answer: a value or an exception, exactly once."""

    __slots__ = ("_future", "message")

    def __init__(self, message: Any, future: pykka.Future[Any]) -> None:
        self.message = message
        self._future = future

    def answer(self, value: Any) -> None:
        self._future.set(value)

    def fail(self, error: BaseException) -> None:
        self._future.set_exception((type(error), error, error.__traceback__))

    def refuse(self) -> None:
        """Answer in place of an actor that has ended: a request to stop succeeds, any other message fails."""
        if type(self.message) is ActorStop:
            self.answer(None)
        else:
            self.fail(pykka.ActorDeadError("the actor stopped before handling the message"))


class _Inbox:
    """The inbox into which Pykka puts the envelopes of other threads."""

    __slots__ = ("_ref",)

    def __init__(self, ref: ActorRef) -> None:
        self._ref = ref

    def put(self, envelope: Any, /) -> None:
        message, future = envelope.message, envelope.reply_to
        self._ref._dispatcher.post(self._ref, message if future is None else Question(message, future))

    def get(self) -> Any:
        raise ActorStoppedError("only its dispatcher may take mail out of an inbox")

    def empty(self) -> bool:
        return not self._ref._mailbox


class _StoppedFlag:
    """Pykka's `actor_stopped`, computed from the address, because an `Event` per task would cost more than the task."""

    __slots__ = ("_ref",)

    def __init__(self, ref: ActorRef) -> None:
        self._ref = ref

    def is_set(self) -> bool:
        return self._ref.is_stopped()


class ActorRef(pykka.ActorRef["Actor"]):
    """The address of an actor. It stays valid after the end of the actor: mail is then counted as a dead letter.

    `send` and `notify` may be called only in the dispatcher's own thread. Other threads use what Pykka documents
    (`tell`, `ask`, `stop`, `proxy`). If the dispatcher's own thread waits for an answer, it deadlocks.
    """

    __slots__ = ("_actor", "_actor_type", "_dispatcher", "_handlers", "_mailbox", "_parent", "_queue", "supervised")

    def __init__(self, actor_type: type[Actor], dispatcher: Dispatcher, parent: ActorRef | None) -> None:
        self._actor: Actor | None = None
        self._actor_type = actor_type
        self._handlers = actor_type.handlers
        self._dispatcher = dispatcher
        self._queue = dispatcher._last if actor_type.runs_last else dispatcher._ready
        self._parent = parent
        self.supervised = False
        """whether a supervisor may attach a new actor to this address after a failure"""
        self._mailbox: list[Any] | DeadLetters | None = None

    def send(self, message: Any) -> None:
        """Send `message`. Called only in the dispatcher's own thread; never blocks and never raises."""
        mailbox = self._mailbox
        if mailbox is None:
            self._mailbox = [message]
            self._queue.append(self)
        else:
            mailbox.append(message)

    def notify(self, message: Any) -> None:
        """Send `message` in the urgent lane: the actor handles it before the mail of any mailbox."""
        self._dispatcher._urgent.append((self, message))

    def is_stopped(self) -> bool:
        """Return whether the actor has ended for good, so that no further mail can reach it."""
        return self._mailbox is self._dispatcher.dead_letters or self._dispatcher.is_closed

    # What Pykka's own methods (tell, ask, stop, proxy) read:

    def is_alive(self) -> bool:
        return not self.is_stopped()

    @property
    def actor_class(self) -> type[Actor]:  # type: ignore[override]
        return self._actor_type

    @property
    def actor_urn(self) -> str:  # type: ignore[override]
        return f"urn:actor:{self._actor_type.__name__}:{id(self):x}"

    @property
    def actor_inbox(self) -> _Inbox:  # type: ignore[override]
        return _Inbox(self)

    @property
    def actor_stopped(self) -> _StoppedFlag:  # type: ignore[override]
        return _StoppedFlag(self)

    @property
    def _actor_weakref(self) -> Callable[[], Actor | None]:  # type: ignore[override]
        return lambda: self._actor

    def __str__(self) -> str:
        return f"{self._actor_type.__name__} {id(self):x}"


class SupervisedRef(ActorRef):
    """The address of a supervisor's child. Mail waits at this address while the address has no actor."""

    __slots__ = ()

    def __init__(self, actor_type: type[Actor], dispatcher: Dispatcher, parent: ActorRef | None) -> None:
        super().__init__(actor_type, dispatcher, parent)
        self.supervised = True


class HandlerTable(dict[type, Callable[[Any, Any], Any]]):
    """The handlers of one actor class, by message type."""

    def __init__(self, known: Mapping[type, Callable[[Any, Any], Any]] = MappingProxyType({})) -> None:
        super().__init__(known)
        self.senders: dict[type, Callable[[Any], ActorRef | None] | None] = {}
        """message type -> function that returns the sender to notify if the handler fails; None: notify this actor"""

    def __missing__(self, message_type: type) -> Callable[[Any, Any], Any]:
        def unknown(actor: Actor, _message: Any) -> None:
            raise UnknownMessageError(f"{type(actor).__name__} has no handler for {message_type.__name__}")

        return unknown


@overload
def handles(one: type[M], /) -> Callable[[Callable[[A, M], R]], Callable[[A, M], R]]: ...
@overload
def handles(one: type[M], other: type[N], /) -> Callable[[Callable[[A, M | N], R]], Callable[[A, M | N], R]]: ...
@overload
def handles(*message_types: type) -> Callable[[Callable[[A, Any], R]], Callable[[A, Any], R]]: ...
def handles(*message_types: type) -> Callable[[Callable[[A, Any], R]], Callable[[A, Any], R]]:
    """Mark a method, and the methods that override it, as the handler of messages of exactly the given types.

    The return value of a handler is the answer to an `ask`, and ignored otherwise.
    """

    def mark(method: Callable[[A, Any], R]) -> Callable[[A, Any], R]:
        method.__dict__["handled_types"] = message_types
        return method

    return mark


def charged_to(sender: str = "") -> Callable[[Callable[[A, M], R]], Callable[[A, M], R]]:
    """After a failure of the marked handler, notify the sender of the message instead of ending this actor.

    The handler checks a message before it changes the actor, because the actor is not restarted after the failure.

    Args:
        sender: the path to the sender's address in the message, such as `peer.session`; empty: notify this actor.
    """

    def mark(method: Callable[[A, M], R]) -> Callable[[A, M], R]:
        method.__dict__["sender_of"] = attrgetter(sender) if sender else None
        return method

    return mark


class Actor(pykka.Actor):
    """An entity with a mailbox. An actor handles one message at a time and changes nothing but itself.

    A subclass takes its collaborators as constructor arguments, and declares handlers with `@handles(MessageType)`.
    Pykka's own constructor and `on_receive` are not used. `actor_ref`, `spawn`, `now` and `schedule` exist from
    `on_start` on.

    The life of an actor ends with exactly one of `on_stop` (a normal end) and `on_failure` (a handler raised).
    """

    handlers: ClassVar[HandlerTable] = HandlerTable()

    has_on_stop: ClassVar[bool] = False
    """whether the class overrides `on_stop`; otherwise `on_stop` is not called, which saves time in each task"""

    runs_last: ClassVar[bool] = False
    """whether these actors have a turn only when no other actor has mail; in a turn they handle all their mail"""

    _actor_ref: ActorRef

    def __init__(self) -> None:
        pass

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.handlers = _collect_handlers(cls)
        cls.has_on_stop = cls.on_stop is not pykka.Actor.on_stop

    def __str__(self) -> str:
        ref = getattr(self, "_actor_ref", None)
        return f"{type(self).__name__} that was not spawned" if ref is None else str(ref)

    @classmethod
    def start(cls, *_args: Any, **_kwargs: Any) -> Any:
        """Raise `TypeError`, because actors of this runtime live on a dispatcher: use `Dispatcher.spawn`."""
        raise TypeError(f"start {cls.__name__} with dispatcher.spawn({cls.__name__}(...))")

    # The three hooks that make a Pykka runtime.

    @staticmethod
    def _create_actor_inbox() -> Any:
        raise ActorStoppedError("an actor that no dispatcher has spawned has no inbox")

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    def _start_actor_loop(self) -> None:
        try:
            self.on_start()
        except BaseException as error:
            ref = self._actor_ref
            ref._dispatcher._fail(ref, self, error)

    # What actors use.

    @property
    def actor_ref(self) -> ActorRef:
        """This actor's own address."""
        return self._actor_ref

    def spawn(self, actor: Actor) -> ActorRef:
        """Start `actor` as a child. A failure of the child arrives at this actor as `ChildFailed`."""
        return self._actor_ref._dispatcher.spawn(actor, self._actor_ref)

    def now(self) -> float:
        """Return the clock's time in seconds."""
        return self._actor_ref._dispatcher.clock()

    def schedule(self, delay_seconds: float, message: Any) -> Timer:
        """Send `message` to this actor after `delay_seconds`, unless this actor has ended or was restarted by then."""
        ref = self._actor_ref
        return ref._dispatcher.schedule(delay_seconds, ref, message, self if ref.supervised else None)

    def stop(self) -> None:
        """End this actor normally, after the mail that waits now has been handled."""
        self._actor_ref.send(ActorStop())

    def stop_now(self) -> None:
        """End this actor normally, at once: `on_stop` runs now, and no handler is called after the current one.

        If the actor has a supervisor, its remaining mail waits until the supervisor decides. Otherwise this mail
        becomes dead letters.
        """
        ref = self._actor_ref
        if ref._actor is self:
            if ref.supervised:
                ref._dispatcher.stop(ref)
            else:
                ref._dispatcher.end(ref)

    def _stop(self) -> None:
        self.stop_now()

    def check(self) -> None:
        """Assert what holds whenever no mail waits. Called by tests and by the simulation, never in service."""

    def on_turn_end(self) -> None:
        """Act at once on all mail of a turn. Called only for actors that run last, and not after urgent mail."""

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Clean up after a handler of this actor raised. Runs before the parent is notified."""

    # What Pykka sends.

    @handles(Question)
    def _answer(self, question: Question) -> None:
        """Handle a question. The asking thread gets the answer or exception; `SystemExit` fails this actor, too."""
        message = question.message
        try:
            answer = self.handlers[type(message)](self, message)
        except BaseException as error:
            question.fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            question.answer(answer)

    @handles(ActorStop)
    def _stop_in_order(self, _stop: Any) -> None:
        self.stop_now()

    @handles(MessageRefused)
    def _message_refused(self, refused: MessageRefused) -> None:
        """Fail this actor with the error in the message: a shared actor could not handle a message of this actor."""
        raise refused.error

    @handles(pykka_messages.ProxyCall, pykka_messages.ProxyGetAttr, pykka_messages.ProxySetAttr)
    def _proxy(self, call: Any) -> Any:
        return self._handle_receive(call)


def _collect_handlers(cls: type[Actor]) -> HandlerTable:
    """Read the marks of `@handles`, base classes first. Raises `TypeError` if a class has two handlers for a type."""
    table = HandlerTable()
    for base in reversed(cls.__mro__):
        own: dict[type, str] = {}
        for name, method in vars(base).items():
            for message_type in getattr(method, "__dict__", {}).get("handled_types", ()):
                if message_type in own:
                    raise TypeError(
                        f"{base.__name__} has two handlers for {message_type.__name__}: {own[message_type]} and {name}"
                    )
                own[message_type] = name
                if "sender_of" in method.__dict__:
                    table.senders[message_type] = method.__dict__["sender_of"]
                table[message_type] = getattr(cls, name)  # the method that overrides it, if any does
    return table


Actor.handlers = _collect_handlers(Actor)
