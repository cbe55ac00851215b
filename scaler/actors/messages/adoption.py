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
    """agent session -> adoption: my agent came with these runs: owner, task, worker, attempt. `agents`: how many agents
    its last scheduler had; 0 if it had none.
    """

    runs: Sequence[tuple[int, TaskId, ActorRef, int]]
    agents: int = 0


@message
class RunsLost:
    """worker proxy -> adoption: these tasks have lost their runs with my agent. It may come back with them."""

    runs: Sequence[tuple[int, TaskId, ActorRef]]


@message
class FindRun:
    """task -> adoption: my client had another scheduler, and says me again. Does an agent have a run of me?
    `patient`: I may have been started, and must not be started again.
    """

    owner: int
    task_id: TaskId
    task: ActorRef
    patient: bool = False


@message
class NodesWait:
    """graph -> adoption: my client had another scheduler, and these nodes of mine wait for others. Hold their runs as
    long as I live. Without nodes: I have ended.
    """

    graph: ActorRef
    owner: int = 0
    task_ids: Collection[TaskId] = ()


@message
class FindRuns:
    """client session or job -> adoption: these tasks of an owner wait here for room in its quota, or those whose ids
    have a prefix. Which have runs at agents? Each run is answered to one asker.
    """

    owner: int
    asker: ActorRef
    task_ids: Collection[TaskId] = ()
    prefix: bytes = b""


@message
class RunsAreHeld:
    """adoption -> client session or job: agents hold runs of these tasks of yours."""

    task_ids: Collection[TaskId]


@message
class RunFound:
    """adoption -> task: this worker came with an attempt at you."""

    worker: ActorRef
    attempt: int


@message
class AdoptRun:
    """task -> worker proxy: the attempt that your agent came with is mine."""

    task: ActorRef
    spec: Task
    attempt: int
    account: int
    needs: Needs | None = None


@message
class RunAdopted:
    """worker proxy -> task: the attempt is yours, and goes on here."""

    worker: ActorRef
    attempt: int


@message
class NotHeld:
    """adoption or worker proxy -> task: no agent has a run of you, as far as is known. To client sessions and jobs: of
    no further call of yours.
    """


@message
class AgentsReturned:
    """client session -> itself, by timer: agents that had runs of my client's tasks are back by now."""


@message
class CheckHeld:
    """adoption -> itself, by timer: somebody has waited long enough."""
