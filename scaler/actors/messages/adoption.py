"""Adoption: a task finds its run at an agent that has another scheduler, or another session, behind it.

agent session --RunsHeld--> Adoption <--FindRun-- task, <--NodesWait-- graph, <--FindRuns-- client session, job
worker proxy --RunsLost-->     |
                               +--RunsAreHeld, NotHeld--> client session, job
                               +--RunFound, NotHeld--> task --AdoptRun--> worker proxy --RunAdopted, NotHeld--> task
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scaler.actors.policy.needs import Needs
from scaler.ids import TaskId
from scaler.kit import ActorRef
from scaler.message import message
from scaler.wire.messages.client import Task


@message
class RunsHeld:
    """agent session -> adoption: a new agent holds these runs: owner, task, worker, attempt. `agents`: the number of
    agents of its last scheduler, or 0.
    """

    runs: Sequence[tuple[int, TaskId, ActorRef, int]]
    agents: int = 0


@message
class RunsLost:
    """worker proxy -> adoption: these tasks have lost their runs with an agent, which may return with them."""

    runs: Sequence[tuple[int, TaskId, ActorRef]]


@message
class FindRun:
    """task -> adoption: report whether an agent holds a run of this task, which another scheduler had. `patient`: it
    may have been started, and must not be started again.
    """

    owner: int
    task_id: TaskId
    task: ActorRef
    patient: bool = False


@message
class NodesWait:
    """graph -> adoption: hold the runs of these nodes, which wait for inputs, until the graph ends. Without nodes: the
    graph has ended.
    """

    graph: ActorRef
    owner: int = 0
    task_ids: Collection[TaskId] = ()


@message
class FindRuns:
    """client session or job -> adoption: report runs at agents of these tasks, or of tasks with a prefix, which wait
    for room in the quota of their owner. Each run is reported to one asker.
    """

    owner: int
    asker: ActorRef
    task_ids: Collection[TaskId] = ()
    prefix: bytes = b""


@message
class RunsAreHeld:
    """adoption -> client session or job: agents hold runs of these tasks."""

    task_ids: Collection[TaskId]


@message
class RunFound:
    """adoption -> task: this worker has an attempt of the task."""

    worker: ActorRef
    attempt: int


@message
class AdoptRun:
    """task -> worker proxy: the attempt that the agent holds belongs to this task."""

    task: ActorRef
    spec: Task
    attempt: int
    account: int
    needs: Needs | None = None


@message
class RunAdopted:
    """worker proxy -> task: the attempt belongs to the task again, and continues at this worker."""

    worker: ActorRef
    attempt: int


@message
class NotHeld:
    """adoption or worker proxy -> task: no known agent has a run of the task. To client sessions and jobs: no agent has
    runs of their tasks that were not reported.
    """


@message
class AgentsReturned:
    """client session -> itself, by timer: stop waiting for agents that had runs of the client's tasks."""


@message
class CheckHeld:
    """adoption -> itself, by timer: answer requests that have waited long enough."""
