"""Tables in the terminal: chooses the columns of a view that fit, and draws its visible rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scaler.monitor.top import grid
from scaler.monitor.top.grid import Grid
from scaler.monitor.top.text import cut_apart, fit, safe, width_of
from scaler.monitor.top.view import TopView
from scaler.monitor.views.catalog import VIEWS
from scaler.monitor.views.rows import Wanted, chosen
from scaler.monitor.views.view import BAD, STUCK, Field, View, ViewState

_FIRST_WIDTH, _FIRST_WIDTH_LEAST = 24, 11
"""The width of the first column before others become wider, and the least of all."""
_STYLES = {STUCK: grid.RUNNING, BAD: grid.FAILED}
_MARK_CELLS = 1


@dataclass(frozen=True)
class Table:
    """The rows of a view, sorted and filtered, and the columns that fit, each with its width."""

    view: View
    state: ViewState
    columns: Sequence[tuple[Field, int]]
    subjects: Sequence[Any]
    total: int
    """the number of rows without the filter"""
    sort: str = ""

    @property
    def keys(self) -> list[Any]:
        """The keys of all rows."""
        return [self.view.key(each) for each in self.subjects]

    @property
    def marked(self) -> list[Any]:
        """The keys of the rows that look stuck."""
        return [self.view.key(each) for each in self.subjects if self.view.mark(self.state, each) == STUCK]

    def texts(self, subject: Any) -> list[str]:
        """Return the texts of a row, one for each column."""
        return [column.text(self.state, subject, width) for column, width in self.columns]

    def headings(self) -> list[str]:
        """Return the headings of the columns, that of the sorted column in brackets."""
        return [
            _heading(column, width - (not number), self.sort) for number, (column, width) in enumerate(self.columns)
        ]


def table_of(state: ViewState, view: TopView, width: int) -> Table:
    """Return the table that the user has chosen."""
    shown = view.table
    subjects = list(shown.rows(state))
    rows = chosen(shown, state, Wanted(view.filter, view.sort), subjects)
    names = max((len(shown.name_of(state, each)) for each in rows), default=0) if shown.has_wide else 0
    columns = laid_out(shown, width, view.sort.removeprefix("-"), view.column, names=names + _MARK_CELLS)
    return Table(shown, state, columns, rows, len(subjects), view.sort)


def part_of(
    state: ViewState,
    view: View,
    width: int,
    subjects: Sequence[Any] | None = None,
    without: Sequence[str] = (),
    sort: str = "",
) -> Table:
    """Return a table in a panel or in details, whose order the user cannot choose."""
    rows = chosen(view, state, Wanted(sort=sort), subjects)
    return Table(view, state, laid_out(view, width, without=without), rows, len(rows))


def laid_out(
    view: View,
    width: int,
    sort: str = "",
    scrolled: int = 0,
    without: Sequence[str] = (),
    names: int = _FIRST_WIDTH,
) -> list[tuple[Field, int]]:
    """Return the columns that fit, and their widths.

    Args:
        sort: the column by which rows are sorted, which is always shown.
        scrolled: how many columns are scrolled out of view.
        without: columns to leave out.
        names: the width that is left for the first column before wide columns are added.
    """
    columns = [each for each in view.fields if each.in_table and each.name not in without]
    first = next((each for each in columns if not each.width), columns[0])
    fixed = [each for each in columns if each is not first and (not each.is_wide or each.name == sort)]
    away = [each for each in fixed if each.name != sort][:scrolled]
    fixed = [each for each in fixed if each not in away]
    least = first.width or view.first_width
    for name in view.less:
        if least + _sum_of(fixed) <= width:
            break
        fixed = [each for each in fixed if each.name != name or each.name == sort]
    while len(fixed) > 1 and _FIRST_WIDTH_LEAST + _sum_of(fixed) > width:
        fixed.remove(next(each for each in reversed(fixed) if each.name != sort))
    widths = {each.name: each.width for each in fixed}
    for each in fixed:
        full = max(each.width, len(each.label) + 2)
        if _FIRST_WIDTH + sum(widths.values()) + len(widths) + full - each.width <= width:
            widths[each.name] = full
    for each in (each for each in columns if each.is_wide and each.name not in widths):
        if max(least, names) + sum(widths.values()) + len(widths) + each.width + 1 > width:
            break
        widths[each.name] = each.width
    left = width - sum(widths.values()) - len(widths)
    widths[first.name] = first.width or max(_FIRST_WIDTH_LEAST, min(view.first_most, left))
    return [(each, widths[each.name]) for each in columns if each.name in widths]


def _sum_of(columns: Sequence[Field]) -> int:
    return sum(each.width + 1 for each in columns)


def _heading(column: Field, width: int, sort: str) -> str:
    text = column.label
    if column.name != sort.removeprefix("-"):
        return text
    return f"[{text if len(text) + 2 <= width else text[: max(1, width - 3)] + '+'}]"


def scrolled_to(view: TopView, table: Table, rows: int) -> tuple[int, int]:
    """Scroll to the chosen row. Return the positions of the first visible row and of the chosen row (-1: none)."""
    keys, name = table.keys, table.view.name
    try:
        chosen_row = keys.index(view.selected[name])
    except (KeyError, ValueError):
        chosen_row = -1
    top = max(0, min(view.top.get(name, 0), len(keys) - rows))
    if chosen_row >= 0:
        top = min(top, chosen_row) if chosen_row < top else max(top, chosen_row - rows + 1)
    view.top[name] = top
    return top, chosen_row


def draw_table(canvas: Grid, table: Table, y: int, rows: int, top: int = 0, chosen_row: int = -1) -> None:
    """Draw the headings of a table, and the rows from position `top` on."""
    x = 0
    for (column, width), heading in zip(table.columns, table.headings(), strict=True):
        style = grid.BOLD if heading.startswith("[") and column.width else grid.PLAIN
        x = canvas.put(x, y, fit(heading, width, column.is_right), style) + 1
    subjects = table.subjects[top : top + rows]
    for number, line in enumerate(row_texts(table, subjects)):
        _draw_row(canvas, table, y + 1 + number, subjects[number], line)
        if top + number == chosen_row:
            canvas.fill_part(y + 1 + number, 0, x - 1, grid.REVERSE)
    if not table.subjects:
        words = table.view.empty.lines(table.state) if not table.total else ["Nothing matches the filter."]
        for number, text in enumerate(words[:rows]):
            canvas.put(1, y + 1 + number, text)


def row_texts(table: Table, subjects: Sequence[Any], is_cut: bool = True) -> list[list[str]]:
    """Return the texts of rows, each as wide as its column; names that would look alike are cut on the left.

    Args:
        is_cut: whether the last column is cut, too, if it is the one that takes the remaining width.
    """
    texts = [table.texts(each) for each in subjects]
    width = table.columns[0][1] - _MARK_CELLS
    names = cut_apart([each[0] for each in texts], width)
    rest = table.columns[1:]
    return [
        [name + " " * (width - width_of(name)), *(_fitted(*pair, is_cut) for pair in zip(line[1:], rest, strict=True))]
        for name, line in zip(names, texts, strict=True)
    ]


def _fitted(text: str, column: tuple[Field, int], is_cut: bool) -> str:
    kind, width = column
    return fit(safe(text), width, kind.is_right) if is_cut or kind.width else safe(text)


def _draw_row(canvas: Grid, table: Table, y: int, subject: Any, texts: Sequence[str]) -> None:
    mark = table.view.mark(table.state, subject)
    style = _STYLES.get(mark, grid.PLAIN)
    canvas.put(0, y, mark, style)
    x = canvas.put(_MARK_CELLS, y, texts[0], style if mark == STUCK else grid.PLAIN) + 1
    for (column, _), text in zip(table.columns[1:], texts[1:], strict=True):
        is_bad = column.bad and bool(column.value(table.state, subject))
        x = canvas.put(x, y, text, grid.FAILED if is_bad else grid.PLAIN) + 1


def draw_side(canvas: Grid, x: int, y: int, width: int, height: int, state: ViewState, most: int = 3) -> None:
    """Draw panels beside or below the table of a large screen: clients, functions, failures; at most `most`."""
    model = state.model
    clients = model.scheduler.clients if model.scheduler else len(model.clients)
    panels = [
        (f"client_manager {clients}", "clients"),
        (f"function_id_to_tasks {model.function_count:,}", "functions"),
        (f"failures {len(model.failures)}", "failures"),
    ]
    panels = panels[1:] + panels[:1] if most < len(panels) else panels
    share, spare = divmod(height, min(most, len(panels)))
    for number, (title, name) in enumerate(panels[:most]):
        rows = share + (1 if number < spare else 0)
        _draw_panel(canvas, x, y, rows - 1, title, part_of(state, VIEWS[name], width))
        y += rows


def _draw_panel(canvas: Grid, x: int, y: int, height: int, title: str, table: Table) -> None:
    width = sum(width + 1 for _, width in table.columns) - 1
    part = Grid(width, height)
    draw_table(part, table, 0, height - 1)
    first = table.columns[0][1]
    part.put(0, 0, " " * first)
    part.put(0, 0, title, grid.BOLD, most=first)
    rest = len(table.subjects) - (height - 1)
    if rest > 0:
        part.put(0, height - 1, " " * width)
        part.put(1, height - 1, f"{rest + 1} more")
    canvas.paste(x, y, part)
