"""Vocabulary: the words for why a task waits and how it ended, which programs compare. None of them ever changes.

The scheduler says them of its tasks, a client of those that the scheduler does not have, and viewers group by them.
"""

from __future__ import annotations

import re
from typing import NewType

from scaler.wire.messages.common import TaskStatus

Reason = NewType("Reason", str)
"""What a task waits for, in a word or two."""

NO_WORKER = Reason("no worker")  # none is connected
NOT_ABLE = Reason("no worker can take it")  # none has what it asks for
TAKEN = Reason("taken")  # other tasks have what it asks for
NO_ROOM = Reason("no room")  # all workers that could take it have as much work as they get ahead
TURN = Reason("turn")  # nothing: it is about to be given to a worker
INPUTS = Reason("inputs")  # a node of a graph: the results of other nodes
RETRY = Reason("retry")  # the pause before its next try
WORKER = Reason("worker")  # it runs at a worker, or waits in the queue there
CHILDREN = Reason("children")  # tasks that it has submitted itself
LAST_SCHEDULER = Reason("last scheduler")  # whether a worker of the scheduler before this one has it already
QUOTA = Reason("quota")  # its owner has as many open tasks, or as many bytes, as it may have
CANCEL = Reason("cancel")  # its worker is stopping it
UNKNOWN = Reason("unknown")  # the scheduler does not have it

NO_SCHEDULER = Reason("no scheduler")  # said by a client: no scheduler answers
WINDOW = Reason("window")  # said by a client: the scheduler takes no more of its tasks
TRANSFER = Reason("transfer")  # said by a client: its arguments are on their way to the scheduler
ENDED = Reason("ended")  # said by a client: nothing, it has ended

STUCK = frozenset({NO_WORKER, NOT_ABLE, NO_SCHEDULER})
"""No task can go on before somebody does something."""

SUCCESS, FAILED, CANCELED, NOT_FOUND = "success", "failed", "canceled", "notFound"

OUTCOMES: dict[TaskStatus, str] = {
    TaskStatus.SUCCESS: SUCCESS,
    TaskStatus.FAILED: FAILED,
    TaskStatus.CANCELED: CANCELED,
    TaskStatus.PROCESSOR_DIED: "processorDied",
    TaskStatus.WORKER_DIED: "workerDied",
    TaskStatus.NO_WORKER: "noWorker",
    TaskStatus.NOT_FOUND: NOT_FOUND,
    TaskStatus.MISSING_OBJECTS: "missingObjects",
    TaskStatus.INTERNAL_ERROR: "internalError",
    TaskStatus.TIMED_OUT: "timedOut",
    TaskStatus.OUT_OF_MEMORY: "outOfMemory",
}

FAILURES = frozenset(OUTCOMES.values()) - {SUCCESS, CANCELED}
"""The names of all tasks that neither succeeded nor were cancelled."""

_NEEDED = re.compile(rb"the task ([0-9a-f]{32}), which it needs, has failed: ")


def of_needed(task_id: bytes, sentence: bytes) -> bytes:
    """Return the sentence about what needs a task that has ended by a sentence. One about another task stays."""
    if _NEEDED.match(sentence):
        return sentence
    return f"the task {task_id.hex()}, which it needs, has failed: ".encode() + sentence


def without_needed(sentence: bytes) -> tuple[bytes, bytes]:
    """Return the task that a sentence names, empty if there is none, and what it says of the one that has failed."""
    found = _NEEDED.match(sentence)
    return (bytes.fromhex(found[1].decode()), sentence[found.end() :]) if found else (b"", sentence)
