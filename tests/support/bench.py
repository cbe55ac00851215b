"""One actor under test, with recorders in the place of everybody whom it talks to."""

from __future__ import annotations

from itertools import count
from typing import Any

from scaler.actors.kit import ActorRef, Dispatcher, VirtualClock
from scaler.actors.outbox import Directory, Outbox
from scaler.ids import Connection
from tests.support.recorder import Recorder


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
