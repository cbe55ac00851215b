"""ClientExecutor: a client as an executor of `concurrent.futures`.

Called by any thread of the user. It submits tasks to the client; the client's thread for callbacks ends the futures. A
future is pending until its task has ended, and can be cancelled until the task starts. While the executor holds its
lock, it calls no user code and ends no future.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures._base import PENDING
from functools import partial
from itertools import chain, islice
from typing import Any, ParamSpec, Protocol, TypeVar

from scaler.client.future import LeanCondition, ScalerFuture
from scaler.client.insight.presence import SchedulerInfo
from scaler.config import check_whole_number

P = ParamSpec("P")
T = TypeVar("T")

SUBMITTED_MOST = 1024
"""The most open tasks that an executor has at the cluster, by default."""


class SubmittingClient(Protocol):
    """The part of a client, with or without options, that an executor uses."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ScalerFuture[Any]: ...

    def info(self) -> SchedulerInfo: ...


class TaskFuture(Future[T]):
    """A future of the standard library; its task can be cancelled until the task starts."""

    task: ScalerFuture[T] | None = None
    """the client's future of the task while the task is submitted and has not ended; else None"""

    # Defaults of the standard library's future until an instance has its own: fewer objects and calls.
    _state = PENDING
    _result = None
    _exception: BaseException | None = None

    def __init__(self, executor: ClientExecutor) -> None:
        self._condition = LeanCondition()  # type: ignore[assignment]
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        self._executor = executor

    def cancel(self) -> bool:
        """Cancel the task unless it has started; the scheduler may have to decide. Return whether it is cancelled."""
        if self._executor.withdraw(self):
            self.drop()
        elif (task := self.task) is not None and task.cancel_waiting():
            super().cancel()
        return self.cancelled()

    def drop(self) -> None:
        """Mark the future as cancelled and notify the threads that wait for it."""
        super().cancel()
        self.set_running_or_notify_cancel()


class ClientExecutor(Executor):
    """Runs functions on the workers of a client. `shutdown` does not disconnect the client.

    At most `max_workers` tasks are submitted to the cluster at once; further tasks wait in this process. As with the
    executors of the standard library, a future can be cancelled until its task starts.

    Args:
        client: the client, which may have options.
        max_workers: the maximum number of tasks that the cluster has, and so runs, at once; None: 1,024.

    Raises:
        ValueError: if `max_workers` is not above 0, or not a whole number.
    """

    def __init__(self, client: SubmittingClient, max_workers: int | None = None) -> None:
        if type(max_workers) is int and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")  # the words of the standard library
        self._client = client
        self._submitted_most = None if max_workers is None else check_whole_number("max_workers", max_workers, 1, 10**9)
        self._changed = LeanCondition()
        self._waiting: OrderedDict[TaskFuture[Any], Callable[[], ScalerFuture[Any]]] = OrderedDict()
        self._submitted: set[TaskFuture[Any]] = set()
        self._is_shut_down = False

    def __repr__(self) -> str:
        return f"<ClientExecutor of {self._client!r}: {len(self._submitted)} submitted, {len(self._waiting)} waiting>"

    @property
    def _max_workers(self) -> int:
        """`max_workers`; if None, the number of connected workers. Libraries read this attribute of all executors."""
        return self._submitted_most or max(1, self._client.info().workers)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn(*args, **kwargs)` on a worker. The arguments are serialised when the task goes to the cluster.

        Raises:
            RuntimeError: after `shutdown`.
        """
        future: TaskFuture[T] = TaskFuture(self)
        submit = partial(self._client.submit, fn, *args, **kwargs)
        with self._changed:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            starts_now = not self._waiting and len(self._submitted) < (self._submitted_most or SUBMITTED_MOST)
            if starts_now:
                self._submitted.add(future)
            else:
                self._waiting[future] = submit
        if starts_now:
            self._start(future, submit)
        else:
            self._submit_waiting()
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **options: Any,
    ) -> Iterator[T]:
        """Yield `fn(*items)` for the items of all iterables, in their order, as the builtin `map` does.

        Args:
            fn: the function.
            iterables: one iterable for each argument.
            timeout: the longest time from now to the last result, in seconds.
            chunksize: the number of calls in one task.
            options: further arguments of the standard library's `Executor.map`, if that method has any.

        Raises:
            ValueError: if `chunksize` is not above 0.
            TimeoutError: if the map took longer (`concurrent.futures.TimeoutError`).
        """
        if chunksize < 1:
            raise ValueError("chunksize must be greater than 0")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout, **options)
        calls = zip(*iterables, strict=False)  # as the builtin `map`
        parts = super().map(partial(_run_all, fn), _in_parts(calls, chunksize), timeout=timeout, **options)
        return chain.from_iterable(map(_popped, parts))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no further calls. The client stays connected.

        Args:
            wait: whether to wait for the futures.
            cancel_futures: whether to cancel the futures whose tasks have not started.
        """
        with self._changed:
            self._is_shut_down = True
            dropped, submitted = [], []
            if cancel_futures:
                dropped, submitted = list(self._waiting), list(self._submitted)
                self._waiting.clear()
        for future in dropped:
            future.drop()
        for future in submitted:
            if (task := future.task) is not None:
                task.cancel_waiting(wait=False)
        if wait:
            with self._changed:
                while self._submitted or self._waiting:
                    self._changed.wait()

    def withdraw(self, future: TaskFuture[Any]) -> bool:
        """Withdraw a waiting task. Return False if the task was not waiting."""
        with self._changed:
            was_waiting = self._waiting.pop(future, None) is not None
            self._changed.notify_all()
        return was_waiting

    def _submit_waiting(self) -> None:
        most = self._submitted_most or SUBMITTED_MOST
        while True:
            with self._changed:
                if not self._waiting or len(self._submitted) >= most:
                    return
                future, submit = self._waiting.popitem(last=False)
                self._submitted.add(future)
            self._start(future, submit)

    def _start(self, future: TaskFuture[Any], submit: Callable[[], ScalerFuture[Any]]) -> None:
        try:
            task = submit()
        except BaseException as error:  # set on the future; an interrupt is raised here too
            future.set_exception(error)
            self._note_end(future)
            if not isinstance(error, Exception):  # this thread was interrupted
                raise
        else:
            future.task = task
            task.add_done_callback(partial(self._ended, future))

    def _ended(self, future: TaskFuture[Any], task: Future[Any]) -> None:
        """Pass the outcome of a task to its future. Runs in the client's thread for callbacks."""
        future.task = None  # it has the result, too
        if task.cancelled():
            future.drop()
        else:
            try:
                value = task.result()
            except BaseException as error:  # noqa: BLE001 - any exception of the task
                future.set_exception(error)
            else:
                future.set_result(value)
                del value
        self._note_end(future)
        if self._waiting:
            self._submit_waiting()

    def _note_end(self, future: TaskFuture[Any]) -> None:
        with self._changed:
            self._submitted.discard(future)
            self._changed.notify_all()


def _in_parts(items: Iterable[Any], size: int) -> Iterator[tuple[Any, ...]]:
    items = iter(items)
    while part := tuple(islice(items, size)):
        yield part


def _run_all(fn: Callable[..., T], calls: Iterable[Iterable[Any]]) -> list[T]:
    return [fn(*arguments) for arguments in calls]


def _popped(results: list[T]) -> Iterator[T]:
    results.reverse()
    while results:
        yield results.pop()
