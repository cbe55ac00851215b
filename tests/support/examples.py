"""How many examples an expensive property gets, whatever the profile of hypothesis says of the others."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100
"""What a profile that says nothing gives to each property."""


def examples(count: int) -> settings:
    """Return settings with `count` examples in `make test`; fewer or more in the same proportion in other profiles."""
    return settings(max_examples=max(1, count * settings.default.max_examples // USUAL))
