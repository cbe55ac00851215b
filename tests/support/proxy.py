"""A TCP proxy between peers and a scheduler that does what bad networks do: hold back, delay, slow down, reset.

Bytes are never dropped, as with TCP. **Up** is towards the scheduler, and **down** is from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import urlparse

from tests.support.keys import also_at

READ_BYTES = 1 << 16
CHUNKS_MOST = 256
"""The most chunks in transit in one direction of one connection: the rest waits in its sender."""
RATE_STEP_SECONDS = 0.02
ACCEPTING_TURNS = 3
"""The number of turns of the loop until the protocol of an accepted connection knows the connection."""

Returned = TypeVar("Returned")


class _Direction:
    def __init__(self, rate: float | None, delay: float) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.rate = rate
        self.delay = delay
        self.n_bytes = 0


class Proxy:
    """Forwards all connections from `address` to `target`.

    Args:
        rate: the bytes per second in each direction of each connection; None: without limit.
        delay: the seconds that bytes take in each direction.
    """

    def __init__(self, target: str, rate: float | None = None, delay: float = 0.0) -> None:
        self._target = (urlparse(target).hostname, urlparse(target).port)
        listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        also_at(target, self.address)
        self._loop = asyncio.new_event_loop()
        self._up, self._down = _Direction(rate, delay), _Direction(rate, delay)
        self._pairs: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, ...]] = {}
        self._transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._accept, sock=listener))

    def swallow(self, up: bool = True, down: bool = True) -> None:
        """Hold back all bytes in these directions. Nothing is refused or closed."""
        self._call(self._set_open(False, up, down))

    def pass_on(self) -> None:
        """Forward held and new bytes again, in both directions."""
        self._call(self._set_open(True, True, True))

    def reset(self) -> None:
        """End all connections with a RST, in both directions."""
        self._call(self._reset())

    @property
    def n_bytes(self) -> tuple[int, int]:
        """The bytes that were forwarded up and down."""
        return self._up.n_bytes, self._down.n_bytes

    def _call(self, coroutine: Coroutine[Any, Any, Returned]) -> Returned:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _set_open(self, is_open: bool, up: bool, down: bool) -> None:
        for direction in [self._up] * up + [self._down] * down:
            (direction.is_open.set if is_open else direction.is_open.clear)()

    async def _reset(self) -> None:
        for task, pair in list(self._pairs.items()):
            for writer in pair:
                _abort(writer)
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._pairs[task] = (writer,)
        self._transports.add(writer.transport)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._up.is_open.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            self._pairs[task] = (writer, far_writer)
            self._transports.add(far_writer.transport)
            await _together(_forward(reader, far_writer, self._up), _forward(far_reader, writer, self._down))
        except OSError:
            pass  # the target does not listen
        finally:
            for each in self._pairs.pop(task):
                each.close()

    def close(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for listener in self._server.sockets:
            self._loop.remove_reader(
                listener.fileno()
            )  # asyncio's server loses connections that it accepts while it is closed
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)
        self._server.close()
        tasks, transports = list(self._pairs), list(self._transports)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for transport in transports:
            transport.abort()  # a transport that is only closed waits until its peer has read everything
        await asyncio.sleep(0)  # they end in the next turn

    def __enter__(self) -> Proxy:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with a RST, and drop waiting bytes."""
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _together(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run coroutines until all have ended or one has failed."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: _Direction) -> None:
    """Receive bytes and send them later, until either side has ended."""
    on_their_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_MOST)
    await _together(_take(reader, direction, on_their_way), _pass(writer, direction, on_their_way))


async def _take(reader: asyncio.StreamReader, direction: _Direction, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
    clock = asyncio.get_running_loop().time
    data = b"-"
    passed = clock()  # when the wire has passed what was read, at its rate
    while data:
        rate = direction.rate
        data = await reader.read(min(READ_BYTES, int(rate * RATE_STEP_SECONDS) + 1) if rate else READ_BYTES)
        if rate:
            passed = max(passed, clock() - RATE_STEP_SECONDS) + len(data) / rate  # a late wake-up costs no bytes
            await asyncio.sleep(passed - clock())
        await queue.put((clock() + direction.delay, data))


async def _pass(writer: asyncio.StreamWriter, direction: _Direction, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        due, data = await queue.get()
        if direction.delay:
            await asyncio.sleep(due - clock())
        await direction.is_open.wait()
        if not data:
            writer.write_eof()
            return
        writer.write(data)
        direction.n_bytes += len(data)  # at once: a reset may end this before all has left
        await writer.drain()
