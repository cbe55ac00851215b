"""TaskContext: shows a client whether its process runs tasks, and for which scheduler.

A processor sets the context once, before its first task. Clients call the context when a thread waits for other tasks,
so that the task gives up its slot. A process that a task forks runs no tasks itself. Clients and processors both import
this module, because neither imports the other.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from scaler.config import ConfigError
from scaler.endpoint import Endpoint
from scaler.ids import NO_ACCOUNT, NO_ID, TaskId

if TYPE_CHECKING:
    import numpy.random

_NO_WAIT = nullcontext()
_making = threading.Lock()
"""the lock for creating the generator of a task, because `cached_property` has no lock from Python 3.12 on"""

REPORT_CHARACTERS = 200
"""The maximum length of the text of a report; longer texts are cut."""


class WaitReporter(Protocol):
    """The part of a client that reports waits to the scheduler."""

    address: str
    is_nested: bool

    def rest(self, wait: int, is_over: Callable[[], bool]) -> None:
        """Report that this process does nothing but wait.

        The report is sent after all other messages, and only while `is_over()` is false. A `wait` of 0 reports the end
        of the wait. May be called by any thread, and by signal handlers.
        """


@dataclass(frozen=True)
class CurrentTask:
    """The running task, as `current_task` returns it.

    Args:
        task_id: the id of the task, 16 bytes; its future has the same id.
        name: the option `name` of the task, or the name of its function; empty while the function is imported.
        attempt: the number of this run, unique among all runs while the scheduler lives; 0 in a call of `rerun()`.
        worker: the name of the worker that runs the task; empty if another engine chooses where the task runs.
        ends_at: when the time limit of the task is reached, in seconds of `time.monotonic`; None: no limit.
        seed: the option `seed` of the call, in 32-bit words, the lowest word of each integer first; else empty.
        spawn_key: the number of the task's row, or the digest of the task's key in a graph; empty for a single call, or
            without a seed. Random numbers come from `numpy.random.SeedSequence(seed, spawn_key=spawn_key)`
            (docs/howto/monte-carlo.md).
    """

    task_id: bytes
    name: str
    attempt: int
    worker: str
    ends_at: float | None = None
    seed: tuple[int, ...] = ()
    spawn_key: tuple[int, ...] = ()

    @property
    def seconds_left(self) -> float | None:
        """The time until the task is interrupted, in seconds; None: no limit."""
        return None if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())

    def rng(self) -> numpy.random.Generator:
        """Return the random generator of this run; all calls return the same generator.

        With the option `seed`, the generator is `numpy.random.default_rng(SeedSequence(seed, spawn_key=spawn_key))`,
        and draws the same numbers wherever the task runs. Without the option, each run draws different numbers.

        Raises:
            ImportError: if NumPy is not installed where the task runs.
        """
        with _making:
            return self._rng

    @cached_property
    def _rng(self) -> numpy.random.Generator:
        import numpy.random  # noqa: PLC0415 - clients import this module, and few tasks draw

        entropy = self.seed or None
        return numpy.random.default_rng(numpy.random.SeedSequence(entropy, spawn_key=self.spawn_key))

    def report(self, fraction: float, text: str = "") -> None:
        """Report the progress of this task, for `future.progress()`, progress bars and monitors.

        You may call this method as often as you like: only the latest report is sent, at most four times a second. The
        call does nothing when the task has ended, or if its worker cannot send reports (docs/howto/progress.md).

        Args:
            fraction: the finished part of the work, from 0 to 1.
            text: what the task does now; longer texts are cut to 200 characters.

        Raises:
            ValueError: if `fraction` is not a number from 0 to 1.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be a number from 0 to 1, not {fraction!r}")
        current.report(self, f"{100 * fraction:.4g}% {' '.join(text.split())[:REPORT_CHARACTERS]}".rstrip())


def _nothing() -> None:
    pass


class TaskContext:
    """The context of a process that runs no tasks: the default."""

    address: str | None = None
    """the address of the scheduler whose tasks run in this process"""
    agent_token = NO_ID
    """a secret that proves to the scheduler that the clients of this process are inside the agent of this process"""
    processor = 0
    """the number of this process; its agent never gives the number to another process"""
    account = NO_ACCOUNT
    preparing = ""
    """a description of the code that runs before this process takes tasks, such as "an initializer"; else empty"""

    @property
    def task(self) -> int:
        """The number of the running task, from 1; 0 if no task runs."""
        return 0

    def describe_task(self) -> CurrentTask | None:
        """Return the running task; None if this thread or process runs no task."""
        return None

    def report(self, task: CurrentTask, line: str) -> None:
        """Send the progress of a task soon, at a limited rate, if this process still runs the task."""

    @property
    def child_priority(self) -> int:
        """The default priority of tasks that are submitted now: one level deeper than the running task."""
        return 0

    def wait(
        self,
        reporter: WaitReporter | None = None,  # noqa: ARG002
        is_over: Callable[[], bool] | None = None,  # noqa: ARG002
        seconds: float | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Return a context manager in which this thread waits for tasks; its exit waits for a free slot of the worker.

        Args:
            reporter: the client that waits. None: the process is not stopped during the wait.
            is_over: returns whether the awaited tasks have ended. If False, the exit does not wait for a slot.
            seconds: the longest wait; None: no limit.
        """
        return _NO_WAIT

    def expect(self, reporter: WaitReporter | None = None) -> Callable[[], None]:  # noqa: ARG002
        """Report that a part of this task, such as a callback, may wait for other tasks.

        Returns:
            a function to call when the wait is over; further calls do nothing.
        """
        return _nothing

    def submitted(self, task_id: TaskId, cancel: Callable[[TaskId], None]) -> None:  # noqa: ARG002
        """Register a task that the running task submits. If the running task is cancelled, the submitted one is, too.

        Raises:
            ConfigError: if the process takes no tasks yet.
        """
        self.check_prepared()

    def check_prepared(self) -> None:
        """Raise `ConfigError` if the process takes no tasks yet, and so its clients may not wait for tasks."""
        if self.preparing:
            raise ConfigError(
                f"{self.preparing} cannot use the cluster whose workers it prepares: they take no tasks before it has "
                "ended, so the call would wait forever. Call the function directly, without a client, or make the call "
                "in the tasks. To use another cluster, create the client with the address of its scheduler"
            )

    def keep_while(self, is_needed: Callable[[], bool], close: Callable[[], None] | None = None) -> None:
        """Let this process live while `is_needed()` is true. `close` ends the connection that needs the process."""


def _connects_nothing(_address: str) -> Callable[[], None]:
    return _nothing


current = TaskContext()

key_file = ""
"""the path of the key file for the agent's scheduler; empty: the key is looked up by the address"""
trust_users: tuple[int, ...] = ()
"""uids of the users who may run the agent's scheduler at an ipc address besides this user and root"""


def with_agent_settings(endpoint: Endpoint) -> Endpoint:
    """Return the address with two settings of this process's agent: its key file and its trusted users."""
    return endpoint.with_key(key_file).trusting(trust_users)


connector: Callable[[str], Callable[[], object]] = _connects_nothing
"""Returns, for an address, a function that connects clients in tasks to that address. Set by the client module."""


class _Rerun(NamedTuple):
    task: CurrentTask
    others: frozenset[threading.Thread]
    """the threads that ran before the call started, except the thread of the call; they do not belong to the call"""


_reruns: list[_Rerun] = []
"""the calls that are being run again, the latest last"""


@contextmanager
def rerunning(task: CurrentTask) -> Iterator[None]:
    """Context manager: `current_task` returns `task` in this thread and in the threads that this thread starts."""
    rerun = _Rerun(task, frozenset({*threading.enumerate()} - {threading.current_thread()}))
    _reruns.append(rerun)
    try:
        yield
    finally:
        with suppress(ValueError):  # a fork has removed it
            _reruns.remove(rerun)


def current_task() -> CurrentTask | None:
    """Return the running task that calls this function; None outside of tasks.

    In a call made by `rerun()`, return the task that failed.
    """
    for rerun in reversed(_reruns):
        if threading.current_thread() not in rerun.others:
            return rerun.task
    return current.describe_task()


def enter(task_context: TaskContext) -> None:
    """Set the context of this process."""
    global current  # noqa: PLW0603 - there is one process
    current = task_context


@contextmanager
def preparing(address: str, what: str) -> Iterator[None]:
    """Context manager in which code such as "an initializer" (`what`) prepares a process for tasks from `address`."""
    before, context = current, TaskContext()
    context.address, context.preparing = address, what
    enter(context)
    try:
        yield
    finally:
        enter(before)


def _forked() -> None:
    enter(TaskContext())
    _reruns.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
