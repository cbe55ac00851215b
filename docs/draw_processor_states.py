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
`scaler/executors/processes/slot/processor_states.py` defines which state follows which, and this page is drawn from it. Any other
event is a bug, unless it is in the list of [ignored events](#ignored): it raises an error, and changes nothing.

A worker runs one task at a time, in the one processor that *holds the slot*. A worker has several processors only while tasks wait
for other tasks: the processor of a waiting task keeps the task, and another processor gets the slot
(`scaler/executors/processes/slot/turns.py`).

A processor starts as **{start}**.

```text
{diagram}
```

## States

{states}

At most one processor is *running*. No tasks are sent while a processor is *unslotted*, *killed* or *distrusted*, because it may still
execute a task.

## Events

{events}

The names of the other events explain themselves.

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
