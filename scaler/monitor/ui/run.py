"""Run: the process of the page: binds a port, reports its address, and serves until a signal or its parent's end."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from scaler.config import ConfigError, whole_path
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.ui.feed import Feed
from scaler.monitor.ui.request_filter import RequestFilter, read_or_make_token, token_file
from scaler.monitor.ui.server import make_app
from scaler.monitor.ui.store import HistoryStore
from scaler.settings.ui import UiConfig

GOODBYE_SECONDS = 2.0
SILENT_SECONDS = 10.0
"""A connection that has sent no complete request is closed after one to two times this time.

Between requests, the limit is that of aiohttp: 75 s.
"""
ACCEPTING_TURNS = 3
"""The number of turns of the event loop after which aiohttp knows all connections that asyncio has accepted."""
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - to recognise such hosts


@dataclass(frozen=True)
class PageSite:
    """The bound port, the token, and the URL of the page, which includes the token."""

    listener: socket.socket
    token: str
    token_file: Path
    url: str


def open_site(config: UiConfig) -> PageSite:
    """Bind the port of the page, and read or create the token.

    Raises:
        ConfigError: if the port cannot be bound, or the token cannot be used.
    """
    listener = _listen(config.host, config.port)
    port = listener.getsockname()[1]
    try:
        file = whole_path(config.token_file) if config.token_file else token_file(port)
        token = read_or_make_token(file)
    except ConfigError:
        listener.close()
        raise
    host = socket.gethostname() if config.host in _EVERYWHERE else config.host
    shown = f"[{host}]" if ":" in host else host
    return PageSite(listener, token, file, f"http://{shown}:{port}/?token={token}")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=64)
    except OSError as error:
        if (error.errno or 0) < 0 or error.errno == errno.EADDRNOTAVAIL:  # the resolver's numbers are negative
            raise ConfigError(f"{host!r} is not a host name or an address of this machine") from None
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} of {host} is in use, perhaps by another scaler_ui; choose one with --port, 0 for any"
            ) from None
        raise ConfigError(f"cannot listen at port {port} of {host}: {error.strerror or error}") from None


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine can connect to an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run_ui(config: UiConfig, ready: Callable[[PageSite], None], lifeline: int | None = None) -> int:
    """Serve until SIGINT or SIGTERM, or until the parent process ends. Return the exit code.

    Args:
        ready: called as soon as browsers can connect.
        lifeline: a descriptor that ends with the parent process; None: this process has no parent to watch.

    Raises:
        ConfigError: if the page cannot be served with these settings.
    """
    site = open_site(config)
    try:
        subscriber = Subscriber(config.address, key_file=config.key_file, trust_users=config.trust_users)
        try:
            store = HistoryStore(whole_path(config.store)) if config.store else None
        except ConfigError:
            subscriber.close()
            raise
        return asyncio.run(_serve(config, site, Feed(subscriber, store), ready, lifeline))
    finally:
        site.listener.close()
        if not config.port and not config.token_file:
            site.token_file.unlink(missing_ok=True)  # the port is not used again


async def _serve(
    config: UiConfig, site: PageSite, feed: Feed, ready: Callable[[PageSite], None], lifeline: int | None
) -> int:
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    if lifeline is not None:

        def look() -> None:
            if not os.read(lifeline, 4096):
                loop.remove_reader(lifeline)
                end.set()

        loop.add_reader(lifeline, look)
    app = make_app(feed, RequestFilter(site.token, config.host, config.names), not config.metrics_only, end.set)
    answered: set[Any] = set()

    async def note(request: web.Request, _response: web.StreamResponse) -> None:
        answered.add(request.protocol)

    app.on_response_prepare.append(note)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=GOODBYE_SECONDS)
    await runner.setup()
    try:
        await web.SockSite(runner, site.listener).start()
        silence = loop.create_task(_hang_up_on_silent(runner, answered))
        ready(site)
        await end.wait()
        silence.cancel()
    finally:
        await _close(runner, site.listener)
    return 0


async def _close(runner: web.AppRunner, listener: socket.socket) -> None:
    """End all connections, including those that asyncio or aiohttp would leave open."""
    asyncio.get_running_loop().remove_reader(listener)
    for _ in range(ACCEPTING_TURNS):
        await asyncio.sleep(0)
    connections = runner.server.connections if runner.server is not None else []
    transports = [connection.transport for connection in connections]
    try:
        await runner.cleanup()
    finally:
        for transport in transports:
            if transport is not None:
                transport.abort()


async def _hang_up_on_silent(runner: web.AppRunner, answered: set[Any]) -> None:
    """Close connections without a complete request, to free open files; `answered`: the connections with a request."""
    before: set[Any] = set()
    while runner.server is not None:
        await asyncio.sleep(SILENT_SECONDS)
        connections = set(runner.server.connections)
        answered &= connections
        for connection in before & connections - answered:
            connection.force_close()
        before = connections - answered
