"""ClientSession: one client, from its first hello until it leaves or stays silent for too long.

Written to by the edge (batches from the client), the acceptor (the client is back on another connection), its tasks,
its graphs and the object store; sends to these, the acceptor and, through the outbox, to the client. It supervises its
tasks and graphs: one that fails inside the scheduler is reported as failed, without other effects. Between graphs
stands what one needs of another, or of a task: `Awaited`. Objects are in the object store.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Sequence
from itertools import islice
from typing import Any

from scaler.actors.graphs.awaited import NO_GRAPH, Awaited
from scaler.actors.graphs.graph import GraphActor
from scaler.actors.graphs.graph_node import by_graph
from scaler.actors.insight.events import CLIENT, LEFT, SENT_AWAY, PeerIdentity
from scaler.actors.insight.explanations import not_here
from scaler.actors.messages.adoption import AgentsAreBack
from scaler.actors.messages.monitor import ReportOpen, ReportTask
from scaler.actors.messages.objects import (
    DeleteObject,
    FetchObject,
    ObjectLost,
    OwnerHasSaidAll,
    OwnerLeft,
    OwnerSaysAgain,
    StoreObject,
    SupplyObject,
)
from scaler.actors.messages.outputs import OutputAsked
from scaler.actors.messages.peers import InfoAsked, ReportStatistics, Resumed, SendAway, ShutdownAsked
from scaler.actors.messages.tasks import (
    AwaitResult,
    BalancerRestarted,
    CancelGraph,
    CancelTask,
    ExplainInput,
    ExplainNode,
    ExplainTask,
    GraphEnded,
    GraphNodeDone,
    InputKnown,
    TaskDone,
)
from scaler.actors.peers.peer import Peer
from scaler.actors.services import Services
from scaler.actors.sessions.session import Farewell, Session
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.task import TaskActor
from scaler.ids import NO_ID, ClientId, GraphId, ObjectId, TaskId, content_id, public_id
from scaler.kit import ActorRef, ChildFailed, handles
from scaler.pickling.serialization import Frames
from scaler.wire.messages.client import (
    ClientDisconnect,
    ClientHeartbeat,
    ClientHeartbeatEcho,
    ClientResting,
    ExplainRequest,
    ExplainResponse,
    GoodbyeKind,
    GraphInput,
    GraphNode,
    GraphTask,
    GraphTaskCancel,
    InfoRequest,
    OutputRequest,
    Task,
    TaskCancel,
    TaskResult,
)
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    LOST,
    HelloRequest,
    InstructionKind,
    ObjectInstruction,
    ObjectRequest,
    ObjectResponse,
    TaskStatus,
)
from scaler.wire.session.lost_frames import LostFrames

logger = logging.getLogger(__name__)

TASKS_BEYOND_WINDOW = 2
"""How many windows of open tasks a client may have before more are refused: some have ended for the client only."""

COME_BACK_SECONDS = 5.0
"""How long a client whose connection was cut has to come back; never longer than its time-out."""

SEARCHED_MOST = 20_000
"""Among so many open tasks the one is searched that a viewer has asked for; others are found when they move."""

BARE_GRAPHS_MOST = 65_536
"""A client announces so many graphs at most before it sends a node of any of them. Their nodes follow at once, unless
they wait behind large values."""


class Resubmission:
    """The calls that a client says again, of which some may have ended.

    Args:
        open_tasks: those that were open when its session began anew.
        said: what it was told in the new session.
    """

    def __init__(self, open_tasks: Iterable[TaskId], said: Iterable[Any]) -> None:
        self._told = {item.task_id for item in said if type(item) is TaskResult}
        self._tasks = self._told.union(open_tasks)
        self._graphs: dict[GraphId, tuple[GraphTask, Batch[GraphInput], Batch[GraphNode]]] = {}
        """unknown ones: when all nodes are there, it is known whether their results are on their way"""

    def is_over(self, heartbeat: ClientHeartbeat, arriving_bytes: int) -> bool:
        """Return whether all that is said again has come before a heartbeat.

        Args:
            arriving_bytes: of a large message that has come in part.
        """
        return not (heartbeat.has_unsaid or arriving_bytes or self._graphs)

    def still_to_run(self, batch: Sequence[Task], open_tasks: Container[TaskId]) -> Sequence[Task]:
        """Leave out what was open and has ended."""
        known = self._tasks
        return [spec for spec in batch if spec.task_id not in known or spec.task_id in open_tasks]

    def tell(self, task_id: TaskId) -> None:
        """Note that the client is told the result of a node."""
        self._told.add(task_id)

    def announce(self, spec: GraphTask) -> None:
        """Take a graph that is unknown, or has ended. It has nodes."""
        self._graphs[spec.graph_id] = spec, Batch[GraphInput](), Batch[GraphNode]()

    def has_graph(self, graph_id: GraphId) -> bool:
        """Return whether the nodes of a graph belong here."""
        return graph_id in self._graphs

    def hear_inputs(self, graph_id: GraphId, inputs: Iterable[GraphInput]) -> None:
        """Take inputs of a graph, which come before its nodes."""
        self._graphs[graph_id][1].extend(inputs)

    def hear(
        self, graph_id: GraphId, nodes: Iterable[GraphNode]
    ) -> tuple[GraphTask, Batch[GraphInput], Batch[GraphNode]] | None:
        """Take nodes of a graph. Return the whole graph if it is to run."""
        spec, inputs, heard = self._graphs[graph_id]
        heard.extend(nodes)
        if len(inputs) + len(heard) < spec.node_count:
            return None
        del self._graphs[graph_id]
        return None if all(node.task_id in self._told for node in heard if node.wanted) else (spec, inputs, heard)

    def forget(self, graph_id: GraphId) -> None:
        """A graph is cancelled."""
        self._graphs.pop(graph_id, None)


class ClientSession(Session):
    """One client, its open tasks and graphs, and its objects.

    Args:
        is_back: whether the client had another scheduler: then agents may have runs of its tasks.
    """

    role = CLIENT

    _context: ClientContext
    """of its tasks, from its start"""

    def __init__(
        self,
        identity: PeerIdentity,
        peer: Peer,
        services: Services,
        account: int,
        is_back: bool = False,
    ) -> None:
        title = f"client {identity.peer_id.hex()[:8]}"
        super().__init__(identity, title, peer, services, services.config.client_timeout_seconds, COME_BACK_SECONDS)
        self._client_id = ClientId(identity.peer_id)
        self._object_store = services.object_store
        self._tasks_most = TASKS_BEYOND_WINDOW * services.config.client_tasks
        self._account = account
        self._adoption = services.adoption if is_back else None
        self._says_again = is_back
        """whether it may still say what it had stored at another scheduler"""
        self._tasks: dict[TaskId, ActorRef] = {}
        self._graphs: dict[GraphId, ActorRef] = {}
        self._bare: set[GraphId] = set()
        """those that were announced, and of which no node has come yet"""
        self._awaited = Awaited()
        self._resubmission: Resubmission | None = None
        """after its session began anew, until it has said all again"""

    def on_start(self) -> None:
        super().on_start()
        self._context = ClientContext(self._services, self.actor_ref, self._client_id, self._account, self._adoption)
        if self._adoption is not None:
            self.schedule(self._timeout_seconds, AgentsAreBack())
            self._object_store.send(OwnerSaysAgain(self._client_id))
        self._tell_came()

    @handles(AgentsAreBack)
    def _agents_are_back(self, _news: AgentsAreBack) -> None:
        """No agent has a run of its new tasks."""
        self._context.adoption = None

    @handles(Resumed)
    def _resumed(self, resumed: Resumed) -> None:
        super()._resumed(resumed)
        if not resumed.goes_on:
            self._resubmission = Resubmission(self._tasks, self._peer.pipe.unheard())

    # Its tasks

    @handles(Batch[Task])
    def _submit(self, batch: Batch[Task]) -> None:
        tasks, spawn, context = self._tasks, self.spawn, self._context
        for spec in self._within_bounds(batch):
            if spec.task_id not in tasks:  # else it was sent again after a cut
                tasks[spec.task_id] = spawn(TaskActor(spec, context))

    def _within_bounds(self, batch: Sequence[Task]) -> Sequence[Task]:
        """Refuse the tasks that are more than this client may have open. One that keeps to its window has none.

        Those that have ended since their client began to say all again are left out.
        """
        if self._resubmission is not None:
            batch = self._resubmission.still_to_run(batch, self._tasks)
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

    # Its graphs

    @handles(Batch[GraphTask])
    def _announce(self, batch: Batch[GraphTask]) -> None:
        for spec in batch:
            graph = self._open_graph(spec.graph_id)
            if graph is not None:
                graph.send(spec)  # it was sent again after a cut
                continue
            if len(self._bare) >= BARE_GRAPHS_MOST:
                continue  # its nodes, should they come, are refused
            self._bare.add(spec.graph_id)
            if self._resubmission is not None and spec.node_count:
                self._resubmission.announce(spec)
            else:
                self._start_graph(spec)

    def _start_graph(self, spec: GraphTask) -> ActorRef:
        graph = self._graphs[spec.graph_id] = self.spawn(GraphActor(spec, self._context_of(spec.account)))
        return graph

    def _context_of(self, _account: int) -> ClientContext:
        """Return the context of tasks with an account. A root client always has its own, whatever its tasks name."""
        return self._context

    @handles(Batch[GraphNode])
    def _hear_nodes(self, batch: Batch[GraphNode]) -> None:
        for graph_id, nodes in by_graph(batch).items():
            self._bare.discard(graph_id)
            graph = self._open_graph(graph_id)
            if graph is not None:
                graph.send(nodes)
            elif self._resubmission is not None and self._resubmission.has_graph(graph_id):
                whole = self._resubmission.hear(graph_id, nodes)
                if whole is not None:
                    self._start_whole(*whole)
            else:
                self._refuse(nodes)

    def _start_whole(self, spec: GraphTask, inputs: Batch[GraphInput], nodes: Batch[GraphNode]) -> None:
        graph = self._start_graph(spec)
        if inputs:
            graph.send(inputs)
        graph.send(nodes)

    def _open_graph(self, graph_id: GraphId) -> ActorRef | None:
        graph = self._graphs.get(graph_id)
        return None if graph is None or graph.is_stopped() else graph

    @handles(Batch[GraphInput])
    def _hear_inputs(self, batch: Batch[GraphInput]) -> None:
        for graph_id, inputs in by_graph(batch).items():
            graph = self._open_graph(graph_id)
            if graph is not None:
                graph.send(inputs)
            elif self._resubmission is not None and self._resubmission.has_graph(graph_id):
                self._resubmission.hear_inputs(graph_id, inputs)

    def _refuse(self, nodes: Sequence[GraphNode]) -> None:
        """The rest of a graph that has failed here, or was never announced."""
        for node in nodes:
            if node.wanted:
                sentence = b"the scheduler does not know the graph of this task"
                self._outbox.put(self._peer, TaskResult(node.task_id, TaskStatus.NOT_FOUND, sentence, 0))

    @handles(Batch[GraphTaskCancel])
    def _cancel_graphs(self, batch: Batch[GraphTaskCancel]) -> None:
        for cancel in batch:
            graph = self._graphs.get(cancel.graph_id)
            if graph is not None:  # else its last result is on the way
                graph.send(CancelGraph())
            if self._resubmission is not None:
                self._resubmission.forget(cancel.graph_id)
                if graph is None:
                    self._bare.discard(cancel.graph_id)

    @handles(GraphNodeDone)
    def _node_done(self, done: GraphNodeDone) -> None:
        if done.frames:
            self._store_result(done.result, done.frames)
        if self._resubmission is not None:
            self._resubmission.tell(done.result.task_id)
        if self._awaited:
            self._awaited.tell(done.graph_id, TaskDone(done.result, done.frames, done.worker))
        self._outbox.put(self._peer, done.result)

    @handles(GraphEnded)
    def _graph_ended(self, ended: GraphEnded) -> None:
        if self._awaited:
            for task_id in self._awaited.take_of(ended.graph_id):
                self._ask_for_result(task_id)
        if self._graphs.get(ended.graph_id) is ended.graph:
            del self._graphs[ended.graph_id]
            self._bare.discard(ended.graph_id)
            if ended.lost:
                self._object_lost(ObjectLost(ObjectId(ended.graph_id), ended.lost))

    # Results for which its graphs wait

    @handles(AwaitResult)
    def _await_result(self, wish: AwaitResult) -> None:
        task_id, source = wish.input.task_id, wish.input.source_graph
        maker = self._tasks.get(task_id) if source == NO_ID else self._open_graph(source)
        if maker is None:
            self._ask_for_result(task_id)
            return
        if source != NO_ID:
            maker.send(wish)
        self._awaited.add(wish)

    @handles(InputKnown)
    def _input_known(self, known: InputKnown) -> None:
        self._awaited.tell(known.source, known.done)

    def _ask_for_result(self, task_id: TaskId) -> None:
        """Its result is on its way to the client, and is not here any more."""
        self._outbox.put(self._peer, ObjectRequest(ObjectId(task_id), 1))

    # Its objects

    @handles(Batch[ObjectInstruction])
    def _instruct(self, batch: Batch[ObjectInstruction]) -> None:
        for instruction in batch:
            if instruction.kind == InstructionKind.DELETE:
                self._object_store.send(DeleteObject(instruction.object_id, self._client_id))
            else:
                self._store(instruction)

    def _store(self, instruction: ObjectInstruction) -> None:
        # One that was lost on its way is only missing to this client: others may have the function.
        frames = instruction.frames
        is_function = instruction.kind == InstructionKind.CREATE_FUNCTION and type(frames) is not LostFrames
        if type(frames) is LostFrames:
            logger.warning("%s: %s is dropped: %s", self._title, instruction.name or "an argument", frames.reason)
        if is_function and (instruction.location or content_id(frames) != instruction.object_id):
            # Tasks that name it find no function, unless another client has stored the right one.
            why = "it has a location" if instruction.location else "its id is not the hash of its content"
            logger.warning("%s: a function is dropped: %s", self._title, why)
            return
        self._object_store.send(
            StoreObject(
                instruction.object_id,
                self._client_id,
                instruction.name,
                frames,
                held=instruction.kind != InstructionKind.CREATE_FOR_TASK,
                is_function=is_function,
                location=instruction.location,
                source=self.actor_ref,
            )
        )

    def _store_result(self, result: TaskResult, frames: Frames) -> None:
        object_id = ObjectId(result.task_id)
        self._object_store.send(StoreObject(object_id, self._client_id, "", frames, held=True, source=self.actor_ref))

    @handles(ObjectLost)
    def _object_lost(self, lost: ObjectLost) -> None:
        self._outbox.put(self._peer, ObjectResponse(lost.object_id, LOST, (), reason=lost.reason))

    @handles(Batch[ObjectRequest])
    def _request(self, batch: Batch[ObjectRequest]) -> None:
        for request in batch:
            self._object_store.send(FetchObject(request.object_id, self._peer, None, bool(request.by_value)))

    @handles(SupplyObject)
    def _supply(self, supply: SupplyObject) -> None:
        self._outbox.put(self._peer, ObjectRequest(supply.object_id, 1))

    # Heartbeats, goodbyes and questions

    @handles(Batch[ClientHeartbeat])
    def _heartbeat(self, batch: Batch[ClientHeartbeat]) -> None:
        self._heard_beat(batch[-1].sent_ns)
        directory = self._services.directory
        directory.attempt_times.mark(directory.next_attempt, self.now())
        if self._resubmission is not None and self._resubmission.is_over(batch[-1], self._peer.pipe.arriving_bytes):
            self._resubmission = None
        if self._says_again and not (batch[-1].has_unsaid or self._peer.pipe.arriving_bytes):
            self._says_again = False
            self._object_store.send(OwnerHasSaidAll(self._client_id))
        for heartbeat in batch:
            self._outbox.put_alone(self._peer, ClientHeartbeatEcho(heartbeat.sent_ns, self._services.value_bytes()))

    @handles(Batch[ClientDisconnect])
    def _disconnect(self, batch: Batch[ClientDisconnect]) -> None:
        if any(goodbye.kind == GoodbyeKind.SHUTDOWN for goodbye in batch):
            self._services.acceptor.send(ShutdownAsked(self._peer))
        else:
            self._depart(LEFT, "")

    @handles(Batch[ClientResting])
    def _resting(self, batch: Batch[ClientResting]) -> None:
        """Ignored: it only matters for a client inside a task."""

    @handles(Batch[InfoRequest])
    def _ask_who_is_there(self, batch: Batch[InfoRequest]) -> None:
        self._services.census.send(InfoAsked(self._peer, batch))

    @handles(Batch[OutputRequest])
    def _ask_for_output(self, batch: Batch[OutputRequest]) -> None:
        self._services.outputs.send(OutputAsked(self._peer, batch, frozenset({self._account}), self._account))

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

    # From inside the scheduler

    @handles(ChildFailed)
    def _child_failed(self, failed: ChildFailed) -> None:
        for graph_id, graph in self._graphs.items():
            if graph is failed.child:  # it has said itself which tasks fail with it
                del self._graphs[graph_id]
                self._bare.discard(graph_id)
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

    @handles(SendAway)
    def _send_away(self, away: SendAway) -> None:
        """Its next hello is refused for the same reason."""
        self._outbox.put_alone(self._peer, HelloRequest(away.reason))
        self._depart(SENT_AWAY, away.reason)

    @handles(ReportOpen)
    def _report_open(self, ask: ReportOpen) -> None:
        ask.backlog.open[self._client_id] += len(self._tasks)
        if ask.backlog.wants_tasks:
            for task_id, task in islice(self._tasks.items(), SEARCHED_MOST):
                if public_id(task_id) in ask.backlog.wants_tasks:
                    task.send(ReportTask())
        for graph in self._graphs.values():
            graph.notify(ask)

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add(self.role, self._client_id.hex()[:8], self.statistics())
        for graph in self._graphs.values():
            graph.notify(ask)

    def statistics(self) -> dict[str, int]:
        """Return counts: open tasks, open graphs."""
        return {"tasks": len(self._tasks), "graphs": len(self._graphs)}

    # Its end

    def _leave(self) -> None:
        cancels: list[tuple[ActorRef, Any]] = [(task, CancelTask()) for task in self._tasks.values()]
        cancels += [(graph, CancelGraph()) for graph in self._graphs.values()]
        self._tasks, self._graphs = {}, {}
        if cancels:
            self.spawn(Farewell(cancels))
        self._object_store.send(OwnerLeft(self._client_id))
        super()._leave()
