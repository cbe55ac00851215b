"""Slices: work of an actor with very many children, nodes or objects, done a slice at a time.

Between two slices the process reads its sockets, and runs other actors.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from scaler.kit import Actor
from scaler.message import message

SLICE_STEPS = 256
"""The most steps in one slice. A slice takes some milliseconds if its steps start tasks, and less for other work."""


_T = TypeVar("_T")


@message
class NextSlice:
    """actor -> itself, by a timer without delay: do the next slice of the long work."""


class Slices:
    """The long work of one actor, done in the order in which the work was added.

    Args:
        actor: calls `go_on` for each `NextSlice`. The reference is weak, so that an ended actor is freed at once.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = weakref.ref(actor)
        self._work: deque[Iterator[object]] = deque()

    def __bool__(self) -> bool:
        """Return whether work is left."""
        return bool(self._work)

    def fits_in_slice(self, steps: int) -> bool:
        """Return whether no work is left and `steps` steps fit into one slice, so that `add` is not needed."""
        return not self._work and steps <= SLICE_STEPS

    def add(self, step: Callable[[_T], object], items: Iterable[_T]) -> None:
        """Do a step with each item, after all earlier work (now if none is left). Items are consumed lazily."""
        self._work.append(map(step, items))
        if len(self._work) == 1:
            self.go_on()

    def take_over(self, other: Slices, step: Callable[[_T], object], items: Iterable[_T]) -> None:
        """Take over the remaining work of another actor, then do a step with each item. The first slice runs now."""
        self._work += (*other._work, map(step, items))
        other._work.clear()
        self.go_on()

    def go_on(self) -> None:
        """Do the next slice, and schedule the following slice if work is left."""
        work, left = self._work, SLICE_STEPS
        while work:
            left -= sum(1 for _ in islice(work[0], left))
            if not left:
                actor = self._actor()
                if actor is not None:
                    actor.schedule(0.0, NextSlice())
                return
            work.popleft()
