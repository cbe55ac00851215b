"""Write reference/errors.md from the classes in scaler/errors.py: python docs/draw_errors.py."""

from __future__ import annotations

import inspect
from pathlib import Path

import scaler
from scaler import errors
from scaler.errors import ScalerError

PAGE = Path(__file__).parent / "reference" / "errors.md"

TEXT = """\
# Errors

<!-- Written by docs/draw_errors.py; a test compares the two. -->

An exception that a task raises keeps its type; its `__cause__` has the traceback of the worker. Scaler itself raises
the errors below. `except ScalerError` catches all of them, except most of those under [Others](#others). Import the
errors from `scaler`, unless the name of another module is given.

{errors}

## Others

**`TimeoutError`** (of Python): a wait took longer than its `timeout`, or no scheduler answered for `timeout_seconds`,
or the task ran longer than its time limit. The message says which of these is the case, and what the task waits for:
[why is it waiting?](../howto/waiting.md)

**`concurrent.futures.CancelledError`**: the future was cancelled, or its client ended before its task. The message says
which of these is the case.

**`ConfigError`** (a `ValueError`): an argument or a setting has a value that cannot work. The message names it, and
the place where it was set.

**`TypeError`, `KeyError`, `graphlib.CycleError`**: a call or a graph is malformed, and nothing was sent. The message
names the argument, the item or the call.

**`StartError`** (a `RuntimeError`): a scheduler or a cluster that this program starts did not start. The message says
why.

**`scaler.errors.ProtocolError`** (a `ScalerError`): several messages of the scheduler in a row cannot be read.
Run the same version of Scaler everywhere.
"""


def described(error: type[BaseException]) -> str:
    """Return the section of one error."""
    bases = " and ".join(f"`{base.__name__}`" for base in error.__bases__)
    heading = f"## {error.__name__}\n\n" + (f"Base: {bases}.\n\n" if error is not ScalerError else "")
    return heading + (inspect.getdoc(error) or "")


def page() -> str:
    """Return the page as it should be."""
    public = [value for name, value in vars(errors).items() if name in scaler.__all__ and isinstance(value, type)]
    return TEXT.format(errors="\n\n".join(map(described, public)))


if __name__ == "__main__":
    PAGE.write_text(page())
