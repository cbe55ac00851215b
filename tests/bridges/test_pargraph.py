"""pargraph, as it is published, on Scaler: its engine with our client, and its graphs given to `Client.get`.

Its main uses: each has the value that it has in one process. Its own tests are in `test_theirs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.bridges.needs import needs

pargraph = needs("pargraph")
pytestmark = [pytest.mark.more, pytest.mark.processes]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with SchedulerClusterCombo(2, logging_level="WARNING") as cluster, Client(cluster.get_address()) as client:
        yield client


@pytest.fixture(autouse=True)
def old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """With python-graphblas, pargraph 0.9.6 calls a function that numpy 2.4 has no more under this name."""
    numpy = needs("numpy")
    monkeypatch.setattr(numpy, "in1d", numpy.isin, raising=False)


@pargraph.delayed
def between(values: list, low: int, high: int) -> list:
    return [value for value in values if low <= value < high]


@pargraph.delayed
def in_order(values: list) -> list:
    return sorted(values)


@pargraph.delayed
def joined(*parts: list) -> list:
    return [value for part in parts for value in part]


@pargraph.graph
def parallel_sort(values: list, parts: int) -> list:
    return joined(*(in_order(between(values, part * 100, (part + 1) * 100)) for part in range(parts)))


@pargraph.graph
def sorted_twice(values: list, parts: int) -> list:
    return joined(parallel_sort(values, parts), parallel_sort(values, parts))


VALUES = [number * 37 % 400 for number in range(400)]


@pytest.mark.parametrize("function", [parallel_sort, sorted_twice])
def test_the_engine_of_pargraph_runs_on_a_client(client: Client, function: pargraph.graph) -> None:
    graph, keys = function.to_graph(parts=4).to_dict(values=VALUES)
    [result] = pargraph.GraphEngine(client).get(graph, keys)
    assert result == function(VALUES, 4)


@pytest.mark.parametrize("function", [parallel_sort, sorted_twice])
def test_graphs_of_pargraph_are_valid_graphs(client: Client, function: pargraph.graph) -> None:
    graph, keys = function.to_graph(parts=4).to_dict(values=VALUES)
    assert list(client.get(graph, keys).values()) == [function(VALUES, 4)]


def test_an_exception_arrives(client: Client) -> None:
    graph, keys = parallel_sort.to_graph(parts=4).to_dict(values=[1, "two"])
    with pytest.raises(TypeError, match="not supported between instances"):
        pargraph.GraphEngine(client).get(graph, keys)
