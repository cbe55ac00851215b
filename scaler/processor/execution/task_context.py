"""ProcessorTaskContext: the context of clients in the tasks of a processor. A task that waits gives up its slot.

The context reports to the agent when the first wait of the running task starts, and when its last wait ends. After a
wait, the main thread requests permission to resume, so that at most one task of each worker runs at a time. After a
time-out, the thread resumes without permission, because the nested task that it waited for may hold the slot forever.
Other threads never need permission: the holder of the slot might be joining such a thread. For the same reason a task
counts as waiting as long as any of its threads waits.

With hard suspension, the process is stopped while its main thread waits and no other thread does. The client of the
task requests the stop when it has sent everything (`WaitReporter.rest`), and again whenever the process was continued.

Signal handlers raise only in code of tasks, never in this package, so no change of this state is interrupted.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any, NamedTuple

from scaler.ids import NO_ID, Account, ObjectId, TaskId
from scaler.task_context import CurrentTask, TaskContext, WaitReporter
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.priority import of_child
from scaler.wire.messages.processor import ResumeRequest, TaskBlocked, TaskUnblocked
from scaler.wire.messages.rows import row_id
from scaler.wire.messages.worker import RunTask

_NESTED_WAIT = nullcontext()
LONGEST_MS = 2**32 - 1
_NO_RUN = RunTask(TaskId(NO_ID), 0, 0, ObjectId(NO_ID), b"", b"")


def _submitted_name(run: RunTask) -> str:
    return run.name


def _discard(_line: str) -> None:
    """Drop a line of a report, because this context cannot send reports."""


class ProcessorSpec(NamedTuple):
    """The facts that a forked process gets in order to become a processor."""

    number: int
    """the number of the processor, which the agent never reuses"""
    agent_token: bytes
    """the token that clients in the processor send to the scheduler"""
    is_extra: bool = False
    """whether the processor was started because tasks wait for other tasks; the tasks of this processor probably use
    clients, too
    """
    worker: str = ""


class ProcessorTaskContext(TaskContext):
    """The task context of all tasks of one processor.

    Args:
        words: the progress page; the first word is the number of the executed task, the fifth word its start time.
        send: sends all unsent results, and then the given items, to the agent.
        await_permission: called by the main thread with the number of a task; returns when the task may resume.
        is_hard: whether the process is stopped while the main thread waits.
        thread: the thread that runs the tasks, here always called the main thread; None: the process's main thread.
        limit_seconds: how long a task may run; 0: without limit.
    """

    def __init__(
        self,
        spec: ProcessorSpec,
        address: str,
        words: Sequence[int],
        send: Callable[[list[Any]], None],
        await_permission: Callable[[int], None],
        is_hard: bool = False,
        thread: threading.Thread | None = None,
        limit_seconds: float = 0,
    ) -> None:
        self.processor, self.agent_token = spec.number, spec.agent_token
        self.address = address
        self._words = words
        self._send = send
        self._await_permission = await_permission
        self._is_hard = is_hard
        self._main = thread or threading.main_thread()
        self._limit_seconds = limit_seconds
        self._worker = spec.worker
        self.run = _NO_RUN
        self.row = 0
        """the number of the executed row, if the executed task is a range"""
        self._described: tuple[int, CurrentTask | None] = (0, None)
        """the number and the description of the latest task that `describe_task` has described"""
        self.name_of: Callable[[RunTask], str] = _submitted_name
        self.send_report: Callable[[str], None] = _discard
        self.children: list[tuple[TaskId, Callable[[TaskId], None]]] = []
        """the tasks that the executed task has submitted, and for each the function that cancels it"""
        self._needs: list[Callable[[], bool]] = []
        self._waits = 0
        """the number of waits so far in which the process could be stopped"""
        self._rest: _Rest | None = None
        """the current wait of the blocked task, during which the process may be suspended"""
        # All state below belongs to the task with this number, and is reset for the next one.
        self._number = 0
        self._lock = threading.RLock()
        self._n_other_waits = 0
        """the number of present waits of threads other than the main thread"""
        self._is_main_waiting = False
        self._is_requesting = False
        self._is_reported = False
        """whether the agent knows that the executed task waits"""

    # For clients

    @property
    def task(self) -> int:
        return self._words[0]

    @property
    def account(self) -> Account:  # type: ignore[override]
        return self.run.account, self.run.owner

    @property
    def child_priority(self) -> int:
        return of_child(self.run.priority)

    def describe_task(self) -> CurrentTask | None:
        if not self._words[0]:
            return None
        with self._lock:  # all threads of the task share its generator
            if self._described[0] != self._words[0]:
                self._described = self._words[0], self._describe()
            return self._described[1]

    def _describe(self) -> CurrentTask:
        run, task_id = self.run, self._task_id()
        options = RunOptions.decode(run.options)
        limits = [limit for limit in (self._limit_seconds, options.timeout_ms / 1000) if limit]
        ends_at = self._words[4] / 1e9 + min(limits) if limits else None
        return CurrentTask(task_id, self.name_of(run), run.attempt, self._worker, ends_at, *options.seed_of(task_id))

    def report(self, task: CurrentTask, line: str) -> None:
        if self._words[0] and (self._task_id(), self.run.attempt) == (task.task_id, task.attempt):
            self.send_report(line)

    def _task_id(self) -> TaskId:
        run = self.run
        return row_id(run.task_id, self.row) if run.rows else run.task_id

    def wait(
        self,
        reporter: WaitReporter | None = None,
        is_over: Callable[[], bool] | None = None,
        seconds: float | None = None,
    ) -> AbstractContextManager[None]:
        if threading.current_thread() is not self._main:
            return _OtherWait(self)
        if self._is_main_waiting:
            return _NESTED_WAIT
        rest = None
        if self._is_hard and reporter is not None and is_over is not None:
            self._waits += 1
            rest = _Rest(self._waits, reporter, is_over, seconds)
        return _MainWait(self, is_over, rest)

    def expect(self, reporter: WaitReporter | None = None) -> Callable[[], None]:  # noqa: ARG002
        with self._lock:
            number = self._catch_up()
            if number:
                self._n_other_waits += 1
                self._report_blocked(is_stuck=False)
        is_over = False

        def end() -> None:
            nonlocal is_over
            with self._lock:
                if not is_over:
                    is_over = True
                    self._end_other_wait(number)

        return end

    def submitted(self, task_id: TaskId, cancel: Callable[[TaskId], None]) -> None:
        self.check_prepared()
        self.children.append((task_id, cancel))

    def keep_while(self, is_needed: Callable[[], bool], close: Callable[[], None] | None = None) -> None:  # noqa: ARG002
        self._needs.append(is_needed)

    # For the processor

    def is_needed(self) -> bool:
        """Return whether clients in this process have open tasks."""
        return any(is_needed() for is_needed in self._needs)

    def forget_children(self) -> None:
        """Forget the tasks that an ended task has submitted, so that those tasks are not cancelled."""
        self.children = []

    def cancel_children(self) -> None:
        """Cancel the tasks that a stopped task has submitted."""
        children, self.children = self.children, []
        for task_id, cancel in children:
            cancel(task_id)

    # The waits, under the lock

    def _catch_up(self) -> int:
        """Return the number of the executed task. Reset the state if it belongs to an earlier task."""
        number = self._words[0]
        if number != self._number:
            self._number = number
            self._n_other_waits = 0
            self._is_main_waiting = self._is_requesting = self._is_reported = False
        return number

    def _report_blocked(self, is_stuck: bool, wait: int = 0, timeout_ms: int = 0) -> None:
        if not self._is_reported:
            self._is_reported = True
            self._send([TaskBlocked(self._number, is_stuck, wait, timeout_ms)])

    def _end_other_wait(self, number: int) -> None:
        if not number or self._catch_up() != number:
            return
        self._n_other_waits -= 1
        self._resume_unless_waiting()

    def _resume_unless_waiting(self) -> None:
        if self._is_reported and not (self._n_other_waits or self._is_main_waiting or self._is_requesting):
            self._is_reported = False
            self._send([TaskUnblocked(self._number)])

    def start_main_wait(self, rest: _Rest | None) -> None:
        with self._lock:
            if not self._catch_up():
                return
            self._is_main_waiting = True
            if rest is None:
                self._report_blocked(is_stuck=True)
                return
            self._report_blocked(True, rest.wait, rest.timeout_ms())
            self._rest = rest
        self.continued()

    def continued(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Let the client report that this process does nothing but wait. Called when a wait starts, and on SIGCONT."""
        rest = self._rest
        if rest is not None:
            rest.reporter.rest(rest.wait, lambda: self._n_other_waits > 0 or rest.is_over())

    def end_main_wait(self, is_given_up: bool) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.reporter.rest(0, bool)
        with self._lock:
            number = self._catch_up()
            self._is_main_waiting = False
            if is_given_up:
                self._resume_unless_waiting()
                return
            if not self._is_reported or self._n_other_waits:
                return  # another thread still waits, so the task has no slot anyway
            self._is_requesting = True
            self._send([ResumeRequest(number)])
        try:
            self._await_permission(number)
        finally:
            self._after_request()

    def _after_request(self) -> None:
        with self._lock:
            self._is_requesting = self._is_reported = False
            if self._n_other_waits:
                self._report_blocked(is_stuck=False)


class _Rest(NamedTuple):
    """A wait of the main thread in which the process may be stopped."""

    wait: int
    """the number of this wait in its process, from 1"""
    reporter: WaitReporter
    is_over: Callable[[], bool]
    seconds: float | None

    def timeout_ms(self) -> int:
        return 0 if self.seconds is None else min(max(1, math.ceil(self.seconds * 1000)), LONGEST_MS)


class _MainWait(AbstractContextManager[None]):
    """A wait of the main thread, which requests permission to resume at the end of the wait."""

    def __init__(self, waiting: ProcessorTaskContext, is_over: Callable[[], bool] | None, rest: _Rest | None) -> None:
        self._waiting = waiting
        self._is_over = is_over
        self._rest = rest

    def __enter__(self) -> None:
        self._waiting.start_main_wait(self._rest)

    def __exit__(self, *_error: object) -> None:
        self._waiting.end_main_wait(is_given_up=self._is_over is not None and not self._is_over())


class _OtherWait(AbstractContextManager[None]):
    """A wait of a thread other than the main thread."""

    def __init__(self, waiting: ProcessorTaskContext) -> None:
        self._waiting = waiting

    def __enter__(self) -> None:
        self._end = self._waiting.expect()

    def __exit__(self, *_error: object) -> None:
        self._end()
