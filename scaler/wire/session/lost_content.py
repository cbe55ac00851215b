"""Lost content: replaces an item whose header arrived, and whose content was lost for lack of memory.

Used by the pipe, for items whose loss concerns only one agent, client or task. A value that is too large ends only its
own task with an error, and not the session that brought the value. A lost result never counts as a success.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scaler.errors import ObjectTooLargeError, ProtocolError
from scaler.wire.messages.client import Task
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import ObjectInstruction, ObjectPart, ObjectResponse
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
    Direction,
)
from scaler.wire.messages.worker import RunResult, RunTask
from scaler.wire.session.lost_frames import LostFrames
from scaler.wire.session.too_large import SEND_LESS, without_result


def _no_result(result: RunResult, n_bytes: int) -> RunResult:
    return without_result(result, ObjectTooLargeError("its result", n_bytes, "the scheduler", None, SEND_LESS))


def _not_found(response: ObjectResponse, n_bytes: int) -> ObjectResponse:
    reason = f"its worker's host has no memory for its {n_bytes:,} bytes"
    return replace(response, found=0, location=b"", frames=(), reason=reason)


def _unreadable(item: ObjectResponse | ObjectInstruction, n_bytes: int) -> ObjectResponse | ObjectInstruction:
    return replace(item, frames=LostFrames(n_bytes))


def _no_part(part: ObjectPart, n_bytes: int) -> ObjectPart:
    return replace(part, frames=(), reason=LostFrames(n_bytes).reason)


def _without_arguments(item: Task | RunTask, _n_bytes: int) -> Task | RunTask:
    return replace(item, frames=())


_REPLACEMENTS: dict[tuple[Direction, type], Callable[[Any, int], Any]] = {
    (AGENT_TO_SCHEDULER, RunResult): _no_result,
    (CLIENT_TO_SCHEDULER, ObjectInstruction): _unreadable,
    (CLIENT_TO_SCHEDULER, Task): _without_arguments,
    (SCHEDULER_TO_AGENT, RunTask): _without_arguments,
    (SCHEDULER_TO_AGENT, ObjectResponse): _not_found,
    (AGENT_TO_SCHEDULER, ObjectResponse): _unreadable,
    (AGENT_TO_SCHEDULER, ObjectPart): _no_part,
    (SCHEDULER_TO_CLIENT, ObjectResponse): _unreadable,
}


def without_content(direction: Direction, batches: list[Batch[Any]], n_bytes: int) -> list[Batch[Any]]:
    """Return replacements for the batches of a large message of which only the header was kept.

    Args:
        n_bytes: the size of the whole message.

    Raises:
        ProtocolError: if the message has an item that cannot be replaced.
    """
    replaced = []
    for batch in batches:
        replacement = _REPLACEMENTS.get((direction, type(batch[0]))) if batch else None
        if replacement is None:
            raise ProtocolError(f"there is no memory for a message of {n_bytes:,} bytes")
        replaced.append(type(batch)([replacement(item, n_bytes) for item in batch]))
    return replaced
