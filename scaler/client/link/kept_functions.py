"""KeptFunctions: the functions that the scheduler keeps for this client, as they are said again to the next one.

Kept by the client's open work. Most programs have a handful; some make a new one for each task, or one with half a
gigabyte in its closure for each map. So when they are too many or too large, those that nobody runs are let go.
"""

from __future__ import annotations

from collections.abc import Container

from scaler.ids import ObjectId
from scaler.serialization import size_of
from scaler.wire.messages.common import ObjectInstruction

FUNCTIONS_MOST = 512
FUNCTIONS_BYTES_MOST = 256 * 1024 * 1024


class KeptFunctions(dict[ObjectId, ObjectInstruction]):
    """Functions by their ids. A dictionary, since each task looks into it; only `keep` and `drop_unused` change it."""

    def __init__(self) -> None:
        super().__init__()
        self._size_bytes = 0
        self._most, self._bytes_most = FUNCTIONS_MOST, FUNCTIONS_BYTES_MOST

    def keep(self, function: ObjectInstruction) -> None:
        """Add a function, unless it is here."""
        if function.object_id not in self:
            self[function.object_id] = function
            self._size_bytes += size_of(function.frames)

    def is_full(self) -> bool:
        """Return whether it is time to let go of what nobody runs."""
        return len(self) > self._most or self._size_bytes > self._bytes_most

    def drop_unused(self, used: Container[ObjectId]) -> list[ObjectId]:
        """Let go of all that are not used. Returns their ids."""
        unused = [object_id for object_id in self if object_id not in used]
        for object_id in unused:
            self._size_bytes -= size_of(self.pop(object_id).frames)
        # If most are used, the next time is far: to find out what is used takes a look at each open task.
        self._most = max(FUNCTIONS_MOST, 2 * len(self))
        self._bytes_most = max(FUNCTIONS_BYTES_MOST, 2 * self._size_bytes)
        return unused
