"""The tables of copies."""

from __future__ import annotations

import pytest

from scaler.actors import copies as module
from scaler.actors.copies import Copies, Retained
from scaler.actors.kit import ActorRef
from scaler.ids import ObjectId
from tests.support.bench import Bench

ONE, TWO, THREE = (ObjectId(bytes([number]) * 16) for number in (1, 2, 3))


@pytest.fixture
def nodes(bench: Bench) -> list[ActorRef]:
    return [bench.recorder()[1] for _ in range(2)]


def test_an_object_is_at_the_nodes_that_got_it_in_that_order(nodes: list[ActorRef]) -> None:
    copies = Copies()
    for node in (*reversed(nodes), nodes[1]):
        copies.add(ONE, node)
    copies.add(TWO, nodes[0])
    assert list(copies.remove_object(ONE)) == [nodes[1], nodes[0]]
    assert list(copies.remove_object(ONE)) == []
    assert copies.objects == {nodes[0]: {TWO}}


def test_a_node_that_is_gone_has_nothing(nodes: list[ActorRef]) -> None:
    copies = Copies()
    copies.add(ONE, nodes[0])
    copies.add(TWO, nodes[0])
    copies.add(TWO, nodes[1])
    assert copies.remove_node(nodes[0]) == {ONE}
    assert copies.remove_node(nodes[0]) == set()
    assert copies.remove_node(nodes[1]) == {TWO}
    assert (copies.nodes, copies.objects) == ({}, {})


def test_what_is_retained_goes_when_its_time_has_come() -> None:
    retained = Retained()
    assert retained.first_end() is None
    for object_id, end in ((ONE, 1.0), (TWO, 2.0), (THREE, 3.0)):
        retained.add(object_id, end, 10)
    retained.remove(TWO)
    retained.remove(TWO)
    assert retained.first_end() == 1.0
    assert retained.take_ended(0.5) == []
    assert retained.take_ended(2.5) == [ONE]
    assert (len(retained), ONE in retained, THREE in retained, retained.size_bytes) == (1, False, True, 10)
    assert retained.take_ended(3.0) == [THREE]
    assert retained.size_bytes == 0


def test_the_first_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETAINED_BYTES_MOST", 25)
    retained = Retained()
    for object_id in (ONE, TWO):
        retained.add(object_id, 1.0, 10)
    assert retained.take_surplus() == []
    retained.add(THREE, 1.0, 20)
    assert retained.take_surplus() == [ONE, TWO]
    retained.add(ONE, 1.0, 100)
    assert retained.take_surplus() == [THREE, ONE]
    assert retained.size_bytes == 0
