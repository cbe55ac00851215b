"""ClientQuestions: handles questions (`explain`) about the tasks of one client: what does this task wait for?

The client, admins and the monitor ask them. Owned by the client session, which knows the held tasks. All other
questions are forwarded to the actors of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from scaler.actors.dependencies.waiting_tasks import WaitingTasks
from scaler.actors.dependencies.waits import follow
from scaler.actors.messages.tasks import ExplainForAdmin, ExplainTask
from scaler.actors.sessions.held_tasks import HeldTasks
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.vocabulary.recent_runs import RecentRuns
from scaler.actors.vocabulary.services import Services
from scaler.ids import PREFIX_BYTES, TaskId, index_of
from scaler.kit import ActorRef
from scaler.wire.messages.client import ExplainRequest, ExplainResponse
from scaler.wire.messages.directions import SCHEDULER_TO_CLIENT
from scaler.wire.messages.vocabulary import UNKNOWN


class ClientQuestions:
    """Answers or forwards the questions that one client asks, and those that admins ask about tasks of this client."""

    def __init__(
        self,
        session: ActorRef,
        peer: Peer,
        services: Services,
        put: Callable[[Any], None],
        open_tasks: OpenTasks[TaskId],
        held: HeldTasks,
        waiting: WaitingTasks,
    ) -> None:
        self._session, self._peer, self._directory, self._put = session, peer, services.directory, put
        self._function_name = services.function_name
        self._open_tasks, self._held, self._waiting = open_tasks, held, waiting

    def ask(self, request: ExplainRequest, now: float) -> None:
        """Answer or forward a question. An admin's question about another client's task passes through all sessions."""
        question = ExplainTask(
            self._session, request.task_id, asked_at=now, is_wanted=bool(request.wanted), graph_id=request.graph_id
        )
        if self._peer.is_admin and not self._answer(question):
            peers = self._directory.peers.values()
            sessions = iter([each.session for each in peers if each.outgoing is SCHEDULER_TO_CLIENT])
            _ask_next(question, sessions, self._directory.recent_runs)
        elif not self._peer.is_admin:
            self.forward(question)

    def answer_admin(self, asked: ExplainForAdmin) -> None:
        """Answer an admin's question about a task, or forward it to the next session."""
        if not self._answer(asked.question):
            _ask_next(asked.question, asked.others, self._directory.recent_runs)

    def forward(self, question: ExplainTask) -> None:
        """Answer a question about a task of this client, or forward it to the task."""
        if not self._answer(question):
            question.asker.send(_unknown_task(question, self._directory.recent_runs.worker_of(question.task_id)))

    def _answer(self, question: ExplainTask) -> bool:
        """Answer or forward a question, and return True, unless the client has no such task."""
        task_id = question.task_id
        task, waiting = self._task(task_id), self._waiting.find(task_id, question.graph_id)
        if task_id in self._held:
            question.asker.send(self._held.explain(question))
        elif task is not None and not task.is_stopped():
            task.send(question)
        elif waiting is not None:
            follow(question, waiting, self._task, self._held.__contains__, self._function_name)
        else:
            return False
        return True

    def _task(self, task_id: TaskId) -> ActorRef | None:
        """Return the open task with an id, or the open range that has a row with this id; None if the id is unknown."""
        number = index_of(task_id)
        ranges = (
            first
            for first, rows in self._open_tasks.ranges.items()
            if first[:PREFIX_BYTES] == task_id[:PREFIX_BYTES] and 0 <= number - index_of(first) < rows
        )
        return self._open_tasks.get(task_id) or self._open_tasks.get(next(ranges, task_id))


def _unknown_task(question: ExplainTask, worker: str) -> ExplainResponse:
    """Return the answer about a task that the session does not have. `worker`: where the task ran; empty: unknown."""
    sentence = "the scheduler does not have it: it has just ended, or has not arrived yet"
    return ExplainResponse(question.task_id, "", UNKNOWN, sentence, worker)


def _ask_next(question: ExplainTask, sessions: Iterator[ActorRef], recent_runs: RecentRuns) -> None:
    """Forward an admin's question to the next open client session. Answer the question if no session is left."""
    session = next((each for each in sessions if not each.is_stopped()), None)
    if session is None:
        question.asker.send(_unknown_task(question, recent_runs.worker_of(question.task_id)))
    else:
        session.send(ExplainForAdmin(question, sessions))
