"""One agent against the whole scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scaler.actors import slices
from scaler.actors.messages.peers import StartOver
from scaler.actors.sessions import agent_session
from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.workers.worker_proxy import WorkerProxy
from scaler.ids import AgentId, ObjectId
from scaler.shared_memory import SharedBlock
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import InfoRequest, InfoResponse, WorkerDetails
from scaler.wire.messages.common import (
    FOUND,
    HelloReply,
    HelloRequest,
    ObjectKept,
    ObjectPart,
    ObjectRequest,
    ObjectResponse,
    TaskStatus,
)
from scaler.wire.messages.worker import (
    DisconnectRequest,
    DisconnectResponse,
    DrainRequest,
    RunResult,
    RunTask,
    WorkerHeartbeatEcho,
)
from scaler.wire.session.streamed import sizes_of
from tests.support.configs import scheduler_config
from tests.support.simulation import Outcome, SimulatedAgent, SimulatedClient, Simulation, succeed


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=30.0)


def test_each_worker_of_an_agent_gets_tasks(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(3, slow)
    client.submit(5)
    simulation.run()
    assert sorted(run.worker for run in agent.started) == [0, 1, 2]


def test_waiting_tasks_move_to_workers_that_join_and_none_runs_twice(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=0.001))
    client.submit(10)
    simulation.advance(1.0)  # now they are known as short
    agent.execute = slow
    client.submit(8)
    simulation.advance(5.0)
    late = simulation.agent(7, slow)
    simulation.advance(0.1)
    assert [len(slot.queue) for slot in (*agent.slots, *late.slots)] == [1] * 8
    simulation.advance(30.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 18
    assert len({run.task_id for run in late.started}) == 7
    assert len(agent.started) == 11


def test_recalled_tasks_run_once_although_the_response_to_the_recall_was_lost(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=0.001))
    client.submit(10)
    simulation.advance(1.0)
    agent.execute = slow
    client.submit(8)
    simulation.run()
    agent.is_welcome = False  # its messages are lost now
    late = simulation.agent(1, slow)
    simulation.advance(0.1)
    assert len(agent.given_back) == 7
    assert len(late.started) == 0
    agent.connect()
    simulation.run()
    assert len(agent.queued) + len(late.queued) == 8
    simulation.advance(1.1)
    assert len(late.started) == 1
    simulation.advance(200.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 18


def test_results_are_acknowledged(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2)
    client.submit(8)
    simulation.advance(5.0)
    assert agent._kept == []
    assert client.statuses() == [TaskStatus.SUCCESS] * 8


def test_an_agent_that_sends_heartbeats_keeps_its_session(simulation: Simulation) -> None:
    agent = simulation.agent()
    simulation.advance(300.0)
    assert len(simulation.proxies()) == 1
    assert len(agent.said(WorkerHeartbeatEcho)) >= 300


def test_tasks_of_a_lost_agent_run_again_and_only_the_running_task_counts_a_crash(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit(30)
    doomed = [simulation.agent(1, lambda _run: Outcome(seconds=0.001)) for _ in range(1)]
    simulation.advance(0.002)  # now it has a window
    doomed[0].execute = slow
    simulation.advance(0.01)
    queued = doomed[0].queued
    assert len(queued) > 3
    doomed[0].die()
    simulation.advance(2.5)
    assert simulation.proxies() == []
    marks = [simulation.task(task_id)._crashes for task_id in queued]  # type: ignore[union-attr]
    assert marks == [1] + [0] * (len(queued) - 1)
    simulation.agent()
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 30


def test_a_task_that_loses_its_workers_fails_at_the_crash_limit(simulation: Simulation) -> None:
    client = simulation.client()
    (task_id,) = client.submit()
    for _ in range(3):
        agent = simulation.agent(1, slow)
        agent.die()
        simulation.advance(3.0)
    assert client.statuses() == [TaskStatus.WORKER_DIED]
    assert client.results[task_id].payload.endswith(b"was lost (attempt 3 of 3)")


def test_an_agent_cut_off_after_a_silence_has_its_whole_time_out_to_reconnect() -> None:
    """The network ended the connection. The agent may live, and has its whole time-out to reconnect."""
    simulation = Simulation(scheduler_config(worker_timeout_seconds=60.0))
    client, agent, other = simulation.client(), simulation.agent(1, slow), simulation.agent()
    client.submit(1)
    simulation.run()
    busy = agent if agent.said(RunTask) else other
    idle = other if busy is agent else agent
    busy.hang()
    simulation.advance(20.0)
    busy.cut()
    simulation.advance(30.0)
    assert len(idle.said(RunTask)) == 0
    busy.hangs = False
    busy.connect()
    simulation.advance(5.0)
    assert [len(each.said(RunTask)) for each in (busy, idle)] == [1, 0]
    simulation.advance(200.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert [len(each.said(RunTask)) for each in (busy, idle)] == [1, 0]


def test_an_agent_that_is_cut_off_gets_no_new_tasks() -> None:
    """New tasks would wait beside idle workers, and count a crash though they were never sent."""
    simulation = Simulation(scheduler_config(worker_timeout_seconds=6.0, crash_limit=1))
    client, lost, other = simulation.client(), simulation.agent(), simulation.agent()
    lost.cut()
    simulation.run()
    client.submit(4)
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 4
    simulation.advance(10.0)
    assert [len(agent.said(RunTask)) for agent in (lost, other)] == [0, 4]


def test_an_agent_that_reconnects_gets_tasks_again(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent()
    for _ in range(3):
        agent.cut()
        simulation.run()
        client.submit()
        assert client.statuses()[-1] is None
        agent.connect()
        simulation.advance(1.0)
        assert client.statuses()[-1] == TaskStatus.SUCCESS


def test_a_task_whose_workers_leave_in_order_is_never_counted_as_crashed(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit()
    for _ in range(5):
        agent = simulation.agent(1, slow)
        agent.leave()
        simulation.run()
        assert [said.reason for said in agent.said(DisconnectResponse)] == ["goodbye"]
        assert simulation.proxies() == []
    simulation.agent(1)
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS]


def test_a_hanging_agent_is_lost_and_its_late_results_do_not_count() -> None:
    simulation = Simulation(scheduler_config(worker_timeout_seconds=10.0))
    client = simulation.client()
    hanging = simulation.agent(1, slow)
    client.submit()
    simulation.advance(1.0)
    hanging.hang()
    simulation.advance(12.0)
    assert simulation.proxies() == []
    other = simulation.agent(1)
    simulation.advance(1.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    hanging.wake()
    simulation.advance(40.0)
    assert hanging.said(HelloRequest)[0].reason == "you were silent for too long"
    assert hanging.queued == []
    assert client.surplus == []
    assert len(other.started) == 1
    assert len(simulation.proxies()) == 2


def test_an_agent_that_reconnects_continues_its_runs(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2, slow)
    client.submit(2)
    simulation.advance(1.0)
    agent.cut()
    simulation.advance(1.0)
    agent.connect()
    simulation.advance(40.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert len(agent.started) == 2
    assert len(simulation.sessions(AgentSession)) == 1


def test_results_from_the_time_without_a_connection_arrive_later_and_once(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=1.5))
    client.submit()
    simulation.advance(1.0)
    agent.cut()
    simulation.advance(1.0)
    assert client.results == {}
    agent.connect()
    simulation.run()
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert len(agent.started) == 1


def test_orders_that_were_lost_with_the_connection_are_assigned_again(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    simulation.router.open_connections.discard(agent.connection)  # neither side has noticed yet
    client.submit()
    simulation.run()
    assert agent.started == []
    agent.connect()
    simulation.run()
    assert len(agent.started) == 1


def test_a_cancel_that_was_lost_with_the_connection_is_resent(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    (task_id,) = client.submit()
    simulation.run()
    simulation.router.open_connections.discard(agent.connection)
    client.cancel(task_id)
    simulation.run()
    assert client.results == {}
    agent.connect()
    simulation.run()
    assert client.statuses() == [TaskStatus.CANCELED]
    assert agent.queued == []


def test_results_for_a_worker_that_the_agent_does_not_have_are_dropped(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    (task_id,) = client.submit()
    simulation.run()
    agent.say(RunResult(task_id, 7, 1, TaskStatus.SUCCESS, b"", 0, ()))
    simulation.run()
    assert client.results == {}


def test_a_failed_worker_proxy_ends_its_session_and_the_agent_starts_a_new_one() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(2, slow)
    client.submit(4)
    simulation.run()
    simulation.fail(simulation.proxies()[0].actor_ref)
    simulation.run()
    assert "the scheduler failed while it handled one of your workers" in agent.said(HelloRequest)[0].reason
    assert len(agent.queued) == 2
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 4
    assert len(simulation.proxies()) == 2
    assert client.surplus == []


def test_a_failed_agent_session_returns_its_tasks_and_the_agent_repeats_its_hello() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(1, slow)
    client.submit(2)
    simulation.run()
    simulation.fail(simulation.sessions(AgentSession)[0].actor_ref)
    simulation.advance(100.0)
    assert len(agent.said(HelloRequest)) == 1
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert client.surplus == []


def test_no_assignment_is_lost_with_a_worker_that_leaves_in_the_same_moment(simulation: Simulation) -> None:
    client, staying = simulation.client(), simulation.agent(1, slow)
    for _ in range(20):
        leaving = simulation.agent(1, slow)
        leaving.leave()
        client.submit()
        simulation.run()
    staying.execute = lambda _run: Outcome(seconds=0.01)
    simulation.advance(60.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 20


def test_objects_deleted_while_an_agent_was_disconnected_are_deleted_when_it_reconnects(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent()
    gone, stays = client.create(b"gone"), client.create(b"stays")
    client.submit(uses=[gone, stays])
    simulation.advance(1.0)
    assert {gone, stays} <= agent.kept
    agent.cut()
    client.delete(gone)
    simulation.advance(1.0)
    agent.connect()  # the session is resumed
    simulation.run()
    assert gone not in agent.kept
    agent.cut()
    simulation.advance(10.0)
    agent.connect()  # a new session
    simulation.run()
    assert stays in agent.kept
    client.delete(stays)
    simulation.run()
    assert stays not in agent.kept


def test_functions_stay_with_the_agent_for_the_retention_time() -> None:
    simulation = Simulation(scheduler_config(object_retention_seconds=20.0))
    client, agent = simulation.client(), simulation.agent()
    client.submit()
    simulation.advance(1.0)
    client.leave()
    simulation.advance(19.0)
    assert agent.kept == {client.function_id}
    simulation.advance(1.5)
    assert agent.kept == set()


# Its session is resumed


def test_a_resumed_agent_receives_missed_messages_and_runs_no_task_twice(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    agent.goes_on = True
    tasks = client.submit(2)
    simulation.run()
    simulation.close_connection(agent.connection)
    agent.is_welcome = False
    agent.execute = succeed
    agent.slots[0].ends = simulation.clock()  # the running task ends meanwhile
    client.cancel(tasks[1])
    simulation.advance(1.5)
    assert list(client.results) == tasks[1:]
    agent.connect()
    simulation.advance(2.0)
    assert agent.said(HelloReply)[-1].resumed
    assert client.statuses() == [TaskStatus.SUCCESS, TaskStatus.CANCELED]
    assert [run.task_id for run in agent.started] == tasks[:1]
    assert agent._kept == []


def test_a_task_whose_order_cannot_have_been_sent_goes_to_another_worker_at_once() -> None:
    simulation = Simulation(scheduler_config(crash_limit=1))
    client, lost = simulation.client(), simulation.agent(1)
    simulation.router.open_connections.discard(lost.connection)  # it is dead, and the scheduler does not know it
    lost.is_gone = True
    client.submit(1)
    simulation.run()
    other = simulation.agent(1)
    simulation.advance(0.2)
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert len(other.started) == 1


def test_a_task_whose_order_may_not_have_arrived_is_not_counted_as_crashed() -> None:
    simulation = Simulation(scheduler_config(crash_limit=1, worker_timeout_seconds=6.0))
    client, lost = simulation.client(), simulation.agent(1)
    lost.hang()
    client.submit(1)
    simulation.advance(1.0)
    simulation.agent(1)
    simulation.advance(10.0)
    assert client.statuses() == [TaskStatus.SUCCESS]


def test_any_message_of_an_agent_counts_as_a_heartbeat() -> None:
    """Heartbeats of an agent may be late, behind parts of something large."""
    simulation = Simulation(scheduler_config(worker_timeout_seconds=6.0))
    agent = simulation.agent(1)
    agent._next_heartbeat = simulation.clock() + 1000.0
    for _ in range(20):
        simulation.advance(2.0)
        agent.say(ObjectKept(ObjectId(b"o" * 16)))
    assert len(simulation.proxies()) == 1
    assert agent.said(HelloRequest) == []
    simulation.advance(10.0)
    assert len(agent.said(HelloRequest)) == 1


def counted_workers(simulation: Simulation, client: SimulatedClient, workers: int = 0) -> tuple[int, int]:
    """Return the number of workers that the client receives, as a count and as a list."""
    client.say(InfoRequest(1, detailed=1, workers=workers))
    simulation.run()
    return client.said(InfoResponse)[-1].workers, len(client.said(WorkerDetails))


def test_closed_workers_get_no_tasks_and_are_not_counted(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(4, slow, closed=3)
    client.submit(6)
    simulation.run()
    assert {run.worker for run in agent.started} == {0}
    assert counted_workers(simulation, client) == (1, 1)


def test_workers_that_are_opened_take_tasks_and_are_awaited(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(4, slow, closed=4)
    client.submit(6)
    assert counted_workers(simulation, client, workers=3) == (0, 0)
    assert not agent.started
    agent.close_workers(1)
    simulation.run()
    assert sorted(run.worker for run in agent.started) == [0, 1, 2]
    assert client.said(InfoResponse)[-1].workers == 3
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 6


def test_workers_that_are_closed_return_queued_tasks_and_finish_running_ones(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(3, lambda _run: Outcome(seconds=0.001))
    client.submit(9)
    simulation.advance(1.0)  # now they are known as short, and are queued at their workers
    agent.started.clear()
    agent.execute = slow
    client.submit(9)
    simulation.run()
    assert [len(slot.queue) for slot in agent.slots] == [3, 3, 3]
    agent.close_workers(2)
    simulation.run()
    assert [len(slot.queue) for slot in agent.slots][1:] == [1, 1]
    assert len(agent.given_back) == 4
    assert counted_workers(simulation, client) == (1, 1)
    simulation.advance(31.0)
    assert [len(slot.queue) for slot in agent.slots][1:] == [0, 0]
    agent.close_workers(0)
    client.submit(1)
    simulation.advance(0.1)
    assert len(agent.slots[1].queue) + len(agent.slots[2].queue) >= 1
    simulation.advance(500.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 19
    assert len({run.task_id for run in agent.started}) == len(agent.started)


def test_a_closed_worker_stays_closed_when_its_agent_reconnects(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2, slow)
    agent.close_workers(1)
    simulation.run()
    agent.cut()
    agent.connect()
    simulation.run()
    client.submit(4)
    simulation.run()
    assert {run.worker for run in agent.started} == {0}
    simulation.advance(300.0)


def test_the_next_scheduler_adopts_runs_at_closed_workers(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2, slow)
    client.submit(2)
    simulation.run()
    agent.closed = 2
    simulation.restart()
    for peer in (agent, client):
        peer.connect()
        simulation.run()
    assert counted_workers(simulation, client) == (0, 0)
    simulation.advance(60.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert len(agent.started) == 2


def test_tasks_that_request_resources_run_at_agents_with_closed_workers(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(4, slow, closed=2)
    client.options = RunOptions(capabilities=(("gpu", 1),)).encode()
    client.submit(2)
    simulation.run()
    assert len(agent.started) == 2


def test_very_many_workers_are_started_in_slices_between_other_turns(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "OPENED_AT_ONCE", 3)
    client = simulation.client()
    receive, start = simulation.edge.receive, WorkerProxy.on_start
    started: list[WorkerProxy] = []
    counts: list[int] = []

    def counting_start(proxy: WorkerProxy) -> None:
        started.append(proxy)
        start(proxy)

    def counting_receive() -> bool:
        counts.append(len(started))
        return receive()

    monkeypatch.setattr(WorkerProxy, "on_start", counting_start)
    monkeypatch.setattr(simulation.edge, "receive", counting_receive)
    agent = simulation.agent(10, slow)
    assert list(dict.fromkeys([*counts, len(started)])) == [0, 3, 6, 9, 10]
    client.submit(10)
    simulation.run()
    assert sorted(run.worker for run in agent.started) == list(range(10))
    assert counted_workers(simulation, client) == (10, 10)
    simulation.advance(100.0)


def test_workers_that_were_not_started_are_started_when_their_agent_reconnects(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "OPENED_AT_ONCE", 3)
    agent = SimulatedAgent(simulation, AgentId(b"a" * 16), 10, slow)
    simulation.peers.append(agent)
    agent.connect()
    simulation.edge.receive()
    simulation.dispatcher.run()
    agent.cut()
    simulation.run()
    client = simulation.client()
    assert counted_workers(simulation, client)[1] < 10
    agent.connect()
    client.submit(10)
    simulation.run()
    assert sorted(run.worker for run in agent.started) == list(range(10))
    simulation.advance(100.0)


def test_workers_that_are_closed_before_their_start_are_never_started(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_session, "OPENED_AT_ONCE", 3)
    client, agent = simulation.client(), simulation.agent(10, slow, closed=8)
    agent.close_workers(0)
    agent.close_workers(6)
    client.submit(8)
    simulation.run()
    assert {run.worker for run in agent.started} == set(range(4))
    assert counted_workers(simulation, client) == (4, 4)
    simulation.advance(300.0)


def most_in_a_turn(simulation: Simulation, monkeypatch: pytest.MonkeyPatch, *handlers: str) -> Callable[[], int]:
    """Return a function that returns the number of workers handled in the longest turn since its last call."""
    counts = [0]

    def counting(handler: Callable[..., None]) -> Callable[..., None]:
        def count(*arguments: Any) -> None:
            counts[-1] += 1
            handler(*arguments)

        return count

    for name in handlers:
        monkeypatch.setattr(WorkerProxy, name, counting(getattr(WorkerProxy, name)))
    receive = simulation.edge.receive

    def turn() -> bool:
        counts.append(0)
        return receive()

    monkeypatch.setattr(simulation.edge, "receive", turn)

    def most() -> int:
        most = max(counts)
        counts[:] = [0]
        return most

    return most


def test_loss_reconnection_and_leave_of_very_many_workers_take_many_turns(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_STEPS", 3)
    most = most_in_a_turn(simulation, monkeypatch, "_join", "_leave_balancer", "_give_back")
    client, agent = simulation.client(), simulation.agent(10, slow)
    client.submit(10)
    simulation.run()
    assert most() == 3
    agent.cut()
    simulation.run()
    assert most() == 3
    agent.connect()
    simulation.run()
    assert 3 <= most() <= 6  # one worker joins and is compared
    assert counted_workers(simulation, client) == (10, 10)
    agent.leave()
    simulation.run()
    assert 3 <= most() <= 6  # one worker leaves and returns its task
    assert simulation.proxies() == []
    assert len(client.statuses()) - client.statuses().count(None) == 0
    simulation.agent(10)
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 10


def test_each_worker_proxy_receives_only_its_own_runs_after_a_reconnection(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all runs for each worker, a reconnection would cost the number of workers times that of runs."""
    heard: list[int] = []
    start_over = WorkerProxy.handlers[StartOver]

    def counting(proxy: WorkerProxy, started: StartOver) -> None:
        heard.append(len(started.held))
        start_over(proxy, started)

    monkeypatch.setitem(WorkerProxy.handlers, StartOver, counting)
    client, agent = simulation.client(), simulation.agent(10, slow)
    client.submit(10)
    simulation.run()
    agent.cut()
    simulation.sessions(AgentSession)[0]._peer.invalidate()
    agent.connect()
    simulation.run()
    assert heard == [1] * 10
    simulation.advance(100.0)
    assert len(agent.started) == 10


def test_runs_continue_when_an_agent_returns_after_its_session_has_failed(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(2, slow)
    client.submit(2)
    simulation.run()
    while simulation.sessions(AgentSession):  # until it is refused, after five unreadable messages in a row
        simulation.router.deliver(agent.connection, b"garbage", [])
        simulation.run()
    agent.connect()
    simulation.advance(200.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 2
    assert len(agent.started) == 2


@pytest.mark.parametrize("leaves", [True, False])
def test_messages_of_an_agent_that_reconnects_are_handled_after_the_reconnection(
    simulation: Simulation, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_STEPS", 1)
    client, agent = simulation.client(), simulation.agent(6, lambda _run: Outcome(seconds=1.0))
    tasks = client.submit(6)
    simulation.run()
    agent.suspend(tasks[0])
    simulation.run()
    agent.cut()
    simulation.advance(1.5)
    simulation.sessions(AgentSession)[0]._peer.invalidate()
    if leaves:
        monkeypatch.setattr(agent, "after_hello", lambda: (SimulatedAgent.after_hello(agent), agent.leave()))
    agent.connect()
    simulation.run()
    assert client.statuses() == [None] + [TaskStatus.SUCCESS] * 5
    if not leaves:
        assert [proxy.statistics()["blocked_tasks"] for proxy in simulation.proxies()].count(1) == 1
        agent.resume(tasks[0])
    simulation.agent(1)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 6
    assert len(agent.started) == 6


def test_very_many_workers_with_runs_join_another_scheduler_in_slices(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_STEPS", 3)
    client, agent = simulation.client(), simulation.agent(10, slow)
    client.submit(10)
    simulation.run()
    simulation.restart()
    client.connect()
    simulation.run()
    most = most_in_a_turn(simulation, monkeypatch, "_join")
    agent.connect()
    simulation.run()
    assert most() == 3
    assert counted_workers(simulation, client) == (10, 10)
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 10
    assert len(agent.started) == 10


def test_results_that_arrive_before_their_worker_is_started_wait_for_it(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_STEPS", 1)
    client, agent = simulation.client(), simulation.agent(6, lambda _run: Outcome(seconds=1.0))
    client.submit(6)
    simulation.run()
    simulation.restart()
    agent.cut()
    simulation.advance(1.5)
    for peer in (client, agent):
        peer.connect()
        simulation.run()
    assert client.statuses() == [TaskStatus.SUCCESS] * 6
    assert len(agent.started) == 6


def start_some_workers(simulation: Simulation, agent: SimulatedAgent) -> None:
    """Run until the agent is accepted, when not all of its six workers have been started."""
    while not agent.is_welcome:
        simulation.edge.receive()
        simulation.dispatcher.run()
        simulation.edge.flush()
        simulation._deliver()
    assert 0 < len(simulation.proxies()) < 6


@pytest.mark.parametrize("is_lost", [True, False])
def test_an_agent_that_leaves_before_its_workers_are_started_leaves_no_entries(
    simulation: Simulation, is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_STEPS", 1)
    client, agent = simulation.client(), simulation.agent(6, slow)
    client.submit(6)
    simulation.run()
    simulation.restart()
    client.connect()
    simulation.run()
    agent.connect()
    start_some_workers(simulation, agent)
    if is_lost:
        agent.cut()
    else:
        agent.leave()
    simulation.advance(60.0)
    assert simulation.proxies() == []
    simulation.agent(6, slow)
    simulation.advance(60.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 6


def test_workers_closed_or_opened_during_the_start_follow_the_last_request(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_STEPS", 1)
    client, agent = simulation.client(), simulation.agent(6, slow)
    client.submit(6)
    simulation.run()
    simulation.restart()
    agent.connect()
    start_some_workers(simulation, agent)
    agent.close_workers(4)
    agent.close_workers(3)
    simulation.run()
    client.connect()
    simulation.run()
    assert counted_workers(simulation, client) == (3, 3)
    simulation.advance(100.0)
    assert client.statuses() == [TaskStatus.SUCCESS] * 6
    started = len(agent.started)
    client.submit(6)
    simulation.run()
    assert {run.worker for run in agent.started[started:]} == {0, 1, 2}
    simulation.advance(300.0)


# Results that the agent keeps


def located(_run: RunTask) -> Outcome:
    return Outcome(payload=b"", location=LOCATION)


LOCATION = SharedBlock.of([bytes(100_000)]).location()


def test_an_agent_keeps_a_result_until_its_client_has_deleted_it(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, located)
    (task_id,) = client.submit(1)
    simulation.advance(5.0)
    assert (client.results[task_id].size, agent.dropped) == (100_000, [])
    client.delete(ObjectId(task_id))
    simulation.advance(1.0)
    assert agent.dropped == [(task_id, LOCATION)]


def test_an_unwanted_large_result_is_deleted_at_its_agent(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    (task_id,) = client.submit(1)
    simulation.advance(1.0)
    (run,) = agent.started
    client.cancel(task_id)
    agent.say(RunResult(run.task_id, run.worker, run.attempt, TaskStatus.SUCCESS, b"", 1, (), location=LOCATION))
    simulation.advance(1.0)
    assert agent.dropped == [(task_id, LOCATION)]


def test_a_client_is_notified_at_once_of_a_result_that_was_lost_with_its_agent(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, located)
    (task_id,) = client.submit(1)
    simulation.advance(1.0)
    agent.leave()
    simulation.advance(1.0)
    assert client.lost == [task_id]


def test_a_value_that_an_agent_hands_over_together_with_its_result_outlives_the_agent(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, slow)
    (task_id,) = client.submit(1)
    simulation.advance(1.0)
    (run,) = agent.started
    agent.say(
        DrainRequest("SIGTERM"),
        RunResult(run.task_id, run.worker, run.attempt, TaskStatus.SUCCESS, b"", 1, (), location=LOCATION),
        ObjectResponse(ObjectId(task_id), FOUND, [b"bytes"]),
        DisconnectRequest("SIGTERM"),
    )
    simulation.advance(1.0)
    client.say(ObjectRequest(ObjectId(task_id), 1))
    simulation.advance(1.0)
    assert (client.fetched[ObjectId(task_id)], client.lost) == (b"bytes", [])


@pytest.mark.parametrize(
    "location", [b"nowhere", SharedBlock.of([b"", b""]).location()], ids=["no location", "no bytes"]
)
def test_a_result_with_a_malformed_location_fails_its_task(simulation: Simulation, location: bytes) -> None:
    client, _ = simulation.client(), simulation.agent(1, lambda _run: Outcome(payload=b"", location=location))
    (task_id,) = client.submit(1)
    simulation.advance(1.0)
    assert client.results[task_id].status == TaskStatus.INTERNAL_ERROR


def test_a_location_that_an_agent_reports_for_a_run_of_another_agent_is_ignored(simulation: Simulation) -> None:
    """A location for a result of another agent changes nothing, and the value there is deleted."""
    client, agent = simulation.client(), simulation.agent(1, located)
    (task_id,) = client.submit(1)
    simulation.advance(1.0)
    other = simulation.agent(1, located)
    simulation.advance(1.0)
    forged = SharedBlock.of([b"forged"]).location()
    other.say(RunResult(task_id, 0, 1, TaskStatus.SUCCESS, b"", 0, (), location=forged))
    simulation.advance(1.0)
    client.say(ObjectRequest(ObjectId(task_id), 1))
    simulation.advance(1.0)
    assert ([part.object_id for part in agent.parts_wanted], other.parts_wanted) == ([task_id], [])


def test_a_client_that_cannot_open_a_result_receives_it_from_its_agent(simulation: Simulation) -> None:
    client, agent = simulation.client(), simulation.agent(1, located)
    (task_id,) = client.submit(1)
    simulation.advance(1.0)
    client.say(ObjectRequest(ObjectId(task_id), 1))
    simulation.advance(1.0)
    [wanted] = agent.parts_wanted
    assert (wanted.object_id, wanted.offset) == (task_id, 0)
    agent.say(ObjectPart(ObjectId(task_id), wanted.location, 0, sizes_of([b"bytes"]), (b"bytes",)))
    simulation.advance(1.0)
    assert client.fetched[ObjectId(task_id)] == b"bytes"
