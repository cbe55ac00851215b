"""ValueLimit: how large one value of a client may be. The scheduler sets the limit, since it holds each value whole.

Each value is checked when it is prepared, in any thread, and again before `OpenWork` sends it. A value whose location
in shared memory is sent instead is not limited, because the scheduler never holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.errors import ObjectTooLargeError
from scaler.pickling.serialization import size_of
from scaler.shared_memory import SharedFrames
from scaler.wire.session.too_large import NO_LIMIT, RAISE_LIMIT


class ValueLimit:
    """The limit that the scheduler at `address` sets on the size of one value."""

    def __init__(self, address: str) -> None:
        self.host = f"the scheduler at {address}"
        self.n_bytes = NO_LIMIT
        """the limit that the scheduler reported last; `NO_LIMIT` before the first report"""

    def check(self, value: str, frames: Sequence[Any]) -> None:
        """Raise `ObjectTooLargeError` if the frames of a value, named `value` in errors, are too large to be sent."""
        if type(frames) is not SharedFrames and size_of(frames) > self.n_bytes:
            raise self.error(value, size_of(frames))

    def error(self, value: str, size: int) -> ObjectTooLargeError:
        """Return the error of a value that is too large."""
        return ObjectTooLargeError(value, size, self.host, self.n_bytes, RAISE_LIMIT)
