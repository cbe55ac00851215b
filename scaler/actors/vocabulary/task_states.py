"""The life of a task, as a table: state and event to the next state. `docs/reference/task-states.md` is drawn from it.

An event that is neither in the row of the state nor among `IGNORED` is a bug: it raises an error and changes nothing.
The task has already dropped events of older attempts.
"""

from __future__ import annotations

from typing import NewType

from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.vocabulary import FAILURES, OUTCOMES

State = NewType("State", str)
Event = NewType("Event", str)

READY = State("ready")  # waits for a worker
RETURNING = State("returning")  # an agent, which has reconnected or is still expected, may have a run of the task
LEAVING = State("leaving")  # an agent has a run of it; it is being withdrawn from the queue of the balancer
RUNNING = State("running")  # assigned to a worker, where it is queued or runs
WITHDRAWING = State("withdrawing")  # cancelled while it waited; it is being withdrawn from the queue of the balancer
CANCELING = State("canceling")  # cancelled while it was queued or ran; its worker was requested to stop it
DELAYED = State("delayed")  # it raised, and is retried after a delay
SUCCEEDED = State("succeeded")
FAILED = State("failed")
CANCELED = State("canceled")
FINAL = frozenset({SUCCEEDED, FAILED, CANCELED})

ASSIGNED = Event("assigned")
FINISHED = Event("finished")  # it has a result
RAISED = Event("raised")  # it raised, or failed in another way that a retry would not change
RETRIED = Event("retried")  # it raised, and its options request a retry
DUE = Event("due")  # the delay before the retry is over
CRASHED = Event("crashed")  # its processor died
CRASHED_TOO_OFTEN = Event("crashed too often")
LOST = Event("lost")  # its worker was lost
LOST_TOO_OFTEN = Event("lost too often")
REFUSED = Event("refused")  # too many tasks wait, and no worker has a free place
STOPPED = Event("stopped")  # the worker dropped it before it had a result
RECALLED = Event("returned")  # the worker returned it on request, before it started
UNKNOWN = Event("unknown")  # the worker does not have it
CANCEL = Event("cancel")
WITHDRAWN = Event("withdrawn")
NOT_WAITING = Event("not waiting")  # it is not in the balancer's queue, because it was assigned before, or forgotten
BALANCER_RESTARTED = Event("balancer restarted")
ASKED = Event("asked")  # an agent may have a run of it from before its submission to this scheduler
FOUND = Event("found")  # an agent has a run of it
ADOPTED = Event("adopted")  # the run that the agent has is now the run of the task
NOT_HELD = Event("not held")  # no agent has a run of it
GIVEN_UP = Event("given up")  # it may have started, and must not start again

TRANSITIONS: dict[State, dict[Event, State]] = {
    READY: {
        ASSIGNED: RUNNING,
        CANCEL: WITHDRAWING,
        REFUSED: FAILED,
        BALANCER_RESTARTED: READY,
        ASKED: RETURNING,
        FOUND: LEAVING,
    },
    RETURNING: {
        FOUND: RETURNING,
        ADOPTED: RUNNING,
        NOT_HELD: READY,
        GIVEN_UP: FAILED,
        CANCEL: WITHDRAWING,
    },
    LEAVING: {
        WITHDRAWN: RETURNING,
        ASSIGNED: RUNNING,
        NOT_WAITING: LEAVING,
        REFUSED: FAILED,
        CANCEL: WITHDRAWING,
        BALANCER_RESTARTED: LEAVING,
    },
    RUNNING: {
        FINISHED: SUCCEEDED,
        RAISED: FAILED,
        RETRIED: DELAYED,
        CRASHED: READY,
        CRASHED_TOO_OFTEN: FAILED,
        LOST: READY,
        LOST_TOO_OFTEN: FAILED,
        STOPPED: READY,
        RECALLED: READY,
        UNKNOWN: READY,
        GIVEN_UP: FAILED,
        CANCEL: CANCELING,
    },
    DELAYED: {
        DUE: READY,
        CANCEL: CANCELED,
    },
    WITHDRAWING: {
        WITHDRAWN: CANCELED,
        REFUSED: CANCELED,
        ASSIGNED: CANCELING,
        NOT_WAITING: WITHDRAWING,
        BALANCER_RESTARTED: WITHDRAWING,
    },
    CANCELING: {
        FINISHED: CANCELED,
        RAISED: CANCELED,
        RETRIED: CANCELED,
        CRASHED: CANCELED,
        CRASHED_TOO_OFTEN: CANCELED,
        LOST: CANCELED,
        LOST_TOO_OFTEN: CANCELED,
        STOPPED: CANCELED,
        RECALLED: CANCELED,
        UNKNOWN: CANCELED,
        GIVEN_UP: CANCELED,
    },
}

IGNORED: frozenset[tuple[State, Event]] = frozenset(
    {
        (WITHDRAWING, CANCEL),
        (CANCELING, CANCEL),
        (RUNNING, BALANCER_RESTARTED),
        (CANCELING, NOT_WAITING),
        (CANCELING, BALANCER_RESTARTED),
        (RETURNING, BALANCER_RESTARTED),
        (DELAYED, BALANCER_RESTARTED),
        (DELAYED, NOT_WAITING),
        (DELAYED, WITHDRAWN),
        (DELAYED, NOT_HELD),
        (READY, NOT_WAITING),
        (READY, WITHDRAWN),
        (RETURNING, NOT_WAITING),
        (RETURNING, WITHDRAWN),
        (RUNNING, NOT_WAITING),
        (RUNNING, WITHDRAWN),
        (CANCELING, WITHDRAWN),
        (READY, NOT_HELD),
        (LEAVING, NOT_HELD),
        (RUNNING, NOT_HELD),
        (WITHDRAWING, NOT_HELD),
        (CANCELING, NOT_HELD),
    }
)

EVENT_OF_STATUS: tuple[Event, ...] = tuple(
    {
        TaskStatus.SUCCESS: FINISHED,
        TaskStatus.FAILED: RAISED,
        TaskStatus.CANCELED: STOPPED,
        TaskStatus.PROCESSOR_DIED: CRASHED,
        TaskStatus.WORKER_DIED: LOST,
        TaskStatus.NO_WORKER: STOPPED,
        TaskStatus.NOT_FOUND: UNKNOWN,
        TaskStatus.MISSING_OBJECTS: RAISED,
        TaskStatus.INTERNAL_ERROR: RAISED,
        TaskStatus.TIMED_OUT: RAISED,
        TaskStatus.OUT_OF_MEMORY: CRASHED,
    }[status]
    for status in TaskStatus
)
"""For each status of a run's result, which is a number: the event for the task."""

_SHOWN: dict[State, str] = {
    READY: "inactive",
    RETURNING: "inactive",
    LEAVING: "inactive",
    RUNNING: "running",
    DELAYED: "inactive",
    WITHDRAWING: "canceling",
    CANCELING: "canceling",
    SUCCEEDED: "success",
    FAILED: "failed",
    CANCELED: "canceled",
}
_SHOWN_FAILURES: dict[int, str] = {status: name for status, name in OUTCOMES.items() if name in FAILURES}


def shown_state(state: State, status: int | None = None) -> str:
    """Return a state in the words of users. `status`: how the task failed, if the state is `FAILED`."""
    if state is FAILED and status is not None:
        return _SHOWN_FAILURES.get(status, _SHOWN[FAILED])
    return _SHOWN[state]


class IllegalTaskTransitionError(RuntimeError):
    """Error for an event that cannot happen in the state of the task."""


def next_state(state: State, event: Event) -> State | None:
    """Return the state after `event`; None: ignore it. Raises `IllegalTaskTransitionError` for impossible events."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        check_ignored(state, event)
    return following


def check_ignored(state: State, event: Event) -> None:
    """Raise `IllegalTaskTransitionError` unless `event`, which changes nothing in `state`, is in `IGNORED`."""
    if (state, event) not in IGNORED:
        raise IllegalTaskTransitionError(f"a task that is {state} cannot be {event}")
