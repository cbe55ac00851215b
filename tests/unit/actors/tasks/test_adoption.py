"""Adoption, alone among recorders and in whole schedulers that die, with agents that reconnect late."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from scaler.actors.messages.adoption import FindRun, FindRuns, NotHeld, RunFound, RunsAreHeld, RunsHeld, RunsLost
from scaler.actors.messages.tasks import CancelOrphan
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.tasks.adoption import HOLD_SECONDS, OFFER_SECONDS, Adoption, AdoptionTable
from scaler.actors.tree import ADOPTION, BALANCER
from scaler.ids import TaskId
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunCancel, RunTask
from tests.support.bench import Bench
from tests.support.configs import scheduler_config
from tests.support.simulation import Outcome, SimulatedAgent, SimulatedClient, Simulation

KEEP_SECONDS = 20.0
OWNER, OTHER_OWNER = 7, 8
ONE, TWO = TaskId(b"1" * 16), TaskId(b"2" * 16)


class Scene:
    """Adoption, two tasks and two workers."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.table = AdoptionTable()
        self.task, self.task_ref = bench.recorder()
        self.other, self.other_ref = bench.recorder()
        self.worker, self.worker_ref = bench.recorder()
        self.later, self.later_ref = bench.recorder()
        self.ref = bench.dispatcher.spawn(Adoption(self.table, KEEP_SECONDS))
        bench.run()

    def tell(self, *messages: object) -> None:
        for message in messages:
            self.ref.send(message)
        self.bench.run()

    def wait(self, seconds: float) -> None:
        self.bench.clock.advance(seconds)
        self.bench.run()


@pytest.fixture
def scene(bench: Bench) -> Scene:
    return Scene(bench)


def test_a_task_finds_the_run_that_was_reported_before_it(scene: Scene) -> None:
    scene.tell(RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]), FindRun(OWNER, ONE, scene.task_ref))
    assert scene.task.take() == [RunFound(scene.worker_ref, 7)]
    scene.wait(OFFER_SECONDS)  # the proxy may have ended, so that the task gets no other answer
    assert scene.task.take() == [NotHeld()]


def test_a_run_finds_the_task_that_was_submitted_before_it(scene: Scene) -> None:
    scene.tell(FindRun(OWNER, ONE, scene.task_ref), RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]))
    assert scene.task.take() == [RunFound(scene.worker_ref, 7)]


def test_a_task_without_a_run_waits_for_the_agents_to_reconnect(scene: Scene) -> None:
    scene.tell(FindRun(OWNER, ONE, scene.task_ref))
    scene.wait(HOLD_SECONDS - 0.01)
    assert scene.task.take() == []
    scene.wait(0.01)
    assert scene.task.take() == [NotHeld()]
    scene.tell(FindRun(OWNER, TWO, scene.other_ref))
    assert scene.other.take() == [NotHeld()]


def test_no_task_waits_for_runs_when_as_many_agents_as_before_have_reconnected(scene: Scene) -> None:
    scene.tell(FindRun(OWNER, ONE, scene.task_ref), RunsHeld([], agents=2))
    assert scene.task.take() == []
    scene.tell(RunsHeld([], agents=2))
    assert scene.task.take() == [NotHeld()]
    scene.tell(FindRun(OWNER, TWO, scene.other_ref, patient=True))
    assert scene.other.take() == [NotHeld()]


def test_an_at_most_once_task_waits_as_long_as_an_agent_may_reconnect(scene: Scene) -> None:
    scene.tell(FindRun(OWNER, ONE, scene.task_ref, patient=True))
    scene.wait(KEEP_SECONDS - 0.01)
    assert scene.task.take() == []
    scene.wait(0.01)
    assert scene.task.take() == [NotHeld()]


def test_an_agent_that_reconnects_late_finds_the_task_that_has_lost_its_run(scene: Scene) -> None:
    scene.wait(1000.0)
    scene.tell(RunsLost([(OWNER, ONE, scene.task_ref)]))
    scene.wait(KEEP_SECONDS - 0.01)
    scene.tell(RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]))
    assert scene.task.take() == [RunFound(scene.worker_ref, 7)]


def test_an_agent_that_reconnects_before_the_loss_is_reported_finds_its_task(scene: Scene) -> None:
    scene.wait(1000.0)
    scene.tell(RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]))
    scene.tell(RunsLost([(OWNER, ONE, scene.task_ref)]))
    assert scene.task.take() == [RunFound(scene.worker_ref, 7)]
    scene.wait(2 * KEEP_SECONDS)
    assert scene.worker.take() == []


def test_a_task_that_lost_its_run_is_forgotten_after_a_while(scene: Scene) -> None:
    scene.tell(RunsLost([(OWNER, ONE, scene.task_ref)]))
    scene.wait(KEEP_SECONDS)
    assert scene.table.known == {}


def test_the_number_of_remembered_tasks_without_runs_is_limited(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.tasks.adoption.KNOWN_MOST", 1)
    scene.tell(RunsLost([(OWNER, ONE, scene.task_ref), (OWNER, TWO, scene.other_ref)]))
    scene.tell(RunsHeld([(OWNER, TWO, scene.later_ref, 8), (OWNER, ONE, scene.worker_ref, 7)]))
    assert (scene.task.take(), scene.other.take()) == ([RunFound(scene.worker_ref, 7)], [])


def test_a_run_without_a_task_is_cancelled_after_a_while(scene: Scene) -> None:
    scene.tell(RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]))
    scene.wait(KEEP_SECONDS - 0.01)
    assert scene.worker.take() == []
    scene.wait(0.01)
    assert scene.worker.take() == [CancelOrphan(ONE, 7)]
    assert scene.table.held == {}


def test_a_run_whose_task_has_ended_is_cancelled_at_once(scene: Scene) -> None:
    scene.tell(RunsLost([(OWNER, ONE, scene.task_ref)]))
    scene.bench.dispatcher.stop(scene.task_ref)
    scene.tell(RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]))
    assert scene.worker.take() == [CancelOrphan(ONE, 7)]


def test_a_run_is_cancelled_whose_task_ends_before_it_receives_the_offer(scene: Scene) -> None:
    scene.tell(FindRun(OWNER, ONE, scene.task_ref), RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]))
    scene.bench.dispatcher.stop(scene.task_ref)
    assert scene.worker.take() == []
    scene.wait(OFFER_SECONDS)
    assert scene.worker.take() == [CancelOrphan(ONE, 7)]


def test_one_of_two_runs_of_a_task_is_cancelled(scene: Scene) -> None:
    scene.tell(RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]), RunsHeld([(OWNER, ONE, scene.later_ref, 9)]))
    assert scene.worker.take() == [CancelOrphan(ONE, 7)]
    scene.tell(FindRun(OWNER, ONE, scene.task_ref))
    assert scene.task.take() == [RunFound(scene.later_ref, 9)]


def test_a_task_does_not_find_a_run_of_another_owner(scene: Scene) -> None:
    scene.tell(FindRun(OTHER_OWNER, ONE, scene.other_ref), RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]))
    scene.tell(FindRun(OTHER_OWNER, ONE, scene.other_ref))
    assert scene.other.take() == []
    scene.tell(FindRun(OWNER, ONE, scene.task_ref))
    assert scene.task.take() == [RunFound(scene.worker_ref, 7)]
    assert scene.worker.take() == []


def test_a_session_over_its_quota_is_notified_of_runs_that_agents_report(scene: Scene) -> None:
    scene.tell(RunsHeld([(OWNER, ONE, scene.worker_ref, 7), (OTHER_OWNER, TWO, scene.worker_ref, 8)]))
    scene.tell(FindRuns(OWNER, scene.task_ref, [ONE, TWO]))
    scene.tell(RunsHeld([(OTHER_OWNER, ONE, scene.worker_ref, 9), (OWNER, TWO, scene.worker_ref, 10)]))
    assert scene.task.take() == [RunsAreHeld([ONE]), RunsAreHeld([TWO])]
    scene.tell(FindRun(OWNER, TWO, scene.other_ref))
    assert scene.other.take() == [RunFound(scene.worker_ref, 10)], "the task itself requests it"
    scene.wait(HOLD_SECONDS)
    assert scene.task.take() == [NotHeld()]
    scene.tell(FindRuns(OWNER, scene.task_ref, [TWO]))
    assert scene.task.take() == [NotHeld()], "at once"
    scene.wait(KEEP_SECONDS)
    assert (scene.table.asked, scene.table.promised) == ({}, {})


def test_only_one_of_several_sessions_that_wait_for_a_run_is_notified_of_it(scene: Scene) -> None:
    """Otherwise, each session would start a task over its quota."""
    scene.tell(RunsHeld([(OWNER, ONE, scene.worker_ref, 7)]))
    for asker in (scene.task_ref, scene.other_ref, scene.task_ref):
        scene.tell(FindRuns(OWNER, asker, [ONE, TWO]))
    scene.tell(RunsHeld([(OWNER, TWO, scene.worker_ref, 8)]))
    assert scene.task.take() == [RunsAreHeld([ONE]), RunsAreHeld([TWO])]
    assert scene.other.take() == []
    scene.bench.dispatcher.stop(scene.task_ref)
    scene.tell(FindRuns(OWNER, scene.other_ref, [ONE]))
    assert scene.other.take() == [RunsAreHeld([ONE])], "the first session has ended without it"


def test_a_job_is_notified_of_the_runs_of_its_rows(scene: Scene) -> None:
    rows = [TaskId(b"prefix--" + row.to_bytes(8, "big")) for row in range(4)]
    runs = [(OWNER, row, scene.worker_ref, 7) for row in rows]
    scene.tell(RunsHeld([*runs[:2], (OTHER_OWNER, rows[2], scene.worker_ref, 8), (OWNER, ONE, scene.worker_ref, 9)]))
    scene.tell(FindRuns(OWNER, scene.task_ref, prefix=b"prefix--"), RunsHeld(runs[3:]))
    assert scene.task.take() == [RunsAreHeld(rows[:2]), RunsAreHeld(rows[3:])]


# As a whole


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=30.0)


def restart(simulation: Simulation, *peers: SimulatedAgent | SimulatedClient) -> None:
    """Start another scheduler, to which the peers reconnect in this order."""
    simulation.restart()
    for peer in peers:
        peer.connect()
        simulation.run()


def leave_and_check(simulation: Simulation, client: SimulatedClient) -> None:
    client.leave()
    simulation.advance(1.0)
    simulation.check_empty()


@pytest.mark.parametrize("agent_first", [True, False])
def test_a_running_task_continues_under_the_next_scheduler(simulation: Simulation, agent_first: bool) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(3)
    simulation.advance(20.0)
    restart(simulation, *((agent, client) if agent_first else (client, agent)))
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.SUCCESS, None, None]
    simulation.advance(60.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 3
    assert len(agent.started) == 3
    assert agent.said(RunCancel) == []


def test_no_task_is_assigned_again_before_all_agents_have_reconnected(simulation: Simulation) -> None:
    client, agents = simulation.client(), [simulation.agent(1, slow), simulation.agent(1, slow)]
    client.submit(4)
    simulation.advance(5.0)
    restart(simulation, agents[0], client)
    simulation.advance(1.0)
    agents[1].connect()
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 4
    assert [len(agent.started) for agent in agents] == [2, 2]


def test_agents_are_notified_at_once_of_the_number_of_agents(simulation: Simulation) -> None:
    agents = [simulation.agent(1, slow) for _ in range(3)]
    simulation.run()
    assert [agent.agents for agent in agents] == [2, 3, 3]


def test_an_agent_that_does_not_reconnect_counts_for_a_limited_time_only(simulation: Simulation) -> None:
    agents = [simulation.agent(1, slow), simulation.agent(1, slow)]
    restart(simulation, agents[0])
    assert agents[0].agents == 2
    simulation.advance(10.0)
    assert agents[0].agents == 1


def test_tasks_without_runs_start_at_once_when_all_agents_have_reconnected(simulation: Simulation) -> None:
    client, agents = simulation.client(), [simulation.agent(1, slow), simulation.agent(1, slow)]
    simulation.advance(3.0)
    assert [agent.agents for agent in agents] == [2, 2]
    simulation.restart()
    client.submit(2)  # lost
    restart(simulation, *agents, client)
    assert [len(agent.queued) for agent in agents] == [1, 1]


@pytest.mark.parametrize("cuts", [0, 1])
def test_a_task_started_again_at_another_agent_continues_and_its_first_run_is_cancelled(
    simulation: Simulation, cuts: int
) -> None:
    client, late = simulation.client(), simulation.agent(1, slow)
    client.submit(1)
    simulation.advance(5.0)
    simulation.restart()
    other = simulation.agent(1, slow)
    client.connect()
    simulation.advance(10.0)
    assert len(other.queued) == 1
    for _ in range(cuts + 1):
        late.connect()
        simulation.advance(1.0)
    assert late.queued == []
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS]


def test_an_unacknowledged_result_is_taken_by_the_next_scheduler(simulation: Simulation) -> None:
    client = simulation.client()
    agent = simulation.agent(1, lambda _run: Outcome(payload=b"", frames=(b"large", b"result"), seconds=1.0))
    client.submit(1)
    simulation.run()
    agent.cut()
    simulation.advance(1.0)
    restart(simulation, agent)
    simulation.advance(3.0)
    assert simulation.proxies()[0].load == (0, 0)
    client.connect()
    simulation.run()
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert client.results[client.submitted[0]].size == len(b"largeresult")
    assert len(agent.started) == 1
    client.delete(client.submitted[0])


def test_a_blocked_task_and_its_nested_task_continue_under_the_next_scheduler(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    (parent,) = client.submit(1)
    simulation.advance(1.0)
    nested = simulation.nested_client(agent)
    (child,) = nested.submit(1, priority=1)
    agent.suspend(parent)
    simulation.advance(5.0)
    assert agent.queued == [child]
    restart(simulation, agent, nested, client)
    assert simulation.proxies()[0].load[0] == 1
    simulation.advance(30.0)
    assert nested.statuses() == [TaskStatus.SUCCESS]
    agent.execute = lambda _run: Outcome()
    agent.resume(parent)
    simulation.run()
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert len(agent.started) == 2
    nested.leave()


def test_a_running_task_continues_after_the_tasks_that_it_needs_have_run_again(simulation: Simulation) -> None:
    client = simulation.client()
    agent = simulation.agent(1, lambda run: Outcome(seconds=30.0 if run.payload else 0.1))
    graph_id = client.submit_graph([(), (0,)], [1])
    simulation.advance(5.0)
    last = client.graphs[graph_id][1].task_id
    assert agent.queued == [last]
    restart(simulation, agent, client)
    simulation.advance(26.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert [run.task_id for run in agent.started].count(last) == 1


def test_the_run_of_a_task_is_held_until_the_tasks_that_it_needs_have_run_again(simulation: Simulation) -> None:
    """The run is held however long these tasks take, and also if it ends before."""
    seconds = [2.5 * simulation.limits.client_timeout_seconds, 0.1]
    client = simulation.client()
    agent = simulation.agent(2, lambda run: Outcome(seconds=100.0 if run.payload else seconds.pop()))
    graph_id = client.submit_graph([(), (0,)], [1])
    simulation.advance(5.0)
    last = client.graphs[graph_id][1].task_id
    assert agent.queued == [last]
    restart(simulation, agent, client)
    simulation.advance(200.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert [run.task_id for run in agent.started].count(last) == 1


def test_the_run_of_a_task_is_held_only_while_tasks_wait(simulation: Simulation) -> None:
    client = simulation.client()
    agent = simulation.agent(2, lambda run: Outcome(seconds=1000.0 if run.payload or agent.started[1:] else 0.1))
    graph_id = client.submit_graph([(), (0,)], [1])
    simulation.advance(5.0)
    last = client.graphs[graph_id][1].task_id
    restart(simulation, agent, client)
    simulation.advance(3 * simulation.limits.client_timeout_seconds)
    assert last in agent.queued
    client.cancel(last)
    simulation.advance(simulation.limits.client_timeout_seconds)
    assert agent.queued == []


def test_the_runs_of_a_client_that_does_not_reconnect_are_stopped(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    agent.execute = lambda _run: Outcome(seconds=1000.0)
    client.submit(1)
    simulation.advance(1.0)
    client.die()
    restart(simulation, agent)
    simulation.advance(simulation.limits.client_timeout_seconds - 1.0)
    assert len(agent.queued) == 1
    simulation.advance(2.0)
    assert agent.queued == []
    assert simulation.proxies()[0].load == (0, 0)


def test_a_worker_with_an_orphaned_run_gets_no_tasks_behind_it(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(1)
    simulation.advance(1.0)
    restart(simulation, agent)
    other = simulation.client()
    other.submit(1)
    simulation.advance(1.0)
    assert len(agent.queued) == 1
    client.connect()
    simulation.advance(100.0)
    assert client.statuses() == other.statuses() == [TaskStatus.SUCCESS]


@pytest.mark.parametrize("times", [1, 4])
def test_runs_of_an_agent_away_for_longer_than_its_time_out_continue_without_a_crash(times: int) -> None:
    simulation = Simulation(scheduler_config(worker_timeout_seconds=5.0, client_timeout_seconds=50.0, crash_limit=3))
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=100.0))
    client.submit(1)
    simulation.advance(1.0)
    for _ in range(times):
        agent.cut()
        simulation.advance(8.0)
        assert simulation.proxies() == []
        agent.connect()
        simulation.advance(1.0)
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert len(agent.started) == 1
    leave_and_check(simulation, client)


def test_a_cancelled_task_is_stopped_wherever_its_run_is(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(2)
    simulation.advance(1.0)
    restart(simulation, client)
    client.cancel(client.submitted[0])
    simulation.run()
    assert client.statuses() == [TaskStatus.CANCELED, None]
    agent.connect()
    simulation.run()
    client.cancel(client.submitted[1])
    simulation.advance(simulation.limits.client_timeout_seconds + 1)
    assert client.statuses() == [TaskStatus.CANCELED] * 2
    assert agent.queued == []


def test_failures_of_the_adoption_and_the_balancer_lose_no_task() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(2)
    simulation.advance(1.0)
    restart(simulation, client)
    for part in (ADOPTION, BALANCER, ADOPTION):
        simulation.fail(simulation.tree.supervisor.children[part])
        simulation.advance(0.5)
    agent.connect()
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert [run.task_id for run in agent.started] == client.submitted


# At most once


def at_most_once(was_submitted: bool = False) -> bytes:
    return RunOptions(at_most_once=True, was_submitted=was_submitted).encode()


def with_options(task: Any, options: bytes) -> Any:
    return replace(task, options=options)


def test_an_at_most_once_task_is_not_run_again_after_its_worker_was_lost(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.options = at_most_once()
    client.submit(1)
    simulation.advance(1.0)
    agent.die()
    other = simulation.agent(1)
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.WORKER_DIED]
    assert b"at_most_once" in client.results[client.submitted[0]].payload
    assert other.started == []


def test_an_at_most_once_task_is_not_run_again_after_its_processor_died(simulation: Simulation) -> None:
    client = simulation.client()
    agent = simulation.agent(1, lambda _run: Outcome(TaskStatus.PROCESSOR_DIED, b"it died by signal 9"))
    client.options = at_most_once()
    client.submit(1)
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.PROCESSOR_DIED]
    assert client.results[client.submitted[0]].payload.startswith(b"it died by signal 9; it may have been started")
    assert len(agent.started) == 1


@pytest.mark.parametrize("was_submitted", [True, False])
def test_after_a_restart_an_at_most_once_task_continues_or_fails(simulation: Simulation, was_submitted: bool) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.options = at_most_once()
    client.submit(1)
    simulation.advance(1.0)
    client.options = at_most_once(was_submitted)
    client.open = {task_id: with_options(task, client.options) for task_id, task in client.open.items()}
    restart(simulation, agent, client)
    simulation.advance(30.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    simulation.restart()
    agent.die()
    client.was_welcome = True
    client.submit(1)
    client.connect()
    other = simulation.agent(1)
    simulation.advance(simulation.limits.client_timeout_seconds)
    assert len(other.started) == (0 if was_submitted else 1)
    assert client.statuses()[1] == (TaskStatus.NOT_FOUND if was_submitted else TaskStatus.SUCCESS)


def test_an_at_most_once_task_has_its_result_in_a_new_session_of_its_client() -> None:
    assert ended_in_a_new_session(seconds_away=1.0) == [TaskStatus.SUCCESS] * 4


def test_an_at_most_once_task_is_not_run_again_after_the_session_of_its_client_has_ended() -> None:
    assert ended_in_a_new_session(seconds_away=20.0) == [TaskStatus.NOT_FOUND] * 4


def ended_in_a_new_session(seconds_away: float) -> list[TaskStatus | None]:
    """Return the ends of four tasks whose results a client finds when it reconnects."""
    simulation = Simulation(scheduler_config(kept_bytes=1000))
    client, agent = simulation.client(), simulation.agent(2, lambda _run: Outcome(payload=bytes(500)))
    client.options, client.goes_on = at_most_once(), True
    client.submit(4)
    simulation.run()
    simulation.close_connection(client.connection)
    simulation.advance(seconds_away)  # too many bytes wait for the client, so that all but results are dropped
    client.open = {
        task_id: with_options(task, at_most_once(was_submitted=True)) for task_id, task in client.open.items()
    }
    client.connect()
    simulation.advance(100.0)  # an agent of the last scheduler might still return with their runs
    assert len(agent.started) == 4
    statuses = client.statuses()
    leave_and_check(simulation, client)
    return statuses


def test_an_at_most_once_task_whose_order_was_never_sent_runs_at_another_worker(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.options = at_most_once()
    simulation.router.open_connections.discard(agent.connection)
    client.submit(1)
    other = simulation.agent(1)
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert (agent.started, len(other.started)) == ([], 1)


def reconnect_too_late(simulation: Simulation, client: SimulatedClient) -> None:
    """Let the session of a client end and the client resubmit all: the scheduler may have started any task of it."""
    client.cut()
    simulation.advance(6.0)
    assert simulation.sessions(ClientSession) == []
    marked = at_most_once(was_submitted=True)
    client.open = {task_id: with_options(task, marked) for task_id, task in client.open.items()}
    client.graphs = {each: [with_options(task, marked) for task in tasks] for each, tasks in client.graphs.items()}
    client.connect()
    simulation.advance(1.0)


def test_at_most_once_tasks_that_only_waited_run_when_their_client_is_back(simulation: Simulation) -> None:
    simulation.advance(simulation.limits.client_timeout_seconds)
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.options = at_most_once()
    first, second, third, fourth = client.submit(4)
    graph_id = client.submit_graph([(), (0,), (1,)], [2])
    simulation.advance(1.0)
    reconnect_too_late(simulation, client)
    assert client.statuses([first, second]) == [TaskStatus.NOT_FOUND, None]
    reconnect_too_late(simulation, client)
    assert client.statuses([second, third]) == [TaskStatus.NOT_FOUND, None]
    agent.execute = lambda _run: Outcome()
    simulation.advance(60.0)
    assert client.statuses([third, fourth]) == [TaskStatus.SUCCESS] * 2
    assert client.statuses([client.graphs[graph_id][2].task_id]) == [TaskStatus.SUCCESS]
    assert max(Counter(run.task_id for run in agent.started).values()) == 1


def test_at_most_once_tasks_of_graphs_that_have_run_do_not_run_again(simulation: Simulation) -> None:
    simulation.advance(simulation.limits.client_timeout_seconds)
    client, agent = simulation.client(), simulation.agent(1, lambda run: Outcome(seconds=30.0 if run.payload else 0.1))
    client.options = at_most_once()
    client.submit_graph([(), (0,), (1,)], [2])
    other = client.submit(1)
    client.submit_with_results(*other)
    simulation.advance(1.0)
    reconnect_too_late(simulation, client)
    simulation.advance(60.0)
    assert max(Counter(run.task_id for run in agent.started).values()) == 1
    assert TaskStatus.SUCCESS not in client.statuses(client.submitted[:1])
