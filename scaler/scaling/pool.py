"""ClusterPool: the capabilities of the clusters of one command, and how many of their workers the tasks could use.

The pool receives all tasks and workers, and ignores tasks that its clusters cannot run: another `scaler_scale` may
start clusters for these tasks. Sans I/O.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scaler.monitor.model.workers import WorkerView
from scaler.wire.messages.capabilities import from_text


class ClusterPool:
    """The clusters that one command starts, each of `each` workers, and the tasks that these clusters can run.

    Args:
        is_only_asked: whether tasks that request no capabilities are ignored.
    """

    def __init__(self, each: int, capabilities: Mapping[str, int], *, is_only_asked: bool = False) -> None:
        self._each = each
        self._capabilities = dict(capabilities)
        self._is_only_asked = is_only_asked

    def look(self, wanted: Mapping[str, int], workers: Sequence[WorkerView]) -> tuple[int, int]:
        """Return how many workers the tasks could use, and how many are connected.

        Both numbers count either all tasks and workers, or only the tasks that request capabilities and the workers
        that have the capabilities of these clusters: whichever pair shows the greater shortage. With `is_only_asked`,
        always the latter.

        Args:
            wanted: the number of tasks that should run at once, by the capabilities that the tasks request.
        """
        asked = {amounts: number for text, number in wanted.items() if text and (amounts := from_asked(text))}
        asked = {amounts: number for amounts, number in asked.items() if self._at_once(dict(amounts))}
        n_asked = sum(self._workers(number, self._at_once(dict(amounts))) for amounts, number in asked.items())
        n_able = sum(map(self.may_have, workers))
        if self._is_only_asked:
            return n_asked, n_able
        n_all = n_asked + wanted.get("", 0)
        return max((n_asked, n_able), (n_all, len(workers)), key=lambda pair: (pair[0] - pair[1], pair[0]))

    def may_have(self, worker: WorkerView) -> bool:
        """Return whether a worker has all capabilities of these clusters."""
        return _has(dict(from_text(worker.agent.capabilities)), self._capabilities)

    def _at_once(self, amounts: Mapping[str, int]) -> int:
        """Return how many tasks one cluster runs at once, if each task requests these amounts of capabilities."""
        if not _has(self._capabilities, amounts):
            return 0
        return min([self._each, *(self._capabilities[name] // each for name, each in amounts.items() if each)])

    def _workers(self, tasks: int, at_once: int) -> int:
        return math.ceil(tasks / at_once) * self._each if at_once < self._each else tasks


def from_asked(text: str) -> tuple[tuple[str, int], ...]:
    """Return requested capabilities from a text such as `gpu=1,memory=1024`. `gpu=0`: any amount of `gpu` suffices,
    even 0.
    """
    parts = [part.rpartition("=") for part in text.split(",")]
    return tuple((name, int(amount)) for name, _, amount in parts if name and amount.isdecimal())


def _has(available: Mapping[str, int], asked: Mapping[str, int]) -> bool:
    return all(available.get(name, -1) >= amount for name, amount in asked.items())
