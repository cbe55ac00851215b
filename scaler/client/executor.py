"""ClientExecutor: a client as an executor of `concurrent.futures`, for code that wants one.

Called by any thread of the user; submits to the client, whose thread for callbacks ends the futures. Its futures are
those of the standard library: one that waits here is pending, and one that was handed to the cluster is running. Must
never: call user code, or end a future, while it holds its lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from itertools import chain, islice
from typing import Any, ParamSpec, Protocol, TypeVar

from scaler.client.future import ScalerFuture

P = ParamSpec("P")
T = TypeVar("T")

HANDED_MOST = 1024
"""How many tasks are handed to the cluster at once, unless the user says otherwise."""


class Submits(Protocol):
    """A client, or one with options."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ScalerFuture[Any]: ...


class ClientExecutor(Executor):
    """Runs functions on the workers of a client. Its end is not the client's end.

    At most `max_workers` tasks are handed to the cluster at once; the others wait in this process. As with the
    executors of the standard library, a future can be cancelled as long as it waits, and not when it is running.

    Args:
        client: whose tasks they are.
        max_workers: the most tasks that are handed to the cluster at once, and so run at once; None: 1,024.

    Raises:
        ValueError: if `max_workers` is not above 0.
    """

    def __init__(self, client: Submits, max_workers: int | None = None) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        self._client = client
        self._most = max_workers or HANDED_MOST
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Future[Any], Callable[[], ScalerFuture[Any]]]] = deque()
        self._handed = 0
        self._is_shut_down = False

    def __repr__(self) -> str:
        return f"<ClientExecutor of {self._client!r}: {self._handed} handed over, {len(self._waiting)} waiting>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn(*args, **kwargs)` on a worker. The arguments are serialised when the task is handed over.

        Raises:
            RuntimeError: after `shutdown`.
        """
        future: Future[T] = Future()
        with self._changed:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append((future, partial(self._client.submit, fn, *args, **kwargs)))
        self._hand_over()
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **options: Any,
    ) -> Iterator[T]:
        """Yield `fn(*items)` for the items of all iterables, as the builtin `map` does, in their order.

        Args:
            fn: the function.
            iterables: an argument each.
            timeout: seconds from now to the last result.
            chunksize: how many calls make one task.
            options: of the standard library's `Executor.map`, if it has more.

        Raises:
            ValueError: if `chunksize` is not above 0.
            TimeoutError: if it took longer (`concurrent.futures.TimeoutError`).
        """
        if chunksize < 1:
            raise ValueError("chunksize must be greater than 0")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout, **options)
        calls = zip(*iterables, strict=False)  # as the builtin `map`
        parts = super().map(partial(_run_all, fn), _in_parts(calls, chunksize), timeout=timeout, **options)
        return chain.from_iterable(map(_popped, parts))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no further calls. The client stays connected.

        Args:
            wait: whether to wait for the futures.
            cancel_futures: whether to cancel those that wait in this process.
        """
        with self._changed:
            self._is_shut_down = True
            dropped = []
            if cancel_futures:
                dropped, self._waiting = list(self._waiting), deque()
        for future, _ in dropped:
            future.cancel()
            future.set_running_or_notify_cancel()
        if wait:
            with self._changed:
                self._changed.wait_for(lambda: not self._handed and not self._waiting)

    def _hand_over(self) -> None:
        """Hand over as many tasks as there is room for."""
        while True:
            with self._changed:
                if not self._waiting or self._handed >= self._most:
                    return
                future, submit = self._waiting.popleft()
                self._handed += 1
            if future.set_running_or_notify_cancel():
                self._start(future, submit)
            else:
                self._freed()

    def _start(self, future: Future[Any], submit: Callable[[], ScalerFuture[Any]]) -> None:
        try:
            task = submit()
        except BaseException as error:  # the future has it; an interrupt is raised here too
            future.set_exception(error)
            self._freed()
            if not isinstance(error, Exception):  # this thread was interrupted
                raise
        else:
            task.add_done_callback(partial(self._ended, future))

    def _ended(self, future: Future[Any], task: Future[Any]) -> None:
        """A task has ended. Runs in the client's thread for callbacks."""
        try:
            value = task.result()
        except BaseException as error:  # noqa: BLE001 - whatever the task has raised
            future.set_exception(error)
        else:
            future.set_result(value)
            del value
        self._freed()
        self._hand_over()

    def _freed(self) -> None:
        with self._changed:
            self._handed -= 1
            self._changed.notify_all()


def _in_parts(items: Iterable[Any], size: int) -> Iterator[tuple[Any, ...]]:
    items = iter(items)
    while part := tuple(islice(items, size)):
        yield part


def _run_all(fn: Callable[..., T], calls: Iterable[Iterable[Any]]) -> list[T]:
    return [fn(*arguments) for arguments in calls]


def _popped(results: list[T]) -> Iterator[T]:
    """Yield results without keeping them."""
    results.reverse()
    while results:
        yield results.pop()
