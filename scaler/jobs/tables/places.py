"""FailurePlaces: facts about the processes in which rows failed, once each.

A failure is a message in the standard framing of Cap'n Proto, and behind it facts about its process, which many rows
have in common. In the table of results a digest stands for them. Used by the record, which does not decode the facts.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any

from scaler.jobs.tables.facts import PLACE, Facts
from scaler.jobs.values import Frames

DIGEST_BYTES = 8
PLACES_MOST = 1024
"""Limit of the places of a job. Failures in further places are stored without one."""


class FailurePlaces:
    """The places of one job, among its facts."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def cut(self, frames: Frames) -> Frames:
        """Return the frames of a failure with a digest instead of the facts about its process, which are kept."""
        payload, end = frames[0], _end_of_message(frames[0])
        place = bytes(payload[end:])
        if len(frames) > 1 or len(place) <= DIGEST_BYTES:
            return frames
        digest = blake2b(place, digest_size=DIGEST_BYTES).digest()
        key = PLACE + digest.hex()
        if self._facts.get(key, None) is None and self._facts.count(PLACE) < PLACES_MOST:
            self._facts.set(key, place)
        return (bytes(payload[:end]) + digest,)

    def restored(self, frames: Frames) -> Frames:
        """Return the frames of a failure with the facts about its process, as far as they are known."""
        payload, end = frames[0], _end_of_message(frames[0])
        digest = bytes(payload[end:])
        if len(frames) > 1 or len(digest) != DIGEST_BYTES:
            return frames
        return (bytes(payload[:end]) + self._facts.get(PLACE + digest.hex(), b""),)


def _end_of_message(payload: Any) -> int:
    """Return where a message ends; the end of the payload if it holds no complete message.

    It starts with the number of its segments less one and their sizes in words, padded to a whole word.
    """
    try:
        (more,) = struct.unpack_from("<I", payload)
        n_segments = 1 + min(more, len(payload) // 4)
        sizes = struct.unpack_from(f"<{n_segments}I", payload, 4)
    except struct.error:
        return len(payload)
    return int(min((4 + 4 * n_segments + 7) // 8 * 8 + 8 * sum(sizes), len(payload)))
