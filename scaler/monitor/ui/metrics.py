"""The route of Prometheus on the server of the page: behind the same gate, by the token as a bearer."""

from __future__ import annotations

import time

from aiohttp import web

from scaler.monitor.metrics import CONTENT_TYPE, exposition
from scaler.monitor.ui.server import FEED


def add_metrics(app: web.Application) -> None:
    """Serve `/metrics`."""
    app.router.add_get("/metrics", _metrics)


async def _metrics(request: web.Request) -> web.StreamResponse:
    text = exposition(request.app[FEED].state.model, time.monotonic())
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})
