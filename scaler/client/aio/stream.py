"""TaskStream: one task for each item, whose results are read as they arrive, while further items are submitted.

Used by `map` and `map_unordered` of the asyncio client. Items come from an ordinary or an asynchronous iterable. The
loop gets a turn after every `ITEMS_A_TURN` items.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from scaler.client.aio.future import AsyncFuture
from scaler.client.calls.items import UNFIT, check_item, of_item
from scaler.client.large_values import LargeValues
from scaler.client.map_run import WINDOW_TASKS
from scaler.errors import is_error_of_task

__tracebackhide__ = is_error_of_task

Items: TypeAlias = Iterable[Sequence[Any]] | AsyncIterable[Sequence[Any]]

ITEMS_A_TURN = 32
"""So many items are submitted, or read, between two turns of the loop."""


class TaskStream:
    """The tasks of one map.

    Args:
        submit: submits the row of this number, with these arguments.
        window: the most tasks that are open or have unread results; `WINDOW_TASKS` at most.
    """

    def __init__(self, submit: Callable[[int, Sequence[Any]], AsyncFuture[Any]], items: Items, window: float) -> None:
        self._submit = submit
        self._items = items if isinstance(items, AsyncIterable) else _in_turns(items)
        self._known = items if isinstance(items, Sequence) else None
        """the items, if they are there anyway"""
        self._window = int(min(window, WINDOW_TASKS))
        self._open: set[AsyncFuture[Any]] = set()
        self._ended: deque[tuple[int, AsyncFuture[Any]]] = deque()
        self._large: LargeValues[AsyncFuture[Any]] = LargeValues()
        self._submitted = 0
        self._is_exhausted = False
        self._changed = asyncio.Event()

    async def run(self) -> AsyncGenerator[tuple[int, AsyncFuture[Any]], None]:
        """Yield the number of each item and its future, which has ended. Open tasks are cancelled when this ends."""
        filling = asyncio.ensure_future(self._fill())
        read = 0
        try:
            while True:
                while self._ended:
                    yield self._next()
                    read += 1
                    self._changed.set()
                    if read % ITEMS_A_TURN == 0:
                        await asyncio.sleep(0)
                if self._is_exhausted and read == self._submitted:
                    return
                if filling.done():
                    filling.result()
                self._changed.clear()
                await self._changed.wait()
        finally:
            filling.cancel()
            for future in self._large.end():
                future.forget()
            for future in list(self._open):
                future.cancel()

    def _next(self) -> tuple[int, AsyncFuture[Any]]:
        ended = self._ended.popleft()
        if self._large.fetched:
            for future in self._large.read(ended[1]):
                future.fetch()
        return ended

    async def _fill(self) -> None:
        try:
            async for item in self._items:
                check_item(self._submitted, item)
                while len(self._open) + len(self._ended) >= self._window:
                    await self._changed.wait()
                    self._changed.clear()
                try:
                    future = self._submit(self._submitted, item)
                except UNFIT as error:
                    raise of_item(error, self._submitted) from error.__cause__
                future.item_of = self._submitted, self._known
                future.large = self._large
                self._open.add(future)
                future.add_done_callback(partial(self._end, self._submitted))
                self._submitted += 1
            self._is_exhausted = True
        finally:
            self._changed.set()

    def _end(self, index: int, future: AsyncFuture[Any]) -> None:
        self._open.discard(future)
        self._ended.append((index, future))
        self._changed.set()


async def _in_turns(items: Iterable[Sequence[Any]]) -> AsyncIterator[Sequence[Any]]:
    for index, item in enumerate(items):
        if index % ITEMS_A_TURN == ITEMS_A_TURN - 1:
            await asyncio.sleep(0)
        yield item
