"""Write reference/task-states.md from the table in scaler/actors/task_states.py: python docs/draw_task_states.py."""

from __future__ import annotations

import re
from pathlib import Path

from scaler.actors import task_states
from scaler.actors.task_states import EVENT_OF_STATUS, FINAL, IGNORED, READY, TRANSITIONS, Event, State
from scaler.wire.messages.common import TaskStatus

PAGE = Path(__file__).parent / "reference" / "task-states.md"

# ruff: noqa: E501 - the lines of the page
TEXT = """\
# The states of a task

<!-- Written by docs/draw_task_states.py; a test compares the two. -->

A task is an actor of the scheduler (`scaler/actors/task.py`) from its submission to its end. Which state comes after which is a
table in `scaler/actors/task_states.py`, and this page is drawn from it. An event that is neither in the table nor among
those that are ignored is a mistake in the program: it raises, the task ends as *internal error*, and nobody else is harmed.

A task begins as **{start}**.

```text
{diagram}
```

## States

{states}

## Events

{events}

The others say what they mean. `crashed` and `lost` count against the crash limit only if the task was running at that time, not if it waited in a queue; at the
limit they are `crashed too often` and `lost too often`. News of an attempt that is not the current one never gets as
far as this table.

A run's result becomes an event by its status:

| status | event |
|---|---|
{statuses}

## Ignored

These are late and lawful, and change nothing:

| state | event |
|---|---|
{ignored}
"""


def said_about(kind: str) -> dict[str, str]:
    """Return name -> comment of the states or events, from the source."""
    source = Path(task_states.__file__).read_text()
    return dict(re.findall(rf'= {kind}\("([a-z ]+)"\)(?:  # (.*))?', source))


def arrows(state: State) -> list[str]:
    """Draw the row of one state: its events by the state that follows."""
    by_target: dict[State, list[Event]] = {}
    for event, target in TRANSITIONS[state].items():
        by_target.setdefault(target, []).append(event)
    rows = [(event, target, event is events[-1]) for target, events in by_target.items() for event in events]
    lines = [state.upper()]
    for event, target, is_last_of_target in rows:
        corner = "`" if event is rows[-1][0] else "|"
        line = f"  {corner}-- {event} ".ljust(30, "-")
        lines.append(f"{line}+--> {target.upper()}" if is_last_of_target else f"{line}+")
    return lines


def table(names: dict[str, str]) -> str:
    """Return what is said about the names, as far as anything is."""
    rows = [f"| {name} | {comment} |" for name, comment in names.items() if comment]
    return "\n".join(["| | |", "|---|---|", *rows])


def page() -> str:
    """Return the whole page."""
    states = {name: f"{comment or 'final'}" for name, comment in said_about("State").items()}
    assert {*states} == {*TRANSITIONS, *FINAL}
    return TEXT.format(
        start=READY,
        diagram="\n\n".join("\n".join(arrows(state)) for state in TRANSITIONS),
        states=table(states),
        events=table(said_about("Event")),
        statuses="\n".join(
            f"| {status.name.lower().replace('_', ' ')} | {EVENT_OF_STATUS[status]} |" for status in TaskStatus
        ),
        ignored="\n".join(f"| {state} | {event} |" for state, event in sorted(IGNORED)),
    )


if __name__ == "__main__":
    PAGE.write_text(page())
