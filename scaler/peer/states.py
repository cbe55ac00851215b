"""The conversation of a peer with schedulers, as a table: state and event to the next state and what to do.
`docs/reference/conversation-states.md` and the table in `protocol/README.md` are drawn from it.

Clients and agents follow it. An event that is not in the row of the state is late and lawful: it changes nothing.
"""

from __future__ import annotations

from typing import NewType

State = NewType("State", str)
Event = NewType("Event", str)
Action = NewType("Action", str)

GREETING = State("greeting")  # there is a connection: the hello was said on it, and its reply is awaited
UP = State("up")  # the hello was accepted: items travel
AWAY = State("away")  # there is no connection; the next one is opened after a pause
LEAVING = State("leaving")  # the goodbye was said, and its answer is awaited
ENDED = State("ended")  # there is no connection, and never will be one
FINAL = frozenset({ENDED})

PAUSE_OVER = Event("pause over")  # time: the next connection is due
OPENED = Event("opened")  # there is a new connection
RESUMED = Event("resumed")  # welcome: the scheduler has kept the session
RESET = Event("reset")  # welcome: the session begins anew, the first one too
REPLACED = Event("replaced")  # welcome: it is another scheduler than the last one
REFUSED = Event("refused")  # the hello was not accepted, or there is no way to connect to such an address
ASKED = Event("asked")  # the scheduler asks for a hello: it does not know this connection
CUT = Event("cut")  # the connection was closed, or it is not known what was said on it
UNREADABLE = Event("unreadable")  # bytes came that are no message of a scheduler
GARBLED = Event("garbled")  # the same for the fifth time in a row, and nothing that could be read in between
SILENCE = Event("silence")  # time: a question has gone unanswered for too long
HEARTBEAT_DUE = Event("heartbeat due")  # time
TIMED_OUT = Event("timed out")  # time: what waits for a scheduler has waited for its time-out
LEAVE = Event("leave")  # this peer wants to end
ANSWERED = Event("answered")  # the scheduler says goodbye, asked or unasked
GOODBYE_OVER = Event("goodbye over")  # time: the goodbye needs no answer, or has waited for one long enough

NOTHING = Action("nothing")
OPEN = Action("open")  # a new connection; then comes `opened`, or `refused`
HELLO = Action("hello")  # say it, as the first message of the connection
RESUME = Action("resume")  # say again what the scheduler has not heard, and go on
SAY_ALL = Action("say all")  # say again all that is open
START_OVER = Action("start over")  # forget what the last scheduler knew, then say again all that is open
BEAT = Action("beat")  # say a heartbeat
HANG_UP = Action("hang up")  # close the connection
SEEK = Action("seek")  # leave the connection open and unheard, until the next one is up, or silent like this one
EXPIRE = Action("expire")  # end what waits, with a time-out
GIVE_UP = Action("give up")  # close the connection, and end what nobody can say or read
GOODBYE = Action("goodbye")  # say it, as the last message of the connection
END = Action("end")  # close the connection, if there is one, for good

_LOST: dict[Event, tuple[State, Action]] = {
    ASKED: (AWAY, HANG_UP),
    CUT: (AWAY, HANG_UP),
    UNREADABLE: (AWAY, HANG_UP),
    GARBLED: (AWAY, GIVE_UP),
    SILENCE: (AWAY, SEEK),  # to close it would look like the end of this peer, if only one direction is silent
}

TRANSITIONS: dict[State, dict[Event, tuple[State, Action]]] = {
    AWAY: {
        PAUSE_OVER: (AWAY, OPEN),
        OPENED: (GREETING, HELLO),
        REFUSED: (ENDED, END),
        TIMED_OUT: (AWAY, EXPIRE),
        LEAVE: (ENDED, END),
    },
    GREETING: {
        RESUMED: (UP, RESUME),
        RESET: (UP, SAY_ALL),
        REPLACED: (UP, START_OVER),
        REFUSED: (ENDED, END),
        **_LOST,
        TIMED_OUT: (GREETING, EXPIRE),
        LEAVE: (ENDED, END),
        ANSWERED: (ENDED, END),
    },
    UP: {
        HEARTBEAT_DUE: (UP, BEAT),
        **_LOST,
        TIMED_OUT: (UP, EXPIRE),
        LEAVE: (LEAVING, GOODBYE),
        ANSWERED: (ENDED, END),
    },
    LEAVING: dict.fromkeys((ANSWERED, GOODBYE_OVER, *_LOST, TIMED_OUT), (ENDED, END)),
    ENDED: {},
}


def next_step(state: State, event: Event) -> tuple[State, Action]:
    """Return the state after `event`, and what to do."""
    return TRANSITIONS[state].get(event, (state, NOTHING))
