"""ScalerFuture: the future result of one task.

Made by the client, ended once by the link's thread, read by any thread of the user. The thread that asks unpickles the
result, so that the link's thread never runs user code.

Must never: run user code in the link's thread, or end twice.
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
from scaler.client.foreign_words import OF_FUTURES, answers, is_no_value, without_foreign_words
from scaler.client.insight import markup, task_log
from scaler.client.insight.explanation import ANSWER_SECONDS, Story, late, not_here, story_of, tell
from scaler.client.insight.task_log import LOG_SECONDS, TaskLog, TaskProgress
from scaler.client.large_values import ResultFetch
from scaler.client.link.link import WANTED_SECONDS, WANTED_SECONDS_MOST
from scaler.client.link.requests import OnOutput
from scaler.client.link.thread import LinkThread
from scaler.client.outcome import (
    ProfilingInfo,
    cancelled,
    error_key,
    headline,
    headline_of,
    how_it_failed,
    read_error,
    read_profile,
    read_value,
    unread_result,
)
from scaler.config import plain_number
from scaler.errors import has_ended_a_task
from scaler.ids import ObjectId, TaskId
from scaler.pickling.serialization import Frames, Serializer
from scaler.texts import shown
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import TaskStatus

__tracebackhide__ = has_ended_a_task

T = TypeVar("T")

_NOT_HERE: Any = None
"""what the standard library's future has as its result: the value is read when it is asked for"""

CANCELS = 3
"""How often the scheduler is told to cancel a task that waits: an answer may be quicker than the end of the task, and
one that a processor has got ahead of time is given back, or begins, some milliseconds later."""

_NO_CALLBACKS: Any = ()
"""in place of a list of its own, until there is one"""

_wait_of_threading: Any = threading.Condition.wait


class LeanCondition(RLock):  # type: ignore[misc]  # the interpreter allows it, so taking the lock runs no Python
    """A lock, and one more for each thread that waits.

    A `threading.Condition` consists of nine objects that the garbage collector looks at, and takes a kilobyte. Of many
    open futures hardly one is waited for: with their conditions, half of what a submit cost its client was the
    collector. It also takes more steps to wake a thread.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: list[LockType] | None = None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the next `notify_all`, at most `timeout` seconds. Return False if it took longer.

        The standard library's method does it, which asks nothing but `_waiters` and the lock. In a task, it can be
        interrupted there, and not in code of ours.

        Raises:
            RuntimeError: if this thread does not hold the lock.
        """
        if self._waiters is None:
            self._waiters = []
        was_woken: bool = _wait_of_threading(self, timeout)
        return was_woken

    def notify_all(self) -> None:
        """Wake all threads that wait; this one holds the lock."""
        if self._waiters:
            for waiter in self._waiters:
                waiter.release()
            self._waiters.clear()


class _Waiters(list[Any]):
    """Holds the waiters of `concurrent.futures.wait` and `as_completed` while they wait for the future."""

    def __init__(self, link: LinkThread) -> None:
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
    """Set by an answer, or by the end of a future: it is a waiter of `concurrent.futures`. The link's thread tells
    these at once, and not the thread for callbacks, where users may cancel other futures.
    """

    def set_by(self, _news: object) -> None:
        self.set()

    add_result = add_exception = add_cancelled = set_by


class _UnreadError(Exception):
    """Stands for the exception of a task until it is asked for and unpickled."""


_UNREAD = _UnreadError()

_INTERNAL = frozenset(
    {
        *("as_argument", "ask_report", "concern", "deliver", "fail", "failed", "has_failed", "item_of", "keys"),
        *("needs", "notify", "refuse", "settle", "store", "cancel_waiting"),
    }
)


@answers(OF_FUTURES)
@is_no_value("future.result()")
class ScalerFuture(Future[T], ResultArgument):
    """The result or the exception of a task: a `concurrent.futures.Future` that can also be awaited.

    A large result (more than 16 KiB) stays with the scheduler until it is asked for. If the scheduler dies before, the
    task runs again when the result is asked for.

    Attributes:
        task_id: the id of the task, 16 bytes.
        name: of the task: that of its function, or one that the user chose.
    """

    # Until it has one of its own.
    _state = PENDING
    _result = None
    _exception: BaseException | None = None
    _done_callbacks = _NO_CALLBACKS
    _raw: TaskResult | None = None
    _arrival: ResultFetch | None = None
    _release: weakref.finalize[[ObjectId], ScalerFuture[T]] | None = None
    _outcome: tuple[Any, BaseException | None] | None = None
    _is_wanted = False
    _why_cancelled = ""
    _profile = b""

    def __init__(
        self, task_id: TaskId, link: LinkThread, serializer: Serializer, client: object, name: str = "task"
    ) -> None:
        # As the standard library's future does, with fewer objects: a full collection looks at all open futures.
        self._condition = LeanCondition()  # type: ignore[assignment]
        self._waiters = _Waiters(link) if task_context.current.task else []
        self.task_id = task_id
        self.name = name
        self._link = link
        self._serializer = serializer
        self._client = client  # a client lives at least as long as its open futures

    # For users

    def __dir__(self) -> list[str]:
        """Leave out what is for the link, for other calls and for progress bars."""
        return [name for name in without_foreign_words(type(self), super().__dir__()) if name not in _INTERNAL]

    @property
    def _shown(self) -> tuple[str, str, str, str]:
        state = "open"
        if self.cancelled():
            state = "cancelled"
        elif self.done():
            error = self._exception
            state = "finished" if error is None else how_it_failed(self._raw, error, self.name)
        return "ScalerFuture", self.name, self.task_id.hex()[-8:], state

    def __repr__(self) -> str:
        return "<{} {} {}: {}>".format(*self._shown)

    def _repr_html_(self) -> str:
        return markup.future(*self._shown)

    def result(self, timeout: float | None = None) -> T:
        """Return what the task returned; wait for it, at most `timeout` seconds.

        Raises:
            TimeoutError: if it took longer (`concurrent.futures.TimeoutError`), or no scheduler answered for
                `timeout_seconds` of the client.
            CancelledError: if the task was cancelled.
            ScalerError: if the task, the connection or the value failed; see `scaler.errors`.
            BaseException: the exception of the task.
        """
        try:
            deadline = None if timeout is None else time.monotonic() + timeout
        except (TypeError, OverflowError):
            raise _no_seconds(timeout) from None
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
        """Return the exception of the task, or None; wait for it, at most `timeout` seconds.

        This does not fetch a large result: a task with a result has raised nothing.

        Raises:
            TimeoutError: if it took longer (`concurrent.futures.TimeoutError`).
            CancelledError: if the task was cancelled.
        """
        self._wait(timeout)
        if self._outcome is None and self._is_stored():
            return None
        return self._read(None)[1]

    def profiling_info(self) -> ProfilingInfo:
        """Return the time and memory that the task took, also if it failed.

        Raises:
            ValueError: if the task has not ended, or was not measured. Ask for it before, with `Client(profiling=True)`
                or `submit(..., profiling=True)`. A task that was cancelled or lost its process has no measures.
        """
        return read_profile(self._profile, self.name, self.done())

    def running(self) -> bool:
        """Return whether the task is open: True from `submit` on, also while it waits in a queue."""
        return not self.done()

    def cancel(self) -> bool:
        """Cancel the task, also while it runs. Return False if it had ended before."""
        if self.cancelled():
            return True
        self._link.check_process()
        if not super().cancel():
            return False
        self.needs = ()  # that of another task is not the reason
        self._link.cancel(self.task_id)  # its thread wakes those that wait for several futures
        return True

    def cancel_waiting(self, wait: bool = True) -> bool:
        """Cancel the task if it has not begun. Return whether it was cancelled.

        Args:
            wait: whether to wait until that is decided. Without it, the future ends when it is.
        """
        self._link.check_process()
        heard: Any = _EndWaiter()
        if not wait:
            self._link.cancel_waiting(self.task_id, heard.set_by)
            return self.cancelled()
        with self._condition:
            self._waiters.append(heard)
        for _ in range(CANCELS):
            heard.clear()
            if self.done():
                break
            self._link.cancel_waiting(self.task_id, heard.set_by)
            if not heard.wait(ANSWER_SECONDS):
                break
        with self._condition:
            self._waiters.remove(heard)
        return self.cancelled()

    def explain(self) -> str:
        """Return in one sentence what the task waits for and what can be done about it, or how it ended."""
        return (story_of(self.task_id, self.name, self, None, 0) if self.done() else self.story()).sentence

    def story(self) -> Story:
        """Return what is known of the task: state, worker, what it waits for, why earlier tries ended."""
        self._link.check_process()
        return tell(self._link, self.task_id, self.name, self, ANSWER_SECONDS)

    def logs(self, timeout: float | None = LOG_SECONDS) -> TaskLog:
        """Return what the task has written so far: on standard output, on standard error, and by `logging`.

        It is a sequence of lines with time, worker and task name, those of earlier tries too, and says how many lines
        were left out. The scheduler keeps the last lines of each task for a while (docs/howto/output.md).

        Args:
            timeout: how many seconds to wait for the scheduler; None: for ever.

        Raises:
            TimeoutError: if it did not answer in time.
            DisconnectedError: if the client is disconnected.
        """
        self._link.check_process()
        return task_log.wait(self._link, task_log.ask_log(self._link, self.task_id), timeout)

    def progress(self, timeout: float | None = LOG_SECONDS) -> TaskProgress | None:
        """Return the latest report of the task, made with `scaler.current_task().report(fraction, text)`.

        None: it has reported nothing yet, or the scheduler has forgotten it (docs/howto/progress.md).

        Args:
            timeout: how many seconds to wait for the scheduler; None: for ever.

        Raises:
            TimeoutError: if it did not answer in time.
            DisconnectedError: if the client is disconnected.
        """
        self._link.check_process()
        return task_log.wait(self._link, task_log.ask_progress(self._link, self.task_id), timeout)

    def rerun(self, *, again: bool = False) -> T:
        """Call the function of a failed task again, here: with its arguments, in this process and this thread, so that
        `breakpoint()` and a debugger stop in it. Return its value, or raise its exception with the real traceback.

        The future keeps function and arguments while it lives. If the task failed because another one did, whose result
        it needs, that one is called. `current_task()` and the option `seed` work as on a worker, and the global random
        generators are put back afterwards; initializers do not run. What differs here from where the task failed is
        printed to standard error: host, Python, packages, names of environment variables (docs/howto/debugging.md).

        Args:
            again: whether a task with the option `at_most_once` may run a second time.

        Raises:
            RerunError: if the task has not failed, a part of its call is gone, or it must not run again.
            DeserializeObjectError: if the function or an argument cannot be read here.
            BaseException: the exception of the function.
        """
        __tracebackhide__ = True
        from scaler.client.rerun.failed_call import run  # noqa: PLC0415 - few programs need it
        from scaler.client.rerun.of_future import fetched  # noqa: PLC0415

        self._link.check_process()
        call = fetched(self, self._link, again=again)
        self._note_that_error_was_read()
        value: T = run(call)
        return value

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call `fn(future)` when it is done: at once in this thread if it is done, else in a thread for callbacks."""
        self._is_wanted = True
        with self._condition:
            if self._done_callbacks is _NO_CALLBACKS:
                self._done_callbacks = []
        if task_context.current.task and not self.done():
            # We cannot see what waits for the callback: an event loop, or a queue that it fills.
            end_of_wait = task_context.current.expect(self._link)
            super().add_done_callback(lambda _future: end_of_wait())
        super().add_done_callback(partial(_call_outside, self._link, fn))

    def __await__(self) -> Generator[Any, None, T]:
        if self.done() and self._outcome is None and self._is_stored():
            return asyncio.get_running_loop().run_in_executor(None, self.result).__await__()
        return asyncio.wrap_future(self).__await__()

    # For other calls and progress bars

    def ask_report(self, on_output: OnOutput) -> None:
        """Have `on_output` get what the task has reported last, in the link's thread, and do not wait for it."""
        self._link.read_output(self.task_id, on_output, report=True)

    @property
    def has_failed(self) -> bool:
        """Whether it has ended without a result: it failed or was cancelled. Nothing is unpickled for that."""
        return self.done() and (self.cancelled() or self._exception is not None)

    @property
    def concern(self) -> str:
        """Why nothing of its client goes on, as a sentence; empty: nothing is known to be wrong."""
        return self._link.concern

    def settle(self, value: Any) -> None:
        """End with a value that needs no task, before the future is given out."""
        self._outcome = (value, None)
        self.set_result(_NOT_HERE)

    def as_argument(self, link: object) -> tuple[Input | None, Any]:
        """Return what stands for its result in another call, see `ResultArgument`."""
        if link is not self._link:
            raise other_client(self.name)
        with self._condition:
            known = self._input
            if known is None:
                known = self._input = Input(self.task_id, self.name, self.needs)
        # The link's thread may end it meanwhile: it sets the result first, and then looks for the input.
        raw, outcome = self._raw, self._outcome
        if known.result is not None:
            return known, None
        if self._arrival is not None or (outcome is not None and outcome[1] is None):
            return None, self.result()  # it is here already, or on its way
        if raw is not None:
            known.end(raw)
            if raw.status:
                self._note_that_error_was_read()
        elif self.done():
            known.fail(partial(error_of, self))
        return known, None

    # For the link's thread

    def deliver(self, result: TaskResult) -> None:
        self._raw = result
        self._profile = result.profile
        if self._input is not None:
            self._input.end(result)
        try:
            self.set_result(_NOT_HERE)
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
        if self._is_wanted and not self.done():  # a callback will ask for the result: end when it is here
            arrival = self._arrival = ResultFetch(self._link)
            arrival.add_done_callback(self._end_stored)
            self._link.fetch(object_id, arrival, self._input is not None)
            return
        self._end_stored()

    def _end_stored(self, arrival: Future[Frames] | None = None) -> None:
        error = arrival.exception() if arrival is not None else None
        if error is not None:
            self._raw = None
            self._set_exception_unless_cancelled(error, partial(headline_of, error))
            return
        if self._arrival is not None and self._arrival.refusal is not None:
            self.refuse(self._arrival.refusal)
            return
        try:
            self.set_result(_NOT_HERE)
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
        """Do nothing: each waiter was woken alone."""

    def _set_exception_unless_cancelled(self, error: BaseException, describe: Callable[[], str]) -> None:
        if self._input is None:  # else it is the error of the tasks that need it, too
            self._link.loose_ends.error_came(error_key(self.task_id, self.keys), describe)
        try:
            self.set_exception(error)
        except InvalidStateError:
            self.set_running_or_notify_cancel()
            self._note_that_error_was_read()

    def _note_that_error_was_read(self) -> None:
        self._link.loose_ends.error_was_read(error_key(self.task_id, self.keys), bool(self.keys))

    # Reading

    def _wait(self, timeout: float | None) -> None:
        """Wait for the end. Raises as `concurrent.futures.Future.exception`."""
        self._link.check_process()
        here = task_context.current
        if timeout is not None:
            timeout = plain_number(timeout)
        try:
            if here.task and not self.done():
                with here.wait(self._link, self.done, timeout):
                    super().exception(self._wait_and_say_so(self, timeout))
            else:
                super().exception(timeout if self._state == FINISHED else self._wait_and_say_so(self, timeout))
        except CancelledError:
            raise cancelled(blamed(self.name, self.needs), bool(self.keys), self._why_cancelled) from None
        except TypeError:
            if timeout is None or isinstance(timeout, (int, float)):
                raise
            raise _no_seconds(timeout) from None
        except FutureTimeoutError:
            if timeout is None or self.done():  # the task's own
                raise
            raise FutureTimeoutError(late(self._link, self, self.task_id, self.name, timeout)) from None

    def _wait_and_say_so(self, end: Future[Any], timeout: float | None) -> float | None:
        """Wait for a future, and tell the scheduler from time to time that the result is waited for. Return how long
        the rest of the wait is: None: as long as it takes, if it has not ended.
        """
        pause = WANTED_SECONDS
        while timeout is None or timeout > pause:
            with end._condition:  # noqa: SLF001 - one of ours
                if end.done() or end._condition.wait(pause):  # noqa: SLF001
                    break
            self._link.want(self.task_id)
            timeout = None if timeout is None else timeout - pause
            pause = min(2 * pause, WANTED_SECONDS_MOST)
        return timeout

    def _is_stored(self) -> bool:
        raw = self._raw
        return raw is not None and raw.size > 0 and not raw.status

    def _read(self, deadline: float | None) -> tuple[Any, BaseException | None]:
        """Return value and exception, unpickled by the first thread that asks."""
        outcome = self._outcome
        if outcome is None:
            if self._exception is not None:
                self._note_that_error_was_read()
            raw = self._raw
            frames = self._fetch(deadline) if raw is not None and raw.size and not raw.status else None
            with self._condition:
                outcome = self._outcome
                if outcome is None:
                    outcome = self._outcome = self._decode(frames)
                    self._arrival = None
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
        """Return the frames of a large result; None if another thread has read them in the meantime."""
        with self._condition:
            arrival = self._arrival
            if arrival is None:
                if self._outcome is not None:
                    return None
                arrival = self._arrival = ResultFetch(self._link)
                self._link.fetch(ObjectId(self.task_id), arrival, self._input is not None)
        try:
            seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
            with task_context.current.wait(self._link, arrival.done, seconds):
                frames = arrival.result(self._wait_and_say_so(arrival, seconds))
        except BaseException as error:  # raised again
            has_ended = arrival.done()
            if has_ended and arrival.exception() is not None:
                self._arrival = None  # the next caller may succeed
            del arrival  # it has the error, whose traceback would have it: the future would not be let go of
            if has_ended or not isinstance(error, FutureTimeoutError):
                raise
            raise FutureTimeoutError(not_here(self.task_id, self.name)) from None
        if self._release is not None and self._input is None:
            self._release.detach()
        if arrival.refusal is not None:
            with self._condition:
                if self._outcome is None:
                    self._raw = arrival.refusal
        return frames


def _no_seconds(timeout: object) -> TypeError:
    return TypeError(f"timeout must be a number of seconds, not {shown(timeout)}")


def _call_outside(link: LinkThread, fn: Callable[[Future[Any]], object], future: Future[Any]) -> None:
    if link.is_own_thread():
        link.callbacks.put(partial(fn, future))
    else:
        fn(future)
