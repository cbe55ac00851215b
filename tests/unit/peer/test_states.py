from __future__ import annotations

from scaler.peer import states
from scaler.peer.states import (
    CONNECTED,
    CONNECTION_LOST,
    DISCONNECTED,
    ENDED,
    GOODBYE,
    GREETING,
    HELLO,
    LEAVE,
    LEAVING,
    NEW_SESSION,
    NOTHING,
    OPEN,
    OPENED,
    PAUSE_OVER,
    START_OVER,
    TRANSITIONS,
    next_step,
)


def test_actions_of_a_conversation_from_hello_to_goodbye() -> None:
    state, actions = DISCONNECTED, []
    for event in (PAUSE_OVER, OPENED, NEW_SESSION, LEAVE, states.GOODBYE_RECEIVED):
        state, action = next_step(state, event)
        actions.append(action)
    assert actions == [OPEN, HELLO, START_OVER, GOODBYE, states.END]
    assert state is ENDED


def test_a_late_event_changes_nothing() -> None:
    assert next_step(DISCONNECTED, CONNECTION_LOST) == (DISCONNECTED, NOTHING)
    assert next_step(CONNECTED, NEW_SESSION) == (CONNECTED, NOTHING)
    assert next_step(LEAVING, LEAVE) == (LEAVING, NOTHING)


def test_items_are_sent_only_after_a_welcome_and_hellos_only_on_new_connections() -> None:
    steps = [(state, event, *step) for state, row in TRANSITIONS.items() for event, step in row.items()]
    assert {(state, event) for state, event, _, action in steps if action is HELLO} == {(DISCONNECTED, OPENED)}
    starts = {states.RESUME, START_OVER}
    assert {(state, after) for state, _, after, action in steps if action in starts} == {(GREETING, CONNECTED)}
    assert {state for state, _, _, action in steps if action in {states.HEARTBEAT, GOODBYE}} == {CONNECTED}


def test_each_transition_that_loses_a_connection_closes_it_or_sets_it_aside() -> None:
    closes = {states.CLOSE, states.SEEK, states.GIVE_UP, states.END}
    for state, row in TRANSITIONS.items():
        for after, action in row.values():
            if state is not after and after in (DISCONNECTED, ENDED):
                assert action in closes
