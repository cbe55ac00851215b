"""Caller: the calls that a client and a client with options have in common.

`Client.options` returns a `ClientWithOptions`, which is cheap to create. Any thread of the user may call its methods.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from scaler.client.calls.items import check_items, not_of_map
from scaler.client.calls.job_names import MAP_WINDOW, WINDOW, OnChange, job_of_map, job_of_start, window_of_map
from scaler.client.calls.options import (
    TakesOptions,
    TaskOptions,
    effective,
    for_each_worker,
    for_executor,
    for_one,
    named_as,
)
from scaler.client.core import Core, results_of
from scaler.client.executor import ClientExecutor
from scaler.client.foreign_words import OF_CLIENTS, hints_at
from scaler.client.future import ScalerFuture
from scaler.client.insight import presence
from scaler.client.insight.presence import ObjectInfo, SchedulerInfo, WorkerInfo
from scaler.client.maps.map_run import MapRun
from scaler.client.maps.map_stream import MapStream
from scaler.errors import is_error_of_task
from scaler.jobs.names import check_known_name
from scaler.pickling.shipped_modules import Module

if TYPE_CHECKING:
    from scaler.client.jobs.job import Job

__tracebackhide__ = is_error_of_task

P = ParamSpec("P")
T = TypeVar("T")


@hints_at(OF_CLIENTS)
@named_as("Client")
class Caller(TakesOptions["ClientWithOptions"]):
    """Runs functions and graphs with a client and its task options."""

    __slots__ = ()

    @property
    @abstractmethod
    def _caller(self) -> tuple[object, Core, TaskOptions]:
        """The client (which its open futures keep alive), the core of the client, and the options of the tasks."""

    def _with_options(self, options: TaskOptions) -> ClientWithOptions:
        client, core, known = self._caller
        return ClientWithOptions(client, core, effective(options.over(known)))

    def info(self) -> SchedulerInfo:
        """Return how many workers, clusters and clients are connected to the scheduler, and how many tasks wait.

        Raises:
            TimeoutError: if no scheduler answered for `timeout_seconds`.
            DisconnectedError: if the client is disconnected.
        """
        link = self._caller[1].link
        return presence.wait(link, presence.info(link.address))

    def workers(self) -> list[WorkerInfo]:
        """Return the connected workers: name, cluster, tasks, versions, capabilities.

        Raises:
            TimeoutError: if no scheduler answered for `timeout_seconds`.
            DisconnectedError: if the client is disconnected.
        """
        return presence.wait(self._caller[1].link, presence.workers())

    def objects(self) -> list[ObjectInfo]:
        """Return the objects that the scheduler stores for this client, the largest first.

        Objects are values of `send_object`, functions, large arguments of open tasks, and large results that were not
        read. Of more than 1,000 objects only the largest are returned.

        Raises:
            TimeoutError: if no scheduler answered for `timeout_seconds`.
            DisconnectedError: if the client is disconnected.
        """
        return presence.wait(self._caller[1].link, presence.objects())

    def wait_for_workers(self, n_workers: int = 1, timeout: float | None = None) -> SchedulerInfo:
        """Wait until at least `n_workers` workers are connected, and return what `info` returns.

        Args:
            n_workers: the number of workers.
            timeout: seconds; None: no limit while a scheduler answers.

        Raises:
            TimeoutError: if it took longer than `timeout`, or no scheduler answered for `timeout_seconds`.
            ConfigError: if an argument is not a number in range; it is a `ValueError`.
            DisconnectedError: if the client is disconnected.
        """
        return presence.wait_for_workers(self._caller[1].link, n_workers, timeout)

    def run_on_all(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> dict[str, T]:
        """Run `fn(*args, **kwargs)` once on each connected worker, and return the results by the names of the workers.

        On each worker `fn` runs before all waiting tasks of this client, and after the running ones. If no worker is
        connected, the call waits for one. Workers that join or leave meanwhile are left out. Worker processes that
        start later do not run `fn`: use an `initializer` for that (docs/howto/worker-processes.md).

        Raises:
            TypeError: if `fn` is not callable or does not take these arguments.
            SerializeObjectError: if the function or an argument cannot be serialised.
            ObjectTooLargeError: if the function or an argument is larger than the scheduler accepts.
            ConfigError: if two workers have the same name, or this client has the option `capabilities`, `memory`,
                `no_worker_timeout` or `max_failures`; it is a `ValueError`.
            TimeoutError: if no scheduler answered for `timeout_seconds`.
            DisconnectedError: if the client is disconnected.
            BaseException: the exception of the first worker on which `fn` failed, once `fn` has ended on all workers.
        """
        client, core, options = self._caller
        for_each_worker(options)
        function = core.functions.get(fn).instruction.name
        presence.wait_for_workers(core.link, 1, None)
        futures: dict[str, ScalerFuture[T]] = {}
        try:
            for worker in presence.names_of(presence.wait(core.link, presence.workers())):
                futures[worker] = core.submit(
                    client, fn, args, kwargs, core.pinned(options, function, worker), ScalerFuture
                )
            return results_of(futures)
        except BaseException:  # raised again: the results are not read
            for future in futures.values():
                future.cancel()
            raise

    def restart_workers(self) -> None:
        """Replace the processes of all workers, to get rid of imported modules, caches and leaks.

        An old process finishes the tasks that it has received. Tasks submitted after this call run in new processes.
        A process stays while tasks submitted by its tasks are open. Workers whose engine has no processes of its own
        ignore this call (docs/howto/worker-processes.md).

        Raises:
            TimeoutError: if no scheduler answered for `timeout_seconds`.
            DisconnectedError: if the client is disconnected.
            NotAllowedError: if the key of the client is not that of an admin, or the client is inside a task.
        """
        _, core, _ = self._caller
        presence.wait(core.link, presence.restart())
        core.functions.workers_are_new()

    def upload(self, *modules: Module) -> None:
        """Send your own modules along with all functions that are submitted from now on, so that the workers need not
        have them (docs/howto/modules.md).

        Args:
            modules: modules or packages, or their paths: a `.py` file, or the folder of a package.

        Raises:
            ConfigError: if a module has no source or has compiled parts, or all together are too large; it is a
                `ValueError`.
        """
        self._caller[1].functions.ship(modules)

    def as_executor(self, max_workers: int | None = None) -> ClientExecutor:
        """Return an executor of `concurrent.futures` whose tasks run with this client and these options.

        Args:
            max_workers: the maximum number of tasks that the cluster has at once; further tasks wait in this process.
                None: 1,024.

        Raises:
            ValueError: if `max_workers` is not above 0.
            ConfigError: if this client has the option `seed` or `max_failures`; it is a `ValueError`.
        """
        for_executor(self._caller[2])
        return ClientExecutor(self.options(), max_workers)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> ScalerFuture[Any]:
        """Call a function by the name under which workers serve it, in any language (docs/howto/other-languages.md).
        The call waits for a worker that serves the function.

        Arguments and result are JSON: None, bool, int, float, str, and lists and dicts of these. A tuple arrives as a
        list. All keyword arguments belong to the function.

        Args:
            name: the name of the function, such as `area` of `scaler_cluster --functions area=shapes:area`.

        Raises:
            TypeError: if an argument is a future or an `ObjectReference`.
            SerializeObjectError: if an argument is not JSON.
            ConfigError: if the name is not valid; it is a `ValueError`.
            DisconnectedError: if the client is disconnected.
        """
        client, core, options = self._caller
        return core.call(client, name, args, kwargs, options, ScalerFuture)

    @overload
    def map(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Sequence[Any]],
        *,
        progress: bool = ...,
        timeout: float | None = ...,
        return_exceptions: Literal[False] = ...,
        window: int = ...,
        job: str | None = ...,
        on_change: OnChange | None = ...,
        keep_for: float | str | None = ...,
    ) -> list[T]: ...

    @overload
    def map(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Sequence[Any]],
        *,
        progress: bool = ...,
        timeout: float | None = ...,
        return_exceptions: bool,
        window: int = ...,
        job: str | None = ...,
        on_change: OnChange | None = ...,
        keep_for: float | str | None = ...,
    ) -> list[T | BaseException]: ...

    def map(
        self,
        fn: Callable[..., Any],
        iterable: Iterable[Sequence[Any]],
        *extra: Any,
        progress: bool = False,
        timeout: float | None = None,
        return_exceptions: bool = False,
        window: int = MAP_WINDOW,
        job: str | None = None,
        on_change: OnChange | None = None,
        keep_for: float | str | None = None,
        **unknown: Any,
    ) -> list[Any]:
        """Run `fn(*item)` for each item and return the results in the order of the items.

        Items are drawn in this thread while tasks run, and each task gets its arguments as they are then. At most
        `window` tasks are open at once. Futures of this client may be arguments, as for `submit`, except with `job`.

        If a task fails, the time-out passes, or this call is interrupted, the open tasks are cancelled, and the
        iterator of the items is closed if it has a method `close` (docs/howto/maps.md). An item that cannot be
        serialised or sent, or that `fn` does not take, counts as a failed task, except with `job`.

        Args:
            fn: the function.
            iterable: the arguments of each task: tuples or lists.
            progress: whether to show a progress bar on standard error.
            timeout: seconds for the whole map.
            return_exceptions: whether to return the exception of a failed task as its result and run the other tasks.
                The option `max_failures` has the same effect, up to its limit.
            window: the most tasks that are open at once, 16,384 at most. Refused with `job`, whose items are all read
                before the first result.
            job: the name of a job, in which the scheduler keeps the results. If this program ends before the map, the
                same call in another program resumes the map (docs/howto/long-jobs.md).
            on_change: the treatment of an existing job of this name with another function or other rows. "raise", the
                default, raises `JobConflictError`; "restart" drops its results and runs all rows; "keep" keeps the
                results of unchanged rows and runs all others. Only with `job`.
            keep_for: the time from the last change of the job to its removal: seconds, a text such as "12h", "30d" or
                "1y" (365 days), or "ever". None leaves the time as it is; a new job gets 30 days. Only with `job`.

        Raises:
            JobConflictError: if the job of this name has another function, other rows or other options.
            JobError: if the scheduler cannot keep the job.
            TooManyFailuresError: if more tasks have failed than the option `max_failures` allows.
            TypeError: if `fn` is not callable, or an item is neither a tuple nor a list, or `fn` does not take it.
            ConfigError: if `timeout` is not a number, or negative; it is a `ValueError`.
            SerializeObjectError: if the function or an argument cannot be serialised.
            ObjectTooLargeError: if the function or an argument is larger than the scheduler accepts.
            MissingObjects: if this client has cleared the object of an `ObjectReference`.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if it took longer than `timeout`, or no scheduler answered for `timeout_seconds`.
            BaseException: the exception of the first task that failed, unless `return_exceptions`.
        """
        if extra or unknown:
            raise not_of_map(Caller.map, unknown)
        check_items("map", fn, iterable)
        window_of_map(job, window, MAP_WINDOW)
        on_change = job_of_map(job, on_change, keep_for)
        _, core, options = self._caller
        if job is not None:
            from scaler.client.jobs import job_calls  # noqa: PLC0415 - few programs have jobs

            timeout = core.check_map(timeout)
            request = job_calls.OpenJobCall(fn, iterable, options, job, on_change, keep_for)
            kept = job_calls.attend(core, request, return_exceptions, timeout)
            return job_calls.results(kept, options.max_failures, return_exceptions, progress)
        call = core.map_call(fn, iterable, options, timeout, return_exceptions, window)
        return MapRun(call).run(iterable, progress)

    starmap = map  # noqa: A003 - the name is a public contract
    """Alias of `map`, for users of `multiprocessing.Pool`."""

    def start(
        self,
        fn: Callable[..., Any],
        iterable: Iterable[Sequence[Any]],
        name: str | None = None,
        *,
        job: str | None = None,
        keep_for: float | str | None = None,
        on_change: OnChange = "raise",
        **unknown: Any,
    ) -> Job:
        """Run `fn(*item)` for each item as a detached job, which the scheduler keeps (docs/howto/long-jobs.md).

        It returns when all rows are on the scheduler's disk. The same call again returns a handle of the same job.

        Args:
            fn: the function.
            iterable: the arguments of each row: tuples or lists.
            name: the name of the job.
            job: another spelling of `name`, as in `map`: pass one of the two.
            keep_for: the time from the last change of the job to its removal: seconds, a text such as "12h", "30d" or
                "1y" (365 days), or "ever". None leaves the time as it is; a new job gets 30 days.
            on_change: the treatment of an existing job of this name with another function or other rows. "raise" raises
                `JobConflictError`; "restart" drops its results and runs all rows; "keep" keeps the results of unchanged
                rows and runs all others.

        Raises:
            JobConflictError: if the job of this name has another function, other rows or other options.
            JobError: if the scheduler cannot keep the job.
            ConfigError: if an argument is out of range or not a valid name; it is a `ValueError`.
            TypeError, SerializeObjectError: as `map`.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if no scheduler answered for `timeout_seconds`.
        """
        if unknown:
            raise not_of_map(Caller.start, unknown)
        check_items("start", fn, iterable)
        found = job_of_start(job, name)
        from scaler.client.jobs import job_calls  # noqa: PLC0415 - few programs have jobs

        _, core, options = self._caller
        return job_calls.start(core, job_calls.OpenJobCall(fn, iterable, options, found, on_change, keep_for))

    def job(self, name: str) -> Job:
        """Return a handle of the job of this name, started by any client of the same owner.

        Raises:
            JobError: if there is no job of this name.
            TypeError: if the name is not a `str`.
            ConfigError: if the name is not valid; it is a `ValueError`.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if no scheduler answered for `timeout_seconds`.
        """
        check_known_name(name)
        from scaler.client.jobs import job_calls  # noqa: PLC0415 - few programs have jobs

        return job_calls.find(self._caller[1], name)

    def jobs(self) -> list[Job]:
        """Return a handle of each job of this owner.

        Raises:
            JobError: if the scheduler keeps no jobs.
            DisconnectedError: if the client is disconnected.
            TimeoutError: if no scheduler answered for `timeout_seconds`.
        """
        from scaler.client.jobs import job_calls  # noqa: PLC0415 - few programs have jobs

        return job_calls.find_all(self._caller[1])

    @overload
    def map_unordered(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Sequence[Any]],
        *,
        timeout: float | None = ...,
        return_exceptions: Literal[False] = ...,
        window: int = ...,
        job: str | None = ...,
        on_change: OnChange | None = ...,
        keep_for: float | str | None = ...,
    ) -> Iterator[T]: ...

    @overload
    def map_unordered(
        self,
        fn: Callable[..., T],
        iterable: Iterable[Sequence[Any]],
        *,
        timeout: float | None = ...,
        return_exceptions: bool,
        window: int = ...,
        job: str | None = ...,
        on_change: OnChange | None = ...,
        keep_for: float | str | None = ...,
    ) -> Iterator[T | BaseException]: ...

    def map_unordered(
        self,
        fn: Callable[..., Any],
        iterable: Iterable[Sequence[Any]],
        *,
        timeout: float | None = None,
        return_exceptions: bool = False,
        window: int = WINDOW,
        job: str | None = None,
        on_change: OnChange | None = None,
        keep_for: float | str | None = None,
        **unknown: Any,
    ) -> Iterator[Any]:
        """Run `fn(*item)` for each item and yield each result as soon as it arrives.

        Items are drawn in the thread that reads the results. At most `window` tasks are open or have unread results, so
        the iterable may be infinite. A result that has arrived is yielded before the next item is drawn, unless the
        items are a list or a tuple. While 256 MiB of large results are unread, further ones wait at the scheduler. When
        you stop reading (`break`, `close`), the open tasks are cancelled, and the iterator of the items is closed, as
        that of `map`.

        Args:
            fn: the function.
            iterable: the arguments of each task: tuples or lists.
            timeout: seconds for the whole map.
            return_exceptions: whether to yield the exception of a failed task as its result and run the other tasks.
            window: the most tasks that are open or have unread results; 16,384 at most.
            job: the name of a job, as for `map`: results that the scheduler has are yielded first. All items are then
                read at once, so `window` is refused.
            on_change: as for `map`.
            keep_for: as for `map`.

        Raises:
            ConfigError: if `timeout` or `window` is not a number in range; it is a `ValueError`.
            BaseException: as `map` does.
        """
        if unknown:
            raise not_of_map(Caller.map_unordered, unknown)
        check_items("map_unordered", fn, iterable)
        window_of_map(job, window, WINDOW)
        on_change = job_of_map(job, on_change, keep_for)
        _, core, options = self._caller
        if job is not None:
            from scaler.client.jobs import job_calls  # noqa: PLC0415 - few programs have jobs

            timeout = core.check_map(timeout)
            request = job_calls.OpenJobCall(fn, iterable, options, job, on_change, keep_for)
            kept = job_calls.attend(core, request, return_exceptions, timeout)
            return job_calls.results_as_they_come(kept, options.max_failures, return_exceptions)
        call = core.map_call(fn, iterable, options, timeout, return_exceptions, window)
        return MapStream(call).stream(iterable)

    @overload
    def get(self, graph: Mapping[str, Any], keys: Iterable[str], block: Literal[True] = ...) -> dict[str, Any]: ...

    @overload
    def get(
        self, graph: Mapping[str, Any], keys: Iterable[str], block: Literal[False]
    ) -> dict[str, ScalerFuture[Any]]: ...

    @overload
    def get(self, graph: Mapping[str, Any], keys: Iterable[str], block: bool) -> dict[str, Any]: ...

    def get(self, graph: Mapping[str, Any], keys: Iterable[str], block: bool = True) -> dict[str, Any]:
        """Run the part of a graph that `keys` need, and return key -> value in the order of `keys`.

        A graph is a dictionary. A tuple that begins with a function is a call: its `str` arguments are keys, replaced
        by their values or results; its other arguments are literals. Any other value is data.

        When a node fails, all nodes that need it fail with the same exception. The other nodes still run.

        Args:
            graph: key -> data, an `ObjectReference`, or a call `(fn, argument, ...)`.
            keys: the keys to return. Nodes that they do not need do not run.
            block: whether to wait for the values. If False, the values of the dictionary are futures, and cancelling
                one of them cancels the whole graph.

        Raises:
            KeyError: if a key or an argument is not in the graph, or `keys` has a key twice.
            TypeError: if the graph is malformed, or a function does not take the arguments of its node.
            graphlib.CycleError: if nodes depend on each other in a circle.
            SerializeObjectError: if a function or a value cannot be serialised.
            ObjectTooLargeError: if a function or a value is larger than the scheduler accepts.
            MissingObjects: if this client has cleared the object of an `ObjectReference`.
            DisconnectedError: if the client is disconnected.
            BaseException: the exception of the first of `keys` that failed, if `block`.
        """
        client, core, options = self._caller
        return core.get(client, graph, keys, block, core.terms(for_one(options), spawns=True))


class ClientWithOptions(Caller):
    """A client with options, returned by `Client.options`. Thread-safe; can be pickled.

    Attributes:
        task_options: the options.
    """

    __slots__ = ("_client", "_core", "task_options")

    def __init__(self, client: object, core: Core, task_options: TaskOptions) -> None:
        self._client = client
        self._core = core
        self.task_options = task_options

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return methodcaller("options", self.task_options), (self._client,)

    def __repr__(self) -> str:
        return f"{self._client!r} with {self.task_options!r}"

    @property
    def _caller(self) -> tuple[object, Core, TaskOptions]:
        return self._client, self._core, self.task_options

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> ScalerFuture[T]:
        """Like `Client.submit`, but all keyword arguments belong to `fn`."""
        core = self._core
        return core.submit(self._client, fn, args, kwargs, core.terms(for_one(self.task_options)), ScalerFuture)
