"""Devices: which GPUs the code of a task sees, as the environment of its process says.

Used by the processor where its node has GPUs. A library reads the variable once, when it opens the first GPU: so a
process in which a task has had some GPUs does not run a task that has others. Must never: change the environment while
a task runs.
"""

from __future__ import annotations

import os

from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.worker import RunTask

VARIABLE = "CUDA_VISIBLE_DEVICES"

Numbers = tuple[int, ...]


def numbers_of(task: RunTask) -> Numbers:
    """Return the numbers of the GPUs of a task."""
    return RunOptions.decode(task.options).devices if task.options else ()


class VisibleDevices:
    """What the environment of this process says."""

    def __init__(self) -> None:
        self._at_start = os.environ.get(VARIABLE)
        self._had: Numbers = ()
        """the GPUs that the last task had that had some"""

    def may_be(self, numbers: Numbers) -> bool:
        """Return whether a task that has these GPUs can run in this process."""
        return not numbers or self._had in ((), numbers)

    def show(self, numbers: Numbers) -> None:
        """Have the next tasks see these GPUs; if none, what this process has seen from its start."""
        if numbers:
            self._had = numbers
            os.environ[VARIABLE] = ",".join(map(self._name, numbers))
        elif self._at_start is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self._at_start

    def _name(self, number: int) -> str:
        """Return the name of a GPU: of those that the process saw from its start, the one of this number."""
        names = self._at_start.split(",") if self._at_start else []
        return names[number] if number < len(names) else str(number)
