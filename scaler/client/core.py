"""Core: the link, functions and stored objects that all copies of a client in this process share.

Called by `Client`, in any thread of the user; prepares calls and passes them to the link. The core holds no reference
to a client: otherwise, no client could be garbage-collected. No part of a call is sent before the whole call is
checked.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from scaler import task_context
from scaler.client import lifetime
from scaler.client.calls.arguments import ArgumentPacker, cure_of, freeze_for
from scaler.client.calls.client_pickling import ClientSettings, in_a_task_for
from scaler.client.calls.entry import NAME, RUN_OPTIONS, GraphCalls, Terms
from scaler.client.calls.functions import ClientFunctions, Function, options_of_call
from scaler.client.calls.graph import pack_graph
from scaler.client.calls.job_names import MAP_WINDOW
from scaler.client.calls.options import TaskOptions, for_one
from scaler.client.calls.repeated_values import RepeatedValues
from scaler.client.future import ScalerFuture
from scaler.client.lifetime import Seconds
from scaler.client.link.link import ClientLink
from scaler.client.maps.map_run import MapCall
from scaler.client.object_reference import ObjectReference
from scaler.config import check_number, check_timeout
from scaler.errors import NoWorkerError, SerializeObjectError, is_error_of_task
from scaler.ids import NO_ACCOUNT, IdSource, ObjectId, TaskId
from scaler.pickling.pickled_functions import pickle_main_by_value
from scaler.pickling.serialization import JSON_SERIALIZER, DefaultSerializer, Frames, Serializer, size_of, to_frames
from scaler.pickling.shipped_modules import Shipped
from scaler.texts import shown
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import InstructionKind, ObjectInstruction
from scaler.wire.messages.priority import MOST, with_user_priority
from scaler.wire.messages.seeds import shown_seed

__tracebackhide__ = is_error_of_task

T = TypeVar("T")
F = TypeVar("F", bound=ScalerFuture[Any])

logger = logging.getLogger("scaler.client")

_FIRST = TaskOptions(priority=MOST)
_SEEDS_MOST = 1024


class Core:
    """One connection to a scheduler, used with one serializer. Thread-safe.

    Args:
        seconds: the link's time-out and the time between two heartbeats.
        is_shared: whether clients that were unpickled here share this core, so that no client may end it.
    """

    def __init__(
        self,
        link: ClientLink,
        seconds: Seconds,
        serializer: Serializer,
        profiling: bool,
        is_shared: bool,
        shipped: Shipped | None = None,
    ) -> None:
        pickle_main_by_value()
        self.link = link
        self.serializer = serializer
        self.profiling = profiling
        self.options = TaskOptions(profiling=profiling)
        self.stored: dict[ObjectId, ObjectInstruction] = {}
        self.new_id = IdSource()
        self._seeded: dict[tuple[ObjectId, tuple[int, ...], bool], bool] = {}
        """(function, seed, whether tasks have numbers of their own) -> whether the warning about a repeat was logged"""
        self._freeze = freeze_for(link.endpoint)
        self.packer = ArgumentPacker(serializer, link.address, self._freeze, link.limit, link)
        self.functions = ClientFunctions(serializer, link.endpoint, self.packer, shipped)
        self.seconds = seconds
        self.is_shared = is_shared

    def terms(self, options: TaskOptions, name: str = "", *, spawns: bool = False) -> Terms:
        """Return the terms of tasks that are submitted now with `options`: priority, name, options of the run, and
        account.

        Args:
            name: overrides the name in the options.
            spawns: whether each task draws numbers of its own from the seed, as in a map or graph.
        """
        run_options = options.spawning_options if spawns else options.run_options
        context = task_context.current
        priority = context.child_priority
        if options.priority is not None:
            priority = with_user_priority(priority, options.priority)
        account, owner_tag = context.account if self.link.is_nested else NO_ACCOUNT
        return priority, name or options.name or "", run_options, account, owner_tag

    def function_of(self, fn: Callable[..., Any], terms: Terms) -> Function:
        """Return the function of a call or map, ready to be sent. Log a warning if the seed was used before."""
        function = self.functions.get(fn)
        if terms[RUN_OPTIONS]:
            self._note_seed(function, RunOptions.decode(terms[RUN_OPTIONS]))
        return function

    def _note_seed(self, function: Function, options: RunOptions) -> None:
        """Log a warning if a call draws the same numbers as an earlier one; once for each function and seed."""
        if not options.seed or options.worker:
            return
        seeded = self._seeded
        seed: tuple[int, ...] = options.seed
        used = (function.instruction.object_id, seed, options.seed_spawns)
        if used not in seeded:
            if len(seeded) >= _SEEDS_MOST:
                seeded.clear()
            seeded[used] = False
        elif not seeded[used]:
            seeded[used] = True
            logger.warning(
                "%s is called again with seed=%s and draws the same numbers again; if you do not want that, give each "
                "call a seed of its own, such as seed=%s",
                function.instruction.name,
                shown_seed(seed),
                shown_seed((*seed, 1)),
            )

    def call(
        self,
        owner: object,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        options: TaskOptions,
        future_class: type[F],
    ) -> F:
        """Submit a call of a function that the workers have under this name."""
        self.link.check_open()
        function = self.functions.named(name)
        priority, task_name, run_options, account, owner_tag = self.terms(for_one(options))
        terms = priority, task_name, options_of_call(run_options, name), account, owner_tag
        future = future_class(TaskId(self.new_id()), self.link, JSON_SERIALIZER, owner, task_name or name)
        self.link.submit(function.entry(future.task_id, future, args, kwargs, terms))
        return future

    def futures_of(
        self,
        owner: object,
        graph: Mapping[str, Any],
        calls: GraphCalls,
        tasks: Mapping[str, TaskId | None],
        future_class: type[F],
    ) -> dict[str, F]:
        """Return key -> future for a graph that is ready to be sent. If a key's value is data, its future has ended."""
        futures: dict[str, F] = {}
        for key, task_id in tasks.items():
            future = futures[key] = future_class(
                task_id or TaskId(self.new_id()), self.link, self.serializer, owner, key
            )
            if task_id is None:
                future.settle(graph[key])
            else:
                calls.sinks[task_id], future.keys = future, calls.keys
        return futures

    def pinned(self, options: TaskOptions, function: str, worker: str) -> Terms:
        """Return the terms of a task that only `worker` may run.

        The name of the task ends with the name of the worker. By default the task runs before the client's other tasks.
        """
        priority, name, run_options, account, owner_tag = self.terms(options.over(_FIRST))
        own = RunOptions.decode(run_options)._replace(worker=worker)
        return priority, f"{name or function} on {worker}", own.encode(), account, owner_tag

    def release(self, object_id: ObjectId) -> None:
        """Release a stored object whose reference was garbage collected."""
        self.stored.pop(object_id, None)
        self.link.release(object_id)

    def serialised(self, obj: Any) -> Frames:
        """Return the frames of an object as it is now, serialised for tasks."""
        with in_a_task_for(self.link.address):
            return self._freeze(to_frames(self.serializer, obj))

    def submit(
        self,
        owner: object,
        fn: Callable[..., T],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        terms: Terms,
        future_class: type[F],
    ) -> F:
        """Submit one task. The future of the task keeps `owner` alive."""
        link = self.link
        if link.closed_because:  # saves a call for each task
            link.check_open()
        function = self.function_of(fn, terms)
        task_id = TaskId(self.new_id())
        future = future_class(task_id, link, self.serializer, owner, terms[NAME] or function.instruction.name)
        link.submit(function.entry(task_id, future, args, kwargs, terms))
        return future

    def submit_named(
        self,
        owner: object,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        profiling: bool | None,
        future_class: type[F],
    ) -> F:
        """Submit one task with the options of this core. Its name may be among the keyword arguments."""
        name = self.functions.get(fn).take_name(kwargs) if "name" in kwargs else ""
        options = self.options if profiling is None else TaskOptions(profiling=profiling)
        return self.submit(owner, fn, args, kwargs, self.terms(options, name), future_class)

    def map_call(
        self,
        fn: Callable[..., Any],
        items: object,
        options: TaskOptions,
        timeout: float | None,
        return_exceptions: bool,
        window: float,
    ) -> MapCall:
        """Return the checked arguments of a map."""
        timeout = self.check_map(timeout)
        most = int(min(check_number("window", window, 1), MAP_WINDOW))
        terms = self.terms(options, spawns=True)
        function, repeated = self.function_of(fn, terms), self._repeated(items)
        tolerated = timeout, return_exceptions, options.max_failures, repeated
        return MapCall(function, terms, self.serializer, self.link, most, *tolerated)

    def _repeated(self, items: object) -> RepeatedValues | None:
        """Return a packer that sends a value of several items as one object; None if it is unsafe to share values.

        It is unsafe for iterables other than lists and tuples, because they may reuse a buffer. It is also unsafe for
        custom
        serializers, because they may write values differently.
        """
        if (type(items) is list or type(items) is tuple) and type(self.serializer) is DefaultSerializer:
            return RepeatedValues(items, self.send_object, self.packer.pack_values)
        return None

    def check_map(self, timeout: float | None) -> float | None:
        """Check that a map can be submitted, and look for edited modules. Return the time-out of the map."""
        self.link.check_open()
        self.functions.look()
        return check_timeout(timeout)

    def get(
        self, owner: object, graph: Mapping[str, Any], keys: Iterable[str], block: bool, terms: Terms
    ) -> dict[str, Any]:
        """Run the part of a graph that the keys need. Return their values, or futures that keep `owner` alive."""
        calls, futures = self.graph_calls(owner, graph, keys, terms, ScalerFuture)
        try:
            if calls.sinks:
                self.link.submit_graph(calls)
            if not block:
                return futures
            are_done = lambda: all(future.done() for future in futures.values())  # noqa: E731
            with task_context.current.wait(self.link, are_done):
                return {key: future.result() for key, future in futures.items()}
        except (KeyboardInterrupt, SystemExit):  # the futures are lost, so their results are too
            for future in futures.values():
                future.cancel()
            raise

    def graph_calls(
        self,
        owner: object,
        graph: Mapping[str, Any],
        keys: Iterable[str],
        terms: Terms,
        future_class: type[F],
    ) -> tuple[GraphCalls, dict[str, F]]:
        """Return the part of a graph that the keys need, ready to be sent, and key -> future, which keeps `owner`
        alive.
        """
        self.link.check_open()
        self.functions.look()
        calls, tasks = pack_graph(graph, keys, self.functions, self.packer, terms)
        return calls, self.futures_of(owner, graph, calls, tasks, future_class)

    def send_object(
        self, obj: object, name: str | None, reference_class: type[ObjectReference] = ObjectReference
    ) -> ObjectReference:
        """Send an object as it is now. The scheduler stores it until its reference is collected and no task uses it.

        Raises:
            TypeError: if the name is not a `str`.
            SerializeObjectError: if the object cannot be serialised.
            ObjectTooLargeError: if the object is too large to be sent.
            DisconnectedError: if the client is disconnected.
        """
        self.link.check_open()
        if name is not None and not isinstance(name, str):
            raise TypeError(f"the name of an object must be a str, not {shown(name)}")
        what = "the object" if name is None else f"the object {name!r}"
        try:
            frames = self.serialised(obj)
        except SerializeObjectError as error:
            raise SerializeObjectError(f"{what}: {error}{cure_of(error)}") from error.__cause__
        self.packer.limit.check(what, frames)
        object_id = ObjectId(self.new_id())
        name = name or f"{type(obj).__name__}-{object_id.hex()[-8:]}"
        instruction = ObjectInstruction(InstructionKind.CREATE, object_id, name, frames)
        self.stored[object_id] = instruction
        reference = reference_class(name, object_id, size_of(frames), self.stored)
        weakref.finalize(reference, self.release, object_id).atexit = False
        self.link.store_object(instruction)
        return reference


_lock = threading.RLock()
_shared_cores: dict[tuple[int, ClientSettings], Core] = {}
"""(number of the worker process, settings) -> the core of the clients in tasks and of the unpickled clients"""


def shared_core(settings: ClientSettings) -> Core:
    """Return the core of this process for clients with `settings`."""
    key = (task_context.current.processor, settings)
    with _lock:
        core = _shared_cores.get(key)
        if core is None or core.link.closed_because:
            seconds = (settings.timeout_seconds, settings.heartbeat_interval_seconds)
            link = lifetime.shared_link(settings.address, seconds)
            core = Core(link, seconds, settings.read_serializer(), settings.profiling, is_shared=True)
            for ended in [known for known, other in _shared_cores.items() if other.link.closed_because]:
                del _shared_cores[ended]
            _shared_cores[key] = core
        return core


def results_of(futures: Mapping[str, Any]) -> dict[str, Any]:
    """Return worker -> result of its task, without workers that have left. Raises the error of the first failure."""
    errors = {worker: future.exception() for worker, future in futures.items()}
    return {worker: each.result() for worker, each in futures.items() if not isinstance(errors[worker], NoWorkerError)}
