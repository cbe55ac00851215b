"""How many examples an expensive property gets, by the profile."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""What the counts of the tests are for."""


def examples(count: int) -> settings:
    """Return settings with `count` examples where each property has 100; fewer or more in the same proportion."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))
