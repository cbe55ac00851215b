"""Sessions: how long a peer whose connection ended has to reconnect, which depends on a close or a silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scaler.actors.messages.tasks import CancelTask
from scaler.actors.sessions.acceptor import Acceptor
from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.sessions.session import REFUSED_MOST, SessionTeardown
from scaler.actors.slices import SLICE_STEPS
from scaler.actors.tree import ACCEPTOR, ADOPTION, CENSUS, OBJECT_STORE, OUTPUTS
from scaler.endpoint import Endpoint
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.client import (
    ClientDisconnect,
    ClientShutdownResponse,
    GoodbyeKind,
    InfoRequest,
    InfoResponse,
    OutputRequest,
    OutputResponse,
)
from scaler.wire.messages.common import (
    HelloReply,
    HelloRequest,
    ObjectRequest,
    ObjectResponse,
    OutputStream,
    TaskStatus,
)
from scaler.wire.messages.worker import RunOutput
from tests.support.bench import Bench
from tests.support.configs import scheduler_config
from tests.support.simulation import Outcome, Simulation

NO_TASK, NO_OBJECT = TaskId(b"t" * 16), ObjectId(b"o" * 16)
SHUTDOWN = ClientDisconnect(GoodbyeKind.SHUTDOWN)
KINDS = {"client": ClientSession, "agent": AgentSession}


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(scheduler_config(client_timeout_seconds=600.0, worker_timeout_seconds=600.0, protected=False))


def peer_of(simulation: Simulation, kind: str) -> Any:
    peer = simulation.client() if kind == "client" else simulation.agent(1)
    simulation.advance(10.0)
    return peer


def is_awaited_until(simulation: Simulation, kind: str, seconds: float, more: float) -> bool:
    """Return whether the session of a peer exists after `seconds` seconds, and has ended after `more` seconds."""
    simulation.advance(seconds)
    before = len(simulation.sessions(KINDS[kind]))
    simulation.advance(more)
    return (before, len(simulation.sessions(KINDS[kind]))) == (1, 0)


def stop_and_cut(simulation: Simulation, peer: Any) -> None:
    """Make a peer silent for longer than usual, let it continue, and cut its connection in a further silence."""
    peer.hang()
    simulation.advance(15.0)
    peer.hangs = False
    peer._beat()
    simulation.run()
    peer.hang()
    simulation.advance(9.0)
    peer.cut()


@pytest.mark.parametrize(("kind", "seconds"), [("client", 5.0), ("agent", 2.0)])
def test_a_peer_whose_connection_was_closed_has_some_seconds_to_reconnect(
    simulation: Simulation, kind: str, seconds: float
) -> None:
    peer_of(simulation, kind).die()
    assert is_awaited_until(simulation, kind, seconds - 0.5, more=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_was_given_up_after_silence_is_not_closed(simulation: Simulation, kind: str) -> None:
    peer = peer_of(simulation, kind)
    peer.hang()
    simulation.advance(25.0)
    peer.cut()
    assert is_awaited_until(simulation, kind, 570.0, more=10.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_given_up_after_silence_is_not_closed_for_a_reconnected_peer(
    simulation: Simulation, kind: str
) -> None:
    peer = peer_of(simulation, kind)
    peer.cut()
    simulation.advance(1.0)
    peer.connect()
    peer.hang()
    simulation.advance(25.0)
    peer.cut()
    simulation.advance(570.0)
    assert len(simulation.sessions(KINDS[kind])) == 1


@pytest.mark.parametrize(("kind", "seconds"), [("client", 5.0), ("agent", 2.0)])
def test_an_ipc_connection_that_ends_was_closed_however_long_the_silence(
    simulation: Simulation, kind: str, seconds: float
) -> None:
    simulation.router.endpoint = Endpoint.parse("ipc:///run/scaler.sock")
    peer = peer_of(simulation, kind)
    peer.hang()
    simulation.advance(25.0)
    peer.cut()
    assert is_awaited_until(simulation, kind, seconds - 0.5, more=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_no_wait_for_a_peer_is_longer_than_the_time_out(kind: str) -> None:
    simulation = Simulation(scheduler_config(client_timeout_seconds=1.0, worker_timeout_seconds=1.0))
    peer = simulation.client() if kind == "client" else simulation.agent(1)
    simulation.advance(0.5)
    peer.die()
    simulation.advance(1.5)
    assert simulation.sessions(KINDS[kind]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_messages_sent_while_the_scheduler_was_stopped_count_though_they_are_late(
    simulation: Simulation, kind: str
) -> None:
    peer = peer_of(simulation, kind)
    sessions = simulation.sessions(KINDS[kind])
    simulation.clock.advance(600.5)
    simulation.run()
    peer._beat()
    simulation.advance(1.0)
    assert simulation.sessions(KINDS[kind]) == sessions


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_ended_while_the_scheduler_was_stopped_counts_as_silent(
    simulation: Simulation, kind: str
) -> None:
    """The last message may be as old as the stop, and a peer that is silent for so long may have been cut off."""
    peer = peer_of(simulation, kind)
    simulation.paused_seconds = 15.0
    peer.die()
    assert is_awaited_until(simulation, kind, 590.0, more=15.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_of_a_peer_does_not_lengthen_its_heartbeat_interval(simulation: Simulation, kind: str) -> None:
    """The peer counts as silent after five seconds, as before, although its last two heartbeats are far apart."""
    peer = peer_of(simulation, kind)
    stop_and_cut(simulation, peer)
    simulation.advance(500.0)
    assert len(simulation.sessions(KINDS[kind])) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_after_the_first_heartbeat_does_not_lengthen_the_heartbeat_interval(
    simulation: Simulation, kind: str
) -> None:
    peer = simulation.client() if kind == "client" else simulation.agent(1)
    peer._beat()
    stop_and_cut(simulation, peer)
    simulation.advance(500.0)
    assert len(simulation.sessions(KINDS[kind])) == 1


def test_a_session_teardown_notifies_all_actors_and_then_ends(bench: Bench) -> None:
    recorders = [bench.recorder() for _ in range(2 * SLICE_STEPS + 1)]
    farewell = bench.dispatcher.spawn(SessionTeardown([(ref, CancelTask()) for _, ref in recorders]))
    while not farewell.is_stopped():
        bench.run()
    bench.run()
    assert all(len(recorder.messages) == 1 for recorder, _ in recorders)


def test_the_end_of_a_session_with_many_tasks_is_short(simulation: Simulation) -> None:
    client = simulation.client()
    client.submit(4 * SLICE_STEPS)
    simulation.run()
    (session,) = simulation.sessions(ClientSession)
    tasks = [task for _, task in session._tasks.items()]
    session.stop_now()
    assert sum(bool(task._mailbox) for task in tasks) == SLICE_STEPS
    client.is_gone = True
    simulation.run()
    assert all(task.is_stopped() for task in tasks)


SHARED: dict[str, tuple[str, Callable[[int], Any], type]] = {
    CENSUS: ("insight.census.Census._take", InfoRequest, InfoResponse),
    OUTPUTS: ("insight.task_outputs.TaskOutputs._serve", lambda number: OutputRequest(number, NO_TASK), OutputResponse),
    OBJECT_STORE: (
        "objects.pending_requests.PendingRequests.has_to_wait",
        lambda _: ObjectRequest(NO_OBJECT, 1),
        ObjectResponse,
    ),
    ACCEPTOR: (
        "sessions.acceptor.why_not_admin",
        lambda _: ClientDisconnect(GoodbyeKind.SHUTDOWN),
        ClientShutdownResponse,
    ),
}
"""For each part of the tree: the method that fails, the request, and the type of the answer."""


def fail(*_arguments: Any) -> Any:
    raise OverflowError("what nobody has thought of")


@pytest.mark.parametrize("part", [*SHARED])
def test_requests_that_a_shared_actor_cannot_handle_are_answered_and_end_only_their_peer(
    simulation: Simulation, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    where, request, answer = SHARED[part]
    hostile, other = simulation.client(), simulation.client()
    hostile.comes_back = False
    actor, task_ids = simulation.actor(part), other.submit(3)
    with monkeypatch.context() as patch:
        patch.setattr(f"scaler.actors.{where}", fail)
        for number in range(REFUSED_MOST - 1):
            hostile.say(request(number))
        simulation.run()
        assert len(hostile.said(answer)) == REFUSED_MOST - 1
        assert len(simulation.sessions(ClientSession)) == 2
        logged = [each for each in caplog.records if "cannot be handled" in each.getMessage()]
        assert [each.exc_info is not None for each in logged] == [True], "one line, with its traceback"
        hostile.say(request(REFUSED_MOST))
        simulation.run()
    assert "10 of its messages could not be handled" in hostile.said(HelloRequest)[-1].reason
    assert len(simulation.sessions(ClientSession)) == 1
    simulation.agent(1)
    simulation.advance(5.0)
    assert other.statuses(task_ids) == [TaskStatus.SUCCESS] * 3
    assert simulation.actor(part) is actor, "it was not restarted"
    assert simulation.dispatcher.failures == 0


def test_lines_that_cannot_be_handled_end_only_the_session_of_their_agent(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, hostile = simulation.client(), simulation.agent(1, lambda _run: Outcome(seconds=5.0))
    client.submit(1)
    simulation.run()
    run = hostile.started[-1]
    hostile.comes_back = False
    with monkeypatch.context() as patch:
        patch.setattr("scaler.actors.insight.output_table.OutputTable.add", fail)
        for number in range(REFUSED_MOST):
            hostile.say(RunOutput(run.task_id, run.worker, run.attempt, OutputStream.STANDARD_OUTPUT, number, 0, "x"))
            simulation.run()
    assert "10 of its messages could not be handled" in hostile.said(HelloRequest)[-1].reason
    assert simulation.sessions(AgentSession) == []
    simulation.agent(1)
    simulation.advance(5.0)
    assert client.statuses() == [TaskStatus.SUCCESS]
    assert simulation.dispatcher.failures == 0


def test_a_task_whose_message_cannot_be_handled_fails_and_other_tasks_succeed(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = simulation.client()
    simulation.restart()
    adoption = simulation.actor(ADOPTION)
    with monkeypatch.context() as patch:
        patch.setattr("scaler.actors.tasks.adoption.Adoption._know", fail)
        client.connect()
        simulation.run()
        lost = client.submit(2)
        simulation.run()
    assert client.statuses(lost) == [TaskStatus.INTERNAL_ERROR] * 2
    others = client.submit(2)
    simulation.agent(1)
    simulation.advance(60.0)
    assert client.statuses(others) == [TaskStatus.SUCCESS] * 2
    assert simulation.actor(ADOPTION) is adoption, "it was not restarted"


@pytest.mark.parametrize("role", ["client", "agent"])
def test_a_hello_that_cannot_be_handled_is_refused_and_later_ones_are_accepted(
    simulation: Simulation, role: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Acceptor, "_new_peer", fail)
        peers = [getattr(simulation, role)() for _ in range(20)]
        simulation.run()
    for peer in peers:
        assert peer.said(HelloReply)[-1].reason.startswith(
            "the scheduler failed while it handled your hello: OverflowError("
        )
    assert len([each for each in caplog.records if each.exc_info is not None]) == 1, "it is logged once"
    assert simulation.tree.directory.peers == {}
    assert simulation.client().said(HelloReply)[-1].accepted
    assert simulation.dispatcher.failures == 0
