"""Network: what is between a peer and the scheduler, behind the protocols of `scaler.transport.interface`.

    DialerModel --up: Lane--> ListenerModel        one Line for each connection
    DialerModel <-down: Lane-- ListenerModel

Each host has one way to the scheduler, with a delay and a rate in both directions. A way may be holed in one direction
or both: TCP holds back what is sent, and delivers it after the end of the hole. A line may be reset, and one end of it
may not hear of that: what it says is lost silently. Nothing overtakes on one line, and nothing comes twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any

from scaler.endpoint import Endpoint
from scaler.errors import ProtocolError
from scaler.ids import Connection
from scaler.transport import sockets
from scaler.transport.interface import PeerGoneError
from scaler.wire.codec.codec import decode, numbers
from tests.simulation.lanes import DOWN, UP, Lane, Way, copied
from tests.simulation.world import Party, World

if TYPE_CHECKING:
    from tests.simulation.contact import Contacts

CHECK_SECONDS = 5.0
"""How often the system asks whether the other end is there."""
RETRY_SECONDS, RETRY_MOST_SECONDS = sockets.RECONNECT_MS / 1000, sockets.RECONNECT_MOST_MS / 1000


class Network:
    """All ways and lines."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ways: dict[str, Way] = {}
        self.lines: list[Line] = []
        self.listener: ListenerModel | None = None
        self.contacts: Contacts | None = None
        self.is_traced = False
        """each message is logged"""
        self._connections = 0

    def way(self, host: str) -> Way:
        return self.ways.setdefault(host, Way())

    def new_connection(self) -> Connection:
        self._connections += 1
        return Connection(b"\0" + self._connections.to_bytes(4, "big"))

    def lines_of(self, host: str) -> list[Line]:
        return [line for line in self.lines if line.dialer.party.host == host]

    def hole(self, host: str, up: bool, down: bool) -> None:
        """Let nothing pass any more, in these directions."""
        way = self.way(host)
        way.is_holed_up, way.is_holed_down = up, down
        for line in self.lines_of(host):
            line.holes_changed()

    def heal(self, host: str) -> None:
        self.hole(host, up=False, down=False)

    def reset(self, host: str, tells_listener: bool = True, tells_dialer: bool = True) -> None:
        """End the connections of a host, as a firewall does; an end that is not told still believes in them."""
        for line in self.lines_of(host):
            line.reset(tells_listener, tells_dialer)

    def process_ended(self, party: Party, is_silent: bool = False) -> None:
        """The kernel closes the sockets of a process that has ended; not if its host has ended with it."""
        for line in [each for each in self.lines if each.dialer.party is party]:
            if is_silent:
                line.die_silently()
            else:
                line.close_up()


class Line:
    """One connection, from the dialer that made it to the listener, if that has taken it."""

    def __init__(self, network: Network, dialer: DialerModel) -> None:
        self.network = network
        self.world = network.world
        self.dialer = dialer
        self.listener: ListenerModel | None = None
        self.connection = Connection(b"")
        self.is_open_here = True
        """the dialer believes in it"""
        self.is_open_there = False
        """the listener believes in it"""
        way = network.way(dialer.party.host)
        self.up = Lane(self.world, way, UP, self._arrive_up)
        self.down = Lane(self.world, way, DOWN, self._arrive_down)
        self._is_silent = False
        """the machine of the dialer is gone, and answers nothing"""
        self._heard_up = self._heard_down = self.world.now
        self._retry_seconds = RETRY_SECONDS
        network.lines.append(self)
        self.world.at(2 * way.delay, self._connect)

    def _connect(self) -> None:
        listener = self.network.listener
        if not self.is_open_here or not self.dialer.party.is_alive:
            return
        if listener is not None and listener.party.is_paused and self.dialer.party.runs and self.up.way.is_whole:
            listener.party.on_go_on.append(self._connect)  # the kernel takes it; the handshake waits
            return
        if listener is None or not listener.party.runs or not self.dialer.party.runs or not self.up.way.is_whole:
            self.world.at(self._retry_seconds, self._connect)
            self._retry_seconds = min(2 * self._retry_seconds, RETRY_MOST_SECONDS)
            return
        self.listener, self.connection = listener, self.network.new_connection()
        self.is_open_there = True
        listener.lines[self.connection] = self
        self._heard_up = self._heard_down = self.world.now
        for header, frames in self.dialer.take_waiting():
            self.send_up(header, frames)
        self.world.at(CHECK_SECONDS, self._check)

    # Messages

    def send_up(self, header: bytes, frames: Iterable[Any]) -> None:
        self.up.put(*copied(header, frames))

    def send_down(self, header: bytes, frames: Iterable[Any]) -> None:
        self.down.put(*copied(header, frames))

    def _arrive_up(self, item: Any) -> None:
        self._heard_up = self.world.now
        if not self.is_open_there:
            if item is not None:
                self._answer_with_reset(self.down)
        elif item is None:
            self._end_there()
        else:
            assert self.listener is not None
            self._trace(UP, item)
            listener, connection = self.listener, self.connection
            listener.arrive(lambda: listener.take(connection, *item))
            if self.network.contacts is not None:
                self.network.contacts.heard(self)

    def _arrive_down(self, item: Any) -> None:
        self._heard_down = self.world.now
        if not self.is_open_here or not self.dialer.party.is_alive:
            if item is not None:
                self._answer_with_reset(self.up)
        elif item is None:
            self._end_here()
        else:
            self._trace(DOWN, item)
            self.dialer.arrive(lambda: self.dialer.take(*item))

    def _trace(self, direction: str, item: tuple[bytes, list[memoryview]]) -> None:
        if not self.network.is_traced:
            return
        party = self.dialer.party
        line = f"    {party.name} {direction} on {int.from_bytes(self.connection, 'big')}"
        try:
            batches = decode(party.directions[direction], *item)
            number, heard = numbers(party.directions[direction], item[0])
        except ProtocolError as error:
            self.world.log(f"{line}: {error}")
            return
        said = ", ".join(f"{len(batch)} {batch.__class__.__name__[6:-1]}" for batch in batches)
        first = batches[0][0] if batches else None
        resumes = getattr(first, "resumes", getattr(first, "resumed", ""))
        self.world.log(f"{line}: {number}, heard {heard}: {said} {resumes}")

    def _answer_with_reset(self, lane: Lane) -> None:
        """Something came for an end that knows no such connection."""
        if not self._is_silent:
            lane.put(None, 0)

    # Ends

    def close_up(self, drops: bool = True) -> None:
        """The dialer closes its socket."""
        if self.is_open_here:
            self.is_open_here = False
            if drops:
                self.up.drop_waiting()
            if self.listener is None:
                self._forget()
            else:
                self.up.put(None, 0)

    def close_down(self) -> None:
        """The listener closes its socket, or its process has ended."""
        if self.is_open_there:
            self.is_open_there = False
            self.down.drop_waiting()
            self.down.put(None, 0)

    def die_silently(self) -> None:
        self.is_open_here = False
        self._is_silent = True
        self.up.clear()

    def reset(self, tells_listener: bool = True, tells_dialer: bool = True) -> None:
        if self.listener is None:
            return
        self.up.clear()
        self.down.clear()
        if tells_listener:
            self._end_there()
        if tells_dialer:
            self._end_here()

    def _end_here(self) -> None:
        if self.is_open_here:
            self.is_open_here = False
            self.dialer.note_cut()
        self._forget()

    def _end_there(self) -> None:
        if self.is_open_there and self.listener is not None:
            self.is_open_there = False
            self.listener.note_cut(self.connection)
            if self.network.contacts is not None:
                self.network.contacts.closed(self)
        self._forget()

    def _forget(self) -> None:
        if not self.is_open_here and not self.is_open_there and self in self.network.lines:
            self.network.lines.remove(self)

    def holes_changed(self) -> None:
        self.up.holes_changed()
        self.down.holes_changed()

    def _check(self) -> None:
        """What the systems of both hosts find out."""
        if not (self.is_open_here or self.is_open_there):
            return
        here, there, now = self.dialer.party, self.listener, self.world.now
        assert there is not None
        both = here.runs and there.party.runs and self.is_open_here and self.is_open_there
        if both and self.up.way.is_whole:
            if self.up.is_empty:
                self._heard_up = now
            if self.down.is_empty:
                self._heard_down = now
        if self.is_open_here and here.runs and now - self._heard_down > sockets.GIVEN_UP_AFTER_MS / 1000:
            self.world.log(f"{here.name}: the socket gives its connection up")
            self._end_here()
            self.up.drop_waiting()
            self.up.put(None, 0)
        if self.is_open_there and there.party.runs and now - self._heard_up > there.silence_seconds:
            self.world.log(f"the scheduler's socket gives the connection of {here.name} up")
            self._end_there()
            self.down.drop_waiting()
            self.down.put(None, 0)
        self.world.at(CHECK_SECONDS, self._check)


class _SocketModel:
    """The common part of both ends: descriptors that are readable, and a party that looks."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self.descriptor = party.world.new_descriptor()
        self.monitor_descriptor = party.world.new_descriptor()
        self._stalled: list[Callable[[], None]] = []

    def arrive(self, take: Callable[[], None]) -> None:
        """Take a message, unless the process is stopped, and with it the thread that reads from the network."""
        if not self.party.is_paused and not self._stalled:
            take()
            return
        if not self._stalled:
            self.party.on_go_on.append(self._take_stalled)
        self._stalled.append(take)

    def _take_stalled(self) -> None:
        if self.party.is_paused:
            self.party.on_go_on.append(self._take_stalled)
            return
        stalled, self._stalled = self._stalled, []
        for take in stalled:
            take()

    def expect(self) -> None:
        """To look costs nothing here."""

    def _wake(self, descriptor: int) -> None:
        self.party.wake(descriptor)  # type: ignore[attr-defined]


class TransportModel:
    """The way of one process to the scheduler's address."""

    endpoint = Endpoint.parse("tcp://10.0.0.1:1")
    refusal = ""
    is_refused_by_scheduler = False

    def __init__(self, network: Network, party: Party) -> None:
        self._network = network
        self._party = party

    def dial(self) -> DialerModel:
        return DialerModel(self._network, self._party)

    def listen(self, silence_seconds: float) -> ListenerModel:
        return ListenerModel(self._network, self._party, silence_seconds)

    def close(self) -> None:
        """There is nothing to release."""


class DialerModel(_SocketModel):
    """A peer's end of one connection."""

    def __init__(self, network: Network, party: Party) -> None:
        super().__init__(party)
        self._incoming: deque[tuple[bytes, list[memoryview]]] = deque()
        self._waiting: list[tuple[bytes, list[Any]]] = []
        self._has_cut = False
        self.line = Line(network, self)

    def take_waiting(self) -> list[tuple[bytes, list[Any]]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def take(self, header: bytes, frames: list[memoryview]) -> None:
        self._incoming.append((header, frames))
        self._wake(self.descriptor)

    def note_cut(self) -> None:
        self._has_cut = True
        self._wake(self.monitor_descriptor)

    def was_cut(self) -> bool:
        has_cut, self._has_cut = self._has_cut, False
        return has_cut

    @property
    def is_readable(self) -> bool:
        return bool(self._incoming)

    @property
    def is_cut(self) -> bool:
        return self._has_cut

    def receive(self) -> tuple[bytes, list[memoryview]] | None:
        return self._incoming.popleft() if self._incoming else None

    def has_message(self) -> bool:
        return bool(self._incoming)

    def send(self, header: bytes, frames: Iterable[Any]) -> None:
        if self.line.listener is None:
            self._waiting.append((header, [bytes(frame) for frame in frames]))
        elif self.line.is_open_here:
            self.line.send_up(header, frames)

    def close(self, linger_seconds: float = 0) -> None:
        self.line.close_up(drops=not linger_seconds)


class ListenerModel(_SocketModel):
    """The scheduler's end."""

    def __init__(self, network: Network, party: Party, silence_seconds: float) -> None:
        super().__init__(party)
        self._network = network
        self.silence_seconds = silence_seconds + sockets.GIVEN_UP_AFTER_MS / 1000
        self.endpoint = TransportModel.endpoint
        self.authenticator_descriptor = None
        self.news_seconds = 0.0
        """how late it may say that a connection has ended"""
        self.lines: dict[Connection, Line] = {}
        self._lost: list[Connection] = []
        self._idle: set[Connection] = set()
        self._incoming: deque[tuple[Connection, bytes, list[memoryview]]] = deque()
        network.listener = self

    def take(self, connection: Connection, header: bytes, frames: list[memoryview]) -> None:
        self._incoming.append((connection, header, frames))
        self._wake(self.descriptor)

    def note_cut(self, connection: Connection) -> None:
        self.lines.pop(connection, None)
        self._lost.append(connection)
        if self.news_seconds:
            seconds = self.party.world.random.random() * self.news_seconds
            self.party.soon(lambda: self._wake(self.monitor_descriptor), seconds)
        else:
            self._wake(self.monitor_descriptor)

    def lost(self) -> list[Connection]:
        lost, self._lost = self._lost, []
        return lost

    def forget(self, connection: Connection) -> None:
        """It was nobody's."""

    def authenticate(self) -> None:
        """Nobody asks: there are no keys."""

    def key_of(self, _connection: Connection) -> str:
        return ""

    def user_of(self, connection: Connection) -> str | None:
        line = self.lines.get(connection)
        return None if line is None else line.dialer.party.owner

    def look(self, _resident_bytes: int) -> int:
        return 0

    def hang_up_on_idle(self, peers: Container[Connection]) -> int:
        idle = {connection for connection in self.lines if connection not in peers}
        over, self._idle = idle & self._idle, idle
        for connection in over:
            self.hang_up(connection)
        return len(over)

    def hang_up(self, connection: Connection) -> None:
        line = self.lines.pop(connection, None)
        if line is not None:
            line.close_down()

    def has_mail(self) -> bool:
        return bool(self._incoming)

    def receive(self) -> tuple[Connection, bytes, list[memoryview]] | None:
        return self._incoming.popleft() if self._incoming else None

    def send(self, connection: Connection, header: bytes, frames: Iterable[Any]) -> None:
        line = self.lines.get(connection)
        if line is None:
            raise PeerGoneError("no such connection")
        line.send_down(header, frames)

    def close(self, linger_seconds: float = 0) -> None:
        self._network.listener = None
        for line in list(self.lines.values()):
            line.close_down()
        self.lines.clear()
