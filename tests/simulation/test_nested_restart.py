"""A task that runs on through a restart may submit tasks before the object that these need has come again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.simulation.lanes import Way
from tests.simulation.programs import NEST, Script
from tests.simulation.stand_ins import installed
from tests.simulation.system import System
from tests.simulation.users import User
from tests.simulation.world import World
from tests.support.configs import scheduler_config

CHILD = 10


def test_a_nested_task_waits_for_an_object_that_its_owner_has_yet_to_resubmit(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    world = World(1, said.append)
    system = System(world, scheduler_config(worker_timeout_seconds=8.0, client_timeout_seconds=8.0))
    held: list[Any] = []
    calls: list[Any] = []
    submit = User.submit

    def submit_with_object(
        self: User, script: Script, values: Sequence[Any] = (), *, is_lazy: bool = False, parent_run: str = ""
    ) -> Any:
        if script.token == CHILD:
            self.references[held[0].object_id] = held[0], value
            values = held
        return submit(self, script, values, is_lazy=is_lazy, parent_run=parent_run)

    def begin(user: User) -> None:
        held.append(user.send_object(value))
        child = Script(token=CHILD, seconds=1.0)
        calls.append(user.submit(Script(token=1, seconds=40.0, kind=NEST, children=(child,))))

    monkeypatch.setattr(User, "submit", submit_with_object)
    value = b"12345678" * 150_000  # takes 12 s on its way
    with installed(world, system.network):
        program = system.start_program()
        system.network.ways[program.host] = Way(0.01, 0.0, 100_000.0)
        system.start_agent(1)
        system.start_scheduler()
        world.run(1.0)
        program.act(begin)
        world.run(19.5)
        system.kill_scheduler()
        world.run(1.0)
        system.start_scheduler()
        world.run(120.0, calls[0].future.done)
        assert calls[0].future.exception(0) is None
        assert world.violations == []
        system.close()
    assert sum(f"task {CHILD}/" in line and "starts" in line for line in said) == 1
