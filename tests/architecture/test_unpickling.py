"""Who loads pickles: worker processes and clients, and not the scheduler or an agent, which several users share."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.trees import nodes

PACKAGE = Path(__file__).parents[2] / "scaler"
SHARED = [
    "actors",
    "agent",
    "jobs",
    "keys",
    "kit",
    "monitor",
    "peer",
    "process",
    "scheduler",
    "store",
    "transport",
    "wire",
]
PICKLERS = {"pickle", "cloudpickle", "marshal"}
LOADERS = {"load", "loads", "Unpickler"}
ARE_NO_PICKLES = {
    "BLOCK_BYTES",
    "Frames",
    "OBJECT",
    "OUT_OF_BAND_BYTES",
    "VALUE",
    "WORTH_AN_OBJECT_BYTES",
    "put_results",
    "size_of",
}
"""What those folders may take from `scaler.pickling`: sizes, and how frames are arranged."""


def roads_to_pickles(file: Path) -> set[str]:
    """Return what a file uses that loads pickles: of `pickle` and the like, or of `scaler.pickling`."""
    found = set()
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom) and node.module:
            of_ours = node.module.startswith("scaler.pickling")
            taken = {alias.name for alias in node.names}
            found |= taken - ARE_NO_PICKLES if of_ours else taken & LOADERS if node.module in PICKLERS else set()
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in PICKLERS:
            found |= {node.attr} & LOADERS
    return found


@pytest.mark.parametrize("folder", SHARED)
def test_only_worker_processes_and_clients_load_pickles(folder: str) -> None:
    files = list((PACKAGE / folder).rglob("*.py"))
    assert files
    assert {str(file.relative_to(PACKAGE)): roads for file in files if (roads := roads_to_pickles(file))} == {}


@pytest.mark.parametrize("file", ["processor/execution/values.py", "client/outcome.py", "executors/symphony/engine.py"])
def test_modules_that_unpickle_are_found(file: str) -> None:
    assert roads_to_pickles(PACKAGE / file)
