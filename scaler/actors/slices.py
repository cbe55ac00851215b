"""Slices: work of one actor that is too long for one handler, done a slice at a time.

Used by actors with very many children, nodes or objects. Between two slices the process reads its sockets, and all
other actors have their turn.
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
"""The most steps in one handler: some milliseconds of starting tasks, less of anything else."""


_T = TypeVar("_T")


@message
class NextSlice:
    """actor -> itself, by a timer of no delay: continue with the long work."""


class Slices:
    """The long work of one actor, in the order in which it was given.

    Args:
        actor: whose work it is; it calls `go_on` when it gets a `NextSlice`. Not kept alive: with a reference back, an
            actor that has ended, and all that it has, would stay until the next garbage collection.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = weakref.ref(actor)
        self._work: deque[Iterator[object]] = deque()

    def __bool__(self) -> bool:
        """Return whether work is left."""
        return bool(self._work)

    def have_room(self, steps: int) -> bool:
        """Return whether so many steps would be done at once. Then they need not be given here."""
        return not self._work and steps <= SLICE_STEPS

    def add(self, step: Callable[[_T], object], items: Iterable[_T]) -> None:
        """Do a step with each item, behind all other work. The items are asked for one by one; the first slice is done
        here.
        """
        self._work.append(map(step, items))
        if len(self._work) == 1:
            self.go_on()

    def take_over(self, other: Slices, step: Callable[[_T], object], items: Iterable[_T]) -> None:
        """Do what another actor has left, and then a step with each item; the first slice is done here."""
        self._work += (*other._work, map(step, items))
        other._work.clear()
        self.go_on()

    def go_on(self) -> None:
        """Do the next slice."""
        work, left = self._work, SLICE_STEPS
        while work:
            left -= sum(1 for _ in islice(work[0], left))
            if not left:
                actor = self._actor()
                if actor is not None:
                    actor.schedule(0.0, NextSlice())
                return
            work.popleft()
