"""Vocabulary: words for why a task waits and for how it ended. The words never change, because programs compare them.

The scheduler uses the words for the tasks that it has, a client for its other tasks. Viewers group tasks by words.
"""

from __future__ import annotations

import re
from typing import NewType

from scaler.wire.messages.common import TaskStatus

Reason = NewType("Reason", str)
"""The reason why a task waits, in a word or two."""

NO_WORKER = Reason("no worker")  # no worker is connected
NOT_ABLE = Reason("no worker can take it")  # no worker has the resources that it requests
TAKEN = Reason("taken")  # other tasks use the resources that it requests
NO_ROOM = Reason("no room")  # all workers that could take it have full queues
TURN = Reason("turn")  # nothing: it is about to be assigned
INPUTS = Reason("inputs")  # the results of other tasks
RETRY = Reason("retry")  # the pause before its next try
WORKER = Reason("worker")  # it runs at a worker, or waits in the queue there
CHILDREN = Reason("children")  # its nested tasks
LAST_SCHEDULER = Reason("last scheduler")  # whether an agent of the last scheduler still has it
QUOTA = Reason("quota")  # its owner has reached the limit of open tasks or bytes
CANCEL = Reason("cancel")  # its worker is stopping it
UNKNOWN = Reason("unknown")  # the scheduler does not have it

NO_SCHEDULER = Reason("no scheduler")  # used by a client: no scheduler answers
WINDOW = Reason("window")  # used by a client: its window at the scheduler is full
TRANSFER = Reason("transfer")  # used by a client: its arguments are being sent to the scheduler
ENDED = Reason("ended")  # used by a client: nothing, it has ended

STUCK = frozenset({NO_WORKER, NOT_ABLE, NO_SCHEDULER})
"""The reasons for waiting that only a user or an admin can remove."""

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
"""The words for all outcomes of a task except success and cancellation."""

_NEEDED = re.compile(rb"the task ([0-9a-f]{32}), which it needs, has failed: ")


def failed_input_reason(task_id: bytes, sentence: bytes) -> bytes:
    """Return `sentence` with the failed task named in front; unchanged if such a name is already in front."""
    if _NEEDED.match(sentence):
        return sentence
    return f"the task {task_id.hex()}, which it needs, has failed: ".encode() + sentence


def split_failed_input(sentence: bytes) -> tuple[bytes, bytes]:
    """Return the id of the failed task named in front of `sentence` (empty if none), and the rest of `sentence`."""
    found = _NEEDED.match(sentence)
    return (bytes.fromhex(found[1].decode()), sentence[found.end() :]) if found else (b"", sentence)
