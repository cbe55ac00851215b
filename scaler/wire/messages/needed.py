"""Needed: the sentence with which what needs a failed task ends, if nothing was raised there. It names that task."""

from __future__ import annotations

import re

_NEEDED = re.compile(rb"the task ([0-9a-f]{32}), which it needs, has failed: ")


def of_needed(task_id: bytes, sentence: bytes) -> bytes:
    """Return the sentence about what needs a task that has ended by a sentence. One about another task stays."""
    if _NEEDED.match(sentence):
        return sentence
    return f"the task {task_id.hex()}, which it needs, has failed: ".encode() + sentence


def without_needed(sentence: bytes) -> tuple[bytes, bytes]:
    """Return the task that a sentence names, empty if there is none, and what it says of the one that has failed."""
    found = _NEEDED.match(sentence)
    return (bytes.fromhex(found[1].decode()), sentence[found.end() :]) if found else (b"", sentence)
