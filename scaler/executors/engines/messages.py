"""Messages between the workers of a foreign engine and the proxy of its host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scaler.ids import ObjectId, TaskId
from scaler.message import message

if TYPE_CHECKING:
    from scaler.executors.inline.thread import Runner
    from scaler.kit import ActorRef
    from scaler.processor.values import Values
    from scaler.wire.messages.worker import RunTask


@message
class HandRun:
    """Have the engine run a task. The worker hears of its end as `TaskEnded`."""

    runner: Runner
    worker: ActorRef
    task: RunTask
    values: Values


@message
class DropRun:
    """The result of a run is not wanted any more."""

    key: tuple[TaskId, int]


@message
class DropObjects:
    """Tasks that begin from now on do not need these objects."""

    object_ids: Iterable[ObjectId]
