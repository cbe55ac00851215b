"""Messages: small, comparable, readable."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from scaler.message import message


@message
class RunTask:
    task_id: bytes
    attempt: int = 0
    tags: list[str] = dataclasses.field(default_factory=list)


@message
class TaskFinished:
    task_id: bytes
    attempt: int = 0


def test_a_message_is_built_by_position_or_by_name() -> None:
    assert RunTask(b"id", 2) == RunTask(task_id=b"id", attempt=2)


def test_messages_with_the_same_data_and_type_are_equal() -> None:
    assert TaskFinished(b"id") == TaskFinished(b"id")
    assert TaskFinished(b"id") != TaskFinished(b"other")
    assert RunTask(b"id") != TaskFinished(b"id")


def test_a_message_shows_its_data() -> None:
    assert repr(TaskFinished(b"id", 1)) == "TaskFinished(task_id=b'id', attempt=1)"


def test_a_message_accepts_no_other_attributes() -> None:
    assert not hasattr(TaskFinished(b"id"), "__dict__")
    with pytest.raises(AttributeError):
        TaskFinished(b"id").worker = "w"  # type: ignore[attr-defined]


def test_default_values_are_not_shared() -> None:
    RunTask(b"a").tags.append("x")
    assert RunTask(b"b").tags == []


def test_messages_can_be_matched_by_position() -> None:
    match TaskFinished(b"id", 3):
        case TaskFinished(task_id, attempt):
            assert (task_id, attempt) == (b"id", 3)


def test_messages_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(RunTask(b"id", 1, ["x"]))) == RunTask(b"id", 1, ["x"])
