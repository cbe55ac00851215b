"""A candidate for `_plain_readiness.py`: the same answers, as operations of python-graphblas on many ends.

What each node still waits for is a vector, who needs whom a matrix. A batch of ended nodes, as a vector, times the
matrix counts for each consumer how many of its dependencies have just ended; those that are left with none are ready.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from graphblas import Matrix, Vector, binary, semiring, ss

ss.config["nthreads"] = 1  # with more of them, a small batch takes three times as long beside other programs


class SparseReadiness:
    """The nodes of one graph, and what each waits for. Unlike `Readiness` it is made when all nodes are known."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        """Take for each node the positions of those that it depends on."""
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        needs = np.fromiter((each for row in rows for each in row), np.int64, int(counts.sum()))
        nodes = np.repeat(np.arange(len(rows)), counts)
        self._consumers = Matrix.from_coo(needs, nodes, np.int32(1), nrows=len(rows), ncols=len(rows))
        self._missing = Vector.from_dense(counts.astype(np.int32))

    def ready(self) -> list[int]:
        """Return the nodes that wait for nothing."""
        found: list[int] = self._missing.select("==", 0).new().to_coo(values=False)[0].tolist()
        return found

    def finish(self, positions: Sequence[int]) -> list[int]:
        """Nodes that were ready have ended well. Returns those that are ready now."""
        ended = Vector.from_coo(positions, np.int32(1), size=self._missing.size)
        news = ended.vxm(self._consumers, semiring.plus_second).new()
        if not news.nvals:
            return []
        self._missing(binary.minus) << news
        left = news.ewise_mult(self._missing, binary.second).new()
        found: list[int] = left.select("==", 0).new().to_coo(values=False)[0].tolist()
        return found

    def missing(self) -> list[int]:
        """Return for each node how many of its dependencies have not ended."""
        numbers: list[int] = self._missing.to_dense().tolist()
        return numbers
