from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.actors.monitor.names import Names
from scaler.actors.monitor.tasks import SampledTasks, rows_of
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.vocabulary.events import SEEN, SUBMITTED
from scaler.actors.vocabulary.task_states import ASSIGNED, RETRIED
from scaler.ids import public_id
from scaler.monitor.model.tasks import ids_in
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.monitor import StateRuns, StateTask, unseen_after_us
from scaler.wire.messages.rows import pack, row_ids
from tests.support.monitored import NOON_US
from tests.unit.actors.monitor.conftest import Move, mail_of, task_id


@pytest.fixture
def tasks() -> SampledTasks:
    return SampledTasks(Names(ObjectTable()))


S = 1_000_000
INTERVAL_MS = 2000
LOST_US = unseen_after_us(INTERVAL_MS)


class Watching:
    """Publishes the sample each second, as the monitor does."""

    def __init__(self, tasks: SampledTasks) -> None:
        self.tasks = tasks
        self.now_us = NOON_US
        self.runs = StateRuns()
        self.total = 0

    def publish(self, is_first: bool = False) -> list[StateTask]:
        self.now_us += S
        (*items, self.runs), shown, self.total = self.tasks.items(is_first, self.now_us, INTERVAL_MS)
        assert shown == len(items)
        return items

    def run(self, number: int) -> bool:
        """Report a run, as an agent does."""
        run = task_id(number), "worker", NOON_US, self.now_us
        return self.tasks.see_run(*run) or self.tasks.add_run(*run, b"function", "price")

    @property
    def running(self) -> set[bytes]:
        return set(ids_in(self.runs.running))

    @property
    def open(self) -> set[bytes]:
        return self.running | set(ids_in(self.runs.others))


def short(*numbers: int) -> set[bytes]:
    return {public_id(task_id(number)) for number in numbers}


@pytest.fixture
def watching(tasks: SampledTasks) -> Watching:
    return Watching(tasks)


def test_open_tasks_are_followed_until_they_end(tasks: SampledTasks, moved: Move, ended: Move) -> None:
    tasks.add(moved(1), 1)
    tasks.see_run(task_id(2), "worker", 1, 2)
    tasks.add_run(task_id(3), "worker", 1, 2, b"function", "price")
    assert tasks.followed == {task_id(1), task_id(3)}
    tasks.add(ended(1), 2)
    assert tasks.followed == {task_id(3)}


def test_ended_tasks_are_dropped_first_and_no_open_task_is(
    tasks: SampledTasks, watching: Watching, moved: Move, ended: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.monitor.tasks.KEPT_MOST", 4)
    monkeypatch.setattr("scaler.actors.monitor.tasks.OPEN_MOST", 2)
    for number in (1, 2, 3):
        tasks.add(ended(number), number)
    tasks.add(moved(4), 6)
    assert watching.run(5)
    tasks.add(moved(6), 7)  # refused
    assert not watching.run(7)
    assert {each.task for each in watching.publish(is_first=True)} == short(2, 3, 4, 5)
    assert watching.open == short(4, 5)
    tasks.add(ended(6), 8)
    assert {each.task for each in watching.publish(is_first=True)} == short(3, 4, 5, 6)
    assert tasks.followed == {task_id(4), task_id(5)}


def test_the_ends_of_tasks_that_were_published_as_open_are_never_left_out(
    tasks: SampledTasks, watching: Watching, moved: Move, ended: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.monitor.tasks.SHOWN_MOST", 2)
    published = range(1, 8)
    for number in published:
        tasks.add(moved(number), number)
    shown = [watching.publish() for _ in range(4)]
    assert [len(each) for each in shown] == [2, 2, 2, 1], "the others follow"
    for number in (*published, 11, 12, 13):
        tasks.add(ended(number), number)
    items = watching.publish()
    assert {each.task for each in items} == short(*published, 12, 13)
    assert (watching.open, watching.total) == (set(), len(items) + 1)
    assert watching.publish() == []


def test_each_message_names_the_open_tasks_and_those_that_run(
    tasks: SampledTasks, watching: Watching, moved: Move, ended: Move
) -> None:
    tasks.add(moved(1), 1)
    tasks.add(moved(2), 1)
    assert watching.run(1)
    (waiting, running) = watching.publish()
    assert (running.seen_us, running.started_us, waiting.seen_us) == (NOON_US, NOON_US, 0)
    assert (watching.running, watching.open) == (short(1), short(1, 2))
    assert watching.publish() == []
    assert (watching.running, watching.open) == (set(), short(1, 2))
    watching.run(1)
    assert watching.publish() == [], "nothing but the time of the report has changed"
    assert watching.running == short(1)
    tasks.add(ended(1), 1)
    assert [each.task for each in watching.publish()] == list(short(1))
    assert watching.open == short(2)
    assert watching.run(1), "a late report"
    watching.publish()
    assert watching.running == set()


def test_a_task_that_is_being_canceled_stays_so_while_an_agent_reports_its_run(
    tasks: SampledTasks, watching: Watching, moved: Move
) -> None:
    tasks.add(moved(1, state="canceling"), 1)
    watching.run(1)
    (shown,) = watching.publish()
    assert (shown.state, shown.seen_us) == ("canceling", NOON_US)


def test_an_assigned_retry_has_not_started(tasks: SampledTasks, watching: Watching, moved: Move) -> None:
    tasks.add(moved(1), 1)
    watching.run(1)
    watching.publish()
    tasks.add(moved(1, event=ASSIGNED), 2)
    (shown,) = watching.publish()
    assert (shown.seen_us, shown.started_us) == (0, 0)


def test_tasks_whose_actor_has_ended_without_an_end_are_dropped(
    tasks: SampledTasks, watching: Watching, moved: Move
) -> None:
    move = moved(1)
    tasks.add(move, 1)
    watching.publish()
    move.task.stop(block=False)
    move.task._dispatcher.run()
    assert move.task.is_stopped()
    watching.publish()
    assert watching.open == short(1), "its end may be on its way"
    watching.publish()
    assert watching.open == set()
    assert tasks.followed == set()


def test_runs_without_a_known_task_are_dropped_when_no_agent_reports_them(
    tasks: SampledTasks, watching: Watching
) -> None:
    watching.run(1)
    for _ in range(LOST_US // S):
        watching.publish()
    assert watching.open == short(1)
    watching.publish()
    assert watching.open == set()


def test_open_tasks_are_dropped_when_no_viewer_wants_them(
    tasks: SampledTasks, watching: Watching, moved: Move, ended: Move
) -> None:
    tasks.add(moved(1), 1)
    tasks.add(ended(2), 2)
    tasks.drop_open()
    assert {each.task for each in watching.publish(is_first=True)} == short(2)
    assert (watching.open, tasks.followed) == (set(), set())


def test_a_new_viewer_gets_what_is_kept_and_the_open_tasks_that_are_left_over_later(
    tasks: SampledTasks, watching: Watching, moved: Move, ended: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.monitor.tasks.FIRST_MOST", 3)
    for number in (1, 2, 3, 4):
        tasks.add(moved(number), number)
    for number in (5, 6):
        tasks.add(ended(number), number)
    watching.publish()
    first = {each.task for each in watching.publish(is_first=True)}
    assert len(first) == 3
    assert first | {each.task for each in watching.publish()} == short(1, 2, 3, 4)


def test_an_open_task_is_asked_once_when_it_was_submitted(tasks: SampledTasks, watching: Watching, moved: Move) -> None:
    move = moved(1, event=ASSIGNED)
    tasks.add(move, 1)
    watching.publish()
    watching.publish()
    assert [asked.task_id for asked in mail_of(move.task)] == [task_id(1)]
    tasks.add(replace(move, event=SEEN, age_seconds=3.0), NOON_US)
    (shown,) = watching.publish()
    assert shown.submitted_us == NOON_US - 3 * S


def test_a_task_whose_submission_is_known_is_not_asked(tasks: SampledTasks, watching: Watching, moved: Move) -> None:
    move = moved(1, event=SUBMITTED, state="inactive")
    tasks.add(move, NOON_US)
    (shown,) = watching.publish()
    assert (shown.submitted_us, mail_of(move.task)) == (NOON_US, [])


def test_a_watched_task_is_published_with_each_report(tasks: SampledTasks, watching: Watching, moved: Move) -> None:
    (short_id,) = short(1)
    tasks.ask([short_id])
    tasks.add(moved(1), 1)
    assert len(tasks.of_task(short_id, is_first=True)) == 2
    assert tasks.of_task(short_id, is_first=False) == []
    watching.run(1)
    (shown,) = tasks.of_task(short_id, is_first=False)
    assert isinstance(shown, StateTask)
    assert shown.seen_us == NOON_US


def test_failed_tasks_have_precedence_in_the_list(
    tasks: SampledTasks, watching: Watching, ended: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.monitor.tasks.SHOWN_MOST", 2)
    tasks.add(ended(1, TaskStatus.FAILED, "ValueError: no"), 1)
    for number in (2, 3):
        tasks.add(ended(number), number)
    items = watching.publish()
    assert [(each.task, each.state) for each in items] == [
        (public_id(task_id(3)), "success"),
        (public_id(task_id(1)), "failed"),
    ]
    assert watching.total == 3


def test_a_run_that_raised_before_a_retry_is_shown_with_its_start(
    tasks: SampledTasks, watching: Watching, ended: Move
) -> None:
    moved = ended(1, TaskStatus.FAILED, "OSError: no")
    result = replace(moved.result, duration_us=3)
    tasks.add(replace(moved, event=RETRIED, state="inactive", result=result), 1_000)
    (shown,) = watching.publish()
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
