"""Server: answers browsers and Prometheus, after the request filter. No request changes the cluster.

The only request that is not a GET is that of the form in which a user types the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

from aiohttp import WSMsgType, web

from scaler.monitor.metrics import CONTENT_TYPE, exposition
from scaler.monitor.ui.browsers import BROWSERS_MOST, MESSAGE_BYTES, Browser
from scaler.monitor.ui.exports import export
from scaler.monitor.ui.feed import Feed
from scaler.monitor.ui.request_filter import HEADERS, RequestFilter
from scaler.monitor.ui.token_form import ADVICE, accepted, token_form

STATIC = Path(__file__).parent / "static"
OPEN = frozenset({"/healthz"})
"""Paths that need no token."""
OF_PAGE = ("/", "/socket", "/static/")
"""Paths for which the cookie suffices. They give no data: `/socket` sends nothing before the token has arrived."""
TOKEN_SECONDS = 10.0
"""The longest wait for the token on a new connection."""
YEAR_SECONDS = 31_536_000
_CONDITIONS = frozenset({"If-None-Match", "If-Modified-Since", "Range"})


class Browsers(set[web.WebSocketResponse]):
    """The connections of all open pages."""


FEED = web.AppKey("feed", Feed)
GATE = web.AppKey("gate", RequestFilter)
BROWSERS = web.AppKey("browsers", Browsers)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(
    feed: Feed, gate: RequestFilter, has_page: bool = True, has_failed: Callable[[], None] = lambda: None
) -> web.Application:
    """Return the application of the server. The feed runs for as long as the application.

    Args:
        has_page: whether to serve the page; if not, only the metrics are served.
        has_failed: called when the feed ends with an error, which the application raises at its end.
    """
    app = web.Application(middlewares=[_guard], client_max_size=1024)
    app[FEED], app[GATE], app[BROWSERS] = feed, gate, Browsers()
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/metrics", _metrics)
    app.router.add_get(r"/view/{name}.{kind:\w+}", _view)
    if has_page:
        app.router.add_get("/", _index)
        app.router.add_post("/", _enter)
        app.router.add_get("/socket", _socket)
        app.router.add_static("/static", STATIC)
    app.cleanup_ctx.append(partial(_running_feed, has_failed))
    app.on_shutdown.append(_hang_up)
    return app


def cookie_name(request: web.Request) -> str:
    """Return the name of the cookie. It contains the port, because browsers send cookies to all ports of a host."""
    return f"scaler_ui_{request.url.port or 0}"


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        answer = _refusal(request) or await handler(request)
    except web.HTTPException as error:
        error.headers.update(HEADERS)
        raise
    if not answer.prepared:
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        if _has_body(request, answer):
            answer.enable_compression()
    return answer


def _has_body(request: web.Request, answer: web.StreamResponse) -> bool:
    """Return whether an answer surely has a body; aiohttp fails to compress an empty one, such as that of a 304."""
    if isinstance(answer, web.FileResponse):
        return not _CONDITIONS & request.headers.keys()
    return isinstance(answer, web.Response) and bool(answer.body)


def _refusal(request: web.Request) -> web.Response | None:
    if request.path in OPEN:
        return None
    gate = request.app[GATE]
    if not gate.is_for_us(request.host, request.headers.get("Origin")):
        return web.Response(
            status=403,
            text="This server has another name. Use the address that scaler_ui printed; for a proxy in front of it, "
            "start scaler_ui with --names NAME.\n",
        )
    if request.method == "POST" and request.path == "/":
        return None  # the form, whose token its handler checks
    is_of_page = request.path in OF_PAGE or request.path.startswith(OF_PAGE[-1])
    given = (
        (is_of_page and gate.has_cookie(request.cookies.get(cookie_name(request))))
        or (request.path == "/" and gate.knows(request.query.get("token")))
        or gate.has_bearer(request.headers.get("Authorization"))
    )
    if given:
        refusal = request.app[FEED].state.refusal
        return web.Response(status=403, text=f"{refusal}\n") if refusal else None
    if request.path == "/" and "text/html" in request.headers.get("Accept", ""):
        return token_form("token" in request.query)
    return web.Response(status=403, text=f"{ADVICE}\n")


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _metrics(request: web.Request) -> web.Response:
    text = exposition(request.app[FEED].state.model, time.monotonic())
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})


async def _view(request: web.Request) -> web.Response:
    return await export(request.app[FEED], request.match_info["name"], request.match_info["kind"], request.query)


async def _index(request: web.Request) -> web.StreamResponse:
    answer = web.FileResponse(STATIC / "index.html")
    if request.app[GATE].knows(request.query.get("token")):
        # The page takes the token out of its address by itself: after a redirect from another site, a browser would
        # not send a strict cookie.
        _set_cookie(request, answer)
    return answer


async def _enter(request: web.Request) -> web.Response:
    """Answer the form in which a user typed the token."""
    token = (await request.post()).get("token")
    if not (isinstance(token, str) and request.app[GATE].knows(token.strip())):
        return token_form(is_wrong=True)
    answer = accepted(token.strip())
    _set_cookie(request, answer)
    return answer


def _set_cookie(request: web.Request, answer: web.StreamResponse) -> None:
    answer.set_cookie(
        cookie_name(request), request.app[GATE].cookie, max_age=YEAR_SECONDS, httponly=True, samesite="Strict",
        secure=request.secure,
    )  # fmt: skip


async def _socket(request: web.Request) -> web.StreamResponse:
    browsers = request.app[BROWSERS]
    if len(browsers) >= BROWSERS_MOST:
        return web.Response(status=503, text=f"{BROWSERS_MOST} pages are open; close one.\n")
    socket = web.WebSocketResponse(heartbeat=20, max_msg_size=MESSAGE_BYTES, autoclose=True)
    await socket.prepare(request)
    gate = request.app[GATE]
    if not (gate.has_bearer(request.headers.get("Authorization")) or await _sends_token(socket, gate)):
        await socket.close(code=1008, message=b"the first message must be the token")
        return socket
    browsers.add(socket)
    try:
        await Browser(socket, request.app[FEED]).run()
    finally:
        browsers.discard(socket)
    return socket


async def _sends_token(socket: web.WebSocketResponse, gate: RequestFilter) -> bool:
    try:
        message = await socket.receive(TOKEN_SECONDS)
    except asyncio.TimeoutError:
        return False
    return message.type is WSMsgType.TEXT and gate.knows(message.data)


async def _running_feed(has_failed: Callable[[], None], app: web.Application) -> AsyncIterator[None]:
    task = asyncio.create_task(app[FEED].run())
    task.add_done_callback(lambda ended: None if ended.cancelled() else has_failed())
    yield
    task.cancel()
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    finally:
        app[FEED].close()


async def _hang_up(app: web.Application) -> None:
    browsers: Browsers = app[BROWSERS]
    for socket in list(browsers):
        await socket.close(code=1001, message=b"the server ends")
