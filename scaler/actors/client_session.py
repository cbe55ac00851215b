"""ClientSession: one client, from its first hello until it leaves or stays silent for too long.

Written to by the edge (batches from the client), the acceptor (the client is back on another connection), its tasks
and its graphs; sends to these, the object store, the acceptor and, through the outbox, to the client. It supervises
them: a task or graph that fails inside the scheduler is reported as failed, without other effects.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from scaler.actors.awaited import NO_GRAPH
from scaler.actors.canceller import Canceller
from scaler.actors.events import CLIENT, LEFT, SENT_AWAY, PeerIdentity
from scaler.actors.explanations import not_here
from scaler.actors.graph_owner import GraphOwner
from scaler.actors.home import Home
from scaler.actors.kit import ActorRef, ChildFailed, handles
from scaler.actors.messages.adoption import AgentsAreBack
from scaler.actors.messages.monitor import SayOpen, SayTask
from scaler.actors.messages.objects import OwnerLeft
from scaler.actors.messages.outputs import OutputAsked
from scaler.actors.messages.peers import InfoAsked, Resumed, SayStatistics, SendAway, ShutdownAsked
from scaler.actors.messages.tasks import (
    AwaitResult,
    BalancerRestarted,
    CancelGraph,
    CancelTask,
    ExplainInput,
    ExplainNode,
    ExplainTask,
    TaskDone,
)
from scaler.actors.peer import Peer
from scaler.actors.said_again import SaidAgain
from scaler.actors.session import Services
from scaler.actors.task import TaskActor
from scaler.ids import NO_ID, GraphId, TaskId, public_id
from scaler.wire.messages.client import (
    ClientDisconnect,
    ClientHeartbeat,
    ClientHeartbeatEcho,
    ClientResting,
    ExplainRequest,
    ExplainResponse,
    GoodbyeKind,
    InfoRequest,
    OutputRequest,
    Task,
    TaskCancel,
    TaskResult,
)
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import HelloRequest, TaskStatus

logger = logging.getLogger(__name__)

COME_BACK_SECONDS = 5.0
"""How long a client whose connection was cut has to come back; never longer than its time-out."""

SEARCHED_MOST = 20_000
"""Among so many open tasks the one is searched that a viewer has asked for; others are found when they move."""


class ClientSession(GraphOwner):
    """One client, its open tasks, and by the classes below its graphs and objects.

    Args:
        is_back: whether the client had another scheduler: then agents may have runs of its tasks.
    """

    role = CLIENT

    def __init__(
        self,
        identity: PeerIdentity,
        peer: Peer,
        services: Services,
        timeout_seconds: float,
        crash_limit: int,
        tasks_most: int,
        next_attempt: Callable[[], int],
        account: int,
        is_back: bool = False,
    ) -> None:
        title = f"client {identity.peer_id.hex()[:8]}"
        super().__init__(identity, title, peer, services, timeout_seconds, COME_BACK_SECONDS)
        self._crash_limit = crash_limit
        self._tasks_most, self._next_attempt = tasks_most, next_attempt
        self._account = account
        self._adoption = services.adoption if is_back else None
        self._tasks: dict[TaskId, ActorRef] = {}

    def on_start(self) -> None:
        super().on_start()
        services = self._services
        self._home = Home(
            self.actor_ref,
            services.balancer,
            services.object_store,
            services.events,
            self._client_id,
            self._crash_limit,
            self._next_attempt,
            services.read_options,
            services.attempt_times,
            services.unstarted,
            self._account,
            self._adoption,
        )
        if self._adoption is not None:
            self.schedule(self._timeout_seconds, AgentsAreBack())
        self._tell_came()

    @handles(AgentsAreBack)
    def _agents_are_back(self, _news: AgentsAreBack) -> None:
        """No agent has a run of its new tasks."""
        self._home.adoption = None

    @handles(Resumed)
    def _resumed(self, resumed: Resumed) -> None:
        super()._resumed(resumed)
        if not resumed.goes_on:
            self._again = SaidAgain(self._tasks, self._peer.pipe.unheard())

    # From the client

    @handles(Batch[Task])
    def _submit(self, batch: Batch[Task]) -> None:
        tasks, spawn, home = self._tasks, self.spawn, self._home
        for spec in self._within_bounds(batch):
            if spec.task_id not in tasks:  # else it was sent again after a cut
                tasks[spec.task_id] = spawn(TaskActor(spec, home))

    def _within_bounds(self, batch: Sequence[Task]) -> Sequence[Task]:
        """Refuse the tasks that are more than this client may have open. One that keeps to its window has none.

        Those that have ended since their client began to say all again are left out.
        """
        if self._again is not None:
            batch = self._again.still_to_run(batch, self._tasks)
        room = self._tasks_most - len(self._tasks)
        if len(batch) <= room:
            return batch
        room = max(0, room)
        for spec in batch[room:]:
            if spec.task_id not in self._tasks:
                sentence = f"its client has {self._tasks_most} open tasks, more than the scheduler takes".encode()
                self._outbox.put(self._peer, TaskResult(spec.task_id, TaskStatus.NO_WORKER, sentence, 0))
        return batch[:room]

    @handles(Batch[TaskCancel])
    def _cancel(self, batch: Batch[TaskCancel]) -> None:
        for cancel in batch:
            task = self._tasks.get(cancel.task_id)
            if task is not None:  # else its result is on the way
                task.send(CancelTask(bool(cancel.waiting)))

    @handles(Batch[ClientHeartbeat])
    def _heartbeat(self, batch: Batch[ClientHeartbeat]) -> None:
        self._heard_beat(batch[-1].sent_ns)
        self._services.attempt_times.mark(self._next_attempt, self.now())
        if self._again is not None and self._again.is_over(batch[-1], self._peer.pipe.arriving_bytes):
            self._again = None
        for heartbeat in batch:
            self._outbox.put_alone(self._peer, ClientHeartbeatEcho(heartbeat.sent_ns))

    @handles(Batch[ClientDisconnect])
    def _disconnect(self, batch: Batch[ClientDisconnect]) -> None:
        if any(goodbye.kind == GoodbyeKind.SHUTDOWN for goodbye in batch):
            self._services.acceptor.send(ShutdownAsked(self._peer))
        else:
            self._depart(LEFT, "")

    @handles(SendAway)
    def _send_away(self, away: SendAway) -> None:
        """Its next hello is refused for the same reason."""
        self._outbox.put_alone(self._peer, HelloRequest(away.reason))
        self._depart(SENT_AWAY, away.reason)

    @handles(Batch[ClientResting])
    def _resting(self, batch: Batch[ClientResting]) -> None:
        """Ignored: it only matters for a client inside a task."""

    @handles(Batch[InfoRequest])
    def _ask_who_is_there(self, batch: Batch[InfoRequest]) -> None:
        self._services.census.send(InfoAsked(self._peer, batch))

    @handles(Batch[ExplainRequest])
    def _explain(self, batch: Batch[ExplainRequest]) -> None:
        for request in batch:
            question = ExplainTask(self.actor_ref, request.task_id, asked_at=self.now())
            self._hand_on(question, request.task_id, request.graph_id, request.position)

    @handles(ExplainInput)
    def _explain_input(self, asked: ExplainInput) -> None:
        awaited = asked.input
        self._hand_on(asked.question, awaited.task_id, awaited.source_graph, awaited.source_position)

    def _hand_on(self, question: ExplainTask, task_id: TaskId, graph_id: GraphId, position: int) -> None:
        is_node = graph_id != NO_ID
        asked = self._graphs.get(graph_id) if is_node else self._tasks.get(task_id)
        if asked is None or asked.is_stopped():
            self._outbox.put(self._peer, not_here(question))
        else:
            asked.send(ExplainNode(question, position) if is_node else question)

    @handles(ExplainResponse)
    def _explained(self, response: ExplainResponse) -> None:
        self._outbox.put(self._peer, response)

    @handles(Batch[OutputRequest])
    def _ask_for_output(self, batch: Batch[OutputRequest]) -> None:
        self._services.outputs.send(OutputAsked(self._peer, batch, frozenset({self._account}), self._account))

    # From its graphs, about the results of others

    @handles(AwaitResult)
    def _await_result(self, wish: AwaitResult) -> None:
        awaited, source = wish.input, wish.input.source_graph
        if source == NO_ID:
            if awaited.task_id not in self._tasks:
                self._ask_for_result(awaited.task_id)
                return
        else:
            graph = self._open_graph(source)
            if graph is None:
                self._ask_for_result(awaited.task_id)
                return
            graph.send(wish)
        self._awaited.add(wish)

    # From its tasks

    @handles(TaskResult)
    def _done(self, result: TaskResult) -> None:
        if self._tasks.pop(result.task_id, None) is not None:
            if self._awaited:
                self._awaited.tell(NO_GRAPH, TaskDone(result, ()))
            self._outbox.put(self._peer, result)

    @handles(TaskDone)
    def _done_with_frames(self, done: TaskDone) -> None:
        if done.result.task_id in self._tasks:
            self._store_result(done.result, done.frames)
            self._awaited.tell(NO_GRAPH, done)
            self._done(done.result)

    @handles(ChildFailed)
    def _child_failed(self, failed: ChildFailed) -> None:
        for graph_id, graph in self._graphs.items():
            if graph is failed.child:  # it has said itself which tasks fail with it
                del self._graphs[graph_id]
                return
        for task_id, task in self._tasks.items():
            if task is failed.child:
                sentence = f"the scheduler failed at this task: {failed.error!r}".encode()
                self._done(TaskResult(task_id, TaskStatus.INTERNAL_ERROR, sentence, 0))
                return

    @handles(BalancerRestarted)
    def _balancer_restarted(self, restarted: BalancerRestarted) -> None:
        for child in (*self._tasks.values(), *self._graphs.values()):
            child.send(restarted)

    # Its end

    def _leave(self) -> None:
        cancels: list[tuple[ActorRef, Any]] = [(task, CancelTask()) for task in self._tasks.values()]
        cancels += [(graph, CancelGraph()) for graph in self._graphs.values()]
        self._tasks, self._graphs = {}, {}
        if cancels:
            self.spawn(Canceller(cancels))
        self._object_store.send(OwnerLeft(self._client_id))
        super()._leave()

    @handles(SayOpen)
    def _say_open(self, say: SayOpen) -> None:
        say.backlog.open[self._client_id] += len(self._tasks)
        if say.backlog.wants_tasks:
            for task_id, task in islice(self._tasks.items(), SEARCHED_MOST):
                if public_id(task_id) in say.backlog.wants_tasks:
                    task.send(SayTask())
        for graph in self._graphs.values():
            graph.notify(say)

    @handles(SayStatistics)
    def _say_statistics(self, say: SayStatistics) -> None:
        say.report.add(self.role, self._client_id.hex()[:8], self.statistics())
        for graph in self._graphs.values():
            graph.notify(say)

    def statistics(self) -> dict[str, int]:
        """Return counts: open tasks, open graphs."""
        return {"tasks": len(self._tasks), "graphs": len(self._graphs)}
