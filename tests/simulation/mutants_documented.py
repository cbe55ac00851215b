"""Documented: mutants that were chosen from the pages for users, without a look at the code.

Each breaks one sentence of `guarantees.md`, `failures.md`, `conversations.md`, `task-options.md`, `capabilities.md` or
`graphs.md`. Who looks for slips where the code has a branch, finds what its author has thought of.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from math import inf
from typing import Any
from unittest.mock import patch

import scaler.actors.sessions.agent_session
import scaler.actors.tasks.task
from scaler.actors.dependencies.waiting_tasks import WaitingTasks
from scaler.actors.messages.adoption import FindRun, NotHeld, RunFound
from scaler.actors.messages.objects import CopyKept
from scaler.actors.objects.object_store import ObjectStore
from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.tasks.adoption import Adoption
from scaler.actors.tasks.retries import retry_reason
from scaler.actors.tasks.task import TaskActor
from scaler.actors.workers.worker_proxy import WorkerProxy
from scaler.agent.ledger import Ledger
from scaler.executors.answers import End
from scaler.executors.processes.messages import ProcessorDown
from scaler.executors.processes.slot.slot import Slot
from scaler.executors.processes.slot.time_limit import TimeLimit
from scaler.executors.task_queue import TaskQueue
from scaler.wire.messages.common import TaskStatus
from tests.simulation.mutants import Mutant


def _all_of_a_process_are_marked() -> AbstractContextManager[Any]:
    down = Slot.handlers[ProcessorDown]

    def all_died(self: Slot, news: ProcessorDown) -> None:
        def end(_queue: TaskQueue, tasks: Any) -> None:
            self._answers.end(tasks, End(TaskStatus.PROCESSOR_DIED, "its processor died"))

        with patch.object(TaskQueue, "put_back", end):
            down(self, news)

    return patch.dict(Slot.handlers, {ProcessorDown: all_died})


def _who_leaves_is_lost() -> AbstractContextManager[Any]:
    stop = AgentSession._stop_workers
    return patch.object(AgentSession, "_stop_workers", lambda self, was_lost: stop(self, was_lost=True))


def _marks_stay() -> AbstractContextManager[Any]:
    found = TaskActor.handlers[RunFound]

    def forget(self: TaskActor, news: RunFound) -> None:
        self._suspect = -1
        found(self, news)

    return patch.dict(TaskActor.handlers, {RunFound: forget})


def _children_outlive_their_parents() -> AbstractContextManager[Any]:
    leave = AgentSession._leave

    def without_nested(self: AgentSession) -> None:
        self._nested.clear()
        leave(self)

    return patch.object(AgentSession, "_leave", without_nested)


def _missed_deletes_stay_missed() -> AbstractContextManager[Any]:
    def keep(self: ObjectStore, kept: CopyKept) -> None:
        self._copies.add(kept.object_id, kept.host)

    return patch.dict(ObjectStore.handlers, {CopyKept: keep})


def _one_retry_more() -> AbstractContextManager[Any]:
    return patch.object(scaler.actors.tasks.task, "retry_reason", lambda *of: retry_reason(*of[:2], of[2] - 1))


def _limits_are_not_watched() -> AbstractContextManager[Any]:
    return patch.object(TimeLimit, "watch", lambda *_: None)


def _amounts_are_not_taken() -> AbstractContextManager[Any]:
    return patch.object(WorkerProxy, "_allocate", lambda *_: None)


def _unclaimed_runs_go_on() -> AbstractContextManager[Any]:
    def forget(self: Adoption, now: float) -> None:
        for table in (self._table.held, self._table.known):
            for task_id in [each for each, (*_, since) in table.items() if since + self._keep_seconds <= now]:
                del table[task_id]

    return patch.object(Adoption, "_forget_old", forget)


def _nothing_is_adopted() -> AbstractContextManager[Any]:
    return patch.dict(Adoption.handlers, {FindRun: lambda _self, ask: ask.task.send(NotHeld())})


def _results_end_with_their_scheduler() -> AbstractContextManager[Any]:
    keep = Ledger.keep_for_new_session

    def drop(self: Ledger, *arguments: Any) -> None:
        keep(self, *arguments)
        self._kept.clear()

    return patch.object(Ledger, "keep_for_new_session", drop)


def _closed_is_silent() -> AbstractContextManager[Any]:
    return patch.object(scaler.actors.sessions.agent_session, "COME_BACK_SECONDS", inf)


def _graphs_go_on() -> AbstractContextManager[Any]:
    return patch.object(WaitingTasks, "cancel_graph", lambda *_: None)


DOCUMENTED: tuple[Mutant, ...] = (
    Mutant(
        "beside",
        "guarantees: what waits in a process that dies gets no mark",
        _all_of_a_process_are_marked,
        ("spared",),
    ),
    Mutant("polite", "guarantees: an agent that leaves in good order costs no mark", _who_leaves_is_lost, ("spared",)),
    Mutant("marks", "guarantees: the mark is taken back when the agent is back", _marks_stay, ("late",)),
    Mutant(
        "children",
        "guarantees: the children of a parent that died are cancelled",
        _children_outlive_their_parents,
        ("deaths",),
    ),
    Mutant(
        "deletes", "guarantees: deletes that an agent missed are repeated", _missed_deletes_stay_missed, ("restarts",)
    ),
    Mutant("retries", "task options: how often a task that raised runs again", _one_retry_more, ("options",)),
    Mutant("limits", "task options: how long a task may run", _limits_are_not_watched, ("options",)),
    Mutant(
        "amounts", "capabilities: a task takes an amount of what its node has", _amounts_are_not_taken, ("options",)
    ),
    Mutant(
        "unclaimed", "failures: a run whose client does not come back is cancelled", _unclaimed_runs_go_on, ("anew",)
    ),
    Mutant("adopts", "failures: a task that an agent still has is not run again", _nothing_is_adopted, ("anew",)),
    Mutant(
        "keeps",
        "conversations: what ended without a scheduler arrives at the next",
        _results_end_with_their_scheduler,
        ("maps",),
    ),
    Mutant("closed", "conversations: an agent whose connection was closed has 2 s", _closed_is_silent, ("options",)),
    Mutant("graphs", "graphs: to cancel one future cancels the graph", _graphs_go_on, ("spared",)),
)
