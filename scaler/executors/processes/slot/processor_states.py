"""The life of a processor, as its slot sees it, as a table: state and event to the next state.
`docs/reference/processor-states.md` is drawn from it.

An event that is not in the row of the state, and not among `IGNORED`, is a mistake in this program and raises; it
changes nothing. News of a processor that is gone never gets here: the slot drops it before.
"""

from __future__ import annotations

from typing import NewType

State = NewType("State", str)
Event = NewType("Event", str)

COMING = State("coming")  # its process is being started
IDLE = State("idle")  # holds no tasks, and not the slot
RUNNING = State("running")  # holds the slot: tasks are handed to it, and it executes them
BLOCKED = State("blocked")  # its task waits for other tasks and has given up the slot
ASKING = State("asking")  # its task could go on, and asks for the slot
LOOSE = State("loose")  # executes a task without holding the slot; no tasks are handed out until that has ended
DISMISSED = State("dismissed")  # it was told to end, because there was nothing for it to do
DOOMED = State("doomed")  # it was killed, because a task did not end; results that it gave before still count
DISTRUSTED = State("distrusted")  # it was killed, because a result was wrong; nothing that it says counts
GONE = State("gone")
FINAL = frozenset({GONE})
KILLED = frozenset({DOOMED, DISTRUSTED})

READY = Event("ready")  # its process waits for work
GET_SLOT = Event("get slot")  # it is the next one, or it asked, or its task goes on and the slot is free
LOSE_SLOT = Event("lose slot")  # another one gets the slot, and it holds no tasks
BLOCK = Event("block")  # its task waits for others
ASK = Event("ask")  # what its task waited for is there
GO_ON = Event("go on")  # without the slot: its task shall end, or another thread of it resumed it, or it has ended
FINISH = Event("finish")  # it has given the results of all tasks that it held
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
        GO_ON: LOOSE,
        FINISH: IDLE,
        KILL: DOOMED,
        DISTRUST: DISTRUSTED,
        DIE: GONE,
    },
    ASKING: {
        BLOCK: BLOCKED,
        GET_SLOT: RUNNING,
        GO_ON: LOOSE,
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
