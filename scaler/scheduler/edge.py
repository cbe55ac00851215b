"""The scheduler's edge: turns bytes from the socket into batches for actors, and items of actors into bytes.

Batches are passed to the session of their connection, and hellos to the acceptor. All input is untrusted: a message
that cannot be read is counted, and a new hello is requested from its sender. Exceptions that a peer causes never reach
the loop.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from scaler.actors.messages.jobs import OwnersChanged
from scaler.actors.messages.peers import AgentArrived, ClientArrived, ConnectionLost, ItemsWaiting, KeysEnded
from scaler.actors.tree import SchedulerTree
from scaler.actors.vocabulary.outbox import Parcel
from scaler.actors.vocabulary.peer import Message, Peer
from scaler.errors import ProtocolError
from scaler.ids import Connection
from scaler.keys.allowed import AllowedKey, OwnerTerms
from scaler.process.memory import resident_bytes
from scaler.transport.interface import Listener, PeerGoneError
from scaler.wire.codec.codec import decode, encode
from scaler.wire.messages.client import ClientDisconnect, ClientHeartbeatEcho, ClientHello
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import HelloRequest
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.worker import (
    HELD_MOST,
    HELD_OWNER,
    HELD_RUN,
    DisconnectRequest,
    RunTask,
    WorkerHeartbeatEcho,
    WorkerHello,
)

logger = logging.getLogger(__name__)

MESSAGES_PER_RECEIVE = 64
"""The most messages that are received before the actors run, so that batches keep moving under load."""

ITEMS_PER_RECEIVE = 8192
"""The approximate number of items after which the actors run: as many as actors handle in one turn."""

UNREAD_SECONDS = 0.25
"""The delay, under load, of the report of a broken connection. Its last messages are mostly read in this time."""
FLOOD_SECONDS = 0.05
"""How often the edge checks, under load, for peers that send far more than the scheduler reads."""
UNACKNOWLEDGED_SECONDS = 10.0
"""The time without an acknowledgement after which a peer for which too many bytes wait must start a new session."""

_HELLOS = (Batch[ClientHello], Batch[WorkerHello])
_GOODBYES = (Batch[ClientDisconnect], Batch[DisconnectRequest])
_PROBE_NS = 0  # an unsolicited echo, to find out whether the connection still exists

REMEMBERED = 1024
"""The number of unknown connections that are remembered; the connection silent for longest is forgotten first."""

MESSAGES_MOST = 64
"""The most messages that a connection without a session may send: when a hello is requested, some may be in transit."""

FIRST_BYTES = 2 * 1024 * 1024 + HELD_MOST * (HELD_RUN.size + HELD_OWNER.size)
"""The most bytes of a hello: enough for 65,535 names of 32 bytes each, and for the most runs that a hello may list."""


class UnknownConnections:
    """Counts the messages of connections without a session."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Connection, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def add_message(self, connection: Connection) -> int:
        """Count a message of a connection. Return the number of messages of the connection so far."""
        count = self._counts[connection] = self._counts.pop(connection, 0) + 1
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
        return count

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has sent a hello or is closed."""
        self._counts.pop(connection, None)


class SchedulerEdge:
    """The edge of the scheduler: receives messages for the actors, and sends the items of the actors.

    Args:
        permit_of: returns the entry of a key in the list of keys; None if no keys are required.
        parent: the id of the process that started this scheduler, if the scheduler ends with it; else 0.
    """

    def __init__(
        self,
        listener: Listener,
        tree: SchedulerTree,
        permit_of: Callable[[str], AllowedKey | None] | None = None,
        parent: int = 0,
    ) -> None:
        self._listener, self._parent = listener, parent
        self._permit_of = permit_of
        self._directory = tree.directory
        self._outbox = tree.outbox
        self._acceptor, self._jobs = tree.acceptor, tree.job_keeper
        self._strangers = UnknownConnections()
        self._broken: dict[Connection, tuple[Peer, float]] = {}
        """broken connections in the order of their detection: for each, its peer and the time of detection"""
        self._clock = tree.clock
        self._is_calm = False
        """whether messages arrive one by one, so that a check for another message would cost as much as reading one"""
        self._look_at = 0.0
        self._kept_bytes = tree.config.kept_bytes
        self.received = tree.received
        self.sent = tree.sent
        self.bad_messages = 0
        self.undeliverable = 0

    # In

    def receive(self) -> bool:
        receive, connected = self._listener.receive, self._directory.connected
        items_left = ITEMS_PER_RECEIVE
        now = self._clock()
        is_calm, self._is_calm = self._is_calm, False
        for number in range(MESSAGES_PER_RECEIVE):
            if number and is_calm:
                return True  # check after this one has been answered
            message = receive()
            if message is None:
                self._is_calm = number < 2
                if self._broken:
                    self._report_broken(now)
                return self._outbox.has_work  # an acknowledgement, which no actor handles
            connection, header, frames = message
            peer = connected.get(connection)
            if peer is None:
                self.received.add_message(header, frames)
                self._from_stranger(connection, header, frames)
            else:
                peer.last_received_at = now
                items_left -= self._from_peer(peer, header, frames)
                if items_left <= 0:
                    break
        self._report_broken(now - UNREAD_SECONDS)  # other peers may send without a pause
        if now >= self._look_at:
            self.look()
        return True

    def look(self) -> None:
        """Disconnect peers that send far more than the scheduler reads."""
        self._look_at = self._clock() + FLOOD_SECONDS
        count = self._listener.look(resident_bytes())
        if count:
            logger.warning("closed %d connections that flooded the receive queue", count)

    def hang_up_on_idle(self) -> None:
        """Close connections that belonged to no peer at the previous call, and belong to no peer now."""
        count = self._listener.hang_up_on_idle(self._directory.connected)
        if count:
            logger.info("closed %d connections that sent no hello", count)

    def _from_peer(self, peer: Peer, header: bytes, frames: list[memoryview]) -> int:
        """Pass the batches of a message from a peer to the session of the peer. Return the number of items."""
        count, pipe = 0, peer.pipe
        try:
            batches = pipe.receive(header, frames)
        except ProtocolError as error:
            self.received.add_message(header, frames)
            self._drop(peer, error)
            return count
        except Exception as error:  # one peer must not affect the others
            logger.exception("a message from %s cannot be read", peer.connection.hex())
            self._drop(peer, error)
            return count
        self.received.add_message(header, frames, batches)
        if pipe.is_ready:
            self._outbox.serve(peer)  # its window may be open now
        session = peer.session
        for batch in batches:
            if type(batch) in _HELLOS:
                self._drop(peer, ProtocolError("a second hello on one connection"))
                break
            session.send(batch)
            count += len(batch)
        return count

    def _from_stranger(self, connection: Connection, header: bytes, frames: list[memoryview]) -> None:
        """Pass a hello to the acceptor. Answer the first other message with a request for a hello.

        A connection that sends too many messages, or a too large message, is closed.
        """
        count = self._strangers.add_message(connection)
        is_large = len(header) + sum(map(len, frames)) > FIRST_BYTES
        if count > MESSAGES_MOST or is_large:
            self.bad_messages += 1
            if count == MESSAGES_MOST + 1 or is_large:
                logger.debug("closed an unknown connection that sent messages and no hello")
                self._listener.hang_up(connection)
            return
        for incoming, outgoing in (
            (CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT),
            (AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT),
        ):
            try:
                batches = decode(incoming, header, frames)
            except ProtocolError:
                continue
            self.received.add_batches(batches)
            is_hello = batches and type(batches[0]) in _HELLOS and len(batches[0]) == 1
            if is_hello and not self._directory.is_spent(connection):
                self._hello(connection, batches[0])
            elif not self._has_left(connection, incoming, batches) and count == 1:
                self._outbox.put_to_stranger(connection, outgoing, HelloRequest("the scheduler does not know you"))
            return
        self.bad_messages += 1
        logger.debug("a message from an unknown connection cannot be read")

    def _hello(self, connection: Connection, batch: Batch[Any]) -> None:
        self._strangers.remove(connection)
        permit, owners = None, self._directory.owners
        if self._permit_of is not None:
            permit = self._permit_of(self._listener.key_of(connection))
            if permit is None:  # revoked since it was accepted
                self._listener.hang_up(connection)
                return
            owner = owners.of(permit.name, permit.terms)
        else:
            user = self._listener.user_of(connection)
            if user is None:
                return  # it sends another hello on a new connection
            owner = owners.of(user)
        for hello in batch:
            if type(batch) is Batch[ClientHello]:
                is_in_parent = bool(self._parent) and self._listener.process_of(connection) == self._parent
                self._acceptor.send(ClientArrived(connection, hello, permit, owner, is_in_parent))
            else:
                self._acceptor.send(AgentArrived(connection, hello, permit, owner))

    def terms_changed(self, terms: Mapping[str, OwnerTerms]) -> None:
        """Apply the new shares and quotas of owners, after the list of keys has changed."""
        for name, each in terms.items():
            self._directory.owners.of(name, each)
        if terms:
            self._notify_jobs()

    def _notify_jobs(self) -> None:
        if self._jobs is not None:
            self._jobs.send(OwnersChanged())

    def end_keys(self, keys: frozenset[str]) -> None:
        """End the sessions of peers that were accepted with these keys, and close their connections."""
        for connection, peer in self._directory.connected.items():
            if peer.permit is not None and peer.permit.public in keys:
                self._listener.hang_up(connection)
        self._acceptor.send(KeysEnded(keys))
        self._notify_jobs()

    def _has_left(self, connection: Connection, incoming: Direction, batches: Sequence[Batch[Any]]) -> bool:
        """Pass late goodbyes, from a lost connection, to the session of its former peer. Return whether any arrived."""
        peer = self._directory.former(connection)
        goodbyes = [batch for batch in batches if type(batch) in _GOODBYES]
        if peer is None or peer.incoming is not incoming:
            return False
        for goodbye in goodbyes:
            peer.session.send(goodbye)
        return bool(goodbyes)

    def _drop(self, peer: Peer, error: Exception) -> None:
        """Have a peer that sent an unreadable message start a new session. Else it would resend the message."""
        self.bad_messages += 1
        logger.debug("a message from %s cannot be read: %s", peer.connection.hex(), error)
        refusal = HelloRequest(f"a message from you cannot be read: {error}")
        self._outbox.put_to_stranger(peer.connection, peer.outgoing, refusal)
        peer.garbled += 1
        self._disconnect(peer, f"sent a message that cannot be read ({error})")
        peer.invalidate()

    def _disconnect(self, peer: Peer, reason: str, *, is_surely_closed: bool = False) -> None:
        self._directory.disconnect(peer)
        unsent = peer.pipe.withdraw(RunTask, peer.left) if peer.outgoing is SCHEDULER_TO_AGENT else ()
        peer.session.send(ConnectionLost(peer.connection_number, reason, unsent, is_surely_closed))

    # Out

    def flush(self) -> bool:
        outbox = self._outbox
        if not (outbox.due or outbox.closing or outbox.parcels):
            return False
        due = outbox.take_due()
        if outbox.closing or outbox.parcels:
            for peer, connection in outbox.take_closing():
                self._send_last(peer, connection)
            for parcel in outbox.take_parcels():
                self._send_to_stranger(parcel)
        for peer in due:
            self._serve(peer)
        return True

    def _serve(self, peer: Peer) -> None:
        pipe, connection = peer.pipe, peer.connection
        if peer.is_awaited and pipe.has_pending:
            peer.is_awaited = False
            peer.session.send(ItemsWaiting())
        if not connection:
            self._check_kept(peer)
            return
        if connection in self._broken:
            return
        last_sent, left = pipe.last_sent, peer.left
        try:
            before = _uncounted(peer) if peer.unnumbered or peer.resends else ()
            taken = pipe.take()
        except Exception as error:  # noqa: BLE001 - one peer must not affect the others
            self._give_up(peer, error)
            return
        try:
            for header, frames in before:
                self._send(connection, header, frames)
            for header, frames in taken:
                self._send(connection, header, frames)
                last_sent += 1
                left = last_sent
        except PeerGoneError:
            self.undeliverable += 1
            self._broken[connection] = peer, self._clock()
            self._listener.expect()  # its last messages may have arrived
            peer.left = min(left, pipe.last_sent)  # an acknowledgement has no number
        else:
            peer.left = pipe.last_sent
            if pipe.has_pending:
                self._check_unacknowledged(peer)

    def _check_unacknowledged(self, peer: Peer) -> None:
        """Invalidate the session of a peer that acknowledges nothing while more bytes than the limit wait for it."""
        pipe, now = peer.pipe, self._clock()
        acknowledged, since = peer.window_closed
        if acknowledged != pipe.acknowledged:
            peer.window_closed = (pipe.acknowledged, now)
        elif now - since > UNACKNOWLEDGED_SECONDS and pipe.size_bytes() > self._kept_bytes:
            kept, seconds = self._kept_bytes, UNACKNOWLEDGED_SECONDS
            reason = f"more than {kept} bytes wait, and nothing was acknowledged for {seconds:g} s"
            logger.warning("the peer %s must start a new session: %s", peer.connection.hex(), reason)
            self._invalidate(peer, reason)

    def _send(self, connection: Connection, header: bytes, frames: Sequence[Any]) -> None:
        self._listener.send(connection, header, frames)
        self.sent.add_message(header, frames)

    def _check_kept(self, peer: Peer) -> None:
        """Drop the items for a disconnected peer if they exceed the limit. The peer starts a new session later."""
        if peer.is_invalid:
            peer.invalidate()  # drop the items that were added since then
        elif peer.pipe.size_bytes() > self._kept_bytes:
            logger.warning(
                "more than %d bytes wait for a disconnected peer: all but results are dropped", self._kept_bytes
            )
            peer.invalidate()

    def _send_last(self, peer: Peer, connection: Connection) -> None:
        try:
            for header, frames in (*_uncounted(peer), *peer.pipe.take()):
                self._send(connection, header, frames)
        except PeerGoneError:
            self.undeliverable += 1
        except Exception:  # one peer must not affect the others
            logger.exception("the last items for %s cannot be encoded", connection.hex())

    def _send_to_stranger(self, parcel: Parcel) -> None:
        try:
            for header, frames in encode(parcel.direction, parcel.items, self.sent.items):
                self._send(parcel.connection, header, frames)
        except PeerGoneError:
            self.undeliverable += 1

    def _give_up(self, peer: Peer, error: Exception) -> None:
        """Invalidate the session of a peer for which items cannot be encoded."""
        logger.error("items for %s cannot be encoded", peer.connection.hex(), exc_info=error)
        self._invalidate(peer, "the scheduler could not encode a message to you")

    def _invalidate(self, peer: Peer, reason: str) -> None:
        connection = peer.connection
        peer.garbled += 1
        peer.invalidate()
        self._disconnect(peer, reason)
        self._outbox.put_to_stranger(connection, peer.outgoing, HelloRequest(reason))

    def _report_broken(self, until: float) -> None:
        """Report the connections that broke before `until`. Their last messages have been read by now in most cases."""
        while self._broken:
            connection, (peer, since) = next(iter(self._broken.items()))
            if since > until:
                return
            del self._broken[connection]
            if peer.connection == connection:
                is_near = self._listener.endpoint.is_in_machine
                self._disconnect(peer, "its connection broke", is_surely_closed=is_near)

    def probe(self, connections: Iterable[Connection]) -> list[Connection]:
        """Send a message to each connection, to find out which are lost. Return the connections that still work."""
        living = []
        for connection in connections:
            peer = self._directory.connected.get(connection)
            if peer is None:
                self._listener.forget(connection)
                self._strangers.remove(connection)
                continue
            echo = ClientHeartbeatEcho if peer.outgoing is SCHEDULER_TO_CLIENT else WorkerHeartbeatEcho
            self._outbox.put_unnumbered(peer, echo(_PROBE_NS))
            living.append(connection)
        self.flush()
        return [connection for connection in living if connection not in self._broken]

    def statistics(self) -> dict[str, int]:
        """Return counts of messages and bytes, received and sent, and of unreadable and undeliverable messages."""
        return {
            "messages_received": self.received.n_messages,
            "bytes_received": self.received.n_bytes,
            "messages_sent": self.sent.n_messages,
            "bytes_sent": self.sent.n_bytes,
            "bad_messages": self.bad_messages,
            "undeliverable": self.undeliverable,
        }


def _uncounted(peer: Peer) -> list[Message]:
    """Remove and return the messages that a peer gets first: messages without a number, then messages to resend."""
    messages: list[Message] = []
    if peer.unnumbered:
        unnumbered, peer.unnumbered = peer.unnumbered, []
        messages.append(peer.pipe.unnumbered(unnumbered))
    if peer.resends:
        messages += peer.resends
        peer.resends = []
    return messages
