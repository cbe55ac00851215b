"""Results that tasks need and that are lost with their agent: their clients send the calls once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.ids import GraphId, ObjectId, TaskId, split_ids
from scaler.keys.allowed import OwnerTerms
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import OBJECT, VALUE, argument_block
from scaler.wire.messages.client import ExplainRequest, ExplainResponse, InputResult, TaskResult
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, TaskStatus
from scaler.wire.messages.vocabulary import INPUTS, split_failed_input
from scaler.wire.messages.worker import RunTask
from tests.support.configs import scheduler_config
from tests.support.simulation import Execute, Outcome, SimulatedAgent, Simulation, succeed
from tests.unit.actors.dependencies.conftest import (
    await_results,
    by_task,
    in_turn,
    large,
    leave_and_check,
    located,
    packed,
    requested,
    slow,
    task,
    task_id,
)

SUCCESS, MISSING = TaskStatus.SUCCESS, TaskStatus.MISSING_OBJECTS


def missing(_run: RunTask) -> Outcome:
    """Return what a run returns that cannot read one of its arguments."""
    return Outcome(MISSING, b"an object is missing", 1.0)


class Scene:
    """A client, an agent whose results will be lost, and another one that is busy with one task for 30 seconds."""

    def __init__(
        self,
        simulation: Simulation,
        shape: list[tuple[int, ...]],
        *wanted: int,
        busy: int,
        user: str = "",
        numbers_tasks: bool = True,
    ) -> None:
        """Submit a graph, in which `busy` is the position of the long task. The results before it are located."""
        self.simulation, self.client = simulation, simulation.client(user=user)
        self.client.numbers_tasks = numbers_tasks
        self.graph_id = self.client.submit_graph(shape, wanted)
        self.nodes = [each.task_id for each in self.client.graphs[self.graph_id]]
        self.executes: dict[TaskId, Execute] = dict.fromkeys(self.nodes[:busy], located)
        self.executes[self.nodes[busy]] = slow
        self.busy = busy
        for _ in range(2):
            simulation.agent(1, by_task(self.executes))
        if shape[busy]:
            (first,) = (each for each in self.agents if each.queued)
            (other,) = (each for each in self.agents if not each.queued)
            first.close_workers(1)  # so that the long task runs elsewhere
            other.kept.update(map(ObjectId, self.nodes[:busy]))  # so that it makes no copy
        simulation.advance(1.0)

    @property
    def agents(self) -> list[SimulatedAgent]:
        return [each for each in self.simulation.peers if isinstance(each, SimulatedAgent)]

    @property
    def busy_agent(self) -> SimulatedAgent:
        (agent,) = (each for each in self.agents if self.nodes[self.busy] in each.queued)
        return agent

    def lose(self) -> None:
        """Let the agent leave that has the results, with all of these; another one takes its place."""
        busy = self.busy_agent
        for agent in self.agents:
            if agent is not busy and not agent.is_gone:
                agent.leave()
        self.simulation.run()
        self.simulation.agent(1, by_task(self.executes))

    def runs(self) -> list[int]:
        """Return the positions of all started tasks, in the order of their starts."""
        runs = sorted((run for agent in self.agents for run in agent.started), key=lambda run: run.attempt)
        return [self.nodes.index(run.task_id) for run in runs if run.task_id in self.nodes]

    def run(self, position: int) -> RunTask:
        """Return the last run of a task."""
        return [run for agent in self.agents for run in agent.started if run.task_id == self.nodes[position]][-1]

    def end(self) -> None:
        leave_and_check(self.simulation, self.client)


@pytest.mark.parametrize("numbers_tasks", [False, True])
def test_a_lost_result_is_made_again_for_the_tasks_that_wait_for_it(
    simulation: Simulation, *, numbers_tasks: bool
) -> None:
    scene = Scene(simulation, [(), (), (0, 1), (0,)], 2, busy=1, numbers_tasks=numbers_tasks)
    scene.lose()
    simulation.advance(100.0)
    assert requested(scene.client) == [scene.nodes[0]]
    assert scene.client.statuses() == [SUCCESS]
    assert sorted(scene.runs()) == [0, 0, 1, 2, 3]
    assert scene.run(2).payload == argument_block(OBJECT, scene.nodes[0]) + argument_block(VALUE, b"done")
    assert (scene.client.surplus, scene.client.lost) == ([], [])


@pytest.mark.parametrize("execute", [located, succeed, large])
def test_a_lost_result_and_the_dropped_results_that_it_needs_are_requested_in_turn(
    simulation: Simulation, execute: Execute
) -> None:
    scene = Scene(simulation, [(), (0,), (0, 1), (2,), (), (3, 4)], 5, busy=4)
    scene.executes.update(dict.fromkeys(scene.nodes[:3], execute))
    scene.lose()
    simulation.advance(100.0)
    assert requested(scene.client) == [scene.nodes[each] for each in (3, 2, 0, 1)]
    assert scene.client.statuses() == [SUCCESS]
    assert scene.runs()[-5:] == [0, 1, 2, 3, 5]
    assert scene.client.surplus == []


def test_several_results_that_are_lost_together_are_each_made_again_once(simulation: Simulation) -> None:
    """Task 1 is lost too, and needs task 0 both when it ran first and when it runs again."""
    scene = Scene(simulation, [(), (0,), (), (1, 2), (0, 2)], 3, 4, busy=2)
    scene.lose()
    simulation.advance(100.0)
    assert requested(scene.client) == scene.nodes[:2]
    assert scene.client.statuses() == [SUCCESS] * 2
    assert sorted(scene.runs()) == [0, 0, 1, 1, 2, 3, 4]


@pytest.mark.parametrize(("is_made_before", "second"), [(False, slow), (True, slow), (True, missing)])
def test_a_task_that_could_not_read_a_result_lost_after_its_start_runs_again_once(
    simulation: Simulation, *, is_made_before: bool, second: Execute
) -> None:
    scene = Scene(simulation, [(), (0,)], 1, busy=1)
    scene.executes[scene.nodes[1]] = second
    if is_made_before:
        scene.busy_agent.slots[0].outcome = Outcome(MISSING, b"an object is missing", 30.0)
    else:
        scene.executes[scene.nodes[0]] = lambda run: replace(located(run), seconds=60.0)
        scene.busy_agent.slots[0].outcome = Outcome(MISSING, b"an object is missing", 2.0)
        scene.busy_agent.slots[0].ends = simulation.clock() + 2.0
    scene.lose()
    simulation.advance(100.0)
    assert scene.client.statuses() == [MISSING if second is missing else SUCCESS]
    assert requested(scene.client) == [scene.nodes[0]]
    assert sorted(scene.runs()) == [0, 0, 1, 1]
    assert scene.run(1).payload == argument_block(OBJECT, scene.nodes[0])


def test_a_task_that_misses_an_object_without_a_loss_fails(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit_graph([(), (0,), (1,)], [1, 2])
    simulation.agent(1, in_turn(large, missing))
    simulation.advance(5.0)
    assert client.statuses() == [MISSING] * 2
    assert requested(client) == []


def test_a_lost_result_that_no_task_needs_any_more_is_not_requested(simulation: Simulation) -> None:
    scene = Scene(simulation, [(), (0,), (), (2,)], 1, 2, 3, busy=2)
    assert scene.runs() == [0, 2, 1]
    scene.lose()
    simulation.advance(100.0)
    assert requested(scene.client) == []
    assert scene.client.lost == [scene.nodes[1]]
    assert scene.client.statuses() == [SUCCESS] * 3
    assert simulation.graphs() == []


@pytest.mark.parametrize("ends", ["graph", "nothing"])
def test_a_requested_result_that_no_task_needs_any_more_can_be_needed_later(simulation: Simulation, ends: str) -> None:
    """The task that needs it was running when it was lost, and succeeds."""
    scene = Scene(simulation, [(), (0,), (1,)], 1, 2, busy=1)
    client = scene.client
    client._supply = list[TaskId]().append  # it does not answer
    scene.executes[scene.nodes[2]] = succeed if ends == "graph" else slow
    scene.lose()
    simulation.advance(40.0)
    assert requested(client) == [scene.nodes[0]]
    assert client.statuses() == [SUCCESS, SUCCESS if ends == "graph" else None]
    del client._supply
    single = client.submit_with_results(scene.nodes[0])
    simulation.advance(100.0)
    assert client.statuses([single]) == [SUCCESS]
    assert requested(client) == [scene.nodes[0]] * 2


def test_tasks_fail_with_a_result_that_was_lost_too_often(simulation: Simulation) -> None:
    scene = Scene(simulation, [(), (), (0, 1), (2,), ()], 2, 3, 4, busy=1)
    for _ in range(TRIES_MOST - 1):
        scene.lose()
        simulation.advance(1.0)
        assert scene.client.statuses() == [None, None, SUCCESS]
    scene.lose()
    simulation.advance(1.0)
    assert scene.client.statuses() == [MISSING, MISSING, SUCCESS]
    sentence = f"a result that it needs was lost {TRIES_MOST} times, the last time because "
    for node in scene.nodes[2:4]:
        name, reason = split_failed_input(scene.client.results[node].payload)
        assert name == scene.nodes[0]
        assert reason.startswith(sentence.encode())
    assert requested(scene.client) == [scene.nodes[0]] * (TRIES_MOST - 1)
    simulation.advance(100.0)


def test_losses_are_not_counted_beyond_the_need_for_a_result(simulation: Simulation) -> None:
    scene = Scene(simulation, [(), (), (0, 1)], 2, busy=1)
    for _ in range(TRIES_MOST - 1):
        scene.lose()
        simulation.advance(1.0)
    simulation.advance(40.0)
    (busy,) = scene.client.submit(1)
    scene.executes[busy] = slow
    single = scene.client.submit_with_results(scene.nodes[0], busy)
    simulation.advance(1.0)
    for agent in [agent for agent in scene.agents if not agent.is_gone and busy not in agent.queued]:
        agent.leave()
    simulation.agent(1)
    simulation.advance(40.0)
    assert scene.client.statuses() == [SUCCESS] * 3
    assert scene.client.statuses([single]) == [SUCCESS]


@pytest.mark.parametrize("answer", [(MISSING, b"it may not run again"), (SUCCESS, b"value"), (SUCCESS, b"", 5)])
def test_what_its_client_has_in_place_of_a_lost_result_is_used(simulation: Simulation, answer: tuple[Any, ...]) -> None:
    """That is why it does not make the result again, or the result, inside of the answer or as an object."""
    scene = Scene(simulation, [(), (0,), (), (1, 2), (0, 2)], 3, 4, busy=2)
    client, node, (status, payload, *_) = scene.client, scene.nodes[1], answer
    supply, make = client._supply, ObjectInstruction(InstructionKind.CREATE, ObjectId(node), "", [b"value"])
    said = [*[make] * (status == SUCCESS), InputResult(node, *answer)]
    client._supply = lambda task_id: client.say(*said) if task_id == node else supply(task_id)
    scene.lose()
    simulation.advance(100.0)
    assert client.statuses() == [status, SUCCESS]
    if status == SUCCESS:
        argument = argument_block(VALUE, payload) if payload else argument_block(OBJECT, node)
        assert scene.run(3).payload.startswith(argument)
    else:
        assert split_failed_input(client.results[scene.nodes[3]].payload) == (node, payload)


def test_a_client_that_says_in_vain_that_a_result_is_stored_is_asked_a_few_times(simulation: Simulation) -> None:
    scene = Scene(simulation, [(), (), (0, 1)], 2, busy=1)
    client = scene.client
    client._supply = lambda task_id: client.say(InputResult(task_id, SUCCESS, b"", 5))
    scene.lose()
    simulation.advance(1.0)
    assert client.statuses() == [MISSING]
    assert requested(client) == [scene.nodes[0]] * (TRIES_MOST - 1)
    simulation.advance(100.0)


def test_a_lost_result_is_made_again_although_its_owner_and_client_have_as_many_tasks_as_they_may() -> None:
    simulation = Simulation(scheduler_config(client_tasks=1))
    owner = simulation.tree.directory.owners.of("alice", OwnerTerms(tasks=5))
    scene = Scene(simulation, [(), (0,), (), (1, 2), (1, 2)], 3, 4, busy=2, user="alice")
    others = [*scene.client.submit(3)]
    simulation.run()
    assert owner.tasks == 5
    scene.lose()
    scene.executes.update(dict.fromkeys(others, slow))
    simulation.advance(200.0)
    assert scene.client.statuses(scene.nodes[3:]) == [SUCCESS] * 2
    assert owner.tasks == owner.held == 0
    scene.end()


@pytest.mark.parametrize("answers", ["before", "after", "never"])
def test_a_graph_that_is_cancelled_while_a_lost_result_is_awaited_ends(simulation: Simulation, answers: str) -> None:
    scene = Scene(simulation, [(), (0,), (), (1, 2)], 3, busy=2)
    client, asked = scene.client, list[TaskId]()
    scene.executes[scene.nodes[1]] = slow
    if answers != "before":
        client._supply = asked.append
    scene.lose()
    simulation.advance(1.0)
    client.cancel(scene.nodes[3])
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.CANCELED]
    assert simulation.graphs() == []
    if answers == "after":
        del client._supply
        for each in asked:
            client._supply(each)
    simulation.advance(100.0)
    assert all(not agent.queued for agent in scene.agents)
    assert client.surplus == []


@pytest.mark.parametrize("needs", ["graph", "inputs"])
def test_a_lost_result_that_the_client_wants_too_is_made_again_and_reported_once_more(
    simulation: Simulation, needs: str
) -> None:
    client = simulation.client()
    client.numbers_tasks = True
    if needs == "graph":
        first, busy, _last = (each.task_id for each in client.graphs[client.submit_graph([(), (), (0, 1)], range(3))])
    else:
        first, busy = client.submit(2)
        client.submit_with_results(first, busy)
    agents = [simulation.agent(1, by_task({first: located, busy: slow})) for _ in range(2)]
    simulation.advance(1.0)
    (agent,) = (each for each in agents if first not in each.queued and busy not in each.queued)
    agent.leave()
    simulation.agent(1)
    simulation.advance(100.0)
    assert client.lost == requested(client) == [first]
    assert client.statuses() == [SUCCESS] * 3
    assert [result.task_id for result in client.said(TaskResult)].count(first) == 2
    assert client.surplus == []


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_result_that_is_lost_while_the_client_is_disconnected_is_requested_afterwards(
    simulation: Simulation, *, goes_on: bool
) -> None:
    scene = Scene(simulation, [(), (0,), (), (1, 2)], 3, busy=2)
    single = scene.client.submit_with_results(scene.nodes[1], scene.nodes[2])
    simulation.advance(1.0)
    scene.client.cut()
    scene.lose()
    simulation.advance(1.0)
    scene.client.goes_on = goes_on
    scene.client.connect()
    simulation.advance(100.0)
    assert scene.client.statuses([scene.nodes[3], single]) == [SUCCESS] * 2
    assert scene.client.surplus == []


def test_the_lost_result_of_a_task_in_no_graph_is_requested_in_a_new_session(simulation: Simulation) -> None:
    client = simulation.client()
    first, busy = client.submit(2)
    last = client.submit_with_results(first, busy)
    agents = [simulation.agent(1, by_task({first: located, busy: slow})) for _ in range(2)]
    simulation.advance(1.0)
    client.cut()
    (agent,) = (each for each in agents if busy not in each.queued)
    agent.leave()
    simulation.agent(1)
    simulation.advance(1.0)
    client.connect()
    client.gone.add(first)  # as the last session has reported
    simulation.advance(100.0)
    assert requested(client) == [first]
    assert client.statuses() == [SUCCESS] * 3
    assert client.statuses([last]) == [SUCCESS]


def test_a_result_that_is_lost_before_the_tasks_arrive_that_need_it_is_made_again(simulation: Simulation) -> None:
    client = simulation.client()
    graph = [
        task(client, 1, graph_id=GraphId(b"g" * 16), graph_tasks=2, unwanted=1),
        task(client, 2, 1, graph_id=GraphId(b"g" * 16), graph_tasks=2, dependencies=packed(0)),
    ]
    await_results(client, *graph)
    agent = simulation.agent(1, located)
    client.say(graph[0])
    simulation.advance(1.0)
    agent.leave()
    simulation.advance(1.0)
    assert requested(client) == []
    simulation.agent(1)
    client.say(graph[1])
    simulation.advance(5.0)
    assert client.statuses([graph[1].task_id]) == [SUCCESS]


def test_the_loss_of_a_result_that_was_kept_for_two_tasks_with_one_id_is_noticed(simulation: Simulation) -> None:
    """The result of the first task is not needed any more when it is lost."""
    client = simulation.client()
    client._supply = list[TaskId]().append  # it does not answer
    tasks = [
        *[task(client, 1, unwanted=1)] * 2,
        task(client, 2, 1, dependencies=packed(0)),
        task(client, 3, 2, dependencies=packed(1), inputs=task_id(9)),
    ]
    agent = simulation.agent(1, in_turn(located, located, succeed))
    for each in tasks:
        client.say(replace(each, graph_id=GraphId(b"g" * 16), graph_tasks=len(tasks)))
        simulation.advance(1.0)
    assert [result.task_id for result in client.surplus] == [task_id(2)]
    agent.leave()
    simulation.advance(1.0)
    assert requested(client) == [task_id(9), task_id(1)]


def test_a_task_that_waits_for_a_requested_result_says_so(simulation: Simulation) -> None:
    scene = Scene(simulation, [(), (), (0, 1)], 2, busy=1)
    scene.client._supply = list[TaskId]().append  # it does not answer
    scene.lose()
    scene.client.say(ExplainRequest(scene.nodes[2]))
    simulation.run()
    (answer,) = scene.client.said(ExplainResponse)
    assert answer.waits_for == INPUTS
    assert answer.sentence.endswith("is requested from its client")
    simulation.advance(50.0)


a_shape = st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=2, max_size=6).map(
    lambda needs: [tuple(sorted({each % at for each in needs[at]})) if at else () for at in range(len(needs))]
)
a_submission = st.one_of(
    st.tuples(a_shape, st.sets(st.integers(0, 5), max_size=2)),
    st.lists(st.integers(0, 20), max_size=3).map(tuple),
)
an_event = st.sampled_from(
    [0.05, 0.15, 0.25, 1.0, 5.0, *["lose"] * 5, "crash", "crash", "connect", "resume", "restart"]
)
some_executes = st.lists(st.sampled_from([succeed, large, *[located] * 4, *[slow] * 3]), min_size=1, max_size=5)


class Losses:
    """A client that keeps to the protocol, and two agents, of which the older one may leave at any time."""

    def __init__(self, executes: Sequence[Execute], *, makes_copies: bool) -> None:
        self.simulation = Simulation()
        self.client = self.simulation.client()
        self.client.numbers_tasks = True
        self._executes, self._makes_copies = cycle(executes), makes_copies
        self._agents: list[SimulatedAgent] = []
        self._n_lost = 0
        self._add_agents()

    def _add_agents(self) -> None:
        for _ in range(2 - len(self._agents)):
            agent = self.simulation.agent(1, self._execute)
            if not self._makes_copies:
                vars(agent)["fetch"] = list[ObjectId]().append
            self._agents.append(agent)

    def _execute(self, run: RunTask) -> Outcome:
        return next(self._executes)(run)

    def take(self, step: Any) -> None:
        if isinstance(step, float):
            self.simulation.advance(step)
        elif step in ("lose", "crash"):
            self._n_lost += 1
            if self._n_lost < TRIES_MOST:
                self._lose(step)
        elif step in ("connect", "resume"):
            self.client.goes_on = step == "resume"
            self.client.connect()
        elif step == "restart":
            self._restart()
        else:
            self._submit(step)
        self.simulation.run()

    def _submit(self, step: Any) -> None:
        client, known = self.client, list(self.client.calls)
        if step and isinstance(step[0], list):
            shape, wanted = step
            client.submit_graph(shape, {len(shape) - 1, *(each for each in wanted if each < len(shape))})
        else:
            client.submit_with_results(*dict.fromkeys(known[each % len(known)] for each in step if known))

    def _lose(self, how: str) -> None:
        agent, objects = self._agents.pop(0), self.simulation.tree.objects.objects
        (agent.leave if how == "lose" else agent.die)()
        self.simulation.run()
        for slot in (slot for each in self._agents for slot in each.slots if slot.outcome is not None):
            needed = [objects.get(ObjectId(each)) for each in split_ids(slot.queue[0].object_ids)]
            if any(each is None or each.lost for each in needed):
                slot.outcome = missing(slot.queue[0])
        self._add_agents()

    def _restart(self) -> None:
        self.client.goes_on = False
        self.client.gone.update(each for each, result in self.client.results.items() if result.size)
        self.simulation.restart()
        for peer in self.simulation.peers:
            if not peer.is_gone:
                peer.connect()


@pytest.mark.thorough
@given(
    steps=st.lists(st.one_of(a_submission, an_event, an_event), max_size=25),
    executes=some_executes,
    makes_copies=st.booleans(),
)
def test_all_results_arrive_whatever_is_lost(steps: list[Any], executes: list[Execute], *, makes_copies: bool) -> None:
    """No result is lost too often."""
    losses = Losses(executes, makes_copies=makes_copies)
    for step in steps:
        losses.take(step)
    for _ in range(100):
        if None in losses.client.statuses():
            losses.simulation.advance(10.0)
    assert set(losses.client.statuses()) <= {SUCCESS}
    leave_and_check(losses.simulation, losses.client)
    assert losses.simulation.dispatcher.failures == 0
