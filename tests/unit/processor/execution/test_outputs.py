"""Outputs: which lines of a task are sent to the agent."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.processor.execution.outputs import BURST_SECONDS, LAST_LINES, OutputHandler, OutputSender
from scaler.wire.codec.columns import LINE_CHARACTERS
from scaler.wire.messages.common import OutputStream, TaskStatus
from scaler.wire.messages.processor import TaskOutput
from scaler.wire.messages.worker import RunResult
from tests.support.processor import Driver
from tests.support.virtual_clock import VirtualClock

OUT, ERR, LOG = OutputStream.STANDARD_OUTPUT, OutputStream.STANDARD_ERROR, OutputStream.LOGGING


class Scene:
    def __init__(self, lines_per_second: int = 50) -> None:
        self.words = [0]
        self.clock = VirtualClock(1000.0)
        self.sent: list[TaskOutput] = []
        self.reports: list[TaskOutput] = []
        self.outputs = OutputSender(self.words, self.sent.append, self.reports.append, lines_per_second, self.clock)

    def run(self, number: int, *lines: str) -> None:
        self.words[0] = number
        for line in lines:
            self.outputs.send_line(OUT, line)
        if self.outputs.held:
            self.outputs.after_task()
        self.words[0] = 0

    def texts(self) -> list[tuple[int, int, str]]:
        sent, self.sent[:] = list(self.sent), []
        return [(line.number, line.dropped, line.text) for line in sent]


def test_a_log_without_tasks_has_records_of_scaler_and_records_outside_tasks() -> None:
    scene = Scene()
    theirs, ours = (logging.LogRecord(name, 30, "", 0, "text", None, None) for name in ("mine", "scaler.task"))
    assert scene.outputs.belongs_in_log(theirs)
    scene.words[0] = 3
    assert not scene.outputs.belongs_in_log(theirs)
    assert scene.outputs.belongs_in_log(ours)
    assert Scene(0).outputs.belongs_in_log(theirs)


def test_a_line_has_the_number_of_its_task_and_lines_between_tasks_are_not_sent() -> None:
    scene = Scene()
    scene.outputs.send_line(OUT, "of no task")
    scene.run(3, "a", "b")
    scene.run(4, "c")
    scene.outputs.send_line(ERR, "late")
    assert scene.texts() == [(3, 0, "a"), (3, 0, "b"), (4, 0, "c")]


def test_beyond_the_limit_the_last_lines_are_sent_at_the_end_and_the_rest_are_counted() -> None:
    scene = Scene()
    burst = 50 * BURST_SECONDS
    scene.run(1, *map(str, range(1000)))
    sent = scene.texts()
    assert sent[:burst] == [(1, 0, str(number)) for number in range(burst)]
    assert sent[burst] == (1, 1000 - burst - LAST_LINES, str(1000 - LAST_LINES))
    assert sent[burst + 1 :] == [(1, 0, str(number)) for number in range(1001 - LAST_LINES, 1000)]


def test_lines_are_sent_again_after_a_second_together_with_the_last_lines_before() -> None:
    scene = Scene()
    scene.words[0] = 1
    for number in range(200):
        scene.outputs.send_line(OUT, str(number))
    assert len(scene.texts()) == 100
    scene.clock.advance(1.0)
    scene.outputs.send_line(OUT, "later")
    first, *held, later = scene.texts()
    assert first == (1, 100 - LAST_LINES, str(200 - LAST_LINES))
    assert held == [(1, 0, str(number)) for number in range(201 - LAST_LINES, 200)]
    assert later == (1, 0, "later")
    assert not scene.outputs.held


def test_held_lines_count_towards_the_limit() -> None:
    scene = Scene()
    scene.words[0] = 1
    for _ in range(100):
        for number in range(1000):
            scene.outputs.send_line(OUT, str(number))
        scene.clock.advance(1.0)
    assert 5000 <= len(scene.sent) <= 50 * (100 + BURST_SECONDS) + LAST_LINES


def test_held_lines_of_a_task_are_not_sent_for_the_next_task() -> None:
    scene = Scene(1)
    scene.words[0] = 1
    for _ in range(5):
        scene.outputs.send_line(OUT, "one")
    scene.words[0] = 2  # it was interrupted
    scene.outputs.send_line(OUT, "two")
    scene.outputs.after_task()
    assert [number for number, _, text in scene.texts() if text == "two"] == [2]


def test_long_lines_are_cut() -> None:
    scene = Scene(1000)
    scene.run(1, "x" * 100_000)
    assert [len(line.text) for line in scene.sent] == [LINE_CHARACTERS]


def test_no_lines_are_sent_if_the_setting_is_off_or_in_a_forked_process() -> None:
    off, forked = Scene(0), Scene()
    forked.outputs.forked()
    for scene in (off, forked):
        scene.run(1, "a")
        assert scene.texts() == []


def test_log_records_of_tasks_are_sent_line_by_line_and_records_of_scaler_are_not() -> None:
    scene = Scene()
    handler = OutputHandler(scene.outputs)
    scene.words[0] = 1
    for name, message in (("mine", "one\ntwo"), ("scaler.executors.processes.slot.slot", "ours")):
        handler.handle(logging.LogRecord(name, logging.WARNING, "", 0, message, None, None))
    handler.handle(logging.LogRecord("mine", logging.INFO, "", 0, "%d", ("no number",), None))
    assert [(line.stream, line.text) for line in scene.sent] == [(LOG, "WARNING:mine: one"), (LOG, "two")]


def speak(name: str) -> None:
    print("hello", name)
    print("careful", file=sys.stderr)
    logging.getLogger("mine").warning("watch out")
    print("no end", end="")


def fork() -> None:
    child = os.fork()
    if not child:
        print("in the child", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("in the parent")


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path)
    yield driver
    driver.close()


@pytest.mark.processes
def test_a_processor_sends_the_lines_of_a_task_before_its_result(driver: Driver) -> None:
    driver.call(speak, "you")
    assert [(line.number, line.stream, line.text) for line in driver.output] == [
        (1, OUT, "hello you"),
        (1, ERR, "careful"),
        (1, LOG, "WARNING:mine: watch out"),
        (1, OUT, "no end"),
    ]
    assert driver.kinds == [TaskOutput] * 4 + [RunResult]
    assert all(line.time_us > 1_600_000_000_000_000 for line in driver.output)
    driver.call(abs, -1)
    assert len(driver.output) == 4
    assert "hello you" in driver.log_text


@pytest.mark.processes
def test_output_of_a_forked_child_is_only_in_the_log(driver: Driver) -> None:
    assert driver.call(fork).status == TaskStatus.SUCCESS
    assert [line.text for line in driver.output] == ["in the parent"]
    assert "in the child" in driver.log_text


def test_a_progress_report_has_the_number_of_the_running_task() -> None:
    scene = Scene()
    scene.outputs.report("0%")
    scene.words[0] = 3
    scene.outputs.report("40% of it")
    assert [(line.number, line.stream, line.text) for line in scene.reports] == [(3, OutputStream.REPORT, "40% of it")]
    assert scene.sent == []
    quiet = Scene(lines_per_second=0)
    quiet.words[0] = 1
    quiet.outputs.report("1%")
    scene.outputs.forked()
    scene.outputs.report("50%")
    assert (len(quiet.reports), len(scene.reports)) == (0, 1)
