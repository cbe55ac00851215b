"""Turns: whose task is placed next while some that ask for something can be placed: those that ask for nothing, or one
of the classes.

They take turns, so that neither holds up the other where both want the same workers. Within one account the greater
priority goes first all the same: a parent must not go before the children of the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Generic

from scaler.actors.policy.constrained import ResourceClass
from scaler.actors.policy.interface import Order, T
from scaler.actors.policy.needs import Needs

_by_turn = attrgetter("turn")


class Turns(Generic[T]):
    """The order of classes.

    Args:
        plain: the tasks that ask for nothing.
    """

    def __init__(self, plain: Order[T]) -> None:
        self.plain = ResourceClass(Needs(), plain)
        self._number = 2

    def next(self, classes: Iterable[ResourceClass[T]], with_plain: bool = True) -> ResourceClass[T]:
        """Return the class whose first task is placed next, the tasks that ask for nothing among them.

        Args:
            with_plain: whether there is room for those, too.
        """
        plain = self.plain
        for resource_class in classes:
            # a new one goes only before the one that has just had its turn
            resource_class.turn = resource_class.turn or self._number - 1
        rows = sorted((plain, *classes) if with_plain and plain.queue else classes, key=_by_turn)
        for row in rows:
            first = row.queue.first()
            if first is None or not any(
                other.queue.greatest(first.account) > first.spec.priority for other in rows if other is not row
            ):
                return row
            row.queue.pass_turn()
        return rows[0]

    def had(self, resource_class: ResourceClass[T]) -> None:
        """A task of this class was assigned."""
        self._number += 2
        resource_class.turn = self._number
