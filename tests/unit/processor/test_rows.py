"""Rows in a processor: a real process runs the rows of ranges, and ends ranges early."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler.ids import TaskId
from scaler.pickling.serialization import INLINE_BYTES, VALUE, argument_block, from_frames, to_frames
from scaler.processor.uplink import LATE_NS
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack, row_id, unpack
from scaler.wire.messages.worker import RunResult, RunTask
from tests.support.processes import wait_until
from tests.support.processor import DEFAULT, Driver, failure_of, value_of

pytestmark = pytest.mark.processes

SUCCESS, FAILED, CANCELED = TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.CANCELED


class Rows(Driver):
    """Sends ranges. `first` is the number of the first row of the range that was sent last."""

    first = 1
    sent = 0

    def send_range(self, function: Callable[[int], Any], rows: int = 4) -> RunTask:
        function_id = self.function(function)
        blocks = [argument_block(VALUE, bytes(to_frames(DEFAULT, row)[0]), "") for row in range(rows)]
        task = RunTask(TaskId(self._new_id()[:8] + bytes(8)), 0, 1, function_id, pack(blocks), b"", rows=rows)
        self.first, self.sent = self.sent + 1, self.sent + rows
        self.send(task)
        return task

    def await_row(self, row: int) -> int:
        """Wait until a row is executed. Return its number."""
        number = self.first + row
        wait_until(lambda: self.progress.executing == number, f"row {row} is executed")
        return number


@pytest.fixture
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    driver = Rows(tmp_path_factory.mktemp("processor"))
    yield driver
    driver.close()


def values(result: RunResult) -> list[Any]:
    return [from_frames(DEFAULT, [block]) for block in unpack(result.payload, result.rows)]


def place(task: RunTask, result: RunResult) -> tuple[int, TaskStatus, int, int]:
    """Return of which row a result is, its status, how many rows it has, and which row goes on."""
    row = next(row for row in range(task.rows) if row_id(task.task_id, row) == result.task_id)
    return row, TaskStatus(result.status), result.rows, result.running


def test_a_range_has_one_result(driver: Rows) -> None:
    task = driver.send_range(lambda row: row * row)
    (result,) = driver.results(1)
    assert place(task, result) == (0, SUCCESS, 4, 0)
    assert values(result) == [0, 1, 4, 9]


def test_a_row_that_raises_does_not_end_its_range(driver: Rows) -> None:
    task = driver.send_range(lambda row: 1 // (row - 2))
    (result,) = driver.results(1)
    assert place(task, result) == (0, SUCCESS, 4, 0)
    assert result.statuses == bytes([SUCCESS, SUCCESS, FAILED, SUCCESS])


def test_a_large_result_ends_its_range(driver: Rows) -> None:
    task = driver.send_range(lambda row: bytes(INLINE_BYTES + 1) if row == 2 else row)
    done, large, rest = driver.results(3)
    assert [place(task, each) for each in (done, large, rest)] == [
        (0, SUCCESS, 2, 3),
        (2, SUCCESS, 0, 0),
        (3, CANCELED, 1, 0),
    ]
    assert (values(done), value_of(large)) == ([0, 1], bytes(INLINE_BYTES + 1))
    assert value_of(driver.call(len, "behind it")) == 9


@pytest.mark.parametrize("row", range(4))
def test_a_row_that_takes_long_ends_its_range(driver: Rows, row: int) -> None:
    seconds = 5 * LATE_NS / 1e9
    task = driver.send_range(lambda each: each if each != row else time.sleep(seconds))
    (done,) = driver.results(1)
    assert driver.progress.executing == driver.first + row, "its results arrive while the row runs"
    assert place(task, done) == (0, SUCCESS, row, row + 1)
    results = driver.results(2 if row < 3 else 1)
    expected = [(row, SUCCESS, 0, 0), (row + 1, CANCELED, 3 - row, 0)]
    assert [place(task, each) for each in results] == (expected if row < 3 else expected[:1])
    assert results[0].duration_us >= seconds * 1e6


def test_a_row_that_takes_long_and_raises_fails_alone(driver: Rows) -> None:
    def run(row: int) -> None:
        time.sleep(5 * row * LATE_NS / 1e9)
        raise LookupError(row)

    task = driver.send_range(run, 2)
    done, failed = driver.results(2)
    assert [place(task, each) for each in (done, failed)] == [(0, SUCCESS, 1, 2), (1, FAILED, 0, 0)]
    assert done.statuses == bytes([FAILED])
    assert (failure_of(failed).text, failed.failure) == ("1", "LookupError: 1")


def test_an_interrupted_row_ends_its_range(driver: Rows) -> None:
    task = driver.send_range(lambda row: time.sleep(60 * (row == 1)))
    driver.interrupt_until_over(driver.await_row(1))
    results = driver.results(3)
    assert [place(task, each) for each in results] == [(0, SUCCESS, 1, 2), (1, CANCELED, 0, 0), (2, CANCELED, 2, 0)]
    assert value_of(driver.call(len, "behind it")) == 9


def test_rows_that_must_not_start_end_their_range(driver: Rows, tmp_path: Any) -> None:
    gate = str(tmp_path / "gate")

    def wait(row: int) -> int:
        while row == 1 and not Path(gate).exists():
            time.sleep(0.001)
        return row

    task = driver.send_range(wait)
    number = driver.await_row(1)
    driver.progress.withhold(after=number, to=driver.first + 3)
    (tmp_path / "gate").touch()
    results = driver.results(2)
    whole_or_row = [(0, SUCCESS, 2, 3), (2, CANCELED, 2, 0)]
    if place(task, results[0])[2] == 1:  # the machine is slow: row 1 took long
        whole_or_row = [(0, SUCCESS, 1, 2), (1, SUCCESS, 0, 0)]
    assert [place(task, each) for each in results] == whole_or_row


def test_a_range_that_must_not_start_has_one_result(driver: Rows) -> None:
    driver.progress.withhold(after=0, to=4)
    task = driver.send_range(lambda row: row)
    (result,) = driver.results(1)
    assert place(task, result) == (0, CANCELED, 4, 0)
    again = driver.send_range(lambda row: row)
    assert place(again, driver.results(1)[0]) == (0, SUCCESS, 4, 0)


def test_a_printed_line_does_not_end_its_range(driver: Rows) -> None:
    task = driver.send_range(print)
    (result,) = driver.results(1)
    assert place(task, result) == (0, SUCCESS, 4, 0)
    assert [(line.number, line.text) for line in driver.output] == [(1 + row, str(row)) for row in range(4)]
