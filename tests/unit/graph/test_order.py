from __future__ import annotations

import graphlib
from typing import Any

import pytest

from scaler.graph.description import read
from scaler.graph.order import order


def ordered(graph: dict[str, Any], *keys: str) -> list[str]:
    description = read(graph, keys)
    names = list(description.numbers)
    return [names[number] for number in order(description)]


def test_only_what_is_needed_in_an_order_in_which_it_can_run() -> None:
    graph = {"d": (max, "b", "c"), "c": (abs, "a"), "b": (abs, "a"), "a": (int,), "unneeded": (abs, "d"), "data": 1}
    assert ordered(graph, "d") == ["a", "c", "b", "d"]
    assert ordered(graph, "b") == ["a", "b"]
    assert ordered(graph, "data") == []


@pytest.mark.parametrize("asked", ["a", "other"])
def test_a_cycle_is_an_error_that_names_it_wherever_it_is(asked: str) -> None:
    graph = {"other": (int,), "a": (abs, "b"), "b": (abs, "c"), "c": (max, "b", "other")}
    with pytest.raises(graphlib.CycleError) as caught:
        ordered(graph, asked)
    text, circle = caught.value.args
    assert "cycle" in text
    assert circle in (["b", "c", "b"], ["c", "b", "c"])


def test_a_node_that_depends_on_itself_is_a_cycle() -> None:
    with pytest.raises(graphlib.CycleError) as caught:
        ordered({"a": (abs, "a")}, "a")
    assert caught.value.args[1] == ["a", "a"]
