"""The panels above the table: counters and load of the scheduler, and the history of the last minute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scaler.monitor import units
from scaler.monitor.model.model import Model
from scaler.monitor.model.rates import CANCELED, FAILED, NOT_FOUND, SUCCESS
from scaler.monitor.top import grid
from scaler.monitor.top.grid import Grid
from scaler.monitor.top.text import fit, width_of
from scaler.monitor.top.view import TopView

ROWS = 8
BARS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
ASCII_BARS = " .:-=+*|#"
_MESSAGES = ROWS - 2
_STRIPS = (
    ("fail/s", "failed", 0.0, grid.FAILED),
    ("cpu", "cpu", 1.0, grid.PLAIN),
    ("lag", "lag_most", 0.05, grid.PLAIN),
)
"""The strips below the bars: label, series, the value that fills a cell (0.0: the greatest shown value), and style."""
_STYLES = {
    "running": grid.RUNNING,
    SUCCESS: grid.SUCCESS,
    FAILED: grid.FAILED,
    CANCELED: grid.CANCELED,
}


@dataclass(frozen=True)
class PanelEntry:
    """A line of a panel: a label on the left and a value on the right. A title has no value."""

    label: str
    value: str = ""
    style: str = grid.PLAIN
    is_title: bool = False


def title(text: str) -> PanelEntry:
    """Return a title, as the first line of a panel."""
    return PanelEntry(text, style=grid.BOLD, is_title=True)


def scheduler_panel(model: Model) -> list[PanelEntry]:
    """Return a panel with CPU time, memory, and loop lag of the scheduler."""
    state = model.scheduler
    return [
        title("scheduler"),
        PanelEntry("cpu", units.share(state.cpu_permille if state else None)),
        PanelEntry("rss", units.size(state.rss_bytes or None if state else None)),
        PanelEntry("rss_free", units.size(state.free_bytes or None if state else None)),
        PanelEntry("loop lag", units.duration(state.lag_most_us if state else None)),
    ]


def objects_panel(model: Model) -> list[PanelEntry]:
    """Return a panel with the number and the bytes of stored objects."""
    state = model.scheduler
    return [
        title("object_manager"),
        PanelEntry("objects", units.count(state.objects if state else None)),
        PanelEntry("bytes", units.size(state.object_bytes if state else None)),
    ]


def tasks_panel(model: Model, view: TopView, width: int) -> list[PanelEntry]:
    """Return a panel with the numbers of tasks by state, since the start of the scheduler or per second."""
    state = model.scheduler
    ended: Mapping[str, float | None] = model.outcomes
    if view.per_second:
        ended = {name: model.rates.ended.get(name) for name in ended}
    if state is None:
        ended = dict.fromkeys(ended)
    number = units.rate if view.per_second else units.count
    return [
        title("task_manager" + ("/s" if view.per_second else "")),
        _entry("unassigned", state.waiting if state else None, units.count, width),
        _entry("running", state.running if state else None, units.count, width),
        *[_entry(name, ended[name], number, width) for name in (SUCCESS, FAILED, CANCELED, NOT_FOUND)],
        _entry("tasks/s", model.rates.tasks, units.rate, width),
    ]


def _entry(name: str, amount: float | None, number: Callable[[float | None, int], str], width: int) -> PanelEntry:
    return PanelEntry(
        name, number(amount, width - len(name) - 2), _STYLES.get(name, grid.PLAIN) if amount else grid.PLAIN
    )


def messages_panel(
    name: str, totals: Mapping[str, int], rates: Mapping[str, float], per_second: bool
) -> list[PanelEntry]:
    """Return a panel with the number of items by message name, most frequent first. Its last line sums up the rest."""
    amounts: Mapping[str, float] = rates if per_second else totals
    number: Callable[[float | None, int], str] = units.rate if per_second else units.count
    ranked = sorted(amounts.items(), key=lambda item: (-item[1], item[0]))
    rest = ranked[_MESSAGES:]
    entries = [title(name + ("/s" if per_second else ""))]
    entries += [PanelEntry(label, number(amount, 11)) for label, amount in ranked[:_MESSAGES]]
    if rest:
        entries.append(PanelEntry(f"{len(rest)} more", number(sum(amount for _, amount in rest), 11)))
    return entries


def draw_panel(canvas: Grid, x: int, y: int, width: int, entries: Sequence[PanelEntry]) -> None:
    """Draw a panel. A label is cut if the value beside it would not fit."""
    for row, entry in enumerate(entries):
        if entry.is_title:
            canvas.put(x, y + row, fit(entry.label, width), entry.style)
            continue
        room = width - width_of(entry.value) - 2
        canvas.put(x, y + row, f" {fit(entry.label, max(0, room))} {entry.value}", entry.style, width)


def draw_panels(canvas: Grid, model: Model, view: TopView, is_unicode: bool) -> None:
    """Draw as many panels as fit side by side."""
    sent = messages_panel("scheduler_sent", model.sent, model.rates.sent, view.per_second)
    received = messages_panel("scheduler_received", model.received, model.rates.received, view.per_second)
    if canvas.width >= 160:
        columns = [
            (18, scheduler_panel(model)),
            (18, objects_panel(model)),
            (22, tasks_panel(model, view, 22)),
            (30, sent),
            (30, received),
        ]
    else:
        wide = min(30, (canvas.width - 42) // 2)
        columns = [(15, scheduler_panel(model) + objects_panel(model)), (18, tasks_panel(model, view, 18))]
        columns += [(wide, sent), (wide, received)] if canvas.width >= 80 else []
    x = 0
    for number, (width, entries) in enumerate(columns):
        if number:
            x = _separate(canvas, x)
        draw_panel(canvas, x, 0, width, entries)
        x += width
    if canvas.width >= 160:
        x = _separate(canvas, x)
        draw_history(canvas, x, canvas.width - x, model, is_unicode)


def _separate(canvas: Grid, x: int) -> int:
    for row in range(ROWS):
        canvas.put(x, row, " | ", grid.PLAIN)
    return x + 3


def draw_history(canvas: Grid, x: int, width: int, model: Model, is_unicode: bool) -> None:
    """Draw the last minute: bars of the tasks per second, and one strip each for failures, CPU time and lag."""
    seconds = min(60, width - 7)
    start = model.history.end - seconds
    known = model.history.read(("success", "failed", "canceled", "cpu", "lag_most"), start, 1, seconds)
    bars = BARS if is_unicode else ASCII_BARS
    ends = zip(known["success"], known["failed"], known["canceled"], strict=True)
    tasks = [None if each[0] is None else sum(filter(None, each)) for each in ends]
    peak = max((each for each in tasks if each is not None), default=0.0)
    heading = f"tasks/s, last {seconds} s"
    canvas.put(x, 0, heading, grid.BOLD)
    shown = f"peak {units.rate(peak)}"
    canvas.put(x + width - len(shown), 0, shown)
    height = ROWS - 4
    left = x + 7
    for row in range(height):
        canvas.put(left, 1 + row, _slice_of(tasks, peak, height - 1 - row, height, bars), grid.SUCCESS)
    for at in model.restarts:
        if start <= at < start + seconds:
            canvas.put(left + at - start, height, "R", grid.REVERSE)
    for row, (label, name, most, style) in enumerate(_STRIPS):
        values = known[name]
        scale = most or max((each for each in values if each is not None), default=0.0)
        canvas.put(x, 1 + height + row, fit(label, 7))
        canvas.put(left, 1 + height + row, _slice_of(values, scale, 0, 1, bars), style)


def _slice_of(values: Sequence[float | None], most: float, row: int, rows: int, bars: str) -> str:
    """Return the text of row `row` of a bar chart; the lowest row is 0. A gap is blank."""
    levels = len(bars) - 1
    cells = []
    for value in values:
        if value is None:
            cells.append(" ")
            continue
        filled = min(1.0, value / most) * rows * levels - row * levels if most else 0.0
        level = max(0, min(levels, round(filled)))
        cells.append(bars[max(1, level)] if row == 0 and value > 0 else bars[level])
    return "".join(cells)


def draw_line(canvas: Grid, y: int, heading: str, things: Sequence[tuple[str, int]], rest: int) -> None:
    """Draw a line such as `heading 3: quant@ws14 48,019 | nightly 201`. Its end sums up the things that do not fit."""
    x = canvas.put(0, y, heading + (": " if things else ""))
    hidden, amount = 0, rest
    for number, (name, count) in enumerate(things):
        shown = units.count(count)
        separator = " | " if number else ""
        room = canvas.width - x - len(separator) - len(shown) - 1
        last = number == len(things) - 1 and not rest
        spare = 0 if last else 16
        if hidden or room - spare < 4:
            hidden += 1
            amount += count
            continue
        name_width = min(width_of(name), max(4, room - spare), 24)
        x = canvas.put(x, y, f"{separator}{fit(name, name_width)} {shown}")
    if hidden or rest:
        canvas.put(x, y, f" | {hidden} more {units.count(amount)}" if hidden else f" | others {units.count(rest)}")
