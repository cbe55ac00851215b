"""Located frames: a placeholder for a large result that stays at its agent: its location and its size.

Made by agent sessions, and kept by the object store like any frames. The agent keeps the value while anything in this
process refers to the placeholder. When nothing does any longer, the session has the agent delete the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.kit import ActorRef
from scaler.pickling.serialization import Frames, size_of
from scaler.shared_memory import size_at


class LocatedFrames(Sequence[Any]):
    """A placeholder for the frames of one value at the agent whose session is `host`.

    Attributes:
        lost: why the value was lost; empty while the agent has the value.
        handed_over: the frames, once the agent has sent them before its end; empty otherwise.
    """

    __slots__ = ("__weakref__", "handed_over", "host", "location", "lost", "size_bytes")

    def __init__(self, location: bytes, host: ActorRef) -> None:
        self.location = location
        self.host = host
        self.size_bytes = size_at(location)
        self.lost = ""
        self.handed_over: Frames = ()

    def __len__(self) -> int:
        return 1

    def __getitem__(self, _index: Any) -> Any:
        raise TypeError("frames that are stored at an agent cannot be read in the scheduler")


def local_bytes(frames: Frames | LocatedFrames) -> int:
    """Return how many bytes of a value this process holds."""
    return 0 if type(frames) is LocatedFrames else size_of(frames)


def bytes_in(frames: Frames | LocatedFrames) -> int:
    """Return the size of a value, in this process or at an agent."""
    return frames.size_bytes if type(frames) is LocatedFrames else size_of(frames)
