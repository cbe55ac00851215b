"""Details in the terminal: the lines about one thing, such as a worker. A line may lead to another thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.monitor import units
from scaler.monitor.top import grid
from scaler.monitor.top.table import part_of, row_texts
from scaler.monitor.top.text import fit, safe, width_of
from scaler.monitor.top.view import Target
from scaler.monitor.views.catalog import BY_SINGULAR, VIEWS
from scaler.monitor.views.field_types import STATE
from scaler.monitor.views.view import BAD, HISTOGRAM, LANE, STUCK, TABLE, TEXT_BLOCK, Field, Part, View, ViewState

_LABEL_CELLS = 9
_BAR_CELLS = 40
_STATE_STYLES = {"running": grid.RUNNING, "success": grid.SUCCESS, "failed": grid.FAILED, "canceled": grid.CANCELED}


@dataclass(frozen=True)
class DetailLine:
    """One line of details. The Enter key on the line opens the details of `target`."""

    text: str
    style: str = grid.PLAIN
    target: Target | None = None


@dataclass(frozen=True)
class Details:
    """The details of one thing: a title, and the lines to show."""

    title: str
    lines: Sequence[DetailLine]


def details_of(state: ViewState, target: Target, width: int = 80) -> Details:
    """Return the details of a thing, for a screen of this width."""
    view = BY_SINGULAR[target.kind]
    subject = view.find(state, target.key)
    title = view.title_of(state, target.key, subject)
    lines = (
        [DetailLine(view.gone)]
        if subject is None
        else [*_flag(view, state, subject), *_facts(view, state, subject, title, width)]
    )
    for part in view.parts if subject is not None else [each for each in view.parts if not each.is_always]:
        lines += _PARTS[part.kind](state, part, part.of(state, target.key, subject), width)
    return Details(title, lines)


def _flag(view: View, state: ViewState, subject: Any) -> Iterator[DetailLine]:
    reason, mark = view.flag(state, subject), view.mark(state, subject)
    if reason:
        yield DetailLine(f"{mark} {'stuck? ' if mark == STUCK else ''}{reason}", grid.RUNNING)


def _facts(view: View, state: ViewState, subject: Any, title: str, width: int) -> Iterator[DetailLine]:
    """Yield the facts about a subject: two short ones in a line, but a fact that leads to another thing in its own."""
    facts = [(each, each.text(state, subject)) for each in view.fields if each.is_fact]
    is_named = facts[0][1] in title
    facts = [(each, text) for each, text in facts[is_named:] if text not in ("", units.UNKNOWN)]
    label = max([_LABEL_CELLS, *(len(each.label) for each, _ in facts)])
    half = (width - 2) // 2
    held = ""
    for each, text in facts:
        line = f"{fit(each.label, label)} {safe(text)}"
        target = _target_of(each, state, subject)
        style = _style_of(each, state, subject)
        is_alone = target is not None or style != grid.PLAIN or width_of(line) > half - 2
        if held and not is_alone:
            yield DetailLine(fit(held, half) + line)
            held = ""
            continue
        if held:
            yield DetailLine(held)
        held = "" if is_alone else line
        if is_alone:
            yield DetailLine(line, style, target)
    if held:
        yield DetailLine(held)


def _style_of(column: Field, state: ViewState, subject: Any) -> str:
    value = column.value(state, subject)
    if column.type is STATE:
        return _STATE_STYLES.get(value, grid.PLAIN)
    return grid.FAILED if column.bad and value else grid.PLAIN


def _target_of(column: Field, state: ViewState, subject: Any) -> Target | None:
    if column.link is None:
        return None
    name, key_of = column.link
    key = key_of(state, subject)
    return Target(VIEWS[name].singular, key) if key else None


def _table(state: ViewState, part: Part, subjects: Any, width: int) -> Iterator[DetailLine]:
    view = VIEWS[part.view]
    subjects = list(subjects)
    if not subjects and not part.is_always:
        return
    table = part_of(state, view, width - 2, subjects, part.without, part.sort)
    yield from _titled(part)
    if not subjects:
        yield from (DetailLine(f" {line}") for line in view.empty.lines(state))
        return
    headings = zip(table.headings(), table.columns, strict=True)
    yield DetailLine(
        " "
        + " ".join(
            fit(heading, width - (not number), column.is_right)
            for number, (heading, (column, width)) in enumerate(headings)
        )
    )
    for subject, texts in zip(
        table.subjects[: part.most], row_texts(table, table.subjects[: part.most], is_cut=False), strict=True
    ):
        mark = view.mark(state, subject)
        style = grid.RUNNING if mark == STUCK else grid.FAILED if mark == BAD else grid.PLAIN
        yield DetailLine(f"{mark}{' '.join(texts)}".rstrip(), style, _target_of_row(view, state, subject))
    if len(subjects) > part.most:
        yield DetailLine(f" {len(subjects) - part.most:,} more")


def _target_of_row(view: View, state: ViewState, subject: Any) -> Target | None:
    if view.leads is None:
        return Target(view.singular, view.key(subject))
    found = view.leads(state, subject)
    return Target(VIEWS[found[0]].singular, found[1]) if found else None


def _titled(part: Part) -> Iterator[DetailLine]:
    yield DetailLine("")
    yield DetailLine(part.title, grid.BOLD)


def _text(_state: ViewState, part: Part, text: str, _width: int) -> Iterator[DetailLine]:
    if text:
        yield from _titled(part)
        yield from map(DetailLine, text.splitlines())


def _histogram(_state: ViewState, part: Part, counts: Sequence[int], _width: int) -> Iterator[DetailLine]:
    """Yield a line for each power of two with runs, and for those between."""
    used = [number for number, amount in enumerate(counts) if amount]
    if not used:
        return
    yield from _titled(part)
    for number in range(used[0], used[-1] + 1):
        bar = "#" * -(-counts[number] * _BAR_CELLS // max(counts))
        yield DetailLine(f" to {units.duration(1 << number):>6} {units.count(counts[number], 9):>9} {bar}".rstrip())


def _nothing(*_: Any) -> Iterator[DetailLine]:
    """Yield nothing: the terminal does not draw lanes."""
    yield from ()


_PARTS: dict[str, Callable[[ViewState, Part, Any, int], Iterator[DetailLine]]] = {
    TABLE: _table,
    TEXT_BLOCK: _text,
    HISTOGRAM: _histogram,
    LANE: _nothing,
}
