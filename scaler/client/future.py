"""ScalerFuture: the future result of one task.

The client creates a future, the link's thread ends it once, and any thread of the user reads it. The thread that reads
the result unpickles it, so the link's thread runs no user code.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from _thread import LockType, RLock
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures._base import FINISHED, PENDING
from functools import partial
from typing import Any, TypeVar

from scaler import task_context
from scaler.client.calls.entry import MakeError
from scaler.client.calls.inputs import Input, ResultArgument, blamed, error_of, other_client
from scaler.client.foreign_words import OF_FUTURES, hints_at, refuses_operators, without_foreign_words
from scaler.client.insight import markup, task_log
from scaler.client.insight.explanation import (
    ANSWER_SECONDS,
    Story,
    request_story,
    story_of,
    timeout_text,
    unfetched_text,
)
from scaler.client.insight.task_log import LOG_SECONDS, TaskLog, TaskProgress
from scaler.client.large_values import LARGE_BYTES, ResultFetch
from scaler.client.link.link import WANTED_SECONDS, WANTED_SECONDS_MOST, ClientLink
from scaler.client.link.requests import OnOutput
from scaler.client.outcome import (
    ProfilingInfo,
    cancelled,
    error_key,
    failure_text,
    for_coroutine,
    headline,
    headline_of,
    read_error,
    read_profile,
    read_value,
    unread_result,
)
from scaler.config import plain_number
from scaler.errors import is_error_of_task
from scaler.ids import ObjectId, TaskId
from scaler.pickling.serialization import Frames, Serializer, size_of
from scaler.texts import shown
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import TaskStatus

__tracebackhide__ = is_error_of_task

T = TypeVar("T")

_UNREAD_VALUE: Any = None
"""the result that the base class stores; `result` reads the value of the task when it is called"""

CANCEL_ATTEMPTS = 3
"""The most requests of one `cancel_waiting`. After the first, a task queued at a worker starts or is recalled."""

_NO_CALLBACKS: Any = ()
"""an empty placeholder, which a list replaces when the first callback is added"""

_wait_of_threading: Any = threading.Condition.wait


class LeanCondition(RLock):  # type: ignore[misc]  # the interpreter allows it, so taking the lock runs no Python
    """A condition variable that consists of one lock, and one more lock for each waiting thread.

    A `threading.Condition` takes a kilobyte and nine objects. If each open future had one, the garbage collector would
    take
    half of the client's time for a submit.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[LockType] | None = None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the next `notify_all`, at most `timeout` seconds. Return False if the time-out passed.

        The thread waits in a method of the standard library, so a cancelled task is interrupted there, not in Scaler.
        """
        if self._waiters is None:
            self._waiters = []
        was_woken: bool = _wait_of_threading(self, timeout)
        return was_woken

    def notify_all(self) -> None:
        """Wake all threads that wait. The caller must hold the lock."""
        if self._waiters:
            for waiter in self._waiters:
                waiter.release()
            self._waiters.clear()


class _Waiters(list[Any]):
    """The waiters that `wait` and `as_completed` add to one future.

    The start and the end of each wait are reported to the context of the task in which the user waits.
    """

    def __init__(self, link: ClientLink) -> None:
        super().__init__()
        self._link = link
        self._ends: dict[int, Callable[[], None]] = {}

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        self._ends[id(waiter)] = task_context.current.expect(self._link)

    def remove(self, waiter: Any) -> None:
        super().remove(waiter)
        self._ends.pop(id(waiter))()


class _EndWaiter(threading.Event):
    """An event, set when a future ends or a request is answered; also a waiter of `concurrent.futures`.

    It is set in the link's thread. Users may wait for it in the thread for callbacks, which therefore cannot set it.
    """

    def set_by(self, _news: object) -> None:
        self.set()

    add_result = add_exception = add_cancelled = set_by


class _UnreadError(Exception):
    """A placeholder for the exception of a task, while the exception is not yet unpickled."""


_UNREAD = _UnreadError()

_INTERNAL = frozenset(
    {
        *("as_argument", "ask_report", "concern", "deliver", "fail", "failed", "has_failed", "keys"),
        *("mark_error_read", "needs", "notify", "read", "refuse", "settle", "shown", "store", "cancel_waiting"),
    }
)


@hints_at(OF_FUTURES)
@refuses_operators("future.result()")
class ScalerFuture(Future[T], ResultArgument):
    """The result or the exception of a task: a `concurrent.futures.Future` that can also be awaited.

    A large result (more than 16 KiB) stays on the host of its worker until it is read. If the result is lost before it
    is read, the task runs again.

    Attributes:
        task_id: the id of the task, 16 bytes.
        name: the name of the task: the name of its function, or a name that the user chose.
    """

    # Defaults until an instance has its own.
    _state = PENDING
    _result = None
    _exception: BaseException | None = None
    _done_callbacks = _NO_CALLBACKS
    _raw: TaskResult | None = None
    _pending_fetch: ResultFetch | None = None
    _release: weakref.finalize[[ObjectId], ScalerFuture[T]] | None = None
    _outcome: tuple[Any, BaseException | None] | None = None
    _has_callback = False
    _is_only_here = False
    """whether its large value has arrived, and the scheduler no longer has it"""
    _why_cancelled = ""
    _profile = b""

    def __init__(
        self, task_id: TaskId, link: ClientLink, serializer: Serializer, client: object, name: str = "task"
    ) -> None:
        # Like the standard library's future, with fewer objects: a full collection visits all open futures.
        self._condition = LeanCondition()  # type: ignore[assignment]
        self._waiters = _Waiters(link) if task_context.current.task else []
        self.task_id = task_id
        self.name = name
        self._link = link
        self._serializer = serializer
        self._client = client  # a client lives at least as long as its open futures

    # For users

    def __dir__(self) -> list[str]:
        """Return the public attributes, without those that only other modules use."""
        return [name for name in without_foreign_words(type(self), super().__dir__()) if name not in _INTERNAL]

    @property
    def shown(self) -> tuple[str, str, str, str]:
        """The class, name, short id and state of the task, as texts for display."""
        state = "open"
        if self.cancelled():
            state = "cancelled"
        elif self.done():
            error = self._exception
            state = "finished" if error is None else failure_text(self._raw, error, self.name)
        return "ScalerFuture", self.name, self.task_id.hex()[-8:], state

    def __repr__(self) -> str:
        return "<{} {} {}: {}>".format(*self.shown)

    def _repr_html_(self) -> str:
        return markup.future(*self.shown)

    def result(self, timeout: float | None = None) -> T:
        """Return what the task returned. Wait for the result, at most `timeout` seconds.

        Raises:
            TimeoutError: if the wait took longer (`concurrent.futures.TimeoutError`), or no scheduler answered for
                `timeout_seconds` of the client.
            CancelledError: if the task was cancelled.
            ScalerError: if the task, the connection or the value failed; see `scaler.errors`.
            BaseException: the exception of the task.
        """
        try:
            deadline = None if timeout is None else time.monotonic() + timeout
        except (TypeError, OverflowError):
            raise _invalid_timeout(timeout) from None
        self._wait(timeout)
        outcome = self._read(deadline)
        if outcome[1] is None:
            value: T = outcome[0]
            return value
        try:
            raise outcome[1]
        finally:  # an exception and the frame that raised it would keep each other alive
            # Not `del`: IPython shows the arguments of each frame.
            self = outcome = None  # type: ignore[assignment]  # noqa: PLW0642

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception of the task; None if it succeeded. Wait for the end of the task, at most `timeout`
        seconds.

        A large result is not fetched.

        Raises:
            TimeoutError: if the wait took longer (`concurrent.futures.TimeoutError`).
            CancelledError: if the task was cancelled.
        """
        self._wait(timeout)
        if self._outcome is None and self._is_stored():
            return None
        return self._read(None)[1]

    def profiling_info(self) -> ProfilingInfo:
        """Return the time and memory that the task took, even if the task failed.

        Raises:
            ValueError: if the task has not ended, or was not measured. Turn measuring on with `Client(profiling=True)`
                or `submit(..., profiling=True)`. A task that was cancelled or lost its process has no measurements.
        """
        return read_profile(self._profile, self.name, self.done())

    def running(self) -> bool:
        """Return whether the task is open: True from `submit` on, also while it waits in a queue."""
        return not self.done()

    def cancel(self) -> bool:
        """Cancel the task, also while it runs. Return False if the task has already ended."""
        if self.cancelled():
            return True
        self._link.check_process()
        if not super().cancel():
            return False
        self.needs = ()  # the reason is not the failure of another task
        self._link.cancel(self.task_id)  # the link's thread wakes waiters for several futures
        return True

    def cancel_waiting(self, wait: bool = True) -> bool:
        """Cancel the task unless it has started. Return whether it was cancelled.

        Args:
            wait: whether to wait for the decision. If False, the future ends later if the task is cancelled.
        """
        self._link.check_process()
        answered: Any = _EndWaiter()
        if not wait:
            self._link.cancel_waiting(self.task_id, answered.set_by)
            return self.cancelled()
        with self._condition:
            self._waiters.append(answered)
        for _ in range(CANCEL_ATTEMPTS):
            answered.clear()
            if self.done():
                break
            self._link.cancel_waiting(self.task_id, answered.set_by)
            if not answered.wait(ANSWER_SECONDS):
                break
        with self._condition:
            self._waiters.remove(answered)
        return self.cancelled()

    def explain(self) -> str:
        """Return one sentence: what the task waits for and what you can do about it, or how it ended."""
        return (story_of(self.task_id, self.name, self, None, 0) if self.done() else self.story()).sentence

    def story(self) -> Story:
        """Return what is known of the task: its state, its worker, what it waits for, why earlier attempts ended."""
        self._link.check_process()
        return request_story(self._link, self.task_id, self.name, self, ANSWER_SECONDS)

    def logs(self, timeout: float | None = LOG_SECONDS) -> TaskLog:
        """Return what the task has written so far: to standard output, to standard error, and with `logging`.

        The log is a sequence of lines with time, worker and task name, including those of earlier attempts. It also
        shows how many lines were left out. The scheduler keeps the last lines of each task for a while
        (docs/howto/output.md).

        Args:
            timeout: how many seconds to wait for the scheduler; None: no limit.

        Raises:
            TimeoutError: if the scheduler did not answer in time.
            DisconnectedError: if the client is disconnected.
        """
        self._link.check_process()
        return task_log.wait(self._link, task_log.ask_log(self._link, self.task_id), timeout)

    def progress(self, timeout: float | None = LOG_SECONDS) -> TaskProgress | None:
        """Return the latest report of the task, made with `scaler.current_task().report(fraction, text)`.

        Return None if the task has reported nothing yet, or the scheduler has deleted the report
        (docs/howto/progress.md).

        Args:
            timeout: how many seconds to wait for the scheduler; None: no limit.

        Raises:
            TimeoutError: if the scheduler did not answer in time.
            DisconnectedError: if the client is disconnected.
        """
        self._link.check_process()
        return task_log.wait(self._link, task_log.ask_progress(self._link, self.task_id), timeout)

    def rerun(self, *, again: bool = False) -> T:
        """Call the function of a failed task again, with its arguments, in this process and thread, so that
        `breakpoint()` and debuggers stop in it. Return its value, or raise its exception with the real traceback.

        The future keeps the function and the arguments. If the task failed because it needs the result of another
        failed task, the function of that other task is called. `current_task()` and the option `seed` work as on a
        worker. The state of the global random generators is restored afterwards. Initializers do not run. Differences
        between this process and the one in which the task failed are printed to standard error: host, Python, packages,
        and names of environment variables (docs/howto/debugging.md).

        Args:
            again: whether a task with the option `at_most_once` may run a second time.

        Raises:
            RerunError: if the task has not failed, a part of its call is lost, or it must not run again.
            DeserializeObjectError: if the function or an argument cannot be read here.
            BaseException: the exception of the function.
        """
        __tracebackhide__ = True
        from scaler.client.rerun.failed_call import run  # noqa: PLC0415 - few programs need it
        from scaler.client.rerun.of_future import fetched  # noqa: PLC0415

        self._link.check_process()
        call = fetched(self, self._link, again=again)
        self.mark_error_read()
        value: T = run(call)
        return value

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call `fn(future)` when the task has ended: in this thread if it has ended, else in a thread for callbacks."""
        self._has_callback = True
        with self._condition:
            if self._done_callbacks is _NO_CALLBACKS:
                self._done_callbacks = []
        if task_context.current.task and not self.done():
            # It is unknown what the callback wakes, such as an event loop or a reader of a queue.
            end_of_wait = task_context.current.expect(self._link)
            super().add_done_callback(lambda _future: end_of_wait())
        super().add_done_callback(partial(_call_outside, self._link, fn))

    def __await__(self) -> Generator[Any, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        """Return what the task returned. Unlike `asyncio.wrap_future`, it can raise what ends a coroutine."""
        if not self.done():
            end: Future[None] = Future()
            self.add_done_callback(lambda _future: end.set_result(None))
            try:
                await asyncio.shield(asyncio.wrap_future(end))
            except asyncio.CancelledError:
                self.cancel()
                raise
        if self._outcome is None and self._is_stored():
            await asyncio.get_running_loop().run_in_executor(None, self.read)
        try:
            return self.result()
        except CancelledError as error:
            raise asyncio.CancelledError(*error.args) from None
        except StopIteration as stopped:
            raise for_coroutine(stopped, self.name) from stopped

    # For other calls and progress bars

    def ask_report(self, on_output: OnOutput) -> None:
        """Request the latest report of the task. The link's thread passes the report to `on_output` later."""
        self._link.read_output(self.task_id, on_output, report=True)

    @property
    def has_failed(self) -> bool:
        """Whether the task failed or was cancelled. Nothing is unpickled."""
        return self.done() and (self.cancelled() or self._exception is not None)

    @property
    def concern(self) -> str:
        """Why the tasks of this future's client make no progress, as a sentence; empty if no reason is known."""
        return self._link.concern

    def read(self) -> None:
        """Unpickle the value of the task, which has ended."""
        self._read(None)

    def settle(self, value: Any) -> None:
        """End the future with a value for which no task ran. Called before the user gets the future."""
        self._outcome = (value, None)
        self.set_result(_UNREAD_VALUE)

    def as_argument(self, link: object) -> tuple[Input | None, Any]:
        """Return what represents the result in the arguments of another call: see `ResultArgument.as_argument`."""
        if link is not self._link:
            raise other_client(self.name)
        with self._condition:
            known = self._input
            if known is None:
                known = self._input = Input(self.task_id, self.name, self.needs)
        # The link's thread may end it meanwhile: it sets the result, then looks for the input, then ends the future.
        is_done, raw, outcome = self.done(), self._raw, self._outcome
        if known.result is not None:
            return known, None
        if outcome is not None and outcome[1] is None:
            return None, outcome[0]
        if self._is_only_here or (self._pending_fetch is not None and not self._has_callback):
            return None, self.result()  # it has arrived, or is on its way
        if raw is not None:
            known.end(raw)
            if raw.status:
                self.mark_error_read()
        elif is_done:
            known.fail(partial(error_of, self))
        return known, None

    # For the link's thread

    def deliver(self, result: TaskResult) -> None:
        self._raw = result
        self._profile = result.profile
        if self._input is not None:
            self._input.end(result)
        try:
            self.set_result(_UNREAD_VALUE)
        except InvalidStateError:
            self.set_running_or_notify_cancel()

    def refuse(self, result: TaskResult) -> None:
        if result.status == TaskStatus.CANCELED:
            self.fail(CancelledError)
            return
        self._raw = result
        self._profile = result.profile
        if self._input is not None:
            self._input.end(result)
        self._set_exception_unless_cancelled(_UNREAD, partial(headline, result, self.name))

    def store(self, result: TaskResult) -> None:
        self._raw = result
        self._profile = result.profile
        if self._input is not None:
            self._input.end(result)
        object_id = ObjectId(self.task_id)
        self._release = weakref.finalize(self, self._link.forget_result, object_id)
        self._release.atexit = False
        if self._has_callback and not self.done():  # a callback will read the result: end when it has arrived
            fetch = self._pending_fetch = ResultFetch(self._link)
            fetch.add_done_callback(self._end_stored)
            self._link.fetch(object_id, fetch, True)  # until it has arrived, it may become an argument of another task
            return
        self._end_stored()

    def _end_stored(self, fetch: Future[Frames] | None = None) -> None:
        error = fetch.exception() if fetch is not None else None
        if error is not None:
            self._raw = None
            self._set_exception_unless_cancelled(error, partial(headline_of, error))
            return
        if self._pending_fetch is not None and self._pending_fetch.refusal is not None:
            self.refuse(self._pending_fetch.refusal)
            return
        if fetch is not None:
            with self._condition:
                self._is_only_here = self._input is None
            if self._is_only_here and self._release is not None:
                self._release()
        try:
            self.set_result(_UNREAD_VALUE)
        except InvalidStateError:
            self.set_running_or_notify_cancel()
            self._link.forget_result(ObjectId(self.task_id))

    def fail(self, make_error: MakeError) -> None:
        error = make_error()
        if self._input is not None:
            self._input.fail(make_error)
        if isinstance(error, CancelledError):
            self._why_cancelled = str(error)
            super().cancel()
            self.set_running_or_notify_cancel()
        else:
            self._set_exception_unless_cancelled(error, partial(headline_of, error))

    def notify(self) -> None:
        """Do nothing: the end of the future has already woken all waiters."""

    def _set_exception_unless_cancelled(self, error: BaseException, describe: Callable[[], str]) -> None:
        if self._input is None:  # else the tasks that need it fail with the error, too
            self._link.end_warnings.note_error(error_key(self.task_id, self.keys), describe)
        try:
            self.set_exception(error)
        except InvalidStateError:
            self.set_running_or_notify_cancel()
            self.mark_error_read()

    def mark_error_read(self) -> None:
        """Note that the user has the error of the task, so that no warning mentions it."""
        self._link.end_warnings.error_was_read(error_key(self.task_id, self.keys), bool(self.keys))

    # Reading

    def _wait(self, timeout: float | None) -> None:
        self._link.check_process()
        context = task_context.current
        if timeout is not None:
            timeout = plain_number(timeout)
        try:
            if context.task and not self.done():
                with context.wait(self._link, self.done, timeout):
                    super().exception(self._wait_with_hints(self, timeout))
            else:
                super().exception(timeout if self._state == FINISHED else self._wait_with_hints(self, timeout))
        except CancelledError:
            raise cancelled(blamed(self.name, self.needs), bool(self.keys), self._why_cancelled) from None
        except TypeError:
            if timeout is None or isinstance(timeout, (int, float)):
                raise
            raise _invalid_timeout(timeout) from None
        except FutureTimeoutError:
            if timeout is None or self.done():  # the task's own
                raise
            raise FutureTimeoutError(timeout_text(self._link, self, self.task_id, self.name, timeout)) from None

    def _wait_with_hints(self, end: Future[Any], timeout: float | None) -> float | None:
        """Wait for `end`; report to the scheduler that a user waits. Return the rest of the time-out."""
        pause = WANTED_SECONDS
        while timeout is None or timeout > pause:
            with end._condition:  # noqa: SLF001 - one of ours
                if end.done() or end._condition.wait(pause):  # noqa: SLF001
                    break
            self._link.mark_wanted(self.task_id)
            timeout = None if timeout is None else timeout - pause
            pause = min(2 * pause, WANTED_SECONDS_MOST)
        return timeout

    def _is_stored(self) -> bool:
        raw = self._raw
        return raw is not None and raw.size > 0 and not raw.status

    def _read(self, deadline: float | None) -> tuple[Any, BaseException | None]:
        """Return the value and the exception of the task. The first call unpickles them."""
        outcome = self._outcome
        if outcome is None:
            if self._exception is not None:
                self.mark_error_read()
            raw = self._raw
            frames = self._fetch(deadline) if raw is not None and raw.size and not raw.status else None
            with self._condition:
                outcome = self._outcome
                if outcome is None:
                    outcome = self._outcome = self._decode(frames)
                    self._pending_fetch = None
                    if outcome[1] is None:
                        self._raw = None
        return outcome

    def _decode(self, frames: Frames | None) -> tuple[Any, BaseException | None]:
        if self._raw is None:
            return None, super().exception()
        if self._raw.status:
            return None, read_error(self._raw, blamed(self.name, self.needs), self.keys)
        value, error = read_value(self._serializer, [self._raw.payload] if frames is None else frames)
        return value, error and unread_result(error, self.name)

    def _fetch(self, deadline: float | None) -> Frames | None:
        """Return the frames of a large result; None if another thread has read the result meanwhile."""
        with self._condition:
            fetch = self._pending_fetch
            if fetch is None:
                if self._outcome is not None:
                    return None
                fetch = self._pending_fetch = ResultFetch(self._link)
                self._link.fetch(ObjectId(self.task_id), fetch, self._input is not None)
        try:
            seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
            with task_context.current.wait(self._link, fetch.done, seconds):
                frames = fetch.result(self._wait_with_hints(fetch, seconds))
        except BaseException as error:  # raised again
            has_ended = fetch.done()
            if has_ended and fetch.exception() is not None:
                self._pending_fetch = None  # the next caller may succeed
            del fetch  # breaks a cycle: it has the error, whose traceback has this frame
            if has_ended or not isinstance(error, FutureTimeoutError):
                raise
            raise FutureTimeoutError(unfetched_text(self.task_id, self.name)) from None
        if self._release is not None and self._input is None:
            self._release.detach()
        if fetch.refusal is not None:
            with self._condition:
                if self._outcome is None:
                    self._raw = fetch.refusal
        return frames


class FetchedFuture(ScalerFuture[T]):
    """A future that ends when its value is in this process, also if the value is large."""

    _has_callback = True

    @property
    def link(self) -> ClientLink:
        """The link of its client."""
        return self._link

    @property
    def why_cancelled(self) -> str:
        """The reason for the cancellation, as a sentence; empty if none is known."""
        why = self._why_cancelled
        return str(cancelled(blamed(self.name, self.needs), bool(self.keys), why)) if why else ""

    def mark_wanted(self) -> None:
        """Report to the scheduler that a user waits for the result."""
        self._link.mark_wanted(self.task_id)

    def add_waiter(self, waiter: Any) -> bool:
        """Have the link's thread call the `add_...` methods of `waiter` at the end. Return False if it has ended."""
        with self._condition:
            is_open = not self.done()
            if is_open:
                self._waiters.append(waiter)
        return is_open

    def remove_waiter(self, waiter: Any) -> None:
        """Remove a waiter of `add_waiter`."""
        with self._condition:
            self._waiters.remove(waiter)

    @property
    def has_large_value(self) -> bool:
        """Whether its value is so large that it is read in a thread of its own. Only for a future that has ended."""
        fetch = self._pending_fetch
        return fetch is not None and self._exception is None and size_of(fetch.result()) >= LARGE_BYTES


def _invalid_timeout(timeout: object) -> TypeError:
    return TypeError(f"timeout must be a number of seconds, not {shown(timeout)}")


def _call_outside(link: ClientLink, fn: Callable[[Future[Any]], object], future: Future[Any]) -> None:
    if link.is_own_thread():
        link.callbacks.put(partial(fn, future))
    else:
        fn(future)
