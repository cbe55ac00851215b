"""Whatever clients, workers and tasks do, in whatever order: each task of a living client ends once; nothing is left.

The invariants of the whole scheduler (`Simulation.check`) hold at every step in between.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.insight.events import FAILED
from scaler.actors.tree import ACCEPTOR, BALANCER, OBJECT_STORE
from scaler.ids import TaskId
from scaler.settings import SchedulerConfig
from scaler.settings.scheduler import POLICIES
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.priority import of_child
from scaler.wire.messages.worker import RunTask
from tests.support.configs import scheduler_config
from tests.support.examples import examples
from tests.support.simulation import Outcome, SimulatedAgent, SimulatedClient, Simulation

LIMITS = scheduler_config(
    client_timeout_seconds=10.0, worker_timeout_seconds=6.0, per_worker_queue_size=4, crash_limit=3
)
LIMITED = dataclasses.replace(LIMITS, max_number_of_tasks_waiting=3)
FINAL_STATUSES = {
    TaskStatus.SUCCESS,
    TaskStatus.FAILED,
    TaskStatus.CANCELED,
    TaskStatus.PROCESSOR_DIED,
    TaskStatus.WORKER_DIED,
    TaskStatus.NO_WORKER,
}

ASK_FOR_SOMETHING = (
    RunOptions(capabilities=(("gpu", 1),)).encode(),
    RunOptions(capabilities=(("gpu", 2),)).encode(),
    RunOptions(capabilities=(("gpu", 0), ("python3.11", 1))).encode(),
    RunOptions(capabilities=(("gpu", 3),), no_worker_timeout_ms=1000).encode(),  # nobody has that
)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True, scope="module")
def short_slices() -> Iterator[None]:
    """The work of small graphs is long work, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scaler.actors.slices.SLICE_STEPS", 2)
        yield


class Story:
    """A random schedule, made by a seed."""

    def __init__(
        self, seed: int, with_failures: bool = False, limits: SchedulerConfig = LIMITS, with_restarts: bool = False
    ) -> None:
        self.simulation = Simulation(limits, seed, choppy=True)
        self.random = self.simulation.random
        self.clients: list[SimulatedClient] = []
        self.agents: list[SimulatedAgent] = []
        self.crashes: Counter[TaskId] = Counter()
        self.is_over = False
        self.failures = 0
        """parts of the scheduler and sessions that were made to fail"""
        self.actions = [
            self.join, self.arrive, self.submit, self.submit, self.submit_with_objects, self.submit_graph,
            self.submit_graph, self.cancel, self.leave,
            self.client_dies, self.client_reconnects, self.agent_dies, self.agent_leaves, self.agent_hangs,
            self.agent_wakes, self.agent_cut, self.agent_reconnects, self.wait, self.wait, self.wait, self.garbage,
        ]  # fmt: skip
        if with_failures:
            self.actions.append(self.part_fails)
        if with_restarts:
            self.actions.append(self.scheduler_restarts)

    def execute(self, run: RunTask) -> Outcome:
        if self.is_over:
            return Outcome(seconds=0.01)
        chance = self.random.random()
        seconds = self.random.choice((0.0, 0.001, 0.02, 0.3, 2.0))
        if chance < 0.1:
            self.crashes[run.task_id] += 1
            return Outcome(TaskStatus.PROCESSOR_DIED, b"it died by signal 9", seconds)
        if chance < 0.15:
            return Outcome(TaskStatus.FAILED, b"it raised", seconds)
        if chance < 0.25:
            return Outcome(TaskStatus.SUCCESS, b"", seconds, (b"large", b"result"))
        return Outcome(seconds=seconds)

    def play(self, steps: int) -> None:
        self.arrive()
        self.join()
        for _ in range(steps):
            self.random.choice(self.actions)()
            if self.random.random() < 0.5:
                self.simulation.run()
        self.simulation.run()

    def end_well(self) -> None:
        """From now on nothing bad happens: there is a worker, and time."""
        self.is_over = True
        for agent in self.agents:
            self.agent_is_well(agent)
        for client in self.living():
            client.connect()
        self.simulation.agent(2)
        self.simulation.advance(120.0)

    def living(self) -> list[SimulatedClient]:
        return [client for client in self.clients if not client.is_gone]

    # What may happen

    def arrive(self) -> None:
        self.clients.append(self.simulation.client(code=self.random.choice((b"one", b"two", b"three"))))

    def join(self) -> None:
        self.agents.append(self.simulation.agent(self.random.randint(1, 3), self.execute))

    def submit(self) -> None:
        for client in self.some(self.living()):
            client.options = self.random.choice((b"", b"", *ASK_FOR_SOMETHING))
            client.submit(self.random.randint(1, 12), priority=self.random.choice((0, 0, -1, of_child(1))))

    def submit_with_objects(self) -> None:
        for client in self.some(self.living()):
            uses = [client.create(b"shared")] if self.random.random() < 0.5 else []
            client.submit(self.random.randint(1, 3), uses=uses, for_task=b"its own")
            if uses and self.random.random() < 0.5:
                client.delete(uses[0])

    def submit_graph(self) -> None:
        for client in self.some(self.living()):
            count = self.random.randint(1, 8)
            shape = [self.random.sample(range(i), self.random.randint(0, min(i, 3))) for i in range(count)]
            wanted = self.random.sample(range(count), self.random.randint(1, count))
            client.submit_graph(shape, wanted, self.random.choice((b"", b"the graph's own")))

    def cancel(self) -> None:
        for client in self.some(self.living()):
            client.cancel(*self.some(client.submitted, self.random.randint(1, 5)))

    def leave(self) -> None:
        if self.random.random() < 0.3:
            for client in self.some(self.living()):
                client.leave()

    def client_dies(self) -> None:
        if self.random.random() < 0.3:
            for client in self.some(self.living()):
                client.die()

    def client_reconnects(self) -> None:
        for client in self.some(self.living()):
            client.connect()

    def garbage(self) -> None:
        for peer in self.some([*self.living(), *self.agents]):
            if not peer.is_gone:
                self.simulation.router.deliver(peer.connection, self.random.randbytes(24), [b"more"])

    def agent_dies(self) -> None:
        for agent in self.some(self.agents):
            agent.die()

    def agent_leaves(self) -> None:
        for agent in self.some(self.agents):
            agent.leave()

    def agent_hangs(self) -> None:
        for agent in self.some(self.agents):
            agent.hang()

    def agent_wakes(self) -> None:
        for agent in self.some(self.agents):
            agent.wake()

    def agent_cut(self) -> None:
        for agent in self.some(self.agents):
            agent.cut()

    def agent_reconnects(self) -> None:
        for agent in self.some(self.agents):
            self.agent_is_well(agent)

    def scheduler_restarts(self) -> None:
        """Its peers come back in any order, some of them soon."""
        self.simulation.restart()
        peers = [*self.living(), *self.agents]
        for peer in self.some(peers, len(peers)):
            if self.random.random() < 0.7:
                self.agent_is_well(peer) if isinstance(peer, SimulatedAgent) else peer.connect()
            if self.random.random() < 0.2:
                self.wait()

    def part_fails(self) -> None:
        name = self.random.choice((BALANCER, OBJECT_STORE, ACCEPTOR))
        proxies = [proxy.actor_ref for proxy in self.simulation.proxies()]
        self.simulation.fail(self.random.choice([self.simulation.tree.supervisor.children[name], *proxies]))
        self.failures += 1
        self.simulation.advance(10.0)  # within the budget

    def wait(self) -> None:
        self.simulation.advance(self.random.choice((0.01, 0.1, 1.0, 5.0)))

    def agent_is_well(self, agent: SimulatedAgent) -> None:
        if not agent.is_gone:
            agent.wake()
            agent.connect()

    def some(self, things: list, most: int = 1) -> list:
        return self.random.sample(things, min(most, len(things)))


def check_ends(story: Story, final_statuses: AbstractSet[TaskStatus] = FINAL_STATUSES) -> None:
    for client in story.living():
        assert client.open == {}
        assert set(client.results) == set(client.submitted)
        assert set(client.statuses()) <= final_statuses
        nodes = {node.task_id for graph in client.graphs.values() for node in graph}
        for task_id, result in client.results.items():
            if result.status == TaskStatus.PROCESSOR_DIED:
                assert b"(attempt 3 of 3)" in result.payload
                # The others may be lost workers; a node may have failed with one that it needs.
                assert story.crashes[task_id] >= 1 or task_id in nodes
            if result.status == TaskStatus.CANCELED:
                assert task_id in client.to_cancel
    for client in story.living():
        client.leave()
    story.simulation.advance(30.0)
    story.simulation.check_empty()
    story.simulation.advance(story.simulation.limits.object_retention_seconds)
    assert story.simulation.tree.objects.retained.ends == {}
    living = [agent for agent in story.agents if not agent.is_gone]
    assert [agent.kept for agent in living] == [set()] * len(living)


@examples(14)
@given(st.integers(0, 2**32), st.integers(5, 80), st.sampled_from(POLICIES))
def test_every_task_of_a_living_client_ends_once_and_nothing_is_left(seed: int, steps: int, policy: str) -> None:
    story = Story(seed, limits=dataclasses.replace(LIMITS, policy=policy))
    story.play(steps)
    story.end_well()
    check_ends(story)
    assert story.simulation.dispatcher.failures == 0


@examples(14)
@given(st.integers(0, 2**32), st.integers(5, 80), st.sampled_from(POLICIES))
def test_so_it_is_when_schedulers_follow_each_other(seed: int, steps: int, policy: str) -> None:
    story = Story(seed, limits=dataclasses.replace(LIMITS, policy=policy), with_restarts=True)
    story.play(steps)
    story.end_well()
    check_ends(story)
    assert story.simulation.dispatcher.failures + story.simulation.failures == 0


@examples(14)
@given(st.integers(0, 2**32), st.integers(5, 60))
def test_so_it_is_when_parts_of_the_scheduler_fail(seed: int, steps: int) -> None:
    story = Story(seed, with_failures=True)
    story.play(steps)
    story.end_well()
    check_ends(story)
    assert story.simulation.escalations == []


@examples(14)
@given(st.integers(0, 2**32), st.integers(5, 60), st.booleans())
def test_so_it_is_when_tasks_are_refused_and_the_events_tell_all_of_it(
    seed: int, steps: int, with_failures: bool
) -> None:
    story = Story(seed, with_failures, LIMITED)
    audit = story.simulation.audit()
    story.play(steps)
    story.end_well()
    audit.check(story.simulation)
    check_ends(story, {*FINAL_STATUSES, TaskStatus.NO_WORKER})
    audit.check(story.simulation)
    assert all(history.has_ended for history in audit.tasks.values())
    assert len(audit.restarted) + sum(went.departure == FAILED for went in audit.went) == story.failures


@pytest.mark.thorough
@examples(10)
@given(st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_messages(seed: int) -> None:
    first, second = Story(seed), Story(seed)
    for story in (first, second):
        story.play(40)
        story.end_well()
    assert first.simulation.router.log == second.simulation.router.log
    assert len(first.simulation.router.log) > 10
