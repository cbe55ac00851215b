"""AsyncClient: the client for asyncio that users hold.

Called in the thread of one event loop. Must never: block the loop, or start a thread for the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from scaler import starters, task_context
from scaler.client import lifetime, notebook_hint
from scaler.client.aio import asking
from scaler.client.aio.caller import AsyncCaller
from scaler.client.aio.calls import Calls
from scaler.client.aio.future import LARGE_BYTES, AsyncFuture
from scaler.client.aio.lifetime import started_cluster
from scaler.client.aio.link import AsyncLink
from scaler.client.calls.client_pickling import address_said_outside
from scaler.client.calls.entry import Entry, GraphEntry, MakeError
from scaler.client.calls.functions import Terms
from scaler.client.calls.graph import pack_graph
from scaler.client.calls.inputs import FutureArgumentError, Input, ResultArgument
from scaler.client.calls.maker import CallMaker
from scaler.client.calls.options import TaskOptions
from scaler.client.insight import dashboard as page
from scaler.client.insight.explanation import Story, checked_task_id
from scaler.client.insight.output_printer import print_output
from scaler.client.insight.task_log import LOG_SECONDS, TaskLog
from scaler.client.link.loose_ends import ends_by_exception
from scaler.client.object_reference import ObjectReference
from scaler.config import ConfigError, check_address
from scaler.errors import DisconnectedError
from scaler.graph.gathering import all_inside
from scaler.ids import ClientId, ObjectId, TaskId, random_id
from scaler.pickling.serialization import DEFAULT_SERIALIZER, JSON_SERIALIZER, Serializer
from scaler.pickling.shipped import Module, Shipped
from scaler.settings import ClientConfig
from scaler.settings.sources import completes_from_outside
from scaler.wire.codec.schemas import check_working_directory

if TYPE_CHECKING:
    from typing_extensions import Self

MakeCall: TypeAlias = Callable[[], tuple[GraphEntry, list[tuple[str, Input]]]]

_INTERNAL = frozenset({"call_by_name", "connected", "get_values", "maker", "submit_call"})

LARGE_GRAPH = 100
"""A graph of so many keys is made ready in a thread of the loop's executor."""


class AsyncClient(AsyncCaller):
    """Runs functions on the workers of a scheduler, from asyncio: `async with AsyncClient(address) as client`.

    It belongs to the event loop in which it is entered, or first used. Its connection needs no thread. Settings that
    are not given come from the environment or `scaler.toml`, as those of `Client`. It cannot be pickled: inside of a
    task, make a new one.

    Args:
        address: where the scheduler listens: tcp://host:port or ipc:///path. None is what it is for `Client`: the
            scheduler of this task, the address of the settings, or a local cluster that lives as long as the client.
        profiling: whether to measure time and memory of each task.
        timeout_seconds: how long open work waits for a missing scheduler before it fails with TimeoutError.
        heartbeat_interval_seconds: the time between two heartbeats.
        serializer: turns values into bytes; travels to the workers with each function.
        n_workers: of a local cluster, as for `Client`.
        modules: of your own that the workers do not have, as for `Client`.
        dashboard: whether to start the page in the browser that shows the scheduler, when it connects, until it
            disconnects, as for `Client`. `dashboard_url` has its address. Does nothing inside tasks.
        stream_output: whether to print here what its tasks write, each line with worker and task name.
            A thread does that.

    Raises:
        ConfigError: if an argument cannot work; it is a `ValueError`.
    """

    @completes_from_outside(ClientConfig)
    def __init__(
        self,
        address: str | None = None,
        profiling: bool = False,
        timeout_seconds: float = 60,
        heartbeat_interval_seconds: float = 2,
        serializer: Serializer = DEFAULT_SERIALIZER,
        *,
        n_workers: int | None = None,
        modules: Iterable[Module] = (),
        dashboard: bool = False,
        stream_output: bool = False,
    ) -> None:
        # It refuses bad values.
        ClientConfig(address, profiling, timeout_seconds, heartbeat_interval_seconds, stream_output)
        if not isinstance(serializer, Serializer):
            raise ConfigError(f"serializer must be an instance of scaler.Serializer, not {serializer!r}")
        lifetime.check_workers(n_workers, address)
        page.check(dashboard, True)
        self._has_dashboard = dashboard and task_context.current.address is None
        self._dashboard: page.Dashboard | None = None
        self._n_workers = n_workers
        self._shipped = Shipped(modules)
        self._address = address or task_context.current.address
        if self._address is None and n_workers is None:
            self._address = address_said_outside()
        self._profiling = profiling
        self._seconds = timeout_seconds, heartbeat_interval_seconds
        self._serializer = serializer
        self._stream_output = stream_output
        self._identity = ClientId(random_id())
        self._link: AsyncLink | None = None
        self._maker: CallMaker | None = None
        self._cluster: starters.LocalCluster | None = None
        self._starting = asyncio.Lock()
        self._finalizer: weakref.finalize[..., AsyncClient] | None = None

    def __reduce__(self) -> Any:
        raise TypeError("an AsyncClient belongs to its event loop and cannot be passed to a task: make a new one there")

    @property
    def identity(self) -> bytes:
        """The id of this client, 16 bytes."""
        return self._identity

    @property
    def dashboard_url(self) -> str | None:
        """Where the page is that `dashboard=True` has started, with the token that its first visit needs; else None."""
        return self._dashboard.url if self._dashboard else None

    def __dir__(self) -> list[str]:
        """Leave out what is for its calls."""
        return [name for name in super().__dir__() if name not in _INTERNAL]

    def __repr__(self) -> str:
        state = "" if self._link is None or not self._link.is_closed else ", disconnected"
        return f"<AsyncClient {self._identity.hex()[:8]} of {self._address or 'a local cluster'}{state}>"

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._link is not None:
            self._link.loose_ends.note_exit(error)
        await self.disconnect()

    async def connect(self) -> None:
        """Start the local cluster and the page, if there are to be any, and the connection. It does not wait for the
        scheduler.
        """
        async with self._starting:
            if self._address is None:
                self._cluster = await started_cluster(self._n_workers, not self._stream_output)
                self._address = self._cluster.get_address()
            self.connected()
            if self._has_dashboard and self._dashboard is None:
                loop = asyncio.get_running_loop()
                self._dashboard = await loop.run_in_executor(None, page.Dashboard, self, self._address)

    def connected(self) -> AsyncLink:
        """Return its link; connect, if it is not.

        Raises:
            DisconnectedError: if it is disconnected, or its local cluster was not started.
            FileNotFoundError: if the working directory was deleted.
        """
        link = self._link
        if link is None:
            if self._address is None:
                raise DisconnectedError("this client starts its local cluster when it connects: await client.connect()")
            address = check_address(self._address)
            check_working_directory()
            loop = asyncio.get_running_loop()
            link = self._link = AsyncLink(address, self._identity, *self._seconds, loop)
            if self._stream_output and not link.is_nested:
                print_output(link)
            self._maker = CallMaker(
                address, self._serializer, self._profiling, link.is_nested, self._shipped, link.limit
            )
            self._finalizer = weakref.finalize(self, _end, link, self._cluster, os.getpid())
            if self._cluster is not None:
                notebook_hint.note(self, self._finalizer)
        link.check_open()
        return link

    @property
    def _caller(self) -> tuple[Calls, TaskOptions | None]:
        return self, None

    def maker(self) -> CallMaker:
        """Return what makes its calls ready; connect, if it is not."""
        self.connected()
        assert self._maker is not None
        return self._maker

    def submit_call(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], terms: Terms
    ) -> AsyncFuture[Any]:
        """Submit a task."""
        maker, link = self.maker(), self.connected()
        function = maker.functions.get(fn)
        task_id = TaskId(maker.new_id())
        future: AsyncFuture[Any] = AsyncFuture(
            task_id, link, maker.serializer, self, terms[1] or function.instruction.name
        )
        values = (*args, *kwargs.values())
        is_large = _are_large(values)
        if not is_large:
            with contextlib.suppress(FutureArgumentError):
                link.submit(function.entry(task_id, future, args, kwargs, terms))
                return future
        call = partial(function.waiting_call, task_id, future, args, kwargs, terms, link, maker.functions.get)
        if not is_large or any(isinstance(each, ResultArgument) for each in values):
            _submit_waiting(link, future, call, all_inside(values, AsyncFuture))
            return future
        function.check(args, kwargs)
        packing = link.loop.run_in_executor(None, function.entry, task_id, future, args, kwargs, terms)
        packing.add_done_callback(partial(_packed, link, future, call, values))
        return future

    def call_by_name(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], options: TaskOptions
    ) -> AsyncFuture[Any]:
        """Call a function by its name."""
        maker, link = self.maker(), self.connected()
        function, terms = maker.functions.named(name), maker.terms_of_call(options, name)
        task_id = TaskId(maker.new_id())
        future: AsyncFuture[Any] = AsyncFuture(task_id, link, JSON_SERIALIZER, self, terms[1] or name)
        link.submit(function.entry(task_id, future, args, kwargs, terms))
        return future

    async def get_values(self, graph: Mapping[str, Any], keys: list[str], terms: Terms) -> dict[str, Any]:
        """Run a graph."""
        maker, link = self.maker(), self.connected()
        maker.functions.look()
        pack = partial(pack_graph, graph, keys, maker.functions, maker.packer, terms)
        is_large = len(graph) >= LARGE_GRAPH or _are_large(graph.values())
        entry, tasks = await link.loop.run_in_executor(None, pack) if is_large else pack()
        futures: dict[str, AsyncFuture[Any]] = {}
        for key, task_id in tasks.items():
            future = futures[key] = AsyncFuture(task_id or TaskId(maker.new_id()), link, maker.serializer, self, key)
            if task_id is None:
                future.settle(graph[key])
            else:
                entry.sinks[task_id], future.keys = future, entry.keys
        try:
            if entry.sinks:
                link.submit_graph(entry)
            return {key: await future for key, future in futures.items()}
        finally:
            for future in futures.values():
                future.cancel()

    async def send_object(self, obj: Any, name: str | None = None) -> ObjectReference:
        """Send `obj` to the scheduler once, for any number of tasks, as `Client.send_object` does.

        Raises:
            TypeError: if the name is not a `str`.
            SerializeObjectError: if it cannot be serialised.
            ObjectTooLargeError: if it is larger than the scheduler has room for.
            DisconnectedError: if the client is disconnected.
        """
        maker, link = self.maker(), self.connected()
        store = partial(maker.store, obj, name)
        stored = await link.loop.run_in_executor(None, store) if _are_large((obj,)) else store()
        reference, instruction = stored
        weakref.finalize(reference, _release, maker.stored_ids, link, instruction.object_id).atexit = False
        link.hold(instruction)
        return reference

    async def story(self, task: AsyncFuture[Any] | bytes) -> Story:
        """Return what is known of a task of this client, by its future or its id, as `Client.story` does."""
        if isinstance(task, AsyncFuture):
            return await task.story()
        return await asking.story(self.connected(), checked_task_id(task), "", None)

    async def logs(self, task: AsyncFuture[Any] | bytes, timeout: float | None = LOG_SECONDS) -> TaskLog:
        """Return what a task of this client has written, by its future or its id, as `Client.logs` does."""
        task_id = task.task_id if isinstance(task, AsyncFuture) else checked_task_id(task)
        return await asking.logs(self.connected(), task_id, timeout)

    def trace(self, path: str | os.PathLike[str]) -> AbstractAsyncContextManager[None]:
        """Record the tasks of all clients of the scheduler while the block runs: `async with client.trace("run.json")`.

        All that `Client.trace` says is true here.
        """
        return asking.traced(self.connected(), path)

    async def clear(self) -> None:
        """Cancel all futures of this client and forget its objects, as `Client.clear` does."""
        maker = self.maker()
        maker.stored_ids.clear()
        self.connected().clear()

    async def disconnect(self) -> None:
        """Cancel all open futures and leave. The scheduler continues. May be called any number of times."""
        link, finalizer = self._link, self._finalizer
        if link is None or finalizer is None or finalizer.detach() is None:
            return
        link.leave()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, link.close)
        if self._dashboard is not None:
            await loop.run_in_executor(None, self._dashboard.close)
        if self._cluster is not None:
            await loop.run_in_executor(None, self._cluster.shutdown)

    async def shutdown(self) -> None:
        """Ask the scheduler and all workers to end, then disconnect.

        Raises:
            ClientShutdownException: if the scheduler refuses, as it does in protected mode; the client stays usable.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if no scheduler answered for `timeout_seconds`.
        """
        link = self.connected()
        reply = _Reply(loop=link.loop)
        link.shut_down(reply)
        await reply
        await self.disconnect()


class _Reply(asyncio.Future[None]):
    """The reply to a shutdown."""

    def fail(self, make_error: MakeError) -> None:
        self.set_exception(make_error())


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
    arriving = next((each for each in needed if each.is_arriving), None)
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


def _release(stored_ids: set[ObjectId], link: AsyncLink, object_id: ObjectId) -> None:
    stored_ids.discard(object_id)
    link.release(object_id)


def _end(link: AsyncLink, cluster: starters.LocalCluster | None, owner_pid: int) -> None:
    """End a client that was not disconnected."""
    if os.getpid() == owner_pid:  # else: a fork
        if ends_by_exception():
            link.loose_ends.say_nothing()
        link.abandon()
        if cluster is not None:
            cluster.shutdown()
