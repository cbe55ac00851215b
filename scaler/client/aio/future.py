"""AsyncFuture: the future result of one task, for an event loop.

The client's thread ends the task; `EndedTasks` passes the end to the event loop, which it wakes once for all tasks that
have ended meanwhile. A small value is unpickled when it is read, in the loop's thread; a large one as it arrives, in a
thread of the loop's executor.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Any, TypeVar

from scaler.client.aio import queries
from scaler.client.calls.inputs import Input, Keys, ResultArgument
from scaler.client.foreign_words import OF_ASYNC_FUTURES, hints_at, refuses_operators, without_foreign_words
from scaler.client.future import FetchedFuture
from scaler.client.insight import markup
from scaler.client.insight.explanation import Story, story_of
from scaler.client.insight.task_log import LOG_SECONDS, TaskLog, TaskProgress, ask_log, ask_progress
from scaler.client.link.link import WANTED_SECONDS, WANTED_SECONDS_MOST
from scaler.client.outcome import ProfilingInfo, for_coroutine
from scaler.errors import is_error_of_task
from scaler.ids import TaskId

__tracebackhide__ = is_error_of_task

T = TypeVar("T")

_INTERNAL = frozenset({"as_argument", "end", "failed", "has_failed", "keys", "needs"})


@hints_at(OF_ASYNC_FUTURES)
@refuses_operators("await future")
class AsyncFuture(asyncio.Future[T], ResultArgument):
    """The result or the exception of a task: an `asyncio.Future`. Await it in the loop of its client.

    Cancelling it, or the asyncio task that awaits it, cancels the task on the workers, also while it runs.

    Attributes:
        task_id: the id of the task, 16 bytes.
        name: the name of the task: the name of its function, or a name that the user chose.
    """

    def __init__(self, task: FetchedFuture[T], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._task = task
        self.task_id: TaskId = task.task_id
        self.name = task.name

    def __dir__(self) -> list[str]:
        """Omit the methods for other calls. (The base class shows no attributes of instances.)"""
        return sorted({*without_foreign_words(type(self), super().__dir__()), "name", "task_id"} - _INTERNAL)

    def __repr__(self) -> str:
        return "<{} {} {}: {}>".format("AsyncFuture", *self._task.shown[1:])

    def _repr_html_(self) -> str:
        return markup.future("AsyncFuture", *self._task.shown[1:])

    def __await__(self) -> Generator[Any, None, T]:
        loop = self.get_loop()
        if asyncio.get_running_loop() is not loop:
            raise RuntimeError(
                f"the future of task {self.name} belongs to the event loop of its client: await it in that loop, or "
                "make a client in this one"
            )
        if not self.done():
            self._hint = loop.call_later(WANTED_SECONDS, self._want, WANTED_SECONDS)
            try:
                yield from super().__await__()
            finally:
                self._hint.cancel()
        return self.result()

    __iter__ = __await__

    def _want(self, seconds: float) -> None:
        """Tell the scheduler that a user waits for the result, again and again until the task has ended."""
        if not self.done():
            self._task.mark_wanted()
            seconds = min(2 * seconds, WANTED_SECONDS_MOST)
            self._hint = self.get_loop().call_later(seconds, self._want, seconds)

    def result(self) -> T:
        """Return what the task returned. It does not wait: `await` the future first.

        Raises:
            asyncio.InvalidStateError: if the task has not ended.
            asyncio.CancelledError: if the task was cancelled.
            ScalerError: if the task, the connection or the value failed; see `scaler.errors`.
            BaseException: the exception of the task.
        """
        super().result()
        try:
            return self._task.result()
        except StopIteration as stopped:
            raise for_coroutine(stopped, self.name) from stopped

    def exception(self) -> BaseException | None:
        """Return the exception of the task; None if it succeeded. Raises like `result` if open or cancelled."""
        super().exception()
        error = self._task.exception()
        return for_coroutine(error, self.name) if isinstance(error, StopIteration) else error

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task, also while it runs. Return False if it has already ended."""
        if not super().cancel(msg):
            return False
        self._task.cancel()
        return True

    def end(self) -> None:
        """End as the task has ended."""
        task = self._task
        if self.done():
            if task.has_failed:
                task.mark_error_read()  # the user has cancelled it, and wants no error
        elif task.cancelled():
            super().cancel(task.why_cancelled or None)
        elif task.has_large_value:
            reading = self.get_loop().run_in_executor(None, task.read)
            reading.add_done_callback(self._end_read)
        else:
            self.set_result(None)  # type: ignore[arg-type]  # `result` reads the value

    def _end_read(self, _reading: asyncio.Future[Any]) -> None:
        if not self.done():
            self.set_result(None)  # type: ignore[arg-type]

    async def explain(self) -> str:
        """Return one sentence: what the task waits for and what you can do about it, or how it ended."""
        known = story_of(self.task_id, self.name, self, None, 0) if self.done() else await self.story()
        return known.sentence

    async def story(self) -> Story:
        """Return what is known of the task: its state, its worker, what it waits for, why earlier attempts ended."""
        return await queries.story(self._task.link, self.task_id, self.name, self)

    async def logs(self, timeout: float | None = LOG_SECONDS) -> TaskLog:
        """Return what the task has written so far, as `ScalerFuture.logs` does."""
        return await queries.told(self._task.link, ask_log(self._task.link, self.task_id), timeout)

    async def progress(self, timeout: float | None = LOG_SECONDS) -> TaskProgress | None:
        """Return the latest report of the task, as `ScalerFuture.progress` does."""
        return await queries.told(self._task.link, ask_progress(self._task.link, self.task_id), timeout)

    async def rerun(self, *, again: bool = False) -> T:
        """Call the function of a failed task again in this process, as `ScalerFuture.rerun` does.

        The needed values are awaited. Then the function runs in the loop's thread, for debuggers, and blocks the loop.
        """
        __tracebackhide__ = True
        from scaler.client.rerun.failed_call import run  # noqa: PLC0415 - few programs need it
        from scaler.client.rerun.of_future import fetched  # noqa: PLC0415

        call = await queries.in_thread(partial(fetched, self._task, self._task.link, again=again))
        self._task.mark_error_read()
        value: T = run(call)
        return value

    def profiling_info(self) -> ProfilingInfo:
        """Return the time and memory that the task took, also if it failed.

        Raises:
            ValueError: if the task has not ended, or was not measured. Turn measuring on with
                `AsyncClient(profiling=True)` or `options(profiling=True)`.
        """
        return self._task.profiling_info()

    # For other calls

    def as_argument(self, link: object) -> tuple[Input | None, Any]:
        """Return what represents the result in the arguments of another call: see `ResultArgument.as_argument`."""
        return self._task.as_argument(link)

    @property
    def failed(self) -> Any:
        """See `ResultArgument.failed`."""
        return self._task.failed

    @property
    def keys(self) -> Keys:  # type: ignore[override]
        """See `ResultArgument.keys`."""
        return self._task.keys


class EndedTasks:
    """The open futures of one client in an event loop, and the tasks that have ended since the loop's last turn.

    It is a waiter of each task, as those of `concurrent.futures.wait` are: the client's thread calls `add_result`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._open: dict[FetchedFuture[Any], AsyncFuture[Any]] = {}
        self._ended: deque[FetchedFuture[Any]] = deque()
        self._is_turn_due = False

    def check_loop(self) -> None:
        """Raise `RuntimeError` if another event loop runs in this thread, or this one is closed."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:  # none runs
            running = self.loop
        if running is not self.loop or self.loop.is_closed():
            raise RuntimeError("this AsyncClient belongs to another event loop: make a client in this one")

    def future_of(self, task: FetchedFuture[T]) -> AsyncFuture[T]:
        """Return the future of a task in the event loop."""
        future = AsyncFuture(task, self.loop)
        if not task.add_waiter(self):
            future.end()
        else:
            self._open[task] = future
        return future

    def cancel_all(self) -> None:
        """Cancel all open futures."""
        for future in list(self._open.values()):
            future.cancel()

    def add_result(self, task: Any) -> None:
        """Have the loop end the future of a task. Called in the client's thread."""
        self._ended.append(task)
        if not self._is_turn_due:
            self._is_turn_due = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._end_futures)

    add_exception = add_cancelled = add_result

    def _end_futures(self) -> None:
        self._is_turn_due = False
        ended = self._ended
        while ended:
            task = ended.popleft()
            task.remove_waiter(self)
            future = self._open.pop(task, None)
            if future is not None:
                future.end()
