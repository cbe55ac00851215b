from __future__ import annotations

from scaler.client.calls.inputs import Input, blamed, other_client
from scaler.ids import TaskId
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import TaskStatus

FIRST, SECOND = TaskId(b"1" * 16), TaskId(b"2" * 16)


def test_an_input_is_open_until_its_task_ends() -> None:
    needed = Input(FIRST, "first", (("argument 1", Input(SECOND, "second", ())),))
    assert needed.is_open
    assert not needed.has_failed
    needed.fail(KeyError)
    assert not needed.is_open
    assert needed.has_failed
    needed.end(TaskResult(FIRST, 0, b"", 0))  # it has run again
    assert not needed.is_open
    assert not needed.has_failed
    assert needed.arguments == ()


def test_the_first_failed_task_is_named_as_the_cause() -> None:
    first = Input(FIRST, "load", ())
    second = Input(SECOND, "clean", (("argument 1", first),))
    assert blamed("plot", (("argument 'table'", second),)) == "plot"
    first.end(TaskResult(FIRST, TaskStatus.FAILED, b"", 0))
    assert blamed("clean", (("argument 1", first),)) == "load (31313131), whose result is argument 1 of task clean"
    second.end(TaskResult(SECOND, TaskStatus.FAILED, b"", 0))
    expected = "load (31313131), which task plot needs for the argument 'table', the result of task clean"
    assert blamed("plot", (("the argument 'table'", second),)) == expected


def test_the_error_for_a_future_of_another_client_says_what_to_do() -> None:
    assert "submit both tasks with one client, or pass future.result()" in str(other_client("load"))
