"""Too large: turns a result into a failure of its task if it is too large for a process that must hold it.

Used by agents before they send a result, and by the pipe after it has lost a result. The error is encoded like the
error of a task, so that the submitter gets an error of the right type. The result itself is never read.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

from scaler.errors import ObjectTooLargeError, ScalerError, class_name
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult

NO_LIMIT = 2**62
"""the limit of the bytes of one value while the actual limit is unknown"""
SEND_LESS = (
    "send less at a time, keep it in a file or a store that the workers can read, or give that process more memory"
)
"""the advice if no setting would help"""
RAISE_LIMIT = f"{SEND_LESS}; the limit is the setting value_bytes of the scheduler"
"""the advice if the scheduler has announced its limit"""


def crash_advice(times: int) -> str:
    """Return the advice for a value, if the scheduler has ended `times` times while the value was transferred."""
    return f"the scheduler has ended {times} times during this transfer, so look at its log; {SEND_LESS}"


def without_result(result: RunResult, error: ObjectTooLargeError) -> RunResult:
    """Return a failure with `error`, to be sent in place of `result`."""
    name = class_name(ObjectTooLargeError)
    failure = TaskFailure(name, str(error), f"{name}: {error}\n", pickle.dumps(error), (class_name(ScalerError),))
    failure = failure._replace(task_id=result.task_id)
    return replace(
        result, status=TaskStatus.FAILED, payload=failure.encode(), failure=failure.short, frames=(), location=b""
    )
