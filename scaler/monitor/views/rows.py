"""Rows: how the rows of a view are filtered, sorted and paged, for all renderers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.monitor.units import natural
from scaler.monitor.views.field_types import NAME, FieldType
from scaler.monitor.views.view import FLAG, STUCK, View, ViewState


@dataclass(frozen=True)
class Wanted:
    """The choice of rows and their order; an empty value restricts nothing."""

    filter: str = ""
    sort: str = ""
    owner: str = ""
    state: str = ""
    start: float = 0
    end: float = 0


def matches(wanted: str, texts: Iterable[str]) -> bool:
    """Return whether a text contains `wanted`, ignoring case; for `!rest`, return whether no text contains `rest`."""
    needle = wanted.removeprefix("!").casefold()
    return not needle or (needle in "\n".join(texts).casefold()) != wanted.startswith("!")


def texts_of(view: View, state: ViewState, subject: Any) -> Iterable[str]:
    """Return the texts of a subject that a filter searches."""
    if view.texts is not None:
        return view.texts(state, subject)
    return [each.text(state, subject, each.width or 99) for each in view.fields if each.in_table]


def chosen(view: View, state: ViewState, wanted: Wanted, subjects: Iterable[Any] | None = None) -> list[Any]:
    """Return the wanted subjects in their order; `subjects`: those to choose from, by default all of the view."""
    found = list(view.rows(state) if subjects is None else subjects)
    if wanted.filter:
        found = [each for each in found if matches(wanted.filter, texts_of(view, state, each))]
    for name, value in (("owner", wanted.owner), ("state", wanted.state)):
        column = view.field(name) if value else None
        if column is not None:
            found = [each for each in found if column.value(state, each) == value]
    if view.at is not None and (wanted.start or wanted.end):
        times = [(view.at(each), each) for each in found]
        end = wanted.end or float("inf")
        found = [each for at, each in times if not at or wanted.start <= at <= end]
    return in_order(view, state, found, wanted.sort or view.sort)


def in_order(view: View, state: ViewState, subjects: Sequence[Any], sort: str) -> list[Any]:
    """Return subjects sorted by a field; rows without a value come last in both directions.

    Raises:
        KeyError: if the view has no such field.
    """
    name, is_down = sort.removeprefix("-"), sort.startswith("-")
    if name == FLAG:
        named = sorted(subjects, key=lambda each: natural(view.name_of(state, each)))
        marked = sorted(named, key=lambda each: view.mark(state, each) != STUCK, reverse=is_down)
        return sorted(marked, key=lambda each: view.group(state, each))
    column = view.field(name)
    if column is None:
        raise KeyError(name)
    values = [(_comparable(column.type, column.value(state, each)), each) for each in subjects]
    with_value = sorted((pair for pair in values if pair[0] is not None), key=lambda pair: pair[0], reverse=is_down)
    ordered = [each for _, each in with_value] + [each for value, each in values if value is None]
    return sorted(ordered, key=lambda each: view.group(state, each))


def _comparable(kind: FieldType, value: Any) -> Any:
    if value is None:
        return None
    return natural(str(value)) if kind is NAME else value


def turned(view: View, sort: str, name: str) -> str:
    """Return the order after a request to sort by a field: its usual direction, or the reverse if it is sorted so."""
    column = view.field(name)
    usual = f"-{name}" if column is not None and column.type.is_number else name
    if sort != usual:
        return usual
    return name if usual.startswith("-") else f"-{name}"


def page_of(subjects: Sequence[Any], offset: int, limit: int) -> tuple[Sequence[Any], int]:
    """Return the rows of a page, and the position of the first; a page beyond the end is the last one."""
    start = min(offset, max(0, len(subjects) - 1) // limit * limit)
    return subjects[start : start + limit], start
