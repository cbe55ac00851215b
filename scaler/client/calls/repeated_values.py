"""RepeatedValues: sends each large value that several calls of a map share as one object.

Used for maps over a list or a tuple: these keep their values alive, so that `id` identifies a value. All calls get a
shared value in the state in which the first of these calls found it. Each task has a private copy of an array, because
it may change the array.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaler.client.calls.arguments import Pack, PackedArguments
from scaler.client.object_reference import ObjectReference, OwnReference
from scaler.errors import ObjectTooLargeError
from scaler.pickling.serialization import OUT_OF_BAND_BYTES

KEPT_BYTES = 256 * 1024 * 1024
"""The most bytes of values that are kept for further calls. The values of the last call are kept in any case."""


class RepeatedValues:
    """Packs the arguments of the calls of one map, whose items are `items`.

    Args:
        send: sends an object without a name, and returns a reference of the given class.
        pack: packs arguments; some of them may be references.
    """

    def __init__(
        self,
        items: Sequence[Any],
        send: Callable[[Any, None, type[ObjectReference]], ObjectReference],
        pack: Pack,
    ) -> None:
        self._items = items
        self._send = send
        self._pack = pack
        self._array: Any = getattr(sys.modules.get("numpy"), "ndarray", bytes)
        self._values: dict[int, Any] | None = None
        """`id` of a large value that several calls share -> the value; None until a call has a large value"""
        self._remaining: Counter[int] = Counter()
        """`id` of a large value -> how often the remaining calls use the value"""
        self._kept: OrderedDict[int, ObjectReference] = OrderedDict()
        self._sent_bytes = 0

    def pack(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> PackedArguments:
        """Return the arguments of the next call, serialised."""
        if not any(map(self._is_large, arguments)):
            return self._pack(arguments, keywords, labels)
        if self._values is None:
            self._values = self._find()
        packed = self._pack([self._in_place_of(argument) for argument in arguments], keywords, labels)
        for argument in arguments:
            if id(argument) in self._kept:
                self._remaining[id(argument)] -= 1
        self._evict(len(arguments))
        return packed

    def take_bytes(self) -> int:
        """Return the number of bytes of values sent since the last call of this method."""
        sent, self._sent_bytes = self._sent_bytes, 0
        return sent

    def _is_large(self, value: Any) -> bool:
        if type(value) is bytes:
            return len(value) > OUT_OF_BAND_BYTES
        return type(value) is self._array and value.nbytes > OUT_OF_BAND_BYTES and not value.dtype.hasobject

    def _find(self) -> dict[int, Any]:
        """Return the large values that occur more than once in the items, by `id`."""
        large_types = (bytes, self._array)
        rows = (item for item in self._items if type(item) in (list, tuple))
        large = [value for row in rows for value in row if type(value) in large_types and self._is_large(value)]
        self._remaining.update(map(id, large))
        return {id(value): value for value in large if self._remaining[id(value)] > 1}

    def _in_place_of(self, value: Any) -> Any:
        key = id(value)
        if self._values is None or key not in self._values:
            return value
        reference = self._kept.pop(key, None)
        if reference is None:
            # Bytes are immutable: all tasks of a worker process may share them.
            reference_class = ObjectReference if type(value) is bytes else OwnReference
            try:
                reference = self._send(value, None, reference_class)
            except ObjectTooLargeError:
                return value  # packing it as any other value raises an error that names the argument
            self._sent_bytes += reference.size
        self._kept[key] = reference
        return reference

    def _evict(self, most: int) -> None:
        """Forget the values that no further call needs. If the others exceed `KEPT_BYTES`, also forget the oldest of
        them.

        At least `most` of the values that a further call needs are kept.
        """
        for key in [key for key in self._kept if self._remaining[key] <= 0]:
            del self._kept[key]
        n_bytes = sum(reference.size for reference in self._kept.values())
        while n_bytes > KEPT_BYTES and len(self._kept) > most:
            n_bytes -= self._kept.popitem(last=False)[1].size
