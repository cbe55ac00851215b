"""Waits: what a task waits for while it is neither in the queue nor at a worker. Used by the task only."""

from __future__ import annotations

from scaler.actors.messages.tasks import ExplainTask, Tries
from scaler.actors.vocabulary.task_states import CANCELING, DELAYED, LEAVING, RETURNING, State
from scaler.wire.messages.vocabulary import CANCEL, LAST_SCHEDULER, RETRY, Reason

_OWN: dict[State, tuple[Reason, str]] = {
    RETURNING: (
        LAST_SCHEDULER,
        "its client had another scheduler before, and a worker may already run it; this is known in a few seconds",
    ),
    LEAVING: (
        LAST_SCHEDULER,
        "a worker of the last scheduler already has it, and the scheduler is taking over its run",
    ),
    DELAYED: (RETRY, "it raised an exception, and runs again after a pause (its options retries and retry_delay)"),
    CANCELING: (CANCEL, "it was cancelled, and its worker is stopping it"),
}
_CANCELED_IN_QUEUE = (CANCEL, "it was cancelled while it waited, and is about to end")


def explain_unassigned(question: ExplainTask, state: State, tries: Tries) -> None:
    """Answer a question about a task that is neither in the queue nor at a worker."""
    seconds = question.asked_at - tries.past[-1].at if state is DELAYED and tries.past else 0.0
    question.answer(state, _OWN.get(state, _CANCELED_IN_QUEUE), tries, seconds=seconds)
