"""Threads of BLAS and OpenMP: divided by the workers, unless the user has said otherwise."""

from __future__ import annotations

import os

import pytest

from scaler.executors.processes.pool import math_threads
from scaler.executors.processes.pool.math_threads import VARIABLES, thread_limits
from tests.support.node import Node


@pytest.mark.parametrize(("workers", "threads"), [(1, "8"), (3, "2"), (8, "1"), (64, "1")])
def test_cores_are_divided_by_the_workers(monkeypatch: pytest.MonkeyPatch, workers: int, threads: str) -> None:
    monkeypatch.setattr(math_threads, "usable_cores", lambda: 8)
    assert thread_limits({}, workers) == dict.fromkeys(VARIABLES, threads)


def test_what_the_user_has_said_stays() -> None:
    assert "MKL_NUM_THREADS" not in thread_limits({"MKL_NUM_THREADS": "4"}, 1)
    assert len(thread_limits({"MKL_NUM_THREADS": "4"}, 1)) == len(VARIABLES) - 1
    assert thread_limits({"OMP_NUM_THREADS": "4"}, 1) == {}


@pytest.mark.processes
@pytest.mark.parametrize("said", [None, "7"])
def test_tasks_find_them_in_their_environment(monkeypatch: pytest.MonkeyPatch, said: str | None) -> None:
    monkeypatch.setattr(math_threads, "usable_cores", lambda: 6)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if said is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", said)
    node = Node(2)
    try:
        node.run(node.task(lambda: [os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]))
        node.until(lambda: node.results)
        assert node.values() == [["3", said or "3"]]
    finally:
        node.close()
