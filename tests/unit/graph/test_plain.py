from __future__ import annotations

from scaler.graph.plain import order


def test_a_chain_of_a_hundred_thousand_nodes_is_ordered_from_its_last_one() -> None:
    count = 100_000
    counts = [1] * (count - 1) + [0]
    dependencies = list(range(1, count))
    assert order(counts, dependencies, [0]) == list(range(count))[::-1]
    assert order(counts, dependencies, [count - 2]) == [count - 1, count - 2]


def test_plain_order_counts_a_repeated_dependency_as_one_node() -> None:
    assert order([0, 2], [0, 0], [1]) == [0, 1]
