"""Edge: the agent's socket. It belongs to the shell's thread; the link decides when there is a new one.

The shell calls `receive` and `flush`. Arriving items go to the link as batches; items of the link leave as one message
per turn of the shell. After bytes that are not a message, the edge closes the connection and tells the link.

Must never: keep state of the protocol, or let bytes from outside raise.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scaler.actors.kit import ActorRef
from scaler.agent.messages import LinkCut, LinkGarbled
from scaler.errors import ProtocolError
from scaler.process.shell import Shell
from scaler.wire.codec import decode, encode
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT
from scaler.wire.traffic import Traffic
from scaler.wire.transport import Dialer, PeerGoneError, Transport

logger = logging.getLogger(__name__)

RECEIVED_MOST = 64
"""The most messages received in one turn, before actors run."""


@dataclass
class _OpenConnection:
    """The state of one connection."""

    socket: Dialer
    link: ActorRef


class Edge:
    """The link's `Door` and the shell's `Edge`."""

    def __init__(self, shell: Shell, transport: Transport) -> None:
        self._shell = shell
        self.address = transport.address
        self._transport = transport
        self._open: _OpenConnection | None = None
        self._outgoing: list[Any] = []
        self.received = Traffic()
        self.sent = Traffic()
        self.undecodable = 0

    # For the link

    def connect(self, link: ActorRef) -> None:
        self.hang_up()
        socket = self._transport.dial()
        self._open = connection = _OpenConnection(socket, link)
        self._shell.watch(socket.descriptor)
        self._shell.watch(socket.monitor_descriptor, lambda: self._look_for_cut(connection))

    def hang_up(self, linger_seconds: float = 0) -> None:
        self._outgoing.clear()
        connection, self._open = self._open, None
        if connection is None:
            return
        self._shell.unwatch(connection.socket.descriptor)
        self._shell.unwatch(connection.socket.monitor_descriptor)
        connection.socket.close(linger_seconds)

    def say(self, items: Sequence[Any]) -> None:
        self._outgoing.extend(items)

    def _look_for_cut(self, connection: _OpenConnection) -> None:
        if self._open is connection and connection.socket.was_cut():
            connection.link.send(LinkCut("the connection was cut"))

    # For the shell

    def receive(self) -> bool:
        connection = self._open
        if connection is None:
            return False
        for _ in range(RECEIVED_MOST):
            received = connection.socket.receive()
            if received is None:
                return False
            try:
                batches = decode(SCHEDULER_TO_AGENT, *received)
            except ProtocolError as error:
                # It may have held any task: the next hello says which are here, and the others come again.
                self.undecodable += 1
                logger.debug("received bytes that are not a message of a scheduler: %s", error)
                self.hang_up()
                connection.link.send(LinkGarbled("received bytes that are not a message of a scheduler"))
                return False
            self.received.add_message(*received)
            self.received.add_batches(batches)
            for batch in batches:
                connection.link.send(batch)
        return True

    def flush(self) -> bool:
        if not self._outgoing or self._open is None:
            return False
        items, self._outgoing = self._outgoing, []
        connection = self._open
        try:
            for header, frames in encode(AGENT_TO_SCHEDULER, items, self.sent.items):
                self.sent.add_message(header, frames)
                connection.socket.send(header, frames)
        except PeerGoneError:
            self.hang_up()
            connection.link.send(LinkCut("the scheduler is gone"))
        return True

    def close(self) -> None:
        """Close for good; the last items have a moment to leave."""
        self.hang_up(linger_seconds=0.2)
        self._transport.close()
