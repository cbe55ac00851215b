from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.actors.monitor.names import Names
from scaler.actors.monitor.tasks import Tasks
from scaler.actors.objects.object_store import ObjectTable
from scaler.actors.tasks.task_states import RETRIED
from scaler.ids import public_id
from scaler.wire.messages.common import TaskStatus
from tests.unit.actors.monitor.conftest import Move, task_id


@pytest.fixture
def tasks() -> Tasks:
    return Tasks(Names(ObjectTable()))


def test_of_very_many_tasks_those_are_kept_of_which_was_heard_last(
    tasks: Tasks, ended: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.monitor.tasks.KEPT_MOST", 2)
    for number in (1, 2):
        tasks.saw(task_id(number), b"function", "price", "worker", 5)
    assert tasks.followed == {task_id(1), task_id(2)}
    tasks.add(ended(3), 6)
    assert tasks.followed == {task_id(2)}, "what is forgotten is not followed"
    items, total = tasks.items(is_first=True)
    assert [each.task for each in items] == [public_id(task_id(2)), public_id(task_id(3))]
    assert total == 2


def test_what_did_not_succeed_is_said_first(tasks: Tasks, ended: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.monitor.tasks.SHOWN_MOST", 2)
    tasks.add(ended(1, TaskStatus.FAILED, "ValueError: no"), 1)
    for number in (2, 3):
        tasks.add(ended(number), number)
    items, total = tasks.items(is_first=False)
    assert [(each.task, each.state) for each in items] == [
        (public_id(task_id(3)), "success"),
        (public_id(task_id(1)), "failed"),
    ]
    assert total == 3


def test_a_run_that_raised_before_a_retry_began_when_it_did(tasks: Tasks, ended: Move) -> None:
    moved = ended(1, TaskStatus.FAILED, "OSError: no")
    result = replace(moved.result, duration_us=3)
    tasks.add(replace(moved, event=RETRIED, state="inactive", result=result), 1_000)
    ((shown,), _) = tasks.items(is_first=False)
    assert (shown.state, shown.started_us, shown.ended_us) == ("inactive", 997, 0)
