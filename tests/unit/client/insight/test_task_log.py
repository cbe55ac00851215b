"""The output of a task, as users see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scaler.client.insight import task_log
from scaler.client.insight.task_log import TaskLog, TaskProgress, read_log
from scaler.client.link.requests import OnOutput
from scaler.ids import TaskId
from scaler.wire.messages.client import OutputLine
from scaler.wire.messages.common import OutputStream

TASK = TaskId(b"1" * 16)


def line(
    text: str, dropped: int = 0, stream: OutputStream = OutputStream.STANDARD_OUTPUT, time_us: int = 7
) -> OutputLine:
    return OutputLine(1, TASK, stream, time_us, dropped, "price", "rome07-3", text)


class Link:
    address = "tcp://here:1"

    def __init__(self, lines: Sequence[OutputLine] | None) -> None:
        self._lines = lines

    def read_output(self, _task_id: TaskId, on_output: OnOutput, report: bool = False) -> None:
        self.report = report
        if self._lines is not None:
            on_output(self._lines, 4)


def log_of(link: Any, timeout: float) -> TaskLog:
    return task_log.wait(link, task_log.ask_log(link, TASK), timeout)


def progress_of(link: Any, timeout: float) -> TaskProgress | None:
    return task_log.wait(link, task_log.ask_progress(link, TASK), timeout)


def test_a_task_log_is_a_sequence_of_lines_with_worker_and_task() -> None:
    log = log_of(Link([line("a"), line("b", stream=OutputStream.LOGGING)]), 5)
    assert [(each.worker, each.task, each.stream, each.text) for each in log] == [
        ("rome07-3", "price", "stdout", "a"),
        ("rome07-3", "price", "logging", "b"),
    ]
    assert (len(log), log[1].text, [each.text for each in log[:1]], log.text, log.dropped) == (2, "b", ["a"], "a\nb", 4)
    assert log[0].time.timestamp() == pytest.approx(7e-6)


def test_a_task_log_shows_where_lines_were_left_out() -> None:
    log = read_log([line("a"), line("b", dropped=3), line("", dropped=2)], 1005)
    assert str(log).splitlines() == [
        "(1,002 lines were left out)",
        "rome07-3 price: a",
        "(3 lines were left out)",
        "rome07-3 price: b",
    ]
    assert log.dropped == 1005
    assert str(read_log([], 1)) == "(1 line was left out)"
    assert str(TaskLog(())) == ""


def test_a_wrong_clock_of_a_worker_is_no_error() -> None:
    assert read_log([line("a", time_us=2**64 - 1)], 0)[0].time.year > 2000


def test_a_task_log_without_an_answer_is_a_timeout_error() -> None:
    with pytest.raises(TimeoutError, match=r"the scheduler at tcp://here:1 did not answer within 0\.01 seconds"):
        log_of(Link(None), 0.01)


def test_the_progress_of_a_task_has_a_fraction_a_text_and_a_worker() -> None:
    link = Link([line("40.5% of the paths", stream=OutputStream.REPORT)])
    progress = progress_of(link, 5)
    assert link.report
    assert progress is not None
    assert (progress.fraction, progress.text, progress.worker) == (0.405, "of the paths", "rome07-3")
    assert (str(progress), progress.time.timestamp()) == ("40.5% of the paths", pytest.approx(7e-6))
    assert progress_of(Link([]), 5) is None
    with pytest.raises(TimeoutError, match="did not answer within 0 seconds"):
        progress_of(Link(None), 0)


@pytest.mark.parametrize(
    ("text", "shown"), [("half", None), ("%", None), ("5", "5%"), ("1e9%", "100%"), ("-3% x", "0% x")]
)
def test_malformed_progress_is_ignored_or_clamped(text: str, shown: str | None) -> None:
    progress = task_log.read_progress([line(text)])
    assert (None if progress is None else str(progress)) == shown
