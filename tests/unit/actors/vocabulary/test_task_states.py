"""The table of task states is complete and consistent."""

from __future__ import annotations

import pytest

from scaler.actors.vocabulary.task_states import (
    ASSIGNED,
    BALANCER_RESTARTED,
    CANCEL,
    CANCELED,
    CANCELING,
    CRASHED,
    EVENT_OF_STATUS,
    FAILED,
    FINAL,
    FINISHED,
    IGNORED,
    LOST,
    READY,
    RECALLED,
    REFUSED,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    TRANSITIONS,
    WITHDRAWING,
    WITHDRAWN,
    IllegalTaskTransitionError,
    next_state,
    shown_state,
)
from scaler.wire.messages.common import TaskStatus


def test_a_task_is_assigned_and_finishes() -> None:
    assert next_state(READY, ASSIGNED) is RUNNING
    assert next_state(RUNNING, FINISHED) is SUCCEEDED


@pytest.mark.parametrize("event", [CRASHED, LOST, STOPPED, RECALLED])
def test_a_task_that_its_worker_did_not_finish_is_ready_again_unless_it_is_cancelled(event: str) -> None:
    assert next_state(RUNNING, event) is READY
    assert next_state(CANCELING, event) is CANCELED


def test_only_a_waiting_task_can_be_refused() -> None:
    assert next_state(READY, REFUSED) is FAILED
    assert next_state(WITHDRAWING, REFUSED) is CANCELED
    with pytest.raises(IllegalTaskTransitionError):
        next_state(RUNNING, REFUSED)


def test_a_cancelled_task_that_was_assigned_meanwhile_is_cancelled_at_the_worker() -> None:
    assert next_state(READY, CANCEL) is WITHDRAWING
    assert next_state(WITHDRAWING, ASSIGNED) is CANCELING
    assert next_state(WITHDRAWING, WITHDRAWN) is CANCELED


def test_a_task_that_succeeds_while_it_is_being_cancelled_is_cancelled() -> None:
    assert next_state(CANCELING, FINISHED) is CANCELED


def test_a_late_event_that_the_table_allows_is_ignored() -> None:
    assert next_state(CANCELING, CANCEL) is None
    assert next_state(RUNNING, BALANCER_RESTARTED) is None


def test_an_impossible_event_raises_and_names_state_and_event() -> None:
    with pytest.raises(IllegalTaskTransitionError, match="a task that is running cannot be assigned"):
        next_state(RUNNING, ASSIGNED)


def test_no_event_is_both_ignored_and_a_transition() -> None:
    assert not [pair for pair in IGNORED if pair[1] in TRANSITIONS[pair[0]]]


def test_every_state_is_reachable_and_every_open_state_leads_to_an_end() -> None:
    reachable = {READY}
    while new := {after for state in reachable - FINAL for after in TRANSITIONS[state].values()} - reachable:
        reachable |= new
    assert reachable == set(TRANSITIONS) | FINAL
    for state in TRANSITIONS:
        seen = {state}
        while new := {after for one in seen - FINAL for after in TRANSITIONS[one].values()} - seen:
            seen |= new
        assert seen & FINAL, f"{state} never ends"


def test_every_status_of_a_run_is_an_event_for_a_running_task() -> None:
    assert len(EVENT_OF_STATUS) == len(TaskStatus)
    for status in TaskStatus:
        assert EVENT_OF_STATUS[status] in TRANSITIONS[RUNNING]
        assert TRANSITIONS[CANCELING][EVENT_OF_STATUS[status]] is CANCELED


def test_each_state_and_each_failure_has_a_name_that_users_see() -> None:
    states = [shown_state(state) for state in (*TRANSITIONS, SUCCEEDED, FAILED, CANCELED)]
    assert states == [
        "inactive",
        "inactive",
        "inactive",
        "running",
        "inactive",
        "canceling",
        "canceling",
        "success",
        "failed",
        "canceled",
    ]
    failures = {status: shown_state(FAILED, status) for status in TaskStatus}
    assert failures == {
        TaskStatus.SUCCESS: "failed",
        TaskStatus.FAILED: "failed",
        TaskStatus.CANCELED: "failed",
        TaskStatus.PROCESSOR_DIED: "processorDied",
        TaskStatus.WORKER_DIED: "workerDied",
        TaskStatus.NO_WORKER: "noWorker",
        TaskStatus.NOT_FOUND: "notFound",
        TaskStatus.MISSING_OBJECTS: "missingObjects",
        TaskStatus.INTERNAL_ERROR: "internalError",
        TaskStatus.TIMED_OUT: "timedOut",
        TaskStatus.OUT_OF_MEMORY: "outOfMemory",
    }
    assert shown_state(SUCCEEDED, TaskStatus.SUCCESS) == "success"
