"""The tables of the views: makes rows from the model, sorts and filters the rows, and draws tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from scaler.monitor import units
from scaler.monitor.columns import COLUMNS, MARKS, NAME, TableField, ViewRow, host_rows, in_order, matches, rows_of
from scaler.monitor.model.jobs import OPEN, PAUSED, state_of
from scaler.monitor.model.model import Model
from scaler.monitor.model.workers import percentile_us
from scaler.monitor.top import grid
from scaler.monitor.top.grid import Grid
from scaler.monitor.top.text import cut_apart, fit, safe, width_of
from scaler.monitor.top.view import CLIENTS, EVENTS, FAILURES, FUNCTIONS, JOBS, OBJECTS, TopView
from scaler.wire.messages.monitor import StateClient, StateObject

_BAD_EVENTS = frozenset({"cut", "refused", "restarted"})
DROPPED = ("agent_rss", "agent_cpu", "suspended", "rss_free", "free", "marks", "lag", "queued", "sent", "rss", "cpu")
"""The columns that are left out on narrow screens, in this order. The column by which rows are sorted stays."""
_FIRST_FIELD = 24
"""The least width of the first field, in cells."""


@dataclass(frozen=True)
class DrawnField:
    """A column of a table as it is drawn; `text` returns the text of the column for a thing."""

    title: str
    width: int
    text: Callable[[Model, Any], str] = lambda _model, each: str(each)
    right: bool = True
    style: str = grid.PLAIN


STUCK = "*"
"""The mark of a worker that looks stuck."""


@dataclass(frozen=True)
class TableLine:
    """A row of a table as it is drawn, with its key and its mark."""

    key: object
    make_texts: Callable[[], Sequence[str]]
    """returns the texts of the row; called only when the row is drawn, because most rows are not visible"""
    mark: str = " "
    style: str = grid.PLAIN

    @property
    def texts(self) -> Sequence[str]:
        """The texts of the row, one for each field."""
        return self.make_texts()


class RowSubject(NamedTuple):
    """The thing that a row shows (`state`), and the key, mark and style of the row."""

    key: object
    state: Any
    mark: str = " "
    style: str = grid.PLAIN


@dataclass(frozen=True)
class Table:
    """A table as it is drawn. The first field contains names, and takes the remaining width."""

    fields: Sequence[DrawnField]
    lines: Sequence[TableLine]
    total: int
    """the number of rows without the filter"""
    empty: Sequence[str] = field(default_factory=tuple)
    """the lines of text to show if there are no rows"""


def table_of(model: Model, view: TopView, width: int) -> Table:
    """Return the table of a view."""
    make = {
        FUNCTIONS: functions_table,
        CLIENTS: clients_table,
        FAILURES: failures_table,
        EVENTS: events_table,
        JOBS: jobs_table,
        OBJECTS: objects_table,
    }
    if view.name in make:
        whole = make[view.name](model, width)
        lines = [line for line in whole.lines if matches(view.filter, line.texts)]
        return Table(whole.fields, lines, whole.total, whole.empty)
    return _workers_table(model, view, width)


def _workers_table(model: Model, view: TopView, width: int) -> Table:
    stuck = model.stuck.reasons
    rows = (host_rows if view.is_by_host else rows_of)(model.workers, stuck)
    names: dict[object, list[str]] = {
        worker.key: [worker.name, worker.host, model.function_name(worker.function)] for worker in model.workers
    }
    kept = [row for row in rows if matches(view.filter, names.get(row.key, [row.name]))]
    ordered = in_order(kept, view.sort, view.is_reversed)
    columns, name_width = chosen_columns(width, view.sort, view.column)
    fields = [
        DrawnField(_heading(NAME, name_width - 1, view, "host" if view.is_by_host else ""), name_width, right=False)
    ]
    fields += [
        DrawnField(
            _heading(column, column_width, view),
            column_width,
            style=grid.BOLD if column.name == view.sort else grid.PLAIN,
        )
        for column, column_width in columns
    ]
    lines = [
        TableLine(
            row.key,
            partial(_texts_of, row, columns),
            STUCK if row.is_stuck else " ",
            grid.RUNNING if row.is_stuck else grid.PLAIN,
        )
        for row in ordered
    ]
    address = model.scheduler.address if model.scheduler else "ADDRESS"
    return Table(
        fields, lines, len(rows), ("No worker is connected. Run this on each host:", f"scaler_cluster {address}")
    )


def _texts_of(row: ViewRow, columns: Sequence[tuple[TableField, int]]) -> list[str]:
    return [row.name, *(column.text(row) for column, _ in columns)]


def chosen_columns(width: int, sort: str, scrolled: int) -> tuple[list[tuple[TableField, int]], int]:
    """Return the columns that fit and their widths, and the width of the name; `scrolled`: how many scrolled away."""
    columns = [*COLUMNS, MARKS]
    away = [column for column in columns if column.name != sort][:scrolled]
    columns = [column for column in columns if column not in away]
    least = NAME.width
    for name in DROPPED:
        if least + sum(column.width + 1 for column in columns) <= width:
            break
        columns = [column for column in columns if column.name != name or column.name == sort]
    widths = {column.name: column.width for column in columns}
    for column in columns:
        full = max(column.width, len(column.title) + 2)
        if 24 + sum(widths.values()) + len(widths) + full - column.width <= width:
            widths[column.name] = full
    name_width = width - sum(widths.values()) - len(widths)
    return [(column, widths[column.name]) for column in columns], max(least, min(36, name_width))


def _heading(column: TableField, width: int, view: TopView, name: str = "") -> str:
    text = name or column.title
    if column.name != view.sort:
        return text
    inner = text if len(text) + 2 <= width else text[: max(1, width - 3)] + "+"
    return f"[{inner}]"


_FUNCTIONS = (
    DrawnField("function", 0, lambda _, each: each.name if each.function else "all others"),
    DrawnField("open", 9, lambda _, each: units.count(each.waiting + each.running, 9)),
    DrawnField("running", 7, lambda _, each: units.count(each.running, 7)),
    DrawnField("mean", 6, lambda _, each: units.duration(each.mean_us or None)),
    DrawnField("p95", 6, lambda _, each: units.duration(percentile_us(each.durations, 0.95))),
    DrawnField("done", 9, lambda _, each: units.count(each.success, 9)),
    DrawnField("fail", 6, lambda _, each: units.count(each.failed + each.other, 6)),
    DrawnField("waits for", 13, lambda _, each: units.waits_for(each.waits_for, each.asks), right=False),
)


def functions_table(model: Model, width: int) -> Table:
    """Return the table of functions. Functions with the most open tasks come first."""
    ranked = sorted(model.functions.values(), key=lambda each: (not each.function, -(each.waiting + each.running)))
    things = [RowSubject(each.function, each, "!" if each.failed + each.other else " ") for each in ranked]
    empty = ("No function has had open tasks since scaler_top started.",)
    return _spread(model, _FUNCTIONS, things, width, empty, ("running", "done", "p95", "waits for", "fail"))


_CLIENTS = (
    DrawnField("client", 0, lambda _, each: each.label or each.client.hex()),
    DrawnField("owner", 12, lambda _, each: each.owner or "-", right=False),
    DrawnField("open", 10, lambda _, each: units.count(each.open, 10)),
    DrawnField("waiting", 10, lambda _, each: units.count(each.waiting, 10)),
    DrawnField("seen", 5, lambda _, each: units.ago(each.seen_ms / 1000)),
    DrawnField("state", 10, lambda _, each: _state_of_client(each), right=False),
)


def _state_of_client(client: StateClient) -> str:
    return "away" if client.is_away else "in a task" if client.root not in (b"", client.client) else "connected"


def clients_table(model: Model, width: int) -> Table:
    """Return the table of clients. Clients with the most open tasks come first."""
    ranked = sorted(model.clients.values(), key=lambda each: -each.open)
    things = [RowSubject(each.client, each, "x" if each.is_away else " ") for each in ranked]
    less = ("seen", "state", "owner", "waiting")
    return _spread(model, _CLIENTS, things, width, ("No client is connected.",), less)


_FAILURES = (
    DrawnField("failure", 0, lambda _, each: f"{each.type}: {each.message}" if each.message else each.type),
    DrawnField("count", 7, lambda _, each: units.count(each.times, 7)),
    DrawnField("last", 8, lambda _, each: units.clock(each.last_us)),
    DrawnField("function", 14, lambda _, each: each.function_name, right=False),
    DrawnField("example", 9, lambda _, each: f"#{each.task.hex()[:8]}" if each.task else "-", right=False),
    DrawnField("worker", 12, lambda _, each: each.worker or "-", right=False),
)


def failures_table(model: Model, width: int) -> Table:
    """Return the table of the kinds of failures, the latest first."""
    ranked = sorted(model.failures.values(), key=lambda each: -each.last_us)
    things = [RowSubject(each.failure, each, "!", grid.FAILED) for each in ranked]
    empty, less = ("No task has failed since the scheduler started.",), ("worker", "example", "function", "last")
    return _spread(model, _FAILURES, things, width, empty, less)


_EVENTS = (
    DrawnField(
        "event", 0, lambda _, each: f"{each.kind}: {each.subject}" + (f" ({each.reason})" if each.reason else "")
    ),
    DrawnField("when", 14, lambda _, each: units.day_and_clock(each.time_us)),
)


def events_table(model: Model, width: int) -> Table:
    """Return the table of events, the latest first."""
    things = [
        RowSubject((each.time_us, each.kind, each.subject), each, "!" if each.kind in _BAD_EVENTS else " ")
        for each in reversed(model.events)
    ]
    return _spread(model, _EVENTS, things, width, ("Nothing has happened since the scheduler started.",))


_JOBS = (
    DrawnField("job", 0, lambda _, each: each.name),
    DrawnField("state", 12, lambda _, each: state_of(each), right=False),
    DrawnField("done", 9, lambda _, each: units.count(each.done, 9)),
    DrawnField(
        "rows", 9, lambda _, each: units.count(each.rows, 9) if each.all_rows_known else f"{units.count(each.rows, 8)}+"
    ),
    DrawnField("fail", 6, lambda _, each: units.count(each.failed, 6)),
    DrawnField("rows/s", 7, lambda model, each: units.rate(model.job_rates.per_second(each), 7)),
    DrawnField("left", 8, lambda model, each: model.job_rates.left(each)),
    DrawnField("kept", 6, lambda _, each: units.size(each.size_bytes)),
    DrawnField("age", 4, lambda model, each: units.ago(max(0, model.received_us - each.created_us) / 1e6)),
    DrawnField("owner", 12, lambda _, each: each.owner or "-", right=False),
    DrawnField("program", 14, lambda _, each: each.program or "-", right=False),
)
_NO_JOBS = (
    "No jobs: client.map(price, rows, job=...) and client.start(...) create them",
    "at a scheduler with --keep FOLDER.",
)


def jobs_table(model: Model, width: int) -> Table:
    """Return the table of jobs: open and paused jobs first, then by the time of their last change."""
    ranked = sorted(model.jobs.values(), key=lambda each: (each.state not in (OPEN, PAUSED), -each.changed_us))
    things = [RowSubject(each.job, each, "!" if each.failed else " ") for each in ranked]
    return _spread(model, _JOBS, things, width, _NO_JOBS, ("program", "owner", "age", "kept", "rows/s", "fail"))


def owner_of(model: Model, each: StateObject) -> str:
    """Return the owner of an object; `-` for a function, which has no owner."""
    client = model.clients.get(each.client)
    return each.owner or (client.label if client and each.kind != 1 else "-")


_OBJECTS = (
    DrawnField("object", 0, lambda _, each: title_of(each)),
    DrawnField("size", 6, lambda _, each: units.size(each.size_bytes)),
    DrawnField("where", 9, lambda _, each: place_of(each), right=False),
    DrawnField("copies", 6, lambda _, each: units.count(each.copies, 6)),
    DrawnField("readers", 7, lambda _, each: units.count(each.users, 7)),
    DrawnField("owner", 12, owner_of, right=False),
)


def title_of(each: StateObject) -> str:
    """Return the kind and the name of an object."""
    kind = dict(enumerate(("value", "function", "argument", "result of"))).get(each.kind, "object")
    return f"{kind} {each.name or each.object.hex()[:8]}"


def place_of(each: StateObject) -> str:
    """Return where the bytes of an object are: at the scheduler, a client or an agent, or lost."""
    return dict(enumerate(("scheduler", "client", "agent", "lost"))).get(each.place, "-")


def objects_table(model: Model, width: int) -> Table:
    """Return the table of the largest objects."""
    ranked = sorted(model.objects.values(), key=lambda each: -each.size_bytes)
    things = [RowSubject(each.object, each, "x" if place_of(each) == "lost" else " ") for each in ranked]
    empty = ("No objects are stored." if "objects" in model.heads else "Loading.",)
    return _spread(model, _OBJECTS, things, width, empty, ("owner", "readers", "copies", "where"))


def _spread(
    model: Model,
    fields: Sequence[DrawnField],
    things: Sequence[RowSubject],
    width: int,
    empty: Sequence[str],
    less: Sequence[str] = (),
) -> Table:
    """Return a table whose first field takes the remaining width. If that is too small, drop columns in `less`."""
    first, *kept = fields
    for title in less:
        if width - sum(each.width + 1 for each in kept) >= _FIRST_FIELD:
            break
        kept = [each for each in kept if each.title != title]
    first = replace(first, width=width - sum(each.width + 1 for each in kept), right=False)
    chosen = [first, *kept]
    lines = [
        TableLine(thing.key, partial(_texts_in, chosen, model, thing.state), thing.mark, thing.style)
        for thing in things
    ]
    return Table(chosen, lines, len(lines), empty)


def _texts_in(fields: Sequence[DrawnField], model: Model, state: Any) -> list[str]:
    return [each.text(model, state) for each in fields]


def scrolled_to(view: TopView, table: Table, rows: int) -> tuple[int, int]:
    """Scroll to the chosen row. Return the positions of the first visible row and of the chosen row (-1: none)."""
    keys = [line.key for line in table.lines]
    name = "hosts" if view.is_by_host else view.name
    try:
        chosen = keys.index(view.selected[name])
    except (KeyError, ValueError):
        chosen = -1
    top = max(0, min(view.top.get(name, 0), len(keys) - rows))
    if chosen >= 0:
        top = min(top, chosen) if chosen < top else max(top, chosen - rows + 1)
    view.top[name] = top
    return top, chosen


def draw_table(canvas: Grid, table: Table, y: int, rows: int, top: int, chosen: int) -> None:
    """Draw the headings of a table, and the rows from position `top` on."""
    x = 0
    for each in table.fields:
        x = canvas.put(x, y, fit(each.title, each.width, each.right), each.style) + 1
    lines = table.lines[top : top + rows]
    texts = [line.texts for line in lines]
    names = cut_apart([each[0] for each in texts], table.fields[0].width - 1)
    for number, (line, name) in enumerate(zip(lines, names, strict=True)):
        row = y + 1 + number
        width = table.fields[0].width - 1
        canvas.put(0, row, line.mark, line.style)
        canvas.put(1, row, name + " " * (width - width_of(name)), line.style if line.mark == "*" else grid.PLAIN)
        x = width + 2
        for each, text in zip(table.fields[1:], texts[number][1:], strict=False):
            canvas.put(x, row, fit(safe(text), each.width, each.right), each.style)
            x += each.width + 1
        if top + number == chosen:
            canvas.fill_part(row, 0, x - 1, grid.REVERSE)
    if not table.lines:
        words = table.empty if not table.total else ("Nothing matches the filter.",)
        for number, text in enumerate(words[:rows]):
            canvas.put(1, y + 1 + number, text)


def draw_side(canvas: Grid, x: int, y: int, width: int, height: int, model: Model) -> None:
    """Draw the three panels beside the table of a large screen: clients, functions, failures."""
    clients = model.scheduler.clients if model.scheduler else len(model.clients)
    panels = [
        (f"client_manager {clients}", clients_table(model, width)),
        (f"function_id_to_tasks {len(model.functions)}", functions_table(model, width)),
        (f"failures {len(model.failures)}", failures_table(model, width)),
    ]
    share = height // len(panels)
    spare = height - share * len(panels)
    for number, (title, table) in enumerate(panels):
        rows = share + (1 if number < spare else 0)
        _draw_panel(canvas, x, y, width, rows - 1, title, table)
        y += rows


def _draw_panel(canvas: Grid, x: int, y: int, width: int, height: int, title: str, table: Table) -> None:
    part = Grid(width, height)
    draw_table(part, table, 0, height - 1, 0, -1)
    first = table.fields[0].width
    part.put(0, 0, " " * first)
    part.put(0, 0, title, grid.BOLD, most=first)
    rest = len(table.lines) - (height - 1)
    if rest > 0:
        part.put(0, height - 1, " " * width)
        part.put(1, height - 1, f"{rest + 1} more")
    canvas.paste(x, y, part)
