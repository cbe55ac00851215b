"""Instructions: the cost of an operation, as a number that does not depend on how busy the machine is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import scaler

PACKAGE = str(Path(scaler.__file__).parent)


def instructions(act: Callable[[], object]) -> int:
    """Return the number of instructions of Scaler's own code that an operation takes."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count
