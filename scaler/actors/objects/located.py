"""Located frames: they stand for a large result that its agent keeps: the scheduler has the location and the size.

Made by agent sessions, passed on as any frames, and kept by the object store. As long as anything here refers to them
the agent keeps the value; then its session has it deleted there. So a result that is dropped on its way, wherever that
is, leaves nothing behind. Must never: be taken for the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.kit import ActorRef
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import size_at


class LocatedFrames(Sequence[Any]):
    """The frames of one value at an agent.

    Args:
        location: where processes of the agent's host find it.
        host: the session of that agent.

    Attributes:
        lost: why it is not there any more; empty: it is.
    """

    __slots__ = ("__weakref__", "host", "location", "lost", "size_bytes")

    def __init__(self, location: bytes, host: ActorRef) -> None:
        self.location = location
        self.host = host
        self.size_bytes = size_at(location)
        self.lost = ""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, _index: Any) -> Any:
        raise TypeError("these frames are at their agent")


def bytes_here(frames: Frames | LocatedFrames) -> int:
    """Return how many bytes of a value are in this process."""
    return 0 if type(frames) is LocatedFrames else size_of(frames)


def bytes_in(frames: Frames | LocatedFrames) -> int:
    """Return the size of a value, wherever it is."""
    return frames.size_bytes if type(frames) is LocatedFrames else size_of(frames)
