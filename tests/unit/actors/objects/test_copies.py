"""The tables of copies of objects."""

from __future__ import annotations

import pytest

from scaler.actors.objects import copies as module
from scaler.actors.objects.copies import Copies, Retained
from scaler.ids import ObjectId
from scaler.kit import ActorRef
from tests.support.bench import Bench

ONE, TWO, THREE = (ObjectId(bytes([number]) * 16) for number in (1, 2, 3))


@pytest.fixture
def hosts(bench: Bench) -> list[ActorRef]:
    return [bench.recorder()[1] for _ in range(2)]


def test_the_hosts_of_an_object_are_listed_in_the_order_in_which_they_received_it(hosts: list[ActorRef]) -> None:
    copies = Copies()
    for host in (*reversed(hosts), hosts[1]):
        copies.add(ONE, host)
    copies.add(TWO, hosts[0])
    assert list(copies.remove_object(ONE)) == [hosts[1], hosts[0]]
    assert list(copies.remove_object(ONE)) == []
    assert copies.objects == {hosts[0]: {TWO}}


def test_a_removed_host_has_no_copies(hosts: list[ActorRef]) -> None:
    copies = Copies()
    copies.add(ONE, hosts[0])
    copies.add(TWO, hosts[0])
    copies.add(TWO, hosts[1])
    assert copies.remove_host(hosts[0]) == {ONE}
    assert copies.remove_host(hosts[0]) == set()
    assert copies.remove_host(hosts[1]) == {TWO}
    assert (copies.hosts, copies.objects) == ({}, {})


def test_a_retained_object_is_removed_when_its_retention_ends() -> None:
    retained = Retained()
    assert retained.first_end() is None
    for object_id, end in ((ONE, 1.0), (TWO, 2.0), (THREE, 3.0)):
        retained.add(object_id, end, 10)
    retained.remove(TWO)
    retained.remove(TWO)
    assert retained.first_end() == 1.0
    assert retained.take_expired(0.5) == []
    assert retained.take_expired(2.5) == [ONE]
    assert (len(retained), ONE in retained, THREE in retained, retained.size_bytes) == (1, False, True, 10)
    assert retained.take_expired(3.0) == [THREE]
    assert retained.size_bytes == 0


def test_the_oldest_retained_objects_are_removed_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
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
