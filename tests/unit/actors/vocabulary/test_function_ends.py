"""The ends of tasks by function: each task counts once, whatever ended it, and no count is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.vocabulary.events import NEVER_STARTED, Events, TaskMoved
from scaler.actors.vocabulary.function_ends import FunctionEnds
from scaler.ids import ObjectId, TaskId, public_id
from scaler.keys.allowed import OwnerTerms
from scaler.wire.messages.client import Task, TaskCancel
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import pack
from scaler.wire.messages.vocabulary import FAILURES
from scaler.wire.messages.worker import RunTask
from tests.support.simulation import Outcome, SimulatedClient, Simulation

SUCCESS, FAILED, CANCELED = TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.CANCELED


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=30.0)


def failed(_run: RunTask) -> Outcome:
    return Outcome(status=FAILED, payload=b"raised")


def crash(_run: RunTask) -> Outcome:
    return Outcome(status=TaskStatus.PROCESSOR_DIED, payload=b"exit code 3")


def function(number: int) -> ObjectId:
    return ObjectId(b"%16d" % number)


def test_a_function_is_counted_from_its_first_end_with_its_name() -> None:
    events = Events(lambda function_id: f"f{int(function_id)}")
    events.ended_of.count(function(7), FAILED, 3)
    events.ended_of.count(function(7), SUCCESS)
    found = events.ended_of.by_short_id[public_id(function(7))]
    assert (found.name, found.counts[:3]) == ("f7", [1, 3, 0])
    assert events.ended[:3] == [1, 3, 0]


def test_of_too_many_functions_those_that_ended_no_task_for_long_join_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.vocabulary.function_ends.FUNCTIONS_MOST", 6)
    ends = FunctionEnds(lambda _function_id: "")
    for number in range(1, 100):
        ends.count(function(0), SUCCESS)
        ends.count(function(number), SUCCESS)
    assert ends[function(0)][SUCCESS] == 99, "it ended tasks all the time"
    assert {function(98), function(99)} < set(ends)
    assert (len(ends), ends.n_rest) == (6, 94)
    assert set(ends.by_short_id) == {public_id(function_id) for function_id in ends}
    assert ends.by_status[SUCCESS] == 198


@pytest.mark.parametrize("most", [1, 2, 7])
@pytest.mark.parametrize("cycle", [1, 5, 8, 40])
def test_no_end_is_lost_whatever_the_order_of_functions(monkeypatch: pytest.MonkeyPatch, most: int, cycle: int) -> None:
    monkeypatch.setattr("scaler.actors.vocabulary.function_ends.FUNCTIONS_MOST", most)
    ends = FunctionEnds(lambda _function_id: "")
    for number in range(200):
        ends.count(function(number % cycle), SUCCESS)
        ends.count(function(number * number % 7), FAILED)
        assert len(ends) == len(ends.by_short_id) <= most
    assert ends.by_status[:2] == [200, 200]


# What ends tasks


class Counted:
    """The counts of a simulated scheduler."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.audit = simulation.audit()
        self.moved: list[TaskMoved] = []
        send = simulation.tree.events.listener.send  # type: ignore[union-attr]
        simulation.tree.events.listener.send = self._note(send)  # type: ignore[union-attr, method-assign]

    def _note(self, send: Callable[[object], None]) -> Callable[[object], None]:
        def note(message: object) -> None:
            if isinstance(message, TaskMoved):
                self.moved.append(message)
            send(message)

        return note

    def check(self, client: SimulatedClient, **counts: int) -> None:
        """Check the ended tasks of the function of a client, by status, and that the listener heard of each failure."""
        simulation = self.simulation
        simulation.run()
        self.audit.check(simulation)
        ended = simulation.tree.events.ended_of[client.function_id]
        assert {status.name: ended[status] for status in TaskStatus if ended[status]} == counts
        failures = sum((each.spec.rows or 1) for each in self.moved if each.state in FAILURES)
        assert failures == sum(n for name, n in counts.items() if name not in ("SUCCESS", "CANCELED"))


@pytest.fixture
def counted(simulation: Simulation) -> Counted:
    return Counted(simulation)


def test_a_task_that_crashes_counts_once_whatever_the_number_of_its_tries(counted: Counted) -> None:
    client, agent = counted.simulation.client(), counted.simulation.agent(2, crash)
    client.submit(3)
    counted.simulation.advance(60.0)
    assert len(agent.started) == 9
    counted.check(client, PROCESSOR_DIED=3)


def test_tasks_that_never_run_because_a_needed_task_failed_count_as_failed(counted: Counted) -> None:
    client = counted.simulation.client()
    (first,) = client.submit(1)
    second = client.submit_with_results(first)
    client.submit_with_results(second)
    counted.simulation.agent(1, failed)
    counted.simulation.advance(5.0)
    assert client.statuses() == [FAILED] * 3
    counted.check(client, FAILED=3)
    unstarted = [each for each in counted.moved if each.event == NEVER_STARTED]
    assert [(each.state, each.reason) for each in unstarted] == [
        ("failed", "a task whose result it needs has failed")
    ] * 2


def test_a_cancelled_graph_counts_each_of_its_tasks(counted: Counted) -> None:
    client = counted.simulation.client()
    counted.simulation.agent(1, slow)
    nodes = client.graphs[client.submit_graph([(), (), (0,), (2,)], [1, 3])]
    counted.simulation.advance(1.0)
    client.cancel(nodes[3].task_id)
    counted.simulation.advance(5.0)
    counted.check(client, CANCELED=4)


def test_what_a_client_leaves_behind_counts_as_cancelled(counted: Counted) -> None:
    client = counted.simulation.client()
    counted.simulation.agent(1, slow)
    first, _ = client.submit(2)
    client.submit_with_results(client.submit_with_results(first))
    client.submit_graph([(), (0,), (1,)], [2])
    counted.simulation.advance(1.0)
    client.leave()
    counted.simulation.advance(5.0)
    counted.check(client, CANCELED=7)


def test_a_function_keeps_its_name_if_its_first_task_ends_after_its_client_has_left(counted: Counted) -> None:
    client = counted.simulation.client()
    counted.simulation.agent(1, slow)
    client.submit(3)
    counted.simulation.advance(1.0)
    name = counted.simulation.tree.objects.function_name(client.function_id)
    assert name
    client.leave()
    counted.simulation.advance(5.0)
    counted.check(client, CANCELED=3)
    assert counted.simulation.tree.events.ended_of.by_short_id[public_id(client.function_id)].name == name


def test_tasks_over_a_quota_count_when_they_are_cancelled_and_when_their_client_leaves(counted: Counted) -> None:
    simulation = counted.simulation
    simulation.tree.directory.owners.of("alice", OwnerTerms(tasks=1))
    simulation.agent(1, slow)
    client = simulation.client(user="alice")
    simulation.tree.directory.peers["client", client.client_id].tasks_announced = 1000
    task_ids = client.submit(4)
    simulation.run()
    client.cancel(task_ids[3])
    counted.check(client, CANCELED=1)
    client.leave()
    simulation.advance(5.0)
    counted.check(client, CANCELED=4)


def test_refused_tasks_and_graphs_count_as_failed(counted: Counted) -> None:
    simulation = counted.simulation
    simulation.tree.directory.owners.of("alice", OwnerTerms(tasks=2))
    simulation.agent(1, slow)
    client = simulation.client(user="alice")
    client.submit_graph([()] * 3, range(3))
    client.submit(10)
    simulation.run()
    counted.check(client, NO_WORKER=3 + 6)


@pytest.mark.parametrize("end", ["it goes on", "its client cancels it", "its client leaves"])
def test_each_row_of_a_range_that_ends_early_counts_once(counted: Counted, end: str) -> None:
    simulation = counted.simulation
    client = simulation.client()
    agent = simulation.agent(1, lambda _run: Outcome(seconds=0.001), takes_rows=True)
    client.submit(1)
    simulation.advance(1.0)  # from now on, the duration of the function is known
    agent.execute = slow
    first = TaskId(b"prefix--" + bytes(8))
    client.say(Task(first, client.function_id, pack([b"a"] * 5), b"", rows=5))
    simulation.run()
    if end == "its client cancels it":
        (session,) = simulation.sessions(ClientSession)
        session.actor_ref.send(Batch[TaskCancel]([TaskCancel(first, rows=5)]))
    elif end == "its client leaves":
        client.leave()
    agent.end_early(first, 2)
    simulation.advance(200.0)
    counted.check(client, **({"SUCCESS": 6} if end == "it goes on" else {"SUCCESS": 3, "CANCELED": 3}))
