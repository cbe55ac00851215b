"""Adoption: messages that match tasks to runs that agents have kept from another scheduler or session.

agent session --RunsHeld--> Adoption <--FindRun-- task, <--TasksWait, FindRuns-- client session, <--FindRuns-- job
worker proxy --RunsLost-->     |
                               +--RunsAreHeld, NotHeld--> client session, job
                               +--RunFound, NotHeld--> task --AdoptRun--> worker proxy --RunAdopted, NotHeld--> task
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scaler.actors.vocabulary.needs import Needs
from scaler.ids import TaskId
from scaler.kit import ActorRef
from scaler.message import message
from scaler.wire.messages.client import Task


@message
class RunsHeld:
    """agent session -> adoption: a new agent holds these runs.

    Attributes:
        runs: the owner, task, worker and attempt of each run.
        agents: the number of agents that the agent's last scheduler had; 0 if the agent had no other scheduler.
    """

    runs: Sequence[tuple[int, TaskId, ActorRef, int]]
    agents: int = 0


@message
class RunsLost:
    """worker proxy -> adoption: the runs of these tasks are lost with an agent, unless the agent returns with them."""

    runs: Sequence[tuple[int, TaskId, ActorRef]]


@message
class FindRun:
    """task -> adoption: does an agent hold a run of this task?

    Attributes:
        patient: whether to wait longer for agents, because the task may not run a second time.
    """

    owner: int
    task_id: TaskId
    task: ActorRef
    patient: bool = False


@message
class TasksWait:
    """client session -> adoption: keep the runs that agents hold of these tasks, which wait for results of other tasks
    and will request their runs later. `ended`: the tasks have ended instead.
    """

    session: ActorRef
    owner: int
    task_ids: Collection[TaskId]
    ended: bool = False


@message
class FindRuns:
    """client session or job -> adoption: which of these tasks have runs at agents? Each run is reported only once.

    Attributes:
        task_ids: the tasks, which wait for a quota; empty: all tasks whose ids start with `prefix`.
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
    """adoption or worker proxy -> task, client session or job: no known agent holds a run that you may adopt."""


@message
class AgentsReturned:
    """client session -> itself, by timer: stop waiting for agents that had runs of the client's tasks."""


@message
class CheckHeld:
    """adoption -> itself, by timer: answer the requests whose waiting time is over."""
