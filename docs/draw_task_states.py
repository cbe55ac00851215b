"""Write reference/task-states.md from the table in scaler/actors/vocabulary/task_states.py: python docs/draw_task_states.py."""

from __future__ import annotations

from pathlib import Path

from drawing import arrows, said_about, table

from scaler.actors.vocabulary import task_states
from scaler.actors.vocabulary.task_states import EVENT_OF_STATUS, FINAL, IGNORED, READY, TRANSITIONS
from scaler.wire.messages.common import TaskStatus

PAGE = Path(__file__).parent / "reference" / "task-states.md"

# ruff: noqa: E501 - the lines of the page
TEXT = """\
# The states of a task

<!-- Written by docs/draw_task_states.py; a test compares the two. -->

A task is an actor of the scheduler (`scaler/actors/tasks/task.py`) from its submission to its end. A table in
`scaler/actors/vocabulary/task_states.py` defines for each state and event the next state, and this page is drawn from it. An event that
the table does not have for a state is either in the list of [ignored events](#ignored), or a bug. A bug raises an error, and ends
only this task, as *internal error*.

A task starts as **{start}**. An event without an arrow leads to the same state as the next event with an arrow below it.

```text
{diagram}
```

## States

In this table and the next one, *it* is the task.

{states}

## Events

{events}

The names of the other events explain themselves. `crashed` and `lost` count towards the crash limit only if the task was running
at that time, not if it was queued. When the limit is reached, the event is `crashed too often` or `lost too often` instead. Messages
about an earlier attempt are dropped, and are not events of this table.

When a run ends, the status of its result determines the event:

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
