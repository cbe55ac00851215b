"""Client: what users hold. Checks, serialises and names what they ask for, and hands it to the link.

Called by any thread of the user's; sends to the link's queue. A client that travels becomes the client of the process
where it arrives: however many copies arrive, they have one connection. Must never touch the socket, wait for the
scheduler where it need not (the constructor, `submit` and `send_object` do not), or send anything before all of it was
checked.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from scaler import task_context
from scaler.client import lifetime
from scaler.client.calls.arguments import ArgumentPacker
from scaler.client.calls.client_pickling import (
    ADDRESS_VARIABLE,
    ClientSettings,
    address_to_take,
    in_a_task_for,
    pickled,
)
from scaler.client.calls.functions import Functions
from scaler.client.calls.graph import pack_graph
from scaler.client.calls.snapshot import freeze_for
from scaler.client.future import ScalerFuture
from scaler.client.lifetime import Seconds
from scaler.client.link.thread import LinkThread
from scaler.client.map_run import MapRun
from scaler.client.object_reference import ObjectReference
from scaler.config import ConfigError, check_number
from scaler.ids import IdSource, ObjectId, TaskId
from scaler.serialization import DefaultSerializer, Serializer, size_of, to_frames
from scaler.wire.messages.client import Task
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

    Args:
        address: where the scheduler listens, `tcp://host:port` or `ipc:///path`. None means, inside a task, the
            scheduler that runs it; else the environment variable SCALER_ADDRESS; if that is not set, a local cluster
            with as many workers as cores, which ends with the client.
        profiling: whether to measure what each task takes, for `ScalerFuture.profiling_info`. `submit` may say
            otherwise.
        timeout_seconds: how long work waits for a scheduler that stays away, before it fails with `TimeoutError`.
        heartbeat_interval_seconds: the time between two signs of life.
        serializer: turns values into bytes; travels to the workers with each function.

    Raises:
        ConfigError: if an argument cannot work; it is a `ValueError`.
    """

    def __init__(
        self,
        address: str | None = None,
        profiling: bool = False,
        timeout_seconds: float = 60,
        heartbeat_interval_seconds: float = 2,
        serializer: Serializer | None = None,
    ) -> None:
        if not isinstance(profiling, bool):
            raise ConfigError(f"profiling must be true or false, not {profiling!r}")
        check_number("timeout_seconds", timeout_seconds, 0.001)
        check_number("heartbeat_interval_seconds", heartbeat_interval_seconds, 0.001)
        if serializer is not None and not isinstance(serializer, Serializer):
            raise ConfigError(f"serializer must be an instance of scaler.Serializer, not {serializer!r}")
        serializer = serializer or DefaultSerializer()
        here = task_context.current.address
        if here is not None and address in (None, here):
            self._share(
                ClientSettings(here, profiling, timeout_seconds, heartbeat_interval_seconds, pickled(serializer))
            )
            return
        cluster = None
        if address is None:
            address = os.environ.get(ADDRESS_VARIABLE)
        if address is None:
            cluster = lifetime.start_cluster()
            address = cluster.get_address()
        seconds = (timeout_seconds, heartbeat_interval_seconds)
        link = lifetime.new_link(address, seconds)
        self._become(link, seconds, serializer, profiling, False)
        self._finalizer = lifetime.ends_with(self, link, cluster)

    def _become(
        self, link: LinkThread, seconds: Seconds, serializer: Serializer, profiling: bool, is_shared: bool
    ) -> None:
        self._link = link
        self._profiling = profiling
        self._seconds = seconds
        self._serializer = serializer
        self._is_shared = is_shared
        self._functions = Functions(serializer, link.address)
        self._freeze = freeze_for(link.address)
        self._packer = ArgumentPacker(serializer, link.address, self._freeze)
        self._new_id = IdSource()
        self._stored_ids: set[ObjectId] = set()

    def _share(self, settings: ClientSettings) -> None:
        """Be the client that this process has for `settings`."""
        with _sharing:
            model = _models.get(settings)
            if model is None or model._link.is_closed:  # noqa: SLF001 - of the same class
                seconds = (settings.timeout_seconds, settings.heartbeat_interval_seconds)
                model = object.__new__(Client)
                link = lifetime.shared_link(settings.address, seconds)
                model._become(link, seconds, settings.read_serializer(), settings.profiling, True)
                _models[settings] = model  # only now: an exception may have come out of the middle
        self.__dict__.update(model.__dict__)

    def __reduce__(self) -> tuple[Callable[..., Client], tuple[Any, ...]]:
        address = address_to_take(self._link.address)
        return _arrive, (address, self._profiling, *self._seconds, pickled(self._serializer))

    @property
    def identity(self) -> bytes:
        """The id of this client, 16 bytes."""
        return self._link.client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        return f"<Client {self.identity.hex()[:8]} of {self._link.address}>"

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, profiling: bool | None = None, **kwargs: Any
    ) -> ScalerFuture:
        """Run `fn(*args, **kwargs)` on a worker.

        Arguments are serialised before this returns. An `ObjectReference` as an argument of its own arrives as the
        object.

        The task has the name of the function, in messages and logs. `name="…"` gives it another one, unless the
        function takes a keyword argument `name` itself, or may (any keyword, or nobody knows which): then it gets it.

        Args:
            fn: the function.
            profiling: whether to measure what the task takes, for `ScalerFuture.profiling_info`; as the client says if
                None. It is never an argument of `fn`.

        Raises:
            TypeError: if `fn` cannot be called, or not with these arguments, or the name is not a text, or `profiling`
                is not true or false.
            SerializeObjectError: if the function or an argument cannot be serialised.
            MissingObjects: if an `ObjectReference` is of an object that this client has forgotten.
            DisconnectedError: if the client is disconnected.
        """
        self._link.check_open()
        function = self._functions.get(fn)
        name = function.take_name(kwargs) if "name" in kwargs else ""
        function.check(args, kwargs)
        if profiling is None:
            profiling = self._profiling
        elif not isinstance(profiling, bool):
            raise TypeError(f"profiling must be true or false, not {profiling!r}")
        packed = self._packer.pack(args, kwargs)
        instruction = function.instruction
        task_id = TaskId(self._new_id())
        future = ScalerFuture(task_id, self._link, self._serializer, self, name or instruction.name)
        priority = task_context.current.child_priority
        task = Task(task_id, instruction.object_id, packed.block, packed.object_ids, priority, name, int(profiling))
        self._link.submit((task, future, instruction, packed.objects, packed.references))
        return future

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
        self._link.check_open()
        if timeout is not None:
            check_number("timeout", timeout, 0)
        function = self._functions.get(fn)
        run = MapRun(function, self._packer, self._serializer, self._link, timeout, self._profiling)
        return run.run(iterable_of_tuples, progress)

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
        self._link.check_open()
        open_graph, tasks = pack_graph(graph, keys, self._functions, self._packer, self._profiling)
        futures: dict[str, ScalerFuture] = {}
        for key, task_id in tasks.items():
            future = futures[key] = ScalerFuture(
                task_id or TaskId(self._new_id()), self._link, self._serializer, self, key
            )
            if task_id is None:
                future.settle(graph[key])
            else:
                open_graph.sinks[task_id] = future
        try:
            if open_graph.sinks:
                self._link.submit_graph(open_graph)
            if not block:
                return futures
            with task_context.current.wait(self._link, partial(_all_done, futures)):
                return {key: future.result() for key, future in futures.items()}
        except (KeyboardInterrupt, SystemExit):  # nobody could ask for the results any more
            for future in futures.values():
                future.cancel()
            raise

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
        self._link.check_open()
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of an object is a text, not {name!r}")
        with in_a_task_for(self._link.address):
            frames = self._freeze(to_frames(self._serializer, obj))
        object_id = ObjectId(self._new_id())
        name = name or f"{type(obj).__name__}-{object_id.hex()[-8:]}"
        self._stored_ids.add(object_id)
        reference = ObjectReference(name, object_id, size_of(frames), self._stored_ids)
        weakref.finalize(reference, _release, self._link, self._stored_ids, object_id).atexit = False
        self._link.hold(ObjectInstruction(InstructionKind.CREATE, object_id, name, frames))
        return reference

    def clear(self) -> None:
        """Cancel all futures of this client and forget its objects: a reference to one raises `MissingObjects` from
        now on.

        Large results that nobody has asked for yet are forgotten, too. The client stays usable.

        Raises:
            DisconnectedError: if the client is disconnected.
        """
        self._link.check_open()
        self._stored_ids.clear()
        self._link.clear()

    def disconnect(self) -> None:
        """Cancel what is open (its futures raise `CancelledError`) and leave; the scheduler goes on.

        May be called any number of times. Nothing happens to a client that travelled, nor to one of the scheduler that
        runs the task: others use it too.
        """
        if self._is_shared:
            return
        self._stored_ids.clear()
        self._link.close()
        self._finalizer()

    def shutdown(self) -> None:
        """Ask the scheduler and all workers to end, then disconnect.

        Raises:
            ClientShutdownException: if the scheduler refuses, as it does in protected mode; the client stays usable.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if no scheduler was found for too long.
        """
        self._link.shut_down().result()
        self.disconnect()


_sharing = threading.RLock()
_models: dict[ClientSettings, Client] = {}
"""the clients of this process that are shared by all who have the same settings"""


def _all_done(futures: dict[str, ScalerFuture]) -> bool:
    return all(future.done() for future in futures.values())


def _connect() -> None:
    """In a process that will run nested tasks: have a connection before the first one needs it."""
    Client()


task_context.connect = _connect


def _arrive(*settings: Any) -> Client:
    """Return the client of this process for one that travelled here."""
    client: Client = object.__new__(Client)
    client._share(ClientSettings(*settings).arrived())  # noqa: SLF001 - a constructor
    return client


def _release(link: LinkThread, stored_ids: set[ObjectId], object_id: ObjectId) -> None:
    stored_ids.discard(object_id)
    link.release(object_id)
