"""Standard streams: opens the descriptors 0, 1 and 2 if the process was started without them (`<&- >&- 2>&-`).

Without these descriptors, the next opened file or socket gets one of their numbers, and C libraries print into that
file. The package calls `open_standard_streams` before all other imports, because imports open files too.
"""

from __future__ import annotations

import os
import sys

_NAMES = ("stdin", "stdout", "stderr")


def open_standard_streams() -> None:
    """Open the null device in place of each standard stream that is closed."""
    for descriptor, name in enumerate(_NAMES):
        try:
            os.fstat(descriptor)
        except OSError:
            flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY
            # Gets the lowest free descriptor, which is this one: those below are open.
            null = os.open(os.devnull, flags)
            os.set_inheritable(null, True)
            if getattr(sys, name) is None:
                stream = open(null, "r" if descriptor == 0 else "w", encoding="utf-8")  # noqa: PTH123, SIM115
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)
