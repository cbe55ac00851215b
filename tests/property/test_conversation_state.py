"""Whatever happens to a conversation, in whatever order: one hello on each connection, nothing else before the welcome,
and it ends or knows when to do something next.
"""

from __future__ import annotations

from math import inf

from hypothesis import example, given
from hypothesis import strategies as st

from scaler.peer import states
from scaler.peer.conversation_state import ConversationState
from scaler.peer.states import TRANSITIONS, Action, Event
from scaler.peer.times import Patience

EVENTS = sorted({event for row in TRANSITIONS.values() for event in row} - {states.OPENED})
SCHEDULERS = (b"s" * 16, b"t" * 16)

a_patience = st.builds(Patience, st.floats(0.01, 30), st.floats(0.01, 1000), st.none() | st.floats(0.01, 10))
a_step = st.one_of(
    st.sampled_from(EVENTS),
    st.tuples(st.sampled_from(SCHEDULERS), st.booleans()),  # a welcome
    st.just("heard"),
    st.floats(0, 100),  # time passes, and nobody looks
    st.none(),  # it is looked at, when it wants to be
)


class Peer:
    """Does what a conversation says, and watches it."""

    def __init__(self, patience: Patience) -> None:
        self.conversation = ConversationState(patience, lambda: True)
        self.now = 0.0
        self.said: list[Action] | None = None
        """on this connection, if there is one"""

    def do(self, action: Action) -> None:
        if action is states.OPEN:
            assert self.said is None
            self.said = []
            self.do(self.conversation.happened(states.OPENED, self.now))
        elif action in (states.CLOSE, states.SEEK, states.GIVE_UP, states.END):
            self.said = None
        elif action not in (states.NOTHING, states.EXPIRE):
            assert self.said is not None
            assert (action is states.HELLO) == (not self.said)
            assert states.GOODBYE not in self.said
            self.said.append(action)
            assert self.said.count(states.HELLO) == 1

    def take(self, step: Event | tuple[bytes, bool] | float | None) -> None:
        if step is None:
            self.now = max(self.now, min(self.conversation.next_at, self.now + 1000))
            self.look()
        elif isinstance(step, float):
            self.now += step
        elif isinstance(step, tuple):
            self.do(self.conversation.welcomed(*step, now=self.now))
        elif step == "heard":
            if self.conversation.state is states.CONNECTED:
                self.conversation.heard()
        else:
            self.do(self.conversation.happened(step, self.now))

    def look(self) -> None:
        for _ in range(10):
            action = self.conversation.look(self.now)
            self.do(action)
            if action is states.NOTHING:
                return
        raise AssertionError("it never comes to rest")


@given(a_patience, st.lists(a_step, max_size=60))
@example(Patience(1.0, 1.0, None), [states.LEAVE, states.HEARTBEAT_DUE])
def test_a_hello_comes_first_and_each_wait_has_an_end(
    patience: Patience, steps: list[Event | tuple[bytes, bool] | float | None]
) -> None:
    peer = Peer(patience)
    for step in steps:
        peer.take(step)
        conversation = peer.conversation
        assert (conversation.state is states.ENDED) == (conversation.next_at == inf)
        assert (peer.said is None) == (conversation.state in (states.DISCONNECTED, states.ENDED))
        if conversation.state is states.CONNECTED:
            assert peer.said is not None
            assert set(peer.said) & {states.RESUME, states.START_OVER}


@given(a_patience, st.lists(a_step, max_size=20))
def test_a_leaving_peer_has_left_soon(
    patience: Patience, steps: list[Event | tuple[bytes, bool] | float | None]
) -> None:
    peer = Peer(patience)
    for step in steps:
        peer.take(step)
    peer.do(peer.conversation.happened(states.LEAVE, peer.now))
    peer.take(None)
    peer.take(None)
    assert peer.conversation.state is states.ENDED
