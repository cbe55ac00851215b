from __future__ import annotations

import graphlib
import sys
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.graph import plain
from scaler.graph.description import read
from scaler.graph.order import BACK_END_VARIABLE, IMPORT_PAYS_NODES, USE_PAYS_NODES, back_end, order


def ordered(graph: dict[str, Any], *keys: str) -> list[str]:
    description = read(graph, keys)
    names = list(description.numbers)
    return [names[number] for number in order(description)]


def test_needed_nodes_have_an_order_in_which_they_can_run() -> None:
    graph = {"d": (max, "b", "c"), "c": (abs, "a"), "b": (abs, "a"), "a": (int,), "unneeded": (abs, "d"), "data": 1}
    assert ordered(graph, "d") == ["a", "c", "b", "d"]
    assert ordered(graph, "b") == ["a", "b"]
    assert ordered(graph, "data") == []


@pytest.mark.parametrize("asked", ["a", "other"])
def test_a_cycle_anywhere_in_a_graph_is_an_error_that_names_it(asked: str) -> None:
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


class TestBackEnd:
    def test_graphblas_orders_large_graphs_and_smaller_ones_once_it_is_imported(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blas = pytest.importorskip("scaler.graph.blas")
        monkeypatch.delenv(BACK_END_VARIABLE, raising=False)
        assert back_end(USE_PAYS_NODES - 1) is plain.order
        assert back_end(USE_PAYS_NODES) is blas.order
        monkeypatch.delitem(sys.modules, "graphblas")
        assert back_end(IMPORT_PAYS_NODES - 1) is plain.order
        monkeypatch.setattr("scaler.graph.order.import_module", lambda _name: blas)
        assert back_end(IMPORT_PAYS_NODES) is blas.order

    def test_the_environment_variable_chooses_the_back_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(BACK_END_VARIABLE, "python")
        assert back_end(IMPORT_PAYS_NODES) is plain.order
        blas = pytest.importorskip("scaler.graph.blas")
        monkeypatch.setenv(BACK_END_VARIABLE, "graphblas")
        assert back_end(1) is blas.order
        assert ordered({"a": (int,), "b": (abs, "a"), "c": (abs, "a")}, "b") == ["a", "b"]

    def test_an_unknown_back_end_and_one_that_is_not_installed_are_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(BACK_END_VARIABLE, "fast")
        with pytest.raises(ConfigError, match="auto, python or graphblas, not 'fast'"):
            back_end(1)
        monkeypatch.setattr("scaler.graph.order.find_spec", lambda _name: None)
        monkeypatch.setenv(BACK_END_VARIABLE, "graphblas")
        with pytest.raises(ConfigError, match="pip install"):
            back_end(1)
        monkeypatch.setenv(BACK_END_VARIABLE, "auto")
        assert back_end(IMPORT_PAYS_NODES) is plain.order
