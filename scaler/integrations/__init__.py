"""Integrations: Scaler behind the interfaces of other libraries, such as joblib and dask.

Users import a module of it by name; nothing else of Scaler does. No module here may import another one's library.
"""

from __future__ import annotations


def with_cure(error: ImportError, extra: str) -> ImportError:
    """Return the error once more, of the same class, with the command that installs what is missing."""
    cure = f"{error}; scaler.integrations.{extra} needs it: pip install 'scaler[{extra}]'"
    return type(error)(cure, name=error.name, path=error.path)
