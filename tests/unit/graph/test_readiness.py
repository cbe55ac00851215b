from __future__ import annotations

import pytest

from scaler.graph.readiness import FAILED, FINISHED, READY, WAITING, Readiness, positions


def graph(*dependencies: tuple[int, ...]) -> Readiness:
    readiness = Readiness()
    for each in dependencies:
        readiness.add(each)
    return readiness


def test_a_node_is_ready_when_all_its_dependencies_have_finished() -> None:
    diamond = graph((), (0,), (0,), (1, 2))
    assert [diamond.state(position) for position in range(len(diamond))] == [READY, WAITING, WAITING, WAITING]
    assert diamond.finish(0) == [1, 2]
    assert diamond.finish(2) == []
    assert diamond.finish(1) == [3]
    assert diamond.finish(3) == []
    assert {diamond.state(position) for position in range(4)} == {FINISHED}


def test_a_failed_node_fails_all_its_dependents_and_no_other_node() -> None:
    nodes = graph((), (), (0,), (1,), (2, 3), (4,))
    assert list(nodes.fail(0)) == [2, 4, 5]
    assert nodes.finish(1) == [3]
    assert nodes.finish(3) == []
    assert nodes.state(4) == FAILED


def test_nodes_added_after_their_dependencies_ended_are_ready_or_failed_at_once() -> None:
    nodes = graph((), ())
    nodes.finish(0)
    assert list(nodes.fail(1)) == []
    assert nodes.add((0,)) == READY
    assert nodes.add((0, 1)) == FAILED
    assert nodes.add((3,)) == FAILED


def test_a_node_can_depend_only_on_earlier_nodes() -> None:
    nodes = graph(())
    for bad in (1, 2, -1):
        with pytest.raises(ValueError, match="does not come before"):
            nodes.add((bad,))
    assert len(nodes) == 1


def test_nodes_may_finish_and_be_added_while_a_failure_spreads() -> None:
    nodes = graph((), (), (0,), (0, 1), (2,))
    failing = nodes.fail(0)
    assert next(failing) == 2
    assert nodes.finish(1) == []  # nor a node that is about to fail
    assert nodes.add((2,)) == FAILED
    assert nodes.add((4,)) == WAITING
    assert list(failing) == [3, 4, 6]
    assert nodes.state(6) == FAILED


def test_a_chain_of_a_hundred_thousand_nodes_fails_without_recursion() -> None:
    chain = graph((), *((position,) for position in range(100_000)))
    assert sum(1 for _ in chain.fail(0)) == 100_000


def test_packed_positions_are_read_in_their_order() -> None:
    assert positions(b"\2\0\0\0\0\1\0\0") == (2, 256)
    assert positions(b"") == ()
