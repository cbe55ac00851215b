from __future__ import annotations

import pytest

from scaler.peer import states
from scaler.peer.conversation_state import TRIES_MOST, ConversationState
from scaler.peer.states import (
    CLOSE,
    CONNECTED,
    CONNECTION_LOST,
    DISCONNECTED,
    END,
    ENDED,
    EXPIRE,
    GIVE_UP,
    GREETING,
    HEARTBEAT,
    HELLO_REQUESTED,
    LEAVE,
    NOTHING,
    OPEN,
    OPENED,
    RESUME,
    SEEK,
    START_OVER,
    UNREADABLE,
    Action,
    State,
)
from scaler.peer.times import LATE_SECONDS, Patience

SCHEDULER, NEXT_SCHEDULER = b"s" * 16, b"t" * 16


class Bench:
    """A conversation on a clock that the test moves. The conversation looks when it is due, and never earlier."""

    def __init__(self, timeout_seconds: float = 60, heartbeat_seconds: float = 2) -> None:
        self.is_waiting = True
        self.conversation = ConversationState(Patience(heartbeat_seconds, timeout_seconds), lambda: self.is_waiting)
        self.now = 1000.0
        self.done: list[tuple[Action, float]] = []

    def look(self, until: State | None = None) -> list[Action]:
        actions: list[Action] = []
        while self.conversation.state is not until and (action := self.conversation.look(self.now)) is not NOTHING:
            actions.append(action)
            self.done.append((action, self.now))
            if action is OPEN:
                assert self.conversation.happened(OPENED, self.now) is states.HELLO
        return actions

    def open(self) -> Bench:
        """Let the next connection open when it is due."""
        self.now = max(self.now, self.conversation.next_at)
        assert self.look() == [OPEN]
        return self

    def up(self, scheduler_id: bytes = SCHEDULER) -> Bench:
        self.open()
        self.conversation.welcomed(scheduler_id, is_resumed=False, now=self.now)
        return self

    def wait(self, seconds: float, until: State | None = None) -> list[Action]:
        """Let time pass until a number of seconds or a state is reached. Return the actions."""
        end, done = self.now + seconds, []
        while self.conversation.next_at <= end and self.conversation.state is not until:
            self.now = max(self.now, self.conversation.next_at)
            done += self.look(until)
        if self.conversation.state is not until:
            self.now = end
        return done


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_first_connection_is_opened_at_once_and_starts_with_a_hello(bench: Bench) -> None:
    assert bench.look() == [OPEN]
    assert bench.conversation.state is GREETING


@pytest.mark.parametrize(
    ("scheduler_id", "is_resumed", "expected"),
    [(SCHEDULER, True, RESUME), (SCHEDULER, False, START_OVER), (NEXT_SCHEDULER, False, START_OVER)],
)
def test_each_welcome_determines_what_is_sent(
    bench: Bench, scheduler_id: bytes, is_resumed: bool, expected: Action
) -> None:
    bench.up()
    bench.conversation.happened(CONNECTION_LOST, bench.now)
    bench.open()
    assert bench.conversation.welcomed(scheduler_id, is_resumed, bench.now) is expected
    assert bench.conversation.scheduler_id == scheduler_id


def test_a_second_welcome_changes_nothing(bench: Bench) -> None:
    bench.up()
    assert bench.conversation.welcomed(NEXT_SCHEDULER, False, bench.now) is NOTHING
    assert bench.conversation.scheduler_id == SCHEDULER


def test_an_answered_heartbeat_keeps_the_connection(bench: Bench) -> None:
    bench.up()
    for _ in range(10):
        assert bench.wait(2) == [HEARTBEAT]
        bench.conversation.heard()
    assert bench.conversation.state is CONNECTED


def test_unanswered_heartbeats_lead_to_a_new_connection(bench: Bench) -> None:
    bench.up()
    assert bench.wait(60, until=DISCONNECTED) == [HEARTBEAT, HEARTBEAT, HEARTBEAT, SEEK]
    assert bench.now == 1000 + 2 + 6


def test_a_pause_of_this_process_does_not_count_as_silence(bench: Bench) -> None:
    bench.up()
    assert bench.wait(2) == [HEARTBEAT]
    bench.now += 100  # the process was stopped while it waited for an answer
    assert bench.look() == [HEARTBEAT]
    assert bench.wait(3.5) == [HEARTBEAT]  # without the pause, three heartbeats of silence would be over
    bench.conversation.heard()
    assert bench.wait(60, until=DISCONNECTED)[-1] is SEEK


def test_a_short_delay_on_a_busy_machine_does_not_count_as_a_pause(bench: Bench) -> None:
    bench.up()
    bench.wait(2)
    for _ in range(3):
        bench.now = bench.conversation.next_at + LATE_SECONDS
        bench.look()
    assert bench.conversation.state is DISCONNECTED


def test_pending_work_times_out_and_the_search_for_a_scheduler_continues(bench: Bench) -> None:
    bench.open()
    done = bench.wait(61)
    assert done.count(EXPIRE) == 1
    assert bench.conversation.state in (GREETING, DISCONNECTED)
    bench.is_waiting = False
    assert EXPIRE not in bench.wait(600)


def test_work_submitted_while_no_scheduler_answers_has_its_own_timeout(bench: Bench) -> None:
    bench.is_waiting = False
    bench.open()
    bench.wait(30.5)
    bench.is_waiting = True
    bench.conversation.started_waiting(bench.now)
    bench.done.clear()
    bench.wait(100)
    [expired_at] = [at for action, at in bench.done if action is EXPIRE][:1]
    assert expired_at == pytest.approx(1090.5)


def test_repeated_requests_for_a_hello_make_the_pauses_grow(bench: Bench) -> None:
    gaps = []
    for _ in range(8):
        bench.up()
        bench.conversation.happened(HELLO_REQUESTED, bench.now)
        lost_at = bench.now
        bench.open()
        gaps.append(bench.now - lost_at)
        bench.conversation.happened(CONNECTION_LOST, bench.now)
    assert gaps == sorted(gaps)
    assert gaps[-1] == 2


def test_a_message_after_a_welcome_ends_the_pauses(bench: Bench) -> None:
    for _ in range(6):
        bench.up()
        bench.conversation.happened(CONNECTION_LOST, bench.now)
    bench.up()
    bench.conversation.heard()
    bench.now += 1
    bench.conversation.happened(CONNECTION_LOST, bench.now)
    assert bench.conversation.next_at == bench.now


def test_the_conversation_gives_up_at_the_fifth_unreadable_message_in_a_row(bench: Bench) -> None:
    done = []
    for _ in range(TRIES_MOST):
        bench.up()
        done.append(bench.conversation.happened(UNREADABLE, bench.now))
    assert done == [CLOSE] * (TRIES_MOST - 1) + [GIVE_UP]


def test_unreadable_bytes_before_a_later_welcome_do_not_end_the_conversation(bench: Bench) -> None:
    bench.up()
    bench.conversation.happened(CONNECTION_LOST, bench.now)
    for _ in range(3 * TRIES_MOST):
        bench.open()
        assert bench.conversation.happened(UNREADABLE, bench.now) is CLOSE


@pytest.mark.parametrize(
    ("was_up", "is_certain", "expected"),
    [(False, False, (ENDED, END)), (True, True, (ENDED, END)), (True, False, (DISCONNECTED, CLOSE))],
)
def test_after_the_first_welcome_only_a_certain_refusal_is_final(
    bench: Bench, was_up: bool, is_certain: bool, expected: tuple[State, Action]
) -> None:
    if was_up:
        bench.up()
        bench.conversation.happened(CONNECTION_LOST, bench.now)
    bench.open()
    action = bench.conversation.refused(is_certain, bench.now)
    assert (bench.conversation.state, action) == expected


def test_pending_work_times_out_while_another_program_refuses(bench: Bench) -> None:
    bench.up()
    bench.conversation.happened(CONNECTION_LOST, bench.now)
    ends_at = bench.now + 60
    while bench.now < ends_at:
        bench.wait(5, until=GREETING)
        bench.conversation.refused(False, bench.now)
    assert (EXPIRE, ends_at) in bench.done


def test_a_readable_message_resets_the_count_of_unreadable_ones(bench: Bench) -> None:
    for _ in range(3 * TRIES_MOST):
        bench.up()
        bench.conversation.heard()
        assert bench.conversation.happened(UNREADABLE, bench.now) is CLOSE


def test_leaving_without_a_scheduler_ends_at_once(bench: Bench) -> None:
    assert bench.conversation.happened(LEAVE, bench.now) is states.END
    assert bench.conversation.state is ENDED
    assert bench.look() == []


def test_an_unanswered_goodbye_ends_the_conversation_soon(bench: Bench) -> None:
    bench.up()
    assert bench.conversation.happened(LEAVE, bench.now) is states.GOODBYE
    assert bench.wait(5, until=ENDED) == [states.END]
