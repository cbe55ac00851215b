"""An order that ends each agent that it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.errors import WorkerDiedError
from scaler.peer.conversation_state import TRIES_MOST
from scaler.wire.messages.worker import RunTask
from tests.simulation.parties import AgentParty
from tests.simulation.processors import script_of
from tests.simulation.programs import Script
from tests.simulation.stand_ins import installed
from tests.simulation.system import System
from tests.simulation.world import World
from tests.support.configs import scheduler_config

DEADLY = Script(token=1, seconds=0.1)
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


def start_agent(system: System) -> None:
    agent = system.start_agent(1)
    agent.soon(lambda: die_of(agent, system))


def test_a_task_whose_order_ends_five_agents_that_have_it_fails_and_others_run() -> None:
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
        assert f"{TRIES_MOST} agents, one after the other, were lost while its order was on its way there" in str(error)
        assert [future.exception(0) for future in futures[1:]] == [None] * len(USUAL)
        assert sum(not agent.is_alive for agent in system.agents) == TRIES_MOST
        system.close()
