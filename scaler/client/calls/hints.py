"""Hints: logs warnings about legal but probably unintended uses, each once per program.

The clients use `hints` where they pickle a function and where they send a large argument. Hints keep no value alive.
"""

from __future__ import annotations

import logging
import sys
import zlib
from typing import Any

from scaler.pickling.generators import FunctionPart, find_generator, parts_of
from scaler.pickling.serialization import Buffer, name_of, size_of

logger = logging.getLogger("scaler.client")

WORTH_A_HINT_BYTES = 1 << 20
TIMES = 3
"""The number of sends of one value, or of pickles of one function, at which a hint is logged."""
_MOST = 64
"""The number of entries at which a table of `Hints` is cleared."""


class Hints:
    """Logs each hint once per program, and remembers what was sent before."""

    def __init__(self) -> None:
        self._looked: set[int] | None = set()
        """the `id` of the code of each checked function; the whole set is None once the hint was logged"""
        self._sent: dict[int, tuple[int, int, int]] | None = {}
        """`id` of a large argument -> size, checksum, number of sends; the whole table is None once the hint was
        logged
        """
        self._changes = 0
        self._pickled: dict[bytes, int] | None = {}
        """hash of a large function's pickle -> number of times it was made; the whole table is None once the hint was
        logged
        """
        self._generators: dict[int, int] | None = {}
        """`id` of a random generator argument -> checksum of its state; the whole table is None once the hint was
        logged
        """

    def look_at_function(self, function: Any) -> None:
        """Log a warning if a function that is pickled contains a random generator."""
        looked, code = self._looked, id(getattr(function, "__code__", function))
        if looked is None or code in looked:
            return
        if len(looked) >= _MOST:
            looked.clear()
        looked.add(code)
        if generator := find_generator(function):
            self._looked = None
            logger.warning(
                "the function %s contains a random generator (%s): each worker gets a copy, and copies draw the same "
                "numbers; draw from scaler.current_task().rng() instead, or make the generator in the function",
                name_of(function),
                generator,
            )

    def look_at_pickle(self, function: Any, size_bytes: int, content: bytes) -> None:
        """Log a warning if the same pickle of a large function was made several times.

        Args:
            size_bytes: the size of the pickle, without the modules that travel with it.
        """
        pickled = self._pickled
        if pickled is None or size_bytes < WORTH_A_HINT_BYTES:
            return
        times = pickled.get(content, 0) + 1
        if len(pickled) >= _MOST:
            pickled.clear()
        pickled[content] = times
        if times >= TIMES:
            self._pickled = None
            logger.warning(
                "the function %s contains %.1f MiB (%s) and was pickled %d times, once for each call: send the value "
                "once with reference = client.send_object(value), and pass the reference as an argument",
                name_of(function),
                size_bytes / 2**20,
                max(parts_of(function), key=_size_bytes).name,
                times,
            )

    def look_at_generator(self, generator: object, frames: list[Buffer]) -> None:
        """Log a warning if a random generator is an argument of two calls, and has the same state in both."""
        sent = self._generators
        if sent is None:
            return
        state = _checksum(frames)
        if sent.get(id(generator)) == state:
            self._generators = None
            logger.warning(
                "the same random generator is an argument of several calls: each has a copy, and copies draw the same "
                "numbers; draw from scaler.current_task().rng() instead, or give each call one of generator.spawn(n)"
            )
            return
        if len(sent) >= _MOST:
            sent.clear()
        sent[id(generator)] = state

    def look_at_argument(self, value: object, frames: list[Buffer]) -> None:
        """Log a warning if a large argument was sent several times with the same content."""
        sent, size_bytes = self._sent, size_of(frames)
        if sent is None or size_bytes < WORTH_A_HINT_BYTES:
            return
        size_before, before, times = sent.get(id(value), (0, 0, 0))
        checksum = _checksum(frames) if size_before == size_bytes else 0
        if size_before != size_bytes:
            times = 0
        elif before not in (0, checksum):
            times, self._changes = 0, self._changes + 1
        if len(sent) >= _MOST:
            sent.clear()
        sent[id(value)] = size_bytes, checksum, times + 1
        if self._changes >= TIMES:
            self._sent = None  # another checksum for each task would cost more than the hint is worth
        elif times + 1 >= TIMES:
            self._sent = None
            logger.warning(
                "the same %s of %.1f MiB was sent %d times: reference = client.send_object(value) sends it once, and "
                "tasks that have the reference as their argument get the value",
                type(value).__name__,
                size_bytes / 2**20,
                times + 1,
            )


hints = Hints()


def _size_bytes(part: FunctionPart) -> int:
    """Return the size of a value that a function refers to, without the sizes of the objects inside the value."""
    try:
        n_bytes = getattr(part.value, "nbytes", None)
        return n_bytes if type(n_bytes) is int else sys.getsizeof(part.value, 0)
    except Exception:  # noqa: BLE001 - whatever the code of its class raises
        return 0


def _checksum(frames: list[Buffer]) -> int:
    checksum = 0
    for frame in frames:
        checksum = zlib.crc32(frame, checksum)
    return checksum
