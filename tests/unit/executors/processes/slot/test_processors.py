"""Processors: the state of each processor of a worker."""

from __future__ import annotations

import pytest

from scaler.executors.processes.slot.processor_states import (
    BLOCKED,
    DISMISS,
    FINISH,
    IDLE,
    KILL,
    RESUMABLE,
    RESUME,
    RUNNING,
    UNSLOTTED,
    IllegalProcessorTransitionError,
)
from tests.support.pages import new_page
from tests.support.room_bench import RoomBench, finish
from tests.support.slot_audit import audit_processors


@pytest.fixture
def bench() -> RoomBench:
    return RoomBench()


def test_a_processor_that_loses_the_slot_becomes_the_last_idle_one(bench: RoomBench) -> None:
    first, second, third = bench.idle(), bench.idle(), bench.idle()
    bench.processors.give_slot(first)
    bench.processors.give_slot(second)
    assert bench.processors.active is second
    assert list(bench.processors.in_state(IDLE).values()) == [third, first]
    audit_processors(bench.processors)


def test_the_deepest_task_resumes_first_and_among_equals_the_earliest(bench: RoomBench) -> None:
    shallow, first, second = (bench.blocked(priority) for priority in (1, 3, 3))
    for processor in (shallow, first, second):
        bench.processors.ask(processor)
    assert bench.processors.next_to_resume() is first
    bench.processors.give_slot(first)
    assert bench.processors.next_to_resume() is second
    audit_processors(bench.processors)


def test_a_blocked_task_is_known_until_it_resumes(bench: RoomBench) -> None:
    processor = bench.blocked()
    task = processor.executed_task(1)
    assert (bench.processors.active, bench.processors.has_blocked) == (None, True)
    for event in (bench.processors.ask, lambda processor: bench.processors.apply(processor, RESUME)):
        assert bench.processors.blocked_task(processor) is task
        event(processor)
    assert (processor.state, bench.processors.blocked_task(processor)) == (UNSLOTTED, None)
    assert bench.processors.has_blocked
    finish(processor)
    bench.processors.apply(processor, FINISH)
    assert not bench.processors.has_blocked
    audit_processors(bench.processors)


def test_dead_processors_are_in_no_state(bench: RoomBench) -> None:
    members = [bench.idle(), bench.blocked(), bench.running(1)]
    bench.processors.ask(members[1])
    for processor in members:
        bench.processors.leave(processor)
        assert bench.processors.get(processor.number) is None
    assert bench.processors.active is None
    assert [bench.processors.in_state(state) for state in (IDLE, RUNNING, BLOCKED, RESUMABLE)] == [{}, {}, {}, {}]
    assert list(bench.processors) == []
    audit_processors(bench.processors)


def test_an_unexpected_processor_cannot_join(bench: RoomBench) -> None:
    with pytest.raises(IllegalProcessorTransitionError):
        bench.processors.join(7, bench.proxy, new_page(), False)
    bench.processors.expect(7)
    assert bench.processors.coming() == 1
    bench.processors.join(7, bench.proxy, new_page(), False)
    assert bench.processors.coming() == 0
    audit_processors(bench.processors)


def test_an_illegal_event_changes_nothing(bench: RoomBench) -> None:
    processor = bench.running(2)
    with pytest.raises(IllegalProcessorTransitionError):
        bench.processors.apply(processor, DISMISS)
    assert (processor.state, bench.processors.active) == (RUNNING, processor)
    audit_processors(bench.processors)


@pytest.mark.parametrize("fault", ["two places", "wrong state", "idle with a task", "lost block"])
def test_the_audit_finds_inconsistent_processors(bench: RoomBench, fault: str) -> None:
    blocked, idle = bench.blocked(), bench.idle()
    audit_processors(bench.processors)
    if fault == "two places":
        bench.processors.in_state(UNSLOTTED)[idle.number] = idle
    elif fault == "wrong state":
        idle.state = RUNNING
    elif fault == "idle with a task":
        idle.held.append((bench.task(), 1.0))
    else:
        blocked.held.clear()
    with pytest.raises(AssertionError):
        audit_processors(bench.processors)


def test_only_the_executing_task_can_be_blocked(bench: RoomBench) -> None:
    processor = bench.running(6)
    finish(processor, 4)
    first, second = processor.tasks()
    assert [processor.executed_task(number) for number in (4, 5, 6)] == [None, first, None]
    processor.held[0] = None
    assert processor.executed_task(5) is None
    assert processor.task_at(6) is second


def test_task_numbers_continue_after_the_results(bench: RoomBench) -> None:
    processor = bench.running(7)
    finish(processor, 4)
    tasks = processor.tasks()
    processor.held[1] = None
    numbers = (0, 4, 5, 6, 7, 8)
    assert [processor.task_at(number) for number in numbers] == [None, None, tasks[0], None, tasks[2], None]


def test_a_killed_processor_no_longer_holds_the_slot(bench: RoomBench) -> None:
    processor = bench.running(1)
    bench.processors.apply(processor, KILL)
    assert bench.processors.active is None
    audit_processors(bench.processors)
