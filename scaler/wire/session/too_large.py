"""Too large: what becomes of a result that those who must hold the whole of it have no room for.

Used by agents, before they send it, and by the pipe, which has lost it. The error is written as those of tasks are:
whoever submitted the task gets it with its type. Must never: read the result.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

from scaler.errors import ObjectTooLargeError, ScalerError, class_name
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult

NO_LIMIT = 2**62
"""the most bytes of one value where nobody has said how many"""
SEND_LESS = (
    "send less at a time, or keep it in a file or a store that the workers can read; or give that process more memory"
)
"""the cure where a setting would not help"""
RAISE_IT = f"{SEND_LESS}; the setting value_bytes of the scheduler says how much it takes"
"""the cure where the scheduler has said how much it takes"""


def died_of_it(times: int) -> str:
    """Return the cure for a value that was on its way to a scheduler whenever that ended."""
    return f"it has ended {times} times while this was on its way there, so look into its log; {SEND_LESS}"


def without_result(result: RunResult, error: ObjectTooLargeError) -> RunResult:
    """Return what a result becomes that is not sent: the failure of its task, with this error."""
    name = class_name(ObjectTooLargeError)
    failure = TaskFailure(name, str(error), f"{name}: {error}\n", pickle.dumps(error), (class_name(ScalerError),))
    failure = failure._replace(task_id=result.task_id)
    return replace(
        result, status=TaskStatus.FAILED, payload=failure.encode(), failure=failure.short, frames=(), location=b""
    )
