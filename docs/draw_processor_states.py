"""Write reference/processor-states.md from the table of the states: python docs/draw_processor_states.py."""

from __future__ import annotations

from pathlib import Path

from drawing import arrows, said_about, table

from scaler.executors.processes.slot import processor_states
from scaler.executors.processes.slot.processor_states import FINAL, IGNORED, STARTING, TRANSITIONS

PAGE = Path(__file__).parent / "reference" / "processor-states.md"

# ruff: noqa: E501 - the lines of the page
TEXT = """\
# The states of a processor

<!-- Written by docs/draw_processor_states.py; a test compares the two. -->

A processor is a process that executes the tasks of one worker. The slot of the worker (`scaler/executors/processes/slot/slot.py`)
keeps the state of the processor, from the start of the process to its end. A table in
`scaler/executors/processes/slot/processor_states.py` defines which state follows which, and this page is drawn from it. An event
that the table does not have for the present state changes nothing. It is a bug and raises an error, except for the few
[ignored events](#ignored).

A worker runs one task at a time, in the one processor that *holds the slot*. A worker has several processors only while tasks wait
for other tasks: the processor of such a blocked task keeps the task, and another processor gets the slot
(`scaler/executors/processes/slot/turns.py`).

A processor starts as **{start}**.

```text
{diagram}
```

## States

{states}

At most one processor of a worker is *running*. While one is *unslotted*, *killed* or *distrusted*, the slot sends no tasks to any
processor, because this one may still execute a task.

## Events

{events}

## Ignored

These events may arrive late, and change nothing:

| state | event |
|---|---|
{ignored}
"""


def page() -> str:
    """Return the whole page."""
    states = {name: comment or "final" for name, comment in said_about(processor_states, "State").items()}
    assert {*states} == {*TRANSITIONS, *FINAL}
    return TEXT.format(
        start=STARTING,
        diagram="\n\n".join("\n".join(arrows(state, TRANSITIONS[state])) for state in TRANSITIONS),
        states=table(states),
        events=table(said_about(processor_states, "Event")),
        ignored="\n".join(f"| {state} | {event} |" for state, event in sorted(IGNORED)),
    )


if __name__ == "__main__":
    PAGE.write_text(page())
