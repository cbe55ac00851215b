"""Waits: which results a task waits for. Used by the client session; the monitor uses `INPUTS_REASON`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from scaler.actors.dependencies.waiting_task import WAITING, WaitingTask
from scaler.actors.messages.tasks import SHOWN_SECONDS, ExplainTask, age, shown_task
from scaler.actors.vocabulary.task_states import READY
from scaler.ids import ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.vocabulary import INPUTS, TURN

NEEDS_MOST = 1000
"""Limit of the needed results of one task that are examined."""
STEPS_MOST = 100
"""The length up to which a chain of tasks is followed. In a chain, each task waits for the next."""

INPUTS_REASON = INPUTS, "it needs results of other tasks that are not available yet"
"""The usual explanation of a waiting task. The answer about a single task has more detail."""


def follow(
    question: ExplainTask,
    task: WaitingTask,
    actor_of: Callable[[TaskId], ActorRef | None],
    is_held: Callable[[TaskId], bool],
    function_name: Callable[[ObjectId], str],
) -> None:
    """Follow the needs of a task to the first task that runs or can run, and forward the question to that task.

    Args:
        actor_of: returns the actor of an open task.
        is_held: returns whether a task waits for the quota of its owner.
        function_name: returns the name of a function; empty if it is unknown.
    """
    for _ in range(STEPS_MOST):
        actor = actor_of(task.task_id)
        if actor is not None:
            actor.send(question)
            return
        if not task.is_open:
            return  # its result is on its way
        if task.status != WAITING:
            sentence = "waits for the quota of its owner" if is_held(task.task_id) else "is requested from its client"
            question.answer(READY, (INPUTS, f"it {sentence}"))
            return
        missing = missing_needs(task)
        if not missing:
            question.answer(READY, (TURN, "its arguments are available, and it is about to start"))
            return
        if not question.because and task.terms is not None:
            seconds = question.asked_at - task.terms.since
            because = for_needs(missing, len(task.needs), seconds, function_name)
            question = replace(question, because=because, seconds=seconds)
        task = missing[0]
    question.answer(READY, (INPUTS, f"it waits for a chain of more than {STEPS_MOST} tasks"))


def missing_needs(task: WaitingTask) -> list[WaitingTask]:
    """Return the tasks whose results a task waits for, among its first `NEEDS_MOST` needs."""
    return [each for each in islice(task.needs, NEEDS_MOST) if each.is_open]


def for_needs(
    missing: Sequence[WaitingTask], all_of_them: int, seconds: float, function_name: Callable[[ObjectId], str]
) -> str:
    """Return the start of a sentence about a task that waits for results. It names the first one."""
    first = missing[0]
    which = shown_task(first.task_id, (first.terms and first.terms.name) or function_name(first.function_id))
    wants = f"it has waited for {age(seconds)} for" if seconds >= SHOWN_SECONDS else "it needs"
    if all_of_them == 1:
        return f"{wants} the result of {which}, which "
    return f"{wants} the results of {len(missing):,} of {all_of_them:,} other tasks; one of them, {which}, "
