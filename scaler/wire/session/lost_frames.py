"""Lost frames: stand in for the frames of a value for which there was no memory.

Made by the pipe. The process that holds the value reports why the value is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


class LostFrames(Sequence[Any]):
    """The frames of an arrived value that were not kept. Reading these frames raises `MemoryError`.

    Args:
        n_bytes: about how many bytes the value has.
        reason: why a task cannot have the value that it needs; empty if this process has no memory for the value.
    """

    def __init__(self, n_bytes: int, reason: str = "") -> None:
        self._n_bytes = n_bytes
        no_room = f"the scheduler has no memory for its {n_bytes:,} bytes, or its setting value_bytes is lower"
        self.reason = reason or no_room

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, _index: Any) -> Any:
        raise MemoryError(f"the value has {self._n_bytes:,} bytes, and this process has no memory for them")
