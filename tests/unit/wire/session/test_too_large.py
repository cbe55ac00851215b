from __future__ import annotations

from scaler.client.outcome import read_error
from scaler.errors import ObjectTooLargeError
from scaler.ids import TaskId
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunResult
from scaler.wire.session.too_large import RAISE_LIMIT, without_result


def test_the_failure_for_an_oversized_result_keeps_its_type_and_text() -> None:
    task_id = TaskId(b"t" * 16)
    result = RunResult(task_id, 3, 7, TaskStatus.SUCCESS, b"", 5, (bytes(1000),), b"", "")
    error = ObjectTooLargeError("its result", 1000, "the scheduler at tcp://there:1", 900, RAISE_LIMIT)
    refused = without_result(result, error)
    assert (refused.task_id, refused.worker, refused.attempt, refused.duration_us) == (task_id, 3, 7, 5)
    assert (refused.status, refused.frames) == (TaskStatus.FAILED, ())
    failure = TaskFailure.decode(refused.payload)
    assert (failure.type_name, failure.bases) == ("scaler.errors.ObjectTooLargeError", ("scaler.errors.ScalerError",))
    assert "takes at most 900 bytes" in failure.text
    assert failure.short == refused.failure
    raised = read_error(TaskResult(task_id, refused.status, refused.payload, 0), "f")
    assert type(raised) is ObjectTooLargeError
    assert (raised.value, raised.size, raised.host, raised.budget, raised.cure) == error.args
    assert str(raised) == str(error)
