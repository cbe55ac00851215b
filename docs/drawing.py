"""What the pages have in common that are drawn from a table of states."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType


def said_about(module: ModuleType, kind: str) -> dict[str, str]:
    """Return name -> comment of the states or events, from the source of the module with their table."""
    source = Path(str(module.__file__)).read_text()
    return dict(re.findall(rf'= {kind}\("([a-z ]+)"\)(?:  # (.*))?', source))


def arrows(state: str, row: Mapping[str, str]) -> list[str]:
    """Draw the row of one state: its events by the state that follows."""
    by_target: dict[str, list[str]] = {}
    for event, target in row.items():
        by_target.setdefault(target, []).append(event)
    rows = [(event, target, event is events[-1]) for target, events in by_target.items() for event in events]
    lines = [state.upper()]
    for event, target, is_last_of_target in rows:
        corner = "`" if event is rows[-1][0] else "|"
        line = f"  {corner}-- {event} ".ljust(30, "-")
        lines.append(f"{line}+--> {target.upper()}" if is_last_of_target else f"{line}+")
    return lines


def table(names: Mapping[str, str]) -> str:
    """Return what is said about the names, as far as anything is."""
    rows = [f"| {name} | {comment} |" for name, comment in names.items() if comment]
    return "\n".join(["| | |", "|---|---|", *rows])
