"""AsyncFuture: the future result of one task, for an event loop.

Created by the asyncio client; ended once by its link, in the thread of the loop. A small result is unpickled when it is
read, in the user's own task; a large one as it arrives, in a thread of the loop's executor. The turns of the link run
no user code.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, TypeVar

from scaler import task_context
from scaler.client.aio import queries
from scaler.client.aio.link import AsyncLink
from scaler.client.calls.entry import MakeError
from scaler.client.calls.inputs import Input, ResultArgument, blamed, error_of, other_client
from scaler.client.calls.items import name_of_item
from scaler.client.foreign_words import OF_ASYNC_FUTURES, hints_at, refuses_operators, without_foreign_words
from scaler.client.insight import markup
from scaler.client.insight.explanation import Story, story_of
from scaler.client.insight.task_log import LOG_SECONDS, TaskLog, TaskProgress, ask_log, ask_progress
from scaler.client.large_values import LargeValues
from scaler.client.link.link import WANTED_SECONDS, WANTED_SECONDS_MOST
from scaler.client.outcome import (
    ProfilingInfo,
    cancelled,
    error_key,
    failure_text,
    headline,
    headline_of,
    missing_result,
    read_error,
    read_profile,
    read_value,
    unread_result,
)
from scaler.errors import is_error_of_task
from scaler.ids import ObjectId, TaskId
from scaler.pickling.serialization import Frames, Serializer, size_of
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import TaskStatus

__tracebackhide__ = is_error_of_task

T = TypeVar("T")
A = TypeVar("A")

_FOR_THE_LINK = {"deliver", "fail", "notify", "receive_frames", "refuse", "settle", "store"}
_INTERNAL = frozenset(
    {
        "as_argument",
        "failed",
        "fetch",
        "forget",
        "is_being_fetched",
        "item_of",
        "keys",
        "large",
        "needs",
        *_FOR_THE_LINK,
    }
)

LARGE_BYTES = 1 << 20
"""Values of this size are pickled and unpickled in a thread of the loop's executor."""


class ValueOnItsWayError(Exception):
    """Raised for a future that cannot be an argument now: its value is on its way to this process, where it will be
    the only copy, or this is not the thread of the loop.

    Attributes:
        future: the future.
    """

    def __init__(self, future: AsyncFuture[Any]) -> None:
        super().__init__()
        self.future = future


@hints_at(OF_ASYNC_FUTURES)
@refuses_operators("await future")
class AsyncFuture(asyncio.Future[T], ResultArgument):
    """The result or the exception of a task: an `asyncio.Future`. Await it in the loop of its client.

    Cancelling it, or the asyncio task that awaits it, cancels the task on the workers, also while it runs.

    Attributes:
        task_id: the id of the task, 16 bytes.
        name: the name of the task: the name of its function, or the one that the user chose.
    """

    large: LargeValues[AsyncFuture[Any]] | None = None
    """says when its value is fetched if it is large; None: at once"""

    def __init__(self, task_id: TaskId, link: AsyncLink, serializer: Serializer, client: object, name: str) -> None:
        super().__init__(loop=link.loop)
        self.task_id = task_id
        self.name = name
        self._link = link
        self._serializer = serializer
        self._client = client  # a client lives at least as long as its open futures
        self._raw: TaskResult | None = None
        self._outcome: tuple[Any, BaseException | None] | None = None
        self._profile = b""
        if task_context.current.task:
            end_of_wait = task_context.current.expect(link)
            self.add_done_callback(lambda _future: end_of_wait())

    def _want_after(self, seconds: float) -> None:
        self._wanted = self._link.loop.call_later(seconds, self._want, seconds)

    def _want(self, seconds: float) -> None:
        """Tell the scheduler that somebody waits for the result, again and again."""
        if not self.done():
            self._link.mark_wanted(self.task_id)
            self._want_after(min(2 * seconds, WANTED_SECONDS_MOST))

    # For users

    def __dir__(self) -> list[str]:
        """Omit the methods for the link and for other calls. (The base class shows no attributes of instances.)"""
        return sorted({*without_foreign_words(type(self), super().__dir__()), "name", "task_id"} - _INTERNAL)

    @property
    def _shown(self) -> tuple[str, str, str, str]:
        state, raw = "open", self._raw
        if self.cancelled():
            state = "cancelled"
        elif self.done():
            error = self._outcome and self._outcome[1]
            has_failed = error is not None or (raw is not None and raw.status)
            state = failure_text(raw, error, self.name) if has_failed else "finished"
        return "AsyncFuture", self.name, self.task_id.hex()[-8:], state

    def __repr__(self) -> str:
        return "<{} {} {}: {}>".format(*self._shown)

    def _repr_html_(self) -> str:
        return markup.future(*self._shown)

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done():
            self._want_after(WANTED_SECONDS)
            try:
                yield from super().__await__()
            finally:
                self._wanted.cancel()
        return self.result()

    __iter__ = __await__

    def result(self) -> T:
        """Return what the task returned. It does not wait: `await` the future first.

        Raises:
            asyncio.InvalidStateError: if the task has not ended.
            asyncio.CancelledError: if the task was cancelled.
            ScalerError: if the task, the connection or the value failed; see `scaler.errors`.
            BaseException: the exception of the task.
        """
        super().result()
        value, error = self._read()
        if error is not None:
            self._mark_error_read()
        else:
            result: T = value
            return result
        try:
            raise error
        finally:
            del self, error  # an exception and the frame that raised it would keep each other alive

    def exception(self) -> BaseException | None:
        """Return the exception of the task; None if it succeeded. Raises like `result` if open or cancelled."""
        error = super().exception()
        if error is None and (error := self._read()[1]) is not None:
            self._mark_error_read()
        return error

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task, also while it runs. Return False if it has already ended."""
        if not super().cancel(msg):
            return False
        if self._input is not None:
            self._input.fail(CancelledError)  # its task may not be submitted yet
        self._link.cancel(self.task_id)
        return True

    async def explain(self) -> str:
        """Return one sentence: what the task waits for and what you can do about it, or how it ended."""
        known = story_of(self.task_id, self.name, self, None, 0) if self.done() else await self.story()
        return known.sentence

    async def story(self) -> Story:
        """Return what is known of the task: its state, its worker, what it waits for, why earlier attempts ended."""
        return await queries.story(self._link, self.task_id, self.name, self)

    async def logs(self, timeout: float | None = LOG_SECONDS) -> TaskLog:
        """Return what the task has written so far, as `ScalerFuture.logs` does."""
        return await queries.told(self._link, ask_log(self._link, self.task_id), timeout)

    async def progress(self, timeout: float | None = LOG_SECONDS) -> TaskProgress | None:
        """Return the latest report of the task, as `ScalerFuture.progress` does."""
        return await queries.told(self._link, ask_progress(self._link, self.task_id), timeout)

    async def rerun(self, *, again: bool = False) -> T:
        """Call the function of a failed task again in this process, as `ScalerFuture.rerun` does.

        The needed values are awaited. Then the function runs in the loop's thread, for debuggers, and blocks the loop.
        """
        __tracebackhide__ = True
        from scaler.client.rerun.failed_call import run  # noqa: PLC0415 - few programs need it
        from scaler.client.rerun.of_future import fetched_in_loop  # noqa: PLC0415

        call = await fetched_in_loop(self, self._link, again=again)
        self._mark_error_read()
        value: T = run(call)
        return value

    def profiling_info(self) -> ProfilingInfo:
        """Return the time and memory that the task took, also if it failed.

        Raises:
            ValueError: if the task has not ended, or was not measured. Turn measuring on with
                `AsyncClient(profiling=True)` or `options(profiling=True)`.
        """
        return read_profile(self._profile, self.name, self.done())

    def _read(self) -> tuple[Any, BaseException | None]:
        outcome = self._outcome
        if outcome is None:
            raw = self._raw
            assert raw is not None
            outcome = self._outcome = self._decode(raw, [raw.payload])
            if not raw.status:
                self._raw = None
        return outcome

    def _decode(self, raw: TaskResult, frames: Frames) -> tuple[Any, BaseException | None]:
        if not raw.status:
            value, error = read_value(self._serializer, frames)
            return value, error and unread_result(error, self._full_name())
        value, error = None, self._failure(raw)
        if isinstance(error, StopIteration):  # a generator that raises it, as `__await__` is one, has returned
            stopped = RuntimeError(f"task {self.name} raised StopIteration")
            stopped.__cause__ = error
            return None, stopped
        return value, error

    def _failure(self, raw: TaskResult) -> BaseException:
        return read_error(raw, blamed(self._full_name(), self.needs), self.keys)

    def _full_name(self) -> str:
        return self.name if self.item_of is None else name_of_item(self.name, *self.item_of)

    @property
    def is_being_fetched(self) -> bool:
        """Whether its large value is on its way to this process, and only here then."""
        raw = self._raw
        return raw is not None and raw.size > 0 and self._input is None and not self.done()

    def as_argument(self, link: object) -> tuple[Input | None, Any]:
        """Return what stands for its result in another call, see `ResultArgument`. Raises `ValueOnItsWayError`."""
        if link is not self._link:
            raise other_client(self.name)
        if self.is_being_fetched or not self._link.is_own_thread():
            raise ValueOnItsWayError(self)
        known, raw = self._input, self._raw
        if known is None:
            if self._outcome is not None and self._outcome[1] is None:
                return None, self._outcome[0]
            known = self._input = Input(self.task_id, self.name, self.needs)
            if raw is not None:
                known.end(raw)
                if raw.status:
                    self._mark_error_read()
            elif self.done():
                known.fail(partial(error_of, self))
        return known, None

    # For the link

    def settle(self, value: Any) -> None:
        """End with a value."""
        self._end(value, None)

    def deliver(self, result: TaskResult) -> None:
        self._profile = result.profile
        if self._input is not None:
            self._input.end(result)
        if not self.done():
            self._raw = result
            if result.status:
                self._note_error(partial(headline, result, self.name))
            self.set_result(None)  # type: ignore[arg-type]  # `result` reads the value

    def refuse(self, result: TaskResult) -> None:
        if result.status == TaskStatus.CANCELED:
            super().cancel()
        else:
            self.deliver(result)

    def store(self, result: TaskResult) -> None:
        self._profile = result.profile
        self._raw = result
        if self._input is not None:
            self._input.end(result)
            self._release = weakref.finalize(self, self._link.forget_result, ObjectId(self.task_id))
            self._release.atexit = False
        due = [self] if self.large is None else self.large.add(self, result.size)
        if due is None:
            self.forget()
        for future in due or ():
            future.fetch()

    def fetch(self) -> None:
        """Ask for its large value."""
        self._link.fetch(ObjectId(self.task_id), self, self._input is not None)

    def forget(self) -> None:
        """Have the scheduler delete its large value."""
        self._link.forget_result(ObjectId(self.task_id))

    def receive_frames(self, object_id: ObjectId, frames: Frames | None) -> None:  # noqa: ARG002
        raw = self._raw
        if frames is None or raw is None:
            self.fail(missing_result)
        elif size_of(frames) < LARGE_BYTES:
            self._end(*self._decode(raw, frames))
        else:
            reading = self._link.loop.run_in_executor(None, self._decode, raw, frames)
            reading.add_done_callback(lambda done: self._end(*done.result()))

    def _note_error(self, describe: Callable[[], str]) -> None:
        if self._input is None and self.item_of is None:  # else it is the error of other tasks too, or of the map
            self._link.end_warnings.note_error(error_key(self.task_id, self.keys), describe)

    def _mark_error_read(self) -> None:
        self._link.end_warnings.error_was_read(error_key(self.task_id, self.keys), bool(self.keys))

    def _end(self, value: Any, error: BaseException | None) -> None:
        if not self.done():
            self._outcome = value, error
            if error is not None:
                self._note_error(partial(headline_of, error))
            self.set_result(None)  # type: ignore[arg-type]  # `result` returns the outcome

    def fail(self, make_error: MakeError) -> None:
        error = make_error()
        if self._input is not None:
            self._input.fail(make_error)
        if isinstance(error, CancelledError):
            why = str(error)
            super().cancel(str(cancelled(self._full_name(), bool(self.keys), why)) if why else None)
        else:
            self._end(None, error)

    def notify(self) -> None:
        """Do nothing: whoever awaits it is woken by the loop."""
