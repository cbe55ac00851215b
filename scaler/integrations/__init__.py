"""Integrations: Scaler behind the interfaces of other libraries, such as joblib and dask.

Users import a module of this package by name. Each module imports only the library that it serves.
"""

from __future__ import annotations


def with_cure(error: ImportError, extra: str) -> ImportError:
    """Return a copy of the error. Its message also has the command that installs the missing library."""
    cure = f"{error}; scaler.integrations.{extra} needs it: pip install 'scaler[{extra}]'"
    return type(error)(cure, name=error.name, path=error.path)
