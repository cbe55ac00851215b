"""Lets clusters that a program creates without an address listen on TCP, with keys, and notes what they require."""

from __future__ import annotations

from pathlib import Path

from tests.support.listeners import NOTES
from tests.support.processes import REPOSITORY

_BEFORE = f"""
import os
from scaler.cluster import combo
from scaler.endpoint import Endpoint
from scaler.transport.admission.listener_probe import mechanism_at
made = combo.SchedulerClusterCombo.__init__
def make(self, n_workers=None, address="tcp://127.0.0.1:*", *others, **options):
    made(self, n_workers, address, *others, **options)
    if self.get_address().startswith("tcp:"):
        with open(os.environ["{NOTES}"], "a") as notes:
            print(self.get_address(), mechanism_at(Endpoint.parse(self.get_address())), file=notes)
combo.SchedulerClusterCombo.__init__ = make
"""
"""a module that Python imports before it runs a program"""


def on_tcp(folder: Path) -> str:
    """Write the module to an empty folder, and return the `PYTHONPATH` with which a program imports it."""
    (folder / "sitecustomize.py").write_text(_BEFORE)
    return f"{folder}:{REPOSITORY}"
