"""Graphs: the topics `graphs` and `graph/ID`: all graphs of clients, and the nodes of graphs that viewers watch.

Graphs report their state on request, and when they end. The topic `graphs` shows an ended graph once, then no longer.
"""

from __future__ import annotations

from collections.abc import Container

from scaler.actors.messages.monitor import Backlog, GraphSeen, NodeSeen
from scaler.actors.monitor.names import Names
from scaler.ids import public_id
from scaler.wire.messages.monitor import StateGraph, StateNode

SHOWN_MOST = 50

ENDED_MOST = 200


class Graphs:
    """The graphs of all clients, with the nodes of the watched graphs, by short id."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._seen_us: dict[bytes, int] = {}
        """when the monitor first received the state of each graph"""
        self._ended: dict[bytes, tuple[GraphSeen, int]] = {}
        """ended graphs that have not been published, each with the time of its end"""
        self._nodes: dict[bytes, dict[int, NodeSeen]] = {}
        """the nodes of watched graphs as last published, by graph and position"""
        self._last_nodes: dict[bytes, list[NodeSeen]] = {}
        """the final states of the nodes of watched graphs that have ended, until the next publication"""

    def ask(self, short_ids: Container[bytes]) -> None:
        """Keep the nodes of these graphs, which viewers watch, and forget the nodes of all other graphs."""
        self._nodes = {each: nodes for each, nodes in self._nodes.items() if each in short_ids}
        self._last_nodes = {each: nodes for each, nodes in self._last_nodes.items() if each in short_ids}

    def end(self, seen: GraphSeen, nodes: list[NodeSeen], now_us: int) -> None:
        """Store the final state of a graph until the next publication."""
        if len(self._ended) < ENDED_MOST:
            self._ended[seen.short_id] = (seen, now_us)
        if seen.short_id in self._nodes:  # a viewer watches it
            self._last_nodes[seen.short_id] = nodes

    def items(self, backlog: Backlog, now_us: int) -> tuple[list[StateGraph], int]:
        """Return the graphs that have ended since the last call, the latest open graphs, and the number of graphs."""
        ended, self._ended = self._ended, {}
        known = {seen.short_id for seen in backlog.graphs}
        self._seen_us = {each: at for each, at in self._seen_us.items() if each in known or each in ended}
        for short_id in (*known, *ended):
            self._seen_us.setdefault(short_id, now_us)
        shown = [(seen, 0) for seen in backlog.graphs if seen.short_id not in ended]
        shown.sort(key=lambda each: self._seen_us[each[0].short_id], reverse=True)
        items = [self._item(*each) for each in (*ended.values(), *shown[:SHOWN_MOST])]
        return items, len(known | ended.keys())

    def _item(self, seen: GraphSeen, ended_us: int) -> StateGraph:
        counts = (seen.nodes, seen.waiting, seen.running, seen.success, seen.failed, seen.canceled)
        times, whose = (self._seen_us[seen.short_id], ended_us), (seen.owner, seen.client_label)
        return StateGraph(seen.short_id, seen.name, seen.client, *counts, *times, *whose)

    def nodes(self, short_id: bytes, backlog: Backlog, is_first: bool) -> tuple[list[StateNode], int]:
        """Return the nodes of a graph that changed since the last call (all if `is_first`), and the number of nodes."""
        present = backlog.nodes.get(short_id) or self._last_nodes.pop(short_id, None)
        if present is None:
            self._nodes.pop(short_id, None)
            return [], 0
        known = {} if is_first else self._nodes.get(short_id, {})
        items = [self._node(short_id, node) for node in present if known.get(node.position) != node]
        self._nodes[short_id] = {node.position: node for node in present}
        return items, len(present)

    def _node(self, short_id: bytes, node: NodeSeen) -> StateNode:
        name = node.name or self._names.of_function(node.function_id)
        return StateNode(short_id, node.position, public_id(node.task_id), name, node.dependencies, node.state)
