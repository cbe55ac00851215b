"""How many examples an expensive property or a long test gets: few in `make fast`, all of them in `make test`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

USUAL = 100
"""What a profile that says nothing gives to each property."""


def examples(count: int) -> settings:
    """Return settings with `count` examples in `make test`; fewer or more in the same proportion in other profiles."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))


def few_of(cases: Sequence[T], count: int = 1) -> Sequence[T]:
    """Return the first `count` of them where the profile asks for few examples, and else all of them."""
    return cases if settings.default.max_examples >= USUAL else cases[:count]
