"""Retries: whether a task whose run has failed is run again, and when.

The task calls these functions when its run has failed.
"""

from __future__ import annotations

from scaler.actors.vocabulary.services import Options
from scaler.actors.vocabulary.task_states import CRASHED, LOST, STOPPED, UNKNOWN
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult

DELAY_MOST_SECONDS = 60.0
"""The longest wait before a retry, unless the user has set a longer wait before the first retry."""

_DOUBLINGS_MOST = 32

TIMED_OUT_NAMES = frozenset({"TimeoutError", "OSError", "Exception", "BaseException"})
"""Names of `TimeoutError` and its base classes. If a run exceeds its time limit, the client raises `TimeoutError`."""


STARTED = {
    CRASHED: TaskStatus.PROCESSOR_DIED,
    LOST: TaskStatus.WORKER_DIED,
    STOPPED: TaskStatus.WORKER_DIED,
    UNKNOWN: TaskStatus.NOT_FOUND,
}
"""By event after which an at-most-once task may have started: the status with which the task then fails."""

NOT_RETRIED = "; it may have been started, and it is not run again because of its option at_most_once"
"""Text appended to the reason why an at-most-once task fails."""


def retry_reason(options: Options, result: RunResult, retries: int) -> str:
    """Return why a task is run again after this result; empty if it is not. `retries`: how often it was retried."""
    if retries >= options.retries:
        return ""
    if result.status == TaskStatus.FAILED:
        return options.retry_reason(result.payload)
    if result.status == TaskStatus.TIMED_OUT and TIMED_OUT_NAMES.intersection(options.retry_on):
        return result.payload.decode("utf-8", "replace").partition("\n")[0]
    return ""


def delay_seconds(options: Options, retries: int) -> float:
    """Return the wait before a retry. The wait doubles with each of the earlier `retries`."""
    first = options.retry_delay_ms / 1000
    return min(first * (1 << min(retries, _DOUBLINGS_MOST)), max(first, DELAY_MOST_SECONDS))
