"""Lets clusters that a program creates without an address listen on TCP, with keys."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes import REPOSITORY

_BEFORE = """
from scaler.cluster import combo
made = combo.SchedulerClusterCombo.__init__
def make(self, n_workers=None, address="tcp://127.0.0.1:*", *others, **options):
    made(self, n_workers, address, *others, **options)
combo.SchedulerClusterCombo.__init__ = make
"""
"""a module that Python imports before it runs a program"""


def on_tcp(folder: Path) -> str:
    """Write the module to an empty folder, and return the `PYTHONPATH` with which a program imports it."""
    (folder / "sitecustomize.py").write_text(_BEFORE)
    return f"{folder}:{REPOSITORY}"
