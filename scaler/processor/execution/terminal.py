"""Terminal: errors of tasks that call `breakpoint`, `pdb` or `input`, which need a terminal. Used by the processor."""

from __future__ import annotations

import os
import sys
from typing import Any

from scaler.errors import class_name

_HERE = "needs a terminal, and this task runs in a worker process: use Client(processes=False)"
BREAKPOINT = f"breakpoint() {_HERE}, or future.rerun() in your program"
PDB = f"pdb {_HERE}, or future.rerun() in your program"
INPUT = f"EOF when reading a line: input() {_HERE}, or pass what it would read as an argument"

_PDB = ("", "pdb.set_trace")
"""The values of PYTHONBREAKPOINT for which `breakpoint()` starts the debugger pdb."""


def refuse_breakpoints() -> None:
    """Make `breakpoint()` raise an error, unless PYTHONBREAKPOINT or a module has chosen another debugger."""
    if sys.breakpointhook is sys.__breakpointhook__:
        sys.breakpointhook = _break


def explain(error: BaseException) -> None:
    """Explain, in the text of a task's error, that its process has no terminal. Other errors do not change."""
    if type(error) is EOFError and error.args == ("EOF when reading a line",):
        error.args = (INPUT,)
    elif class_name(type(error)) == "bdb.BdbQuit" and not error.args:
        error.args = (PDB,)


def _break(*args: Any, **kwargs: Any) -> Any:
    if os.environ.get("PYTHONBREAKPOINT", "") in _PDB:
        raise RuntimeError(BREAKPOINT)
    return sys.__breakpointhook__(*args, **kwargs)  # noqa: T100 - another debugger
