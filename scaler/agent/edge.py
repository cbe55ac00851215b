"""AgentEdge: the agent's socket and session, used by the thread of the `Shell`. The link decides when to connect.

The edge sends received items to the link as batches, and afterwards reports which items of the link the scheduler has
acknowledged. Items from the link are sent once per turn of the `Shell`. Without a connection they wait, since the
session may resume. If bytes cannot be decoded, the edge closes the connection and reports that to the link. The edge
holds no state of the protocol.
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
"""The most messages that are received in one turn, before actors run."""


_REPLIES = Batch[HelloReply]


@dataclass
class _OpenConnection:
    socket: Dialer
    link: ActorRef
    is_up: bool = False
    """whether the link has resumed or started the session after the reply to its hello"""
    is_drained: bool = False
    """whether all arrived messages were read; False after a send, which may consume the readiness of the descriptor"""
    is_calm: bool = False
    """whether messages arrive one by one: then a poll for the next message costs as much as reading a message"""

    def expect(self) -> None:
        """Note that a message may have arrived, so that the next turn reads the socket."""
        self.is_drained = False
        self.socket.expect()


class AgentEdge:
    """Owns the socket of the link. The shell calls `receive` and `flush` in each turn."""

    def __init__(self, shell: Shell, transport: Transport, window_bytes: int = WINDOW_BYTES) -> None:
        self._shell = shell
        self.endpoint = transport.endpoint
        self._transport = transport
        self._open: _OpenConnection | None = None
        self._aside: Dialer | None = None
        """the previous connection, kept open: if it closed, a silent scheduler would assume that the agent has ended"""
        self._ready: list[Message] = []
        """messages to be sent on this connection before the items of the session"""
        self._acknowledged: list[Any] = []
        """items that the scheduler has acknowledged, and that have not been reported to the link yet"""
        self.received = Traffic()
        self.sent = Traffic()
        self.undecodable = 0
        self.session = DialledSession(
            SCHEDULER_TO_AGENT, AGENT_TO_SCHEDULER, self.sent.items, self._acknowledged.extend, window_bytes
        )

    # For the link

    def connect(self, link: ActorRef) -> None:
        """Open a new connection with a new identity. `link` receives the messages of this connection."""
        self.hang_up()
        socket = self._transport.dial()
        self._open = connection = _OpenConnection(socket, link)
        self._shell.watch(socket.descriptor, connection.expect)
        self._shell.watch(socket.monitor_descriptor, lambda: self._look_for_cut(connection))

    def hang_up(self, linger_seconds: float = 0) -> None:
        """Close the connection; pending items wait for the next connection."""
        socket = self._detach()
        if socket is not None:
            socket.close(linger_seconds)

    def set_aside(self) -> None:
        """Stop reading the connection, and keep it open until the next connection is up or is set aside too."""
        socket = self._detach()
        self._close_aside()
        self._aside = socket

    def _detach(self) -> Dialer | None:
        self._ready.clear()
        connection, self._open = self._open, None
        if connection is None:
            return None
        if self._acknowledged:
            self._report_acknowledged(connection)
        self._shell.unwatch(connection.socket.descriptor)
        self._shell.unwatch(connection.socket.monitor_descriptor)
        return connection.socket

    def _close_aside(self) -> None:
        if self._aside is not None:
            self._aside.close()
            self._aside = None

    def send_hello(self, hello: WorkerHello) -> None:
        """Send the first message of the connection, with the next flush."""
        self._ready.append(self.session.hello(hello))

    def send_unnumbered(self, item: Any) -> None:
        """Send an item outside the numbering of the session, such as a heartbeat, with the next flush."""
        self._ready.append(self.session.pipe.unnumbered([item]))

    def send(self, items: Sequence[Any]) -> None:
        """Send items of the session with the next flush, or once a connection is up."""
        self.session.pipe.put_all(items)

    def resume(self, n_acknowledged: int) -> None:
        """Resume the session on this connection. The scheduler has received the first `n_acknowledged` messages."""
        connection = self._open
        if connection is None:
            return
        try:
            self._ready += self.session.pipe.resume(n_acknowledged)
        except ProtocolError as error:
            self._spoil(connection, error)
        else:
            self._up(connection)

    def begin(self) -> None:
        """Start a new session on this connection, and drop all items of the previous session."""
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
            connection.link.send(LinkLost(refusal or "the connection was lost", bool(refusal), by_scheduler))

    def _spoil(self, connection: _OpenConnection, error: Exception) -> None:
        """Give up the session. The next hello names the tasks of this agent; the scheduler resends all other tasks."""
        self.session.spoil()
        self.hang_up()
        connection.link.send(LinkUnreadable(str(error)))

    def _unreadable(self, connection: _OpenConnection, error: Exception) -> None:
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
        if self._acknowledged:
            self._report_acknowledged(connection)
        if connection.is_drained:
            return False
        return self._receive_some(connection) or bool(self._acknowledged)

    def _report_acknowledged(self, connection: _OpenConnection) -> None:
        connection.link.send(LinkHeard(list(self._acknowledged)))
        self._acknowledged.clear()

    def _receive_some(self, connection: _OpenConnection) -> bool:
        is_calm, connection.is_calm = connection.is_calm, False
        for number in range(RECEIVED_MOST):
            if number and is_calm:
                return True  # the next message is read after this one is handled
            received = connection.socket.receive()
            if received is None:
                connection.is_drained = True
                connection.is_calm = number < 2
                return False
            try:
                batches = self.session.pipe.receive(*received)
            except Exception as error:  # noqa: BLE001 - after any error the agent continues with a new session
                self._unreadable(connection, error)
                return False
            self.received.add_message(*received, batches)
            for batch in batches:
                connection.link.send(batch)
            if not batches:
                self._report_acknowledged(connection)
            elif type(batches[0]) is _REPLIES:
                return True  # later messages belong to the session that the link chooses now
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
            except Exception as error:  # the agent continues, and resends its items in a new session
                logger.exception("items for the scheduler cannot be encoded")
                self._spoil(connection, error)
                return False
        try:
            for header, frames in messages:
                connection.is_drained = False
                connection.socket.send(header, frames)
                self.sent.add_message(header, frames)
        except PeerGoneError:
            self.hang_up()
            connection.link.send(LinkLost("the scheduler is unreachable"))
        return bool(messages)

    def close(self) -> None:
        """Close the connection and the transport for good. The last items have 0.2 seconds to leave."""
        self._close_aside()
        self.hang_up(linger_seconds=0.2)
        self._transport.close()
