"""Stencil warm-up: cuts the stencils of the most frequent messages before the first of them is sent.

Cutting a stencil takes half a millisecond. The fork server cuts the stencils for all processors. The scheduler and the
agent cut their own stencils soon after they start. Messages of other shapes are slower at first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import Any, TypeAlias

from scaler.ids import ID_BYTES, ObjectId, TaskId
from scaler.wire.codec.codec import prepare
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.directions import (
    AGENT_TO_PROCESSOR,
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    PROCESSOR_TO_AGENT,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.processor import ProcessorReady, ResumeRequest, ResumeTask, TaskBlocked
from scaler.wire.messages.worker import RunBlocked, RunResult, RunTask, RunUnblocked

Usual: TypeAlias = Sequence[tuple[Direction, Sequence[Any]]]
"""frequent messages: the direction of each message, and the items in it"""

_TASK, _FUNCTION = TaskId(b"t" * ID_BYTES), ObjectId(b"f" * ID_BYTES)
_PAYLOAD = b"payload"  # of any length
_ZERO_OR_NOT = (0, 1)
"""Two values for fields that may be zero, such as the number of a worker. A zero gives the message another shape."""


def _task(priority: int) -> Task:
    return Task(_TASK, _FUNCTION, _PAYLOAD, b"", priority, owner=priority)  # a nested task names an owner


def _run(worker: int, priority: int) -> RunTask:
    return RunTask(_TASK, worker, 1, _FUNCTION, _PAYLOAD, b"", priority, owner=1)


def _result(worker: int) -> RunResult:
    return RunResult(_TASK, worker, 1, TaskStatus.SUCCESS, _PAYLOAD, 1, ())


_RUNS = tuple([_run(worker, priority)] for worker, priority in product(_ZERO_OR_NOT, _ZERO_OR_NOT))
_RESULTS = tuple([_result(worker)] for worker in _ZERO_OR_NOT)


def _waits(worker: int) -> Iterator[Sequence[Any]]:
    """Yield the items of each message that an agent sends about a task that waits for other tasks."""
    blocked, unblocked = RunBlocked(_TASK, worker, 1), RunUnblocked(_TASK, worker, 1)
    yield from ([blocked], [unblocked], [blocked, unblocked], [_result(worker), unblocked])


def _all(direction: Direction, *messages: Sequence[Any]) -> Usual:
    return tuple((direction, items) for items in messages)


_WITH_PROCESSORS = (
    *_all(AGENT_TO_PROCESSOR, *_RUNS, [ResumeTask(1)]),
    *_all(PROCESSOR_TO_AGENT, *_RESULTS, [ProcessorReady(1)], [TaskBlocked(1, 1)], [ResumeRequest(1)]),
)
_WITH_CLIENTS = (
    *_all(CLIENT_TO_SCHEDULER, *([_task(priority)] for priority in _ZERO_OR_NOT)),
    *_all(SCHEDULER_TO_CLIENT, [TaskResult(_TASK, TaskStatus.SUCCESS, _PAYLOAD, 0)]),
)
_BETWEEN = (
    *_all(SCHEDULER_TO_AGENT, *_RUNS, *([_run(worker, 1), _run(worker, 1)] for worker in _ZERO_OR_NOT)),
    *_all(AGENT_TO_SCHEDULER, *_RESULTS, *chain.from_iterable(map(_waits, _ZERO_OR_NOT))),
)

OF_PROCESSORS: Usual = (*_WITH_PROCESSORS, *_WITH_CLIENTS)
OF_AGENTS: Usual = (*_BETWEEN, *_WITH_PROCESSORS)
OF_SCHEDULERS: Usual = (*_BETWEEN, *_WITH_CLIENTS)


def preparing(usual: Usual) -> Iterator[None]:
    """Cut the stencils of frequent messages, one stencil in each step of the iteration."""
    for direction, items in usual:
        prepare(direction, items)
        yield
