"""The table of the states of a processor."""

from __future__ import annotations

import pytest

from scaler.executors.processes.slot.processor_states import (
    ASK,
    ASKING,
    BLOCK,
    BLOCKED,
    COMING,
    DIE,
    DISMISS,
    DISTRUST,
    DISTRUSTED,
    DOOMED,
    FINAL,
    GET_SLOT,
    GONE,
    IDLE,
    IGNORED,
    KILL,
    KILLED,
    LOOSE,
    READY,
    RESUME,
    RUNNING,
    TRANSITIONS,
    Event,
    IllegalProcessorTransitionError,
    State,
    next_state,
)


def test_states_of_a_processor_without_blocked_tasks() -> None:
    state = COMING
    for event, following in ((READY, IDLE), (GET_SLOT, RUNNING), (DIE, GONE)):
        assert next_state(state, event) == following
        state = following


def test_a_blocked_processor_resumes_with_or_without_permission() -> None:
    assert next_state(RUNNING, BLOCK) == BLOCKED
    assert next_state(BLOCKED, ASK) == ASKING
    assert next_state(ASKING, GET_SLOT) == RUNNING
    assert next_state(BLOCKED, RESUME) == LOOSE
    assert next_state(LOOSE, BLOCK) == BLOCKED


@pytest.mark.parametrize(
    ("state", "event"), [(IDLE, BLOCK), (RUNNING, DISMISS), (RUNNING, ASK), (DOOMED, GET_SLOT), (GONE, DIE)]
)
def test_an_illegal_event_raises(state: State, event: Event) -> None:
    with pytest.raises(IllegalProcessorTransitionError, match=f"a processor that is {state} cannot {event}"):
        next_state(state, event)


def test_legal_late_events_are_ignored() -> None:
    for state, event in IGNORED:
        assert next_state(state, event) is None
        assert event not in TRANSITIONS[state]


def test_a_processor_may_die_in_each_state_and_be_distrusted_once() -> None:
    for state, row in TRANSITIONS.items():
        assert row[DIE] == GONE
        assert (row.get(DISTRUST) == DISTRUSTED) is (state not in (COMING, DISTRUSTED))


def test_a_killed_processor_never_gets_tasks_again() -> None:
    assert {DOOMED, DISTRUSTED} == KILLED
    for state in KILLED:
        assert set(TRANSITIONS[state].values()) <= KILLED | FINAL
    assert {state for state, row in TRANSITIONS.items() if KILL in row} == {RUNNING, BLOCKED, ASKING, LOOSE}
