"""AsyncCore: the link, functions and stored objects of an asyncio client.

Called by the client, in the thread of its event loop; prepares calls and passes them to the link. Slow steps run in a
thread of the loop's executor. It holds no reference to a client, which could then not be collected.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from scaler.client.aio.future import LARGE_BYTES, AsyncFuture, ValueOnItsWayError
from scaler.client.aio.link import AsyncLink
from scaler.client.aio.rows import AsyncMapRows
from scaler.client.calls.entry import NAME, Entry, Terms
from scaler.client.calls.graph import pack_graph
from scaler.client.calls.inputs import ResultArgument
from scaler.client.maker import CallMaker
from scaler.client.object_reference import ObjectReference
from scaler.errors import is_error_of_task
from scaler.ids import TaskId

__tracebackhide__ = is_error_of_task

T = TypeVar("T")

MakeEntry: TypeAlias = Callable[[], Entry]
"""Serialises the arguments of a call. May raise `ValueOnItsWayError`, and all that `Function.entry` raises."""

Submit: TypeAlias = Callable[[Entry], None]

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
        submit = link.submit if row is None else row[0].submit
        values = (*args, *kwargs.values())
        make = partial(function.entry, task_id, future, args, kwargs, terms)
        if _are_large(values) and not any(isinstance(each, ResultArgument) for each in values):
            function.check(args, kwargs)
            packing = link.loop.run_in_executor(None, make)
            packing.add_done_callback(partial(self._submit_packed, future, make, submit))
        else:
            self._submit(future, make, submit)
        return future

    def _submit(self, future: AsyncFuture[Any], make: MakeEntry, submit: Submit) -> None:
        """Submit a task. If the value of a future among its arguments is on its way to this process, wait for it."""
        try:
            submit(make())
        except ValueOnItsWayError as error:
            error.future.add_done_callback(lambda _: self._submit_later(future, make, submit))

    def _submit_packed(
        self, future: AsyncFuture[Any], make: MakeEntry, submit: Submit, packing: asyncio.Future[Entry]
    ) -> None:
        """Submit a task whose arguments were serialised in another thread, where no futures can be serialised."""
        has_futures = isinstance(packing.exception(), ValueOnItsWayError)
        self._submit_later(future, make if has_futures else packing.result, submit)

    def _submit_later(self, future: AsyncFuture[Any], make: MakeEntry, submit: Submit) -> None:
        """Submit a task whose future the user has already, unless it is cancelled."""
        if future.done():
            return
        try:
            self._submit(future, make, submit)
        except Exception as error:  # noqa: BLE001 - whoever awaits the future gets it
            _fail(future, error)
            self.link.cancel(future.task_id)  # the scheduler may wait for its result

    async def get(self, owner: object, graph: Mapping[str, Any], keys: list[str], terms: Terms) -> dict[str, Any]:
        """Run the part of a graph that the keys need. Return their values."""
        link = self.link
        self.functions.look()
        pack = partial(pack_graph, graph, keys, self.functions, self.packer, terms)
        is_large = len(graph) >= LARGE_GRAPH or _are_large(graph.values())
        calls, tasks = await link.loop.run_in_executor(None, pack) if is_large else pack()
        futures = self.futures_of(owner, graph, calls, tasks)
        try:
            if calls.sinks:
                link.submit_graph(calls)
            return {key: await future for key, future in futures.items()}
        finally:
            for future in futures.values():
                future.cancel()

    async def send_object(self, obj: object, name: str | None) -> ObjectReference:
        """Send an object, which is stored until its reference is gone and no task uses it."""
        store = partial(self.store, obj, name)
        stored = await self.link.loop.run_in_executor(None, store) if _are_large((obj,)) else store()
        return self.store_object(*stored)


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
