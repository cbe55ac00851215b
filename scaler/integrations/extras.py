"""Extras: what a bridge says when the library that it leads to is not installed. A leaf.

Raised by the bridges, in any thread of the user. Must never: import such a library.
"""

from __future__ import annotations


def with_cure(error: ImportError, extra: str) -> ImportError:
    """Return the error once more, of the same class, with the command that installs what is missing."""
    cure = f"{error}; scaler.integrations.{extra} needs it: pip install 'scaler[{extra}]'"
    return type(error)(cure, name=error.name, path=error.path)
