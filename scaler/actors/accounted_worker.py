"""AccountedWorker: the part of a worker proxy that keeps account of its runs: their places, what they take of the node
beside these, and the runs that the agent had when it came and whose tasks have not come yet.

Written to by tasks (adopt); sends to them and to the balancer. Must never: have the balancer count a run twice, or keep
counting one that has ended.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from enum import Enum

from scaler.actors.kit import Actor, ActorRef, handles
from scaler.actors.messages.adoption import AdoptRun, NotHeld, RunAdopted
from scaler.actors.messages.tasks import AmountsChanged, PlacesFreed, PlacesTaken, TaskReady
from scaler.actors.peer import Peer
from scaler.actors.policy import Needs, Offer
from scaler.actors.runs import Orphans, RunRecord
from scaler.actors.takings import Takings
from scaler.ids import TaskId
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import RunBlocked, RunResult, RunUnblocked


class Membership(Enum):
    """Whether the balancer may assign tasks to a worker."""

    OUT = "out"
    IN = "in"
    LEAVING = "leaving"
    """an assignment from before may be on its way"""


class Outlook(Enum):
    """Whether the worker takes tasks."""

    WORK = "work"
    DRAIN = "drain"
    """it finishes its tasks, then its agent leaves"""
    END = "end"


class AccountedWorker(Actor):
    """One worker and its runs. `_runs` is in the order in which the worker takes them, within a priority.

    Args:
        held: the runs that it had when its agent came: task and attempt.
        offer: what its node has.
    """

    def __init__(self, peer: Peer, balancer: ActorRef, held: Iterable[tuple[TaskId, int]], offer: Offer) -> None:
        self._peer = peer
        self._balancer = balancer
        self._runs: dict[TaskId, RunRecord] = {}
        self._orphans = Orphans(held)
        self._is_unsure = self._orphans.are_running
        """whether it has runs of which it is not known what they take"""
        self._offer = offer
        self._takings = Takings()

    @property
    @abstractmethod
    def _takes_over(self) -> bool:
        """Whether runs that the agent had are taken over."""

    @abstractmethod
    def _finish(self, results: Batch[RunResult]) -> None:
        """Some runs have ended."""

    @property
    def load(self) -> tuple[int, int]:
        """How many places are taken, and by how much work."""
        runs, (places, expected_us) = self._runs.values(), self._orphans.load
        places += sum(run.places - run.lent_places for run in runs)
        return places, expected_us + sum(run.expected_us - run.lent_us for run in runs)

    def _add_takings(self, tasks: list[tuple[TaskReady, int]], needs: Mapping[Hashable, Needs]) -> None:
        task_ids = []
        for ready, _ in tasks:
            if ready.task in needs:
                task_ids.append(ready.spec.task_id)
                self._takings.add(ready.spec.task_id, needs[ready.task], 1)
        self._tell_takings(task_ids)

    def _tell_takings(self, task_ids: Iterable[TaskId] | None = None) -> None:
        """Tell the balancer what is taken and free now that was not before. `task_ids`: None: anything."""
        changes = self._takings.changes(self._runs, task_ids)
        was_unsure, self._is_unsure = self._is_unsure, self._is_unsure and self._orphans.are_running
        if changes or was_unsure is not self._is_unsure:
            self._balancer.send(AmountsChanged(self.actor_ref, changes, self._is_unsure))

    # Runs that the agent had when it came

    @handles(AdoptRun)
    def _adopt(self, adopt: AdoptRun) -> None:
        """The task of such a run has come."""
        task, spec, attempt = adopt.task, adopt.spec, adopt.attempt
        is_here = self._takes_over and spec.task_id not in self._runs
        orphan = self._orphans.claim(spec.task_id, attempt) if is_here else None
        if orphan is None:
            task.send(NotHeld())
            return
        run = RunRecord(task, spec, attempt, orphan.expected_us, adopt.account, self._peer.visit)
        run.was_adopted = True
        self._runs[spec.task_id] = run
        if adopt.needs is not None:
            self._takings.add(spec.task_id, adopt.needs, 0)
        task.send(RunAdopted(self.actor_ref, attempt))
        if orphan.result is None:
            if orphan.is_blocked:
                run.lent_places, run.lent_us = run.places, run.expected_us
        else:  # its place is free already
            run.places = run.expected_us = 0
            self._finish(Batch[RunResult]([orphan.result]))
        self._tell_takings([spec.task_id])

    def _orphan_changes(self, news: RunBlocked | RunUnblocked, is_blocked: bool) -> None:
        orphan = self._orphans.find(news.task_id, news.attempt)
        if orphan is None or orphan.is_blocked is is_blocked:
            return
        orphan.is_blocked = is_blocked
        if is_blocked:
            self._balancer.send(PlacesFreed(self.actor_ref, 1, orphan.expected_us, {}))
        else:
            self._balancer.send(PlacesTaken(self.actor_ref, 1, orphan.expected_us))
