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

A task is an actor of the scheduler (`scaler/actors/tasks/task.py`) from its submission to its end. A table in
`scaler/actors/tasks/task_states.py` defines which state follows which, and this page is drawn from it. Any other event is a bug,
unless it is in the list of [ignored events](#ignored): it raises an error, and the task (no other task) ends as *internal error*.

A task starts as **{start}**.

```text
{diagram}
```

## States

{states}

## Events

{events}

The names of the other events explain themselves. `crashed` and `lost` count against the crash limit only if the task was running
at that time, not if it was queued. At the limit, the events are `crashed too often` and `lost too often`. Messages about an earlier
attempt are dropped, and are not events of this table.

A run's result becomes an event by its status:

| status | event |
|---|---|
{statuses}

## Ignored

These events may arrive late, and change nothing:

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
