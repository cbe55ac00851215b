from __future__ import annotations

from scaler.actors.slices import SLICE_STEPS, NextSlice, Slices
from scaler.kit import Actor, Dispatcher, handles
from scaler.message import message
from tests.support.virtual_clock import VirtualClock


@message
class Count:
    name: str
    steps: int


class Counter(Actor):
    """An actor that counts in slices, and records what it has counted in each handler."""

    def __init__(self) -> None:
        self.slices = Slices(self)
        self.counted: list[str] = []
        self.handlers_run: list[list[str]] = []

    @handles(Count)
    def _count(self, count: Count) -> None:
        self.slices.add(self.counted.append, [count.name] * count.steps)
        self._note()

    @handles(NextSlice)
    def _next_slice(self, _next: NextSlice) -> None:
        self.slices.go_on()
        self._note()

    def _note(self) -> None:
        self.handlers_run.append(list(self.counted))
        self.counted.clear()


def counted(*counts: Count) -> Counter:
    dispatcher, counter = Dispatcher(VirtualClock()), Counter()
    ref = dispatcher.spawn(counter)
    for count in counts:
        ref.send(count)
    while not dispatcher.run() or counter.slices:
        pass
    assert dispatcher.failures == 0
    return counter


def test_short_work_is_done_at_once() -> None:
    counter = counted(Count("a", 3), Count("b", 0), Count("c", SLICE_STEPS - 1))
    assert counter.handlers_run == [["a"] * 3, [], ["c"] * (SLICE_STEPS - 1)]


def test_long_work_is_done_in_slices_and_later_work_follows_it() -> None:
    counter = counted(Count("a", 2 * SLICE_STEPS + 1), Count("b", 2))
    assert counter.handlers_run == [["a"] * SLICE_STEPS, [], ["a"] * SLICE_STEPS, ["a", "b", "b"]]
    assert not counter.slices
