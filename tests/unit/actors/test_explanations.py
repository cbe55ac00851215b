"""Explanations: what tasks wait for, requested by a client of the whole scheduler, with simulated workers."""

from __future__ import annotations

from typing import Any

from scaler.actors.dependencies.waits import STEPS_MOST
from scaler.actors.messages.tasks import FIRST_TRY
from scaler.actors.workers.worker_proxy import ANSWER_SECONDS
from scaler.ids import NO_ID, GraphId, TaskId, public_id
from scaler.wire.codec.columns import REASON_CHARACTERS
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import ExplainRequest, ExplainResponse
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.priority import with_user_priority
from scaler.wire.messages.vocabulary import (
    CANCEL,
    CHILDREN,
    INPUTS,
    LAST_SCHEDULER,
    NO_ROOM,
    NO_WORKER,
    NOT_ABLE,
    TAKEN,
    UNKNOWN,
    WORKER,
)
from scaler.wire.messages.worker import RunTask, WorkersPaused
from tests.support.simulation import Outcome, SimulatedClient, Simulation


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=300.0)


def ask(simulation: Simulation, client: SimulatedClient, task_id: TaskId, graph_id: bytes = NO_ID) -> Any:
    known = len(client.said(ExplainResponse))
    client.say(ExplainRequest(task_id, GraphId(graph_id)))
    simulation.run()
    (answer,) = client.said(ExplainResponse)[known:]
    assert answer.task_id == task_id
    return answer


def test_a_task_without_any_worker_is_explained_by_what_to_start(simulation: Simulation) -> None:
    client = simulation.client()
    (task_id,) = client.submit(1)
    answer = ask(simulation, client, task_id)
    assert (answer.state, answer.waits_for, answer.worker, answer.tries) == ("inactive", NO_WORKER, "", 1)
    assert "no worker is connected" in answer.sentence
    assert "scaler_cluster" in answer.sentence
    assert "it has waited" not in answer.sentence
    simulation.advance(100.0)
    answer = ask(simulation, client, task_id)
    assert answer.sentence.endswith("; it has waited for 99 s")
    assert 98_000 <= answer.state_ms <= 100_000


def test_a_task_that_waits_for_full_workers_is_explained_with_their_numbers(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(3, slow)
    task_ids = client.submit(5)
    simulation.run()
    answer = ask(simulation, client, task_ids[-1])
    assert (answer.state, answer.waits_for) == ("inactive", NO_ROOM)
    assert "all 3 workers are full, with 3 tasks" in answer.sentence


def test_the_explanation_of_a_waiting_task_counts_workers_paused_for_lack_of_memory(simulation: Simulation) -> None:
    client = simulation.client()
    agent = simulation.agent(3, slow)
    task_ids = client.submit(5)
    simulation.run()
    agent.say(WorkersPaused(2))
    simulation.run()
    says = "all 3 workers are full, and 2 of them are paused, because memory and disk for values are full there"
    assert says in ask(simulation, client, task_ids[-1]).sentence
    agent.say(WorkersPaused(0))
    simulation.run()
    assert "values" not in ask(simulation, client, task_ids[-1]).sentence


def test_the_explanation_of_a_low_priority_task_says_that_other_tasks_run_first(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, slow)
    client.submit(2)
    simulation.run()
    (low,) = client.submit(1, priority=with_user_priority(0, -10))
    (usual,) = client.submit(1)
    simulation.run()
    says = "; its priority is -10, so all tasks of its client with a higher one go first"
    assert says in ask(simulation, client, low).sentence
    assert "priority" not in ask(simulation, client, usual).sentence


def test_the_explanation_of_a_running_task_names_its_worker(simulation: Simulation) -> None:
    client = simulation.client()
    agent = simulation.agent(1, slow)
    (task_id,) = client.submit(1)
    simulation.run()
    answer = ask(simulation, client, task_id)
    assert (answer.state, answer.waits_for, answer.tries) == ("running", WORKER, 1)
    assert answer.worker
    simulation.advance(12.0)
    answer = ask(simulation, client, task_id)
    assert answer.sentence == f"it runs at worker {answer.worker} in process 4711, and has run for 12 s"
    assert answer.state_ms == 12_000
    agent.hang()
    client.say(ExplainRequest(task_id))
    simulation.advance(2 * ANSWER_SECONDS)
    answer = client.said(ExplainResponse)[-1]
    assert "nothing else" in answer.sentence, "its agent reports nothing"
    assert answer.state_ms == 0
    agent.cut()
    simulation.advance(0.1)
    assert "connection is lost" in ask(simulation, client, task_id).sentence
    simulation.advance(10.0)  # the agent is lost


def test_the_explanation_of_a_queued_task_counts_the_tasks_at_its_worker(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1, lambda _run: Outcome(seconds=0.001))
    client.submit(2)
    simulation.advance(1.0)  # the function is known to be short
    task_ids = client.submit(3)
    simulation.run()
    answer = ask(simulation, client, task_ids[-1])
    assert answer.sentence.startswith("it has not started: worker ")
    assert answer.state_ms == 0
    assert "2 other tasks" in ask(simulation, client, task_ids[-1]).sentence


def test_a_task_that_waits_for_its_nested_tasks_is_explained_as_blocked(simulation: Simulation) -> None:
    client = simulation.client()
    agent = simulation.agent(1, slow)
    (task_id,) = client.submit(1)
    simulation.run()
    agent.suspend(task_id)
    simulation.run()
    assert ask(simulation, client, task_id).waits_for == CHILDREN


def test_a_cancelled_task_that_still_runs_is_explained_as_canceling(simulation: Simulation) -> None:
    client = simulation.client()
    agent = simulation.agent(1, slow)
    (task_id,) = client.submit(1)
    simulation.run()
    agent.hang()
    client.cancel(task_id)
    simulation.run()
    answer = ask(simulation, client, task_id)
    assert (answer.state, answer.waits_for) == ("canceling", CANCEL)


def test_earlier_tries_are_remembered_with_their_ends(simulation: Simulation) -> None:
    client = simulation.client()
    deaths = iter([Outcome(TaskStatus.PROCESSOR_DIED, b"killed by SIGKILL"), slow(None)])  # type: ignore[arg-type]
    simulation.agent(1, lambda _run: next(deaths))
    (task_id,) = client.submit(1)
    simulation.advance(1.0)
    answer = ask(simulation, client, task_id)
    assert answer.tries == 2
    assert answer.past == "try 1 crashed 1 s ago: killed by SIGKILL"
    simulation.advance(30.0)
    assert ask(simulation, client, task_id).past == "try 1 crashed 31 s ago: killed by SIGKILL"


def test_of_many_tries_the_last_are_described() -> None:
    tries = FIRST_TRY
    for number in range(50):
        tries = tries.after("crashed", f"{number} " + "x" * 1000, now=float(number))
    shown = tries.shown(7200.0 + 49)
    assert tries.number == 51
    assert shown.startswith("try 46 crashed 2 h ago: 45 x")
    assert "; try 50 crashed 2 h ago: 49 x" in shown
    assert len(shown) < REASON_CHARACTERS


def test_a_task_that_has_ended_is_explained_as_unknown(simulation: Simulation) -> None:
    client = simulation.client()
    simulation.agent(1)
    (task_id,) = client.submit(1)
    simulation.advance(1.0)
    answer = ask(simulation, client, task_id)
    assert (answer.state, answer.waits_for) == ("", UNKNOWN)
    assert ask(simulation, client, task_id, b"g" * 16).waits_for == UNKNOWN


def test_a_task_of_a_graph_is_explained_by_the_first_task_that_it_needs(simulation: Simulation) -> None:
    client = simulation.client()
    graph_id = client.submit_graph([(), (0,), (), (1, 2)], [3])
    last = client.graphs[graph_id][3].task_id
    simulation.run()
    answer = ask(simulation, client, last, graph_id)
    assert (answer.state, answer.waits_for) == ("inactive", NO_WORKER)
    needed = f"task function ({public_id(client.graphs[graph_id][1].task_id).hex()[:8]}), "
    assert answer.sentence.startswith(f"it needs the results of 2 of 2 other tasks; one of them, {needed}")
    simulation.agent(1, slow)
    simulation.advance(0.1)
    answer = ask(simulation, client, last, graph_id)
    assert (answer.state, answer.waits_for, answer.worker) == ("inactive", WORKER, "")
    assert answer.sentence.startswith("it needs the results")
    simulation.advance(31.0)
    answer = ask(simulation, client, last, graph_id)
    waits = f"it has waited for 31 s for the results of 2 of 2 other tasks; one of them, {needed}"
    assert answer.sentence.startswith(f"{waits}runs at worker ")
    assert answer.sentence.endswith(", and has run for 31 s")
    assert 31_000 <= answer.state_ms < 32_000
    first = client.graphs[graph_id][0].task_id
    assert ask(simulation, client, first, graph_id).state == "running"


def test_an_explanation_says_how_long_a_task_and_the_task_that_it_needs_have_waited(simulation: Simulation) -> None:
    client = simulation.client()
    graph_id = client.submit_graph([(), (0,)], [1])
    simulation.advance(40.0)
    answer = ask(simulation, client, client.submitted[-1], graph_id)
    needed = public_id(client.graphs[graph_id][0].task_id).hex()[:8]
    assert answer.sentence.startswith(
        f"it has waited for 40 s for the result of task function ({needed}), which waits: "
    )
    assert answer.sentence.endswith("; that task has waited for 39 s")
    assert 39_000 <= answer.state_ms <= 40_000


def test_a_very_long_chain_of_tasks_is_not_followed_to_its_end(simulation: Simulation) -> None:
    client = simulation.client()
    length = STEPS_MOST + 2
    graph_id = client.submit_graph([(), *((n,) for n in range(length - 1))], [length - 1])
    tasks = client.graphs[graph_id]
    simulation.run()
    assert ask(simulation, client, tasks[-1].task_id, graph_id).waits_for == INPUTS
    assert ask(simulation, client, tasks[-3].task_id, graph_id).waits_for == NO_WORKER


def test_a_task_that_its_graph_does_not_have_is_unknown(simulation: Simulation) -> None:
    client = simulation.client()
    graph_id = client.submit_graph([()], [0])
    assert ask(simulation, client, TaskId(b"t" * 16), graph_id).waits_for == UNKNOWN
    simulation.agent(1)
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS]


def test_a_task_from_an_earlier_scheduler_is_explained_as_waiting_for_agents(simulation: Simulation) -> None:
    client = simulation.client()
    (task_id,) = client.submit(1)
    simulation.run()
    simulation.restart()
    client.connect()
    simulation.run()
    assert ask(simulation, client, task_id).waits_for == LAST_SCHEDULER


def test_the_explanation_of_a_task_that_no_worker_can_take_says_what_is_missing(simulation: Simulation) -> None:
    client = simulation.client()
    client.options = RunOptions(capabilities=(("gpu", 3),)).encode()
    (task_id,) = client.submit(1)
    assert ask(simulation, client, task_id).waits_for == NO_WORKER
    simulation.agent(1, slow)
    answer = ask(simulation, client, task_id)
    assert answer.waits_for == NOT_ABLE
    assert answer.sentence.startswith("no worker can take it: it asks for gpu=3")
    assert "the most on one machine: gpu=2" in answer.sentence


def test_the_explanation_of_a_task_says_that_its_resources_are_taken(simulation: Simulation) -> None:
    client = simulation.client()
    client.options = RunOptions(capabilities=(("gpu", 2),)).encode()
    simulation.agent(3, slow)
    task_ids = client.submit(2)
    answer = ask(simulation, client, task_ids[1])
    assert answer.waits_for == TAKEN
    assert "it asks for gpu=2; 3 workers have that, and other tasks use all of it" in answer.sentence
