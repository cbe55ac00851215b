"""Client: what users hold. Its core checks, serialises and names what they ask for, and hands it to the link.

Called by any thread of the user's. A client that travels becomes the client of the process where it arrives: however
many copies arrive, they have one connection. Must never touch the socket, wait for the scheduler where it need not (the
constructor, `submit` and `send_object` do not), or send anything before all of it was checked.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from scaler import task_context
from scaler.client import lifetime
from scaler.client.calls.client_pickling import (
    ClientSettings,
    address_said_outside,
    address_to_take,
    pickled,
)
from scaler.client.calls.options import TaskOptions
from scaler.client.core import Core
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference
from scaler.client.with_options import ClientWithOptions
from scaler.config import ConfigError
from scaler.ids import ObjectId
from scaler.serialization import DEFAULT_SERIALIZER, Serializer, size_of
from scaler.settings import ClientConfig
from scaler.settings.sources import completes_from_outside
from scaler.wire.messages.common import InstructionKind, ObjectInstruction

if TYPE_CHECKING:
    from typing_extensions import Self


class Client:
    """Runs functions on the workers of a scheduler.

    The constructor does not wait for the scheduler, and returns at once if there is none. All methods may be called
    from several threads at once. A client that is not used any more disconnects itself, at the latest when the
    program ends.

    A client can be an argument of a task, or anything that can be pickled can hold it. There it is a client of the same
    scheduler with the same settings. All clients of one process that travelled there share a connection, and so do
    those that are made in a task for the scheduler that runs it. Nobody disconnects them: `disconnect` and the end of a
    `with` block do nothing.

    An argument that is not given is what the environment or `scaler.toml` says (docs/reference/settings.md).

    Args:
        address: where the scheduler listens: tcp://host:port or ipc:///path. None means, inside a task, the scheduler
            that runs it; else the environment variable SCALER_ADDRESS, or the address in `scaler.toml`; if there is
            none, a local cluster with as many workers as cores, which ends with the client.
        profiling: whether to measure what each task takes, for ScalerFuture.profiling_info. `submit` may say otherwise.
        timeout_seconds: how long work waits for a scheduler that stays away, before it fails with TimeoutError.
        heartbeat_interval_seconds: the time between two signs of life.
        serializer: turns values into bytes; travels to the workers with each function.
        processes: False, without an address: scheduler and workers are threads of this process, and so is each task.
            For debugging and tests; see docs/howto/debugging.md.

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
        processes: bool = True,
    ) -> None:
        ClientConfig(address, profiling, timeout_seconds, heartbeat_interval_seconds)  # refuses bad values
        if not isinstance(serializer, Serializer):
            raise ConfigError(f"serializer must be an instance of scaler.Serializer, not {serializer!r}")
        _check_processes(processes, address)
        here = task_context.current.address
        if here is not None and processes and address in (None, here):
            self._core = _shared_core(
                ClientSettings(here, profiling, timeout_seconds, heartbeat_interval_seconds, pickled(serializer))
            )
            return
        cluster = None
        if address is None and processes:
            address = address_said_outside()
        if address is None:
            cluster = lifetime.start_cluster(processes)
            address = cluster.get_address()
        seconds = (timeout_seconds, heartbeat_interval_seconds)
        link = lifetime.new_link(address, seconds)
        self._core = Core(link, seconds, serializer, profiling, is_shared=False)
        self._finalizer = lifetime.ends_with(self, link, cluster)

    def __reduce__(self) -> tuple[Callable[..., Client], tuple[Any, ...]]:
        core = self._core
        address = address_to_take(core.link.address)
        return _arrive, (address, core.profiling, *core.seconds, pickled(core.serializer))

    @property
    def identity(self) -> bytes:
        """The id of this client, 16 bytes."""
        return self._core.link.client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"<Client {self.identity.hex()[:8]} of {self._core.link.address}>"

    def options(
        self,
        options: TaskOptions | None = None,
        /,
        *,
        name: str | None = None,
        priority: int | None = None,
        profiling: bool | None = None,
    ) -> ClientWithOptions:
        """Return this client with options for tasks: `client.options(priority=5).submit(fn, 1)`. Nothing of this
        client changes. What is said by keyword goes before what `options` say.

        Args:
            options: options that were made before.
            name: what the tasks are called.
            priority: which of your tasks that wait go first: the greater.
            profiling: whether to measure what the tasks take.

        Raises:
            TypeError: if an option is of the wrong type.
            ConfigError: if the priority is out of range; it is a `ValueError`.
        """
        said = ClientWithOptions(self, self._core, self._core.options)
        return said.options(options, name=name, priority=priority, profiling=profiling)

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, profiling: bool | None = None, **kwargs: Any
    ) -> ScalerFuture:
        """Run `fn(*args, **kwargs)` on a worker.

        Arguments are serialised before this returns. An `ObjectReference` as an argument of its own arrives as the
        object.

        The task has the name of the function, in messages and logs. `name="…"` gives it another one, unless the
        function takes a keyword argument `name` itself, or may (any keyword, or nobody knows which): then it gets it.
        `options(name="…")` always names the task.

        Args:
            fn: the function.
            profiling: whether to measure what the task takes, for `ScalerFuture.profiling_info`; as the client says if
                None. It is never an argument of `fn`.

        Raises:
            TypeError: if `fn` cannot be called, or not with these arguments, or the name is not a text, or `profiling`
                is not a bool.
            SerializeObjectError: if the function or an argument cannot be serialised.
            MissingObjects: if an `ObjectReference` is of an object that this client has forgotten.
            DisconnectedError: if the client is disconnected.
        """
        core = self._core
        name = core.functions.get(fn).take_name(kwargs) if "name" in kwargs else ""
        options = core.options if profiling is None else TaskOptions(profiling=profiling)
        return core.submit(self, fn, args, kwargs, core.terms(options, name))

    def map(
        self,
        fn: Callable[..., Any],
        iterable_of_tuples: Iterable[Sequence[Any]],
        progress: bool = False,
        timeout: float | None = None,
    ) -> list[Any]:
        """Run `fn(*item)` for each item and return the results in the order of the items.

        If a task fails, or this is interrupted, the tasks that have not ended are cancelled. Items are taken as there
        is room for their tasks, so there may be any number of them.

        Args:
            fn: the function.
            iterable_of_tuples: the arguments of each task: tuples or lists.
            progress: whether to show on the standard error stream how far it is.
            timeout: seconds that the whole may take.

        Raises:
            TypeError: if `fn` cannot be called, or an item is neither a tuple nor a list, or does not fit the function.
            ConfigError: if `timeout` is no number, or negative; it is a `ValueError`.
            SerializeObjectError: if the function or an argument cannot be serialised.
            MissingObjects: if an `ObjectReference` is of an object that this client has forgotten.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if it took longer than `timeout`, or no scheduler was found for too long.
            BaseException: what the first task to fail raised.
        """
        core = self._core
        return core.map(fn, iterable_of_tuples, progress, timeout, core.terms(core.options))

    def get(self, graph: Mapping[str, Any], keys: Iterable[str], block: bool = True) -> dict[str, Any]:
        """Run what `keys` need of a graph, and return key -> value in the order of `keys`.

        A graph is a dictionary. A value that is a tuple beginning with a function is a call: its arguments that are
        strings are keys, whose values or results it gets; all others are literals. Any other value is data.

        A node that fails fails every node that needs it with the same exception; the rest goes on.

        Args:
            graph: key -> data, an `ObjectReference`, or a call `(fn, argument, ...)`.
            keys: the keys whose values are wanted. Nothing that they do not need runs.
            block: whether to wait for the values. If not, they are futures; to cancel one cancels the whole graph.

        Raises:
            KeyError: if a key or an argument is not in the graph, or a key is asked for twice.
            TypeError: if the graph is malformed, or a function does not take the arguments of its node.
            graphlib.CycleError: if nodes depend on each other in a circle.
            SerializeObjectError: if a function or a value cannot be serialised.
            MissingObjects: if an `ObjectReference` is of an object that this client has forgotten.
            DisconnectedError: if the client is disconnected.
            BaseException: what the first of the `keys` to have failed raised, if `block`.
        """
        core = self._core
        return core.get(self, graph, keys, block, core.terms(core.options))

    def send_object(self, obj: Any, name: str | None = None) -> ObjectReference:
        """Send `obj` to the scheduler once, for any number of tasks. Changing it afterwards changes nothing.

        The object is stored until the reference is gone and no task uses it, until `clear`, or until the client
        disconnects.

        Args:
            obj: the object.
            name: what to call it; made up if it is None.

        Raises:
            TypeError: if the name is not a text.
            SerializeObjectError: if it cannot be serialised.
            DisconnectedError: if the client is disconnected.
        """
        core = self._core
        core.link.check_open()
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of an object is a text, not {name!r}")
        frames = core.serialised(obj)
        object_id = ObjectId(core.new_id())
        name = name or f"{type(obj).__name__}-{object_id.hex()[-8:]}"
        core.stored_ids.add(object_id)
        reference = ObjectReference(name, object_id, size_of(frames), core.stored_ids)
        weakref.finalize(reference, core.release, object_id).atexit = False
        core.link.hold(ObjectInstruction(InstructionKind.CREATE, object_id, name, frames))
        return reference

    def clear(self) -> None:
        """Cancel all futures of this client and forget its objects: a reference to one raises `MissingObjects` from
        now on.

        Large results that nobody has asked for yet are forgotten, too. The client stays usable.

        Raises:
            DisconnectedError: if the client is disconnected.
        """
        self._core.link.check_open()
        self._core.stored_ids.clear()
        self._core.link.clear()

    def disconnect(self) -> None:
        """Cancel what is open (its futures raise `CancelledError`) and leave; the scheduler goes on.

        May be called any number of times. Nothing happens to a client that travelled, nor to one of the scheduler that
        runs the task: others use it too.
        """
        core = self._core
        if core.is_shared:
            return
        core.stored_ids.clear()
        core.link.close()
        self._finalizer()

    def shutdown(self) -> None:
        """Ask the scheduler and all workers to end, then disconnect.

        Raises:
            ClientShutdownException: if the scheduler refuses, as it does in protected mode; the client stays usable.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if no scheduler was found for too long.
        """
        self._core.link.shut_down().result()
        self.disconnect()


def _check_processes(processes: bool, address: str | None) -> None:
    if not isinstance(processes, bool):
        raise ConfigError(f"processes must be True or False, not {processes!r}")
    if not processes and address is not None:
        raise ConfigError(f"processes=False starts a scheduler in this process: leave the address {address!r} out")


_sharing = threading.RLock()
_shared_cores: dict[ClientSettings, Core] = {}
"""of the clients that travelled here: all who have the same settings have the same"""


def _shared_core(settings: ClientSettings) -> Core:
    """Return the core that this process has for clients with `settings`."""
    with _sharing:
        core = _shared_cores.get(settings)
        if core is None or core.link.is_closed:
            seconds = (settings.timeout_seconds, settings.heartbeat_interval_seconds)
            link = lifetime.shared_link(settings.address, seconds)
            core = Core(link, seconds, settings.read_serializer(), settings.profiling, is_shared=True)
            for ended in [key for key, known in _shared_cores.items() if known.link.is_closed]:
                del _shared_cores[ended]
            _shared_cores[settings] = core
        return core


def _connect() -> None:
    """In a process that will run nested tasks: have a connection before the first one needs it."""
    Client()


task_context.connect = _connect


def _arrive(*settings: Any) -> Client:
    """Return the client of this process for one that travelled here."""
    client: Client = object.__new__(Client)
    client._core = _shared_core(ClientSettings(*settings).arrived())  # noqa: SLF001 - a constructor
    return client
