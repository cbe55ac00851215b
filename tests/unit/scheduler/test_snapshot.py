"""The snapshot that a scheduler logs on request."""

from __future__ import annotations

import pytest

from scaler.actors.tree import BALANCER, OBJECT_STORE
from scaler.scheduler.snapshot import ended, snapshot
from scaler.wire.messages.worker import RunTask
from tests.support.simulation import Outcome, Simulation


def lines(simulation: Simulation) -> dict[str, str]:
    report = simulation.tree.report()
    simulation.run()
    edge = simulation.edge
    title, *rows = snapshot(report, edge.received, edge.sent, simulation.tree.statistics()).splitlines()
    assert title == "scheduler: what it does now"
    return {row.split()[0]: row.split(maxsplit=1)[1] for row in rows}


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=100.0)


def test_the_snapshot_of_an_idle_scheduler_has_zeros() -> None:
    assert lines(Simulation()) == {
        "tasks": "0 wait for a worker, 0 are at workers",
        "workers": "0 in 0 clusters, 0 of them have tasks",
        "clients": "0, 0 of them in tasks; 0 open tasks, 0 open graphs",
        "objects": "0 (0 B) of 0 clients; 0 functions kept only by clusters",
        "received": "nothing; 0 messages, 0 B",
        "sent": "nothing; 0 messages, 0 B",
        "process": "0 peers, 0 sessions, 0 objects, 0 object bytes, 0 object owners, 0 retained objects",
    }


def test_the_snapshot_of_a_busy_scheduler_has_its_tasks_and_peers() -> None:
    simulation = Simulation()
    client, agent = simulation.client(), simulation.agent(3, slow)
    other, nested = simulation.client(), simulation.nested_client(agent)
    names = agent.hello().worker_names.split(",")
    client.submit(6)
    other.submit_graph([[], [0], [0]], [2])
    nested.submit(1, priority=1)
    other.create(b"x" * 3000)
    simulation.run()
    agent.suspend(agent.started[0].task_id)
    simulation.run()
    told = lines(simulation)
    assert told["tasks"] == (
        "4 wait for a worker, 4 are at workers, 1 of these wait for nested tasks; 2 wait for results of other tasks"
    )
    assert told["workers"].startswith("3 in 1 cluster, 3 of them have tasks; most tasks: ")
    assert all(name in told["workers"] for name in names)
    assert told["clients"] == (
        "3, 1 of them in tasks; 7 open tasks, 1 open graphs; most tasks: "
        f"{client.client_id.hex()[:8]} 6, {nested.client_id.hex()[:8]} 1"
    )
    assert told["objects"].startswith("2 (2.9 KiB) of 3 clients")
    assert told["received"].startswith("10 Task, ")
    assert "4 RunTask" in told["sent"]


@pytest.mark.parametrize(
    ("part", "line", "sentence"),
    [
        (BALANCER, "tasks", "the balancer is being restarted"),
        (OBJECT_STORE, "objects", "the object store is being restarted"),
    ],
)
def test_a_restarting_part_is_named_in_the_snapshot_and_other_parts_report(part: str, line: str, sentence: str) -> None:
    simulation = Simulation()
    simulation.client()
    for _ in range(3):
        simulation.fail(simulation.tree.supervisor.children[part])
        simulation.run()
    assert simulation.actor(part) is None  # its restart is delayed
    told = lines(simulation)
    assert told[line] == sentence
    assert told["clients"].startswith("1, ")


def test_the_last_log_line_of_a_scheduler_is_a_sentence() -> None:
    simulation = Simulation()
    counts = {**simulation.dispatcher.statistics(), **simulation.edge.statistics(), **simulation.tree.statistics()}
    assert ended({**counts, "messages_sent": 1_234, "bytes_sent": 2_048}) == (
        "scheduler: ended: it has received 0 messages (0 B) and sent 1,234 (2.0 KiB); 0 could not be read, 0 were for "
        "lost peers, 0 of its actors' handlers failed; left at the end: sessions 0, objects 0, "
        "object bytes 0, object owners 0, retained objects 0, actors with mail 0"
    )
