"""AsyncCaller: the calls that an asyncio client and an asyncio client with options have in common.

`AsyncClient.options` returns an `AsyncClientWithOptions`. Called in the thread of the client's event loop, which gets a
turn between the steps of a map.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Literal, ParamSpec, TypeVar, overload

from scaler.client.aio import maps, queries
from scaler.client.aio.future import AsyncFuture, EndedTasks
from scaler.client.aio.job import AsyncJob, values_of_map
from scaler.client.aio.maps import Items
from scaler.client.aio.queries import in_thread
from scaler.client.caller import ClientWithOptions
from scaler.client.calls.items import check_items, not_of_map
from scaler.client.calls.job_names import MAP_WINDOW, WINDOW, OnChange, job_of_map, job_of_start, window_of_map
from scaler.client.calls.options import TakesOptions, TaskOptions, effective, for_each_worker, for_one, named_as
from scaler.client.core import Core, results_of
from scaler.client.executor import ClientExecutor
from scaler.client.foreign_words import OF_ASYNC_CLIENTS, hints_at
from scaler.client.future import FetchedFuture
from scaler.client.insight import presence
from scaler.client.insight.presence import ObjectInfo, SchedulerInfo, WorkerInfo
from scaler.client.jobs import job_calls
from scaler.client.jobs.job import Job
from scaler.errors import is_error_of_task
from scaler.jobs.names import check_known_name
from scaler.pickling.shipped_modules import Module
from scaler.wire.messages.client import JobReadFlags

__tracebackhide__ = is_error_of_task

P = ParamSpec("P")
T = TypeVar("T")


@hints_at(OF_ASYNC_CLIENTS)
@named_as("AsyncClient")
class AsyncCaller(TakesOptions["AsyncClientWithOptions"]):
    """The calls of an asyncio client, with some options."""

    __slots__ = ()

    @property
    @abstractmethod
    def _caller(self) -> tuple[object, Core, TaskOptions]:
        """Connect if necessary. Return the client that futures keep alive, the client's core, and the task options."""

    @property
    @abstractmethod
    def _client(self) -> AsyncCaller:
        """The client without options."""

    @property
    def _tasks(self) -> EndedTasks:
        """The open futures of the client in its event loop. Only after `_caller`."""
        return self._client._tasks  # noqa: SLF001 - of the same class

    def _with_options(self, options: TaskOptions) -> AsyncClientWithOptions:
        return AsyncClientWithOptions(self._client, effective(options.over(self._caller[2])))

    async def info(self) -> SchedulerInfo:
        """Return how many workers, clusters and clients are connected to the scheduler, and how many tasks wait.

        Raises:
            TimeoutError: if no scheduler answered for `timeout_seconds`.
            DisconnectedError: if the client is disconnected.
        """
        link = self._caller[1].link
        return await queries.presence(link, presence.info(link.address))

    async def workers(self) -> list[WorkerInfo]:
        """Return the connected workers: name, cluster, tasks, versions, capabilities. Raises like `info`."""
        return await queries.presence(self._caller[1].link, presence.workers())

    async def objects(self) -> list[ObjectInfo]:
        """Return the objects that the scheduler stores for this client, like `Client.objects`. Raises like `info`."""
        return await queries.presence(self._caller[1].link, presence.objects())

    async def wait_for_workers(self, n_workers: int = 1, timeout: float | None = None) -> SchedulerInfo:
        """Wait until at least `n_workers` workers are connected, and return what `info` returns.

        Raises:
            TimeoutError: if it took longer than `timeout` seconds, or no scheduler answered for `timeout_seconds`.
            ConfigError: if an argument is not a number in range; it is a `ValueError`.
            DisconnectedError: if the client is disconnected.
        """
        return await queries.wait_for_workers(self._caller[1].link, n_workers, timeout)

    async def run_on_all(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> dict[str, T]:
        """Run `fn(*args, **kwargs)` once on each connected worker, and return the results by the names of the workers.

        It works as `Client.run_on_all` does. Cancelling it cancels its tasks.
        """
        owner, core, options = self._caller
        for_each_worker(options)
        function = core.functions.get(fn).instruction.name
        await queries.wait_for_workers(core.link, 1, None)
        names = presence.names_of(await queries.presence(core.link, presence.workers()))
        futures: dict[str, AsyncFuture[T]] = {}
        try:
            for worker in names:
                terms = core.pinned(options, function, worker)
                futures[worker] = self._tasks.future_of(core.submit(owner, fn, args, kwargs, terms, FetchedFuture))
            if futures:
                await asyncio.wait(futures.values())
            return results_of(futures)
        finally:
            for future in futures.values():
                future.cancel()

    async def restart_workers(self) -> None:
        """Replace the processes of all workers, as `Client.restart_workers` does. Raises like `info`."""
        _, core, _ = self._caller
        await queries.presence(core.link, presence.restart())
        core.functions.workers_are_new()

    async def upload(self, *modules: Module) -> None:
        """Send your own modules along with all functions that are submitted from now on, as `Client.upload` does.

        Raises:
            ConfigError: if a module has no source or has compiled parts, or all together are too large; it is a
                `ValueError`.
        """
        await in_thread(self._caller[1].functions.ship, modules)

    def as_executor(self, max_workers: int | None = None) -> ClientExecutor:
        """Return an executor of `concurrent.futures`, as `Client.as_executor` does, for code that blocks its thread."""
        return ClientWithOptions(*self._caller).as_executor(max_workers)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> AsyncFuture[Any]:
        """Call a function by the name under which workers serve it: `await client.call("area", 2, 3)`.

        Arguments, result and errors are those of `Client.call`.
        """
        owner, core, options = self._caller
        return self._tasks.future_of(core.call(owner, name, args, kwargs, options, FetchedFuture))

    @overload
    async def map(
        self,
        fn: Callable[..., T],
        items: Items,
        *,
        progress: bool = ...,
        timeout: float | None = ...,
        return_exceptions: Literal[False] = ...,
        window: int = ...,
        job: str | None = ...,
        on_change: OnChange | None = ...,
        keep_for: float | str | None = ...,
    ) -> list[T]: ...

    @overload
    async def map(
        self,
        fn: Callable[..., T],
        items: Items,
        *,
        progress: bool = ...,
        timeout: float | None = ...,
        return_exceptions: bool,
        window: int = ...,
        job: str | None = ...,
        on_change: OnChange | None = ...,
        keep_for: float | str | None = ...,
    ) -> list[T | BaseException]: ...

    async def map(
        self,
        fn: Callable[..., Any],
        items: Items,
        *extra: Any,
        progress: bool = False,
        timeout: float | None = None,
        return_exceptions: bool = False,
        window: int = MAP_WINDOW,
        job: str | None = None,
        on_change: OnChange | None = None,
        keep_for: float | str | None = None,
        **unknown: Any,
    ) -> list[Any]:
        """Run `fn(*item)` for each item and return the results in the order of the items.

        If a task fails, or this call is cancelled, the open tasks are cancelled. Arguments and errors are those of
        `Client.map`. `items` may also be an asynchronous iterable. Items are drawn in the thread of the event loop.
        """
        if extra or unknown:
            raise not_of_map(AsyncCaller.map, unknown)
        check_items("map", fn, items)
        window_of_map(job, window, MAP_WINDOW)
        on_change = job_of_map(job, on_change, keep_for)
        _, core, options = self._caller
        if job is not None:
            kept = await self._attend(fn, items, return_exceptions, timeout, job, on_change, keep_for)
            most = options.max_failures
            return [value async for value in values_of_map(kept, 0, most, return_exceptions, progress)]
        call = core.map_call(fn, items, options, timeout, return_exceptions, window)
        return await maps.results_of_map(call, items, progress=progress)

    starmap = map  # noqa: A003 - the name is that of the other client

    async def _attend(
        self, fn: Callable[..., Any], items: Items, tolerant: bool, timeout: float | None, *named: Any
    ) -> Job:
        """Open the job of a map. `named`: the last fields of `OpenJobCall`."""
        _, core, options = self._caller
        timeout = core.check_map(timeout)
        async with maps.drawn_in_loop(items, timeout) as drawn:
            request = job_calls.OpenJobCall(fn, drawn, options, *named)
            opening = asyncio.ensure_future(in_thread(job_calls.attend, core, request, tolerant, timeout))
            try:
                return await asyncio.shield(opening)
            except asyncio.CancelledError:
                opening.add_done_callback(_leave)
                raise

    async def start(
        self,
        fn: Callable[..., Any],
        items: Items,
        name: str | None = None,
        *,
        job: str | None = None,
        keep_for: float | str | None = None,
        on_change: OnChange = "raise",
        **unknown: Any,
    ) -> AsyncJob:
        """Run `fn(*item)` for each item as a detached job, as `Client.start` does. `items` may also be an asynchronous
        iterable.
        """
        if unknown:
            raise not_of_map(AsyncCaller.start, unknown)
        check_items("start", fn, items)
        found = job_of_start(job, name)
        _, core, options = self._caller
        async with maps.drawn_in_loop(items, None) as drawn:
            request = job_calls.OpenJobCall(fn, drawn, options, found, on_change, keep_for)
            return AsyncJob(await in_thread(job_calls.start, core, request))

    async def job(self, name: str) -> AsyncJob:
        """Return a handle of the job of this name, as `Client.job` does."""
        check_known_name(name)
        return AsyncJob(await in_thread(job_calls.find, self._caller[1], name))

    async def jobs(self) -> list[AsyncJob]:
        """Return a handle of each job of this owner, as `Client.jobs` does."""
        return [AsyncJob(each) for each in await in_thread(job_calls.find_all, self._caller[1])]

    @overload
    def map_unordered(
        self,
        fn: Callable[..., T],
        items: Items,
        *,
        timeout: float | None = ...,
        return_exceptions: Literal[False] = ...,
        window: int = ...,
        job: str | None = ...,
        on_change: OnChange | None = ...,
        keep_for: float | str | None = ...,
    ) -> AsyncIterator[T]: ...

    @overload
    def map_unordered(
        self,
        fn: Callable[..., T],
        items: Items,
        *,
        timeout: float | None = ...,
        return_exceptions: bool,
        window: int = ...,
        job: str | None = ...,
        on_change: OnChange | None = ...,
        keep_for: float | str | None = ...,
    ) -> AsyncIterator[T | BaseException]: ...

    def map_unordered(
        self,
        fn: Callable[..., Any],
        items: Items,
        *,
        timeout: float | None = None,
        return_exceptions: bool = False,
        window: int = WINDOW,
        job: str | None = None,
        on_change: OnChange | None = None,
        keep_for: float | str | None = None,
        **unknown: Any,
    ) -> AsyncIterator[Any]:
        """Run `fn(*item)` for each item and yield each result as soon as it arrives: `async for`.

        Items are drawn while results are read, so their number may be infinite. A result that has arrived is yielded
        before the next item is drawn, unless the items are a list, a tuple or an asynchronous iterable. While 256 MiB
        of large results are unread, further ones wait at the scheduler. When you stop reading, the open tasks are
        cancelled: after a `break` in one of the next turns of the loop, with `contextlib.aclosing` at once. Arguments
        and errors are those of `Client.map_unordered`.
        """
        if unknown:
            raise not_of_map(AsyncCaller.map_unordered, unknown)
        check_items("map_unordered", fn, items)
        window_of_map(job, window, WINDOW)
        on_change = job_of_map(job, on_change, keep_for)
        _, core, options = self._caller
        if job is not None:
            return self._stream_of_job(fn, items, return_exceptions, timeout, job, on_change, keep_for)
        call = core.map_call(fn, items, options, timeout, return_exceptions, window)
        return maps.stream_of_map(call, items)

    async def _stream_of_job(
        self, fn: Callable[..., Any], items: Items, return_exceptions: bool, *named: Any
    ) -> AsyncIterator[Any]:
        most = self._caller[2].max_failures
        kept = await self._attend(fn, items, return_exceptions, *named)
        results = values_of_map(kept, JobReadFlags.BY_LOG, most, return_exceptions)
        async with aclosing(results) as arrived:  # type: ignore[type-var]
            async for result in arrived:
                yield result

    @overload
    async def get(
        self, graph: Mapping[str, Any], keys: Iterable[str], block: Literal[True] = ...
    ) -> dict[str, Any]: ...

    @overload
    async def get(
        self, graph: Mapping[str, Any], keys: Iterable[str], block: Literal[False]
    ) -> dict[str, AsyncFuture[Any]]: ...

    @overload
    async def get(self, graph: Mapping[str, Any], keys: Iterable[str], block: bool) -> dict[str, Any]: ...

    async def get(self, graph: Mapping[str, Any], keys: Iterable[str], block: bool = True) -> dict[str, Any]:
        """Run the part of a graph that `keys` need, and return key -> value in the order of `keys`.

        Graphs and errors are those of `Client.get`. Cancelling it cancels the graph. If `block` is False, the values of
        the dictionary are futures.
        """
        owner, core, options = self._caller
        terms = core.terms(for_one(options), spawns=True)
        calls, tasks = core.graph_calls(owner, graph, keys, terms, FetchedFuture)
        if calls.sinks:
            core.link.submit_graph(calls)
        futures = {key: self._tasks.future_of(task) for key, task in tasks.items()}
        if not block:
            return futures
        try:
            return {key: await future for key, future in futures.items()}
        finally:
            for future in futures.values():
                future.cancel()


class AsyncClientWithOptions(AsyncCaller):
    """A client with options, returned by `AsyncClient.options`.

    Attributes:
        task_options: the options.
    """

    __slots__ = ("_of", "task_options")

    def __init__(self, client: AsyncCaller, task_options: TaskOptions) -> None:
        self._of = client
        self.task_options = task_options

    def __repr__(self) -> str:
        return f"{self._of!r} with {self.task_options!r}"

    @property
    def _client(self) -> AsyncCaller:
        return self._of

    @property
    def _caller(self) -> tuple[object, Core, TaskOptions]:
        return (*self._of._caller[:2], self.task_options)  # noqa: SLF001 - of the same class

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncFuture[T]:
        """Like `AsyncClient.submit`, but all keyword arguments belong to `fn`."""
        owner, core, options = self._caller
        task = core.submit(owner, fn, args, kwargs, core.terms(for_one(options)), FetchedFuture)
        return self._tasks.future_of(task)


def _leave(opening: asyncio.Future[Job]) -> None:
    """Stop using a job that was opened after its map was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().leave()
