"""FailurePlaces: facts about the processes in which rows failed, each stored once.

A failure is a message in the standard framing of Cap'n Proto, followed by facts about the process. Many rows have these
facts in common, so the table of results has a digest instead. Used by the record, which does not decode the facts.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any

from scaler.jobs.tables.facts import PLACE, Facts
from scaler.jobs.values import Frames

DIGEST_BYTES = 8
PLACES_MOST = 1024
"""The most processes whose facts one job stores. Failures in further processes are stored without facts."""


class FailurePlaces:
    """Stores the facts about processes in which rows of one job failed."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def cut(self, frames: Frames) -> Frames:
        """Store the facts about the process of a failure. Return its frames, in which a digest replaces the facts."""
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
        """Return the frames of a failure, in which the stored facts replace the digest. Unknown facts are left out."""
        payload, end = frames[0], _end_of_message(frames[0])
        digest = bytes(payload[end:])
        if len(frames) > 1 or len(digest) != DIGEST_BYTES:
            return frames
        return (bytes(payload[:end]) + self._facts.get(PLACE + digest.hex(), b""),)


def _end_of_message(payload: Any) -> int:
    """Return the position where a message ends: the end of the payload if the message is incomplete.

    A message starts with the number of its segments less one, and the segments' sizes in words, padded to a word.
    """
    try:
        (more,) = struct.unpack_from("<I", payload)
        n_segments = 1 + min(more, len(payload) // 4)
        sizes = struct.unpack_from(f"<{n_segments}I", payload, 4)
    except struct.error:
        return len(payload)
    return int(min((4 + 4 * n_segments + 7) // 8 * 8 + 8 * sum(sizes), len(payload)))
