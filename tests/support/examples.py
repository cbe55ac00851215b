"""How many examples an expensive property or a long test gets, by the profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

USUAL = 100
"""What the counts of the tests are for."""
FEW = 10
"""A profile with fewer, as that of `make fast`, takes few cases, too."""


def examples(count: int) -> settings:
    """Return settings with `count` examples where each property has 100; fewer or more in the same proportion."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))


def few_of(cases: Sequence[T], count: int = 1) -> Sequence[T]:
    """Return the first `count` of them where the profile asks for few examples, and else all of them."""
    return cases if settings.default.max_examples >= FEW else cases[:count]
