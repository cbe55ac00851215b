"""Processors: which processor of a worker does what."""

from __future__ import annotations

import pytest

from scaler.actors.kit import Dispatcher, VirtualClock
from scaler.ids import ObjectId, TaskId
from scaler.processor.progress_page import Progress, new_progress_page
from scaler.wire.messages.worker import RunTask
from scaler.worker.processors import Held, Processors, ProcessorState
from tests.support.recorder import Recorder

REF = Dispatcher(VirtualClock()).spawn(Recorder())


def processor(number: int, is_extra: bool = True) -> ProcessorState:
    return ProcessorState(number, REF, Progress(new_progress_page()), is_extra)


def task(priority: int = 0) -> RunTask:
    return RunTask(TaskId(b"t" * 16), 0, 1, ObjectId(b"f" * 16), b"", b"", priority)


@pytest.fixture
def processors() -> Processors:
    processors = Processors()
    for number in range(4):
        processors.join(processor(number, is_extra=number > 0))
    return processors


def member(processors: Processors, number: int) -> ProcessorState:
    found = processors.get(number)
    assert found is not None
    return found


def test_who_was_active_is_spare(processors: Processors) -> None:
    processors.activate(member(processors, 0))
    processors.activate(member(processors, 1))
    assert processors.active is member(processors, 1)
    assert [each.number for each in processors.spare] == [2, 3, 0]


def test_the_deepest_goes_on_first_and_among_equals_the_first(processors: Processors) -> None:
    for number, priority in enumerate((1, 3, 3)):
        processors.suspend(member(processors, number), task(priority))
        processors.ask(member(processors, number))
    assert processors.next_to_go_on().number == 1
    assert [each.number for each in processors.spare] == [3]


def test_it_waits_until_its_task_has_ended(processors: Processors) -> None:
    first = member(processors, 0)
    processors.activate(first)
    processors.suspend(first, task())
    assert (processors.active, processors.has_waiting()) == (None, True)
    processors.put_back(first)
    assert (processors.has_waiting(), first.waiting, processors.spare[-1]) == (False, None, first)


def test_the_dead_are_nowhere(processors: Processors) -> None:
    processors.activate(member(processors, 0))
    processors.suspend(member(processors, 1), task())
    processors.let_loose(member(processors, 2))
    for number in range(4):
        assert processors.leave(number) is not None
    assert processors.leave(0) is None
    assert (processors.active, processors.spare, processors.has_waiting(), list(processors)) == (None, [], False, [])


def test_the_reserve_counts_those_on_their_way(processors: Processors) -> None:
    processors.asked = 2
    processors.coming.add(9)
    assert processors.reserve() == 4 + 2 + 1
    processors.join(processor(9))
    assert processors.reserve() == 4 + 2 + 1


def test_only_extra_ones_that_had_nothing_to_do_all_the_time_are_surplus(processors: Processors) -> None:
    assert processors.take_surplus(1) == []  # nothing is known yet
    busy = member(processors, 3)
    processors.activate(busy)
    processors.put_back(busy)
    processors.activate(member(processors, 0))
    assert [each.number for each in processors.take_surplus(1)] == [1]
    assert [each.number for each in processors.spare] == [2, 3]


def test_only_the_task_that_is_executed_can_wait() -> None:
    one = processor(1)
    first, second = task(), task()
    one.held.extend([Held(first, 1.0), Held(second, 1.0)])
    one.results_seen = 4
    assert [one.executed_task(number) for number in (4, 5, 6)] == [None, first, None]
    one.held[0] = None
    assert one.executed_task(5) is None


def test_tasks_are_numbered_behind_the_results() -> None:
    one = processor(1)
    tasks = [task(priority) for priority in range(3)]
    one.held.extend(Held(each, 1.0) for each in tasks)
    one.results_seen = 4
    one.held[1] = None
    assert [one.task_at(number) for number in (0, 4, 5, 6, 7, 8)] == [None, None, tasks[0], None, tasks[2], None]
