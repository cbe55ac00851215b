"""Write reference/conversation-states.md, and the same table in protocol/README.md, from the table in
scaler/peer/states.py: python docs/draw_conversation_states.py.
"""

from __future__ import annotations

from pathlib import Path

from drawing import said_about, table

from scaler.peer import states
from scaler.peer.conversation_state import TRIES_MOST
from scaler.peer.states import DISCONNECTED, FINAL, TRANSITIONS
from scaler.peer.times import (
    GOODBYE_SECONDS,
    HEARTBEATS_IN_TIMEOUT,
    PAUSE_LEAST_SECONDS,
    PAUSE_MOST_SECONDS,
    SILENCE_LEAST_SECONDS,
    SILENT_HEARTBEATS,
)

PAGE = Path(__file__).parent / "reference" / "conversation-states.md"
PROTOCOL = Path(__file__).parents[1] / "protocol" / "README.md"
BEGIN, END = "<!-- drawn by docs/draw_conversation_states.py -->", "<!-- end of what is drawn -->"

# ruff: noqa: E501 - the lines of the page
TEXT = """\
# The states of a conversation

<!-- Written by docs/draw_conversation_states.py; a test compares the two. -->

A client or an agent (a *peer*) has a conversation with its scheduler, and after a restart with the next scheduler. The
conversation uses one connection at a time, and continues on a new connection when one is lost. A table in
`scaler/peer/states.py` defines what the peer does, and this page is drawn from it. The table is the same for clients
and agents, and [the protocol](./protocol.md) requires it of peers in other languages, too. What a lost connection means for tasks, results and objects is in
[closed, cut, silent, paused](../explanation/conversations.md).

A conversation starts as **{start}**, and opens its first connection at once.

{steps}

An empty cell means that the state stays. An event that has no line for the present state comes too late, and changes
nothing.

## States

{states}

## Events

{events}

## What to do

{actions}

## Times

{times}
"""


def steps() -> str:
    """Return the table, one line for each step."""
    rows = [
        f"| {state} | {event} | {'' if after is state else after} | {action} |"
        for state, row in TRANSITIONS.items()
        for event, (after, action) in row.items()
    ]
    return "\n".join(["| state | event | next state | what to do |", "|---|---|---|---|", *rows])


def times() -> str:
    """Return the table of times."""
    rows = {
        "pause over": "there is no pause before the first connection and after the first loss. The pause after the second loss is "
        f"{PAUSE_LEAST_SECONDS:g} s. It doubles with each further loss, up to {PAUSE_MOST_SECONDS:g} s. The first message after "
        f"a welcome resets the pause. The starts of two connections are always at least {PAUSE_LEAST_SECONDS:g} s apart",
        "heartbeat due": "one interval after the welcome and after each heartbeat. The interval is `heartbeat_interval_seconds`, or "
        f"1/{HEARTBEATS_IN_TIMEOUT} of the time-out in the welcome if that is less",
        "silence": f"after a hello or a heartbeat, no message has arrived for {SILENCE_LEAST_SECONDS:g} s or "
        f"{SILENT_HEARTBEATS} heartbeat intervals, whichever is longer",
        "timed out": "for the whole time-out of this peer, something has waited for the scheduler, and the scheduler has answered "
        "nothing. The time-out is `timeout_seconds` of a client, `death_timeout_seconds` of an agent",
        "unreadable too often": f"{TRIES_MOST} unreadable messages in a row",
        "goodbye over": f"{GOODBYE_SECONDS:g} s after the goodbye, if there is no answer",
        "all of these": "time in which this peer was stopped, or got no CPU, does not count",
    }
    return table(rows)


def page() -> str:
    """Return the whole page."""
    found = said_about(states, "State")
    assert {*found} == {*TRANSITIONS}
    assert set(FINAL) < set(TRANSITIONS)
    return TEXT.format(
        start=DISCONNECTED,
        steps=steps(),
        states=table(found),
        events=table(said_about(states, "Event")),
        actions=table(said_about(states, "Action")),
        times=times(),
    )


def protocol() -> str:
    """Return the document of the protocol with the table in it."""
    before, rest = PROTOCOL.read_text().split(BEGIN)
    after = rest.split(END)[1]
    parts = [steps(), table(said_about(states, "Event")), table(said_about(states, "Action")), times()]
    return before + BEGIN + "\n\n" + "\n\n".join(parts) + "\n\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page())
    PROTOCOL.write_text(protocol())
