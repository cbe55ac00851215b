"""The progress page: a few words of memory that an agent and one processor share.

The processor writes which task it executes. The agent reads this, even after the processor's death or while a task
holds the GIL. Tasks are numbered from 1 in the order in which this processor receives them.

    word 0  written by the processor   the task that is executed now, 0 = none
    word 1  written by the agent       tasks after this one ...
    word 2  written by the agent       ... up to this one must not start
    word 3  written by the agent       the task to interrupt; the processor writes 0 after the interrupt
    word 4  written by the processor   the start of the executed task, in nanoseconds of the monotonic clock
    word 5  written by the processor   the length of the text behind it: why the process could not be prepared

Neither side blocks. The processor writes word 0 and then reads words 1 and 2. The agent writes words 1 and 2, waits
some milliseconds, and then reads word 0. If the task in word 0 comes before the withheld tasks, none of them has
started or will start. On a signal the processor reads word 3, and interrupts that task only while it is executed.
"""

from __future__ import annotations

import mmap

from scaler.shared_memory import new_memory

_PAGE_BYTES = 4096
_TEXT_AT = 48
ALL = 2**63
"""a number that is greater than the number of any task"""


def new_progress_page() -> int:
    """Return the descriptor of a new page, on which no task is executed or withheld."""
    return new_memory(_PAGE_BYTES)


class ProgressPage:
    """A progress page that is mapped into this process. The caller closes the descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._mapping = mmap.mmap(descriptor, _PAGE_BYTES)
        self._bytes = memoryview(self._mapping)
        self.words = self._bytes.cast("Q")

    def close(self) -> None:
        """Unmap the page. Reads still return the last content, and writes have no effect.

        The slot may use the page until it learns that the processor is dead.
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
        """The number of the task that is executed now; 0 if no task is executed."""
        return int(self.words[0])

    @property
    def withheld_to(self) -> int:
        """The greatest number of all tasks that were ever withheld; 0 if no task was."""
        return int(self.words[2])

    def withhold(self, after: int, to: int) -> None:
        """Prevent the start of tasks whose number is greater than `after` and at most `to`.

        A withheld task stays withheld until the processor has skipped it. The order of the two writes matters: between
        them, smaller numbers are withheld, too, but the processor has executed or skipped their tasks already.
        """
        if after <= self.words[2]:
            after = min(after, self.words[1])
        self.words[2] = to
        self.words[1] = after

    def interrupt(self, number: int) -> None:
        """Let a signal interrupt the task with this number, once, while the task is executed."""
        self.words[3] = number

    def interrupt_all(self) -> None:
        """Prevent the start of further tasks, and let the next signal interrupt the executed task."""
        self.withhold(0, ALL)
        self.words[3] = self.words[0]

    def ran_seconds(self, number: int, now: float) -> float:
        """Return for how long, at least, the task with this number has been executed; 0 if it is not executed now."""
        started_ns = int(self.words[4])
        return now - started_ns / 1e9 if number and self.words[0] == number else 0.0

    @property
    def failure(self) -> str:
        """Why the process could not be prepared for tasks; empty if it was prepared."""
        return bytes(self._bytes[_TEXT_AT : _TEXT_AT + self.words[5]]).decode(errors="replace")

    @failure.setter
    def failure(self, text: str) -> None:
        data = text.encode(errors="backslashreplace")[: _PAGE_BYTES - _TEXT_AT]
        self._bytes[_TEXT_AT : _TEXT_AT + len(data)] = data
        self.words[5] = len(data)

    @property
    def is_interrupt_due(self) -> bool:
        """Whether the agent has named a task to interrupt that the processor has not interrupted yet."""
        return bool(self.words[3])
