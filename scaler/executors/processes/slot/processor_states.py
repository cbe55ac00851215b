"""The states of a processor in its slot, as a table from state and event to the next state.
`docs/reference/processor-states.md` is drawn from it.

An event that is not in the row of the state, and not among `IGNORED`, is a programming error and raises; the state does
not change. The slot drops messages about processors that have ended before they get here.
"""

from __future__ import annotations

from typing import NewType

State = NewType("State", str)
Event = NewType("Event", str)

COMING = State("coming")  # its process is being started
IDLE = State("idle")  # holds no tasks, and not the slot
RUNNING = State("running")  # holds the slot: it receives tasks and executes them
BLOCKED = State("blocked")  # its task waits for other tasks and has given up the slot
ASKING = State("asking")  # its blocked task can resume, and asks for the slot
LOOSE = State("loose")  # executes a task without holding the slot; no tasks are sent until that task has ended
DISMISSED = State("dismissed")  # it was asked to end, because it had no work or is to be replaced
DOOMED = State("doomed")  # it was killed, because a task did not end; its earlier results still count
DISTRUSTED = State("distrusted")  # it was killed, because a result was wrong; its messages are ignored
GONE = State("gone")
FINAL = frozenset({GONE})
KILLED = frozenset({DOOMED, DISTRUSTED})

READY = Event("ready")  # its process waits for work
GET_SLOT = Event("get slot")  # it is next, or it asked, or its task resumes while the slot is free
LOSE_SLOT = Event("lose slot")  # another processor gets the slot, and it holds no tasks
BLOCK = Event("block")  # its task waits for other tasks
ASK = Event("ask")  # the tasks that its task waited for have ended
RESUME = Event("resume")  # without the slot: its task must end, was resumed by another of its threads, or has ended
FINISH = Event("finish")  # it has returned the results of all tasks that it held
DISMISS = Event("dismiss")
STAY = Event("stay")  # it cannot end: a client in it has open tasks
KILL = Event("kill")  # a task did not end in time
DISTRUST = Event("distrust")  # a result was not that of the task at its place
DIE = Event("die")  # its process has ended

TRANSITIONS: dict[State, dict[Event, State]] = {
    COMING: {READY: IDLE, DIE: GONE},
    IDLE: {GET_SLOT: RUNNING, DISMISS: DISMISSED, DISTRUST: DISTRUSTED, DIE: GONE},
    RUNNING: {FINISH: RUNNING, LOSE_SLOT: IDLE, BLOCK: BLOCKED, KILL: DOOMED, DISTRUST: DISTRUSTED, DIE: GONE},
    BLOCKED: {
        BLOCK: BLOCKED,
        GET_SLOT: RUNNING,
        ASK: ASKING,
        RESUME: LOOSE,
        FINISH: IDLE,
        KILL: DOOMED,
        DISTRUST: DISTRUSTED,
        DIE: GONE,
    },
    ASKING: {
        BLOCK: BLOCKED,
        GET_SLOT: RUNNING,
        RESUME: LOOSE,
        FINISH: IDLE,
        KILL: DOOMED,
        DISTRUST: DISTRUSTED,
        DIE: GONE,
    },
    LOOSE: {BLOCK: BLOCKED, FINISH: IDLE, KILL: DOOMED, DISTRUST: DISTRUSTED, DIE: GONE},
    DISMISSED: {STAY: IDLE, DISTRUST: DISTRUSTED, DIE: GONE},
    DOOMED: {DISTRUST: DISTRUSTED, DIE: GONE},
    DISTRUSTED: {DIE: GONE},
}

IGNORED: frozenset[tuple[State, Event]] = frozenset(
    {
        (ASKING, ASK),
        (DOOMED, FINISH),
        (DISTRUSTED, STAY),
    }
)


class IllegalProcessorTransitionError(RuntimeError):
    """An event that cannot happen in this state."""


def next_state(state: State, event: Event) -> State | None:
    """Return the state after `event`, or None if the event is to be ignored.

    Raises:
        IllegalProcessorTransitionError: if the event cannot happen in `state`.
    """
    following = TRANSITIONS.get(state, {}).get(event)
    if following is None and (state, event) not in IGNORED:
        raise IllegalProcessorTransitionError(f"a processor that is {state} cannot {event}")
    return following
