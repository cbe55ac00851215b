"""Questions: what users ask about their open tasks, and the answers, from here or from the scheduler.

Used by the protocol only. What this client knows it answers itself: that no scheduler is there, or that the
scheduler does not have the task yet. Must never: block, or leave a question open that has been answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from scaler.client.link.open_work import Lane, OpenWork
from scaler.ids import TaskId
from scaler.wire.messages.client import ExplainResponse
from scaler.wire.messages.vocabulary import ENDED, NO_SCHEDULER, TRANSFER, WINDOW, Reason

OnAnswer: TypeAlias = Callable[[ExplainResponse], None]
"""Takes an answer, in the link's thread: must not block."""


class Questions:
    """The open questions of a client.

    Args:
        work: its open work.
        address: of the scheduler, which does not know under which one it is seen.
        no_scheduler: returns a sentence for when no scheduler answers.
    """

    def __init__(self, work: OpenWork, address: str, no_scheduler: Callable[[], str]) -> None:
        self._work = work
        self._address = address
        self._no_scheduler = no_scheduler
        self._open: dict[TaskId, list[OnAnswer]] = {}

    def ask(self, task_id: TaskId, on_answer: OnAnswer, lane: Lane | None, may_come: bool = False) -> None:
        """Answer a question, or ask the scheduler.

        Args:
            lane: what is on its way to the scheduler; None if there is no scheduler.
            may_come: whether a scheduler is likely to answer soon if there is none; then the question waits for it.
        """
        request = self._work.request_about(task_id)
        if request is None:
            on_answer(_answer(task_id, ENDED, "it has ended"))
        elif lane is None and may_come:
            self._open.setdefault(task_id, []).append(on_answer)
        elif lane is None:
            on_answer(_answer(task_id, NO_SCHEDULER, self._no_scheduler()))
        elif task_id in self._work.window:
            on_answer(_answer(task_id, WINDOW, self._work.window.sentence()))
        elif n_bytes := lane.bytes_before(request):
            on_answer(_answer(task_id, TRANSFER, _transfer(n_bytes)))
        else:
            self._open.setdefault(task_id, []).append(on_answer)
            self._work.out.append(request)

    def on_answers(self, answers: Iterable[ExplainResponse]) -> None:
        for answer in answers:
            sentence = answer.sentence.replace("ADDRESS", self._address)
            for on_answer in self._open.pop(answer.task_id, ()):
                on_answer(replace(answer, sentence=sentence))

    def resend(self) -> None:
        """Ask on a new connection: what was asked may be lost, or was not asked yet."""
        asked, self._open = self._open, {}
        for task_id, callbacks in asked.items():
            request = self._work.request_about(task_id)
            if request is not None and task_id not in self._work.window:
                self._open[task_id] = callbacks
                self._work.out.append(request)


def _answer(task_id: TaskId, reason: Reason, sentence: str) -> ExplainResponse:
    return ExplainResponse(task_id, "", reason, sentence)


def _transfer(n_bytes: int) -> str:
    return (
        f"its arguments are on their way to the scheduler: {n_bytes / 2**20:,.1f} MiB of this client are still to be "
        "sent; large values that several tasks need are sent once with send_object"
    )
