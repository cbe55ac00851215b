"""AsyncCaller: the calls that an asyncio client and an asyncio client with options have in common.

`AsyncClient.options` returns an `AsyncClientWithOptions`. Called in the thread of the client's event loop. Long maps
yield to the loop between items.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, ParamSpec, TypeVar, overload

from scaler.client.aio import queries
from scaler.client.aio.core import AsyncCore
from scaler.client.aio.future import AsyncFuture
from scaler.client.aio.job import AsyncJob, in_thread, through
from scaler.client.aio.rows import AsyncMapRows
from scaler.client.aio.stream import Items, TaskStream
from scaler.client.calls.items import check_items, not_of_map
from scaler.client.calls.job_names import WINDOW, OnChange, job_of_map, job_of_start, window_of_map
from scaler.client.calls.options import TakesOptions, TaskOptions, effective, for_each_worker, for_one, named_as
from scaler.client.calls.tolerance import FailureTolerance
from scaler.client.foreign_words import OF_ASYNC_CLIENTS, hints_at
from scaler.client.insight import presence
from scaler.client.insight.presence import ObjectInfo, SchedulerInfo, WorkerInfo
from scaler.client.jobs import job_calls
from scaler.client.jobs.job import Job
from scaler.client.maker import results_of
from scaler.config import check_number
from scaler.errors import is_error_of_task
from scaler.jobs.names import check_known_name
from scaler.pickling.shipped_modules import Module

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
    def _caller(self) -> tuple[object, AsyncCore, TaskOptions]:
        """Connect if necessary. Return the client that futures keep alive, the client's core, and the task options."""

    def _with_options(self, options: TaskOptions) -> AsyncClientWithOptions:
        client, core, known = self._caller
        return AsyncClientWithOptions(client, core, effective(options.over(known)))

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
        client, core, options = self._caller
        for_each_worker(options)
        function = core.functions.get(fn).instruction.name
        await queries.wait_for_workers(core.link, 1, None)
        names = presence.names_of(await queries.presence(core.link, presence.workers()))
        futures: dict[str, AsyncFuture[T]] = {}
        try:
            for worker in names:
                futures[worker] = core.submit(client, fn, args, kwargs, core.pinned(options, function, worker))
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
        _, core, _ = self._caller
        await core.link.loop.run_in_executor(None, core.functions.ship, modules)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncFuture[T]:
        """Run `fn(*args, **kwargs)` on a worker: `await client.submit(fn, 1)`.

        The task is submitted at once; you may await it later. Small arguments are serialised before this returns.
        Values of 1 MiB and more are serialised in a thread of the loop's executor: do not change them meanwhile.

        Raises:
            TypeError: if `fn` is not callable or does not take these arguments.
            SerializeObjectError: if the function or an argument cannot be serialised. For a large argument, awaiting
                the future raises it.
            MissingObjects: if this client has cleared the object of an `ObjectReference`.
            DisconnectedError: if the client is disconnected.
        """
        client, core, options = self._caller
        return core.submit(client, fn, args, kwargs, core.terms(for_one(options)))

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> AsyncFuture[Any]:
        """Call a function by the name under which workers serve it: `await client.call("area", 2, 3)`.

        Arguments, result and errors are those of `Client.call`.
        """
        client, core, options = self._caller
        return core.call(client, name, args, kwargs, options)

    @overload
    async def map(
        self,
        fn: Callable[..., T],
        items: Items,
        *,
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
        return_exceptions: bool = False,
        window: int = WINDOW,
        job: str | None = None,
        on_change: OnChange | None = None,
        keep_for: float | str | None = None,
        **unknown: Any,
    ) -> list[Any]:
        """Run `fn(*item)` for each item and return the results in the order of the items.

        If a task fails, or this call is cancelled, the open tasks are cancelled.

        Args:
            fn: the function.
            items: the arguments of each task, tuples or lists; an ordinary or an asynchronous iterable.
            return_exceptions: whether to return the exception of a failed task as its result and run the other tasks.
            window: the most tasks that are open or have unread results; 16,384 at most.
            job: the name of a job, as for `Client.map`: the same call in another program resumes the map. `items` must
                be an ordinary iterable, and `window` is refused.
            on_change: as for `Client.map`.
            keep_for: as for `Client.map`.

        Raises:
            TypeError: if `fn` is not callable, or an item is neither a tuple nor a list, or `fn` does not take it.
            ConfigError: if `window` is not a number in range; it is a `ValueError`.
            BaseException: the exception of the first task that failed, unless `return_exceptions`.
        """
        if extra or unknown:
            raise not_of_map(AsyncCaller.map, unknown)
        check_items("map", fn, items)
        window_of_map(job, window)
        on_change = job_of_map(job, on_change, keep_for)
        if job is not None:
            kept = await self._attend(fn, items, return_exceptions, job, on_change, keep_for)
            return await in_thread(job_calls.results, kept, self._caller[2].max_failures, return_exceptions)
        results: dict[int, Any] = {}
        tolerance = self._tolerance(fn, return_exceptions)
        async with aclosing(self._stream(fn, items, window).run()) as ended:
            async for index, future in ended:
                results[index] = _outcome(future, tolerance, len(results) + 1, index)
        tolerance.judge(len(results), is_end=True)
        return [results[index] for index in range(len(results))]

    starmap = map  # noqa: A003 - the name is that of the other client

    async def _attend(self, fn: Callable[..., Any], items: Items, tolerant: bool, *named: Any) -> Job:
        """Open the job of a map. `named`: the last fields of `OpenJobCall`."""
        _, core, options = self._caller
        if not isinstance(items, Iterable):
            raise TypeError(
                "the rows of a job must be an iterable, not an async iterable: all rows are stored before the job runs"
            )
        return await in_thread(job_calls.attend, core, job_calls.OpenJobCall(fn, items, options, *named), tolerant)

    async def start(
        self,
        fn: Callable[..., Any],
        items: Iterable[Sequence[Any]],
        name: str | None = None,
        *,
        job: str | None = None,
        keep_for: float | str | None = None,
        on_change: OnChange = "raise",
        **unknown: Any,
    ) -> AsyncJob:
        """Run `fn(*item)` for each item as a detached job, as `Client.start` does."""
        if unknown:
            raise not_of_map(AsyncCaller.start, unknown)
        check_items("start", fn, items)
        found = job_of_start(job, name)
        _, core, options = self._caller
        request = job_calls.OpenJobCall(fn, items, options, found, on_change, keep_for)
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
        return_exceptions: bool,
        window: int = ...,
        job: str | None = ...,
        on_change: OnChange | None = ...,
        keep_for: float | str | None = ...,
    ) -> AsyncIterator[T | BaseException]: ...

    async def map_unordered(
        self,
        fn: Callable[..., Any],
        items: Items,
        *,
        return_exceptions: bool = False,
        window: int = WINDOW,
        job: str | None = None,
        on_change: OnChange | None = None,
        keep_for: float | str | None = None,
        **unknown: Any,
    ) -> AsyncIterator[Any]:
        """Run `fn(*item)` for each item and yield each result as soon as it arrives: `async for`.

        Items are read while results are read, so their number may be infinite. While 256 MiB of large results are
        unread, further ones wait at the scheduler. When you stop reading, the open tasks are cancelled. Arguments and
        errors are those of `map`.
        """
        if unknown:
            raise not_of_map(AsyncCaller.map_unordered, unknown)
        check_items("map_unordered", fn, items)
        window_of_map(job, window)
        on_change = job_of_map(job, on_change, keep_for)
        if job is not None:
            kept = await self._attend(fn, items, return_exceptions, job, on_change, keep_for)
            most = self._caller[2].max_failures
            async for result in through(job_calls.results_as_they_come(kept, most, return_exceptions)):
                yield result
            return
        n_ended, tolerance = 0, self._tolerance(fn, return_exceptions)
        async with aclosing(self._stream(fn, items, window).run()) as ended:
            async for index, future in ended:
                n_ended += 1
                yield _outcome(future, tolerance, n_ended, index)
        tolerance.judge(n_ended, is_end=True)

    def _tolerance(self, fn: Callable[..., Any], return_exceptions: bool) -> FailureTolerance:
        _, core, options = self._caller
        return FailureTolerance(return_exceptions, options.max_failures, core.functions.get(fn).instruction.name)

    def _stream(self, fn: Callable[..., Any], items: Items, window: int) -> TaskStream:
        most = check_number("window", window, 1)
        client, core, options = self._caller
        terms = core.terms(options, spawns=True)
        core.functions.look()
        rows = AsyncMapRows(core.link, core.function_of(fn, terms), terms)
        return TaskStream(lambda index, item: core.submit(client, fn, item, {}, terms, (rows, index)), items, most)

    async def get(self, graph: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
        """Run the part of a graph that `keys` need, and return key -> value in the order of `keys`.

        Graphs and errors are those of `Client.get`. Cancelling it cancels the graph.
        """
        client, core, options = self._caller
        return await core.get(client, graph, list(keys), core.terms(for_one(options), spawns=True))


class AsyncClientWithOptions(AsyncCaller):
    """A client with options, returned by `AsyncClient.options`.

    Attributes:
        task_options: the options.
    """

    __slots__ = ("_client", "_core", "task_options")

    def __init__(self, client: object, core: AsyncCore, task_options: TaskOptions) -> None:
        self._client = client
        self._core = core
        self.task_options = task_options

    def __repr__(self) -> str:
        return f"{self._client!r} with {self.task_options!r}"

    @property
    def _caller(self) -> tuple[object, AsyncCore, TaskOptions]:
        self._core.link.check_open()
        return self._client, self._core, self.task_options


def _outcome(future: AsyncFuture[Any], tolerance: FailureTolerance, n_ended: int, index: int) -> Any:
    error = future.exception()
    if error is None:
        tolerance.judge(n_ended)
        return future.result()
    tolerance.take(error, n_ended, index)
    return error
