from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import socket as unix
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scaler.endpoint import Endpoint, ipc_address
from scaler.ids import Connection
from scaler.transport import streams
from scaler.transport.binding import name_of_user
from scaler.transport.framing import GREETING, pieces_of
from scaler.transport.interface import AddressInUseError, PeerGoneError
from scaler.transport.streams import ARE_SUPPORTED, StreamDialer, StreamListener, Streams

pytestmark = pytest.mark.skipif(not ARE_SUPPORTED, reason="there are no streams here")

PATIENCE_SECONDS = 30.0
FRAME_BYTES, MESSAGE_BYTES = 10_000_000, 100_000_000


def soon(look: Callable[[], Any], *ends: Any) -> Any:
    """Return what `look` returns once it is true. `ends` are notified when their descriptors are readable."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (seen := look()):
        assert time.monotonic() < deadline
        for end in ends:
            if select.select([end.descriptor], [], [], 0.01)[0]:
                end.expect()
    return seen


def received(end: Any) -> Any:
    return soon(end.receive, end)


def was_cut(dialer: StreamDialer) -> None:
    """Wait until a connection has ended, like a peer that waits for its messages."""
    soon(lambda: dialer.receive() or dialer.was_cut(), dialer)


def lost(listener: StreamListener) -> list[Connection]:
    def look() -> list[Connection]:
        assert listener.receive() is None
        return listener.lost()

    found: list[Connection] = soon(look, listener)
    return found


class Pair:
    """A listener, a dialer, and the listener's id of the connection between them."""

    def __init__(self, address: str) -> None:
        transport = Streams(Endpoint.parse(address), FRAME_BYTES, MESSAGE_BYTES)
        self.listener: Any = transport.listen(60)
        self.path = str(self.listener.endpoint.file)
        self.dialer = self.dial()
        self.dialer.send(b"hello", [])
        self.connection, _, _ = received(self.listener)
        assert self.listener.lost() == []

    def dial(self) -> Any:
        return Streams(self.listener.endpoint).dial()

    def stranger(self) -> unix.socket:
        raw = unix.socket(unix.AF_UNIX)
        raw.connect(self.path)
        raw.settimeout(PATIENCE_SECONDS)
        return raw

    def still_works(self) -> None:
        self.dialer.send(b"question", [b"frame"])
        connection, header, [frame] = received(self.listener)
        assert (connection, header, frame) == (self.connection, b"question", b"frame")
        self.listener.send(connection, b"answer", [])
        assert received(self.dialer) == (b"answer", [])

    def close(self) -> None:
        self.dialer.close()
        self.listener.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(ipc_address(tmp_path / "s"))
    yield made
    made.close()


def open_descriptors() -> list[int]:
    return sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())


def open_things() -> set[str]:
    """Return what this process has open: of its own, and what other tests have left that ends meanwhile."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that reads this list
            found.add(f"{path.name} {path.readlink()}")
    return found | {str(thread.ident) for thread in threading.enumerate()}


def send_for_ever(listener: StreamListener, connection: Connection) -> None:
    for _ in range(100_000):
        listener.send(connection, bytes(10_000), [])


def test_listener_knows_the_user_and_the_process_of_a_connection(pair: Pair) -> None:
    assert (pair.listener.process_of(pair.connection), pair.listener.process_of(Connection(b"other"))) == (
        os.getpid(),
        0,
    )
    assert pair.listener.user_of(pair.connection) == name_of_user(os.geteuid())
    assert pair.listener.user_of(Connection(b"other")) is None
    if os.geteuid() == 0:  # only root can become another user
        script = f"""
import os, socket, time
os.chdir({str(Path(pair.path).parent)!r})  # other folders on the way are for this user alone
os.setuid(65534)
door = socket.socket(socket.AF_UNIX)
door.connect({Path(pair.path).name!r})
door.sendall({GREETING!r} + {b"".join(pieces_of(b"hello", []))!r})
time.sleep(60)
"""
        Path(pair.path).chmod(0o777)
        Path(pair.path).parent.chmod(0o755)
        stranger = subprocess.Popen([sys.executable, "-S", "-c", script])
        try:
            connection, _, _ = received(pair.listener)
            assert pair.listener.user_of(connection) == name_of_user(65534) != name_of_user(0)
            assert pair.listener.process_of(connection) == stranger.pid
        finally:
            stranger.kill()
            stranger.wait()


# Messages


def test_messages_go_both_ways_with_their_frames(pair: Pair) -> None:
    large = os.urandom(5_000_000)
    words = memoryview(large).cast("Q")
    pair.dialer.send(b"header", [b"one", bytearray(b"two"), words, b""])

    def look() -> Any:
        pair.dialer.receive()  # it writes what the socket takes
        return pair.listener.receive()

    connection, header, frames = soon(look, pair.listener, pair.dialer)
    assert (connection, header, list(map(bytes, frames))) == (pair.connection, b"header", [b"one", b"two", large, b""])
    pair.still_works()


def test_both_ends_may_send_large_messages_before_they_read(pair: Pair) -> None:
    large = os.urandom(FRAME_BYTES)
    pair.dialer.send(b"there", [large])
    pair.listener.send(pair.connection, b"back", [large])
    forth, back = [], []

    def look() -> bool:
        forth.extend(filter(None, [pair.listener.receive()]))
        back.extend(filter(None, [pair.dialer.receive()]))
        return bool(forth and back)

    soon(look, pair.listener, pair.dialer)
    assert forth == [(pair.connection, b"there", [large])]
    assert back == [(b"back", [large])]
    pair.still_works()


def test_receive_without_a_message_returns_none_and_reads_only_if_expected(pair: Pair) -> None:
    assert pair.listener.receive() is None
    assert pair.dialer.receive() is None
    pair.dialer.send(b"question", [])
    select.select([pair.listener.descriptor], [], [], PATIENCE_SECONDS)
    assert pair.listener.receive() is None
    pair.listener.expect()
    assert pair.listener.receive() == (pair.connection, b"question", [])


def test_messages_that_arrived_together_need_no_further_read(pair: Pair) -> None:
    for number in range(100):
        pair.listener.send(pair.connection, b"%d" % number, [])
    assert received(pair.dialer)[0] == b"0"
    assert pair.dialer.has_message()
    assert [pair.dialer.receive()[0] for _ in range(99)] == [b"%d" % number for number in range(1, 100)]
    assert not pair.dialer.has_message()


def test_a_single_message_is_one_system_call_at_each_end(pair: Pair) -> None:
    calls = []

    class Counted:
        def __init__(self, socket: Any) -> None:
            self._socket = socket

        def __getattr__(self, name: str) -> Any:
            calls.append(name)
            return getattr(self._socket, name)

    [stream] = pair.listener._streams.values()
    stream.socket = Counted(stream.socket)
    pair.dialer._stream.socket = Counted(pair.dialer._stream.socket)
    pair.dialer.send(b"question", [b"frame"])
    assert received(pair.listener)[1] == b"question"
    assert calls == ["send", "recv_into"]


def test_each_dialer_is_another_connection(pair: Pair) -> None:
    seen = {pair.connection}
    for _ in range(5):
        dialer = pair.dial()
        dialer.send(b"hello", [])
        seen.add(received(pair.listener)[0])
        dialer.close()
        lost(pair.listener)
    assert len(seen) == 6


# Ends


def test_a_message_to_a_lost_or_unknown_connection_raises(pair: Pair) -> None:
    with pytest.raises(PeerGoneError):
        pair.listener.send(Connection(b"nobody"), b"header", [b"frame"])
    pair.still_works()
    pair.dialer.close()
    with pytest.raises(PeerGoneError):
        pair.listener.send(pair.connection, b"anybody there?", [])


def test_messages_sent_before_the_end_of_a_connection_are_still_received(pair: Pair) -> None:
    for number in range(100):
        pair.dialer.send(b"%d" % number, [])
    pair.listener.send(pair.connection, b"it does not read this", [])
    pair.dialer.close()
    with pytest.raises(PeerGoneError):
        pair.listener.send(pair.connection, b"anybody there?", [])
    assert [received(pair.listener)[1] for _ in range(100)] == [b"%d" % number for number in range(100)]
    assert lost(pair.listener) == [pair.connection]


def test_listener_reports_each_lost_connection_once_and_forgets_it(pair: Pair) -> None:
    other = pair.dial()
    other.send(b"hello", [])
    connection, _, _ = received(pair.listener)
    other.close()
    assert lost(pair.listener) == [connection]
    assert pair.listener.lost() == []
    assert list(pair.listener._streams) == list(pair.listener._connections.values()) == [pair.connection]
    pair.still_works()


def test_listener_can_hang_up_and_still_receives_earlier_messages(pair: Pair) -> None:
    other = pair.dial()
    other.send(b"hello", [])
    connection, _, _ = received(pair.listener)
    other.send(b"last words", [])
    pair.listener.hang_up(connection)
    was_cut(other)
    assert received(pair.listener) == (connection, b"last words", [])
    assert lost(pair.listener) == [connection]
    pair.listener.hang_up(Connection(b"nobody"))
    other.close()
    pair.still_works()


def test_listener_hangs_up_on_connections_without_a_peer(pair: Pair) -> None:
    with pair.stranger() as silent:
        soon(lambda: pair.listener.receive() or len(pair.listener._streams) == 2, pair.listener)
        assert pair.listener.hang_up_on_idle({pair.connection}) == 0, "the connection counts as new at the first look"
        assert pair.listener.hang_up_on_idle({pair.connection}) == 1
        assert silent.recv(1) == b""
    assert lost(pair.listener) != [pair.connection]
    pair.still_works()
    assert pair.listener.hang_up_on_idle(()) == 0
    assert pair.listener.hang_up_on_idle(()) == 1, "its session has ended"


def test_dialer_reports_its_lost_connection_once_after_all_received_messages(pair: Pair) -> None:
    assert not pair.dialer.was_cut()
    for number in range(100):
        pair.listener.send(pair.connection, b"%d" % number, [])
    pair.listener.close()
    pair.dialer.send(b"nobody hears this", [])
    assert [received(pair.dialer)[0] for _ in range(100)] == [b"%d" % number for number in range(100)]
    was_cut(pair.dialer)
    assert not pair.dialer.was_cut()
    assert select.select([pair.dialer.descriptor, pair.dialer.monitor_descriptor], [], [], 0)[0] == []
    pair.dialer.send(b"nor this", [])


def test_close_waits_until_submitted_messages_are_sent(pair: Pair) -> None:
    pair.dialer.send(b"last words", [bytes(FRAME_BYTES)])
    closing = threading.Thread(target=pair.dialer.close, args=(PATIENCE_SECONDS,))
    closing.start()
    assert received(pair.listener)[1] == b"last words"
    closing.join()


def test_close_leaves_no_descriptor_or_file(tmp_path: Path) -> None:
    before = open_things()
    pair = Pair(ipc_address(tmp_path / "s"))
    alone: Any = Streams(Endpoint.parse(ipc_address(tmp_path / "nobody"))).dial()
    alone.send(b"hello", [])
    for _ in range(2):
        alone.close(linger_seconds=60)
        pair.close()
    assert (open_things() - before, list(tmp_path.iterdir())) == (set(), [])


def test_a_forked_process_neither_ends_a_connection_nor_keeps_it_open(pair: Pair) -> None:
    other = pair.dial()
    other.send(b"hello", [])
    connection, _, _ = received(pair.listener)
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(sender)
        os.read(receiver, 1)
        os._exit(0)
    try:
        pair.still_works()
        os.close(other._stream.socket.detach())  # as if this process had been killed
        assert lost(pair.listener) == [connection]
    finally:
        os.close(other.monitor_descriptor)
        os.write(sender, b"x")
        os.waitpid(pid, 0)


# Addresses


def test_dialer_waits_for_its_listener_and_then_reaches_it(tmp_path: Path) -> None:
    endpoint = Endpoint.parse(ipc_address(tmp_path / "s"))
    dialer: Any = Streams(endpoint).dial()
    dialer.send(b"early", [bytes(1_000_000)])
    dialer.send(b"late", [])
    assert dialer.receive() is None
    assert not dialer.was_cut()
    listener: Any = Streams(endpoint).listen(60)

    def look() -> Any:
        dialer.receive()
        return listener.receive()

    connection, header, _ = soon(look, listener, dialer)
    assert (header, soon(look, listener, dialer)[1]) == (b"early", b"late")
    listener.send(connection, b"answer", [])
    assert received(dialer) == (b"answer", [])
    dialer.close()
    listener.close()


def test_the_pauses_of_a_dialer_between_attempts_to_connect_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pauses between attempts to connect grow, but not for long."""
    pauses: list[float] = []

    class Ten(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return len(pauses) == 10

    monkeypatch.setattr(streams, "threading", SimpleNamespace(Event=Ten, Thread=threading.Thread))
    dialer = Streams(Endpoint.parse(ipc_address(tmp_path / "s"))).dial()
    soon(lambda: len(pauses) == 10)
    assert (pauses[0], max(pauses)) == (streams.CONNECT_RETRY_SECONDS, streams.CONNECT_RETRY_MOST_SECONDS)
    assert streams.CONNECT_RETRY_MOST_SECONDS <= 0.3
    dialer.close()


def test_busy_address_is_refused(pair: Pair) -> None:
    with pytest.raises(AddressInUseError, match="in use"):
        Streams(pair.listener.endpoint).listen(60)
    pair.still_works()


def test_file_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    with unix.socket(unix.AF_UNIX) as killed:
        killed.bind(str(tmp_path / "stale"))
    Pair(ipc_address(tmp_path / "stale")).close()


def test_a_file_that_is_not_a_socket_is_kept(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine")
    with pytest.raises(FileExistsError, match="not a socket"):
        Streams(Endpoint.parse(ipc_address(tmp_path / "data"))).listen(60)
    assert (tmp_path / "data").read_text() == "mine"


def test_the_socket_file_of_a_listener_is_accessible_to_its_user_only(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        pair = Pair(ipc_address(tmp_path / "s"))
        (tmp_path / "file").touch()
    finally:
        os.umask(umask)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("s", "file")] == [0o600, 0o666]
    pair.close()


def test_a_private_place_is_removed_with_its_listener() -> None:
    listener = Streams(Endpoint.parse("ipc://*")).listen(60)
    assert listener.endpoint.file is not None
    folder = listener.endpoint.file.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    listener.close()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("path", "number"), [("/nowhere/at/all", errno.ENOENT), ("/tmp/" + 200 * "x", errno.ENAMETOOLONG)]
)
def test_the_error_for_an_impossible_address_names_it(path: str, number: int) -> None:
    before = open_things()
    with pytest.raises(OSError, match=f"cannot listen at ipc://{path}") as caught:
        Streams(Endpoint.parse(ipc_address(path))).listen(60)
    assert caught.value.errno == number
    assert open_things() <= before


def test_the_error_for_an_address_that_cannot_be_dialled_has_the_reason() -> None:
    before = open_things()
    with pytest.raises(OSError, match="too long"):
        Streams(Endpoint.parse(ipc_address("/tmp/" + 200 * "x"))).dial()
    assert open_things() <= before


# Other programs, floods and garbage


@pytest.mark.parametrize(
    "words",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff\0\0\0\0\0\0\0\1\x7f\3", GREETING + struct.pack("<II", 1, FRAME_BYTES + 1)],
    ids=["HTTP", "ZeroMQ", "frame"],
)
def test_a_peer_that_sends_garbage_is_disconnected(pair: Pair, words: bytes) -> None:
    with pair.stranger() as stranger:
        stranger.sendall(words)
        [connection] = lost(pair.listener)
        assert connection != pair.connection
        assert stranger.recv(100) == b""
    pair.still_works()


def test_garbage_behind_messages_ends_the_connection_and_the_messages_are_received(pair: Pair) -> None:
    with pair.stranger() as stranger:
        message = b"".join(pieces_of(b"hello", []))
        stranger.sendall(GREETING + message)
        connection, _, _ = received(pair.listener)
        stranger.sendall(b"\0\0\0\0")
        assert lost(pair.listener) == [connection]


def test_an_incomplete_message_delays_no_other_peer_and_takes_no_memory(pair: Pair) -> None:
    with pair.stranger() as half, pair.stranger() as less:
        half.sendall(GREETING + struct.pack("<II", 1, FRAME_BYTES) + b"x")
        less.sendall(GREETING[:3])
        soon(lambda: pair.listener.receive() or len(pair.listener._streams) == 3, pair.listener)
        for _ in range(3):
            pair.still_works()
        assert len(pair.listener._streams) == 3
    assert len({*lost(pair.listener), *pair.listener.lost()}) >= 1


def test_a_listener_that_sends_garbage_ends_the_connection_of_the_dialer(tmp_path: Path) -> None:
    with unix.socket(unix.AF_UNIX) as other:
        other.bind(str(tmp_path / "s"))
        other.listen()
        dialer = Streams(Endpoint.parse(ipc_address(tmp_path / "s"))).dial()
        dialer.send(b"hello", [])
        with other.accept()[0] as accepted:
            accepted.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f")
            assert received(dialer) == (b"", []), "no codec accepts this"
            was_cut(dialer)
        dialer.close()


def test_a_peer_that_sends_faster_than_the_listener_reads_gets_back_pressure(pair: Pair) -> None:
    with pair.stranger() as other:
        other.setblocking(False)
        message = b"".join(pieces_of(bytes(50_000), []))
        other.sendall(GREETING)
        count = 0
        while select.select([], [other], [], 0.2)[1]:
            other.send(message)
            count += 1
            assert count < 1000, "there is no back-pressure"
        assert len(received(pair.listener)[1]) == 50_000
        pair.dialer.send(b"question", [])
        soon(lambda: (came := pair.listener.receive()) and came[1] == b"question", pair.listener)


def test_listener_hangs_up_on_a_peer_that_never_reads(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PIECES_UNSENT", 1000)
    with pair.stranger() as deaf:
        deaf.sendall(GREETING + b"".join(pieces_of(b"hello", [])))
        connection, _, _ = received(pair.listener)
        with pytest.raises(PeerGoneError, match="does not read"):
            send_for_ever(pair.listener, connection)
        assert lost(pair.listener) == [connection]
    pair.still_works()


def take_all_descriptors(spare: list[int]) -> None:
    with contextlib.suppress(OSError):
        while True:
            spare.append(os.dup(0))


def test_without_free_descriptors_no_connection_is_accepted_until_some_are_free(pair: Pair) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pair.stranger() as waiting:
        used = open_descriptors()[-1]
        spare: list[int] = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, before[1]))
        try:
            take_all_descriptors(spare)
            soon(lambda: pair.listener.receive() or pair.listener._lacks_descriptors, pair.listener)
            assert select.select([pair.listener.descriptor], [], [], 0)[0] == [], "the listener does not spin"
            pair.still_works()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for descriptor in spare:
                os.close(descriptor)
        pair.listener.look(0)
        waiting.sendall(GREETING + b"".join(pieces_of(b"hello", [])))
        assert received(pair.listener)[1] == b"hello"
