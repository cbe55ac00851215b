"""Usual messages: what nearly each processor says and hears, once for all of them.

The fork server prepares their stencils, which would cost each processor a millisecond of its first tasks. What is
missing here is only slower. Must never: decide anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from scaler.ids import ID_BYTES, ObjectId, TaskId
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.directions import (
    AGENT_TO_PROCESSOR,
    CLIENT_TO_SCHEDULER,
    PROCESSOR_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.processor import ResumeRequest, ResumeTask, TaskBlocked
from scaler.wire.messages.worker import RunResult, RunTask

_TASK, _FUNCTION = TaskId(b"t" * ID_BYTES), ObjectId(b"f" * ID_BYTES)
_PAYLOAD = b"payload"  # of any length
_ZERO_OR_NOT = (0, 1)
"""A field that is zero makes another shape: the first worker of a node, and tasks that are nested or not."""

USUAL: tuple[tuple[Direction, Sequence[Any]], ...] = (
    (
        AGENT_TO_PROCESSOR,
        (
            *(
                RunTask(_TASK, worker, 1, _FUNCTION, _PAYLOAD, b"", priority)
                for worker, priority in product(_ZERO_OR_NOT, _ZERO_OR_NOT)
            ),
            ResumeTask(1),
        ),
    ),
    (
        PROCESSOR_TO_AGENT,
        (
            *(RunResult(_TASK, worker, 1, TaskStatus.SUCCESS, _PAYLOAD, 1, ()) for worker in _ZERO_OR_NOT),
            TaskBlocked(1, 1),
            ResumeRequest(1),
        ),
    ),
    (CLIENT_TO_SCHEDULER, tuple(Task(_TASK, _FUNCTION, _PAYLOAD, b"", priority) for priority in _ZERO_OR_NOT)),
    (SCHEDULER_TO_CLIENT, (TaskResult(_TASK, TaskStatus.SUCCESS, _PAYLOAD, 0),)),
)
"""by direction"""
