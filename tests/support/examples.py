"""The number of examples of expensive property tests, depending on the profile."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""The number of examples of a usual property, to which the counts of tests refer."""


def examples(count: int) -> settings:
    """Return settings with `count` examples where a usual property has 100, scaled to the profile."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))
