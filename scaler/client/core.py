"""Core: the link, functions and stored objects that all copies of a client in this process share.

Called by `Client`, in any thread of the user; prepares calls and passes them to the link. The core holds no reference
to a client: otherwise, no client could be garbage-collected. No part of a call is sent before the whole call is
checked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from scaler import task_context
from scaler.client import lifetime
from scaler.client.calls.client_pickling import ClientSettings
from scaler.client.calls.entry import NAME, Terms
from scaler.client.calls.graph import pack_graph
from scaler.client.calls.repeated_values import RepeatedValues
from scaler.client.future import ScalerFuture
from scaler.client.lifetime import Seconds
from scaler.client.link.thread import LinkThread
from scaler.client.maker import CallMaker
from scaler.client.map_run import MapRun
from scaler.client.map_stream import MapStream
from scaler.client.object_reference import ObjectReference
from scaler.config import check_number, check_timeout
from scaler.errors import is_error_of_task
from scaler.ids import TaskId
from scaler.pickling.serialization import DefaultSerializer, Serializer
from scaler.pickling.shipped_modules import Shipped

__tracebackhide__ = is_error_of_task

T = TypeVar("T")


class Core(CallMaker[LinkThread, ScalerFuture[Any]]):
    """One connection to a scheduler, used with one serializer. Thread-safe.

    Args:
        seconds: the link's time-out and the time between two heartbeats.
        is_shared: whether clients that were unpickled here share this core, so that no client may end it.
    """

    new_future = ScalerFuture

    def __init__(
        self,
        link: LinkThread,
        seconds: Seconds,
        serializer: Serializer,
        profiling: bool,
        is_shared: bool,
        shipped: Shipped | None = None,
    ) -> None:
        super().__init__(link, serializer, profiling, shipped)
        self.seconds = seconds
        self.is_shared = is_shared

    def submit(
        self, owner: object, fn: Callable[..., T], args: Sequence[Any], kwargs: dict[str, Any], terms: Terms
    ) -> ScalerFuture[T]:
        """Submit one task. The future of the task keeps `owner` alive."""
        link = self.link
        if link.closed_because:  # saves a call for each task
            link.check_open()
        function = self.function_of(fn, terms)
        task_id = TaskId(self.new_id())
        future: ScalerFuture[T] = ScalerFuture(
            task_id, link, self.serializer, owner, terms[NAME] or function.instruction.name
        )
        link.submit(function.entry(task_id, future, args, kwargs, terms))
        return future

    def map(
        self,
        fn: Callable[..., Any],
        items: Iterable[Sequence[Any]],
        terms: Terms,
        progress: bool,
        timeout: float | None,
        return_exceptions: bool,
        max_failures: float | None = None,
    ) -> list[Any]:
        """Run one task for each item and return the results."""
        timeout = self.check_map(timeout)
        function, repeated = self.function_of(fn, terms), self._repeated(items)
        run = MapRun(function, terms, self.serializer, self.link, timeout, return_exceptions, repeated, max_failures)
        return run.run(items, progress)

    def map_unordered(
        self,
        fn: Callable[..., Any],
        items: Iterable[Sequence[Any]],
        terms: Terms,
        timeout: float | None,
        return_exceptions: bool,
        window: float,
        max_failures: float | None = None,
    ) -> Iterator[Any]:
        """Run one task for each item and yield each result as soon as it arrives."""
        timeout = self.check_map(timeout)
        window = check_number("window", window, 1)
        function, repeated = self.function_of(fn, terms), self._repeated(items)
        tolerated = (return_exceptions, repeated, window, max_failures)
        run = MapStream(function, terms, self.serializer, self.link, timeout, *tolerated)
        return run.stream(items)

    def _repeated(self, items: Iterable[Sequence[Any]]) -> RepeatedValues | None:
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
        self.link.check_open()
        self.functions.look()
        calls, tasks = pack_graph(graph, keys, self.functions, self.packer, terms)
        futures = self.futures_of(owner, graph, calls, tasks)
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

    def send_object(
        self, obj: object, name: str | None, reference_class: type[ObjectReference] = ObjectReference
    ) -> ObjectReference:
        """Send an object, which the scheduler stores until its reference is collected and no task uses it."""
        self.link.check_open()
        return self.store_object(*self.store(obj, name, reference_class))


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
