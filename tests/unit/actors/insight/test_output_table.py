"""The table of task output: which lines are kept, and for how long."""

from __future__ import annotations

import pytest

from scaler.actors.insight import output_table
from scaler.actors.insight.output_table import BYTES_MOST, LINE_BYTES, LINES_MOST, OutputTable
from scaler.ids import TaskId, public_id
from scaler.wire.messages.common import OutputStream
from scaler.wire.messages.worker import RunOutput

ONE, OTHER = TaskId(b"1" * 16), TaskId(b"2" * 16)


def add(
    table: OutputTable,
    task_id: TaskId,
    text: str,
    now: float = 0.0,
    dropped: int = 0,
    stream: OutputStream = OutputStream.STANDARD_OUTPUT,
) -> int:
    line = RunOutput(task_id, 0, 1, stream, 7, dropped, text)
    return table.add(line, 5, "name", "worker", now).number


def texts(table: OutputTable, task_id: TaskId) -> list[str]:
    return [line.text for line in table.after(task_id, 0)]


def test_lines_are_kept_in_order_with_their_task() -> None:
    table = OutputTable(60.0)
    first = add(table, ONE, "a")
    add(table, OTHER, "x")
    add(table, ONE, "b", dropped=3)
    task = table.find(ONE)
    assert task is not None
    assert (task.name, task.account, task.dropped, texts(table, ONE)) == ("name", 5, 3, ["a", "b"])
    assert [line.text for line in table.after(ONE, first)] == ["b"]
    assert table.find(TaskId(b"3" * 16)) is None
    assert table.after(TaskId(b"3" * 16), 0) == []


def test_the_last_lines_of_a_task_are_kept_and_the_dropped_ones_are_counted() -> None:
    table = OutputTable(60.0)
    for number in range(LINES_MOST + 10):
        add(table, ONE, str(number))
    for _ in range(100):
        add(table, OTHER, "x" * 8000)
    one, other = table.find(ONE), table.find(OTHER)
    assert one is not None
    assert other is not None
    assert (one.dropped, texts(table, ONE)[0]) == (10, "10")
    assert other.size <= BYTES_MOST
    assert other.dropped == 100 - len(other.lines)


def test_the_lines_of_the_tasks_that_wrote_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_table, "TOTAL_BYTES_MOST", 20 * LINE_BYTES)
    table = OutputTable(60.0)
    for number in range(100):
        add(table, TaskId(number.to_bytes(16, "little")), "")
        assert table.size_bytes <= 20 * LINE_BYTES
    assert len(table) == 10
    assert table.find(TaskId((99).to_bytes(16, "little"))) is not None


def test_old_lines_are_forgotten_and_an_empty_table_takes_no_bytes() -> None:
    table = OutputTable(60.0)
    add(table, ONE, "a", now=0.0)
    add(table, OTHER, "b", now=30.0)
    assert table.expire(59.0) == 60.0
    add(table, ONE, "c", now=59.0)
    assert table.expire(100.0) == 119.0
    assert (table.find(OTHER), texts(table, ONE)) == (None, ["a", "c"])
    assert table.expire(200.0) is None
    assert (len(table), table.size_bytes) == (0, 0)


def test_a_task_is_found_by_its_short_id_while_lines_of_it_are_kept() -> None:
    table = OutputTable(60.0)
    add(table, ONE, "a", now=0.0)
    add(table, OTHER, "b", now=30.0)
    assert (table.id_of(public_id(ONE)), table.id_of(public_id(OTHER))) == (ONE, OTHER)
    table.expire(70.0)
    assert (table.id_of(public_id(ONE)), table.id_of(public_id(OTHER))) == (None, OTHER)


def test_no_line_is_kept_without_a_retention_time() -> None:
    table = OutputTable(0.0)
    add(table, ONE, "a")
    assert len(table) == 0


def test_only_the_latest_report_of_a_task_is_kept_and_displaces_no_line() -> None:
    table = OutputTable(60.0)
    add(table, ONE, "a")
    empty = table.size_bytes
    for number in range(2 * LINES_MOST):
        add(table, ONE, f"{number % 10}%", stream=OutputStream.REPORT)
    last = add(table, ONE, "b")
    task = table.find(ONE)
    assert task is not None
    assert task.report is not None
    assert ([line.text for line in task.lines], task.report.text, task.dropped) == (["a", "b"], "9%", 0)
    assert texts(table, ONE) == ["a", "9%", "b"]
    assert table.after(ONE, last) == []
    assert table.size_bytes == empty + task.report.size + LINE_BYTES + 1
    for _ in range(100):
        add(table, ONE, "x" * BYTES_MOST, stream=OutputStream.REPORT)
    assert task.size <= 2 * BYTES_MOST
