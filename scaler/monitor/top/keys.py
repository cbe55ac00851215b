"""Keys: what each key does to the view, and the help page. No key changes anything in the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from scaler.monitor.top.details import DetailLine
from scaler.monitor.top.view import CADENCES, NUMBERS, VIEWS, WORKERS, Target, TopView
from scaler.monitor.views.view import View

_FILTER_MOST = 60
QUITTING = frozenset({"q", "Q"})
_ENTER = frozenset({"KEY_ENTER", "\r", "\n"})
_CLOSING = QUITTING | _ENTER | {"?", "h", " ", "\x1b", "KEY_ESCAPE"}
"""Keys that close the help page and do nothing else there."""

_HELP = (
    "scaler_top shows what a cluster does, and changes nothing.   (Esc closes this)",
    "",
    *wrap(f"{'1-9, 0, Tab':<11} {', '.join(VIEWS)}", 79, subsequent_indent=" " * 12),
    "arrows k j  move; PgUp PgDn Home End; Left Right scroll the columns",
    "Enter       details: processes of a worker, traceback of a failure, rows of a job",
    "/           filter by a part of a name, host or function; !part excludes matches",
    "sort        the letter in brackets: worker[n] agt_cpu[C] ..; again: reverse",
    "Space       pause      t  totals or per second      g  workers by host",
    "+ -         seconds between frames, 0.5 to 5 s       q  quit",
    "",
    "bound by    what limits the rate: workers; clients (they submit no faster);",
    "            inputs (tasks wait for others); scheduler; round trips (tiny tasks)",
    "left        open tasks x their mean duration / workers: an estimate",
    "unassigned  tasks that no worker has;  running  at a worker, queued or executed",
    "busy        workers that execute a task;  *  looks stuck (key *: go to the next)",
    "",
)


def help_lines(shown: View) -> list[str]:
    """Return the help page, with the meaning of the columns of the view that is shown."""
    columns = [f"{each.label:<11} {each.meaning}" for each in shown.fields if each.in_table and each.meaning]
    return [*_HELP, f"The columns of {shown.title.lower()}:", *columns]


@dataclass(frozen=True)
class ScreenState:
    """The content of the screen when a key is pressed."""

    keys: Sequence[object]
    """the keys of all rows of the table, in order"""
    lines: Sequence[DetailLine]
    rows: int
    """the number of rows that fit on the screen"""
    marked: Sequence[object] = ()
    """the keys of the rows that look stuck"""


def press(view: TopView, key: str, shown: ScreenState) -> bool:
    """Apply a key (a character, or a name such as `KEY_UP`) to the view. Return False if the key ends the program."""
    if view.is_typing:
        _type(view, key)
        return True
    if view.is_help and key not in _MOVES:
        view.is_help, view.line = False, 0
        if key in _CLOSING:
            return True
    if key in QUITTING:
        return False
    if key in _MOVES:
        _move(view, _MOVES[key], shown)
    elif key in view.table.keys:
        view.sort_by(view.table.keys[key])
    elif key in _KEYS:
        _KEYS[key](view)
    elif key == "*":
        _next_marked(view, shown)
    elif key in _ENTER:
        _open(view, shown)
    return True


def _next_marked(view: TopView, shown: ScreenState) -> None:
    """Select the next worker that looks stuck, cyclically. If another table is shown, show the workers."""
    if view.name != WORKERS or view.details:
        view.show(WORKERS)
    elif shown.marked:
        name = view.table.name
        index = _index(view.selected.get(name), shown.marked)
        view.selected[name] = shown.marked[0 if index is None else (index + 1) % len(shown.marked)]


def _type(view: TopView, key: str) -> None:
    if key in _ENTER:
        view.is_typing = False
    elif key in ("KEY_ESCAPE", "\x1b"):
        view.is_typing, view.filter = False, ""
    elif key in ("KEY_BACKSPACE", "KEY_DELETE", "\x7f", "\x08"):
        view.filter = view.filter[:-1]
    elif len(key) == 1 and key.isprintable() and len(view.filter) < _FILTER_MOST:
        view.filter += key


def _show(name: str) -> Callable[[TopView], None]:
    return lambda view: view.show(name)


def _next(view: TopView) -> None:
    view.show(VIEWS[(VIEWS.index(view.name) + 1) % len(VIEWS)])


def _previous(view: TopView) -> None:
    view.show(VIEWS[VIEWS.index(view.name) - 1])


def _back(view: TopView) -> None:
    if view.details:
        view.details.pop()
        view.line = 0
    elif view.filter:
        view.filter = ""
    else:
        view.selected.pop(view.table.name, None)


def _pause(view: TopView) -> None:
    view.is_paused = not view.is_paused


def _per_second(view: TopView) -> None:
    view.per_second = not view.per_second


def _by_host(view: TopView) -> None:
    view.show(WORKERS)
    view.by_host = not view.by_host


def _type_filter(view: TopView) -> None:
    view.details, view.is_typing = [], True


def _help(view: TopView) -> None:
    view.is_help, view.line = True, 0


def _scroll(step: int) -> Callable[[TopView], None]:
    def scroll(view: TopView) -> None:
        view.column = max(0, min(9, view.column + step))

    return scroll


def _cadence(step: int) -> Callable[[TopView], None]:
    def change(view: TopView) -> None:
        index = CADENCES.index(view.cadence) + step
        view.cadence = CADENCES[max(0, min(len(CADENCES) - 1, index))]

    return change


_KEYS: dict[str, Callable[[TopView], None]] = {
    **{key: _show(name) for key, name in NUMBERS.items()},
    "\t": _next,
    "KEY_TAB": _next,
    "KEY_BTAB": _previous,
    "KEY_SHIFT_TAB": _previous,
    "KEY_ESCAPE": _back,
    "\x1b": _back,
    " ": _pause,
    "t": _per_second,
    "g": _by_host,
    "/": _type_filter,
    "?": _help,
    "h": _help,
    "KEY_LEFT": _scroll(-1),
    "KEY_RIGHT": _scroll(1),
    "+": _cadence(1),
    "-": _cadence(-1),
}

_END = 1 << 30
_MOVES: dict[str, tuple[int, bool]] = {
    "KEY_UP": (-1, False),
    "k": (-1, False),
    "KEY_DOWN": (1, False),
    "j": (1, False),
    "KEY_PGUP": (-1, True),
    "KEY_PGDOWN": (1, True),
    "KEY_HOME": (-_END, False),
    "KEY_END": (_END, False),
}
"""By key: how far the key moves the selection, and whether the distance is in pages instead of rows."""

OF_ROWS = _ENTER | _MOVES.keys() | {"*"}
"""Keys that do nothing while the table has no rows."""


def _move(view: TopView, move: tuple[int, bool], shown: ScreenState) -> None:
    amount, is_pages = move
    step = amount * max(1, shown.rows - 1) if is_pages else amount
    if view.is_help:
        view.line = max(0, view.line + step)
        return
    if view.details:
        view.line = max(0, min(len(shown.lines) - 1, view.line + step))
        return
    if not shown.keys:
        return
    name = view.table.name
    index = _index(view.selected.get(name), shown.keys)
    if index is None:
        index = view.top.get(name, 0) - (1 if step == 1 else 0)
    view.selected[name] = shown.keys[max(0, min(len(shown.keys) - 1, index + step))]


def _index(key: object, keys: Sequence[object]) -> int | None:
    return keys.index(key) if key is not None and key in keys else None


def _open(view: TopView, shown: ScreenState) -> None:
    if view.details:
        here = shown.lines[view.line].target if view.line < len(shown.lines) else None
        others = [line.target for line in shown.lines if line.target is not None]
        target = here or next((each for each in others if each.kind == "task"), others[0] if others else None)
        if target is not None and target not in view.details:
            view.details.append(target)
            view.line = 0
        return
    if not shown.keys:
        return
    name = view.table.name
    key = view.selected.get(name)
    if key not in shown.keys:
        key = view.selected[name] = shown.keys[min(view.top.get(name, 0), len(shown.keys) - 1)]
    view.details = [Target(view.table.singular, key)]
    view.line = 0
