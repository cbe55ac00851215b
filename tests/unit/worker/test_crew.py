"""Crew: which processor of a worker does what."""

from __future__ import annotations

import pytest

from scaler.actors.kit import Dispatcher, VirtualClock
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.worker import RunTask
from scaler.worker.crew import Crew, Held, Work
from scaler.worker.progress import Progress, new_progress_page
from tests.support.recorder import Recorder

REF = Dispatcher(VirtualClock()).spawn(Recorder())


def work(number: int, is_extra: bool = True) -> Work:
    return Work(number, REF, Progress(new_progress_page()), is_extra)


def task(priority: int = 0) -> RunTask:
    return RunTask(TaskId(b"t" * 16), 0, 1, ObjectId(b"f" * 16), b"", b"", priority)


@pytest.fixture
def crew() -> Crew:
    crew = Crew()
    for number in range(4):
        crew.join(work(number, is_extra=number > 0))
    return crew


def member(crew: Crew, number: int) -> Work:
    found = crew.get(number)
    assert found is not None
    return found


def test_who_was_active_is_spare(crew: Crew) -> None:
    crew.activate(member(crew, 0))
    crew.activate(member(crew, 1))
    assert crew.active is member(crew, 1)
    assert [each.number for each in crew.spare] == [2, 3, 0]


def test_the_deepest_goes_on_first_and_among_equals_the_first(crew: Crew) -> None:
    for number, priority in enumerate((1, 3, 3)):
        crew.suspend(member(crew, number), task(priority))
        crew.ask(member(crew, number))
    assert crew.next_to_go_on().number == 1
    assert [each.number for each in crew.spare] == [3]


def test_it_waits_until_its_task_has_ended(crew: Crew) -> None:
    first = member(crew, 0)
    crew.activate(first)
    crew.suspend(first, task())
    assert (crew.active, crew.has_waiting()) == (None, True)
    crew.put_back(first)
    assert (crew.has_waiting(), first.waiting, crew.spare[-1]) == (False, None, first)


def test_the_dead_are_nowhere(crew: Crew) -> None:
    crew.activate(member(crew, 0))
    crew.suspend(member(crew, 1), task())
    crew.let_loose(member(crew, 2))
    for number in range(4):
        assert crew.leave(number) is not None
    assert crew.leave(0) is None
    assert (crew.active, crew.spare, crew.has_waiting(), list(crew)) == (None, [], False, [])


def test_the_reserve_counts_those_on_their_way(crew: Crew) -> None:
    crew.asked = 2
    crew.coming.add(9)
    assert crew.reserve() == 4 + 2 + 1
    crew.join(work(9))
    assert crew.reserve() == 4 + 2 + 1


def test_only_extra_ones_that_had_nothing_to_do_all_the_time_are_surplus(crew: Crew) -> None:
    assert crew.take_surplus(1) == []  # nothing is known yet
    busy = member(crew, 3)
    crew.activate(busy)
    crew.put_back(busy)
    crew.activate(member(crew, 0))
    assert [each.number for each in crew.take_surplus(1)] == [1]
    assert [each.number for each in crew.spare] == [2, 3]


def test_only_the_task_that_is_executed_can_wait() -> None:
    one = work(1)
    first, second = task(), task()
    one.held.extend([Held(first, 1.0), Held(second, 1.0)])
    one.results_seen = 4
    assert [one.executed_task(number) for number in (4, 5, 6)] == [None, first, None]
    one.held[0] = None
    assert one.executed_task(5) is None


def test_tasks_are_numbered_behind_the_results() -> None:
    one = work(1)
    tasks = [task(priority) for priority in range(3)]
    one.held.extend(Held(each, 1.0) for each in tasks)
    one.results_seen = 4
    one.held[1] = None
    assert [one.task_at(number) for number in (0, 4, 5, 6, 7, 8)] == [None, None, tasks[0], None, tasks[2], None]
