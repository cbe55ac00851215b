"""Order: the needed calls of a graph, each after its dependencies, in the order in which they are sent.

Two back-ends give equivalent answers: plain Python, and operations on a sparse matrix (the extra `graphblas`).
`tests/benchmarks/results/graph.md` shows when each back-end pays.
"""

from __future__ import annotations

import graphlib
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

from scaler.config import ConfigError
from scaler.graph import plain
from scaler.graph.description import Description

Order: TypeAlias = Callable[[list[int], list[int], list[int]], list[int]]

BACK_END_VARIABLE = "SCALER_GRAPH_BACKEND"
"""The environment variable that chooses the back-end: `auto`, `python` or `graphblas`."""

IMPORT_PAYS_NODES = 3_000_000
"""The fewest calls for which `auto` imports python-graphblas: it saves more time than its import takes."""

USE_PAYS_NODES = 20_000
"""The fewest calls for which `auto` uses python-graphblas, if it is imported already."""


def order(description: Description) -> list[int]:
    """Return the numbers of the wanted calls and all calls that they need, each after its dependencies.

    Raises:
        graphlib.CycleError: if calls of the graph depend on each other in a circle, even if no wanted call needs them.
        ConfigError: if the environment requires a back-end that is not installed.
    """
    numbers = description.numbers
    wanted = [numbers[key] for key in description.wanted if key in numbers]
    try:
        return back_end(len(description.counts))(description.counts, description.dependencies, wanted)
    except graphlib.CycleError as error:
        text, circle = error.args
        keys = list(numbers)
        raise graphlib.CycleError(text, [keys[number] for number in circle]) from None


def back_end(n_nodes: int) -> Order:
    """Return the configured back-end for `n_nodes` calls. Raise `ConfigError` if it is unknown or not installed."""
    choice = os.environ.get(BACK_END_VARIABLE) or "auto"
    if choice not in ("auto", "python", "graphblas"):
        raise ConfigError(f"{BACK_END_VARIABLE} must be auto, python or graphblas, not {choice!r}")
    if choice == "auto":
        pays = USE_PAYS_NODES if "graphblas" in sys.modules else IMPORT_PAYS_NODES
        choice = "graphblas" if n_nodes >= pays and find_spec("graphblas") is not None else "python"
    if choice == "python":
        return plain.order
    if find_spec("graphblas") is None:
        raise ConfigError(f"{BACK_END_VARIABLE} is graphblas, which is not installed: pip install 'scaler[graphblas]'")
    blas_order: Order = import_module("scaler.graph.blas").order
    return blas_order
