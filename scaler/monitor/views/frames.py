"""Frames: a view, or the details of a subject, as plain data for JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scaler.monitor.views.catalog import VIEWS
from scaler.monitor.views.field_types import FieldType
from scaler.monitor.views.rows import Wanted, chosen, page_of
from scaler.monitor.views.view import (
    FINE,
    FLAG,
    HISTOGRAM,
    LANE,
    LOADING,
    TABLE,
    TEXT_BLOCK,
    Field,
    Part,
    View,
    ViewState,
)

ROWS_MOST, ROWS_USUAL = 100, 50
"""The most rows of a frame, and the usual number."""
EXPORTED_MOST = 10_000
"""The most rows of a file."""
OTHER_UNITS = ("_us", "_ms", "_permille")
_TEXT_CHARACTERS, _NUMBER_MOST = 300, 2**40
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of texts that a spreadsheet would take for a formula."""


class ViewRequestError(ValueError):
    """A frame was requested with invalid arguments."""


def wanted_of(view: View, args: Mapping[str, Any]) -> Wanted:
    """Return the wanted rows from the arguments of a request; numbers may be texts, as in a query.

    Raises:
        ViewRequestError: if an argument is invalid, or the view has no such column.
    """
    texts = {name: text_argument(args, name) for name in ("filter", "sort", "owner", "state")}
    column = texts["sort"].removeprefix("-")
    if column and column != FLAG and view.field(column) is None:
        raise ViewRequestError(f"{view.name} has no column {column}")
    return Wanted(**texts, start=number_argument(args, "start"), end=number_argument(args, "end"))


def text_argument(args: Mapping[str, Any], name: str) -> str:
    """Return an argument that is a short text; empty if it is missing. Raise `ViewRequestError` if it is no text."""
    value = args.get(name, "")
    if not isinstance(value, str) or len(value) > _TEXT_CHARACTERS:
        raise ViewRequestError(f"{name} must be a short text")
    return value


def number_argument(args: Mapping[str, Any], name: str, default: int = 0) -> int:
    """Return an argument that is a whole number, or such a number as text. Raise `ViewRequestError` if it is not."""
    value = args.get(name, default)
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int):
        raise ViewRequestError(f"{name} must be a whole number")
    return max(0, min(number, _NUMBER_MOST))


def frame(
    view: View, state: ViewState, args: Mapping[str, Any], most: int = ROWS_MOST, *, has_all: bool = False
) -> dict[str, Any]:
    """Return the requested rows of a view, for the page and for `/view/NAME.json`.

    Args:
        args: filter, sort (`-time`: descending), owner, state, start, end, offset and limit, all optional.
        most: the most rows.
        has_all: whether to return all fields of the view, not only the columns of the page.

    Raises:
        ViewRequestError: if an argument is invalid.
    """
    wanted = wanted_of(view, args)
    sort = wanted.sort or view.page_sort or view.sort
    subjects = list(view.rows(state))
    rows = chosen(view, state, replace(wanted, sort=sort), subjects)
    limit = max(1, min(number_argument(args, "limit", ROWS_USUAL), most))
    shown, offset = page_of(rows, number_argument(args, "offset"), limit)
    columns = [each for each in view.fields if each.on_page or has_all]
    return _framed(view, state, columns, shown, sort) | {
        "total": len(rows),
        "all": max(view.total(state), len(subjects)),
        "offset": offset,
        "note": view.note(state),
    }


def _framed(
    view: View, state: ViewState, columns: Sequence[Field], subjects: Iterable[Any], sort: str
) -> dict[str, Any]:
    return {
        "view": view.name,
        "columns": [_column(each) for each in columns],
        "less": _less(view, columns),
        "rows": [row(view, state, columns, each) for each in subjects],
        "sort": sort,
        "empty": _empty(view, state),
    }


def _empty(view: View, state: ViewState) -> dict[str, str]:
    if view.empty.is_loading(state):
        return {"text": LOADING, "command": "", "more": ""}
    return {"text": view.empty.text, "command": view.empty.command_for(state), "more": view.empty.more}


def _less(view: View, columns: Sequence[Field]) -> list[str]:
    """Return the columns in the order in which a page without room for all leaves them out."""
    extra = [each.name for each in reversed(columns) if not each.in_table and each.name not in view.less]
    wide = [each.name for each in reversed(columns) if each.is_wide and each.name not in view.less]
    names = {each.name for each in columns}
    return [*extra, *wide, *(name for name in view.less if name in names)]


def _column(column: Field) -> dict[str, Any]:
    return {
        "name": column.name,
        "title": column.heading,
        "meaning": column.meaning,
        "type": column.type.name,
        "link": column.link[0] if column.link else None,
        "sort": True,
        "bad": column.bad,
    }


def plain_row(view: View, state: ViewState, columns: Iterable[Field], subject: Any) -> dict[str, Any]:
    """Return a subject as plain values: its id, and these columns."""
    values: dict[str, Any] = {"id": view.id_of(view.key(subject))}
    for each in columns:
        values[each.name] = each.value(state, subject)
    return values


def row(view: View, state: ViewState, columns: Iterable[Field], subject: Any) -> dict[str, Any]:
    """Return a subject as a row for the page, with its mark, and with the ids that values lead to.

    `to` is what the row opens, if that is not the details of its subject; None if it opens nothing.
    """
    targets = [(each.name, link_of(each, state, subject)) for each in columns if each.link]
    links = {name: target[1] for name, target in targets if target}
    mark, flag, gone = view.mark(state, subject), view.flag(state, subject), view.gone_seconds(state, subject)
    more = {"mark": mark if mark != FINE else "", "flag": flag, "links": links}
    values = plain_row(view, state, columns, subject) | {name: value for name, value in more.items() if value}
    if view.leads is not None:
        target = view.leads(state, subject)
        values["to"] = [target[0], VIEWS[target[0]].id_of(target[1])] if target else None
    return values if gone is None else values | {"gone": gone}


def link_of(column: Field, state: ViewState, subject: Any) -> tuple[str, str] | None:
    """Return the view and the id that a value leads to; None if it leads nowhere."""
    if column.link is None:
        return None
    name, key_of = column.link
    key = key_of(state, subject)
    return (name, VIEWS[name].id_of(key)) if key else None


def detail(view: View, state: ViewState, identity: str) -> dict[str, Any]:
    """Return the details of a subject, which is found by id or by name; its parts may be known if it is not."""
    subject = _found(view, state, identity)
    key = view.key_of(identity) if subject is None else view.key(subject)
    whole = None if subject is None else row(view, state, view.fields, subject) | _old_names(view, state, subject)
    title = view.title_of(state, key, subject)
    parts = [_part(state, each, each.of(state, key, subject)) for each in (view.parts if key is not None else ())]
    return {
        "view": view.name,
        "title": title,
        "subject": whole,
        view.singular: whole,
        "facts": [] if subject is None else _facts(view, state, subject, title),
        "parts": [each for each in parts if each is not None],
        "empty": {"text": view.gone, "command": "", "more": ""},
    }


def _old_names(view: View, state: ViewState, subject: Any) -> dict[str, Any]:
    """Return values by the names of earlier releases, except for names with another unit."""
    names = [(old, each) for each in view.fields for old in each.old if not old.endswith(OTHER_UNITS)]
    return {old: each.value(state, subject) for old, each in names}


def _found(view: View, state: ViewState, identity: str) -> Any:
    subjects = list(view.rows(state))
    by_id = (each for each in subjects if view.id_of(view.key(each)) == identity)
    by_name = (each for each in subjects if view.name_of(state, each) == identity)
    return next(by_id, None) or next(by_name, None)


def _facts(view: View, state: ViewState, subject: Any, title: str) -> list[list[Any]]:
    """Return heading, type, value, link (view and id, or None) and whether the value is bad, for each field."""
    facts = [each for each in view.fields if each.is_fact]
    is_named = view.name_of(state, subject) in title
    found = []
    for each in facts[is_named:]:
        value = each.value(state, subject)
        found.append([each.heading, each.type.name, value, link_of(each, state, subject), bool(each.bad and value)])
    return found


def _part(state: ViewState, part: Part, content: Any) -> dict[str, Any] | None:
    found = _PARTS[part.kind](state, part, content)
    return {"kind": part.kind, "title": part.title} | found if found else None


def _table(state: ViewState, part: Part, subjects: Iterable[Any]) -> dict[str, Any] | None:
    view = VIEWS[part.view]
    rows = chosen(view, state, Wanted(sort=part.sort), list(subjects))
    if not rows and not part.is_always:
        return None
    columns = [each for each in view.fields if each.on_page and each.name not in part.without]
    table = _framed(view, state, columns, rows[: part.most], part.sort or view.sort)
    return {"table": table | {"total": len(rows), "all": len(rows), "offset": 0, "note": ""}}


def _buckets(_state: ViewState, _part: Part, counts: Sequence[int]) -> dict[str, Any] | None:
    """Return the limit in seconds and the number of runs for each bucket between the first and the last with runs."""
    used = [number for number, amount in enumerate(counts) if amount]
    span = range(used[0], used[-1] + 1) if used else ()
    return {"buckets": [[(1 << number) / 1e6, counts[number]] for number in span]} if used else None


def _text_block(_state: ViewState, _part: Part, text: str) -> dict[str, Any] | None:
    return {"text": text} if text else None


def _lane(_state: ViewState, _part: Part, lane: dict[str, Any] | None) -> dict[str, Any] | None:
    return lane


_PARTS: dict[str, Callable[[ViewState, Part, Any], dict[str, Any] | None]] = {
    TABLE: _table,
    TEXT_BLOCK: _text_block,
    HISTOGRAM: _buckets,
    LANE: _lane,
}


def as_csv(view: View, state: ViewState, args: Mapping[str, Any]) -> str:
    """Return the wanted rows of a view as CSV, with all fields; arguments as in `frame`, without offset and limit."""
    wanted = wanted_of(view, args)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(["id", *(each.name for each in view.fields)])
    for subject in chosen(view, state, wanted)[:EXPORTED_MOST]:
        values = [_csv_value(each.type, each.value(state, subject)) for each in view.fields]
        writer.writerow([view.id_of(view.key(subject)), *values])
    return text.getvalue()


def _csv_value(kind: FieldType, value: Any) -> str:
    text = kind.csv(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text
