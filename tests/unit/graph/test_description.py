from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

from scaler.graph.description import is_call, read


def test_calls_of_a_graph_are_distinguished_from_data() -> None:
    graph = {
        "a": 1,
        "f": abs,
        "t": (1, 2),
        "e": (),
        "b": (abs, "a"),
        "l": [abs, "a"],
        "c": (pow, "b", "b"),
        "d": (list,),
    }
    description = read(graph, ["c", "a"])
    assert description.numbers == {"b": 0, "c": 1, "d": 2}
    assert description.calls == [(abs, "a"), (pow, "b", "b"), (list,)]
    assert description.counts == [0, 2, 0]
    assert description.dependencies == [0, 0]
    assert description.wanted == ["c", "a"]
    assert [key for key, value in graph.items() if is_call(value)] == ["b", "c", "d"]


def test_keys_in_lists_are_found_and_are_no_arguments() -> None:
    graph = {"a": 1, "b": (sum, 3, ["x", "a", "b"], ["a"]), "c": (sum, ["x", 1], ("a",)), "d": ["a"]}
    description = read(graph, ["b"])
    assert description.in_lists == {"b": (2, "a")}
    assert description.dependencies == []
    endless: list[Any] = [1]
    endless.append(endless)
    assert read({"a": 1, "b": (sum, endless), "c": (sum, 1, [2, ["a"]])}, []).in_lists == {"c": (2, "a")}


def test_a_graph_may_be_any_mapping_and_its_keys_any_iterable() -> None:
    description = read(OrderedDict(b=(abs, "a"), a=(int,)), iter(["a"]))
    assert description.numbers == {"b": 0, "a": 1}
    assert description.wanted == ["a"]


@pytest.mark.parametrize(
    ("graph", "keys", "named"),
    [
        ({"a": 1}, ["b"], "'b' is not in the graph"),
        ({"a": 1}, ["a", "a"], "'a' is requested twice"),
        ({"a": (abs, "b")}, ["a"], "'a' needs 'b'"),
        ({"a": 1, "c": (abs, "b")}, ["a"], "'c' needs 'b'"),
    ],
)
def test_an_unknown_or_repeated_key_is_a_key_error(graph: dict[str, Any], keys: list[str], named: str) -> None:
    with pytest.raises(KeyError, match=named):
        read(graph, keys)


@pytest.mark.parametrize(
    ("graph", "keys", "named"),
    [
        ([("a", 1)], ["a"], "not list"),
        ({"a": 1}, "a", "single str"),
        ({"a": 1, 2: 3}, ["a"], "str, not 2"),
        ({"a": 1, "b": (abs, (abs, "a"))}, ["b"], "a key of its own"),
        ({"a": (max, [1, (max, 1, 2)])}, ["a"], "the node 'a' has a call inside a list"),
        ({"a": (max, (1, (max, 1, 2)))}, ["a"], "the node 'a' has a call inside a tuple"),
        ({"a": (len, {"x": (max, 1, 2)})}, ["a"], "the node 'a' has a call inside a dict"),
    ],
)
def test_a_malformed_graph_is_a_type_error(graph: Any, keys: Any, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        read(graph, keys)
