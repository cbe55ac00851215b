"""The edge counts what crosses it. What it does for peers is in the tests of acceptor and sessions."""

from __future__ import annotations

from tests.support.simulation import Simulation


def test_what_was_received_and_sent_is_counted_by_the_name_of_the_message() -> None:
    simulation = Simulation()
    client, _ = simulation.client(), simulation.agent()
    client.submit(3)
    simulation.advance(5.0)
    received, sent = simulation.edge.received.by_name(), simulation.edge.sent.by_name()
    assert (received["Task"], received["RunResult"], received["ClientHello"], received["WorkerHello"]) == (3, 3, 1, 1)
    assert (sent["RunTask"], sent["TaskResult"], sent["HelloReply"]) == (3, 3, 2)
    assert received["ClientHeartbeat"] == sent["ClientHeartbeatEcho"] > 0


def test_messages_and_bytes_are_those_of_the_socket() -> None:
    simulation = Simulation()
    client, _ = simulation.client(), simulation.agent()
    client.create(b"an object")
    simulation.router.deliver(client.connection, b"garbage", [b"more"])
    simulation.advance(1.0)
    ways = {"in": (0, 0), "out": (0, 0)}
    for _, way, _, header, frames in simulation.router.log:
        count, size = ways[way]
        ways[way] = count + 1, size + len(header) + sum(map(len, frames))
    counts = simulation.edge.statistics()
    assert (counts["messages_received"], counts["bytes_received"]) == ways["in"]
    assert (counts["messages_sent"], counts["bytes_sent"]) == ways["out"]
    assert counts["bad_messages"] == 1
