"""Nodes: the resources of each node, and how much of them is free.

A task takes resources from its assignment to its end, except while it is blocked. Taken resources are counted by
worker. When a worker leaves, its resources are freed; when it returns and reports its runs, they are taken again. A
blocked task resumes even if its resources are no longer free, so tasks may take more than the node has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from scaler.actors.vocabulary.needs import Needs, Offer
from scaler.kit import ActorRef


class NodeResources:
    """The resources of one node, and what the runs of each of its connected workers take."""

    __slots__ = ("_awaited", "_running", "_taken", "_unsure", "free", "named_only", "total")

    def __init__(self, offer: Offer, running: Counter[Needs]) -> None:
        self._running = running
        self.total = dict(offer.amounts)
        self.free = dict(offer.amounts)
        self._awaited = offer.workers
        self.named_only = offer.named_only
        self._taken: dict[ActorRef, Counter[Needs]] = {}
        self._unsure: set[ActorRef] = set()
        """workers that have runs with unknown needs"""

    def __bool__(self) -> bool:
        return bool(self._taken)

    def __len__(self) -> int:
        return len(self._taken)

    def join(self, worker: ActorRef, taken: Iterable[tuple[Needs, int]], is_unsure: bool) -> None:
        """Add a worker, and take the resources of its runs. `is_unsure`: whether the needs of some runs are unknown."""
        self._taken[worker] = Counter()
        for needs, runs in taken:
            self.change(worker, needs, runs)
        self.set_sure(worker, not is_unsure)

    def leave(self, worker: ActorRef) -> None:
        """Remove a worker, and free the resources of its runs."""
        self._unsure.discard(worker)
        for needs, runs in list(self._taken[worker].items()):
            self.change(worker, needs, -runs)
        del self._taken[worker]

    def set_sure(self, worker: ActorRef, is_sure: bool) -> None:
        """Set whether the needs of all runs of a worker are known."""
        if is_sure:
            self._unsure.discard(worker)
        else:
            self._unsure.add(worker)

    def change(self, worker: ActorRef, needs: Needs, runs: int) -> None:
        """Add runs with these needs to a worker, or subtract runs if `runs` is negative."""
        taken = self._taken[worker]
        runs = max(runs, -taken[needs])
        taken[needs] += runs
        if not taken[needs]:
            del taken[needs]
        self._running[needs] += runs
        if not self._running[needs]:
            del self._running[needs]
        for name, amount in needs.amounts:
            if name in self.free:
                self.free[name] -= amount * runs

    def could_take(self, needs: Needs) -> bool:
        """Return whether the node has the resources in these needs, free or not."""
        total = self.total
        if self.named_only and not needs.is_call:
            return False
        return all(total.get(name, -1) >= amount for name, amount in needs.amounts)

    def places(self, needs: Needs) -> int:
        """Return how many tasks with these needs the node can run at a time."""
        return min([len(self._taken), *(self.total[name] // amount for name, amount in needs.amounts if amount)])

    def workers(self) -> Iterable[ActorRef]:
        """Return the connected workers of the node."""
        return self._taken.keys()

    def can_take(self, needs: Needs) -> bool:
        """Return whether the resources in these needs are free; False while it is unknown how much is free."""
        if self._unsure or len(self._taken) < self._awaited or (self.named_only and not needs.is_call):
            return False
        free = self.free
        return all(name in free and (free[name] >= amount or not amount) for name, amount in needs.amounts)


class Nodes:
    """All nodes with connected workers, by host."""

    def __init__(self) -> None:
        self._nodes: dict[Hashable, NodeResources] = {}
        self._host_of: dict[ActorRef, Hashable] = {}
        self.running: Counter[Needs] = Counter()
        """the number of runs at all nodes by needs"""

    def join(
        self, worker: ActorRef, host: Hashable, offer: Offer, taken: Iterable[tuple[Needs, int]], is_unsure: bool
    ) -> NodeResources | None:
        """Add a worker to its node. Return the node if this is its first worker; else None."""
        known = self._nodes.get(host)
        node = self._nodes[host] = NodeResources(offer, self.running) if known is None else known
        self._host_of[worker] = host
        node.join(worker, taken, is_unsure)
        return node if known is None else None

    def leave(self, worker: ActorRef) -> NodeResources | None:
        """Remove a worker. Return the node of the worker if this was its last worker; else None."""
        if worker not in self._host_of:
            return None
        host = self._host_of.pop(worker)
        node = self._nodes[host]
        node.leave(worker)
        return None if node else self._nodes.pop(host)

    def host_of(self, worker: ActorRef) -> Hashable:
        """Return the host of a worker, or None if the worker is unknown."""
        return self._host_of.get(worker)

    def get(self, host: Hashable) -> NodeResources | None:
        """Return the node of a host, or None if the host is unknown."""
        return self._nodes.get(host)

    def of_worker(self, worker: ActorRef) -> NodeResources | None:
        """Return the node of a worker, or None if the worker is unknown."""
        return self._nodes.get(self._host_of[worker]) if worker in self._host_of else None

    def hosts(self) -> Iterable[Hashable]:
        """Return the hosts of all nodes."""
        return self._nodes.keys()

    def able(self, needs: Needs) -> list[NodeResources]:
        """Return the nodes that could take a task with these needs if all resources were free."""
        return [node for node in self._nodes.values() if node.could_take(needs)]

    def most(self) -> Mapping[str, int]:
        """Return, for each capability, the greatest amount that a single node has."""
        most: dict[str, int] = {}
        for node in self._nodes.values():
            for name, amount in node.total.items():
                most[name] = max(amount, most.get(name, 0))
        return most
