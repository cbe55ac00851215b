"""ClientQuestions: handles questions (`explain`) about the tasks of one client: what does this task wait for?

The client, its graphs and admins ask such questions. Owned by the client session, which knows the held tasks. All other
questions are forwarded to the actors of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from scaler.actors.messages.tasks import ExplainForAdmin, ExplainNode, ExplainTask
from scaler.actors.sessions.client_graphs import ClientGraphs
from scaler.actors.sessions.held_tasks import HeldTasks
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.vocabulary.directory import Directory
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.vocabulary.recent_runs import RecentRuns
from scaler.ids import NO_ID, PREFIX_BYTES, GraphId, TaskId, index_of
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
        directory: Directory,
        put: Callable[[Any], None],
        open_tasks: OpenTasks[TaskId],
        held: HeldTasks,
        graphs: ClientGraphs,
    ) -> None:
        self._session, self._peer, self._directory, self._put = session, peer, directory, put
        self._open_tasks, self._held, self._graphs = open_tasks, held, graphs

    def ask(self, request: ExplainRequest, now: float) -> None:
        """Answer or forward a question. An admin's question about another client's task passes through all sessions."""
        task_id, is_wanted = request.task_id, bool(request.wanted)
        question = ExplainTask(self._session, task_id, asked_at=now, is_wanted=is_wanted)
        if self._peer.is_admin and request.graph_id == NO_ID and not self._has(task_id):
            peers = self._directory.peers.values()
            sessions = iter([each.session for each in peers if each.outgoing is SCHEDULER_TO_CLIENT])
            _ask_next(question, sessions, self._directory.recent_runs)
        else:
            self.forward(question, task_id, request.graph_id, request.position)

    def answer_admin(self, asked: ExplainForAdmin) -> None:
        """Answer an admin's question about a task, or forward it to the next session."""
        question = asked.question
        if question.task_id in self._held:
            question.asker.send(self._held.explain(question))
        elif (task := self._task(question.task_id)) is not None and not task.is_stopped():
            task.send(question)
        else:
            _ask_next(question, asked.others, self._directory.recent_runs)

    def _task(self, task_id: TaskId) -> ActorRef | None:
        """Return the open task with an id, or the open range that has a row with this id; None if the id is unknown."""
        number = index_of(task_id)
        ranges = (
            first
            for first, rows in self._open_tasks.ranges.items()
            if first[:PREFIX_BYTES] == task_id[:PREFIX_BYTES] and 0 <= number - index_of(first) < rows
        )
        return self._open_tasks.get(task_id) or self._open_tasks.get(next(ranges, task_id))

    def _has(self, task_id: TaskId) -> bool:
        task = self._task(task_id)
        return task_id in self._held or (task is not None and not task.is_stopped())

    def forward(self, question: ExplainTask, task_id: TaskId, graph_id: GraphId, position: int) -> None:
        """Forward a question to the task, or to the graph whose node it is."""
        is_node = graph_id != NO_ID
        asked = self._graphs.get(graph_id) if is_node else self._task(task_id)
        if not is_node and task_id in self._held:
            self._put(self._held.explain(question))
        elif asked is None or asked.is_stopped():
            self._put(_unknown_task(question, self._directory.recent_runs.worker_of(question.task_id)))
        else:
            asked.send(ExplainNode(question, position) if is_node else question)


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
