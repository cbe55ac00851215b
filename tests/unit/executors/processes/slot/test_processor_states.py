"""The table of the states of a processor."""

from __future__ import annotations

import pytest

from scaler.executors.processes.slot.processor_states import (
    BLOCK,
    BLOCKED,
    DIE,
    DISMISS,
    DISTRUST,
    DISTRUSTED,
    ENDED,
    FINAL,
    GET_SLOT,
    IDLE,
    IGNORED,
    KILL,
    KILLED,
    KILLED_STATES,
    READY,
    REQUEST_SLOT,
    RESUMABLE,
    RESUME,
    RUNNING,
    STARTING,
    TRANSITIONS,
    UNSLOTTED,
    Event,
    IllegalProcessorTransitionError,
    State,
    next_state,
)


def test_states_of_a_processor_without_blocked_tasks() -> None:
    state = STARTING
    for event, following in ((READY, IDLE), (GET_SLOT, RUNNING), (DIE, ENDED)):
        assert next_state(state, event) == following
        state = following


def test_a_blocked_processor_resumes_with_or_without_permission() -> None:
    assert next_state(RUNNING, BLOCK) == BLOCKED
    assert next_state(BLOCKED, REQUEST_SLOT) == RESUMABLE
    assert next_state(RESUMABLE, GET_SLOT) == RUNNING
    assert next_state(BLOCKED, RESUME) == UNSLOTTED
    assert next_state(UNSLOTTED, BLOCK) == BLOCKED


@pytest.mark.parametrize(
    ("state", "event"), [(IDLE, BLOCK), (RUNNING, DISMISS), (RUNNING, REQUEST_SLOT), (KILLED, GET_SLOT), (ENDED, DIE)]
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
        assert row[DIE] == ENDED
        assert (row.get(DISTRUST) == DISTRUSTED) is (state not in (STARTING, DISTRUSTED))


def test_a_killed_processor_never_gets_tasks_again() -> None:
    assert {KILLED, DISTRUSTED} == KILLED_STATES
    for state in KILLED_STATES:
        assert set(TRANSITIONS[state].values()) <= KILLED_STATES | FINAL
    assert {state for state, row in TRANSITIONS.items() if KILL in row} == {RUNNING, BLOCKED, RESUMABLE, UNSLOTTED}
