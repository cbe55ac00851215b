from __future__ import annotations

import pytest

from scaler.actors.tasks.retries import DELAY_MOST_SECONDS, delay_seconds, retry_reason
from scaler.ids import TaskId
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult

ONCE_MORE = RunOptions(retries=1, retry_on=("Exception",))


def ended(status: TaskStatus, payload: bytes = b"") -> RunResult:
    return RunResult(TaskId(b"t" * 16), 0, 1, status, payload, 0, ())


def failure(name: str, *bases: str, text: str = "") -> RunResult:
    return ended(TaskStatus.FAILED, TaskFailure(name, text, "", b"", bases).encode())


def test_the_reason_of_a_retry_is_one_line() -> None:
    reset = failure("ValueError", "Exception", text="one\ntwo")
    assert retry_reason(ONCE_MORE, reset, 0) == "ValueError: one"
    assert retry_reason(ONCE_MORE, reset, 1) == ""


def test_retry_on_matches_a_class_and_its_base_classes() -> None:
    mine = RunOptions(retries=1, retry_on=("my.Error",))
    assert retry_reason(mine, failure("my.Error", "Exception"), 0)
    assert retry_reason(mine, failure("my.Special", "my.Error", "Exception"), 0)
    assert not retry_reason(mine, failure("Exception", "BaseException"), 0)


@pytest.mark.parametrize("status", [status for status in TaskStatus if status != TaskStatus.TIMED_OUT])
def test_a_failure_that_is_no_exception_of_the_task_is_not_retried(status: TaskStatus) -> None:
    assert retry_reason(ONCE_MORE, ended(status, b"a sentence"), 0) == ""


def test_retry_on_timeout_error_matches_a_time_out() -> None:
    late = ended(TaskStatus.TIMED_OUT, b"it ran for 3 s\nsomewhere")
    for name in ("TimeoutError", "OSError", "Exception"):
        assert retry_reason(RunOptions(retries=1, retry_on=(name,)), late, 0) == "it ran for 3 s"
    assert retry_reason(RunOptions(retries=1, retry_on=("ValueError",)), late, 0) == ""


def test_the_pause_before_a_retry_doubles_up_to_a_minute_unless_the_first_is_longer() -> None:
    options = RunOptions(retry_delay_ms=500)
    assert [delay_seconds(options, retries) for retries in range(4)] == [0.5, 1, 2, 4]
    assert delay_seconds(options, 1_000_000) == DELAY_MOST_SECONDS == 60
    assert delay_seconds(RunOptions(retry_delay_ms=90_000), 5) == 90
    assert delay_seconds(RunOptions(), 5) == 0
