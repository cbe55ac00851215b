"""OutputLimiter: how many lines of all workers leave a node, and how dropped lines are counted."""

from __future__ import annotations

from scaler.agent.outputs import BURST_SECONDS, TIMES_OF_ONE, OutputLimiter
from scaler.ids import TaskId
from scaler.wire.messages.common import OutputStream, TaskStatus
from scaler.wire.messages.worker import RunOutput, RunResult
from tests.support.virtual_clock import VirtualClock

ONE, OTHER = TaskId(b"1" * 16), TaskId(b"2" * 16)


def lines(task_id: TaskId, count: int, dropped: int = 0) -> list[RunOutput]:
    return [RunOutput(task_id, 0, 1, OutputStream.STANDARD_OUTPUT, 7, dropped, str(number)) for number in range(count)]


def result(task_id: TaskId) -> RunResult:
    return RunResult(task_id, 0, 1, TaskStatus.SUCCESS, b"", 0, ())


def test_lines_below_the_limit_pass_unchanged() -> None:
    outputs = OutputLimiter(10, VirtualClock(1000.0))
    printed = lines(ONE, 3, dropped=2)
    assert outputs.passing(printed, is_up=True) == printed
    assert not outputs.unreported


def test_lines_beyond_the_limit_are_counted_in_the_next_line() -> None:
    clock = VirtualClock(1000.0)
    outputs = OutputLimiter(10, clock)
    burst = 10 * TIMES_OF_ONE * BURST_SECONDS
    assert len(outputs.passing(lines(ONE, burst + 5, dropped=1), is_up=True)) == burst
    clock.advance(10.0)
    (line,) = outputs.passing(lines(ONE, 1), is_up=True)
    assert (line.dropped, line.text) == (10, "0")
    assert not outputs.unreported


def test_lines_without_a_scheduler_are_dropped_and_counted_at_the_end_of_the_run() -> None:
    outputs = OutputLimiter(10, VirtualClock(1000.0))
    assert outputs.passing([*lines(ONE, 4), *lines(OTHER, 1)], is_up=False) == []
    assert [(words.task_id, words.dropped, words.text) for words in outputs.take_unreported([result(ONE)])] == [
        (ONE, 4, "")
    ]
    assert [task_id for task_id, _, _ in outputs.unreported] == [OTHER]


def test_progress_reports_pass_the_limit_and_are_not_counted_when_dropped() -> None:
    outputs = OutputLimiter(1, lambda: 0.0)
    outputs.passing(lines(ONE, 1000), is_up=True)
    report = RunOutput(ONE, 0, 1, OutputStream.REPORT, 7, 0, "40%")
    unreported = dict(outputs.unreported)
    assert outputs.passing([report], is_up=True) == [report]
    assert outputs.passing([report], is_up=False) == []
    assert outputs.unreported == unreported
