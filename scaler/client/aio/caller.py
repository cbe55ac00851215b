"""AsyncCaller: the calls of an asyncio client, with some options; AsyncClientWithOptions: a client with its own.

Called in the thread of the client's event loop. Must never: hold up the loop for many items at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Literal, ParamSpec, TypeVar, overload

from scaler.client.aio import everywhere, presence
from scaler.client.aio.calls import Calls
from scaler.client.aio.future import AsyncFuture
from scaler.client.aio.stream import Items, TaskStream
from scaler.client.calls.functions import Terms
from scaler.client.calls.items import several_iterables
from scaler.client.calls.options import TaskOptions, checked
from scaler.client.calls.public_names import named_as
from scaler.client.insight.presence import SchedulerInfo, WorkerInfo
from scaler.config import check_number
from scaler.pickling.shipped import Module

P = ParamSpec("P")
T = TypeVar("T")

WINDOW = 1024
"""How many tasks of a map are open at once, unless the user says otherwise."""


@named_as("AsyncClient")
class AsyncCaller(ABC):
    """The calls of an asyncio client, with some options."""

    __slots__ = ()

    @property
    @abstractmethod
    def _caller(self) -> tuple[Calls, TaskOptions | None]:
        """Return the client, and the options of the tasks; None: those of the client."""

    def options(
        self,
        options: TaskOptions | None = None,
        /,
        *,
        name: str | None = None,
        priority: int | None = None,
        profiling: bool | None = None,
        retries: int | None = None,
        retry_on: type[BaseException] | tuple[type[BaseException], ...] | None = None,
        retry_delay: float | None = None,
        timeout: float | None = None,
        at_most_once: bool | None = None,
        capabilities: Mapping[str, int | str] | None = None,
        memory: int | str | None = None,
        no_worker_timeout: float | None = None,
    ) -> AsyncClientWithOptions:
        """Return this client with options for tasks, as `Client.options` does:
        `await client.options(priority=5).submit(fn, 1)`.

        Raises:
            TypeError: if there is no such option, or it is of the wrong type.
            ConfigError: if a value cannot work; it is a `ValueError`.
        """
        client, known = self._caller
        said = TaskOptions(
            name=name,
            priority=priority,
            profiling=profiling,
            retries=retries,
            retry_on=retry_on,
            retry_delay=retry_delay,
            timeout=timeout,
            at_most_once=at_most_once,
            capabilities=capabilities,
            memory=memory,
            no_worker_timeout=no_worker_timeout,
        )
        if options is not None:
            said = said.over(checked(options))
        return AsyncClientWithOptions(client, said.over(known or client.maker().options))

    async def info(self) -> SchedulerInfo:
        """Return how many workers, clusters and clients are connected to the scheduler, and how many tasks wait.

        Raises:
            TimeoutError: if no scheduler answered for `timeout_seconds`.
            DisconnectedError: if the client is disconnected.
        """
        return await presence.info(self._caller[0].connected())

    async def workers(self) -> list[WorkerInfo]:
        """Return the connected workers: name, cluster, tasks, versions, capabilities. Errors are those of `info`."""
        return await presence.workers(self._caller[0].connected())

    async def wait_for_workers(self, n_workers: int = 1, timeout: float | None = None) -> SchedulerInfo:
        """Wait until at least `n_workers` workers are connected, and return what `info` does.

        Raises:
            TimeoutError: if it took longer than `timeout` seconds, or no scheduler answered for `timeout_seconds`.
            ConfigError: if an argument is no such number; it is a `ValueError`.
            DisconnectedError: if the client is disconnected.
        """
        return await presence.wait_for_workers(self._caller[0].connected(), n_workers, timeout)

    async def run_on_all(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> dict[str, T]:
        """Run `fn(*args, **kwargs)` once on each connected worker, and return what it returned, by the worker's name.

        All that `Client.run_on_all` says is true here. If this is cancelled, so are its tasks.
        """
        client, options = self._caller
        return await everywhere.run_on_all(client, options, fn, args, kwargs)

    async def restart_workers(self) -> None:
        """Have all workers go on with fresh processes, as `Client.restart_workers` does. Errors are those of `info`."""
        client = self._caller[0]
        await presence.restart_workers(client.connected())
        client.maker().functions.workers_are_new()

    async def upload(self, *modules: Module) -> None:
        """Have modules of your own travel with all functions that are submitted from now on, as `Client.upload` does.

        Raises:
            ConfigError: if one has no source, has compiled parts, or all together are too large; it is a `ValueError`.
        """
        client = self._caller[0]
        ship = client.maker().functions.ship
        await client.connected().loop.run_in_executor(None, ship, modules)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncFuture[T]:
        """Run `fn(*args, **kwargs)` on a worker: `await client.submit(fn, 1)`.

        The task is submitted at once; awaiting it may come later. Small arguments are serialised before this returns.
        Values of 1 MiB and more are serialised in a thread of the loop's executor: do not change them meanwhile.

        Raises:
            TypeError: if `fn` is not callable or does not take these arguments.
            SerializeObjectError: if the function or an argument cannot be serialised; if an argument is large, awaiting
                raises it.
            MissingObjects: if this client has forgotten the object of an `ObjectReference`.
            DisconnectedError: if the client is disconnected.
        """
        client, terms = self._now()
        return client.submit_call(fn, args, kwargs, terms)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> AsyncFuture[Any]:
        """Call a function by the name under which workers serve it: `await client.call("area", 2, 3)`.

        Arguments, result and errors are those of `Client.call`.
        """
        client, options = self._caller
        return client.call_by_name(name, args, kwargs, options or client.maker().options)

    @overload
    async def map(
        self, fn: Callable[..., T], items: Items, *, return_exceptions: Literal[False] = ..., window: int = ...
    ) -> list[T]: ...

    @overload
    async def map(
        self, fn: Callable[..., T], items: Items, *, return_exceptions: bool, window: int = ...
    ) -> list[T | BaseException]: ...

    async def map(
        self, fn: Callable[..., Any], items: Items, *others: Any, return_exceptions: bool = False, window: int = WINDOW
    ) -> list[Any]:
        """Run `fn(*item)` for each item and return the results in the order of the items.

        If a task fails, or this is cancelled, the open tasks are cancelled.

        Args:
            fn: the function.
            items: the arguments of each task, tuples or lists; an ordinary or an asynchronous iterable.
            return_exceptions: whether the exception of a task that fails is its result, and the others go on.
            window: the most tasks that are open or were not read; 16,384 at most.

        Raises:
            TypeError: if `fn` is not callable, or an item is neither a tuple nor a list, or `fn` does not take it.
            ConfigError: if `window` is no such number; it is a `ValueError`.
            BaseException: the exception of the first task that failed, unless `return_exceptions`.
        """
        if others:
            raise several_iterables()
        results: dict[int, Any] = {}
        async with aclosing(self._stream(fn, items, window).run()) as ended:
            async for index, future in ended:
                results[index] = _outcome(future, return_exceptions)
        return [results[index] for index in range(len(results))]

    starmap = map  # noqa: A003 - the name is that of the other client

    @overload
    def map_unordered(
        self, fn: Callable[..., T], items: Items, *, return_exceptions: Literal[False] = ..., window: int = ...
    ) -> AsyncIterator[T]: ...

    @overload
    def map_unordered(
        self, fn: Callable[..., T], items: Items, *, return_exceptions: bool, window: int = ...
    ) -> AsyncIterator[T | BaseException]: ...

    async def map_unordered(
        self, fn: Callable[..., Any], items: Items, *, return_exceptions: bool = False, window: int = WINDOW
    ) -> AsyncIterator[Any]:
        """Run `fn(*item)` for each item and yield the results in the order in which they come: `async for`.

        Items are read while results are, so there may be any number. While 256 MiB of large results were not read,
        others wait at the scheduler. Whoever stops reading cancels what is open.
        Arguments and errors are those of `map`.
        """
        async with aclosing(self._stream(fn, items, window).run()) as ended:
            async for _, future in ended:
                yield _outcome(future, return_exceptions)

    def _stream(self, fn: Callable[..., Any], items: Items, window: int) -> TaskStream:
        check_number("window", window, 1)
        client, terms = self._now()
        client.maker().functions.look()
        return TaskStream(lambda item: client.submit_call(fn, item, {}, terms), items, window)

    async def get(self, graph: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
        """Run the part of a graph that `keys` need, and return key -> value in the order of `keys`.

        Graphs and errors are those of `Client.get`. If this is cancelled, so is the graph.
        """
        client, terms = self._now()
        return await client.get_values(graph, list(keys), terms)

    def _now(self) -> tuple[Calls, Terms]:
        client, options = self._caller
        maker = client.maker()
        return client, maker.terms(options or maker.options)


class AsyncClientWithOptions(AsyncCaller):
    """Like its client, with options: `AsyncClient.options` returns it.

    Attributes:
        task_options: the options.
    """

    __slots__ = ("_calls", "task_options")

    def __init__(self, client: Calls, task_options: TaskOptions) -> None:
        self._calls = client
        self.task_options = task_options

    def __repr__(self) -> str:
        return f"{self._calls!r} with {self.task_options!r}"

    @property
    def _caller(self) -> tuple[Calls, TaskOptions | None]:
        return self._calls, self.task_options


def _outcome(future: AsyncFuture[Any], return_exceptions: bool) -> Any:
    error = future.exception() if return_exceptions else None
    return future.result() if error is None else error
