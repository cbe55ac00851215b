"""Graphs: the drawing of a graph; a large one is drawn by function and depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import SentState
from scaler.monitor.views.work import word_of
from scaler.wire.messages.columns import positions
from scaler.wire.messages.monitor import StateNode

NODES_MOST = 2000
"""The largest number of nodes of a graph that are drawn one by one."""


def drawing(state: FeedState, identity: bytes, sent: SentState) -> dict[str, Any]:
    """Return the nodes and edges of a graph; a page that has the edges receives None."""
    nodes = state.model.nodes.get(identity, {})
    depth_of = depths(nodes)
    is_small = len(nodes) <= NODES_MOST
    drawn = _by_node(nodes, depth_of) if is_small else _by_box(nodes, depth_of)
    shape = (len(nodes), is_small)
    edges = None
    if sent.shape != shape:  # they do not change
        sent.shape = shape
        edges = _edges(nodes) if is_small else []
    return {"nodes": drawn, "edges": edges, "boxes": not is_small}


def depths(nodes: Mapping[int, StateNode]) -> dict[int, int]:
    """Return the depth of each node: the length of the longest path to it from nodes without dependencies."""
    after: dict[int, list[int]] = {position: [] for position in nodes}
    open_inputs: dict[int, int] = {}
    for position, node in nodes.items():
        inputs = [each for each in _inputs(node) if each in nodes]
        open_inputs[position] = len(inputs)
        for each in inputs:
            after[each].append(position)
    found = {position: 0 for position, count in open_inputs.items() if not count}
    ready = list(found)
    for position in ready:
        for later in after[position]:
            found[later] = max(found.get(later, 0), found[position] + 1)
            open_inputs[later] -= 1
            if not open_inputs[later]:
                ready.append(later)
    return {position: found.get(position, 0) for position in nodes}


def _inputs(node: StateNode) -> tuple[int, ...]:
    """Return the positions of a node's dependencies. The last number is left out if its bytes are cut off."""
    row = node.dependencies
    return positions(row[: len(row) // 4 * 4])


def _by_node(nodes: Mapping[int, StateNode], depth_of: Mapping[int, int]) -> list[list[Any]]:
    return [
        [position, depth_of[position], node.function_name, word_of(node.state), node.duration_us / 1e6, node.task.hex()]
        for position, node in sorted(nodes.items())
    ]


def _edges(nodes: Mapping[int, StateNode]) -> list[tuple[int, int]]:
    return [(each, position) for position, node in nodes.items() for each in _inputs(node) if each in nodes]


def _by_box(nodes: Mapping[int, StateNode], depth_of: Mapping[int, int]) -> list[list[Any]]:
    boxes: dict[tuple[int, str], dict[str, int]] = {}
    for position, node in nodes.items():
        counts = boxes.setdefault((depth_of[position], node.function_name), {})
        kind = word_of(node.state)
        counts[kind] = counts.get(kind, 0) + 1
    return [[depth, name, counts] for (depth, name), counts in sorted(boxes.items())]
