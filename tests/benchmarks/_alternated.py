"""What something costs that comes and goes while all else goes on: from blocks of time with it and without, in turn.

The same work may take half as long again from one minute to the next, so each block is compared with the two beside it.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

RESAMPLES = 2000
RUN = 5
OUTLIER = 6.0
"""so many times as far from the middle as half of all are"""
Step = tuple[float, float]


class Block(NamedTuple):
    """What one of the measurements took, with the cause or without."""

    us: float
    """of each task"""
    messages: float = 1.0
    """of each task: smaller batches cost more"""
    rate: float = 0.0
    """tasks per second"""


class Effect(NamedTuple):
    """By how much the cost of a task differs, as a share, with the bounds of its interval of 95 %."""

    share: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{100 * self.share:+.1f} % (95 %: {100 * self.least:+.1f} to {100 * self.most:+.1f})"


def effect(blocks: Sequence[Block], with_messages: bool = False) -> Effect:
    """Return what the cause costs; it was there in every second block, beginning with the second.

    Each block is compared with the mean of its two neighbours, so that a machine that becomes slower or faster is no
    matter. With `with_messages`, what more or fewer messages cost is found by least squares, and left out.
    """
    logs = [(math.log(block.us), math.log(block.messages)) for block in blocks]
    steps = []
    for at in range(1, len(logs) - 1):
        sign = 1 if at % 2 else -1
        us, messages = (sign * (logs[at][i] - (logs[at - 1][i] + logs[at + 1][i]) / 2) for i in range(2))
        steps.append((us, messages))
    steps = _without_outliers(steps)
    chosen = random.Random(0)
    again = sorted(_fit(_resampled(steps, chosen), with_messages) for _ in range(RESAMPLES))
    bounds = again[int(RESAMPLES * 0.025)], again[int(RESAMPLES * 0.975)]
    return Effect(*(math.expm1(each) for each in (_fit(steps, with_messages), *bounds)))


def _without_outliers(steps: Sequence[Step]) -> list[Step]:
    """Leave out what something else on the machine has spoiled, on both sides alike."""
    middle = statistics.median(us for us, _ in steps)
    spread = statistics.median(abs(us - middle) for us, _ in steps)
    return [step for step in steps if abs(step[0] - middle) <= OUTLIER * spread]


def _resampled(steps: Sequence[Step], chosen: random.Random) -> list[Step]:
    """Draw runs of neighbours, which share a block and so are not independent."""
    drawn: list[Step] = []
    while len(drawn) < len(steps):
        at = chosen.randrange(max(1, len(steps) - RUN + 1))
        drawn += steps[at : at + RUN]
    return drawn[: len(steps)]


def _fit(steps: Sequence[Step], with_messages: bool) -> float:
    """Return `a` of the best `us = a + b * messages`; b is 0 if they do not count."""
    us, messages = (statistics.fmean(values) for values in zip(*steps, strict=True))
    if not with_messages:
        return us
    both = sum((step[0] - us) * (step[1] - messages) for step in steps)
    square = sum((step[1] - messages) ** 2 for step in steps)
    return us - (both / square) * messages if square else us
