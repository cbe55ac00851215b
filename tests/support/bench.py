"""One actor under test, with recorders in place of all actors that it sends messages to."""

from __future__ import annotations

from typing import Any

from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import Connection
from scaler.kit import ActorRef, Dispatcher
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT
from scaler.wire.session.pipe import Pipe
from tests.support.recorder import Recorder
from tests.support.virtual_clock import VirtualClock


class Bench:
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
    """An outbox whose items can be read per peer."""

    def sent_to(self, peer: Peer) -> list[Any]:
        """Return the items for a peer since the last call."""
        sent = list(peer.pipe.unacknowledged())
        peer.start_over(0)
        return sent


def connected_peer(name: bytes) -> Peer:
    peer = Peer(("cluster", name), AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, Pipe)
    peer.connect(Connection(name))
    return peer
