"""Invariants of a slot, of its processors and of each of its rooms, for tests that check them repeatedly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.executors.processes.slot.cancellation import Cancellation
from scaler.executors.processes.slot.processor_states import (
    BLOCKED,
    DISMISSED,
    DISTRUSTED,
    IDLE,
    KILLED,
    KILLED_STATES,
    RESUMABLE,
    RUNNING,
    UNSLOTTED,
)
from scaler.executors.processes.slot.processors import Processors
from scaler.executors.processes.slot.recall import Recall
from scaler.executors.processes.slot.reserve import Reserve
from scaler.executors.processes.slot.slot import Slot
from scaler.executors.processes.slot.supplies import Supplies
from scaler.executors.processes.slot.suspension import Suspension
from scaler.executors.processes.slot.time_limit import TimeLimit
from scaler.executors.task_queue import run_of


def audit_slot(slot: Slot) -> None:
    """Check that each run is in one place, and that no room remembers a processor that has ended."""
    audit_processors(slot._processors)
    for part in slot._parts:
        audit_part(part, slot._processors)
    runs = [run_of(task) for task in slot._queue]
    for processor in slot._processors:
        runs += map(run_of, processor.tasks())
    assert len(runs) == len(set(runs)), "a run is in two places"


def audit_part(part: Any, processors: Processors) -> None:
    """Check that a room keeps nothing about processors other than these."""
    _AUDITS[type(part)](part, {processor.number for processor in processors})


def audit_processors(processors: Processors) -> None:
    by_state, members, blocked_tasks = processors._by_state, processors._members, processors._blocked
    states = {number: state for state, numbers in by_state.items() for number in numbers}
    assert sum(map(len, by_state.values())) == len(states), "a processor is in two states"
    assert states == {number: each.state for number, each in members.items()}, (
        "a processor is filed under another state"
    )
    assert not processors._coming & members.keys(), "a processor is both up and starting"
    running = list(by_state[RUNNING].values())
    assert running == ([] if processors.active is None else [processors.active]), (
        "the active processor is not the running one"
    )
    assert blocked_tasks.keys() == by_state[BLOCKED].keys() | by_state[RESUMABLE].keys(), (
        "blocked tasks and blocked processors differ"
    )
    waits = any(by_state[state] for state in (BLOCKED, RESUMABLE, UNSLOTTED))
    assert processors.has_blocked == waits, "`has_blocked` is wrong"
    assert processors.is_usual != (waits or any(by_state[state] for state in (KILLED, DISTRUSTED))), (
        "`is_usual` is wrong"
    )
    for processor in processors:
        first = processor.held[0] if processor.held else None
        blocked = blocked_tasks.get(processor.number)
        assert blocked is None or (first is not None and first[0] is blocked), (
            "a blocked task is not the first of its processor"
        )
        assert not processor.held or processor.state not in (IDLE, DISMISSED), (
            "an idle or dismissed processor holds tasks"
        )
        assert processor.held or processor.held_us == 0 or processor.state is DISTRUSTED, (
            "a processor without tasks has expected work"
        )


def _audit_cancellation(part: Cancellation, numbers: set[int]) -> None:
    assert part.stops.keys() | part._reasons.keys() <= numbers, "an ended processor is stopped"
    for processor in part._processors:
        ends = part.ends(processor) or {}
        assert all(processor.numbers_of({run}) for run in ends), "a run to be ended is not held by its processor"
        assert (processor.number in part._reasons) == (processor.state in KILLED_STATES), (
            "a processor is killed without a reason, or has a reason and is not killed"
        )


def _audit_recall(part: Recall, numbers: set[int]) -> None:
    assert part._watched.keys() <= numbers, "the recall watches an ended processor"


def _audit_reserve(part: Reserve, numbers: set[int]) -> None:
    assert part._results_then.keys() | part.old <= numbers, "the reserve remembers an ended processor"


def _audit_supplies(part: Supplies, numbers: set[int]) -> None:
    assert part._stocks.keys() == numbers, "the supplies remember other processors"
    assert all(stock.used <= stock.has for stock in part._stocks.values()), (
        "a stock lists used objects that it does not have"
    )


def _audit_suspension(part: Suspension, numbers: set[int]) -> None:
    assert part._stopped.keys() <= part._waits.keys() <= numbers, "a stopped process does not wait"


def _audit_time_limit(part: TimeLimit, numbers: set[int]) -> None:
    assert part._due_at.keys() <= numbers, "the time limit watches an ended processor"


_AUDITS: dict[type, Callable[[Any, set[int]], None]] = {
    Cancellation: _audit_cancellation,
    Recall: _audit_recall,
    Reserve: _audit_reserve,
    Supplies: _audit_supplies,
    Suspension: _audit_suspension,
    TimeLimit: _audit_time_limit,
}
