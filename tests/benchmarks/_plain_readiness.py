"""Which tasks of a graph can run, counted in plain Python by position, as the scheduler counts (`WaitingTasks`).

Measured beside a candidate that uses sparse matrices, `_sparse_readiness.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

WAITING, READY, FINISHED, FAILED = range(4)


class Readiness:
    """Tracks which nodes of one graph can run. Adding and finishing nodes takes time in proportion to the edges."""

    def __init__(self) -> None:
        self._states = bytearray()
        self._missing: list[int] = []
        self._consumers: list[list[int] | None] = []

    def __len__(self) -> int:
        return len(self._states)

    def state(self, position: int) -> int:
        """Return the state of a node: `WAITING`, `READY`, `FINISHED` or `FAILED`."""
        return self._states[position]

    def add(self, dependencies: Sequence[int]) -> int:
        """Add the next node, given the positions of its dependencies, each once. Return the state of the node.

        Raises:
            ValueError: if a dependency was not added before.
        """
        states, consumers = self._states, self._consumers
        missing, state = 0, READY
        if dependencies:
            position = len(states)
            _check_order(position, dependencies)
            for dependency in dependencies:
                before = states[dependency]
                if before == FINISHED:
                    continue
                if before == FAILED:
                    state = FAILED
                    continue
                missing += 1
                known = consumers[dependency]
                if known is None:
                    consumers[dependency] = [position]
                else:
                    known.append(position)
            if missing and state == READY:
                state = WAITING
        states.append(state)
        self._missing.append(missing)
        consumers.append(None)
        return state

    def finish(self, position: int) -> list[int]:
        """Mark a ready node as finished. Return the nodes that become ready."""
        states, missing = self._states, self._missing
        states[position] = FINISHED
        consumers = self._consumers[position]
        if consumers is None:
            return []
        self._consumers[position] = None
        ready = []
        for consumer in consumers:
            left = missing[consumer] = missing[consumer] - 1
            if not left and states[consumer] == WAITING:
                states[consumer] = READY
                ready.append(consumer)
        return ready

    def fail(self, position: int) -> Iterator[int]:
        """Mark a node as failed. Then mark and yield each node that depends on it, directly or not, the nearest first.

        Before the iterator is exhausted, nodes may be added and finished: a node still to be yielded never becomes
        ready.
        """
        states, consumers = self._states, self._consumers
        states[position] = FAILED
        reached = deque((position,))
        while reached:
            node = reached.popleft()
            for consumer in consumers[node] or ():
                if states[consumer] == WAITING:
                    states[consumer] = FAILED
                    reached.append(consumer)
                    yield consumer
            consumers[node] = None


def _check_order(position: int, dependencies: Sequence[int]) -> None:
    if min(dependencies) < 0 or max(dependencies) >= position:
        late = next(each for each in dependencies if not 0 <= each < position)
        raise ValueError(f"node {position} depends on node {late}, which does not come before it")
