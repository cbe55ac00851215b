"""Transitions of tasks, as the events report them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scaler.actors.vocabulary.events import TaskMoved
from scaler.actors.vocabulary.task_states import ADOPTED, FINISHED, Event
from scaler.ids import ClientId, ObjectId, TaskId
from scaler.kit import Actor, ActorRef, Dispatcher
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import OUTCOMES
from scaler.wire.messages.worker import RunResult

FUNCTION_ID = ObjectId(b"f" * 16)
Move = Callable[..., TaskMoved]


def task_id(number: int) -> TaskId:
    return TaskId(number.to_bytes(16, "big"))


@pytest.fixture
def ended() -> Move:
    """Return the end of a task: `ended(3, TaskStatus.FAILED, "ValueError: no 7")` is that of task 3."""
    task = Dispatcher(lambda: 0.0).spawn(Actor())

    def move(number: int, status: TaskStatus = TaskStatus.SUCCESS, failure: str = "", payload: bytes = b"") -> Any:
        spec = Task(task_id(number), FUNCTION_ID, b"", b"", 0, "", b"", 0)
        result = RunResult(spec.task_id, 0, 1, status, payload, 0, (), b"", failure)
        return TaskMoved(task, spec, ClientId(b"c" * 16), FINISHED, OUTCOMES[status], 1, None, "", result)

    return move


@pytest.fixture
def moved() -> Move:
    """Return a move of an open task: `moved(3, state="canceling")` is one of task 3."""
    dispatcher = Dispatcher(lambda: 0.0)

    def move(number: int, event: Event = ADOPTED, state: str = "running") -> Any:
        spec = Task(task_id(number), FUNCTION_ID, b"", b"", 0, "", b"", 0)
        return TaskMoved(dispatcher.spawn(Actor()), spec, ClientId(b"c" * 16), event, state, 1, None, "")

    return move


def mail_of(actor: ActorRef) -> list[Any]:
    """Return the mail that waits for an actor."""
    mailbox = actor._mailbox
    return list(mailbox) if isinstance(mailbox, list) else []
