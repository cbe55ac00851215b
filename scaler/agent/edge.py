"""AgentEdge: the agent's socket and session. It belongs to the shell's thread; the link decides when there is a new one.

The shell calls `receive` and `flush`. Arriving items go to the link as batches. The news of what the scheduler has
heard follows when these have been seen to: nobody waits for it. Items of the link leave once per turn of the shell;
without a connection they wait, since the session may go on. After bytes that are not a message, the edge closes the
connection and tells the link.

Must never: keep state of the protocol, or let bytes from outside raise.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scaler.agent.messages import LinkHeard, LinkLost, LinkUnreadable
from scaler.errors import ProtocolError
from scaler.kit import ActorRef
from scaler.process.shell import Shell
from scaler.transport.interface import Dialer, PeerGoneError, Transport
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import HelloReply
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT
from scaler.wire.messages.worker import WorkerHello
from scaler.wire.session.dialling import DialledSession
from scaler.wire.session.pipe import Message
from scaler.wire.session.traffic import Traffic
from scaler.wire.session.transfer import WINDOW_BYTES

logger = logging.getLogger(__name__)

RECEIVED_MOST = 64
"""The most messages received in one turn, before actors run."""


_REPLIES = Batch[HelloReply]


@dataclass
class _OpenConnection:
    """The state of one connection."""

    socket: Dialer
    link: ActorRef
    is_up: bool = False
    """whether the link has said how the session goes on after the reply to its hello"""
    is_drained: bool = False
    """whether nothing can have come since the last look: sending looks too, and takes what the descriptor had to say"""
    is_calm: bool = False
    """messages come one by one: to ask whether there is another one costs as much as to read it"""

    def expect(self) -> None:
        """A message may have come."""
        self.is_drained = False
        self.socket.expect()


class AgentEdge:
    """The way out of the link, and the shell's `AgentEdge`."""

    def __init__(self, shell: Shell, transport: Transport, window_bytes: int = WINDOW_BYTES) -> None:
        self._shell = shell
        self.endpoint = transport.endpoint
        self._transport = transport
        self._open: _OpenConnection | None = None
        self._aside: Dialer | None = None
        """the connection before this one, if it was silent: its end would look like the end of this agent"""
        self._ready: list[Message] = []
        """they leave on this connection before what the pipe gives"""
        self._heard: list[Any] = []
        """items that the scheduler has heard, and the link does not know it"""
        self.received = Traffic()
        self.sent = Traffic()
        self.undecodable = 0
        self.session = DialledSession(
            SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER, self.sent.items, self._heard.extend, window_bytes
        )

    # For the link

    def connect(self, link: ActorRef) -> None:
        """Open a new connection, with an identity that was never used; what arrives goes to `link`."""
        self.hang_up()
        socket = self._transport.dial()
        self._open = connection = _OpenConnection(socket, link)
        self._shell.watch(socket.descriptor, connection.expect)
        self._shell.watch(socket.monitor_descriptor, lambda: self._look_for_cut(connection))

    def hang_up(self, linger_seconds: float = 0) -> None:
        """Close the connection; what was said waits for the next one."""
        socket = self._leave()
        if socket is not None:
            socket.close(linger_seconds)

    def set_aside(self) -> None:
        """Leave the connection open and unheard, until the next one is up, or set aside too."""
        socket = self._leave()
        self._close_aside()
        self._aside = socket

    def _leave(self) -> Dialer | None:
        """Listen no more. Returns the socket, if there was one."""
        self._ready.clear()
        connection, self._open = self._open, None
        if connection is None:
            return None
        if self._heard:
            self._tell_heard(connection)
        self._shell.unwatch(connection.socket.descriptor)
        self._shell.unwatch(connection.socket.monitor_descriptor)
        return connection.socket

    def _close_aside(self) -> None:
        if self._aside is not None:
            self._aside.close()
            self._aside = None

    def say_hello(self, hello: WorkerHello) -> None:
        """Send the first message of the connection, with the next flush."""
        self._ready.append(self.session.hello(hello))

    def say_alone(self, item: Any) -> None:
        """Send an item that does not count in the session, with the next flush: a heartbeat."""
        self._ready.append(self.session.pipe.unnumbered([item]))

    def say(self, items: Sequence[Any]) -> None:
        """Send items of the session, with the next flush that has a connection which is up."""
        self.session.pipe.put_all(items)

    def resume(self, heard: int) -> None:
        """The connection is up, and the session goes on: the scheduler has heard so many messages."""
        connection = self._open
        if connection is None:
            return
        try:
            self._ready += self.session.pipe.resume(heard)
        except ProtocolError as error:
            self._spoil(connection, error)
        else:
            self._up(connection)

    def begin(self) -> None:
        """The connection is up, and the session begins anew: what was said before is dropped."""
        self.session.begin()
        if self._open is not None:
            self._up(self._open)

    def _up(self, connection: _OpenConnection) -> None:
        connection.is_up = True
        self._close_aside()

    def _look_for_cut(self, connection: _OpenConnection) -> None:
        if self._open is connection and connection.socket.was_cut():
            refusal = self._transport.refusal
            by_scheduler = self._transport.is_refused_by_scheduler
            connection.link.send(LinkLost(refusal or "the connection was cut", bool(refusal), by_scheduler))

    def _spoil(self, connection: _OpenConnection, error: Exception) -> None:
        """The session cannot go on: the next hello says which tasks are here, and the others come again."""
        self.session.spoil()
        self.hang_up()
        connection.link.send(LinkUnreadable(str(error)))

    def _garbled(self, connection: _OpenConnection, error: Exception) -> None:
        self.undecodable += 1
        if isinstance(error, ProtocolError):
            text = f"received bytes that are not a message of a scheduler: {error}"
            logger.debug("%s", text)
        else:
            text = f"a message of the scheduler cannot be read: {error!r}"
            logger.error("%s", text, exc_info=error)
        self._spoil(connection, ProtocolError(text))

    # For the shell

    def receive(self) -> bool:
        connection = self._open
        if connection is None:
            return False
        if self._heard:
            self._tell_heard(connection)
        if connection.is_drained:
            return False
        return self._receive_some(connection) or bool(self._heard)

    def _tell_heard(self, connection: _OpenConnection) -> None:
        connection.link.send(LinkHeard(list(self._heard)))
        self._heard.clear()

    def _receive_some(self, connection: _OpenConnection) -> bool:
        is_calm, connection.is_calm = connection.is_calm, False
        for number in range(RECEIVED_MOST):
            if number and is_calm:
                return True  # it is asked when this one has been answered
            received = connection.socket.receive()
            if received is None:
                connection.is_drained = True
                connection.is_calm = number < 2
                return False
            try:
                batches = self.session.pipe.receive(*received)
            except Exception as error:  # noqa: BLE001 - whatever it is, the agent lives, and its session begins anew
                self._garbled(connection, error)
                return False
            self.received.add_message(*received, batches)
            for batch in batches:
                connection.link.send(batch)
            if not batches:
                self._tell_heard(connection)
            elif type(batches[0]) is _REPLIES:
                return True  # what follows belongs to the session that the link chooses now
        return True

    def flush(self) -> bool:
        connection = self._open
        if connection is None:
            return False
        messages, pipe = self._ready, self.session.pipe
        may_take = connection.is_up and pipe.is_ready
        if not (may_take or messages):
            return False
        self._ready = []
        if may_take:
            try:
                messages += pipe.take()
            except Exception as error:  # whatever it is, the agent lives, and says all of it again
                logger.exception("what is for the scheduler cannot be written")
                self._spoil(connection, error)
                return False
        try:
            for header, frames in messages:
                connection.is_drained = False
                connection.socket.send(header, frames)
                self.sent.add_message(header, frames)
        except PeerGoneError:
            self.hang_up()
            connection.link.send(LinkLost("the scheduler is gone"))
        return bool(messages)

    def close(self) -> None:
        """Close for good; the last items have a moment to leave."""
        self._close_aside()
        self.hang_up(linger_seconds=0.2)
        self._transport.close()
