"""Outcomes: the names under which tasks end, as the monitor says them and all viewers read them.

Read by the scheduler's actors, which say them, and by the viewers, which group them. Must never: change a name, because
programs compare them.
"""

from __future__ import annotations

from scaler.wire.messages.common import TaskStatus

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
}

FAILURES = frozenset(OUTCOMES.values()) - {SUCCESS, CANCELED}
"""The names of all tasks that neither succeeded nor were cancelled."""
