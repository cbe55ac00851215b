"""Whatever enters, ends, is cancelled and follows, in whatever order: the window counts all that is open, no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.client.link.window import Window
from scaler.ids import TaskId

SIZES = st.integers(0, 60)
SOME = st.lists(st.integers(0, 7), min_size=1, max_size=4)
"""which of the last tasks, the last one first"""
STEPS = st.one_of(
    st.tuples(st.just("enter"), SIZES),
    st.tuples(st.just("enter"), SIZES),
    st.tuples(st.just("enter_all"), st.lists(SIZES, max_size=4)),
    st.tuples(st.just("end"), SOME),
    st.tuples(st.just("leave"), SOME),
    st.tuples(st.just("resize"), st.tuples(st.integers(0, 5), st.integers(0, 100))),
    st.tuples(st.just("clear"), st.none()),
)


class Bench:
    """A window, and what is open."""

    def __init__(self) -> None:
        self.window = Window()
        self.window.resize(4, 100)
        self.open: dict[TaskId, int] = {}
        self.sent: list[TaskId] = []
        """since it was clear, in their order"""
        self._known: list[TaskId] = []

    def _new(self, size: int) -> TaskId:
        task_id = TaskId(len(self._known).to_bytes(16, "big"))
        self._known.append(task_id)
        self.open[task_id] = size
        return task_id

    def enter(self, size: int) -> None:
        task_id = self._new(size)
        if self.window.enter(task_id, size):
            self.sent.append(task_id)

    def enter_all(self, sizes: list[int]) -> None:
        tasks = {self._new(size): size for size in sizes}
        if self.window.enter_all(tasks):
            self.sent += tasks
        else:
            for task_id in tasks:
                del self.open[task_id]

    def _some(self, places: list[int]) -> list[TaskId]:
        """Return some tasks, of which some have ended before, and one twice."""
        return [self._known[-1 - place] for place in places if place < len(self._known)]

    def end(self, places: list[int]) -> None:
        ended = self._some(places)
        self.window.end(ended)
        for task_id in ended:
            self.open.pop(task_id, None)
        self.sent += self.window.admit()

    def leave(self, places: list[int]) -> None:
        for task_id in self._some(places):
            is_sent = task_id in self.open and task_id not in self.window.waiting
            assert self.window.leave(task_id) == is_sent
            self.open.pop(task_id, None)
        self.sent += self.window.admit()

    def resize(self, limits: tuple[int, int]) -> None:
        self.window.resize(*limits)

    def clear(self, _nothing: None) -> None:
        self.window.clear()
        self.open, self.sent = {}, []

    def check(self) -> None:
        window = self.window
        assert window._sent_bytes == sum(window._sent.values())
        assert window._sent | window.waiting == self.open
        assert not window._sent.keys() & window.waiting.keys()
        assert self.sent == sorted(self.sent), "one has overtaken another"


@given(st.lists(STEPS, min_size=20, max_size=40))
def test_the_bytes_that_are_counted_are_those_that_are_open(steps: list[tuple[str, object]]) -> None:
    bench = Bench()
    for name, argument in steps:
        getattr(bench, name)(argument)
        bench.check()
    bench.end(list(range(len(bench._known))))
    assert (bench.open, bench.window._sent_bytes) == ({}, 0)
