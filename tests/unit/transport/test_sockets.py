from __future__ import annotations

import contextlib
import os
import select
import socket as unix
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import zmq
from zmq.utils.monitor import parse_monitor_message

from scaler.endpoint import Endpoint
from scaler.ids import Connection
from scaler.pickling.serialization import OUT_OF_BAND_BYTES
from scaler.transport import sockets
from scaler.transport.interface import AddressInUseError, PeerGoneError
from scaler.transport.sockets import DealerSocket, RouterSocket
from scaler.transport.unread import GROWN_BYTES, IS_SUPPORTED, received_bytes
from tests.support.proxy import Proxy

PATIENCE_SECONDS = 30.0


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.fixture(params=["tcp", "tcp6", "ipc"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "tcp6":
        with unix.socket(unix.AF_INET6) as probe:
            try:
                probe.bind(("::1", 0))
            except OSError:
                pytest.skip("no IPv6 here")
    return {"tcp": "tcp://127.0.0.1:*", "tcp6": "tcp://[::1]:*", "ipc": f"ipc://{tmp_path}/s"}[request.param]


def soon(look: Callable[[], Any], *descriptors: int) -> Any:
    """Return what `look` returns once it is true. Look whenever a descriptor is readable, and periodically."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (seen := look()):
        assert time.monotonic() < deadline
        select.select(descriptors, [], [], 0.02)
    return seen


def soon_quiet(count: Callable[[], int]) -> None:
    """Wait until a count stops changing."""
    before = -1
    while (now := count()) != before:
        before = now
        time.sleep(0.2)


def received(socket: Any) -> Any:
    return soon(socket.receive, socket.descriptor)


class Pair:
    """A router, a dealer, and the router's id of the connection between them."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self.router = RouterSocket(context, Endpoint.parse(address))
        self.dealer = DealerSocket(context, self.router.endpoint)
        self.dealer.send(b"hello", [])
        self.connection, _, _ = received(self.router)


@pytest.fixture
def pair(context: zmq.Context[zmq.Socket[bytes]], address: str) -> Iterator[Pair]:
    made = Pair(context, address)
    yield made
    made.dealer.close()
    made.router.close()


def test_messages_go_both_ways_with_their_frames(pair: Pair) -> None:
    pair.dealer.send(b"header", [b"one", bytearray(b"two"), memoryview(b"")])
    connection, header, frames = received(pair.router)
    assert (connection, header, list(map(bytes, frames))) == (pair.connection, b"header", [b"one", b"two", b""])
    pair.router.send(connection, b"answer", [b"three"])
    header, frames = received(pair.dealer)
    assert (header, list(map(bytes, frames))) == (b"answer", [b"three"])


def test_receive_without_a_message_returns_none(pair: Pair) -> None:
    assert pair.router.receive() is None
    assert pair.dealer.receive() is None


def test_the_bound_address_has_the_port_that_was_assigned(pair: Pair) -> None:
    assert "*" not in pair.router.endpoint.address
    assert pair.router.endpoint.address.startswith(("tcp://127.0.0.1:", "tcp://[::1]:", "ipc:///"))


def test_large_received_frames_are_not_copied(pair: Pair) -> None:
    large = os.urandom(5_000_000)
    pair.dealer.send(b"header", [large, b"small"])
    _, _, frames = received(pair.router)
    assert frames[0] == large
    assert all(isinstance(frame.obj, zmq.Frame) for frame in frames)


def test_only_large_frames_are_sent_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a copy, each frame costs a callback from another thread, which pays only for large ones."""
    copies = []

    def record(_socket: Any, _part: Any, _flags: int, copy: bool) -> None:
        copies.append(copy)

    monkeypatch.setattr(sockets, "_send_part", record)
    words = memoryview(bytes(OUT_OF_BAND_BYTES)).cast("Q")
    frames = [bytes(OUT_OF_BAND_BYTES - 1), bytes(OUT_OF_BAND_BYTES), words]
    sockets._send(None, b"header", frames)  # type: ignore[arg-type]
    assert copies == [True, True, False, False]


def test_a_message_to_a_disconnected_peer_raises(pair: Pair) -> None:
    pair.dealer.close()

    def is_gone() -> bool:
        try:
            pair.router.send(pair.connection, b"anybody there?", [])
        except PeerGoneError:
            return True
        return False

    soon(is_gone, pair.router.descriptor)


def test_a_message_to_an_unknown_connection_raises(pair: Pair) -> None:
    with pytest.raises(PeerGoneError):
        pair.router.send(b"\0nobody", b"header", [b"frame"])  # type: ignore[arg-type]
    pair.router.send(pair.connection, b"still works", [])
    assert received(pair.dealer)[0] == b"still works"


def test_router_reports_each_lost_connection_once(context: Any, pair: Pair) -> None:
    other = DealerSocket(context, pair.router.endpoint)
    other.send(b"hello", [])
    connection, _, _ = received(pair.router)
    assert pair.router.lost() == []
    other.close()
    assert soon(pair.router.lost, pair.router.monitor_descriptor) == [connection]
    assert pair.router.lost() == []
    pair.router.send(pair.connection, b"still works", [])


def test_router_can_hang_up_on_a_peer(context: Any, pair: Pair) -> None:
    other = DealerSocket(context, pair.router.endpoint)
    other.send(b"hello", [])
    connection, _, _ = received(pair.router)
    pair.router.hang_up(connection)
    soon(other.was_cut, other.monitor_descriptor)
    assert soon(pair.router.lost, pair.router.monitor_descriptor) == [connection]
    pair.router.send(pair.connection, b"still works", [])
    assert received(pair.dealer)[0] == b"still works"
    pair.router.hang_up(Connection(b"nobody"))
    other.close()


def test_router_hangs_up_on_connections_without_a_peer(context: zmq.Context[Any], pair: Pair) -> None:
    router, silent = pair.router, DealerSocket(context, pair.router.endpoint)
    soon(lambda: router.lost() or len(router._idle._open) == 2, router.monitor_descriptor)
    assert router.hang_up_on_idle({pair.connection}) == 0, "the connection counts as new at the first look"
    assert router.hang_up_on_idle({pair.connection}) == 1
    soon(silent.was_cut, silent.monitor_descriptor)
    silent.close()
    pair.dealer.send(b"still here", [])
    assert received(router)[:2] == (pair.connection, b"still here")
    assert router.hang_up_on_idle(()) == 0
    assert router.hang_up_on_idle(()) >= 1, "its session has ended"


def test_a_connection_that_does_not_finish_its_handshake_is_closed(
    context: zmq.Context[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "HANDSHAKE_MS", 100)
    router = RouterSocket(context, Endpoint.parse("tcp://127.0.0.1:*"))
    host, port = router.endpoint.address.removeprefix("tcp://").split(":")
    with unix.create_connection((host, int(port)), PATIENCE_SECONDS) as half:
        half.sendall(b"\xff")
        with contextlib.suppress(ConnectionResetError):
            while half.recv(4096):
                pass
    router.close()


def test_a_peer_that_chooses_its_routing_id_is_disconnected(context: zmq.Context[Any], pair: Pair) -> None:
    with context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.IPV6, "[" in pair.router.endpoint.address)
        peer.setsockopt(zmq.ROUTING_ID, b"chosen")
        monitor = peer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        peer.connect(pair.router.endpoint.address)
        peer.send_multipart([b"hello", b"and more"])
        assert received(pair.router) == (b"chosen", b"", [])
        assert monitor.poll(PATIENCE_SECONDS * 1000)
        peer.disable_monitor()
        monitor.close()
    pair.router.send(pair.connection, b"still works", [])
    assert received(pair.dealer)[0] == b"still works"


def test_router_applies_back_pressure_to_a_peer_that_sends_faster_than_it_reads(context: Any, pair: Pair) -> None:
    if IS_SUPPORTED and pair.router.endpoint.address.startswith("tcp"):
        return  # see the next test
    other = context.socket(zmq.DEALER)
    other.setsockopt(zmq.IPV6, 1)
    other.setsockopt(zmq.SNDHWM, 1)
    other.setsockopt(zmq.LINGER, 0)
    other.connect(pair.router.endpoint.address)
    garbage, count = bytes(100_000), 0
    while other.poll(200, zmq.POLLOUT):
        other.send(garbage)
        count += 1
        assert count < 2 * sockets.MESSAGES_WAITING, "there is no back-pressure"
    assert count >= sockets.MESSAGES_WAITING
    assert len(received(pair.router)[1]) == len(garbage)
    other.close()


def _send_for_ever(router: RouterSocket, connection: Connection) -> None:
    for _ in range(10_000):
        router.send(connection, bytes(10_000), [])


def test_router_hangs_up_on_a_peer_that_never_reads(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "MESSAGES_UNSENT", 1000)
    router = RouterSocket(context, Endpoint.parse("tcp://127.0.0.1:*"))
    with context.socket(zmq.DEALER) as peer:
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.RCVHWM, 1)
        peer.connect(router.endpoint.address)
        peer.send(b"hello")
        connection, _, _ = received(router)
        with pytest.raises(PeerGoneError):
            _send_for_ever(router, connection)
        soon(router._monitor.lost)
    router.close()


@pytest.mark.skipif(not IS_SUPPORTED, reason="the system does not count what comes")
def test_router_hangs_up_on_a_peer_that_sends_far_more_than_it_reads(context: Any) -> None:
    router = RouterSocket(context, Endpoint.parse("tcp://127.0.0.1:*"), unread_bytes=20_000_000)
    good, bad = DealerSocket(context, router.endpoint), DealerSocket(context, router.endpoint)
    for dealer in (good, bad):
        dealer.send(b"hello", [])
        connection, _, _ = received(router)
    assert router.lost() == []
    assert (router.look(1), router.look(1 + 2 * GROWN_BYTES)) == (0, 0)
    descriptor = router._descriptors.known[connection]
    for _ in range(400):
        good.send(bytes(100_000), [])
        received(router)
    for _ in range(400):
        bad.send(bytes(100_000), [])
    soon(lambda: (received_bytes(descriptor) or 0) > 40_000_000)
    assert router.look(1 + 2 * GROWN_BYTES) == 1
    soon(bad.was_cut)
    assert not good.was_cut()
    for closable in (good, bad, router):
        closable.close()


def test_a_frame_that_is_too_large_ends_its_connection(context: Any) -> None:
    with contextlib.closing(RouterSocket(context, Endpoint.parse("tcp://127.0.0.1:*"), frame_bytes=1000)) as router:
        honest, other = DealerSocket(context, router.endpoint), DealerSocket(context, router.endpoint)
        honest.send(bytes(1000), [])
        assert len(received(router)[1]) == 1000
        other.send(bytes(1001), [])
        soon(other.was_cut, other.monitor_descriptor)
        assert router.receive() is None
        honest.send(b"still works", [])
        assert received(router)[1] == b"still works"
        honest.close()
        other.close()


def test_lost_connections_are_forgotten(pair: Pair) -> None:
    pair.dealer.close()
    soon(pair.router.lost, pair.router.monitor_descriptor)

    def is_gone() -> bool:
        with contextlib.suppress(PeerGoneError):
            pair.router.send(pair.connection, b"anybody there?", [])
        return pair.connection not in pair.router._descriptors.known

    soon(is_gone, pair.router.descriptor)
    assert pair.router._descriptors._connections == {}


def test_dealer_notices_that_the_router_was_closed(pair: Pair) -> None:
    assert not pair.dealer.was_cut()
    pair.router.close()
    soon(pair.dealer.was_cut, pair.dealer.monitor_descriptor)


def test_dealer_waits_for_its_router_and_then_reaches_it(context: Any, address: str) -> None:
    if "*" in address:
        host = address.removeprefix("tcp://").removesuffix(":*").strip("[]")
        with unix.create_server((host, 0), family=unix.AF_INET6 if ":" in host else unix.AF_INET) as free:
            address = address.replace("*", str(free.getsockname()[1]))
    dealer = DealerSocket(context, Endpoint.parse(address))
    dealer.send(b"early", [])
    assert not dealer.was_cut()
    router = RouterSocket(context, Endpoint.parse(address))
    assert received(router)[1] == b"early"
    dealer.close()
    router.close()


class Retries:
    """A monitor that reports attempts to connect instead of lost connections."""

    descriptor = 0

    def __init__(self, socket: Any, _watchers: Any, _keyring: Any) -> None:
        self.monitor = socket.get_monitor_socket(zmq.EVENT_CONNECT_RETRIED)

    def close(self) -> None:
        self.monitor.close()


def test_the_pauses_of_a_dealer_between_attempts_to_connect_are_bounded(
    context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pauses between attempts to connect grow, but not for long."""
    usual = sockets.CutMonitor  # for sockets that threads of earlier tests still open
    monkeypatch.setattr(
        sockets, "CutMonitor", lambda made, *rest: (Retries if made.context is context else usual)(made, *rest)
    )
    dealer = DealerSocket(context, Endpoint.parse(f"ipc://{tmp_path}/s"))
    monitor = cast("Any", dealer._monitor).monitor
    pauses = [parse_monitor_message(monitor.recv_multipart())["value"] for _ in range(5)]
    dealer.close()
    assert max(pauses) <= sockets.RECONNECT_MOST_MS + sockets.RECONNECT_MS <= 300


def test_each_dealer_is_another_connection(pair: Pair, context: Any) -> None:
    second = DealerSocket(context, pair.router.endpoint)
    second.send(b"hello", [])
    connection, _, _ = received(pair.router)
    assert connection != pair.connection
    second.close()


@pytest.mark.parametrize("parts", [[b""], [b"", b"", b""], [b"x"] * 100])
def test_any_shape_of_a_message_is_received(pair: Pair, context: Any, parts: list[bytes]) -> None:
    stranger = context.socket(zmq.DEALER)
    stranger.setsockopt(zmq.IPV6, 1)
    stranger.connect(pair.router.endpoint.address)
    stranger.send_multipart(parts)
    _, header, frames = received(pair.router)
    assert [header, *map(bytes, frames)] == parts
    stranger.close(linger=0)


def test_bytes_of_another_protocol_do_not_affect_other_connections(pair: Pair) -> None:
    if pair.router.endpoint.address.startswith("ipc://"):
        stranger = unix.socket(unix.AF_UNIX)
        stranger.connect(pair.router.endpoint.address.removeprefix("ipc://"))
    else:
        host, _, port = pair.router.endpoint.address.removeprefix("tcp://").rpartition(":")
        stranger = unix.create_connection((host.strip("[]"), int(port)))
    with stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        pair.dealer.send(b"header", [])
        assert received(pair.router)[1] == b"header"


# Addresses that cannot be listened at


def test_busy_address_is_refused(pair: Pair, context: Any) -> None:
    with pytest.raises(AddressInUseError, match="in use"):
        RouterSocket(context, pair.router.endpoint)
    pair.dealer.send(b"header", [])
    assert received(pair.router)[1] == b"header"


def test_ipc_file_of_a_killed_process_is_taken_over(context: Any, tmp_path: Path) -> None:
    path = tmp_path / "stale"
    with unix.socket(unix.AF_UNIX) as killed:
        killed.bind(str(path))
    assert path.exists()
    pair = Pair(context, f"ipc://{path}")
    pair.dealer.close()
    pair.router.close()


def test_an_ipc_file_is_accessible_to_its_user_only(context: Any, tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        pair = Pair(context, f"ipc://{tmp_path}/s")
        (tmp_path / "file").touch()
    finally:
        os.umask(umask)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("s", "file")] == [0o600, 0o666]
    pair.dealer.close()
    pair.router.close()


def test_the_error_for_an_impossible_address_names_it(context: Any) -> None:
    with pytest.raises(OSError, match="ipc:///nowhere/at/all"):
        RouterSocket(context, Endpoint.parse("ipc:///nowhere/at/all"))


# Closing


def test_close_waits_until_submitted_messages_are_sent(pair: Pair) -> None:
    pair.dealer.send(b"last words", [bytes(1_000_000)])
    pair.dealer.close(linger_seconds=5)
    assert received(pair.router)[1] == b"last words"


def test_context_can_end_after_close(address: str) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    pair = Pair(context, address)
    pair.dealer.close()
    pair.router.close()
    pair.router.close()  # does no harm
    context.term()


@pytest.mark.parametrize(
    "words",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n\x01\x00\x06\x00hello",
        b"\x01\x00\x06\x00hello",
    ],
    ids=["HTTP", "ZMTP 1"],
)
def test_messages_of_web_browsers_and_old_peers_are_not_received(
    context: zmq.Context[zmq.Socket[bytes]], words: bytes
) -> None:
    """Without a security domain, libzmq reads what a web page posts as messages of its first protocol."""
    pair = Pair(context, "tcp://127.0.0.1:*")
    port = int(pair.router.endpoint.address.rpartition(":")[2])
    with unix.create_connection(("127.0.0.1", port)) as browser:
        browser.sendall(words)
        browser.settimeout(PATIENCE_SECONDS)
        with contextlib.suppress(ConnectionError):
            while browser.recv(4096):  # until the router hangs up
                pass
    pair.dealer.send(b"the next", [])
    _, header, _ = received(pair.router)
    assert header == b"the next", "no message arrived in between"
    pair.dealer.close()
    pair.router.close()


def test_a_message_of_too_many_frames_is_received_without_frames(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    pair = Pair(context, "tcp://127.0.0.1:*")
    pair.dealer.send(b"header", [b""] * (sockets.FRAMES_MOST + 5))
    pair.dealer.send(b"the next", [])
    assert received(pair.router)[1:] == (b"header", [])
    assert received(pair.router)[1:] == (b"the next", [])
    pair.dealer.close()
    pair.router.close()


def test_a_frame_that_is_too_large_ends_its_connection_at_the_dealer(
    context: zmq.Context[zmq.Socket[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "FRAME_BYTES_MOST", 1_000_000)
    pair = Pair(context, "tcp://127.0.0.1:*")
    pair.dealer.send(b"header", [bytes(999_000)])
    connection, _, (frame,) = received(pair.router)
    assert len(frame) == 999_000
    pair.router.send(connection, b"header", [bytes(1_000_001)])
    assert soon(pair.dealer.was_cut, pair.dealer.monitor_descriptor)
    assert pair.dealer.receive() is None
    pair.dealer.close()
    pair.router.close()


def test_a_dealer_does_not_end_a_silent_connection(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    router = RouterSocket(context, Endpoint.parse("tcp://127.0.0.1:*"), silence_seconds=60)
    with Proxy(router.endpoint.address) as proxy:
        dealer = DealerSocket(context, Endpoint.parse(proxy.address))
        dealer.send(b"hello", [])
        connection, _, _ = received(router)
        proxy.swallow()
        time.sleep(0.3)
        assert not dealer.was_cut()
        proxy.pass_on()
        router.send(connection, b"here again", [])
        assert received(dealer) == (b"here again", [])
        dealer.close()
    router.close()


ROUTER_THAT_DOES_NOT_READ = """
import sys, zmq
from scaler.endpoint import Endpoint
from scaler.transport.sockets import RouterSocket
with zmq.Context() as context:
    router = RouterSocket(context, Endpoint.parse("tcp://127.0.0.1:*"), silence_seconds=60)
    print(router.endpoint.address, flush=True)
    sys.stdin.read()
    router.close()
"""


@pytest.mark.more
@pytest.mark.processes
def test_a_router_survives_the_reset_of_a_connection_under_back_pressure(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    """With ZeroMQ heartbeats (one every 5 s), libzmq aborts the process here."""
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", ROUTER_THAT_DOES_NOT_READ], **options) as process:  # type: ignore[call-overload]
        with Proxy(process.stdout.readline().strip()) as proxy:
            dealer = DealerSocket(context, Endpoint.parse(proxy.address))
            for _ in range(20 * sockets.MESSAGES_WAITING):
                dealer.send(bytes(1000), [])
            soon(lambda: proxy.n_bytes[0] > 1000 * sockets.MESSAGES_WAITING)
            soon_quiet(lambda: proxy.n_bytes[0])
            proxy.reset()
            dealer.close()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(6.0)
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


def test_an_unresponsive_connection_is_closed_by_the_system_after_a_timeout(context: Any) -> None:
    """The system closes it. The test checks only the options, to save the time."""
    pair = Pair(context, "tcp://127.0.0.1:*")
    assert pair.router.receive() is None
    with unix.socket(fileno=os.dup(pair.router._descriptors.known[pair.connection])) as accepted:
        options = (unix.TCP_USER_TIMEOUT, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL)
        assert [accepted.getsockopt(unix.IPPROTO_TCP, option) for option in options] == [40_000, 30, 5]
    pair.dealer.close()
    pair.router.close()


# Between threads of one process


def is_gone(say: Callable[[], Any]) -> bool:
    try:
        say()
    except PeerGoneError:
        return True
    return False


def test_inproc_messages_go_both_ways_if_the_dealer_was_first(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    dealer = DealerSocket(context, Endpoint.parse("inproc://a"))
    dealer.send(b"early", [b"frame"])
    router = RouterSocket(context, Endpoint.parse("inproc://a"))
    connection, header, frames = received(router)
    assert (header, [bytes(frame) for frame in frames], router.endpoint.address) == (b"early", [b"frame"], "inproc://a")
    router.send(connection, b"answer", [])
    assert received(dealer) == (b"answer", [])
    with pytest.raises(AddressInUseError):
        RouterSocket(context, Endpoint.parse("inproc://a"))
    dealer.close()
    router.close()


def test_frames_received_over_inproc_are_copies(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    pair = Pair(context, "inproc://a")
    mine = bytearray(b"x" * 2 * OUT_OF_BAND_BYTES)
    pair.router.send(pair.connection, b"", [mine])
    _, [frame] = received(pair.dealer)
    frame[0] = 0
    assert mine[0] == ord("x")
    pair.dealer.close()
    pair.router.close()


def test_inproc_messages_sent_before_the_close_arrive_after_it(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    pair = Pair(context, "inproc://a")
    for number in range(100):
        pair.dealer.send(b"%d" % number, [])
    pair.dealer.close()
    assert [received(pair.router)[1] for _ in range(100)] == [b"%d" % number for number in range(100)]
    soon(lambda: is_gone(lambda: pair.router.receive() or pair.router.send(pair.connection, b"", [])))
    pair.router.close()


def test_sending_to_a_closed_inproc_end_raises(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    pair = Pair(context, "inproc://a")
    pair.router.close()
    soon(lambda: is_gone(lambda: pair.dealer.send(b"", [b"frame"])))
    pair.dealer.close()
