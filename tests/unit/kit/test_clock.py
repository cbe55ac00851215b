"""The virtual clock, and timers."""

from __future__ import annotations

import pytest

from scaler.kit import Actor, Dispatcher, handles
from scaler.kit.clock import SWEEP_FROM
from scaler.message import message
from tests.support.virtual_clock import VirtualClock


@message
class Tick:
    name: str


class Diary(Actor):
    def __init__(self) -> None:
        self.entries: list[tuple[float, str]] = []

    @handles(Tick)
    def ticked(self, tick: Tick) -> None:
        self.entries.append((self.now(), tick.name))


class Setup:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.dispatcher = Dispatcher(self.clock)
        self.diary = Diary()
        self.ref = self.dispatcher.spawn(self.diary)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        assert self.dispatcher.run()


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_a_virtual_clock_moves_only_when_it_is_advanced() -> None:
    clock = VirtualClock(10.0)
    assert clock() == clock() == 10.0
    clock.advance(2.5)
    assert clock() == 12.5


def test_time_never_runs_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        VirtualClock().advance(-0.1)


def test_a_timer_sends_its_message_when_it_is_due_and_not_before(setup: Setup) -> None:
    setup.diary.schedule(2.0, Tick("a"))
    setup.advance(1.999)
    assert setup.diary.entries == []
    setup.advance(0.001)
    assert setup.diary.entries == [(2.0, "a")]
    setup.advance(100.0)
    assert len(setup.diary.entries) == 1


def test_timers_are_sent_in_the_order_of_their_deadlines_and_then_of_their_making(setup: Setup) -> None:
    for delay_seconds, name in ((3.0, "c"), (1.0, "a"), (2.0, "b1"), (2.0, "b2"), (2.0, "b3")):
        setup.dispatcher.schedule(delay_seconds, setup.ref, Tick(name))
    setup.advance(10.0)  # all late
    assert [name for _, name in setup.diary.entries] == ["a", "b1", "b2", "b3", "c"]


def test_a_timer_without_delay_is_sent_by_the_next_run(setup: Setup) -> None:
    setup.dispatcher.schedule(0.0, setup.ref, Tick("now"))
    setup.dispatcher.schedule(-1.0, setup.ref, Tick("even before"))
    setup.dispatcher.run()
    assert [name for _, name in setup.diary.entries] == ["even before", "now"]


def test_a_cancelled_timer_sends_nothing(setup: Setup) -> None:
    timer = setup.diary.schedule(1.0, Tick("a"))
    assert timer.is_pending
    timer.cancel()
    timer.cancel()
    assert not timer.is_pending
    setup.advance(2.0)
    assert setup.diary.entries == []
    assert setup.dispatcher.statistics()["timers"] == 0


def test_a_timer_may_be_cancelled_after_it_was_sent(setup: Setup) -> None:
    timer = setup.diary.schedule(1.0, Tick("a"))
    setup.advance(1.0)
    assert not timer.is_pending
    timer.cancel()
    assert len(setup.diary.entries) == 1
    assert setup.dispatcher.statistics()["timers"] == 0


def test_the_next_deadline_is_that_of_the_earliest_live_timer(setup: Setup) -> None:
    assert setup.dispatcher.next_deadline() is None
    first = setup.diary.schedule(1.0, Tick("a"))
    second = setup.diary.schedule(2.0, Tick("b"))
    assert setup.dispatcher.next_deadline() == 1.0
    first.cancel()
    assert setup.dispatcher.next_deadline() == 2.0
    second.cancel()
    assert setup.dispatcher.next_deadline() is None


def test_a_late_timer_does_not_hide_the_next_deadline(setup: Setup) -> None:
    setup.diary.schedule(1.0, Tick("a"))
    setup.diary.schedule(5.0, Tick("b"))
    setup.advance(3.0)
    assert setup.dispatcher.next_deadline() == 5.0


def test_cancelled_timers_do_not_pile_up(setup: Setup) -> None:
    live = setup.diary.schedule(3600.0, Tick("live"))
    for _ in range(20 * SWEEP_FROM):
        setup.diary.schedule(3600.0, Tick("time-out that never comes")).cancel()
    assert len(setup.dispatcher._timers._heap) <= 2 * SWEEP_FROM
    assert setup.dispatcher.statistics()["timers"] == 1
    assert live.is_pending
    setup.advance(3600.0)
    assert setup.diary.entries == [(3600.0, "live")]


def test_the_timer_of_an_actor_that_has_ended_sends_nothing(setup: Setup) -> None:
    setup.diary.schedule(1.0, Tick("a"))
    setup.dispatcher.stop(setup.ref)
    setup.advance(1.0)
    assert setup.dispatcher.dead_letters.count == 0


def test_a_restarted_actor_does_not_get_the_timers_of_its_predecessor() -> None:
    clock = VirtualClock()
    dispatcher = Dispatcher(clock)
    ref = dispatcher.address(Diary, dispatcher.spawn(Diary()))
    first, second = Diary(), Diary()
    dispatcher.attach(ref, first)
    first.schedule(1.0, Tick("of the first"))
    dispatcher.schedule(1.0, ref, Tick("of a third"))
    dispatcher.detach(ref)
    dispatcher.attach(ref, second)
    second.schedule(1.0, Tick("of the second"))
    clock.advance(1.0)
    dispatcher.run()
    assert [name for _, name in second.entries] == ["of a third", "of the second"]
