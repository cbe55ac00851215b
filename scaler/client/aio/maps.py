"""Maps of the asyncio client: the steps of `MapRun` and `MapStream`, between which the loop gets its turns.

Items are drawn in the thread of the loop, from an ordinary or an asynchronous iterable. Small results are read there,
too; large ones in a thread of the loop's executor.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from scaler import task_context
from scaler.client.aio.queries import in_thread
from scaler.client.maps.map_run import MapCall, MapRun
from scaler.client.maps.map_stream import MapStream
from scaler.client.maps.row_source import NOT_YET
from scaler.errors import is_error_of_task

__tracebackhide__ = is_error_of_task

Items: TypeAlias = Iterable[Sequence[Any]] | AsyncIterable[Sequence[Any]]

ROWS_A_TURN = 1024
"""The number of results from which on no further ones are read before the loop gets a turn."""

ITEMS_A_TURN = 32
"""The number of items of an asynchronous iterable that are drawn, or results yielded, between two turns of the loop."""


class LoopWake:
    """Wakes a coroutine of an event loop from any thread, once until it is cleared."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_set = False

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        self._is_set = False
        self._event.clear()

    async def wait(self, seconds: float | None) -> None:
        """Wait until it is set, at most `seconds`."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)


class AsyncItems:
    """Iterates over the items that an asynchronous iterable has yielded so far."""

    def __init__(self, items: AsyncIterable[Sequence[Any]], run: MapRun, wake: LoopWake) -> None:
        self._items, self._run, self._wake = aiter(items), run, wake
        self._ready: deque[Sequence[Any]] = deque()
        self._has_room = asyncio.Event()
        self._error: BaseException | None = None
        self._is_exhausted = False
        self._drawing = asyncio.ensure_future(self._draw())

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._has_room.set()
        if self._ready:
            return self._ready.popleft()
        if self._error is not None:
            raise self._error
        if self._is_exhausted:
            raise StopIteration
        return NOT_YET

    async def _draw(self) -> None:
        try:
            async for item in self._items:
                self._ready.append(item)
                self._wake.set()
                while len(self._ready) >= max(1, min(self._run.capacity(), ITEMS_A_TURN)):
                    self._has_room.clear()
                    await self._has_room.wait()
            self._is_exhausted = True
        except Exception as error:  # noqa: BLE001 - raised again where the items are read
            self._error = error
        self._wake.set()

    async def close(self) -> None:
        """Draw no further items, and close the user's iterator if it can be closed."""
        self._drawing.cancel()
        await asyncio.wait([self._drawing])
        close = getattr(self._items, "aclose", None)
        if close is not None and not self._is_exhausted:
            await close()


async def results_of_map(call: MapCall, items: Items, *, progress: bool) -> list[Any]:
    """Run one task for each item and return the results in the order of the items, as `MapRun.run` does."""
    wake = LoopWake()
    run = MapRun(call, wake, ROWS_A_TURN)
    async with _begun(run, items, wake, progress=progress):
        while not run.is_over():
            await _step(run, wake)
    return run.results


async def stream_of_map(call: MapCall, items: Items) -> AsyncIterator[Any]:
    """Run one task for each item and yield each result as it arrives, as `MapStream.stream` does."""
    wake = LoopWake()
    run, n_read = MapStream(call, wake, ROWS_A_TURN), 0
    async with _begun(run, items, wake):
        while run.has_next or not run.is_over():
            if not run.has_next:
                await _step(run, wake)
                continue
            yield run.next()
            n_read += 1
            if n_read % ITEMS_A_TURN == 0:
                await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def _begun(run: MapRun, items: Items, wake: LoopWake, *, progress: bool = False) -> AsyncIterator[None]:
    """Begin a map, and end it with the block."""
    drawn = AsyncItems(items, run, wake) if isinstance(items, AsyncIterable) else items
    end_of_wait = task_context.current.expect(run.link)
    is_complete = False
    try:
        run.begin(drawn, progress)
        yield
        is_complete = run.is_over()
    finally:
        end_of_wait()
        run.end(is_complete)
        if isinstance(drawn, AsyncItems):
            await drawn.close()


@contextlib.asynccontextmanager
async def drawn_in_loop(items: Items) -> AsyncIterator[Iterable[Sequence[Any]]]:
    """Return an iterable for another thread, whose items are drawn in the thread of this loop, one at a time.

    A list or tuple is returned as it is. The user's iterator is closed if not all items were drawn.
    """
    if isinstance(items, (list, tuple)):
        yield items
        return
    loop, rest = asyncio.get_running_loop(), aiter(items) if isinstance(items, AsyncIterable) else iter(items)
    is_exhausted = False

    async def draw() -> Any:
        return next(rest, NOT_YET) if isinstance(rest, Iterator) else await anext(rest, NOT_YET)

    def drawn() -> Iterator[Sequence[Any]]:
        nonlocal is_exhausted
        while (item := asyncio.run_coroutine_threadsafe(draw(), loop).result()) is not NOT_YET:
            yield item
        is_exhausted = True

    try:
        yield drawn()
    finally:
        close = None if is_exhausted else getattr(rest, "aclose", None) or getattr(rest, "close", None)
        ended = None if close is None else close()
        if ended is not None:
            await ended


async def _step(run: MapRun, wake: LoopWake) -> None:
    """Take one step of a map, or wait until there is something to do. The loop gets a turn."""
    if run.has_large_values:
        await in_thread(run.collect)
    elif run.step():
        await asyncio.sleep(0)
    elif run.begin_wait():
        await wake.wait(run.seconds_to_wait())
        run.collect()
