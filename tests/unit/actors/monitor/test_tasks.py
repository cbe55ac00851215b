from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.actors.monitor.names import Names
from scaler.actors.monitor.tasks import SampledTasks, rows_of
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.vocabulary.task_states import RETRIED
from scaler.ids import public_id
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack, row_ids
from tests.unit.actors.monitor.conftest import Move, task_id


@pytest.fixture
def tasks() -> SampledTasks:
    return SampledTasks(Names(ObjectTable()))


def test_the_most_recently_reported_of_very_many_tasks_are_kept(
    tasks: SampledTasks, ended: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.monitor.tasks.KEPT_MOST", 2)
    for number in (1, 2):
        tasks.observe_run(task_id(number), b"function", "price", "worker", 5)
    assert tasks.followed == {task_id(1), task_id(2)}
    tasks.add(ended(3), 6)
    assert tasks.followed == {task_id(2)}, "a forgotten task is not followed"
    items, total = tasks.items(is_first=True)
    assert [each.task for each in items] == [public_id(task_id(2)), public_id(task_id(3))]
    assert total == 2


def test_failed_tasks_have_precedence_in_the_list(
    tasks: SampledTasks, ended: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_run_that_raised_before_a_retry_is_shown_with_its_start(tasks: SampledTasks, ended: Move) -> None:
    moved = ended(1, TaskStatus.FAILED, "OSError: no")
    result = replace(moved.result, duration_us=3)
    tasks.add(replace(moved, event=RETRIED, state="inactive", result=result), 1_000)
    ((shown,), _) = tasks.items(is_first=False)
    assert (shown.state, shown.started_us, shown.ended_us) == ("inactive", 997, 0)


def test_each_row_of_a_range_is_shown_as_a_task_with_its_own_failure(ended: Move) -> None:
    moved = ended(1)
    result = replace(
        moved.result, rows=3, payload=pack([b"1", b"no", b"3"]), statuses=b"\0\1\0", failure="ValueError: no"
    )
    rows = list(rows_of(replace(moved, spec=replace(moved.spec, rows=3), result=result)))
    assert [row.spec.task_id for row in rows] == row_ids(task_id(1), 3)
    assert [row.state for row in rows] == ["success", "failed", "success"]
    assert [row.result.failure for row in rows] == ["", "ValueError: no", ""]


def test_a_result_without_the_rows_of_its_range_counts_for_each_row(ended: Move) -> None:
    moved = ended(1)
    for rows in (0, 2, 4096):
        result = replace(moved.result, rows=rows, status=TaskStatus.CANCELED)
        shown = list(rows_of(replace(moved, spec=replace(moved.spec, rows=3), result=result)))
        assert [row.spec.task_id for row in shown] == row_ids(task_id(1), 3)
