"""Wanted: whether a row passes the filter that a user has typed. The same in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterable


def matches(wanted: str, texts: Iterable[str]) -> bool:
    """Return whether one of the texts has `wanted` in it, in either case; with `!` in front, whether none has."""
    needle = wanted.removeprefix("!").casefold()
    return not needle or (needle in "\n".join(texts).casefold()) != wanted.startswith("!")
