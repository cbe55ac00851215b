"""Lost frames: they stand for the frames of a value for which there was no room.

Made by the pipe; what holds them says why the value is not there. Must never: be taken for a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


class LostFrames(Sequence[Any]):
    """The frames of a value that has come, of which none was kept. Whoever reads the value gets a `MemoryError`.

    Args:
        n_bytes: of the value, about.
        reason: why a task that needs the value cannot have it; empty: there was no room.
    """

    def __init__(self, n_bytes: int, reason: str = "") -> None:
        self._n_bytes = n_bytes
        no_room = f"the scheduler has no room for its {n_bytes:,} bytes (its memory, or its setting value_bytes)"
        self.reason = reason or no_room
        """why a task that needs the value cannot have it"""

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, _index: Any) -> Any:
        raise MemoryError(f"it has {self._n_bytes:,} bytes, and this process has no memory for them")
