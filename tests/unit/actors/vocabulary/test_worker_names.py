"""Workers of the same name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.actors.vocabulary.hellos import NAMES_LISTED, listed
from scaler.actors.vocabulary.worker_names import WorkerNames
from scaler.wire.messages.common import PROTOCOL_VERSION
from scaler.wire.messages.worker import WorkerHello
from tests.support.simulation import Simulation


def hello(number: int, names: str) -> WorkerHello:
    return WorkerHello(PROTOCOL_VERSION, "9.9.9", "3.11.7", "3.1.1", bytes([number]) * 16, names, b"")


def test_workers_whose_names_are_taken_get_new_names(caplog: pytest.LogCaptureFixture) -> None:
    names = WorkerNames()
    first = hello(1, "a,b")
    assert names.take(first) is first
    assert caplog.messages == []
    assert names.take(hello(2, "b,c,a")).worker_names == "b#2,c,a#2"
    assert names.take(hello(3, "a,a,a#2")).worker_names == "a#3,a#4,a#2#2"
    assert "b#2 instead of b, a#2 instead of a" in caplog.text
    assert "--worker-names" in caplog.text


def test_worker_names_are_free_again_when_their_agent_left() -> None:
    names = WorkerNames()
    names.take(hello(1, "a"))
    names.take(hello(2, "a"))
    names.release(bytes([1]) * 16)
    names.release(bytes([1]) * 16)
    assert names.take(hello(3, "a")).worker_names == "a"
    for number in (2, 3):
        names.release(bytes([number]) * 16)
    assert names.take(hello(4, "a,b")).worker_names == "a,b"


def test_agents_without_a_worker_take_no_name() -> None:
    names = WorkerNames()
    assert [names.take(hello(number, "")).worker_names for number in (1, 2)] == ["", ""]


def test_a_scheduler_renames_workers_of_the_same_name(simulation: Simulation) -> None:
    agents = [simulation.agent(2), simulation.agent(2)]
    other = replace(agents[1].hello(), worker_names=agents[0].hello().worker_names, agent_id=bytes(16))
    simulation.router.deliver(simulation.open_connection(agents[1]), *agents[1].session.hello(other))
    simulation.run()
    names = sorted(proxy.name for proxy in simulation.proxies())
    first = agents[0].hello().worker_names.split(",")
    assert len(set(names)) == 6
    assert {f"{name}#2" for name in first} < set(names)


def test_the_log_lists_the_first_worker_names_only() -> None:
    assert listed([str(number) for number in range(NAMES_LISTED)]) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert listed([str(number) for number in range(NAMES_LISTED + 5)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 5 more"
    assert listed([]) == "-"
