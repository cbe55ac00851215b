"""The order in which the calls of a graph are sent: which of them are needed, each after those that it depends on."""

from __future__ import annotations

import graphlib

from scaler.graph import plain
from scaler.graph.description import Description


def order(description: Description) -> list[int]:
    """Return the calls that the asked keys need, by number, each after those that it depends on.

    Raises:
        graphlib.CycleError: if calls depend on each other in a circle, needed or not.
    """
    numbers = description.numbers
    wanted = [numbers[key] for key in description.asked if key in numbers]
    try:
        return plain.order(description.counts, description.dependencies, wanted)
    except graphlib.CycleError as error:
        text, circle = error.args
        keys = list(numbers)
        raise graphlib.CycleError(text, [keys[number] for number in circle]) from None
