"""Unseen: mutants that were chosen from the pages, and that the simulation did not find until its audits were extended.

Each breaks one sentence of the guarantees. Of a late result two places see to it that it is dropped, the worker proxy
and the task; without the check of one of them, the other one drops it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any, cast
from unittest.mock import patch

from scaler.actors.jobs.job_requests import JobRequests
from scaler.actors.messages.tasks import TaskAssigned
from scaler.actors.objects.copies import Copies
from scaler.actors.tasks.task import TaskActor
from scaler.actors.workers.worker_proxy import WorkerProxy
from scaler.client.link.large_results import LargeResults
from scaler.ids import TaskId
from scaler.jobs.record import JobRecord
from scaler.jobs.writer import Answer, JobWriter, Order
from scaler.kit import ActorRef
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import RunResult
from tests.simulation.mutants import Mutant

Patches = AbstractContextManager[Any]


def _what_is_obeyed_is_answered() -> Patches:
    obey = JobWriter._obey

    def answered(order: Order, answer: Answer) -> tuple[Order, Answer]:
        def obeyed() -> Any:
            value = order()
            answer(value, None)
            return value

        return obeyed, lambda value, error: None if error is None else answer(value, error)

    def obey_early(self: JobWriter, group: list[tuple[JobRecord | None, Order, Answer]]) -> None:
        obey(self, [(record, *answered(order, answer)) for record, order, answer in group])

    return patch.object(JobWriter, "_obey", obey_early)


def _maps_go_on_alone() -> Patches:
    return patch.object(JobRequests, "is_wanted", True)


def _who_is_gone_still_reads() -> Patches:
    return patch.object(JobRequests, "leave", lambda self, session: self.reading.leave(session))


def _any_attempt_counts() -> Patches:
    finished = TaskActor.handlers[RunResult]

    def accept(self: TaskActor, result: RunResult) -> None:
        if self._worker is not None:
            self._attempt = result.attempt
        finished(self, result)

    return patch.dict(TaskActor.handlers, {RunResult: accept})


def _is_of_another_attempt(task: ActorRef, result: RunResult) -> bool:
    actor = cast("TaskActor | None", task._actor)
    return actor is not None and actor._attempt != result.attempt


def _late_results_count() -> Patches:
    """Each worker proxy hands results on to a task that another one has by now."""
    tasks: dict[TaskId, ActorRef] = {}
    assigned, finish = TaskActor.handlers[TaskAssigned], WorkerProxy.handlers[Batch[RunResult]]

    def note(self: TaskActor, news: TaskAssigned) -> None:
        tasks[self._spec.task_id] = self.actor_ref
        assigned(self, news)

    def hand_on(self: WorkerProxy, results: Any) -> None:
        for result in results:
            task = tasks.get(result.task_id)
            if task is not None and result.task_id not in self._runs and _is_of_another_attempt(task, result):
                task.send(result)
        finish(self, results)

    handlers = patch.dict(WorkerProxy.handlers, {Batch[RunResult]: hand_on})
    stack = ExitStack()
    for each in (handlers, patch.dict(TaskActor.handlers, {TaskAssigned: note}), _any_attempt_counts()):
        stack.enter_context(each)
    return stack


def _copies_keep_nothing() -> Patches:
    remove = Copies.remove
    return patch.object(Copies, "remove", lambda self, *copy: remove(self, *copy) and None)


def _nothing_is_claimed() -> Patches:
    return patch.object(LargeResults, "_claim", lambda *_: None)


KEPT, VALUES = ("kept",), ("values",)

UNSEEN = (
    Mutant("early-answer", "rows are acknowledged before they are on disk", _what_is_obeyed_is_answered, KEPT),
    Mutant("alone", "a map's job goes on though no program is there", _maps_go_on_alone, KEPT),
    Mutant("gone-reader", "a client that is gone still counts as a reader of a job", _who_is_gone_still_reads, KEPT),
    Mutant("late-result", "a late result of another attempt is accepted", _late_results_count, ("twice",)),
    Mutant("copy-keeps", "a host with a copy does not keep a value whose host is gone", _copies_keep_nothing, VALUES),
    Mutant("claims", "a client does not claim unread results from the next scheduler", _nothing_is_claimed, ("anew",)),
)
