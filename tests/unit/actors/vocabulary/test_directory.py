"""The directory: which peers are connected, and over which connection."""

from __future__ import annotations

from itertools import count

import pytest

from scaler.actors.vocabulary.directory import (
    KNOWN_MOST,
    MARKS_MOST,
    SPENT_REMEMBERED,
    AttemptTimes,
    Directory,
    UnstartedRuns,
)
from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import ATTEMPTS, NO_CONNECTION, Connection, TaskId
from scaler.wire.messages.directions import (
    AGENT_TO_SCHEDULER,
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    SCHEDULER_TO_CLIENT,
)
from scaler.wire.session.pipe import Pipe
from tests.support.bench import Bench

ONE, OTHER = Connection(b"one"), Connection(b"other")
TOKEN = b"t" * 16


class Scene:
    """A directory."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.outbox = Outbox()
        self.directory = Directory(count(1).__next__, self.outbox)

    def client(self, connection: Connection = ONE, python: str = "3.11") -> Peer:
        peer = Peer(("client", b"c" * 16), CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, Pipe, python)
        return self.add(peer, connection)

    def agent(self, connection: Connection = OTHER) -> Peer:
        return self.add(
            Peer(("cluster", b"a" * 16), AGENT_TO_SCHEDULER, SCHEDULER_TO_AGENT, Pipe, "3.11", TOKEN),
            connection,
        )

    def add(self, peer: Peer, connection: Connection) -> Peer:
        self.directory.add(peer, self.bench.recorder()[1], connection)
        return peer


@pytest.fixture
def scene(bench: Bench) -> Scene:
    return Scene(bench)


def test_a_peer_is_found_by_its_key_its_session_and_its_connection(scene: Scene) -> None:
    client, agent, directory = scene.client(), scene.agent(), scene.directory
    assert directory.peers == {client.key: client, agent.key: agent}
    assert directory.connected == {ONE: client, OTHER: agent}
    assert directory.of_session(client.session) is client
    assert directory.agents_by_token == {TOKEN: agent.session}
    assert directory.pythons == {("3.11", "client"): 1, ("3.11", "cluster"): 1}


def test_a_new_connection_replaces_the_earlier_one(scene: Scene) -> None:
    client, directory = scene.client(), scene.directory
    scene.outbox.put(client, "old")
    scene.outbox.put_unnumbered(client, "echo")
    directory.reconnect(client, OTHER)
    assert directory.connected == {OTHER: client}
    assert directory.is_spent(ONE)
    assert list(client.pipe.unacknowledged()) == ["old"]
    assert client.unnumbered == []
    assert scene.outbox.take_closing() == []


def test_a_disconnected_peer_has_no_connection_and_stays_known(scene: Scene) -> None:
    client, directory = scene.client(), scene.directory
    directory.disconnect(client)
    directory.disconnect(client)
    assert client.connection == NO_CONNECTION
    assert directory.connected == {}
    assert directory.peers == {client.key: client}
    directory.reconnect(client, OTHER)
    assert (client.connection, client.connection_number) == (OTHER, 2)


def test_removed_peers_leave_no_entries(scene: Scene) -> None:
    client, agent, directory = scene.client(), scene.agent(), scene.directory
    directory.accounts.open(client.key[1], client.owner)
    for peer in (client, agent, client):
        directory.remove(peer)
    assert scene.outbox.take_closing() == [(client, ONE), (agent, OTHER)]
    assert directory.peers == directory.connected == directory.agents_by_token == directory.pythons == {}
    assert directory.of_session(client.session) is None
    assert len(directory.accounts) == 0
    assert directory.is_spent(ONE)


def test_removing_an_old_session_does_not_affect_the_new_session_of_the_same_peer(scene: Scene) -> None:
    old, directory = scene.client(), scene.directory
    directory.accounts.open(old.key[1], old.owner)
    new = scene.client(OTHER)
    directory.remove(old)
    assert directory.peers == {new.key: new}
    assert directory.connected == {OTHER: new}
    assert directory.pythons == {("3.11", "client"): 1}
    assert len(directory.accounts) == 1


def test_a_peer_that_does_not_pickle_has_no_python_version(scene: Scene) -> None:
    client = scene.client(python="")
    assert scene.directory.pythons == {}
    scene.directory.remove(client)


def test_the_number_of_remembered_former_connections_is_limited(scene: Scene) -> None:
    client = scene.client()
    for number in range(SPENT_REMEMBERED + 1):
        scene.directory.reconnect(client, Connection(b"%d" % number))
    assert not scene.directory.is_spent(ONE)
    assert scene.directory.is_spent(Connection(b"0"))


def test_the_age_of_an_attempt_is_that_of_the_first_mark_after_it() -> None:
    times, numbers = AttemptTimes(), map((ATTEMPTS - 1).__and__, count(ATTEMPTS - 2))
    times.mark(numbers.__next__, 10.0)
    first, second = next(numbers), next(numbers)
    assert times.seconds_since(first, 11.0) == 0.0
    times.mark(numbers.__next__, 12.0)
    times.mark(numbers.__next__, 12.9)
    third = next(numbers)
    times.mark(numbers.__next__, 15.0)
    assert second < first, "the numbers have wrapped around"
    assert [times.seconds_since(each, 20.0) for each in (first, second, third)] == [8.0, 8.0, 5.0]
    assert [times.seconds_since_at_most(each, 20.0) for each in (first, second, third)] == [10.0, 10.0, 8.0]
    assert times.seconds_since_at_most(next(numbers), 20.0) == 5.0
    assert times.seconds_since_at_most(ATTEMPTS - 10, 20.0) == 0.0, "it is older than all marks"


def test_ages_of_old_attempts_are_approximate() -> None:
    times, numbers = AttemptTimes(), count()
    attempts = []
    for second in range(50 * MARKS_MOST):
        attempts.append(next(numbers))
        times.mark(numbers.__next__, float(second))
    now = 50.0 * MARKS_MOST
    assert len(times._marks) < MARKS_MOST
    for second, attempt in list(enumerate(attempts))[1::97]:
        age = now - second
        assert 0.98 * age <= times.seconds_since(attempt, now) <= age <= times.seconds_since_at_most(attempt, now)
        assert times.seconds_since_at_most(attempt, now) <= 1.02 * age + 1
    assert times.seconds_since(attempts[-1], now) == 1.0


def numbered(number: int) -> TaskId:
    return TaskId(number.to_bytes(16, "big"))


def test_an_unstarted_task_is_remembered_until_it_is_resubmitted() -> None:
    unstarted = UnstartedRuns()
    unstarted.add(numbered(1))
    assert not unstarted.take(numbered(2))
    assert unstarted.take(numbered(1))
    assert not unstarted.take(numbered(1)), "it may have been started meanwhile"


def test_only_the_latest_unstarted_tasks_are_remembered() -> None:
    unstarted = UnstartedRuns()
    for number in range(KNOWN_MOST + 1):
        unstarted.add(numbered(number))
    assert not unstarted.take(numbered(0))
    assert unstarted.take(numbered(1))
    assert unstarted.take(numbered(KNOWN_MOST))
