"""Hints: what is no mistake, and most often not what was meant, is said in the log, each once in a program.

Asked where a function is pickled, and where a large argument becomes an object. Must never: change a call, keep a
value alive, or cost a call anything that does neither.
"""

from __future__ import annotations

import logging
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from scaler.pickling.pickled_functions import is_found_by_name
from scaler.pickling.serialization import Buffer, name_of, size_of

logger = logging.getLogger("scaler.client")

WORTH_A_HINT_BYTES = 1 << 20
TIMES = 3
"""An argument that is sent so often might be an object."""
_MOST = 64
"""so many functions and arguments are remembered"""


class Hints:
    """What was said in this program, and what may have to be."""

    def __init__(self) -> None:
        self._looked: set[int] | None = set()
        """the code of the functions that were looked at, by identity; None: it was said"""
        self._sent: dict[int, tuple[int, int, int]] | None = {}
        """identity of a large argument -> its bytes, their checksum, how often it was sent; None: it was said"""
        self._changes = 0

    def look_at_function(self, function: Any) -> None:
        """Say so if a function that is pickled carries a random generator along."""
        looked, code = self._looked, id(getattr(function, "__code__", function))
        if looked is None or code in looked or (type(function) is FunctionType and is_found_by_name(function)):
            return
        if len(looked) >= _MOST:
            looked.clear()
        looked.add(code)
        if any(map(_draws, _carried(function))):
            self._looked = None
            logger.warning(
                "the function %s carries a random generator along: tasks on different workers draw the same numbers; "
                "give each task a seed, and make the generator from it in the function",
                name_of(function),
            )

    def look_at_argument(self, value: object, frames: list[Buffer]) -> None:
        """Say so if a large argument was sent several times. One that is filled anew each time is none."""
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


def _checksum(frames: list[Buffer]) -> int:
    checksum = 0
    for frame in frames:
        checksum = zlib.crc32(frame, checksum)
    return checksum


def _carried(function: Any) -> Iterator[object]:
    """Yield the values that are pickled with a function, as far as they are easy to find."""
    if type(function) is partial:
        yield from (*function.args, *function.keywords.values())
        function = function.func
    yield function
    function = getattr(function, "__func__", function)
    if type(function) is FunctionType:
        yield from function.__defaults__ or ()
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # it has no value yet
                yield cell.cell_contents
        for name in function.__code__.co_names:
            yield function.__globals__.get(name)


def _draws(value: Any) -> bool:
    """Return whether it is a random generator or one of its methods."""
    if type(value) in (BuiltinMethodType, MethodType):
        value = value.__self__
    random, numpy = sys.modules.get("random"), sys.modules.get("numpy.random")
    kinds = (getattr(random, "Random", ()), getattr(numpy, "Generator", ()), getattr(numpy, "RandomState", ()))
    return issubclass(type(value), kinds) and not isinstance(value, getattr(random, "SystemRandom", ()))
