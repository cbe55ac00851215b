"""Client: the object that users hold. Its core checks and serialises the user's calls, and passes them to the link.

Called by any thread of the user. All clients that are unpickled in one process share one connection. The constructor,
`submit` and `send_object` do not wait for the scheduler. No part of a call is sent before the whole call is checked.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from scaler import task_context
from scaler.client import lifetime, notebook_hint
from scaler.client.caller import Caller, P, T
from scaler.client.calls.client_pickling import ClientSettings, address_to_take, pickled
from scaler.client.calls.options import TaskOptions
from scaler.client.core import Core, shared_core
from scaler.client.future import ScalerFuture
from scaler.client.insight import dashboard as page
from scaler.client.insight import presence, task_log
from scaler.client.insight.explanation import ANSWER_SECONDS, Story, checked_task_id, request_story
from scaler.client.insight.output_printer import OutputPrinter
from scaler.client.insight.task_log import LOG_SECONDS, TaskLog
from scaler.client.insight.tracing import tracing
from scaler.client.link.link import ClientLink
from scaler.client.object_reference import ObjectReference
from scaler.endpoint import Endpoint
from scaler.ids import ClientId, TaskId, random_id
from scaler.pickling.serialization import DEFAULT_SERIALIZER, Serializer, plain_to_pickle
from scaler.pickling.shipped_modules import Module, Shipped
from scaler.settings import ClientConfig
from scaler.settings.client import LOCAL_CLUSTER, NOT_LOCAL
from scaler.settings.sources import completes_from_outside, descriptions, gather
from scaler.starters import LocalSettings
from scaler.transport.opening import import_transport

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from scaler.settings.cluster import LocalClusterOptions


class ClientArguments:
    """The arguments of both clients, checked when a client is made."""

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
        processes: bool = True,
        dashboard: bool = False,
        stream_output: bool = False,
        key_file: str | os.PathLike[str] | None = None,
        trust_users: Sequence[str | int] = (),
        name: str | None = None,
        keep: str | os.PathLike[str] | None = None,
        **local: Unpack[LocalClusterOptions],
    ) -> None:
        place, file = lifetime.place_of(address, key_file)
        settings = lifetime.check_client(
            place, serializer, n_workers, lifetime.with_keep(local, keep), dashboard, processes
        )
        numbers = timeout_seconds, heartbeat_interval_seconds
        config = ClientConfig(place, profiling, *numbers, stream_output, file, trust_users)  # type: ignore[arg-type]
        task_address = task_context.current.address
        is_in_task = task_address is not None and processes and place in (None, task_address)
        if is_in_task:
            place = task_address
        elif place is None:
            place = lifetime.configured_address(file, settings, processes)
        self._setup = ClientSetup(
            place, is_in_task, processes, settings, config, serializer, Shipped(modules), file,
            lifetime.check_name(name), dashboard and not is_in_task, ClientId(random_id()),
        )  # fmt: skip
        self._start()

    @abstractmethod
    def _start(self) -> None:
        """Begin to use the checked arguments, `_setup`."""


class ClientSetup(NamedTuple):
    """The checked arguments of a client, with which it connects."""

    address: str | None
    """the address of the scheduler; None: a local cluster"""
    is_in_task: bool
    """whether the client is in a task of that scheduler, and shares its connection with all clients of the process"""
    has_processes: bool
    local: LocalSettings
    config: ClientConfig
    serializer: Serializer
    shipped: Shipped
    key_file: str | None
    name: str
    has_dashboard: bool
    client_id: ClientId


class Client(ClientArguments, Caller):
    """Runs functions on the workers of a scheduler.

    The constructor does not wait for the scheduler. All methods may be called from several threads at once. A client
    disconnects when it is garbage collected, at the latest when the program ends.

    A client can be pickled, and so passed to a task, alone or inside another value. In the task it is a client of the
    same scheduler with the same settings. All clients inside the tasks of one process share one connection; for them,
    `disconnect` and the end of a `with` block do nothing.

    Omitted arguments take their values from the environment or `scaler.toml` (docs/reference/settings.md). `n_workers`,
    `keep` and the arguments listed after `keep` are settings of a local cluster, which this client then starts on this
    machine. With `processes=False` only `n_workers`, `keep`, `capabilities` and `functions` are accepted. A local
    cluster logs from the level WARNING and uses the fastest event loop by default.

    Args:
        address: where the scheduler listens: tcp://host:port or ipc:///path. None means, inside a task, the scheduler
            that runs the task. Elsewhere it means the first of these that is set: the environment variable
            SCALER_ADDRESS, the address in `scaler.toml`, the address in the file of `key_file`. If none is set, it
            means a local cluster with one worker per core, which ends with the client. The path of a key file, such as
            `Client("alice.json")`, stands for the first address in the file and for `key_file`.
        profiling: whether to measure time and memory of each task, for ScalerFuture.profiling_info. The argument
            `profiling` of `submit` overrides it.
        timeout_seconds: how long open work waits for a missing scheduler before it fails with TimeoutError.
        heartbeat_interval_seconds: the time between two heartbeats.
        serializer: turns values into bytes; it travels to the workers with each function.
        n_workers: the number of workers of a local cluster; None: one per core. With it, the address in the environment
            or `scaler.toml` is ignored. Ignored inside tasks.
        modules: your own modules that the workers do not have: modules, packages, or their paths. They travel with the
            functions of this client, and again after they were edited; see `upload` (docs/howto/modules.md). Ignored
            inside tasks.
        processes: False runs scheduler, workers and tasks as threads of this process, for debugging and tests
            (docs/howto/debugging.md). The address must be None.
        dashboard: whether to start a web page that shows the scheduler, until this client disconnects. Its address is
            printed on standard error and returned by `dashboard_url` (docs/howto/dashboard.md). Ignored inside tasks.
        stream_output: whether the client prints what its tasks write, each line with worker and task name. This
            includes nested tasks (docs/howto/output.md). Ignored inside tasks.
        key_file: the file with the key for the scheduler (scaler_keys); never taken from scaler.toml. None
            means the file in SCALER_KEY_FILE, or the one found for the address (docs/howto/keys.md). If neither an
            argument nor a setting gives an address, the first one in this file is used. Ignored inside tasks.
        trust_users: the users who may run the scheduler at an ipc:// address besides this user and root: names or uids;
            never taken from scaler.toml. Ignored inside tasks (docs/howto/keys.md).
        name: the name of this program on screens and in logs, up to 64 characters; None: its script and process id.
            Ignored inside tasks.
        keep: the folder in which a local cluster keeps jobs (docs/howto/long-jobs.md). None: `scaler/jobs` in the
            user's state folder (`XDG_STATE_HOME`, else `~/.local/state`). A user without a home directory has no such
            folder, and jobs raise `JobError`.
        {local}

    Raises:
        StartError: if the local cluster or the dashboard cannot start.
        ConfigError: if an argument is invalid, or a key cannot be read; it is a `ValueError`.
    """

    _dashboard: page.Dashboard | None = None
    _printer: OutputPrinter | None = None

    def _start(self) -> None:
        self._connect(self._setup)
        if self._setup.has_dashboard:
            self._open_dashboard()

    def _connect(self, setup: ClientSetup) -> None:
        """Start the local cluster, if there is one, and the link."""
        config, serializer = setup.config, setup.serializer
        seconds = config.timeout_seconds, config.heartbeat_interval_seconds
        if setup.is_in_task:
            address = str(setup.address)
            self._core = shared_core(ClientSettings(address, config.profiling, *seconds, pickled(serializer)))
            return
        place, cluster = setup.address, None
        if place is None:
            cluster = lifetime.start_cluster(setup.has_processes, setup.local, not config.stream_output)
            place = cluster.get_address()
        link = lifetime.new_link(place, seconds, setup.key_file, setup.name, config.trust_users, setup.client_id)
        self._core = Core(link, seconds, serializer, config.profiling, False, setup.shipped)
        self._finalizer = lifetime.finalize_with(self, link, cluster)
        if cluster is not None:
            notebook_hint.note(self, self._finalizer)
        if config.stream_output:
            self._printer = OutputPrinter(link.follow_output)

    @classmethod
    def _of(cls, setup: ClientSetup) -> Self:
        """Return a client with checked arguments, without its page."""
        client = object.__new__(cls)
        client._setup = setup
        client._connect(setup)
        return client

    @property
    def _link(self) -> ClientLink:
        return self._core.link

    def _open_dashboard(self) -> None:
        self._dashboard = page.Dashboard(self, self._core.link.endpoint)

    def __reduce__(self) -> tuple[Callable[..., Client], tuple[Any, ...]]:
        core = self._core
        address = address_to_take(core.link.address)
        return _unpickled, (address, core.profiling, *core.seconds, pickled(core.serializer))

    @property
    def _caller(self) -> tuple[object, Core, TaskOptions]:
        return self, self._core, self._core.options

    @property
    def identity(self) -> bytes:
        """The id of this client, 16 bytes."""
        return self._core.link.client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if not self._core.is_shared:
            self._core.link.end_warnings.note_exit(error)
        self.disconnect()

    @property
    def dashboard_url(self) -> str | None:
        """The address of the page that `dashboard=True` has started, with its first-visit token; None: no page."""
        return self._dashboard.url if self._dashboard else None

    def _repr_html_(self) -> str:
        return page.summary(self._core.link, self.dashboard_url)

    def __repr__(self) -> str:
        link = self._core.link
        return f"<Client {link.client_id.hex()[:8]} of {link.address}{', disconnected' if link.closed_because else ''}>"

    @overload
    def submit(self, fn: Callable[..., T], /, *args: Any, profiling: bool | None, **kwargs: Any) -> ScalerFuture[T]: ...

    @overload
    def submit(self, fn: Callable[..., T], /, *args: Any, name: str, **kwargs: Any) -> ScalerFuture[T]: ...

    @overload
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> ScalerFuture[T]: ...

    def submit(  # type: ignore[misc]  # `P` may have a parameter `profiling`, which the client takes
        self, fn: Callable[..., T], /, *args: Any, profiling: bool | None = None, **kwargs: Any
    ) -> ScalerFuture[T]:
        """Run `fn(*args, **kwargs)` on a worker.

        Arguments are serialised before this returns, so later changes of them have no effect. For an `ObjectReference`
        or a future of this client, also in a list, tuple, set or dict, the task receives the object or the result. To
        pass the reference itself, pass its `as_is()`.

        Messages and logs call the task by the name of the function. `name="…"` gives it another name. If the function
        accepts `name` (explicitly, via `**kwargs`, or with an unknown signature), `name` is passed to the function
        instead. `options(name="…")` always names the task.

        Args:
            fn: the function.
            profiling: whether to measure time and memory of the task, for `ScalerFuture.profiling_info`. None means the
                setting of the client. It is never passed to `fn`.

        Raises:
            TypeError: if `fn` is not callable or does not take these arguments, the name is not a `str`, or `profiling`
                is not a `bool`.
            SerializeObjectError: if the function or an argument cannot be serialised.
            ObjectTooLargeError: if the function or an argument is larger than the scheduler accepts.
            MissingObjects: if this client has cleared the object of an `ObjectReference`.
            DisconnectedError: if the client is disconnected.
        """
        return self._core.submit_named(self, fn, args, kwargs, profiling, ScalerFuture)

    def send_object(self, obj: Any, name: str | None = None) -> ObjectReference:
        """Send `obj` to the scheduler once, for any number of tasks. Later changes of `obj` have no effect.

        The object is stored until the reference is garbage collected and no task uses it, until `clear`, or until the
        client disconnects.

        Args:
            obj: the object.
            name: the name of the reference; None: it is generated.

        Raises:
            TypeError: if the name is not a `str`.
            SerializeObjectError: if the object cannot be serialised.
            ObjectTooLargeError: if the object is larger than the scheduler accepts.
            DisconnectedError: if the client is disconnected.
        """
        return self._core.send_object(obj, name)

    def story(self, task: ScalerFuture[Any] | bytes) -> Story:
        """Return what is known of a task: its state, its worker, what it waits for, and why earlier attempts ended.

        The task must belong to this client. An admin may also pass the id of another client's task. The call waits up
        to two seconds for the answer of the scheduler.

        Args:
            task: the future or the id of the task.

        Raises:
            ValueError: if `task` is neither a future nor an id.
            DisconnectedError: if the client is disconnected.
        """
        if isinstance(task, ScalerFuture):
            return task.story()
        task_id = _task_id(task)
        self._core.link.check_open()
        return request_story(self._core.link, task_id, "", None, ANSWER_SECONDS)

    def cancel_tasks(self, *tasks: bytes | str) -> None:
        """Cancel tasks of any client, as an admin. Their futures end as if their own clients had cancelled them.

        Cancelling a row of a map may also cancel the rows that travel with it. Cancelling a node cancels its graph.
        Tasks that are not open are ignored.

        Args:
            tasks: the ids of the tasks (`future.task_id`), or the short ids that `scaler_top` and the page show.

        Raises:
            ValueError: if an argument is no such id.
            NotAllowedError: if the key of the client is not that of an admin, or the client is inside a task.
            TimeoutError: if no scheduler answered for `timeout_seconds`.
            DisconnectedError: if the client is disconnected.
        """
        presence.wait(self._core.link, presence.cancel(tasks))

    def logs(self, task: ScalerFuture[Any] | bytes, timeout: float | None = LOG_SECONDS) -> TaskLog:
        """Return what a task of this client has written, like `ScalerFuture.logs`. An admin may also pass the id of
        another client's task.

        Args:
            task: the future or the id of the task.
            timeout: how many seconds to wait for the scheduler; None: no limit.

        Raises:
            ValueError: if `task` is neither a future nor an id.
            TimeoutError: if the scheduler did not answer in time.
            DisconnectedError: if the client is disconnected.
        """
        link = self._core.link
        return task_log.wait(link, task_log.ask_log(link, _task_id(task)), timeout)

    def trace(self, path: str | os.PathLike[str]) -> AbstractContextManager[None]:
        """Record the tasks of all clients of the scheduler while the block runs: `with client.trace("run.json"): ...`.

        Open the file in https://ui.perfetto.dev or chrome://tracing (docs/howto/trace.md). Under high load the file has
        a sample of the tasks, up to 500 a second, and the number of tasks that are left out.

        Args:
            path: the path of the file; an existing file is replaced.

        Raises:
            StartError: if the scheduler does not answer.
            ConfigError: if the client has `processes=False`; it is a `ValueError`.
            OSError: if the file cannot be written.
        """
        return tracing(self._core.link.endpoint, path)

    def clear(self) -> None:
        """Cancel all futures of this client and delete its objects; using one of its references then raises
        `MissingObjects`.

        Large results that have not been fetched are deleted, too. The client stays usable.

        Raises:
            DisconnectedError: if the client is disconnected.
        """
        self._core.link.check_open()
        self._core.stored.clear()
        self._core.link.clear()

    def disconnect(self) -> None:
        """Cancel all open futures (they raise `CancelledError`) and end the connection. The scheduler continues. A
        warning shows how many tasks were open, and how many failed without their errors being read.

        It may be called any number of times. Inside a task it does nothing, because all tasks of the process share the
        client.
        """
        core = self._core
        if core.is_shared:
            return
        core.stored.clear()
        core.link.close()
        if self._printer is not None:
            self._printer.finish()
        if self._dashboard is not None:
            self._dashboard.close()
        self._finalizer()

    def shutdown(self) -> None:
        """Ask the scheduler and all workers to end, then disconnect.

        Raises:
            ClientShutdownException: if the scheduler refuses, as it does in protected mode; the client stays usable.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if no scheduler answered for `timeout_seconds`.
        """
        self._core.link.shut_down().result()
        self.disconnect()


def _task_id(task: ScalerFuture[Any] | bytes) -> TaskId:
    if isinstance(task, ScalerFuture):
        return task.task_id
    return checked_task_id(task)


def _connector(address: str) -> Callable[[], object]:
    """Return a function that connects this process to the scheduler at `address` with the settings of a `Client()`.

    Settings and transport are loaded now, once for all forked processes.
    """
    try:
        config = gather(ClientConfig, {"address": address})
        import_transport(Endpoint.parse(address))
    except Exception:  # noqa: BLE001 - a task that creates a client gets the error
        return lambda: None
    seconds = (config.timeout_seconds, config.heartbeat_interval_seconds)
    return partial(shared_core, ClientSettings(address, config.profiling, *seconds, pickled(DEFAULT_SERIALIZER)))


Client.__doc__ = (Client.__doc__ or "").replace("{local}", descriptions(LOCAL_CLUSTER, without=NOT_LOCAL))
task_context.connector = _connector
plain_to_pickle.add(Client)


def _unpickled(*settings: Any) -> Client:
    client: Client = object.__new__(Client)
    client._core = shared_core(ClientSettings(*settings).resolved())  # noqa: SLF001 - a constructor
    return client
