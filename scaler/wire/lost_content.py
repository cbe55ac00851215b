"""Lost content: what an item becomes when its header has come, and there was no memory for its content.

Used by the pipe, for the items that one agent, client or task can do without: then a value that is too large ends its
own task with an error, and not the session that brought it. Must never: make a success out of what did not arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from scaler.errors import ProtocolError
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import ObjectResponse, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, SCHEDULER_TO_CLIENT, Direction
from scaler.wire.messages.worker import RunResult


class LostFrames(Sequence[Any]):
    """The frames of a value that has come, of which none was kept. Whoever reads the value gets a `MemoryError`.

    Args:
        n_bytes: of the value, about.
    """

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes = n_bytes

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, _index: Any) -> Any:
        raise MemoryError(f"it has {self._n_bytes:,} bytes, and this process has no memory for them")


def _no_result(result: RunResult, n_bytes: int) -> RunResult:
    reason = f"its result of {n_bytes:,} bytes is too large: the scheduler has no memory for it"
    return replace(result, status=TaskStatus.INTERNAL_ERROR, payload=reason.encode(), failure=reason, frames=())


def _not_found(response: ObjectResponse, _n_bytes: int) -> ObjectResponse:
    return replace(response, found=0, location=b"", frames=())


def _unreadable(response: ObjectResponse, n_bytes: int) -> ObjectResponse:
    return replace(response, frames=LostFrames(n_bytes))


_INSTEAD: dict[tuple[Direction, type], Callable[[Any, int], Any]] = {
    (AGENT_TO_SCHEDULER, RunResult): _no_result,
    (SCHEDULER_TO_AGENT, ObjectResponse): _not_found,
    (SCHEDULER_TO_CLIENT, ObjectResponse): _unreadable,
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
        instead.append(type(batch)([become(item, n_bytes) for item in batch]))
    return instead
