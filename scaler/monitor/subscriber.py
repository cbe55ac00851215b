"""Subscriber: a viewer's end of the monitor stream, over successive connections.

`receive` never waits, `wait` is for programs with a plain loop, and `news` for asyncio. The subscriber reconnects by
itself. At an ipc address it subscribes only after the user who listens there has passed the check.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection

import zmq
from zmq.utils.monitor import parse_monitor_message

from scaler.config import ConfigError, check_address
from scaler.endpoint import TCP
from scaler.errors import ProtocolError
from scaler.keys.finding import keys_for
from scaler.keys.key_file import MONITOR
from scaler.monitor.discovery import find
from scaler.monitor.model.model import News
from scaler.transport.admission.keyring import FAILURES, Keyring
from scaler.transport.binding import connect
from scaler.transport.interface import FRAME_BYTES_MOST
from scaler.transport.lookup import Lookup
from scaler.transport.sockets import HANDSHAKE_MS, give_up_after
from scaler.transport.trust import ListenerCheck
from scaler.wire.codec.codec import decode, numbers
from scaler.wire.messages.directions import SCHEDULER_TO_MONITOR
from scaler.wire.messages.monitor import StateHead

PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MOST = 2.0
"""The longest time from one attempt to connect to the next. The time doubles with each failed attempt."""
_READY, _LOST = int(zmq.EVENT_HANDSHAKE_SUCCEEDED), int(zmq.EVENT_DISCONNECTED)
_CONNECTED, _NO_LISTENER = int(zmq.EVENT_CONNECTED), int(zmq.EVENT_CLOSED)
_CONNECT_MS = 200
"""The longest wait for the connection to a socket of this machine. The system normally connects or refuses at once."""
_POLLIN = int(zmq.POLLIN)


class Subscriber:
    """A connection to the monitor stream that receives the messages of some topics.

    Args:
        address: the address of the monitor stream, or of its scheduler.
        clock: returns monotonic seconds.
        key_file: the file with the key for a stream on TCP; None: the file that is found.
        trust_users: uids of the users who may listen at an ipc address besides this user and root.

    Raises:
        ConfigError: if the address is invalid, an untrusted user listens there, or a key cannot be read.
    """

    def __init__(
        self,
        address: str,
        topics: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
        key_file: str | None = None,
        trust_users: tuple[int, ...] = (),
    ) -> None:
        self._given = check_address(address).with_key(key_file).trusting(trust_users)
        self._clock = clock
        self._topics = _checked(topics)
        self._last: dict[str, tuple[bytes, int]] = {}
        self._pause_seconds = PAUSE_SECONDS
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.is_connected = self._was_connected = False
        self._lookup = Lookup(self._given)
        self._refusal = ""
        """why this process refused to connect last time, such as an untrusted listener; empty without a refusal"""
        self.refused = 0
        """The number of messages that could not be read."""
        try:
            self.endpoint = find(self._given)
            self._keyring = Keyring(self.endpoint, lambda: keys_for(self.endpoint, MONITOR))
            self._open()
        except BaseException:  # raised again: nothing may be left open
            self._context.destroy(0)  # with the socket, if there is one: `term` would wait for its end
            raise

    def _open(self) -> None:
        socket = self._socket = self._context.socket(zmq.SUB)
        self._check = None if self.endpoint.file is None else ListenerCheck(self.endpoint)
        begins = 0 if self._check is None else _CONNECTED | _NO_LISTENER
        self._events = socket.get_monitor_socket(begins | _READY | _LOST | FAILURES)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.MAXMSGSIZE, FRAME_BYTES_MOST),
            (zmq.RECONNECT_IVL, -1),  # each connection has a socket of its own, and a check of its listener
            (zmq.HANDSHAKE_IVL, HANDSHAKE_MS),
            (zmq.IPV6, int(self.endpoint.is_ipv6)),
        ):
            socket.setsockopt(option, value)
        give_up_after(socket, 0)
        if self.endpoint.scheme == TCP:
            self._keyring.apply_to(socket)
        self._has_subscribed = False
        if self._check is None:
            self._subscribe()
        self.is_connected = False
        self._reconnect_at = self._clock() + self._pause_seconds
        self._lookup.begin()
        connect(socket, self.endpoint)
        if self._check is not None and self._events.poll(_CONNECT_MS):
            self._read_events()

    def _subscribe(self) -> None:
        self._has_subscribed = True
        for topic in self._topics:
            self._socket.subscribe(topic)

    @property
    def problem(self) -> str:
        """The reason for which there is no connection, if known: a refusal, or a host name that cannot be resolved."""
        return "" if self.is_connected else self._refusal or self._keyring.refusal or self._lookup.problem

    @property
    def refusal(self) -> str:
        """The reason for which the scheduler refuses this subscriber; empty if the scheduler accepts it.

        After the first connection, refusals by other programs are ignored, because such a program may use the
        scheduler's address for a while.
        """
        is_known = self._keyring.is_refused_by_scheduler or not self._was_connected
        return self._keyring.refusal if is_known and not self.is_connected else ""

    def _hang_up(self) -> None:
        self._socket.disable_monitor()
        self._events.close(0)
        self._socket.close(0)

    def _reopen(self) -> None:
        self._pause_seconds = min(PAUSE_SECONDS_MOST, 2 * self._pause_seconds)
        self._reconnect_at = self._clock() + self._pause_seconds
        try:
            self.endpoint = find(self._given)
        except ConfigError as error:
            self._refusal = str(error)
            return
        self._refusal = ""
        self._hang_up()
        self._open()

    @property
    def topics(self) -> frozenset[str]:
        """The subscribed topics."""
        return frozenset(self._topics)

    def set_topics(self, topics: Collection[str]) -> None:
        """Subscribe to exactly these topics, instead of the present topics."""
        wanted = _checked(topics)
        for topic in self._topics - wanted:
            self._last.pop(topic, None)
        if self._has_subscribed:
            for topic in wanted - self._topics:
                self._socket.subscribe(topic)
            for topic in self._topics - wanted:
                self._socket.unsubscribe(topic)
        self._topics = wanted

    def fileno(self) -> int:
        """Return the descriptor that is readable when there may be messages. A reconnection changes the descriptor."""
        return int(self._socket.getsockopt(zmq.FD))

    def receive(self) -> list[News]:
        """Return all messages since the last call, without waiting. Reconnect if necessary."""
        self._check_connection()
        received = []
        while int(self._socket.getsockopt(zmq.EVENTS)) & _POLLIN:
            news = self._read(self._socket.recv_multipart(zmq.NOBLOCK))
            if news is not None:
                received.append(news)
        return received

    def wait(self, seconds: float, *descriptors: int) -> list[int]:
        """Wait at most `seconds` until a message arrives or a descriptor is readable. Return readable descriptors."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        for descriptor in descriptors:
            poller.register(descriptor, zmq.POLLIN)
        ready = dict(poller.poll(max(0, int(seconds * 1000))))
        return [descriptor for descriptor in descriptors if descriptor in ready]

    async def news(self, seconds: float = 1.0) -> list[News]:
        """Return new messages. If none has arrived, wait for one, at most `seconds` and at most `PAUSE_SECONDS`."""
        received = self.receive()
        if received:
            return received
        loop, arrived, descriptor = asyncio.get_running_loop(), asyncio.Event(), self.fileno()
        loop.add_reader(descriptor, arrived.set)
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(arrived.wait(), min(seconds, PAUSE_SECONDS))
        finally:
            loop.remove_reader(descriptor)
        return self.receive()

    def _check_connection(self) -> None:
        self._read_events()
        if not self.is_connected and self._clock() >= self._reconnect_at:
            self._reopen()

    def _read_events(self) -> None:
        while self._events.poll(0):
            received = parse_monitor_message(self._events.recv_multipart(zmq.NOBLOCK))
            event, value = int(received["event"]), int(received["value"])
            if event & FAILURES:
                self._keyring.failed(event, value)
                continue  # the end of the connection follows
            if self._check is not None and event == _CONNECTED:
                self._check.open(value)
                continue
            self.is_connected = event == _READY
            if self.is_connected:
                self._was_connected = True
                self._keyring.reset()
                self._pause_seconds = PAUSE_SECONDS
            else:
                self._reconnect_at = self._clock() + self._pause_seconds
                if self._check is not None:
                    self._check.close(value)
        if self._check is not None and not self._has_subscribed:
            self._refusal = self._refusal or self._check.refusal
            self.is_connected = self.is_connected and self._check.is_passed
            if self._check.is_passed:
                self._subscribe()

    def _read(self, frames: list[bytes]) -> News | None:
        try:
            topic, header = frames
            name = topic.decode()
            number, _ = numbers(SCHEDULER_TO_MONITOR, header)
            first, *batches = decode(SCHEDULER_TO_MONITOR, header, ())
            if first.item is not StateHead:
                raise ProtocolError("a message without a head")
        except (ProtocolError, ValueError):
            self.refused += 1
            return None
        if name not in self._topics:
            return None  # `task/1` also matches `task/12`; or the last messages after an unsubscription
        head: StateHead = first[0]
        scheduler, last = self._last.get(name, (b"", 0))
        missed = number - last - 1 if last and scheduler == head.scheduler else 0
        self._last[name] = head.scheduler, number
        return News(name, head, batches, max(0, missed))

    def close(self) -> None:
        """Close the connection."""
        self._hang_up()
        self._context.term()


def _checked(topics: Collection[str]) -> set[str]:
    if not all(isinstance(topic, str) for topic in topics):
        raise TypeError(f"each topic must be a str: {topics!r}")
    return set(topics)
