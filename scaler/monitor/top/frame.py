"""A frame: the whole screen as a grid, from the model and the user's choices; small screens omit unimportant parts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import wrap

from scaler.endpoint import Endpoint
from scaler.monitor import units
from scaler.monitor.model.model import Model
from scaler.monitor.model.verdict import verdict
from scaler.monitor.top import grid
from scaler.monitor.top.details import details_of
from scaler.monitor.top.grid import Grid
from scaler.monitor.top.keys import help_lines
from scaler.monitor.top.panels import ROWS, draw_line, draw_panels
from scaler.monitor.top.table import Table, draw_side, draw_table, scrolled_to, table_of
from scaler.monitor.top.text import fit, wrapped
from scaler.monitor.top.view import FAILURES, HOSTS, NUMBERS, VIEWS, WORKERS, TopView
from scaler.monitor.views.view import View, ViewState
from scaler.wire.messages.verdicts import IDLE, NO_NEWS, NO_WORKERS, NOT_ABLE

LEAST_WIDTH, LEAST_HEIGHT = 40, 10
USUAL_WIDTH = 80
WIDE, HIGH = 160, 40
TABLE_WIDTH = 123
RESTART_SECONDS = 15
_WARNING = re.compile(r"[\d,]+ needs? ")
_TABLE_ROWS = 5
"""Panels above the table are shown only if at least this many rows remain for the table."""
_PANEL_ROWS, _PANELS_WIDTH = 5, 100
"""The least height and width of a panel below a table that has few rows."""


@dataclass(frozen=True)
class FrameInput:
    """The inputs of a frame besides the model and the view."""

    now: float
    endpoint: Endpoint
    problem: str = ""
    is_unicode: bool = True
    is_plain: bool = False
    """whether the frame is printed once, so that the line about keys is left out"""
    is_late: bool = False
    """whether the time-out for the first message is over"""


def silence_advice(endpoint: Endpoint, problem: str = "") -> list[str]:
    """Return the advice for a scheduler that does not answer, as lines."""
    if problem:
        return [problem]
    lines = [
        "Is scaler_scheduler running? It prints its monitor address when it starts:",
        f"is {endpoint} that one?",
    ]
    if endpoint.file is not None:
        if endpoint.file.exists():
            lines.append("Its socket exists: the scheduler may have died, or be stopped.")
        else:
            lines.append(f"There is no socket {endpoint.file}. Do you have access to that folder?")
    elif not endpoint.is_near:
        lines.append(f"Does a firewall let you reach port {endpoint.port} of {endpoint.host}?")
    return lines


def draw(model: Model, view: TopView, width: int, height: int, moment: FrameInput) -> Grid:
    """Return the frame for a screen of `width` by `height` cells."""
    canvas = Grid(width, height)
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        canvas.put(0, 0, f"Too small: {width}x{height}, needs {LEAST_WIDTH}x{LEAST_HEIGHT}")
        return canvas
    state = ViewState(model, moment.now)
    table = None if view.is_help or view.details else table_of(state, view, _table_width(canvas))
    y = _draw_top(canvas, model, view, moment, table)
    advice = _advice(model, width, moment) if table is not None else []
    rows = height - y - 2 - len(advice)
    if view.is_help:
        _draw_help(canvas, y, rows + 1, view)
    elif view.details:
        _draw_details(canvas, state, view, y, rows)
    elif table is not None and model.received_at is not None:
        _draw_body(canvas, state, view, y, rows, table)
    if _is_silent(model, moment):
        for row in (*range(y - 1), *range(y, height)):
            canvas.fill(row, grid.DIM)
    for number, line in enumerate(advice):  # below the table, which it never covers
        canvas.put(
            0, (y + 1 if model.received_at is None else height - 1 - len(advice)) + number, fit(f" {line}", width)
        )
    if not moment.is_plain:
        _draw_keys(canvas, model, view)
    return canvas


def _is_large(canvas: Grid) -> bool:
    return canvas.width >= WIDE and canvas.height >= HIGH


def _table_width(canvas: Grid) -> int:
    return TABLE_WIDTH if _is_large(canvas) else canvas.width


def _draw_top(canvas: Grid, model: Model, view: TopView, moment: FrameInput, table: Table | None) -> int:
    """Draw the parts that fit above the main part (table, help or details). Return the number of rows drawn."""
    is_wide = _is_large(canvas)
    if table is None and not is_wide:
        _draw_total(canvas, 0, model, view, moment, table)
        return 1
    has_panels = canvas.height >= ROWS + 3 + _TABLE_ROWS
    has_lists = not is_wide and canvas.width >= USUAL_WIDTH and canvas.height >= ROWS + 7 + _TABLE_ROWS
    has_shortcuts = canvas.width >= USUAL_WIDTH and canvas.height >= ROWS + 5 + _TABLE_ROWS and not moment.is_plain
    y = 0
    if has_panels:
        draw_panels(canvas, model, view, moment.is_unicode)
        y = ROWS
    if has_lists:
        clients = sorted(((each.label, each.open) for each in model.clients.values()), key=lambda each: -each[1])
        count = model.scheduler.clients if model.scheduler else len(clients)
        draw_line(canvas, y, f"client_manager {count}", clients, 0)
        functions = sorted(
            (
                (model.function_name(short_id), each.waiting + each.running)
                for short_id, each in model.functions.items()
                if short_id
            ),
            key=lambda each: -each[1],
        )
        others = model.functions.get(b"")
        rest = others.waiting + others.running if others else 0
        draw_line(canvas, y + 1, f"function_id_to_tasks {model.function_count:,}", functions, rest)
        y += 2
    if y:
        canvas.put(0, y, ("\u2500" if moment.is_unicode else "-") * canvas.width)
        y += 1
    if has_shortcuts:
        y = _draw_shortcuts(canvas, y, model, view)
    _draw_total(canvas, y, model, view, moment, table)
    return y + 1


def _draw_shortcuts(canvas: Grid, y: int, model: Model, view: TopView) -> int:
    """Draw the keys that sort the table, in two lines or one, and how many workers look stuck. Return the next row."""
    lines = shortcuts(view.table, canvas.width if _is_large(canvas) else USUAL_WIDTH)
    for number, line in enumerate(lines):
        canvas.put(0, y + number, line)
    y += 1 if _is_large(canvas) else 2
    if model.stuck.reasons:
        x = len(lines[-1]) + 2 if len(lines) == 2 or _is_large(canvas) else 0
        canvas.put(x, y - 1, f"look stuck: {len(model.stuck.reasons)} [*]", f"{grid.RUNNING}_{grid.BOLD}")
    return y


def shortcuts(shown: View, width: int) -> list[str]:
    """Return the keys that sort the rows of a view, as lines: `Shortcuts: worker[n] agt_cpu[C] ...`."""
    keys = " ".join(f"{each.label.replace(' ', '_')}[{each.key}]" for each in shown.fields if each.key)
    return wrap(f"Shortcuts: {keys}", width, subsequent_indent=" " * len("Shortcuts: "))


def _draw_total(canvas: Grid, y: int, model: Model, view: TopView, moment: FrameInput, table: Table | None) -> None:
    silent = model.silent_seconds(moment.now)
    if model.received_at is None:
        canvas.put(0, y, fit(f"Waiting for the first message from {moment.endpoint}", canvas.width), grid.REVERSE)
        return
    if silent is not None:
        text = f"NO NEWS for {silent:.0f}s, shown as of {units.clock(model.received_us)}, reconnecting"
        canvas.put(0, y, fit(text, canvas.width), grid.REVERSE)
        return
    parts = _total_parts(model, view, moment, table)
    now = "paused" if view.is_paused else "live" if view.cadence == 1 else f"live, each {view.cadence:g}s"
    clock = units.clock(model.received_us)
    word = parts[1]
    busy = f"{units.count(model.busy)}/{model.worker_count} busy"
    short = [part.partition(": no worker")[0] for part in parts]
    tails: tuple[list[str], ...] = [f"{clock} {now}"], [clock], []
    choices = [
        *([*each, *tail] for each in (parts, [busy, *short[1:]], parts[:2]) for tail in tails),
        [busy, word],
    ]
    chosen = next((each for each in choices if len(" | ".join(each)) <= canvas.width), [word])
    x = 0
    for number, part in enumerate(chosen):
        x = canvas.put(x, y, " | ") if number else 0
        x = canvas.put(x, y, part, _style_of(part, word, view, number == len(chosen) - 1))


def _style_of(part: str, word: str, view: TopView, is_last: bool) -> str:
    is_bad = part.startswith("no worker") or _WARNING.match(part) is not None
    if part == word or is_bad:
        return f"{grid.FAILED}_{grid.BOLD}" if is_bad else grid.BOLD
    return grid.BOLD if is_last and view.is_paused else grid.PLAIN


def _total_parts(model: Model, view: TopView, moment: FrameInput, table: Table | None) -> list[str]:
    restarted = model.restarted_us and model.received_us - model.restarted_us < RESTART_SECONDS * 1_000_000
    if restarted:
        back = f"{model.worker_count} of {model.workers_before} workers back"
        return [f"Scheduler restarted {units.clock(model.restarted_us)}, counters started from 0", back]
    found = verdict(model, moment.now)
    word, sentence, warning = found.word, found.sentence, found.warning
    count = f"Total {model.worker_count} worker(s)"
    if view.filter and table is not None:
        count = f"{len(table.subjects)} of {table.total} with {view.filter!r}"
    parts = [count + ("" if word == NO_WORKERS else f", {units.count(model.busy)} busy")]
    if word == IDLE:
        since = found.idle_since_us
        parts.append(f"idle: nothing open since {units.clock(since)}" if since else "idle: nothing is open")
    elif word == NO_WORKERS:
        parts.append(f"no workers: {sentence}")
    elif word in (NOT_ABLE, NO_NEWS):
        parts.append(warning or sentence)
    else:
        parts.append(f"bound by: {word}")
    if model.left_seconds is not None:
        parts.append(f"left {units.about(model.left_seconds)}")
    if warning and word != NOT_ABLE:
        parts.append(warning)
    if model.missed:
        parts.append(f"missed {model.missed}")
    return parts


def _is_silent(model: Model, moment: FrameInput) -> bool:
    return model.silent_seconds(moment.now) is not None


def _advice(model: Model, width: int, moment: FrameInput) -> list[str]:
    """Return the lines to show while the scheduler is silent; none while messages arrive."""
    is_silent = model.received_at is None or _is_silent(model, moment)
    if not (is_silent and (moment.is_late or moment.problem)):
        return []
    return [line for text in silence_advice(moment.endpoint, moment.problem) for line in wrap(text, width - 1)]


def _draw_body(canvas: Grid, state: ViewState, view: TopView, y: int, rows: int, table: Table) -> None:
    width = _table_width(canvas)
    top, chosen = scrolled_to(view, table, rows)
    draw_table(canvas, table, y, rows, top, chosen)
    used = 2 + max(len(table.subjects), len(table.view.empty.lines(state)))
    panels = (rows + 1 - used) // _PANEL_ROWS
    if width < canvas.width:
        for row in range(y, canvas.height - 1):
            canvas.put(width, row, " | ")
        draw_side(canvas, width + 3, y, canvas.width - width - 3, canvas.height - 1 - y, state)
    elif canvas.width >= _PANELS_WIDTH and panels > 0 and table.view.name in (WORKERS, HOSTS):
        draw_side(canvas, 0, y + used, canvas.width, rows + 1 - used, state, min(3, panels))
    _draw_hint(canvas, view, table, y)


def _draw_hint(canvas: Grid, view: TopView, table: Table, y: int) -> None:
    if view.filter and table.total and not table.subjects:
        canvas.put(1, y + 2, f"The filter is {view.filter!r}: press / and then Esc to remove it.")


def _draw_details(canvas: Grid, state: ViewState, view: TopView, y: int, rows: int) -> None:
    details = details_of(state, view.details[-1], canvas.width)
    canvas.put(0, y, fit(f"{details.title}   (Esc back)", canvas.width), grid.BOLD)
    view.line = max(0, min(view.line, len(details.lines) - 1))
    parts = [
        (number, f"{'>' if line.target and not index else ' '} {part}", line.style)
        for number, line in enumerate(details.lines)
        for index, part in enumerate(wrapped(line.text, canvas.width - 2))
    ]
    end = 1 + max(index for index, (number, _, _) in enumerate(parts) if number == view.line)
    first = max(0, end - rows)
    for index, (number, text, style) in enumerate(parts[first : first + rows]):
        canvas.put(0, y + 1 + index, fit(text, canvas.width), grid.REVERSE if number == view.line else style)
    _draw_more(canvas, y + rows, first + rows < len(parts))


def _draw_help(canvas: Grid, y: int, rows: int, view: TopView) -> None:
    lines = help_lines(view.table)
    view.line = max(0, min(view.line, len(lines) - rows))
    for number, text in enumerate(lines[view.line : view.line + rows]):
        canvas.put(0, y + number, fit(text, canvas.width))
    _draw_more(canvas, y + rows - 1, view.line + rows < len(lines))


def _draw_more(canvas: Grid, y: int, is_more: bool) -> None:
    if is_more:
        canvas.put(canvas.width - 8, y, " (more) ", grid.REVERSE)


def _draw_keys(canvas: Grid, model: Model, view: TopView) -> None:
    y = canvas.height - 1
    if view.is_typing:
        canvas.put(
            0, y, fit(f"/{view.filter}_   Enter keep, Esc remove, !text = without it", canvas.width), grid.REVERSE
        )
        return
    x = 0
    for name in _names_that_fit(view.name, canvas.width - len(" ?")):
        text = _name_of(name, view.name)
        failing = name == FAILURES and bool(model.failures)
        style = "_".join(
            part for part in (grid.FAILED if failing else "", grid.BOLD if name == view.name else "") if part
        )
        x = canvas.put(x, y, text, style) + 1
    rest = "/ filter ? help q"
    if canvas.width >= WIDE:
        rest = "/ filter   Space pause   Enter details   t per second   g by host   + - cadence   ? help   q quit"
    if canvas.width - x > len(rest):
        canvas.put(x + 1, y, rest)
    else:
        text = " ? help" if canvas.width - x >= 6 else " ?"
        canvas.put(max(0, canvas.width - len(text)), y, text)


def _name_of(name: str, shown: str) -> str:
    number = next((key for key, each in NUMBERS.items() if each == name), "")
    text = f"{number} {name}".strip()
    return f"[{text}]" if name == shown else text


def _names_that_fit(shown: str, width: int) -> list[str]:
    """Return the names of as many views as fit, and that of the view that is shown."""
    names = [name for name in VIEWS if name in NUMBERS.values() or name == shown]
    while len(" ".join(_name_of(name, shown) for name in names)) > width and len(names) > 1:
        names.remove(next(name for name in reversed(names) if name != shown))
    return names
