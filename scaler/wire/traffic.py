"""Traffic: what went one way through a socket: items by the name of their message, messages, and bytes.

Counted by the edges of scheduler and agent, for whoever asks what they do: once for each message and each batch in it,
and not for each item. Must never: be looked at by what decides anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from scaler.serialization import Frames, size_of
from scaler.wire.messages.columns import Batch


class Traffic:
    """What went one way since the start of the process."""

    __slots__ = ("items", "n_bytes", "n_messages")

    def __init__(self) -> None:
        self.items: defaultdict[type, int] = defaultdict(int)
        """by the class of the item; `encode` counts here what it writes"""
        self.n_messages = 0
        self.n_bytes = 0

    def add_message(self, header: bytes, frames: Frames) -> None:
        """Count one message and its bytes."""
        self.n_messages += 1
        self.n_bytes += len(header) + size_of(frames) if frames else len(header)

    def add_batches(self, batches: Sequence[Batch[Any]]) -> None:
        """Count the items of a message that was read."""
        items = self.items
        for batch in batches:
            items[batch.item] += len(batch)

    def by_name(self) -> dict[str, int]:
        """Return how many items of each name went, the most frequent first; of two, in the order of the alphabet."""
        named = sorted((-count, item.__name__) for item, count in self.items.items())
        return {name: -count for count, name in named}
