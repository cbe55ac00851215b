from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import stat
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.ui import run
from scaler.monitor.ui.feed import Feed
from scaler.monitor.ui.run import PageSite, is_loopback, open_site, run_ui
from scaler.settings import UiConfig

SOMEWHERE = "tcp://127.0.0.1:1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield int(other.getsockname()[1])


def never(_place: PageSite) -> None:
    raise AssertionError("it must not come so far")


def test_the_address_has_the_token_and_the_file_is_for_its_user_alone(home: Path) -> None:
    site = open_site(UiConfig(SOMEWHERE, port=0))
    port = site.listener.getsockname()[1]
    site.listener.close()
    assert site.token_file.parent == home / "scaler"
    assert site.token_file.read_text().strip() == site.token
    assert stat.S_IMODE(site.token_file.stat().st_mode) == 0o600
    assert site.url == f"http://127.0.0.1:{port}/?token={site.token}"


def test_an_address_of_ipv6_has_brackets() -> None:
    site = open_site(UiConfig(SOMEWHERE, host="::1", port=0))
    site.listener.close()
    assert site.url.startswith("http://[::1]:")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_for_all_networks_has_the_name_of_the_machine(host: str) -> None:
    site = open_site(UiConfig(SOMEWHERE, host=host, port=0))
    site.listener.close()
    assert site.url.startswith(f"http://{socket.gethostname()}:")
    assert not is_loopback(host)


def test_a_busy_port_is_an_error_of_one_sentence(taken: int) -> None:
    with pytest.raises(ConfigError, match=f"port {taken} of 127.0.0.1 is in use.*--port"):
        run_ui(UiConfig(SOMEWHERE, port=taken), never)


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"host": "no.such.host.invalid"}, "not a host name"),
        ({"host": "192.0.2.1"}, "not a host name or an address of this machine"),
        ({"store": "/no/such/folder/night.db"}, "cannot be opened"),
        ({"store": "pyproject.toml"}, "not a store of scaler_ui"),
        ({"token_file": "/proc/nothing"}, "cannot store the token"),
    ],
)
def test_settings_of_the_page_that_cannot_work_are_an_error_of_one_sentence(
    settings: dict[str, str], hint: str, home: Path
) -> None:
    config = UiConfig(SOMEWHERE, port=0, **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=hint):
        run_ui(config, never)
    assert list(home.glob("scaler/*")) == [], "nothing is left behind"


@pytest.mark.parametrize(
    ("host", "is_one"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False)]
)
def test_loopback_addresses_are_recognised(host: str, is_one: bool) -> None:
    assert is_loopback(host) is is_one


def test_an_error_of_the_feed_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_feed: Feed) -> None:
        raise LookupError("what nobody has thought of")

    monkeypatch.setattr(Feed, "run", fail)
    places: list[PageSite] = []
    with pytest.raises(LookupError, match="nobody has thought of"):
        run_ui(UiConfig(SOMEWHERE, port=0), places.append)
    assert len(places) == 1


def test_a_connection_with_half_a_request_is_closed_and_an_answered_one_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "SILENT_SECONDS", 0.3)
    asyncio.run(half_and_whole_requests())


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[PageSite, socket.socket]]:
    """Yield the site of a running server, and the socket that ends it when it is closed."""
    config = UiConfig(SOMEWHERE, port=0)
    site = open_site(config)
    is_ready, (ours, theirs) = asyncio.Event(), socket.socketpair()
    feed = Feed(Subscriber(SOMEWHERE))
    with site.listener, ours, theirs:
        serving = asyncio.create_task(run._serve(config, site, feed, lambda _place: is_ready.set(), theirs.fileno()))
        await is_ready.wait()
        yield site, ours
        ours.close()
        assert await serving == 0


async def half_and_whole_requests() -> None:
    async with served() as (site, _):
        connections = [await asyncio.open_connection(*site.listener.getsockname()) for _ in range(3)]
        (silent, _), (half, begins), (whole, asks) = connections
        begins.write(b"GET / HTTP/1.1\r\nHost: localhost")
        for _ in range(2):
            asks.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = await whole.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 OK")
            await whole.readexactly(int(answer.partition(b"Content-Length: ")[2].split()[0]))
            assert [await asyncio.wait_for(each.read(), 60) for each in (silent, half)] == [b"", b""]
        for _, writer in connections:
            writer.close()


async def come_as_it_ends() -> socket.socket:
    """Connect while the server has not yet noticed that it is to end."""
    late = socket.socket()
    late.setblocking(False)
    async with served() as (site, lifeline):
        lifeline.close()
        late.connect_ex(site.listener.getsockname())
    return late


async def ask_and_never_read() -> socket.socket:
    """Send requests without reading answers until the server reads no further ones."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    deaf.setblocking(False)
    async with served() as (site, _):
        site.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
        site.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        await asyncio.get_running_loop().sock_connect(deaf, site.listener.getsockname())
        request = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {site.token}\r\n\r\n".encode()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(deaf, request * 1_000_000), 1)
    return deaf


@pytest.mark.parametrize("peer", [come_as_it_ends, ask_and_never_read])
def test_the_server_leaves_no_connection_open_at_its_end(
    peer: Callable[[], Coroutine[Any, Any, socket.socket]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "GOODBYE_SECONDS", 0.1)
    asyncio.run(peer()).close()
    gc.collect()  # pytest fails the test for a connection that is found open
