"""The progress page: a few words of memory that an agent and one processor share.

The processor writes which task it executes; the agent reads it, even after the processor's death or while a task holds
the GIL. The agent writes which tasks must not be started. Tasks are numbered from 1 in the order in which they were
handed to this processor.

    word 0  written by the processor   the task that is executed now, 0 = none
    word 1  written by the agent       tasks after this one ...
    word 2  written by the agent       ... up to this one must not be started
    word 3  written by the agent       the task that is to be interrupted; the processor writes 0 when it is
    word 4  written by the processor   when the executed task began, in nanoseconds of the monotonic clock
    word 5  written by the processor   the length of the text behind it: why the process could not be prepared

Neither side blocks. The processor writes word 0 and then reads words 1 and 2. The agent writes words 1 and 2, waits
some milliseconds, and then reads word 0: if it has not changed, no later task was or will be started. On a signal the
processor reads word 3: that task is interrupted only while it is executed.
"""

from __future__ import annotations

import mmap

from scaler.shared_memory import new_memory

_PAGE_BYTES = 4096
_TEXT_AT = 48
ALL = 2**63
"""more tasks than any processor gets"""


def new_progress_page() -> int:
    """Return the descriptor of a page with no task executing and none withheld."""
    return new_memory(_PAGE_BYTES)


class ProgressPage:
    """The page, mapped. The descriptor stays the caller's."""

    def __init__(self, descriptor: int) -> None:
        self._mapping = mmap.mmap(descriptor, _PAGE_BYTES)
        self._bytes = memoryview(self._mapping)
        self.words = self._bytes.cast("Q")

    def close(self) -> None:
        """Unmap the page, and with it free the descriptor that the mapping has.

        The last content can still be read, and writes have no effect: the slot may use this until it learns that the
        processor is dead.
        """
        if self._mapping.closed:
            return
        last = self.words
        self.words = memoryview(bytearray(self._bytes)).cast("Q")
        last.release()
        self._bytes.release()
        self._mapping.close()

    @property
    def executing(self) -> int:
        """The number of the task that is executed now, or 0."""
        return int(self.words[0])

    @property
    def withheld_to(self) -> int:
        """The last task that was ever withheld, or 0."""
        return int(self.words[2])

    def withhold(self, after: int, to: int) -> None:
        """Have no task start whose number is greater than `after` and at most `to`.

        What was withheld stays so until it is passed: the processor may be at one of those, and was told not to start
        it. The order matters: between the two writes the range covers older numbers, which have been passed already.
        """
        if after <= self.words[2]:
            after = min(after, self.words[1])
        self.words[2] = to
        self.words[1] = after

    def interrupt(self, number: int) -> None:
        """Have this task interrupted, once, by the next signal that finds it executing."""
        self.words[3] = number

    def interrupt_all(self) -> None:
        """Have no further task start, and the one that is executed interrupted by the next signal."""
        self.withhold(0, ALL)
        self.words[3] = self.words[0]

    def ran_seconds(self, number: int, now: float) -> float:
        """Return for how long the task has been executed; 0 if it is not.

        The processor writes the time before the number, so a task never seems older than it is.
        """
        began_ns = int(self.words[4])
        return now - began_ns / 1e9 if number and self.words[0] == number else 0.0

    @property
    def failure(self) -> str:
        """Why the process could not be prepared for tasks; empty if it could."""
        return bytes(self._bytes[_TEXT_AT : _TEXT_AT + self.words[5]]).decode(errors="replace")

    @failure.setter
    def failure(self, text: str) -> None:
        data = text.encode(errors="backslashreplace")[: _PAGE_BYTES - _TEXT_AT]
        self._bytes[_TEXT_AT : _TEXT_AT + len(data)] = data
        self.words[5] = len(data)

    @property
    def is_interrupt_due(self) -> bool:
        """Whether the task that was to be interrupted was not yet."""
        return bool(self.words[3])
