"""Snapshot: large values are copied when they are submitted; later changes by the caller have no effect.

Called by the client for each large value. When the scheduler is on this host, its workers probably are too: then the
copy is made in memory that they can share, and the bytes are never sent. Must never fail because there is no shared
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from scaler.endpoint import Endpoint
from scaler.pickling.serialization import Frames, frozen, size_of
from scaler.shared_memory import SHARE_LEAST_BYTES, SharedFrames, can_share

Freeze: TypeAlias = Callable[[Frames], Sequence[Any]]


def shared(frames: Frames) -> Sequence[Any]:
    """Return `frames` as they are now: copied to shared memory if they are large and there is room."""
    if size_of(frames) >= SHARE_LEAST_BYTES:
        try:
            return SharedFrames(frames)
        except OSError:
            pass
    return frozen(frames)


def freeze_for(address: str) -> Freeze:
    """Return the function with which a client of the scheduler at `address` copies values."""
    return shared if Endpoint.parse(address).is_near and can_share() else frozen
