"""Keys: what each key does to the view, and the help page. No key changes anything in the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scaler.monitor.columns import SORTED_BY
from scaler.monitor.top.details import DetailLine
from scaler.monitor.top.view import CADENCES, HOSTS, VIEWS, WORKERS, Target, TopView

_FILTER_MOST = 60
QUITTING = frozenset({"q", "Q"})
_ENTER = frozenset({"KEY_ENTER", "\r", "\n"})
_CLOSING = QUITTING | _ENTER | {"?", "h", " ", "\x1b", "KEY_ESCAPE"}
"""Keys that close the help page and do nothing else there."""
_SORT_KEYS = {column.key: name for name, column in SORTED_BY.items()}
_KINDS = dict(zip(VIEWS, ("worker", "function", "client", "failure", "host", "event", "job", "object"), strict=True))


HELP = (
    "scaler_top shows what a cluster does, and changes nothing.   (Esc closes this)",
    "",
    "1-8, Tab    workers, functions, clients, failures, hosts, events, jobs, objects",
    "arrows k j  move; PgUp PgDn Home End; Left Right scroll the columns",
    "Enter       details: processes of a worker, traceback of a failure, failed rows of a job; Esc back",
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
    "agt_        the agent: the process that starts the workers of a host",
    "cpu rss     of the worker's processes; 100% is one core; k m g t are of 1024",
    "rss_free    memory that the host has left;     free  how many more tasks fit",
    "sent        tasks that a worker has;           queued  of these, not started",
    "suspended   blocked tasks: others run in their place",
    "lag         a message to the agent and back;   (12s)  silent for this time",
    "ITL         1 or 0: initialized, has a task, its task waits for others (lock)",
)


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
    elif key in _SORT_KEYS:
        view.sort_by(_SORT_KEYS[key])
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
        name = HOSTS if view.is_by_host else view.name
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
        view.selected.pop(HOSTS if view.is_by_host else view.name, None)


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
    **{str(number): _show(name) for number, name in enumerate(VIEWS, 1)},
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
    name = HOSTS if view.is_by_host else view.name
    index = _index(view.selected.get(name), shown.keys)
    if index is None:
        index = view.top.get(name, 0) - (1 if step == 1 else 0)
    view.selected[name] = shown.keys[max(0, min(len(shown.keys) - 1, index + step))]


def _index(key: object, keys: Sequence[object]) -> int | None:
    return keys.index(key) if key is not None and key in keys else None


def _open(view: TopView, shown: ScreenState) -> None:
    if view.details:
        here = shown.lines[view.line].target if view.line < len(shown.lines) else None
        target = here or next((line.target for line in shown.lines if line.target is not None), None)
        if target is not None and target not in view.details:
            view.details.append(target)
            view.line = 0
        return
    if not shown.keys:
        return
    name = HOSTS if view.is_by_host else view.name
    key = view.selected.get(name)
    if key not in shown.keys:
        key = view.selected[name] = shown.keys[min(view.top.get(name, 0), len(shown.keys) - 1)]
    view.details = [Target(_KINDS[name], key)]
    view.line = 0
