"""AsyncClient: the client for asyncio that users hold.

Called in the thread of one event loop, which it never blocks. The connection has no thread.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from scaler import starters, task_context
from scaler.client import lifetime, notebook_hint
from scaler.client.aio import queries
from scaler.client.aio.caller import AsyncCaller
from scaler.client.aio.core import AsyncCore
from scaler.client.aio.future import AsyncFuture
from scaler.client.aio.link import AsyncLink
from scaler.client.calls.options import TaskOptions
from scaler.client.insight import dashboard as page
from scaler.client.insight import presence
from scaler.client.insight.explanation import Story, checked_task_id
from scaler.client.insight.output_printer import OutputPrinter
from scaler.client.insight.task_log import LOG_SECONDS, TaskLog, ask_log
from scaler.client.link.end_warnings import ends_by_exception
from scaler.client.object_reference import ObjectReference
from scaler.config import check_address
from scaler.errors import DisconnectedError
from scaler.ids import ClientId, random_id
from scaler.pickling.serialization import DEFAULT_SERIALIZER, Serializer
from scaler.pickling.shipped_modules import Module, Shipped
from scaler.settings import ClientConfig
from scaler.settings.client import LOCAL_CLUSTER
from scaler.settings.sources import completes_from_outside
from scaler.wire.codec.schemas import check_working_directory

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from scaler.settings.cluster import LocalClusterOptions


class AsyncClient(AsyncCaller):
    """Runs functions on the workers of a scheduler, from asyncio: `async with AsyncClient(address) as client`.

    It belongs to the event loop in which it is entered, or first used. Its connection needs no thread. Omitted
    arguments take their values from the environment or `scaler.toml`, as for `Client`. It cannot be pickled: inside a
    task, create a new one.

    Args:
        address: where the scheduler listens: tcp://host:port or ipc:///path. None means the same as for `Client`: the
            scheduler of this task, the address in the settings, the one in the file of `key_file`, or a local cluster
            that lives as long as the client.
        profiling: whether to measure time and memory of each task.
        timeout_seconds: how long open work waits for a missing scheduler before it fails with TimeoutError.
        heartbeat_interval_seconds: the time between two heartbeats.
        serializer: turns values into bytes; it travels to the workers with each function.
        n_workers: the number of workers of a local cluster, as for `Client`.
        modules: your own modules that the workers do not have, as for `Client`.
        dashboard: whether to start a web page that shows the scheduler while this client is connected, as for `Client`.
            `dashboard_url` has its address. Ignored inside tasks.
        stream_output: whether the client prints what its tasks write, each line with worker and task name. A thread
            prints the lines.
        key_file: the file with the key that a scheduler on TCP requires, as for `Client`.
        trust_users: the users who may run the scheduler at an ipc:// address, as for `Client`.
        name: the name of this program, as for `Client`.
        keep: the folder in which a local cluster keeps jobs, as for `Client`.

    The other arguments are settings of a local cluster, as for `Client`.

    Raises:
        ConfigError: if an argument is invalid; it is a `ValueError`.
    """

    @completes_from_outside(ClientConfig, LOCAL_CLUSTER)
    def __init__(
        self,
        address: str | os.PathLike[str] | None = None,
        profiling: bool = False,
        timeout_seconds: float = 60,
        heartbeat_interval_seconds: float = 2,
        serializer: Serializer = DEFAULT_SERIALIZER,
        *,
        n_workers: int | None = None,
        modules: Iterable[Module] = (),
        dashboard: bool = False,
        stream_output: bool = False,
        key_file: str | os.PathLike[str] | None = None,
        trust_users: Sequence[str | int] = (),
        name: str | None = None,
        keep: str | os.PathLike[str] | None = None,
        **local: Unpack[LocalClusterOptions],
    ) -> None:
        place, file = lifetime.place_of(address, key_file)
        self._local = lifetime.check_client(place, serializer, n_workers, lifetime.with_keep(local, keep), dashboard)
        numbers = timeout_seconds, heartbeat_interval_seconds
        config = ClientConfig(place, profiling, *numbers, stream_output, file, trust_users)  # type: ignore[arg-type]
        self._trust_users = config.trust_users
        self._has_dashboard = dashboard and task_context.current.address is None
        self._dashboard: page.Dashboard | None = None
        self._shipped = Shipped(modules)
        self._address = place or task_context.current.address
        self._key_file, self._name = file, lifetime.check_name(name)
        if self._address is None:
            self._address = lifetime.configured_address(file, self._local)
        self._profiling = profiling
        self._seconds = config.timeout_seconds, config.heartbeat_interval_seconds
        self._serializer = serializer
        self._stream_output = stream_output
        self._identity = ClientId(random_id())
        self._core: AsyncCore | None = None
        self._cluster: starters.LocalCluster | None = None
        self._starting = asyncio.Lock()
        self._finalizer: weakref.finalize[..., AsyncClient] | None = None

    def __reduce__(self) -> Any:
        raise TypeError(
            "an AsyncClient belongs to its event loop and cannot be passed to a task: create one in the task"
        )

    @property
    def identity(self) -> bytes:
        """The id of this client, 16 bytes."""
        return self._identity

    @property
    def dashboard_url(self) -> str | None:
        """The address of the page that `dashboard=True` has started, with its first-visit token; None: no page."""
        return self._dashboard.url if self._dashboard else None

    def __repr__(self) -> str:
        state = "" if self._core is None or not self._core.link.closed_because else ", disconnected"
        return f"<AsyncClient {self._identity.hex()[:8]} of {self._address or 'a local cluster'}{state}>"

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._core is not None:
            self._core.link.end_warnings.note_exit(error)
        await self.disconnect()

    async def connect(self) -> None:
        """Start the local cluster and the page, if there are any, and the connection. Do not wait for the scheduler."""
        async with self._starting:
            if self._address is None:
                self._cluster = await _started_cluster(self._local, not self._stream_output)
                self._address = self._cluster.get_address()
            core = self._connected()
            if self._has_dashboard and self._dashboard is None:
                loop = asyncio.get_running_loop()
                self._dashboard = await loop.run_in_executor(None, page.Dashboard, self, core.link.endpoint)

    def _connected(self) -> AsyncCore:
        """Return the core of the client; connect first if necessary. Raises `DisconnectedError` if disconnected."""
        core = self._core
        if core is None:
            if self._address is None:
                raise DisconnectedError("this client has not started its local cluster: await client.connect() first")
            endpoint = check_address(self._address).with_key(self._key_file).trusting(self._trust_users)
            check_working_directory()
            loop = asyncio.get_running_loop()
            link = AsyncLink(endpoint, self._identity, *self._seconds, loop, self._name)
            if self._stream_output and not link.is_nested:
                OutputPrinter(link.follow_output)
            core = self._core = AsyncCore(link, self._serializer, self._profiling, self._shipped)
            self._finalizer = weakref.finalize(self, _end, link, self._cluster, os.getpid())
            if self._cluster is not None:
                notebook_hint.note(self, self._finalizer)
        core.link.check_open()
        return core

    @property
    def _caller(self) -> tuple[object, AsyncCore, TaskOptions]:
        core = self._connected()
        return self, core, core.options

    async def send_object(self, obj: Any, name: str | None = None) -> ObjectReference:
        """Send `obj` to the scheduler once, for any number of tasks, as `Client.send_object` does.

        Raises:
            TypeError: if the name is not a `str`.
            SerializeObjectError: if the object cannot be serialised.
            ObjectTooLargeError: if the object is larger than the scheduler accepts.
            DisconnectedError: if the client is disconnected.
        """
        return await self._connected().send_object(obj, name)

    async def story(self, task: AsyncFuture[Any] | bytes) -> Story:
        """Return what is known of a task of this client, given its future or its id, as `Client.story` does."""
        if isinstance(task, AsyncFuture):
            return await task.story()
        return await queries.story(self._connected().link, checked_task_id(task), "", None)

    async def cancel_tasks(self, *tasks: bytes | str) -> None:
        """Cancel tasks of any client, as an admin, as `Client.cancel_tasks` does."""
        await queries.presence(self._connected().link, presence.cancel(tasks))

    async def logs(self, task: AsyncFuture[Any] | bytes, timeout: float | None = LOG_SECONDS) -> TaskLog:
        """Return what a task of this client has written, given its future or its id, as `Client.logs` does."""
        task_id = task.task_id if isinstance(task, AsyncFuture) else checked_task_id(task)
        link = self._connected().link
        return await queries.told(link, ask_log(link, task_id), timeout)

    def trace(self, path: str | os.PathLike[str]) -> AbstractAsyncContextManager[None]:
        """Record the tasks of all clients of the scheduler while the block runs: `async with client.trace("run.json")`.

        It works as `Client.trace` does.
        """
        return queries.traced(self._connected().link, path)

    async def clear(self) -> None:
        """Cancel all futures of this client and delete its objects, as `Client.clear` does."""
        core = self._connected()
        core.stored.clear()
        core.link.clear()

    async def disconnect(self) -> None:
        """Cancel all open futures and leave. The scheduler continues. May be called any number of times."""
        core, finalizer = self._core, self._finalizer
        if core is None or finalizer is None or finalizer.detach() is None:
            return
        core.link.leave()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, core.link.close)
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
        link = self._connected().link
        await asyncio.wrap_future(link.shut_down(), loop=link.loop)
        await self.disconnect()


def _end(link: AsyncLink, cluster: starters.LocalCluster | None, owner_pid: int) -> None:
    if os.getpid() == owner_pid:  # else: a fork
        if ends_by_exception():
            link.end_warnings.silence()
        link.abandon()
        if cluster is not None:
            cluster.shutdown()


async def _started_cluster(local: starters.LocalSettings, logs_output: bool) -> starters.LocalCluster:
    """Return a local cluster. If this is cancelled, the cluster is ended first: its start cannot be stopped."""
    loop = asyncio.get_running_loop()
    starting = loop.run_in_executor(None, lifetime.start_cluster, True, local, logs_output)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if starting.exception() is None:
            await loop.run_in_executor(None, starting.result().shutdown)
        raise
