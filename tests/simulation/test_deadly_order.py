"""An order, or a large value for one, that ends each agent that it reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from scaler.actors.sessions import agent_session
from scaler.errors import WorkerDiedError
from scaler.ids import ObjectId
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import size_of
from scaler.wire.messages.worker import RunTask
from tests.simulation.parties import AgentParty
from tests.simulation.processors import script_of
from tests.simulation.programs import Script
from tests.simulation.stand_ins import installed
from tests.simulation.system import System
from tests.simulation.world import World
from tests.support.configs import scheduler_config

DEADLY = Script(token=1, seconds=0.1)
SIZE = 300_000
USUAL = [Script(token=token, seconds=0.1) for token in range(2, 6)]


def die_of(agent: AgentParty, system: System) -> None:
    """Have an agent end, before it says another word, as it takes this order; and somebody start the next one."""
    ledger = agent.link._ledger
    add = ledger.add

    def take(orders: Sequence[RunTask]) -> Any:
        if all(script_of(order) != DEADLY for order in orders):
            return add(orders)
        agent.soon(agent.end)
        system.world.at(0.5, lambda: start_agent(system))
        return {}

    ledger.add = take  # type: ignore[method-assign]


def die_of_a_value(agent: AgentParty, system: System) -> None:
    """Have an agent end as it takes a value, before it says that it has it."""

    store = agent.objects._store
    keep = store.take

    def take(object_id: ObjectId, frames: Any) -> None:
        if size_of(frames) >= SIZE:
            agent.end()
            system.world.at(0.5, lambda: start_agent(system, 2, die_of_a_value))
        keep(object_id, frames)

    store.take = take  # type: ignore[method-assign]


def start_agent(system: System, workers: int = 1, dies: Callable[[AgentParty, System], None] = die_of) -> None:
    agent = system.start_agent(workers)
    agent.soon(lambda: dies(agent, system))


def test_a_large_value_that_ends_five_agents_is_the_end_of_its_task_and_no_mark_for_what_runs_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_session, "DEADLY_BYTES", SIZE)
    world = World(1)
    system = System(world, scheduler_config(worker_timeout_seconds=8.0, client_timeout_seconds=8.0, crash_limit=2))
    with installed(world, system.network):
        start_agent(system, 2, die_of_a_value)
        program = system.start_program()
        system.start_scheduler()
        world.run(1.0)
        futures: list[Any] = []
        program.act(lambda user: futures.append(user.submit(Script(token=1, seconds=20.0)).future))
        world.run(1.0)
        program.act(lambda user: futures.append(user.submit(DEADLY, [user.send_object(bytes(SIZE))]).future))
        world.run(120.0, lambda: len(futures) == 2 and all(future.done() for future in futures))
        assert futures[0].exception(0) is None
        error = futures[1].exception(0)
        assert isinstance(error, WorkerDiedError)
        assert f"{TRIES_MOST} agents in a row were lost while it, or a value for it," in str(error)
        assert sum(not agent.is_alive for agent in system.agents) == TRIES_MOST
        system.close()


def test_a_task_whose_message_ends_five_agents_fails_and_other_tasks_run() -> None:
    world = World(1)
    system = System(world, scheduler_config(worker_timeout_seconds=8.0, client_timeout_seconds=8.0))
    with installed(world, system.network):
        program = system.start_program()
        start_agent(system)
        system.start_scheduler()
        world.run(1.0)
        futures: list[Any] = []
        program.act(lambda user: futures.extend(user.submit(script).future for script in (DEADLY,)))
        world.run(1.0)
        program.act(lambda user: futures.extend(user.submit(script).future for script in USUAL))
        world.run(60.0, lambda: len(futures) == 5 and all(future.done() for future in futures))
        error = futures[0].exception(0)
        assert isinstance(error, WorkerDiedError)
        assert f"{TRIES_MOST} agents in a row were lost while it, or a value for it, was being sent to them" in str(
            error
        )
        assert [future.exception(0) for future in futures[1:]] == [None] * len(USUAL)
        assert sum(not agent.is_alive for agent in system.agents) == TRIES_MOST
        system.close()
