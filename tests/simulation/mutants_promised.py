"""Promised: eleven more mutants that each break a sentence of the pages, chosen before the code was looked at.

One other it cannot see, and a unit test finds it: that the newest task is refused.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

import scaler.actors.sessions.client_session
from scaler.actors.messages.adoption import RunFound
from scaler.actors.messages.peers import CheckSilence
from scaler.actors.sessions.agent_session import AgentSession
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.sessions.session import SessionTeardown
from scaler.actors.tasks.adoption import Adoption
from scaler.actors.tasks.task import TaskActor
from scaler.actors.vocabulary.events import SILENT
from scaler.actors.vocabulary.task_states import READY, RETURNING
from scaler.agent.link import AgentLink
from scaler.agent.messages import HandOverValues
from scaler.agent.object_cache import ObjectCache
from scaler.client.link.open_work import OpenWork
from scaler.peer.states import LEAVE
from scaler.priority_rows import PriorityRows
from tests.simulation.mutants import Mutant
from tests.simulation.processors import ProcessorModel


def _one_death_more() -> AbstractContextManager[Any]:
    count = TaskActor._count_crash

    def count_later(self: TaskActor) -> bool:
        count(self)
        return self._crashes > self._context.services.config.crash_limit

    return patch.object(TaskActor, "_count_crash", count_later)


def _a_drain_waits_for_nothing() -> AbstractContextManager[Any]:
    def leave(self: AgentLink, look: Any) -> None:
        self._connection.happened(LEAVE, look.reason)

    return patch.object(AgentLink, "_look_at_drain", leave)


def _both_runs_go_on() -> AbstractContextManager[Any]:
    found = TaskActor.handlers[RunFound]

    def ignore(self: TaskActor, news: RunFound) -> None:
        if self._state is READY or (self._state is RETURNING and self._offer is None):
            found(self, news)

    return patch.dict(TaskActor.handlers, {RunFound: ignore})


def _no_agent_is_waited_for() -> AbstractContextManager[Any]:
    return patch.object(Adoption, "_is_time", lambda _self, _patient=False, **_: True)


def _tasks_outlive_their_client() -> AbstractContextManager[Any]:
    return patch.object(scaler.actors.sessions.client_session, "SessionTeardown", lambda _cancels: SessionTeardown(()))


def _once_may_be_twice() -> AbstractContextManager[Any]:
    return patch.object(TaskActor, "_must_not_run_again", TaskActor._may_have_been_started)


def _what_is_done_waits_for_the_next() -> AbstractContextManager[Any]:
    return patch.object(ProcessorModel, "_must_leave", lambda *_: False)


def _a_drain_hands_nothing_over() -> AbstractContextManager[Any]:
    return patch.dict(ObjectCache.handlers, {HandOverValues: lambda self, over: self._link.send(over.at_last)})


def _the_next_scheduler_gets_no_objects() -> AbstractContextManager[Any]:
    start_over = OpenWork.start_over

    def without_held(self: OpenWork, *arguments: Any) -> None:
        held, self._stored = self._stored, {}
        start_over(self, *arguments)
        self._stored = held

    return patch.object(OpenWork, "start_over", without_held)


def _silence_ends_no_session() -> AbstractContextManager[Any]:
    stack = ExitStack()
    for session in (AgentSession, ClientSession):
        check = session.handlers[CheckSilence]

        def only_cuts(self: Any, silence: CheckSilence, check: Callable[..., None] = check) -> None:
            if silence.departure is not SILENT:
                check(self, silence)

        stack.enter_context(patch.dict(session.handlers, {CheckSilence: only_cuts}))
    return stack


def _low_goes_first() -> AbstractContextManager[Any]:
    def last(self: PriorityRows[Any], priority: int) -> Any:
        insort(self.priorities, priority, key=lambda each: -each)
        row = self[priority] = self._new_row()
        return row

    return patch.object(PriorityRows, "__missing__", last)


PROMISED: tuple[Mutant, ...] = (
    Mutant("limit", "guarantees: at the limit of its deaths a task fails", _one_death_more, ("deaths",)),
    Mutant("drains", "guarantees: with drain_seconds what runs ends first", _a_drain_waits_for_nothing, ("orderly",)),
    Mutant(
        "both", "guarantees: a run that began elsewhere goes on, the other is cancelled", _both_runs_go_on, ("twice",)
    ),
    Mutant(
        "early",
        "guarantees: nothing is given to others before the agents are back",
        _no_agent_is_waited_for,
        ("steady",),
    ),
    Mutant(
        "outlives",
        "guarantees: the tasks of a client that leaves are cancelled",
        _tasks_outlive_their_client,
        ("choppy",),
    ),
    Mutant("twice", "task options: at_most_once", _once_may_be_twice, ("once",)),
    Mutant(
        "told late",
        "task options: a result of at_most_once leaves before the next task begins",
        _what_is_done_waits_for_the_next,
        ("once",),
    ),
    Mutant("handed", "guarantees: a drain hands the values over", _a_drain_hands_nothing_over, ("orderly",)),
    Mutant(
        "gives",
        "guarantees: a client gives its objects to the next scheduler",
        _the_next_scheduler_gets_no_objects,
        ("restarts",),
    ),
    Mutant(
        "highest", "task options: of the tasks that wait the highest priority goes first", _low_goes_first, ("orderly",)
    ),
    Mutant("silent", "conversations: a silent session ends after its time-out", _silence_ends_no_session, ("anew",)),
)
