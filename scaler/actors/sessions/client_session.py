"""ClientSession: one client, from its first hello until it leaves or stays silent for too long.

Written to by the edge (batches from the client), the acceptor (the client is back on another connection), its tasks,
its graphs and the object store; sends to these, the acceptor and, through the outbox, to the client. It supervises its
tasks and graphs: one that fails inside the scheduler is reported as failed, without other effects. Between graphs
stands what one needs of another, or of a task: `Awaited`. Objects are in the object store.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from typing import Any

from scaler.actors.graphs.awaited import NO_GRAPH, Awaited
from scaler.actors.graphs.graph import GraphActor
from scaler.actors.graphs.graph_node import by_graph
from scaler.actors.insight.events import CLIENT, LEFT, SENT_AWAY, PeerIdentity
from scaler.actors.insight.explanations import ask_next, not_here
from scaler.actors.messages.adoption import AgentsAreBack
from scaler.actors.messages.jobs import JobAsked, ReaderLeft
from scaler.actors.messages.monitor import ReportOpen, ReportTask
from scaler.actors.messages.objects import (
    DeleteObject,
    FetchObject,
    ObjectLost,
    OwnerHasSaidAll,
    OwnerLeft,
    OwnerSaysAgain,
    ReleaseObjects,
    StoreObject,
    SupplyObject,
    UseObjects,
    ValueRefused,
)
from scaler.actors.messages.outputs import OutputAsked
from scaler.actors.messages.peers import InfoAsked, ReportStatistics, Resumed, SendAway, ShutdownAsked
from scaler.actors.messages.tasks import (
    AwaitResult,
    BalancerRestarted,
    CancelGraph,
    CancelOfAny,
    CancelTask,
    ExplainInput,
    ExplainNode,
    ExplainOfAny,
    ExplainTask,
    GraphEnded,
    GraphNodeDone,
    InputKnown,
    TaskDone,
)
from scaler.actors.peers.owners import Owner, RoomInQuota
from scaler.actors.peers.peer import Peer
from scaler.actors.services import Services
from scaler.actors.sessions.held_tasks import HeldTasks
from scaler.actors.sessions.resubmission import Either, Resubmission
from scaler.actors.sessions.session import Farewell, Session
from scaler.actors.tasks.client_context import Begun, ClientContext
from scaler.actors.tasks.task import TaskActor
from scaler.ids import NO_ID, ClientId, GraphId, ObjectId, TaskId, content_id, public_id, split_ids
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
    JobRequest,
    JobResponse,
    JobStatus,
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
from scaler.wire.messages.directions import SCHEDULER_TO_CLIENT
from scaler.wire.messages.rows import ROWS_MOST, calls_of, flaw_of, row_ids
from scaler.wire.session.lost_frames import LostFrames

logger = logging.getLogger(__name__)

TASKS_BEYOND_WINDOW = 2
"""How many windows of open tasks a client may have before more are refused: some have ended for the client only."""

COME_BACK_SECONDS = 5.0
"""How long a client whose connection was cut has to come back; never longer than its time-out."""

SEARCHED_MOST = 20_000
"""Among so many open tasks the one is searched that a viewer has asked for; others are found when they move."""

FOREIGN = b"an object that it names belongs to somebody else, who alone may read it"

GRAPHS_REFUSED_MOST = 1024
"""Of so many graphs it is known why they were refused: the last ones."""

BARE_GRAPHS_MOST = 65_536
"""A client announces so many graphs at most before it sends a node of any of them. Their nodes follow at once, unless
they wait behind large values."""


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
        self._owner = self._payer(peer)
        self._held = HeldTasks(self._owner)
        self._adoption = services.adoption if is_back else None
        self._says_again = is_back
        """whether it may still say what it had stored at another scheduler"""
        self._tasks: dict[TaskId, ActorRef] = {}
        self._rows: dict[TaskId, int] = {}
        """how many rows those of them have that are ranges"""
        self._graphs: dict[GraphId, ActorRef] = {}
        self._graph_sizes: dict[GraphId, int] = {}
        """how many nodes each of them has"""
        self._refused: OrderedDict[GraphId, bytes] = OrderedDict()
        """graphs that are over the quota, and a sentence about it"""
        self._bare: set[GraphId] = set()
        """those that were announced, and of which no node has come yet"""
        self._awaited = Awaited()
        self._resubmission: Resubmission | None = None
        """after its session began anew, until it has said all again"""

    def _payer(self, peer: Peer) -> Owner:
        """Return whose quota its tasks and values count against."""
        return peer.owner

    def on_start(self) -> None:
        super().on_start()
        what = (self._client_id, self._account, self._adoption, self._identity.label)
        self._context = ClientContext(self._services, self.actor_ref, *what)
        self._context.open_rows = self._open_rows
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
            rows = chain.from_iterable(row_ids(first, count) for first, count in self._rows.items())
            self._resubmission = Resubmission(chain(self._tasks, self._held, rows), self._peer.pipe.unheard())

    # Its tasks

    @handles(Batch[Task])
    def _submit(self, batch: Batch[Task]) -> None:
        specs = self._within_bounds(batch)
        if self._held or (self._owner.has_quota and self._context.adoption is None):
            held = len(self._held)
            specs = self._held.admit(specs, self._tasks, self.actor_ref)
            if not held and self._held:
                self._say("over quota", f"{self._owner.why_full()}: tasks wait")
        self._begin(specs)

    @property
    def _reader(self) -> Owner | None:
        """Whose objects it may read; None: those of everybody."""
        return None if self._peer.is_admin else self._owner

    def _begin(self, specs: Iterable[Task]) -> None:
        tasks, spawn, context = self._tasks, self.spawn, self._context
        if self._reader is not None:
            specs = self._without_foreign(specs)
        before, further_rows = len(tasks), 0
        for spec in specs:
            if spec.task_id not in tasks:  # else it was sent again after a cut
                tasks[spec.task_id] = spawn(TaskActor(spec, context))
                if spec.rows:
                    self._rows[spec.task_id] = spec.rows
                    further_rows += spec.rows - 1
        self._owner.tasks += len(tasks) - before + further_rows

    def _without_foreign(self, specs: Iterable[Task]) -> Iterator[Task]:
        """Refuse tasks that name objects of other owners."""
        for spec in specs:
            if spec.object_ids and self._is_foreign(spec.object_ids):
                self._outbox.put(self._peer, TaskResult(spec.task_id, TaskStatus.MISSING_OBJECTS, FOREIGN, 0))
            else:
                yield spec

    def _is_foreign(self, object_ids: bytes) -> bool:
        payer_of, reader = self._services.payer_of, self._reader
        return any(payer_of(ObjectId(packed)) not in (None, reader) for packed in split_ids(object_ids))

    @handles(RoomInQuota)
    def _room_in_quota(self, _news: RoomInQuota) -> None:
        if self._held:
            self._begin(self._held.take(self.actor_ref))
        self._owner.wake()  # others, if there is still room

    def _taken_apart(self, batch: Sequence[Task]) -> Sequence[Task]:
        """Take ranges apart that are known in part, or longer than a bound in tasks; refuse what is none."""
        apart: list[Task] = []
        config = self._services.config
        is_bounded = config.max_number_of_tasks_waiting >= 0 or self._owner.has_quota or bool(self._held)
        for spec in batch:
            if not spec.rows:
                apart.append(spec)
            elif flaw := flaw_of(spec, not spec.options or self._services.read_options(spec.options).suit_rows):
                text = f"the scheduler cannot take these rows: {flaw}".encode()
                self._outbox.put(
                    self._peer, TaskResult(spec.task_id, TaskStatus.INTERNAL_ERROR, text, 0, b"", spec.rows)
                )
            elif spec.task_id in self._rows:
                continue  # it was sent again after a cut
            elif 1 < spec.rows <= config.per_worker_queue_size and not (is_bounded or self._knows_any(spec)):
                apart.append(spec)
            else:
                apart += calls_of(spec)
        return apart

    def _knows_any(self, spec: Task) -> bool:
        known = self._resubmission
        return known is not None and known.knows_any(row_ids(spec.task_id, spec.rows))

    def _open_rows(self, context: ClientContext, spec: Task, begun: Begun) -> Sequence[ActorRef]:
        """Called by a worker proxy or a task: see `ClientContext.split`."""
        if self._rows.pop(spec.task_id, 0) == 0:
            return ()
        rows = [self.spawn(TaskActor(row, context, begun=begun)) for row in calls_of(spec)]
        self._tasks.update(zip(row_ids(spec.task_id, spec.rows), rows, strict=True))
        return rows

    def _within_bounds(self, batch: Sequence[Task]) -> Sequence[Task]:
        """Refuse the tasks that are more than this client may have open. One that keeps to its window has none.

        Those that have ended since their client began to say all again are left out.
        """
        has_ranges = any(spec.rows for spec in batch)
        if has_ranges:
            batch = self._taken_apart(batch)
        if self._resubmission is not None:
            batch = self._resubmission.still_to_run(batch, Either(self._tasks, self._held))
        most = self._tasks_most
        if self._owner.has_quota:
            most = min(most, TASKS_BEYOND_WINDOW * self._peer.tasks_told)
        room = most - self._n_open
        sizes = [spec.rows or 1 for spec in batch] if has_ranges else [1] * len(batch)
        if sum(sizes) <= room:
            return batch
        taken = sum(size <= room for size in accumulate(sizes))
        refused = sum(sizes[taken:])
        self._say("over quota", f"{refused:,} tasks were refused: its client has {most:,} open ones")
        for spec in batch[taken:]:
            if spec.task_id not in self._tasks and spec.task_id not in self._held:
                sentence = f"its client has {most} open tasks, more than the scheduler takes".encode()
                refusal = TaskResult(spec.task_id, TaskStatus.NO_WORKER, sentence, 0, b"", spec.rows)
                self._outbox.put(self._peer, refusal)
        return batch[:taken]

    @handles(Batch[TaskCancel])
    def _cancel(self, batch: Batch[TaskCancel]) -> None:
        for cancel in batch:
            is_apart = cancel.rows and cancel.task_id not in self._rows
            for task_id in row_ids(cancel.task_id, min(cancel.rows, ROWS_MOST)) if is_apart else (cancel.task_id,):
                task = self._tasks.get(task_id)
                if task is not None:
                    task.send(CancelTask(bool(cancel.waiting)))
                elif task_id in self._held:  # else its result is on the way
                    self._cancel_held(task_id)

    @handles(CancelOfAny)
    def _cancel_as_admin(self, wish: CancelOfAny) -> None:
        """An admin has some tasks cancelled, and maybe these are among them."""
        found = [
            TaskCancel(task_id, rows=self._rows.get(task_id, 0))
            for task_id in chain(self._tasks, self._held)
            if any(public_id(row) in wish.short_ids for row in row_ids(task_id, self._rows.get(task_id, 0)))
        ]
        if found:
            self._say("cancelled", f"{wish.admin} has cancelled {len(found):,} of its tasks")
            self._cancel(Batch[TaskCancel](found))
        for graph in self._graphs.values():
            graph.send(wish)

    def _cancel_held(self, task_id: TaskId) -> None:
        spec = self._held.drop(task_id)
        if not self._held:
            self._owner.leave(self.actor_ref)
        result = TaskResult(task_id, TaskStatus.CANCELED, b"", 0)
        if spec is not None and spec.object_ids:  # nobody has used them
            self._object_store.send(UseObjects(spec.object_ids))
            self._object_store.send(ReleaseObjects(spec.object_ids))
        if self._awaited:
            self._awaited.tell(NO_GRAPH, TaskDone(result, ()))
        self._outbox.put(self._peer, result)

    @handles(TaskResult)
    def _done(self, result: TaskResult) -> None:
        if self._tasks.pop(result.task_id, None) is not None:
            if result.rows:
                self._rows.pop(result.task_id, None)
            owner = self._owner
            owner.tasks -= result.rows or 1
            if owner.held:
                owner.wake()
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
            if spec.node_count > self._owner.room() and self._context.adoption is None:
                self._refuse_graph(spec)
            elif self._resubmission is not None and spec.node_count:
                self._resubmission.announce(spec)
            else:
                self._start_graph(spec)

    def _start_graph(self, spec: GraphTask) -> ActorRef:
        graph = self._graphs[spec.graph_id] = self.spawn(GraphActor(spec, self._context_of(spec.account)))
        self._graph_sizes[spec.graph_id] = spec.node_count
        self._owner.tasks += spec.node_count
        return graph

    def _forget_graph(self, graph_id: GraphId) -> None:
        del self._graphs[graph_id]
        self._bare.discard(graph_id)
        self._owner.end(self._graph_sizes.pop(graph_id))

    def _refuse_graph(self, spec: GraphTask) -> None:
        """It is over the quota. A graph is taken as a whole, or not at all."""
        why = f"{self._owner.why_full()}; its graph has {spec.node_count:,} nodes: submit it again later"
        self._refused[spec.graph_id] = why.encode()
        self._say("over quota", why)
        if len(self._refused) > GRAPHS_REFUSED_MOST:
            self._refused.popitem(last=False)

    def _context_of(self, _account: int) -> ClientContext:
        """Return the context of tasks with an account. A root client always has its own, whatever its tasks name."""
        return self._context

    @handles(Batch[GraphNode])
    def _hear_nodes(self, batch: Batch[GraphNode]) -> None:
        for graph_id, nodes in by_graph(batch).items():
            self._bare.discard(graph_id)
            graph = self._open_graph(graph_id)
            if self._reader and any(node.object_ids and self._is_foreign(node.object_ids) for node in nodes):
                self._refused[graph_id] = FOREIGN
                self._refuse(nodes)
                if graph is not None:
                    graph.send(CancelGraph())
                continue
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
        """The rest of a graph that has failed here, was over the quota, or was never announced."""
        for node in nodes:
            if node.wanted:
                sentence = self._refused.get(node.graph_id, b"")
                status = TaskStatus.NO_WORKER if sentence else TaskStatus.NOT_FOUND
                status = TaskStatus.MISSING_OBJECTS if sentence is FOREIGN else status
                sentence = sentence or b"the scheduler does not know the graph of this task"
                self._outbox.put(self._peer, TaskResult(node.task_id, status, sentence, 0))

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
            self._forget_graph(ended.graph_id)
            if ended.lost:
                self._object_lost(ObjectLost(ObjectId(ended.graph_id), ended.lost))

    # Results for which its graphs wait

    @handles(AwaitResult)
    def _await_result(self, wish: AwaitResult) -> None:
        task_id, source = wish.input.task_id, wish.input.source_graph
        maker = self._tasks.get(task_id) if source == NO_ID else self._open_graph(source)
        if source == NO_ID and task_id in self._held:
            self._awaited.add(wish)
            return
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
                payer=None if is_function else self._payer_of_values(),
            )
        )

    def _payer_of_values(self) -> Owner:
        return self._owner

    def _store_result(self, result: TaskResult, frames: Frames) -> None:
        object_id = ObjectId(result.task_id)
        source, payer = self.actor_ref, self._payer_of_values()
        store = StoreObject(object_id, self._client_id, "", frames, True, source=source, payer=payer, is_result=True)
        self._object_store.send(store)

    @handles(ValueRefused)
    def _value_refused(self, refused: ValueRefused) -> None:
        self._say("over quota", refused.reason)

    @handles(ObjectLost)
    def _object_lost(self, lost: ObjectLost) -> None:
        if self._resubmission is not None:
            self._resubmission.lose(lost.object_id)
        self._outbox.put(self._peer, ObjectResponse(lost.object_id, LOST, (), reason=lost.reason))

    @handles(Batch[ObjectRequest])
    def _request(self, batch: Batch[ObjectRequest]) -> None:
        for request in batch:
            self._object_store.send(
                FetchObject(request.object_id, self._peer, None, bool(request.by_value), self._reader)
            )

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
        accounts = None if self._peer.is_admin else frozenset({self._account})
        self._services.outputs.send(OutputAsked(self._peer, batch, accounts, self._account))

    @handles(Batch[JobRequest])
    def _ask_of_jobs(self, batch: Batch[JobRequest]) -> None:
        jobs, owner = self._services.jobs, self._peer.owner.name or self._services.owner
        for request in batch:
            if jobs is not None:
                jobs.send(JobAsked(self.actor_ref, self._peer, request, owner))
            else:
                reason = "this scheduler keeps no jobs: start it with --keep FOLDER"
                self._outbox.put(self._peer, JobResponse(request.number, JobStatus.REFUSED, reason=reason))

    @handles(Batch[ExplainRequest])
    def _explain(self, batch: Batch[ExplainRequest]) -> None:
        for request in batch:
            question = ExplainTask(self.actor_ref, request.task_id, asked_at=self.now())
            if self._peer.is_admin and request.graph_id == NO_ID and not self._has(request.task_id):
                peers = self._services.directory.peers.values()
                ask_next(question, iter([each.session for each in peers if each.outgoing is SCHEDULER_TO_CLIENT]))
            else:
                self._hand_on(question, request.task_id, request.graph_id, request.position)

    @handles(ExplainOfAny)
    def _explain_of_any(self, asked: ExplainOfAny) -> None:
        """An admin asks about a task of whoever has it."""
        question = asked.question
        if question.task_id in self._held:
            question.asker.send(self._held.explain(question))
        elif self._has(question.task_id):
            self._tasks[question.task_id].send(question)
        else:
            ask_next(question, asked.others)

    def _has(self, task_id: TaskId) -> bool:
        task = self._tasks.get(task_id)
        return task_id in self._held or (task is not None and not task.is_stopped())

    @handles(ExplainInput)
    def _explain_input(self, asked: ExplainInput) -> None:
        awaited = asked.input
        self._hand_on(asked.question, awaited.task_id, awaited.source_graph, awaited.source_position)

    def _hand_on(self, question: ExplainTask, task_id: TaskId, graph_id: GraphId, position: int) -> None:
        is_node = graph_id != NO_ID
        if not is_node and task_id in self._held:
            self._outbox.put(self._peer, self._held.explain(question))
            return
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
                self._forget_graph(graph_id)
                return
        for task_id, task in self._tasks.items():
            if task is failed.child:
                sentence = f"the scheduler failed at this task: {failed.error!r}".encode()
                rows = self._rows.get(task_id, 0)
                self._done(TaskResult(task_id, TaskStatus.INTERNAL_ERROR, sentence, 0, b"", rows))
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
        ask.backlog.open[self._client_id] += self._n_open
        wanted = ask.backlog.wants_tasks
        if wanted:
            for task_id, task in islice(self._tasks.items(), SEARCHED_MOST):
                if any(public_id(row) in wanted for row in row_ids(task_id, self._rows.get(task_id, 0))):
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
        return {"tasks": self._n_open, "graphs": len(self._graphs)}

    @property
    def _n_open(self) -> int:
        """How many tasks are open; a row is one."""
        return self._n_begun + len(self._held)

    @property
    def _n_begun(self) -> int:
        return len(self._tasks) + sum(self._rows.values()) - len(self._rows)

    # Its end

    def _leave(self) -> None:
        cancels: list[tuple[ActorRef, Any]] = [(task, CancelTask()) for task in self._tasks.values()]
        cancels += [(graph, CancelGraph()) for graph in self._graphs.values()]
        self._owner.leave(self.actor_ref)
        self._owner.end(self._n_begun + sum(self._graph_sizes.values()))
        self._tasks, self._rows, self._graphs, self._graph_sizes = {}, {}, {}, {}
        self._held.clear()
        if cancels:
            self.spawn(Farewell(cancels))
        self._object_store.send(OwnerLeft(self._client_id))
        if self._services.jobs is not None:
            self._services.jobs.send(ReaderLeft(self.actor_ref))
        super()._leave()
