"""Libraries that `make test-more` installs, and `make test` does not."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def needs(module: str) -> Any:
    """Return a module; without it, the tests of the file are skipped: `make test-more` installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        pytest.skip(f"{module} is not installed; make test-more installs it", allow_module_level=True)
