"""The conversation of a peer with schedulers, as a table: for each state and event, the next state and the action.
`docs/reference/conversation-states.md` and the table in `protocol/README.md` are drawn from this table.

Clients and agents follow the table. An event without an entry for the present state is late but legal: it changes
nothing.
"""

from __future__ import annotations

from typing import NewType

State = NewType("State", str)
Event = NewType("Event", str)
Action = NewType("Action", str)

GREETING = State("greeting")  # the hello was sent on a new connection; the reply has not arrived
CONNECTED = State("connected")  # the hello was accepted: items travel
DISCONNECTED = State("disconnected")  # there is no connection; the next one is opened after a pause
LEAVING = State("leaving")  # the goodbye was sent; the answer has not arrived
ENDED = State("ended")  # there is no connection, and no further one is opened
FINAL = frozenset({ENDED})

PAUSE_OVER = Event("pause over")  # the pause before the next connection has passed
OPENED = Event("opened")  # there is a new connection
RESUMED = Event("resumed")  # the scheduler has accepted the hello (a welcome), and has kept the session
NEW_SESSION = Event("new session")  # a welcome that starts a session: the first one, or one that replaces the last one
REFUSED = Event("refused")  # the hello was not accepted, or it is impossible to connect to the address
HELLO_REQUESTED = Event("hello requested")  # the scheduler asks for a hello, because it does not know this connection
CONNECTION_LOST = Event("connection lost")  # the connection was closed, or it is unknown what this peer has sent on it
UNREADABLE = Event("unreadable")  # the received bytes are not a message of a scheduler
UNREADABLE_TOO_OFTEN = Event(
    "unreadable too often"
)  # the fifth unreadable message in a row, without a readable one in between
SILENCE = Event("silence")  # a hello or a heartbeat has gone unanswered for too long
HEARTBEAT_DUE = Event("heartbeat due")  # it is time for the next heartbeat
TIMED_OUT = Event("timed out")  # the work that waits for a scheduler has reached its time-out
LEAVE = Event("leave")  # this peer ends its session
GOODBYE_RECEIVED = Event("goodbye received")  # the scheduler sent a goodbye, requested or not
GOODBYE_OVER = Event("goodbye over")  # the goodbye needs no answer, or no answer has arrived in time

NOTHING = Action("nothing")
OPEN = Action("open")  # open a new connection; the event `opened` or `refused` follows
HELLO = Action("hello")  # send the hello, as the first message of the connection
RESUME = Action("resume")  # resend all messages that the scheduler has not acknowledged, and continue
START_OVER = Action("start over")  # submit all open work again, or report all runs; at first there is none
HEARTBEAT = Action("heartbeat")  # send a heartbeat
CLOSE = Action("close")  # close the connection
SEEK = Action("seek")  # stop reading the connection, but close it only when the next one is up, or is silent, too
EXPIRE = Action("expire")  # end all work that waits for a scheduler, with a time-out error
GIVE_UP = Action("give up")  # close the connection, and end all work that cannot be sent or read
GOODBYE = Action("goodbye")  # send the goodbye, as the last message of the connection
END = Action("end")  # close the connection, if there is one, for good

_LOST: dict[Event, tuple[State, Action]] = {
    HELLO_REQUESTED: (DISCONNECTED, CLOSE),
    CONNECTION_LOST: (DISCONNECTED, CLOSE),
    UNREADABLE: (DISCONNECTED, CLOSE),
    UNREADABLE_TOO_OFTEN: (DISCONNECTED, GIVE_UP),
    SILENCE: (DISCONNECTED, SEEK),  # closing it would look like the end of this peer, if only one direction is silent
}

TRANSITIONS: dict[State, dict[Event, tuple[State, Action]]] = {
    DISCONNECTED: {
        PAUSE_OVER: (DISCONNECTED, OPEN),
        OPENED: (GREETING, HELLO),
        REFUSED: (ENDED, END),
        TIMED_OUT: (DISCONNECTED, EXPIRE),
        LEAVE: (ENDED, END),
    },
    GREETING: {
        RESUMED: (CONNECTED, RESUME),
        NEW_SESSION: (CONNECTED, START_OVER),
        REFUSED: (ENDED, END),
        **_LOST,
        TIMED_OUT: (GREETING, EXPIRE),
        LEAVE: (ENDED, END),
        GOODBYE_RECEIVED: (ENDED, END),
    },
    CONNECTED: {
        HEARTBEAT_DUE: (CONNECTED, HEARTBEAT),
        **_LOST,
        TIMED_OUT: (CONNECTED, EXPIRE),
        LEAVE: (LEAVING, GOODBYE),
        GOODBYE_RECEIVED: (ENDED, END),
    },
    LEAVING: dict.fromkeys((GOODBYE_RECEIVED, GOODBYE_OVER, *_LOST, TIMED_OUT), (ENDED, END)),
    ENDED: {},
}


def next_step(state: State, event: Event) -> tuple[State, Action]:
    """Return the next state of the conversation after `event`, and what to do."""
    return TRANSITIONS[state].get(event, (state, NOTHING))
