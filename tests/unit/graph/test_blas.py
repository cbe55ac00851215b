from __future__ import annotations

import graphlib

import pytest

pytest.importorskip("graphblas")

from scaler.graph import blas, plain


def test_nodes_are_ordered_by_waves_and_unneeded_ones_are_left_out() -> None:
    counts, dependencies = [0, 1, 2, 1, 0], [0, 0, 1, 4]
    assert blas.order(counts, dependencies, [2]) == [0, 1, 2]
    assert blas.order(counts, dependencies, [3, 3, 2]) == [0, 4, 1, 3, 2]
    assert blas.order(counts, dependencies, []) == []


def test_a_repeated_dependency_counts_as_one_node() -> None:
    assert blas.order([0, 2], [0, 0], [1]) == [0, 1]


def test_graphs_without_edges_or_nodes_are_ordered() -> None:
    assert blas.order([0, 0], [], [1]) == [1]
    assert blas.order([], [], []) == []


def test_a_cycle_is_named() -> None:
    with pytest.raises(graphlib.CycleError) as caught:
        blas.order([0, 1, 1, 1], [0, 3, 2], [0])
    assert caught.value.args[1] in ([2, 3, 2], [3, 2, 3])


def test_a_graph_that_is_only_a_cycle_is_a_cycle_error() -> None:
    with pytest.raises(graphlib.CycleError):
        blas.order([1, 1], [1, 0], [])


def test_a_long_chain_is_ordered_in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(plain, "order", lambda counts, *_: seen.append(len(counts)) or [0])
    count = blas.TRIAL_WAVES + 1
    assert blas.order([0, *[1] * (count - 1)], list(range(count - 1)), [count - 1]) == [0]
    assert seen == [count]
