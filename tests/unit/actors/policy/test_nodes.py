"""The resources of nodes, and their free amounts, as reported by their workers."""

from __future__ import annotations

from collections import Counter

from scaler.actors.policy.nodes import NodeResources, Nodes
from scaler.actors.vocabulary.needs import Needs, Offer

GPU, TWO = Needs((("gpu", 1),)), Needs((("gpu", 2),))
THERE = Needs((("gpu", 0),))
OFFER = Offer((("gpu", 2), ("memory", 100)), 2)


def full_node() -> NodeResources[str]:
    node: NodeResources[str] = NodeResources(OFFER, Counter())
    node.join("one", (), is_unsure=False)
    node.join("two", (), is_unsure=False)
    return node


def test_a_node_can_take_tasks_whose_resources_are_free() -> None:
    node = full_node()
    assert node.can_take(TWO)
    node.change("one", GPU, 1)
    assert not node.can_take(TWO)
    assert node.could_take(TWO)
    assert node.can_take(GPU)
    node.change("two", Needs((("gpu", 1), ("memory", 60))), 1)
    assert node.free == {"gpu": 0, "memory": 40}
    assert not node.can_take(GPU)
    assert node.can_take(THERE)
    assert not node.can_take(Needs((("memory", 41),)))
    node.change("one", GPU, -1)
    assert node.can_take(GPU)
    assert not node.could_take(Needs((("ssd", 0),)))
    assert not node.could_take(Needs((("gpu", 3),)))


def test_resources_may_be_overcommitted_and_are_not_free_then() -> None:
    node = full_node()
    node.change("one", TWO, 2)
    assert node.free["gpu"] == -2
    assert not node.can_take(GPU)
    assert node.can_take(THERE)


def test_no_more_resources_are_returned_than_were_taken() -> None:
    node = full_node()
    node.change("one", GPU, 1)
    node.change("two", GPU, -1)
    node.change("one", GPU, -5)
    assert node.free == dict(OFFER.amounts)


def test_a_worker_that_leaves_frees_its_resources_until_it_joins_again() -> None:
    node = full_node()
    node.change("one", GPU, 1)
    node.change("two", GPU, 1)
    node.leave("one")
    assert node.free["gpu"] == 1
    assert not node.can_take(GPU)  # before all have joined, it is not known what is free
    node.join("one", ((GPU, 1),), is_unsure=False)
    assert node.free["gpu"] == 0


def test_a_node_takes_no_requests_while_the_runs_of_a_worker_are_unknown() -> None:
    node: NodeResources[str] = NodeResources(Offer((("gpu", 1),), 1), Counter())
    node.join("one", (), is_unsure=True)
    assert not node.can_take(GPU)
    assert node.could_take(GPU)
    node.set_sure("one", is_sure=True)
    assert node.can_take(GPU)
    node.set_sure("one", is_sure=False)
    node.leave("one")
    node.join("one", (), is_unsure=False)
    assert node.can_take(GPU)


def test_resources_that_a_node_does_not_have_are_not_counted() -> None:
    node = full_node()
    node.change("one", Needs((("ssd", 1), ("gpu", 1))), 1)
    assert node.free == {"gpu": 1, "memory": 100}


def test_a_node_is_added_with_its_first_worker_and_removed_with_its_last() -> None:
    nodes: Nodes = Nodes()
    node = nodes.join("one", "host", OFFER, (), is_unsure=False)
    assert node is not None
    assert nodes.join("two", "host", OFFER, (), is_unsure=False) is None
    assert list(nodes.hosts()) == [nodes.host_of("one")] == ["host"]
    assert nodes.get("host") is nodes.of_worker("two") is node
    assert nodes.able(TWO) == [node]
    assert nodes.most() == dict(OFFER.amounts)
    assert nodes.leave("one") is None
    assert nodes.leave("one") is None
    assert nodes.leave("two") is node
    assert (nodes.host_of("one"), nodes.get("host"), nodes.of_worker("one"), nodes.able(GPU)) == (None, None, None, [])
