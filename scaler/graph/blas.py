"""The order of a graph's nodes as operations on a sparse matrix with python-graphblas, a whole wave of nodes at once.

An element of the matrix is how often one node needs another; a wave is the vector of the ready nodes. The product of a
wave and the matrix has, for each other node, the number of its dependencies that have just finished. So the cost grows
with waves, not with nodes. If waves are narrow, as in a chain, the functions of `plain` are used instead.

Imported only when needed: python-graphblas is an extra and takes a second to import.
`tests/benchmarks/results/graph.md` shows when the import pays.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
from graphblas import Matrix, Vector, binary, semiring

from scaler.graph import plain

TRIAL_WAVES = 64
WAVE_NODES = 1000
"""The fewest nodes per wave, on average of `TRIAL_WAVES` waves, for which the operations save more than they cost."""


def order(counts: list[int], dependencies: list[int], wanted: list[int]) -> list[int]:
    """Return the wanted nodes and all nodes that they need, each after its dependencies.

    The arguments and errors are the same as for `plain.order`; the order of the nodes may differ.
    """
    if not dependencies:
        return plain.order(counts, dependencies, wanted)
    per_node = np.array(counts, dtype=np.int64)
    needs = np.array(dependencies, dtype=np.int64)
    nodes = np.repeat(np.arange(len(counts)), per_node)
    consumers = Matrix.from_coo(
        needs, nodes, np.ones(len(needs), np.int32), nrows=len(counts), ncols=len(counts), dup_op=binary.plus
    )
    missing = Vector.from_dense(per_node.astype(np.int32))
    waves = _waves(consumers, missing)
    if waves is None:
        return plain.order(counts, dependencies, wanted)
    ordered = np.concatenate(waves) if waves else np.empty(0, np.int64)
    if len(ordered) < len(counts):
        raise plain.cycle_error([0, *accumulate(counts)], dependencies, missing.to_dense().tolist())
    needed: list[int] = ordered[_needed(consumers, wanted)[ordered]].tolist()
    return needed


def _waves(consumers: Any, missing: Any) -> list[Any] | None:
    """Return the nodes wave by wave; None if waves are narrow.

    Args:
        consumers: the matrix of the graph: how often each node (column) needs each other node (row).
        missing: the number of unfinished dependencies of each node, reduced in place. The number of a node in a circle,
            or after one, stays above 0.
    """
    size, found = missing.size, 0
    waves: list[Any] = []
    wave = missing.select("==", 0).new()
    while wave.nvals:
        waves.append(wave.to_coo(values=False)[0])
        found += wave.nvals
        if len(waves) >= TRIAL_WAVES and found < WAVE_NODES * len(waves):
            return None
        finished = wave.vxm(consumers, semiring.plus_second).new()
        missing(binary.minus) << finished
        left = Vector(np.int32, size)
        left(finished.S) << missing
        wave = left.select("==", 0).new()
    return waves


def _needed(consumers: Any, wanted: list[int]) -> Any:
    """Return whether each node is needed, as an array: whether the node is wanted, or a wanted node depends on it."""
    reached = Vector.from_coo(np.unique(np.array(wanted, dtype=np.int64)), True, size=consumers.nrows, dtype=bool)
    dependencies, news = consumers.T.new(), reached
    while news.nvals:
        found = news.vxm(dependencies, semiring.any_pair).new(dtype=bool)
        news = Vector(bool, consumers.nrows)
        news(~reached.S) << found
        reached(binary.lor) << news
    return reached.to_dense(fill_value=False)
