"""AsyncClient: the client for asyncio that users hold.

Called in the thread of one event loop, which it never blocks. It has a `Client`, and awaits what that client's thread
completes.
"""

# ruff: noqa: SLF001 - both classes are faces of one client

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

from scaler.client.aio import queries
from scaler.client.aio.caller import AsyncCaller
from scaler.client.aio.future import AsyncFuture, EndedTasks
from scaler.client.aio.queries import in_thread
from scaler.client.caller import P, T
from scaler.client.calls.options import TaskOptions
from scaler.client.client import Client, ClientArguments
from scaler.client.core import Core
from scaler.client.future import FetchedFuture
from scaler.client.insight import presence
from scaler.client.insight.explanation import Story, checked_task_id
from scaler.client.insight.markup import escaped
from scaler.client.insight.task_log import LOG_SECONDS, TaskLog, ask_log
from scaler.client.object_reference import ObjectReference
from scaler.errors import DisconnectedError

if TYPE_CHECKING:
    from typing_extensions import Self


class AsyncClient(ClientArguments, AsyncCaller):
    """Runs functions on the workers of a scheduler, from asyncio: `async with AsyncClient(address) as client`.

    It belongs to the event loop in which it is entered, or first used. It never blocks the loop: a thread holds the
    connection, and wakes the loop once for all results that have arrived. It cannot be pickled: inside a task, create a
    new one, which shares the connection of the process.

    The arguments and the methods are those of `Client`, with the same parameters (docs/howto/asyncio.md).

    Raises:
        ConfigError: if an argument is invalid; it is a `ValueError`.
        RuntimeError: by methods, and by `await` of a future, if another event loop runs.
    """

    def _start(self) -> None:
        self._connection: Client | None = None
        self._futures: EndedTasks | None = None
        self._starting = asyncio.Lock()

    def __reduce__(self) -> Any:
        raise TypeError(
            "an AsyncClient belongs to its event loop and cannot be passed to a task: create one in the task"
        )

    @property
    def _client(self) -> AsyncCaller:
        return self

    @property
    def _tasks(self) -> EndedTasks:
        assert self._futures is not None, "not connected"
        return self._futures

    @property
    def identity(self) -> bytes:
        """The id of this client, 16 bytes."""
        if self._connection is None and not self._setup.is_in_task:
            return self._setup.client_id
        return (self._connection or Client._of(self._setup)).identity

    @property
    def dashboard_url(self) -> str | None:
        """The address of the page that `dashboard=True` has started, with its first-visit token; None: no page."""
        return None if self._connection is None else self._connection.dashboard_url

    def _repr_html_(self) -> str:
        return escaped(repr(self)) if self._connection is None else self._connection._repr_html_()

    def __repr__(self) -> str:
        if self._connection is not None:
            return f"<Async{repr(self._connection)[1:]}"
        return f"<AsyncClient {self.identity.hex()[:8]} of {self._setup.address or 'a local cluster'}>"

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection._link.end_warnings.note_exit(error)
        await self.disconnect()

    async def connect(self) -> None:
        """Start the local cluster and the page, if there are any, and the connection. Do not wait for the scheduler."""
        async with self._starting:
            if self._connection is None and self._setup.address is None:
                client = self._use(await _in_thread_to_its_end(Client._of, self._setup))
            else:
                client = self._connected()
            if self._setup.has_dashboard and client.dashboard_url is None:
                await in_thread(client._open_dashboard)

    def _use(self, client: Client) -> Client:
        self._connection, self._futures = client, EndedTasks(asyncio.get_running_loop())
        client._link.end_warnings.advice = "await or asyncio.wait(futures)"
        return client

    def _connected(self) -> Client:
        """Return the client of the connection; connect first if necessary.

        Raises:
            DisconnectedError: if the client is disconnected, or its local cluster has not started.
            RuntimeError: if another event loop runs than the loop of this client.
        """
        if self._connection is None:
            if self._setup.address is None:
                raise DisconnectedError("this client has not started its local cluster: await client.connect() first")
            return self._use(Client._of(self._setup))  # if it is refused already, the first call says so
        self._tasks.check_loop()
        self._connection._link.check_open()
        return self._connection

    @property
    def _caller(self) -> tuple[object, Core, TaskOptions]:
        return self._connected()._caller

    @overload
    def submit(self, fn: Callable[..., T], /, *args: Any, profiling: bool | None, **kwargs: Any) -> AsyncFuture[T]: ...

    @overload
    def submit(self, fn: Callable[..., T], /, *args: Any, name: str, **kwargs: Any) -> AsyncFuture[T]: ...

    @overload
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> AsyncFuture[T]: ...

    def submit(  # type: ignore[misc]  # `P` may have a parameter `profiling`, which the client takes
        self, fn: Callable[..., T], /, *args: Any, profiling: bool | None = None, **kwargs: Any
    ) -> AsyncFuture[T]:
        """Run `fn(*args, **kwargs)` on a worker: `await client.submit(fn, 1)`.

        It works as `Client.submit` does, also with `name="…"` and `profiling=True`. The task is submitted at once; you
        may await it later. Arguments are serialised, and large buffers copied, before this returns, in 0.1 to 1 ms for
        each MiB: later changes have no effect.
        """
        owner, core, _ = self._caller
        return self._tasks.future_of(core.submit_named(owner, fn, args, kwargs, profiling, FetchedFuture))

    async def send_object(self, obj: Any, name: str | None = None) -> ObjectReference:
        """Send `obj` to the scheduler once, for any number of tasks, as `Client.send_object` does.

        The object is packed, and its large buffers copied, in the thread of the event loop, as `submit` does.

        Raises:
            TypeError: if the name is not a `str`.
            SerializeObjectError: if the object cannot be serialised.
            ObjectTooLargeError: if the object is larger than the scheduler accepts.
            DisconnectedError: if the client is disconnected.
        """
        return self._connected().send_object(obj, name)

    async def story(self, task: AsyncFuture[Any] | bytes) -> Story:
        """Return what is known of a task of this client, given its future or its id, as `Client.story` does."""
        if isinstance(task, AsyncFuture):
            return await task.story()
        return await queries.story(self._connected()._link, checked_task_id(task), "", None)

    async def cancel_tasks(self, *tasks: bytes | str) -> None:
        """Cancel tasks of any client, as an admin, as `Client.cancel_tasks` does."""
        await queries.presence(self._connected()._link, presence.cancel(tasks))

    async def logs(self, task: AsyncFuture[Any] | bytes, timeout: float | None = LOG_SECONDS) -> TaskLog:
        """Return what a task of this client has written, given its future or its id, as `Client.logs` does."""
        task_id = task.task_id if isinstance(task, AsyncFuture) else checked_task_id(task)
        link = self._connected()._link
        return await queries.told(link, ask_log(link, task_id), timeout)

    def trace(self, path: str | os.PathLike[str]) -> AbstractAsyncContextManager[None]:
        """Record the tasks of all clients of the scheduler while the block runs: `async with client.trace("run.json")`.

        It works as `Client.trace` does.
        """
        return queries.traced(self._connected()._link, path)

    async def clear(self) -> None:
        """Cancel all futures of this client and delete its objects, as `Client.clear` does."""
        await in_thread(self._connected().clear)

    async def disconnect(self) -> None:
        """Cancel all open futures and leave. The scheduler continues. May be called any number of times."""
        if self._connection is None:
            return
        if self._setup.is_in_task:  # the tasks of the process share the connection
            self._tasks.cancel_all()
        await in_thread(self._connection.disconnect)

    async def shutdown(self) -> None:
        """Ask the scheduler and all workers to end, then disconnect.

        Raises:
            ClientShutdownException: if the scheduler refuses, as it does in protected mode; the client stays usable.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if no scheduler answered for `timeout_seconds`.
        """
        await asyncio.wrap_future(self._connected()._link.shut_down())
        await self.disconnect()


async def _in_thread_to_its_end(make: Any, *arguments: Any) -> Client:
    """Return a client that is made in a thread. If this is cancelled, the client is disconnected once it is made."""
    making = asyncio.ensure_future(in_thread(make, *arguments))
    try:
        client: Client = await asyncio.shield(making)
    except asyncio.CancelledError:
        await asyncio.wait([making])
        if making.exception() is None:
            await in_thread(making.result().disconnect)
        raise
    return client
