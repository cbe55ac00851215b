"""One actor under test, with recorders in the place of everybody whom it talks to."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from scaler.actors.kit import Actor, ActorRef, Dispatcher, VirtualClock
from scaler.actors.kit.actor import HandlerTable
from scaler.actors.outbox import Directory, Outbox
from scaler.ids import Connection


class _Anything(HandlerTable):
    def __missing__(self, _message_type: type) -> Callable[[Any, Any], Any]:
        return lambda actor, message: actor.mail.append(message)


class Recorder(Actor):
    """Stands in for any actor, and keeps what it is told."""

    def __init__(self) -> None:
        self.mail: list[Any] = []

    def take(self) -> list[Any]:
        mail, self.mail = self.mail, []
        return mail


Recorder.handlers = _Anything(Actor.handlers)


class Bench:
    """A dispatcher with recorders around the one actor under test."""

    def __init__(self) -> None:
        self.clock = VirtualClock(100.0)
        self.dispatcher = Dispatcher(self.clock)

    def recorder(self) -> tuple[Recorder, ActorRef]:
        recorder = Recorder()
        return recorder, self.dispatcher.spawn(recorder)

    def tell(self, ref: ActorRef, *messages: Any) -> None:
        for message in messages:
            ref.send(message)
        self.run()

    def run(self) -> None:
        while not self.dispatcher.run():
            pass

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.run()


class RecordingOutbox(Outbox):
    """An outbox that can be read per connection."""

    def __init__(self) -> None:
        super().__init__(Directory(count(1).__next__))

    def said_to(self, connection: Connection) -> list[Any]:
        """Return what was put in for a connection since the last call."""
        return self._items.pop(connection, [])
