"""The states of a processor in its slot, as a table from state and event to the next state.
`docs/reference/processor-states.md` is drawn from this table.

For an event that is neither in the row of the state nor among `IGNORED`, `next_state` raises.
"""

from __future__ import annotations

from typing import NewType

State = NewType("State", str)
Event = NewType("Event", str)

STARTING = State("starting")  # its process is being started
IDLE = State("idle")  # holds neither tasks nor the slot
RUNNING = State("running")  # holds the slot: it receives tasks and executes them
BLOCKED = State("blocked")  # its task waits for other tasks and has given up the slot
RESUMABLE = State("resumable")  # its blocked task can resume, and waits for the slot
UNSLOTTED = State("unslotted")  # executes a task without holding the slot; gets no other task before this one has ended
DISMISSED = State("dismissed")  # it was asked to end, because it had no work or is to be replaced
KILLED = State("killed")  # it was killed, because a task did not end; its earlier results still count
DISTRUSTED = State("distrusted")  # it was killed, because a result was wrong; its messages are ignored
ENDED = State("ended")
FINAL = frozenset({ENDED})
KILLED_STATES = frozenset({KILLED, DISTRUSTED})

READY = Event("ready")  # its process waits for work
GET_SLOT = Event("get slot")  # its turn has come, it requested the slot, or its task resumes while the slot is free
LOSE_SLOT = Event("lose slot")  # another processor gets the slot; this one holds no tasks
BLOCK = Event("block")  # its task waits for other tasks
REQUEST_SLOT = Event("request slot")  # the tasks that its blocked task waited for have ended
RESUME = Event("resume")  # it runs without the slot, because its blocked task has resumed or ended, or must end
FINISH = Event("finish")  # it has returned the results of all tasks that it held
DISMISS = Event("dismiss")  # it is asked to end
STAY = Event("stay")  # it cannot end: a client in it has open tasks
KILL = Event("kill")  # a task did not end in time
DISTRUST = Event("distrust")  # a result was not that of the expected task
DIE = Event("die")  # its process has ended

TRANSITIONS: dict[State, dict[Event, State]] = {
    STARTING: {READY: IDLE, DIE: ENDED},
    IDLE: {GET_SLOT: RUNNING, DISMISS: DISMISSED, DISTRUST: DISTRUSTED, DIE: ENDED},
    RUNNING: {FINISH: RUNNING, LOSE_SLOT: IDLE, BLOCK: BLOCKED, KILL: KILLED, DISTRUST: DISTRUSTED, DIE: ENDED},
    BLOCKED: {
        BLOCK: BLOCKED,
        GET_SLOT: RUNNING,
        REQUEST_SLOT: RESUMABLE,
        RESUME: UNSLOTTED,
        FINISH: IDLE,
        KILL: KILLED,
        DISTRUST: DISTRUSTED,
        DIE: ENDED,
    },
    RESUMABLE: {
        BLOCK: BLOCKED,
        GET_SLOT: RUNNING,
        RESUME: UNSLOTTED,
        FINISH: IDLE,
        KILL: KILLED,
        DISTRUST: DISTRUSTED,
        DIE: ENDED,
    },
    UNSLOTTED: {BLOCK: BLOCKED, FINISH: IDLE, KILL: KILLED, DISTRUST: DISTRUSTED, DIE: ENDED},
    DISMISSED: {STAY: IDLE, DISTRUST: DISTRUSTED, DIE: ENDED},
    KILLED: {DISTRUST: DISTRUSTED, DIE: ENDED},
    DISTRUSTED: {DIE: ENDED},
}

IGNORED: frozenset[tuple[State, Event]] = frozenset(
    {
        (RESUMABLE, REQUEST_SLOT),
        (KILLED, FINISH),
        (DISTRUSTED, STAY),
    }
)


class IllegalProcessorTransitionError(RuntimeError):
    """An event that cannot happen in the present state of a processor."""


def next_state(state: State, event: Event) -> State | None:
    """Return the state after `event`, or None if the event is to be ignored.

    Raises:
        IllegalProcessorTransitionError: if the event cannot happen in `state`.
    """
    following = TRANSITIONS.get(state, {}).get(event)
    if following is None and (state, event) not in IGNORED:
        raise IllegalProcessorTransitionError(f"a processor that is {state} cannot {event}")
    return following
