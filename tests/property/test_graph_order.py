"""Whatever the graph is: both back-ends find the cycles that `graphlib` finds, and else an order of what is needed."""

from __future__ import annotations

import graphlib
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.graph import plain
from scaler.wire.messages.common import TaskStatus
from tests.support.configs import scheduler_config
from tests.support.simulation import Simulation

BACK_ENDS = [pytest.param(plain.order, id="python")]
try:
    from scaler.graph import blas
except ImportError:
    pass
else:
    BACK_ENDS.append(pytest.param(blas.order, id="graphblas"))

Order = Callable[[list[int], list[int], list[int]], list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """The dependencies of each node, some twice; with and without cycles; and nodes that are wanted."""
    count = draw(st.integers(1, 12))
    node = st.integers(0, count - 1)
    if draw(st.booleans()):  # no cycle: a node needs only those before it in some order
        rank = draw(st.permutations(range(count)))
        needs = [[d for d in draw(st.lists(node, max_size=4)) if rank[d] < rank[n]] for n in range(count)]
    else:
        needs = [draw(st.lists(node, max_size=2)) for _ in range(count)]
    return needs, draw(st.lists(node, max_size=4))


def has_cycle(needs: list[list[int]]) -> bool:
    try:
        graphlib.TopologicalSorter(dict(enumerate(needs))).prepare()
    except graphlib.CycleError:
        return True
    return False


def needed_for(wanted: list[int], needs: list[list[int]]) -> set[int]:
    reached = list(dict.fromkeys(wanted))
    for node in reached:
        reached += [each for each in dict.fromkeys(needs[node]) if each not in reached]
    return set(reached)


@pytest.mark.parametrize("order", BACK_ENDS)
@given(graphs())
def test_order_is_what_is_needed_each_after_its_dependencies(
    order: Order, graph: tuple[list[list[int]], list[int]]
) -> None:
    needs, wanted = graph
    counts, dependencies = list(map(len, needs)), [each for node in needs for each in node]
    if has_cycle(needs):
        with pytest.raises(graphlib.CycleError) as caught:
            order(counts, dependencies, wanted)
        circle = caught.value.args[1]
        assert circle[0] == circle[-1]
        assert all(before in needs[node] for before, node in pairwise(circle))
        return
    ordered = order(counts, dependencies, wanted)
    assert len(ordered) == len(set(ordered))
    assert set(ordered) == needed_for(wanted, needs)
    place = {node: index for index, node in enumerate(ordered)}
    assert all(place[each] < place[node] for node in ordered for each in needs[node])


@given(graphs(), st.integers(1, 3))
def test_in_that_order_all_tasks_run_at_a_scheduler_each_after_its_dependencies(
    graph: tuple[list[list[int]], list[int]], workers: int
) -> None:
    needs, _ = graph
    if has_cycle(needs):
        return
    ordered = plain.order(list(map(len, needs)), [each for node in needs for each in node], list(range(len(needs))))
    place = {node: index for index, node in enumerate(ordered)}
    shape = [list(dict.fromkeys(place[each] for each in needs[node])) for node in ordered]
    simulation = Simulation(scheduler_config())
    client, agent = simulation.client(), simulation.agent(workers)
    graph_id = client.submit_graph(shape, range(len(shape)))
    simulation.advance(60.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * len(shape)
    positions = {task.task_id: position for position, task in enumerate(client.graphs[graph_id])}
    started = [positions[run.task_id] for run in agent.started]
    assert all(set(shape[position]) <= set(started[:at]) for at, position in enumerate(started))
    client.leave()
    simulation.advance(1.0)
    simulation.check_empty()
