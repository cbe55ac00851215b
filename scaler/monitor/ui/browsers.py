"""Browsers: sends each open page the data that it requests, at the speed at which the page draws.

There is no queue: a frame is made from the newest state after the page has drawn the last frame. A page sends small
requests; any other message ends its connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

from aiohttp import WSMsgType, web

from scaler.monitor.ui import views
from scaler.monitor.ui.feed import Feed
from scaler.monitor.ui.views.page_request import PageRequest, SentState
from scaler.monitor.views.frames import ViewRequestError
from scaler.texts import read_json

logger = logging.getLogger(__name__)

FRAME_SECONDS = 0.25
IDLE_SECONDS = 1.0
"""The time between two frames of a page while no messages arrive from the scheduler."""
MESSAGE_BYTES = 8192
BROWSERS_MOST = 64


class Browser:
    """One open page in a browser: handles its requests, and sends its frames."""

    def __init__(self, socket: web.WebSocketResponse, feed: Feed) -> None:
        self._socket = socket
        self._feed = feed
        self._wake = asyncio.Event()
        self._request: PageRequest | None = None
        self._sent = SentState()
        self._frame = 0
        self._confirmed = 0
        self._hidden = False

    async def run(self) -> None:
        """Serve the page until the page closes its connection."""
        self._feed.listen(self, self._wake.set)
        sender = asyncio.create_task(self._send_until_error())
        try:
            async for message in self._socket:
                if message.type is not WSMsgType.TEXT:
                    break
                self._receive(read_json(message.data))
                self._wake.set()
        except (ValueError, TypeError, OverflowError, RecursionError):
            await self._socket.close(code=1008, message=b"not understood")
        finally:
            self._feed.leave(self)
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    def _receive(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise ViewRequestError("not an object")
        if "ack" in message:
            self._confirmed = max(self._confirmed, min(int(message["ack"]), self._frame))
        if "hidden" in message:
            self._hidden = bool(message["hidden"])
        if "wish" in message:
            self._request = PageRequest.of(message)
            self._sent = SentState()
            self._confirmed = self._frame
            self._feed.set_topics(self, views.topics(self._request))

    async def _send_until_error(self) -> None:
        try:
            await self._send()
        except ViewRequestError:
            await self._socket.close(code=1008, message=b"not understood")
        except ConnectionError:
            return  # the page was closed
        except Exception:  # close the connection: the page would wait forever, and now reconnects
            logger.exception("a page cannot be made")
            await self._socket.close(code=1011, message=b"internal error, see the log of scaler_ui")

    async def _send(self) -> None:
        seen = (-1, -1, 0.0)
        while True:
            await self._wait()
            request = self._request
            if request is None or self._hidden or self._confirmed < self._frame:
                continue
            now = time.monotonic()
            state = (self._feed.state.number, request.number)
            if state == seen[:2] and now - seen[2] < IDLE_SECONDS:
                continue
            seen = (*state, now)
            self._frame += 1
            frame = {
                "wish": request.number,
                "frame": self._frame,
                **views.frame(self._feed.state, request, self._sent, now),
            }
            await self._socket.send_str(json.dumps(frame, separators=(",", ":")))
            await asyncio.sleep(FRAME_SECONDS)

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), IDLE_SECONDS)
        except asyncio.TimeoutError:
            return
        self._wake.clear()
