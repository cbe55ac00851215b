"""AskedWorker: the part of a worker proxy that says where a run is, when a client asks why its task does not end.

Written to by tasks (somebody asks) and its agent session (the agent's answer); asks the agent, which knows what its
worker executes, and answers the client's session, also if the agent says nothing for a moment. Must never: ask anything
that no client has asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler.actors.accounted_worker import AccountedWorker
from scaler.actors.explanations import explain_run
from scaler.actors.kit import ActorRef, handles
from scaler.actors.messages.tasks import AnswerOverdue, ExplainRun
from scaler.actors.outbox import Outbox
from scaler.actors.peer import Peer
from scaler.actors.policy import Offer
from scaler.ids import TaskId
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import RunQuestion, RunStanding

ANSWER_SECONDS = 0.2
"""How long the agent has to say where a run is; then the client hears what is known here."""
QUESTIONS_MOST = 256
"""So many questions wait for the agent; others are answered at once."""


class AskedWorker(AccountedWorker):
    """One worker and the questions about its runs.

    Args:
        name: of the worker.
        index: its position at its agent.
        outbox: leads to the agent.
        held: the runs that it had when its agent came: task and attempt.
        offer: what its node has.
    """

    def __init__(
        self,
        name: str,
        index: int,
        peer: Peer,
        outbox: Outbox,
        balancer: ActorRef,
        held: Iterable[tuple[TaskId, int]],
        offer: Offer,
    ) -> None:
        super().__init__(peer, balancer, held, offer)
        self.name = name
        self._index = index
        self._outbox = outbox
        self._asked: list[ExplainRun] = []

    @handles(ExplainRun)
    def _explain(self, asked: ExplainRun) -> None:
        run = self._runs.get(asked.task_id)
        if run is None:
            return
        if run.canceled or not self._peer.connection or len(self._asked) >= QUESTIONS_MOST:
            explain_run(asked, self.name, self._runs, is_cut=not self._peer.connection)
            return
        self._asked.append(asked)
        self._outbox.put_alone(self._peer, RunQuestion(asked.task_id, self._index, run.attempt))
        self.schedule(ANSWER_SECONDS, AnswerOverdue(asked))

    @handles(Batch[RunStanding])
    def _stands(self, batch: Batch[RunStanding]) -> None:
        for standing in batch:
            run = self._runs.get(standing.task_id)
            where = standing if run is not None and run.attempt == standing.attempt else None
            for asked in [asked for asked in self._asked if asked.task_id == standing.task_id]:
                self._tell(asked, where)

    @handles(AnswerOverdue)
    def _overdue(self, overdue: AnswerOverdue) -> None:
        if any(asked is overdue.asked for asked in self._asked):
            self._tell(overdue.asked, None)

    def _tell(self, asked: ExplainRun, where: RunStanding | None) -> None:
        self._asked = [each for each in self._asked if each is not asked]
        explain_run(asked, self.name, self._runs, not self._peer.connection, where)
