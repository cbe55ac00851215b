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

An exception that a task raises arrives as it is: your own type, with the traceback of the worker as its `__cause__`.
What Scaler itself raises about a task or a connection is below. `except ScalerError` catches all but the last section.
All can be imported from `scaler`.

{errors}

## Others

| error | when |
|---|---|
| `TimeoutError` (builtin) | no scheduler answered for `timeout_seconds`; or the task ran longer than its time limit |
| `concurrent.futures.CancelledError` | the future was cancelled, or its client disconnected |
| `ConfigError` (a `ValueError`) | an argument or a setting has a value that cannot work |
| `TypeError`, `KeyError`, `graphlib.CycleError` | a call or a graph is malformed; nothing was sent |
"""


def described(error: type[BaseException]) -> str:
    """Return the section of one error."""
    base = error.__bases__[0].__name__
    heading = f"## {error.__name__}\n\n" + (f"Base: `{base}`.\n\n" if error is not ScalerError else "")
    return heading + (inspect.getdoc(error) or "")


def page() -> str:
    """Return the page as it should be."""
    public = [value for name, value in vars(errors).items() if name in scaler.__all__ and isinstance(value, type)]
    return TEXT.format(errors="\n\n".join(map(described, public)))


if __name__ == "__main__":
    PAGE.write_text(page())
