"""AsyncCore: the link, functions and stored objects of an asyncio client.

Called by the client, in the thread of its event loop; prepares calls and passes them to the link. Slow steps run in a
thread of the loop's executor. It holds no reference to a client, which could then not be collected.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from scaler.client.aio.future import LARGE_BYTES, AsyncFuture
from scaler.client.aio.link import AsyncLink
from scaler.client.aio.rows import AsyncMapRows
from scaler.client.calls.entry import Entry, GraphEntry
from scaler.client.calls.functions import NAME, Terms
from scaler.client.calls.graph import pack_graph
from scaler.client.calls.inputs import FutureArgumentError, Input, ResultArgument
from scaler.client.maker import CallMaker
from scaler.client.object_reference import ObjectReference
from scaler.errors import is_error_of_task
from scaler.graph.gathering import all_inside
from scaler.ids import TaskId

__tracebackhide__ = is_error_of_task

T = TypeVar("T")

MakeCall: TypeAlias = Callable[[], tuple[GraphEntry, list[tuple[str, Input]]]]

LARGE_GRAPH = 100
"""A graph of so many keys is made ready in a thread of the loop's executor."""


class AsyncCore(CallMaker[AsyncLink, AsyncFuture[Any]]):
    """One connection with one serializer, in one event loop."""

    new_future = AsyncFuture

    def submit(
        self,
        owner: object,
        fn: Callable[..., T],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        terms: Terms,
        row: tuple[AsyncMapRows, int] | None = None,
    ) -> AsyncFuture[T]:
        """Submit one task, or a row of a map. Its future keeps `owner` alive."""
        link = self.link
        function = self.function_of(fn, terms) if row is None else self.functions.get(fn)
        task_id = TaskId(self.new_id()) if row is None else row[0].new_id(row[1])
        future: AsyncFuture[T] = AsyncFuture(
            task_id, link, self.serializer, owner, terms[NAME] or function.instruction.name
        )
        values = (*args, *kwargs.values())
        is_large = _are_large(values)
        if not is_large:
            with contextlib.suppress(FutureArgumentError):
                entry = function.entry(task_id, future, args, kwargs, terms)
                link.submit(entry) if row is None else row[0].submit(entry)
                return future
        call = partial(function.waiting_call, task_id, future, args, kwargs, terms, link)
        if not is_large or any(isinstance(each, ResultArgument) for each in values):
            _submit_waiting(link, future, call, all_inside(values, AsyncFuture))
            return future
        function.check(args, kwargs)
        packing = link.loop.run_in_executor(None, function.entry, task_id, future, args, kwargs, terms)
        packing.add_done_callback(partial(_packed, link, future, call, values))
        return future

    async def get(self, owner: object, graph: Mapping[str, Any], keys: list[str], terms: Terms) -> dict[str, Any]:
        """Run the part of a graph that the keys need. Return their values."""
        link = self.link
        self.functions.look()
        pack = partial(pack_graph, graph, keys, self.functions, self.packer, terms)
        is_large = len(graph) >= LARGE_GRAPH or _are_large(graph.values())
        entry, tasks = await link.loop.run_in_executor(None, pack) if is_large else pack()
        futures = self.futures_of(owner, graph, entry, tasks)
        try:
            if entry.sinks:
                link.submit_graph(entry)
            return {key: await future for key, future in futures.items()}
        finally:
            for future in futures.values():
                future.cancel()

    async def send_object(self, obj: object, name: str | None) -> ObjectReference:
        """Send an object, which is stored until its reference is gone and no task uses it."""
        store = partial(self.store, obj, name)
        stored = await self.link.loop.run_in_executor(None, store) if _are_large((obj,)) else store()
        return self.store_object(*stored)


def _packed(
    link: AsyncLink, future: AsyncFuture[Any], call: MakeCall, values: Sequence[Any], packing: asyncio.Future[Entry]
) -> None:
    """Submit a task whose arguments were serialised in another thread, if it is still wanted."""
    error = packing.exception()
    if isinstance(error, FutureArgumentError):  # a large list with futures
        _submit_arrived(link, future, call, all_inside(values, AsyncFuture))
    elif error is not None:
        future.fail(lambda: error)
    elif not future.done():
        link.submit(packing.result())


def _submit_waiting(link: AsyncLink, future: AsyncFuture[Any], make: MakeCall, needed: list[AsyncFuture[Any]]) -> None:
    """Submit a task some arguments of which are futures. A large value that is on its way here is waited for."""
    arriving = next((each for each in needed if each.is_being_fetched), None)
    if arriving is not None:
        arriving.add_done_callback(lambda _: _submit_arrived(link, future, make, needed))
        return
    graph, future.needs = make()
    link.submit_graph(graph)


def _submit_arrived(link: AsyncLink, future: AsyncFuture[Any], make: MakeCall, needed: list[AsyncFuture[Any]]) -> None:
    if not future.done():
        try:
            _submit_waiting(link, future, make, needed)
        except Exception as error:  # noqa: BLE001 - whoever awaits the future gets it
            _fail(future, error)


def _fail(future: AsyncFuture[Any], error: Exception) -> None:
    future.fail(lambda: error)


def _are_large(values: Iterable[Any]) -> bool:
    """Return whether values may take `LARGE_BYTES` or more; those inside of others are not looked at."""
    size = 0
    for value in values:
        n_bytes = getattr(value, "nbytes", None)
        size += n_bytes if type(n_bytes) is int else sys.getsizeof(value, 0) if type(value) in _KNOWN_SIZES else 0
    return size >= LARGE_BYTES


_KNOWN_SIZES = {bytes, bytearray, str, list, tuple, dict, set, frozenset}
