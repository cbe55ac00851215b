"""Traffic: counts items by message name, messages and bytes in one direction of a socket.

Used by the edges of scheduler and agent, for reports. The cost of counting depends on the number of messages and
batches, not on the number of items.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from scaler.pickling.serialization import Frames, size_of
from scaler.wire.messages.columns import Batch


class Traffic:
    """The counts of one direction since the start of the process."""

    __slots__ = ("items", "n_bytes", "n_messages")

    def __init__(self) -> None:
        self.items: defaultdict[type, int] = defaultdict(int)
        """the number of items by class; `encode` counts the items that it writes"""
        self.n_messages = 0
        self.n_bytes = 0

    def add_message(self, header: bytes, frames: Frames, batches: Sequence[Batch[Any]] = ()) -> None:
        """Count one message and its bytes, and the items in `batches`."""
        self.n_messages += 1
        self.n_bytes += len(header) + size_of(frames) if frames else len(header)
        for batch in batches:
            self.items[batch.item] += len(batch)

    def add_batches(self, batches: Sequence[Batch[Any]]) -> None:
        """Count the items of a message that `add_message` has counted without `batches`."""
        for batch in batches:
            self.items[batch.item] += len(batch)

    def by_name(self) -> dict[str, int]:
        """Return the number of items by name of their class, most frequent first, then in alphabetical order."""
        named = sorted((-count, item.__name__) for item, count in self.items.items())
        return {name: -count for count, name in named}
