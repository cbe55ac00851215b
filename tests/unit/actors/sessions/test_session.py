"""Sessions: how long a peer whose connection ended has to come back. Closed and silent are two things."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.actors.messages.tasks import CancelTask
from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.sessions.session import Farewell
from scaler.actors.slices import SLICE_STEPS
from scaler.endpoint import Endpoint
from tests.support.bench import Bench
from tests.support.configs import scheduler_config
from tests.support.simulation import Simulation

KINDS = {"client": ClientSession, "agent": AgentSession}


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(scheduler_config(client_timeout_seconds=600.0, worker_timeout_seconds=600.0))


def peer_of(simulation: Simulation, kind: str) -> Any:
    peer = simulation.client() if kind == "client" else simulation.agent(1)
    simulation.advance(10.0)
    return peer


def is_awaited_until(simulation: Simulation, kind: str, seconds: float, more: float) -> bool:
    """Whether its session is there for so many seconds, and gone after some more."""
    simulation.advance(seconds)
    before = len(simulation.sessions(KINDS[kind]))
    simulation.advance(more)
    return (before, len(simulation.sessions(KINDS[kind]))) == (1, 0)


def be_stopped_and_be_cut(simulation: Simulation, peer: Any) -> None:
    """Be silent for longer than usual, go on, and lose the connection in a further silence."""
    peer.hang()
    simulation.advance(15.0)
    peer.hangs = False
    peer._beat()
    simulation.run()
    peer.hang()
    simulation.advance(9.0)
    peer.cut()


@pytest.mark.parametrize(("kind", "seconds"), [("client", 5.0), ("agent", 2.0)])
def test_a_closed_connection_has_some_seconds_to_come_back(simulation: Simulation, kind: str, seconds: float) -> None:
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
def test_so_it_is_for_one_that_has_just_come_back(simulation: Simulation, kind: str) -> None:
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
def test_one_that_nothing_else_could_end_was_closed_however_long_the_silence(
    simulation: Simulation, kind: str, seconds: float
) -> None:
    simulation.router.endpoint = Endpoint.parse("ipc:///run/scaler.sock")
    peer = peer_of(simulation, kind)
    peer.hang()
    simulation.advance(25.0)
    peer.cut()
    assert is_awaited_until(simulation, kind, seconds - 0.5, more=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_no_wait_is_longer_than_the_time_out(kind: str) -> None:
    simulation = Simulation(scheduler_config(client_timeout_seconds=1.0, worker_timeout_seconds=1.0))
    peer = simulation.client() if kind == "client" else simulation.agent(1)
    simulation.advance(0.5)
    peer.die()
    simulation.advance(1.5)
    assert simulation.sessions(KINDS[kind]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_said_while_the_scheduler_was_stopped_counts_though_it_is_late(
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
def test_what_ended_while_the_scheduler_was_stopped_may_have_been_silent_before(
    simulation: Simulation, kind: str
) -> None:
    """What was said last may be as old as the stop, and whoever is silent for so long may have been cut off."""
    peer = peer_of(simulation, kind)
    simulation.paused_seconds = 15.0
    peer.die()
    assert is_awaited_until(simulation, kind, 590.0, more=15.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_peer_that_was_stopped_has_no_rarer_heartbeats(simulation: Simulation, kind: str) -> None:
    """It is silent after five seconds, as before, although its last two heartbeats are far apart."""
    peer = peer_of(simulation, kind)
    be_stopped_and_be_cut(simulation, peer)
    simulation.advance(500.0)
    assert len(simulation.sessions(KINDS[kind])) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_so_it_is_if_it_was_stopped_after_its_first_heartbeat(simulation: Simulation, kind: str) -> None:
    peer = simulation.client() if kind == "client" else simulation.agent(1)
    peer._beat()
    be_stopped_and_be_cut(simulation, peer)
    simulation.advance(500.0)
    assert len(simulation.sessions(KINDS[kind])) == 1


def test_everybody_is_told_and_then_it_ends(bench: Bench) -> None:
    recorders = [bench.recorder() for _ in range(2 * SLICE_STEPS + 1)]
    farewell = bench.dispatcher.spawn(Farewell([(ref, CancelTask()) for _, ref in recorders]))
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
