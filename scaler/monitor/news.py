"""News: one message of the monitor stream, as the subscriber hands it to the model."""

from __future__ import annotations

from typing import Any, NamedTuple

from scaler.wire.messages.columns import Batch
from scaler.wire.messages.monitor import StateHead


class News(NamedTuple):
    """One message of the stream."""

    topic: str
    head: StateHead
    batches: list[Batch[Any]]
    """the items after the head"""
    missed: int
    """how many messages of this topic are missing before this one"""
