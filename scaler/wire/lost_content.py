"""Lost content: what an item becomes when its header has come, and there was no memory for its content.

Used by the pipe, for the items that one agent or one task can do without: then a value that is too large ends its own
task with an error, and not the session that brought it. Must never: make a success out of what did not arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scaler.errors import ProtocolError
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import ObjectResponse, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, Direction
from scaler.wire.messages.worker import RunResult


def _no_result(result: RunResult, n_bytes: int) -> RunResult:
    reason = f"its result of {n_bytes:,} bytes is too large: the scheduler has no memory for it"
    return replace(result, status=TaskStatus.INTERNAL_ERROR, payload=reason.encode(), failure=reason)


def _not_found(response: ObjectResponse, _n_bytes: int) -> ObjectResponse:
    return replace(response, found=0, location=b"")


_INSTEAD: dict[tuple[Direction, type], Callable[[Any, int], Any]] = {
    (AGENT_TO_SCHEDULER, RunResult): _no_result,
    (SCHEDULER_TO_AGENT, ObjectResponse): _not_found,
}


def without_content(direction: Direction, batches: list[Batch[Any]], n_bytes: int) -> list[Batch[Any]]:
    """Return what a large message becomes whose frames were not kept.

    Args:
        direction: of the message.
        batches: what was read of it, with empty frames.
        n_bytes: of the whole message.

    Raises:
        ProtocolError: if something is in it that nobody can do without.
    """
    instead = []
    for batch in batches:
        become = _INSTEAD.get((direction, type(batch[0]))) if batch else None
        if become is None:
            raise ProtocolError(f"there is no memory for a message of {n_bytes:,} bytes")
        items = [replace(become(item, n_bytes), frames=()) for item in batch]
        instead.append(type(batch)(items))
    return instead
