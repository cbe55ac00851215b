"""The order of a graph's nodes, in plain Python: linear time and memory in nodes and edges, no recursion.

Edges are in a few long lists. A million small lists took three times as long: they keep the garbage collector busy.
"""

from __future__ import annotations

import graphlib
from itertools import accumulate


def order(counts: list[int], dependencies: list[int], wanted: list[int]) -> list[int]:
    """Return the wanted nodes and all nodes that they need, each after its dependencies.

    Args:
        counts: the number of dependencies of each node.
        dependencies: the dependencies of all nodes, one node after the other; with repetitions.

    Raises:
        graphlib.CycleError: if nodes depend on each other in a circle, even unneeded ones; the error names one circle.
    """
    starts = [0, *accumulate(counts)]
    missing = list(counts)
    ordered = _ordered_by_readiness(counts, dependencies, missing)
    if len(ordered) < len(counts):
        raise cycle_error(starts, dependencies, missing)
    needed = bytearray(len(counts))
    for node in wanted:
        needed[node] = 1
    for node in reversed(ordered):
        if needed[node]:
            for dependency in dependencies[starts[node] : starts[node + 1]]:
                needed[dependency] = 1
    return [node for node in ordered if needed[node]]


def _ordered_by_readiness(counts: list[int], dependencies: list[int], missing: list[int]) -> list[int]:
    """Return the nodes in the order in which they can run.

    `missing` has the number of unfinished dependencies of each node, reduced in place; it stays above 0 for nodes that
    never become ready.
    """
    firsts, ends, consumers = _inverted(counts, dependencies)
    ordered = [node for node, count in enumerate(counts) if not count]
    for node in ordered:
        for consumer in consumers[firsts[node] : ends[node]]:
            left = missing[consumer] = missing[consumer] - 1
            if not left:
                ordered.append(consumer)
    return ordered


def _inverted(counts: list[int], dependencies: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return all consumers in one list, node after node, and where the consumers of each node start and end in the
    list.
    """
    uses = [0] * len(counts)
    for dependency in dependencies:
        uses[dependency] += 1
    ends = list(accumulate(uses))
    firsts = ends[:]  # decreases with each stored consumer
    consumers = [0] * len(dependencies)
    edge = len(dependencies)
    for node in range(len(counts) - 1, -1, -1):
        count = counts[node]
        if count:
            for dependency in dependencies[edge - count : edge]:
                index = firsts[dependency] = firsts[dependency] - 1
                consumers[index] = node
            edge -= count
    return firsts, ends, consumers


def cycle_error(starts: list[int], dependencies: list[int], missing: list[int]) -> graphlib.CycleError:
    """Return an error that names the nodes of one circle: each is needed by the next, and the first is also the last.

    Args:
        starts: where the dependencies of each node begin in `dependencies`.
        missing: a number for each node, above 0 for nodes that never become ready, in a circle or after one.
    """
    node = next(node for node, left in enumerate(missing) if left)
    seen: dict[int, int] = {}
    path: list[int] = []
    while node not in seen:  # each of these has a dependency that never gets ready
        seen[node] = len(path)
        path.append(node)
        node = next(each for each in dependencies[starts[node] : starts[node + 1]] if missing[each])
    circle = [*path[seen[node] :], node]
    return graphlib.CycleError("nodes are in a cycle", circle[::-1])
