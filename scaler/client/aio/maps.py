"""Maps of the asyncio client: the steps of `MapRun` and `MapStream`, between which the loop gets its turns.

Items are drawn in the thread of the loop, from an ordinary or an asynchronous iterable. Small results are read there,
too; large ones in a thread of the loop's executor.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from math import inf
from typing import Any, TypeAlias

from scaler import task_context
from scaler.client.aio.queries import LoopWake, in_thread
from scaler.client.calls.items import close_items
from scaler.client.jobs.job_requests import seconds_left
from scaler.client.jobs.opening import ROWS_LATE
from scaler.client.maps.map_run import MapCall, MapRun
from scaler.client.maps.map_stream import MapStream
from scaler.client.maps.row_source import NOT_YET
from scaler.errors import is_error_of_task

__tracebackhide__ = is_error_of_task

Items: TypeAlias = Iterable[Sequence[Any]] | AsyncIterable[Sequence[Any]]

ROWS_A_TURN = 1024
"""The number of results from which on no further ones are read before the loop gets a turn."""

ITEMS_A_TURN = 32
"""The number of items of an asynchronous iterable that are drawn before a map takes them."""

TURN_SECONDS = 0.001
"""How long a map works before the loop gets a turn."""


class MapWake(LoopWake):
    """Wakes the coroutine that waits in a map, and says when the map must give the loop a turn."""

    _turn_at = 0.0

    @property
    def is_turn_due(self) -> bool:
        """Whether the loop has had no turn for some time."""
        return time.monotonic() >= self._turn_at

    async def give_turn(self) -> None:
        """Let the loop do what else is due."""
        await asyncio.sleep(0)
        self._turn_at = time.monotonic() + TURN_SECONDS


class AsyncItems:
    """Iterates over the items that an asynchronous iterable has yielded so far."""

    def __init__(self, items: AsyncIterable[Sequence[Any]], run: MapRun, wake: MapWake) -> None:
        self._items, self._run, self._wake = aiter(items), run, wake
        self._ready: deque[Sequence[Any]] = deque()
        self._has_room = asyncio.Event()
        self._error: BaseException | None = None
        self._is_exhausted = self._has_ended = False
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
        except asyncio.CancelledError as error:
            if self._has_ended:
                raise
            self._error = error  # the user's iterator has raised it
        self._wake.set()

    async def end(self) -> None:
        """Draw no further items, and close the user's iterator if it can be closed."""
        self._has_ended = True
        self._drawing.cancel()
        await asyncio.wait([self._drawing])
        if not self._is_exhausted:
            await _close(self._items)


async def results_of_map(call: MapCall, items: Items, *, progress: bool) -> list[Any]:
    """Run one task for each item and return the results in the order of the items, as `MapRun.run` does."""
    wake = MapWake()
    run = MapRun(call, wake, ROWS_A_TURN)
    async with _begun(run, items, wake, progress=progress):
        while not run.is_over():
            await _step(run, wake)
    return run.results


async def stream_of_map(call: MapCall, items: Items) -> AsyncIterator[Any]:
    """Run one task for each item and yield each result as it arrives, as `MapStream.stream` does."""
    wake = MapWake()
    run = MapStream(call, wake, ROWS_A_TURN)
    async with _begun(run, items, wake):
        while run.has_next or not run.is_over():
            if not run.has_next:
                await _step(run, wake)
                continue
            yield run.next()
            if wake.is_turn_due:
                await wake.give_turn()


@contextlib.asynccontextmanager
async def _begun(run: MapRun, items: Items, wake: MapWake, *, progress: bool = False) -> AsyncIterator[None]:
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
            await drawn.end()


@contextlib.asynccontextmanager
async def drawn_in_loop(items: Items, timeout: float | None) -> AsyncIterator[Iterable[Sequence[Any]]]:
    """Return an iterable for another thread, whose items are drawn in the thread of this loop, one at a time.

    A list or tuple is returned as it is. When the block ends, the user's iterator is closed if not all items were
    drawn, and the other thread gets a `CancelledError` in place of a further item.

    Args:
        timeout: the number of seconds after which drawing raises `TimeoutError`; None: no limit.
    """
    if isinstance(items, (list, tuple)):
        yield items
        return
    drawn = ItemsForThread(items, timeout)
    try:
        yield drawn
    finally:
        await drawn.end()


class ItemsForThread:
    """Iterates in another thread over items that are drawn in the thread of the loop."""

    def __init__(self, items: Items, timeout: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._rest: Any = aiter(items) if isinstance(items, AsyncIterable) else iter(items)
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._drawing: asyncio.Task[Any] | None = None
        self._has_ended = self._is_exhausted = False

    def __iter__(self) -> Iterator[Sequence[Any]]:
        return self

    def __next__(self) -> Any:
        item = asyncio.run_coroutine_threadsafe(self._drawn(), self._loop).result()
        if item is NOT_YET:
            raise StopIteration
        return item

    async def _drawn(self) -> Any:
        """Return the next item; `NOT_YET` at the end."""
        if self._has_ended:
            raise asyncio.CancelledError
        if not isinstance(self._rest, AsyncIterator):
            item = next(self._rest, NOT_YET)
        else:
            self._drawing = asyncio.ensure_future(anext(self._rest, NOT_YET))
            left = seconds_left(self._deadline)
            try:
                item = await asyncio.wait_for(self._drawing, None if left == inf else left)
            except asyncio.TimeoutError:
                raise TimeoutError(ROWS_LATE) from None
        self._is_exhausted = item is NOT_YET
        return item

    async def end(self) -> None:
        """Draw no further items, and close the user's iterator if it can be closed."""
        self._has_ended = True
        if self._drawing is not None and not self._drawing.done():
            self._drawing.cancel()
            await asyncio.wait([self._drawing])
        if not self._is_exhausted:
            await _close(self._rest)


async def _close(rest: Any) -> None:
    """Close the user's iterator of items, if it can be closed."""
    if not isinstance(rest, AsyncIterator):
        close_items(rest)
    elif hasattr(rest, "aclose"):
        await rest.aclose()


async def _step(run: MapRun, wake: MapWake) -> None:
    """Take one step of a map, or wait until there is something to do. The loop gets a turn."""
    if not run.has_large_values:
        if run.step():
            if wake.is_turn_due:
                await wake.give_turn()
            return
        if not run.begin_wait():
            return
        await wake.wait(run.seconds_to_wait())
    if run.has_large_values:
        await in_thread(run.collect)
    else:
        run.collect()
