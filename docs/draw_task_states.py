"""Write reference/task-states.md from the table in scaler/actors/tasks/task_states.py: python docs/draw_task_states.py."""

from __future__ import annotations

from pathlib import Path

from drawing import arrows, said_about, table

from scaler.actors.tasks import task_states
from scaler.actors.tasks.task_states import EVENT_OF_STATUS, FINAL, IGNORED, READY, TRANSITIONS
from scaler.wire.messages.common import TaskStatus

PAGE = Path(__file__).parent / "reference" / "task-states.md"

# ruff: noqa: E501 - the lines of the page
TEXT = """\
# The states of a task

<!-- Written by docs/draw_task_states.py; a test compares the two. -->

A task is an actor of the scheduler (`scaler/actors/tasks/task.py`) from its submission to its end. Which state comes after which is a
table in `scaler/actors/tasks/task_states.py`, and this page is drawn from it. An event that is neither in the table nor among
those that are ignored is a bug: it raises, and that task alone ends as *internal error*.

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


def page() -> str:
    """Return the whole page."""
    states = {name: f"{comment or 'final'}" for name, comment in said_about(task_states, "State").items()}
    assert {*states} == {*TRANSITIONS, *FINAL}
    return TEXT.format(
        start=READY,
        diagram="\n\n".join("\n".join(arrows(state, TRANSITIONS[state])) for state in TRANSITIONS),
        states=table(states),
        events=table(said_about(task_states, "Event")),
        statuses="\n".join(
            f"| {status.name.lower().replace('_', ' ')} | {EVENT_OF_STATUS[status]} |" for status in TaskStatus
        ),
        ignored="\n".join(f"| {state} | {event} |" for state, event in sorted(IGNORED)),
    )


if __name__ == "__main__":
    PAGE.write_text(page())
