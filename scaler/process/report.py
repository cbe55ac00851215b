"""Report: the counts of all actors of a process, for the page that SIGUSR1 writes into the log.

The main loop creates a report and sends it as urgent mail, so that all actors add their counts before any other work is
done. No actor keeps the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scaler.wire.session.traffic import Traffic


class Report:
    """Counts of actors, by kind, in the order in which the actors answered."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[tuple[str, dict[str, int]]]] = {}

    def add(self, kind: str, name: str, counts: dict[str, int]) -> None:
        """Add the counts of one actor. `name` is for display."""
        self._by_kind.setdefault(kind, []).append((name, counts))

    def of(self, kind: str) -> list[tuple[str, dict[str, int]]]:
        """For each actor of a kind that has answered, return its name and its counts."""
        return self._by_kind.get(kind, [])

    def total(self, kind: str, what: str) -> int:
        """Return the sum of one count over all actors of a kind."""
        return sum(counts[what] for _, counts in self.of(kind))


NAMED_MOST = 8
"""The maximum number of names in a row, so that the length of a page is bounded."""


def page(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a text with a title and the named rows below it."""
    return title + "".join(f"\n  {name:9} {text}" for name, text in rows)


def with_most_tasks(holders: Iterable[tuple[str, Mapping[str, int]]]) -> str:
    """Return a phrase that names the holders (workers or clients) that have the most tasks; empty if no holder has
    any.
    """
    found = sorted(((counts["tasks"], name) for name, counts in holders if counts["tasks"]), reverse=True)
    if not found:
        return ""
    return "; most tasks: " + ", ".join(f"{name} {count:,}" for count, name in found[:NAMED_MOST])


def in_words(counts: Mapping[str, int]) -> str:
    """Return counts with their names as text: `3 tasks, 2 idle workers`."""
    return ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in counts.items())


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(n_bytes: float) -> str:
    """Return a number of bytes as text, in the largest unit that fits."""
    unit = 0
    while n_bytes >= 1024 and unit < len(_UNITS) - 1:
        n_bytes /= 1024
        unit += 1
    return f"{n_bytes:.1f} {_UNITS[unit]}" if unit else f"{n_bytes:.0f} B"


def traffic(direction: Traffic) -> str:
    """Return the traffic of one direction as text: the most frequent items by name, then messages and bytes."""
    by_name = direction.by_name()
    named = list(by_name.items())[:NAMED_MOST]
    rest = sum(by_name.values()) - sum(count for _, count in named)
    items = [f"{count:,} {name}" for name, count in named] + ([f"{rest:,} others"] if rest else [])
    return f"{', '.join(items) or 'nothing'}; {direction.n_messages:,} messages, {size(direction.n_bytes)}"
