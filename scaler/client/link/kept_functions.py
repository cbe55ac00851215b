"""KeptFunctions: the functions that the scheduler keeps for this client, to be sent again to the next scheduler.

Owned by the client's open work. Most programs have a handful of functions; some make a new one for each task, or one
with half a gigabyte in its closure for each map. So when they are too many or too large, those that no task uses are
dropped.
"""

from __future__ import annotations

from collections.abc import Container

from scaler.ids import ObjectId
from scaler.pickling.serialization import size_of
from scaler.wire.messages.common import ObjectInstruction

FUNCTIONS_MOST = 512
FUNCTIONS_BYTES_MOST = 256 * 1024 * 1024


class KeptFunctions(dict[ObjectId, ObjectInstruction]):
    """Functions by id. A dictionary, because each task looks one up; only its own methods change it."""

    def __init__(self) -> None:
        super().__init__()
        self._size_bytes = 0
        self._most, self._bytes_most = FUNCTIONS_MOST, FUNCTIONS_BYTES_MOST

    def keep(self, function: ObjectInstruction) -> None:
        """Add a function, unless it is known."""
        if function.object_id not in self:
            self[function.object_id] = function
            self._size_bytes += size_of(function.frames)

    def drop(self, object_id: ObjectId) -> None:
        """Remove a function, if it is known."""
        function = self.pop(object_id, None)
        if function is not None:
            self._size_bytes -= size_of(function.frames)

    def is_full(self) -> bool:
        """Return whether it is time to drop unused functions."""
        return len(self) > self._most or self._size_bytes > self._bytes_most

    def drop_unused(self, used: Container[ObjectId]) -> list[ObjectId]:
        """Drop all unused functions. Return their ids."""
        unused = [object_id for object_id in self if object_id not in used]
        for object_id in unused:
            self.drop(object_id)
        # Finding unused functions scans all open tasks, so double the limit when most are in use.
        self._most = max(FUNCTIONS_MOST, 2 * len(self))
        self._bytes_most = max(FUNCTIONS_BYTES_MOST, 2 * self._size_bytes)
        return unused
