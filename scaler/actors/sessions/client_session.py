"""ClientSession: one client, from its first hello until it leaves or stays silent for too long.

Receives messages from the edge (batches from the client), the acceptor (the client has reconnected), its tasks and the
object store. Sends to these, the acceptor and, through the outbox, to the client.

If the actor of a task fails, the session reports only this task as failed. Tasks that need results of other tasks wait
in `WaitingTasks`. Objects are in the object store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, ClassVar

from scaler.actors.dependencies.graph_view import show_graph
from scaler.actors.dependencies.input_values import TAKEN, InputValues
from scaler.actors.dependencies.waiting_task import WaitingTask
from scaler.actors.dependencies.waiting_tasks import WaitingTasks
from scaler.actors.messages.adoption import AgentsReturned, FindRuns, NotHeld, RunsAreHeld, RunsLost, TasksWait
from scaler.actors.messages.jobs import ReaderLeft, RequestJob
from scaler.actors.messages.monitor import ReportOpen, ReportTask, WatchedTask
from scaler.actors.messages.objects import (
    InputLost,
    ObjectLost,
    OwnerLeft,
    OwnerResubmits,
    OwnerResubmitted,
    ReleaseObjects,
    SupplyObject,
    UseObjects,
    ValueRefused,
)
from scaler.actors.messages.outputs import OutputRequested
from scaler.actors.messages.peers import DismissClient, InfoRequested, ReportStatistics, ShutdownRequested, StartOver
from scaler.actors.messages.tasks import (
    BalancerRestarted,
    CancelForAdmin,
    CancelTask,
    ExplainForAdmin,
    ExplainTask,
    RangeEnded,
    RequestMissing,
    RunLost,
    TaskDone,
)
from scaler.actors.sessions.client_objects import FOREIGN, ClientObjects
from scaler.actors.sessions.client_questions import ClientQuestions
from scaler.actors.sessions.held_tasks import HeldTasks
from scaler.actors.sessions.session import Session, SessionTeardown
from scaler.actors.sessions.task_bounds import TaskBounds
from scaler.actors.slices import NextSlice, Slices
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.tasks.task import TaskActor
from scaler.actors.vocabulary.events import CLIENT, LEFT, SENT_AWAY, PeerIdentity
from scaler.actors.vocabulary.owners import Owner, RoomInQuota
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.vocabulary.services import Services
from scaler.ids import NO_ID, ClientId, TaskId, public_id
from scaler.jobs.terms import BY_FILE, BY_KEY
from scaler.kit import ActorRef, ChildFailed, handles
from scaler.wire.messages.accounts import account_in, owner_of
from scaler.wire.messages.client import (
    NO_GRAPH,
    ClientDisconnect,
    ClientHeartbeat,
    ClientHeartbeatEcho,
    ClientResting,
    ExplainRequest,
    ExplainResponse,
    GoodbyeKind,
    InfoRequest,
    InputResult,
    JobAnswerKind,
    JobRequest,
    JobResponse,
    OutputRequest,
    Task,
    TaskCancel,
    TaskResult,
)
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import LOST, HelloRequest, ObjectInstruction, ObjectRequest, ObjectResponse, TaskStatus
from scaler.wire.messages.rows import calls_of, flaw_of, row_ids

COME_BACK_SECONDS = 5.0
"""The time in which a client must reconnect, unless the client's own time-out is shorter."""

_GRAPH_TASKS = attrgetter("graph_tasks")

_NO_JOBS = (
    "this scheduler keeps no jobs: start it with --keep FOLDER. The cluster of a client keeps none if its user has no "
    "home: make the client with keep=FOLDER, or set XDG_STATE_HOME"
)

SEARCHED_MOST = 20_000
"""The most open tasks among which tasks that viewers follow are found. Others are shown once their state changes."""


class ClientSession(Session):
    """The session of one client, with its open tasks and its objects.

    Args:
        is_back: whether the client had another scheduler, so that agents may have runs of its tasks.
    """

    role = CLIENT
    reads_all: ClassVar[bool] = False

    _context: ClientContext
    _objects: ClientObjects
    _waiting: WaitingTasks
    _bounds: TaskBounds
    _questions: ClientQuestions

    def __init__(
        self, identity: PeerIdentity, peer: Peer, services: Services, account: int, is_back: bool = False
    ) -> None:
        title = f"client {identity.peer_id.hex()[:8]}"
        super().__init__(identity, title, peer, services, services.config.client_timeout_seconds, COME_BACK_SECONDS)
        self._client_id = ClientId(identity.peer_id)
        self._object_store = services.object_store
        self._account = account
        self._owner = self._payer(peer)
        self._tasks = OpenTasks[TaskId](self._owner)
        self._held = HeldTasks(self._owner)
        self._put: Callable[[Any], None] = partial(self._outbox.put, peer)
        self._slices = Slices(self)
        self._adoption = services.adoption if is_back else None
        self._is_resubmitting = is_back
        """whether the client may still resubmit objects that it had stored at another scheduler"""
        self._known: set[TaskId] | None = None
        """in a new session, the open tasks, and those whose results are being sent, that the client has not resubmitted
        yet; None: it has resubmitted everything
        """

    def _payer(self, peer: Peer) -> Owner:
        """Return the owner against whose quota the tasks and values of the client count."""
        return peer.owner

    def on_start(self) -> None:
        super().on_start()
        what = (self._client_id, self._account, self._adoption, self._identity.label)
        self._context = ClientContext(self._services, self.actor_ref, *what)
        session, peer, services, owner, put = self.actor_ref, self._peer, self._services, self._owner, self._put
        self._objects = ClientObjects(session, self._client_id, peer, services, owner, reads_all=self.reads_all)
        self._waiting = WaitingTasks(
            session, self.spawn, self._tasks, owner, put, self._ask_later, self._objects,
            InputValues(session, self._client_id, services), self._slices, self._audit,
        )  # fmt: skip
        own = (self._tasks, self._held, self._waiting)
        self._bounds = TaskBounds(*own, owner, peer, services, self._audit, self._context.end_unstarted)
        self._questions = ClientQuestions(session, peer, services, put, *own)
        if self._adoption is not None:
            self.schedule(self._timeout_seconds, AgentsReturned())
            self._object_store.send(OwnerResubmits(self._client_id))
            self._held.awaits_agents = self._owner.has_quota
        self._report_joined()

    @handles(AgentsReturned)
    def _agents_are_back(self, _news: AgentsReturned) -> None:
        """Let no further tasks request runs. Tasks that wait for results of other tasks keep the old context."""
        self._context = copy(self._context)
        self._context.adoption = None
        self._start_held()

    @handles(RunsAreHeld)
    def _runs_are_held(self, news: RunsAreHeld) -> None:
        if self._context.adoption is not None:
            self._start_tasks(self._held.take_started(news.task_ids))

    @handles(NotHeld)
    def _not_held(self, _news: NotHeld) -> None:
        self._start_held()

    def _start_held(self) -> None:
        """Let the tasks that are still held wait for the quota: no agent that has returned runs these tasks."""
        self._held.awaits_agents = False
        if self._held:
            self._owner.wait(self.actor_ref)
            self._owner.wake()

    @handles(StartOver)
    def _start_over(self, started: StartOver) -> None:
        """Let the client resubmit everything. Its open tasks continue, and unacknowledged results are sent again."""
        self._reconnected()
        self._waiting.start_over()
        known = self._known = self._waiting.known = {*self._tasks, *self._held, *self._waiting.single_ids()}
        known.difference_update(self._waiting.unwanted_ids())
        for first, rows in self._tasks.ranges.items():
            known.update(row_ids(first, rows))
        for result in started.results:
            if result.status == TaskStatus.NOT_FOUND:
                continue  # the client asks once more, and may run its task instead
            self._put(result)
            if len(known) < self._bounds.most:
                known.update(row_ids(result.task_id, result.rows))

    def _unknown(self, batch: Sequence[Task]) -> Sequence[Task]:
        """Return the tasks to start. After the start of a new session, each known task is left out once."""
        if self._known is not None:
            batch = [spec for task in batch for spec in self._unknown_rows(task, self._known)]
        return self._bounds.within(batch)

    def _unknown_rows(self, spec: Task, known: set[TaskId]) -> Sequence[Task]:
        if spec.rows and flaw_of(spec, suits_rows=True):
            return [spec]  # it is refused
        task_ids = row_ids(spec.task_id, spec.rows)
        if known.isdisjoint(task_ids):
            return () if self._is_answered(spec.task_id) else [spec]
        left = [] if known.issuperset(task_ids) else [row for row in calls_of(spec) if row.task_id not in known]
        known.difference_update(task_ids)
        return left

    def _is_answered(self, task_id: TaskId) -> bool:
        """Return whether a resubmitted task has a large result, which is stored. If so, report it to the client."""
        result = self._objects.result_of(task_id)
        if result is not None:
            self._put(result)
            self._waiting.learn(InputResult(task_id, result.status, b"", result.size))
        return result is not None

    # Its tasks

    @handles(Batch[Task])
    def _submit(self, batch: Batch[Task]) -> None:
        self._mark_time()
        specs = self._unknown(self._without_graphs(batch))
        if self._held or self._owner.has_quota:
            held = len(self._held)
            within, specs = specs, self._held.admit(specs, self._tasks, self.actor_ref)
            if not held and self._held and not self._held.awaits_agents:
                self._audit("over quota", f"{self._owner.why_full()}: tasks wait")
            adoption = self._context.adoption
            if adoption is not None:
                waiting = [spec.task_id for spec in within if spec.task_id in self._held]
                adoption.send(FindRuns(self._owner.tag, self.actor_ref, waiting))
        self._start_tasks(specs)

    def _without_graphs(self, batch: Sequence[Task]) -> Sequence[Task]:
        """Start the tasks that other tasks await, add tasks of graphs to their graphs, and return all others."""
        waiting = self._waiting
        if self._context.adoption is not None:
            self._name_waiting(batch)
        if not (waiting or any(map(_GRAPH_TASKS, batch))):
            return batch
        others, now = [], self.now()
        for spec in batch:
            if spec.graph_tasks and spec.graph_id != NO_GRAPH:
                if self._held:  # it was sent alone in the last session, because its result was lost
                    self._held.drop(spec.task_id)
                waiting.add_to_graph(spec, self._context_for, now)
            elif self._is_requested(spec):
                self._start_task(spec, self._context_of(account_in(spec)))
            else:
                others.append(spec)
        return others

    def _is_requested(self, spec: Task) -> bool:
        """Return whether other tasks await the result of a task, which is not known in the new session.

        A call whose result only other tasks need is always the answer to a request.
        """
        if spec.rows or not self._waiting.is_awaited(spec.task_id):
            return False
        return bool(spec.unwanted) or self._known is None or spec.task_id not in self._known

    def _name_waiting(self, batch: Sequence[Task]) -> None:
        """Name tasks that will ask for their runs when the results that they need are there again."""
        task_ids = defaultdict[int, list[TaskId]](list)
        for spec in batch:
            if spec.dependencies or spec.inputs:
                task_ids[owner_of(self._context_of(account_in(spec)).account)].append(spec.task_id)
        for owner, named in task_ids.items():
            self._services.adoption.send(TasksWait(self.actor_ref, owner, named))

    def _start_tasks(self, specs: Iterable[Task]) -> None:
        for spec in specs:
            self._start_task(spec, self._context)

    def _start_task(self, spec: Task, context: ClientContext) -> None:
        if spec.task_id in self._tasks:
            return  # resent after a lost connection
        if spec.object_ids and self._objects.is_foreign(spec.object_ids):
            self._fail_unstarted(spec, context, FOREIGN)
            return
        if self._objects.is_stored(spec.task_id):
            if self._objects.is_of_another(spec.task_id):
                self._fail_unstarted(spec, context, TAKEN)
                return
            if self._is_answered(spec.task_id):
                return
        if spec.inputs or spec.unwanted:
            self._waiting.add(spec, context, self.now())
            return
        self._tasks.add(spec.task_id, self.spawn(TaskActor(spec, context)), spec.rows)

    def _fail_unstarted(self, spec: Task, context: ClientContext, reason: str) -> None:
        context.end_unstarted(spec, TaskStatus.MISSING_OBJECTS, reason)
        self._report(TaskResult(spec.task_id, TaskStatus.MISSING_OBJECTS, reason.encode(), 0, b"", spec.rows))

    @handles(RoomInQuota)
    def _room_in_quota(self, _news: RoomInQuota) -> None:
        if self._held:
            self._start_tasks(self._held.take(self.actor_ref))
        self._owner.wake()  # further sessions, if there is capacity

    @handles(RangeEnded)
    def _range_ended(self, ended: RangeEnded) -> None:
        """Report the rows of a range that have ended, and open those that return."""
        running, context = ended.running, ended.context
        is_canceled = self._tasks.end_range(ended.first, None if running is None else running.task_id)
        if is_canceled is not False:
            context.cancel_unstarted(each.spec for each in ended.returned)
        if is_canceled is None:
            return  # the client has left, and its tasks are cancelled
        for result in ended.results:
            self._report(result)
        lost = []
        for returned in ended.returned:
            spec = returned.spec
            if is_canceled:
                self._report(TaskResult(spec.task_id, TaskStatus.CANCELED, b"", 0, b"", spec.rows))
                continue
            task = self.spawn(TaskActor.of_returned(returned, context))
            self._tasks.add(spec.task_id, task, spec.rows)
            if isinstance(returned.event, RunLost):
                lost.append((context.owner.tag, spec.task_id, task))
        if lost:  # their agent may return
            self._services.adoption.send(RunsLost(lost))

    @handles(Batch[TaskCancel])
    def _cancel(self, batch: Batch[TaskCancel]) -> None:
        single_rows = []
        for cancel in batch:
            if cancel.rows and cancel.rows != self._tasks.ranges.get(cancel.task_id):
                single_rows.append(cancel)
            else:
                self._cancel_one((cancel.task_id, cancel))
        if single_rows and (self._tasks or self._held):
            self._slices.add(
                self._cancel_one,
                ((row, cancel) for cancel in single_rows for row in row_ids(cancel.task_id, cancel.rows)),
            )

    def _cancel_one(self, place: tuple[TaskId, TaskCancel]) -> None:
        task_id, cancel = place
        if cancel.graph_id != NO_ID:
            self._waiting.cancel_graph(cancel.graph_id)
        elif task_id in self._tasks:
            self._tasks.cancel(task_id, CancelTask(bool(cancel.waiting)))
        elif task_id in self._held:  # else its result has been sent
            self._cancel_held(task_id)
        else:
            self._waiting.cancel(task_id)

    @handles(CancelForAdmin)
    def _cancel_as_admin(self, request: CancelForAdmin) -> None:
        found: dict[TaskId, TaskCancel] = {}
        task_ids, ranges = [*self._tasks, *self._held], dict(self._tasks.ranges)

        def look(place: tuple[TaskId, TaskId]) -> None:
            first, row = place
            if public_id(row) in request.short_ids:
                found[first] = TaskCancel(first, rows=ranges.get(first, 0))

        def look_waiting(task: WaitingTask) -> None:
            if public_id(task.task_id) in request.short_ids:
                found[task.task_id] = TaskCancel(task.task_id, graph_id=task.graph_id)

        def end(_nothing: None) -> None:
            if found:
                n_tasks = sum(each.rows or 1 for each in found.values())
                self._audit("cancelled", f"{request.admin} has cancelled {n_tasks:,} of its tasks")
                self._cancel(Batch[TaskCancel](found.values()))

        self._slices.add(look, ((first, row) for first in task_ids for row in row_ids(first, ranges.get(first, 0))))
        self._slices.add(look_waiting, list(self._waiting.open_tasks()))
        self._slices.add(end, (None,))

    @handles(NextSlice)
    def _go_on(self, _next: NextSlice) -> None:
        self._slices.go_on()

    def _cancel_held(self, task_id: TaskId) -> None:
        spec = self._held.drop(task_id)
        if not self._held:
            self._owner.leave(self.actor_ref)
        result = TaskResult(task_id, TaskStatus.CANCELED, b"", 0)
        if spec is not None:
            self._context.end_unstarted(spec, TaskStatus.CANCELED)
            if spec.object_ids:  # they were never used
                self._object_store.send(UseObjects(spec.object_ids))
                self._object_store.send(ReleaseObjects(spec.object_ids))
        self._report(result)

    @handles(TaskResult)
    def _done(self, result: TaskResult) -> None:
        if self._tasks.end(result.task_id) and not self._waiting.take(result):
            self._report(result)

    def _report(self, result: TaskResult) -> None:
        self._put(result)
        if self._waiting:
            self._waiting.resolve(result)

    @handles(TaskDone)
    def _done_with_frames(self, done: TaskDone) -> None:
        if self._tasks.end(done.result.task_id) and not self._waiting.take(done.result, done):
            self._objects.keep_result(done)
            self._put(done.result)
            self._waiting.resolve(done.result, done)

    def _context_for(self, spec: Task) -> ClientContext:
        return self._context_of(account_in(spec))

    def _context_of(self, _account: int) -> ClientContext:
        """Return the context of tasks with an account. The tasks of a root client always have its own account."""
        return self._context

    # Results that its tasks need

    @handles(Batch[InputResult])
    def _learn_inputs(self, batch: Batch[InputResult]) -> None:
        for item in batch:
            self._waiting.learn(item)

    @handles(InputLost)
    def _input_lost(self, lost: InputLost) -> None:
        self._waiting.on_lost(lost.object_id, lost.reason)

    def _ask_later(self) -> None:
        self.actor_ref.send(RequestMissing())  # the client may have sent the results together with the tasks

    @handles(RequestMissing)
    def _request_missing(self, _request: RequestMissing) -> None:
        missing = self._waiting.take_missing()
        if self._held:  # the tasks that wait for a held one may exhaust the quota
            self._start_tasks(self._held.take_started(missing))
        self._waiting.request(missing)

    # Its objects

    @handles(Batch[ObjectInstruction])
    def _instruct(self, batch: Batch[ObjectInstruction]) -> None:
        for instruction in batch:
            self._objects.instruct(instruction)

    @handles(ValueRefused)
    def _value_refused(self, refused: ValueRefused) -> None:
        self._audit("over quota", refused.reason)

    @handles(ObjectLost)
    def _object_lost(self, lost: ObjectLost) -> None:
        if self._known is not None:
            self._known.discard(TaskId(lost.object_id))  # its client may submit it again
        self._put(ObjectResponse(lost.object_id, LOST, (), reason=lost.reason))

    @handles(Batch[ObjectRequest])
    def _request(self, batch: Batch[ObjectRequest]) -> None:
        for request in batch:
            self._objects.fetch(request)

    @handles(SupplyObject)
    def _supply(self, supply: SupplyObject) -> None:
        self._put(ObjectRequest(supply.object_id, 1))

    # Heartbeats, goodbyes and questions

    @handles(Batch[ClientHeartbeat])
    def _heartbeat(self, batch: Batch[ClientHeartbeat]) -> None:
        self._note_heartbeat(batch[-1].sent_ns)
        if not (batch[-1].has_unsent or self._peer.pipe.arriving_bytes):
            self._end_resubmission()
        for heartbeat in batch:
            self._outbox.put_unnumbered(
                self._peer, ClientHeartbeatEcho(heartbeat.sent_ns, self._services.value_bytes())
            )

    def _end_resubmission(self) -> None:
        """Note that the client has resubmitted everything, to another scheduler or in a new session."""
        if self._is_resubmitting:
            self._is_resubmitting = False
            self._object_store.send(OwnerResubmitted(self._client_id))
        if not self._waiting.has_held:
            self._known = self._waiting.known = None

    @handles(Batch[ClientDisconnect])
    def _disconnect(self, batch: Batch[ClientDisconnect]) -> None:
        if any(goodbye.kind == GoodbyeKind.SHUTDOWN for goodbye in batch):
            self._services.acceptor.send(ShutdownRequested(self._peer))
        else:
            self._depart(LEFT, "")

    @handles(Batch[ClientResting])
    def _resting(self, batch: Batch[ClientResting]) -> None:
        """Ignore the report that the client merely waits: only clients inside tasks can be stopped while they wait."""

    @handles(Batch[InfoRequest])
    def _request_info(self, batch: Batch[InfoRequest]) -> None:
        self._services.census.send(InfoRequested(self._peer, batch))

    @handles(Batch[OutputRequest])
    def _request_output(self, batch: Batch[OutputRequest]) -> None:
        accounts = None if self._peer.is_admin else frozenset({self._account})
        self._services.outputs.send(OutputRequested(self._peer, batch, accounts, self._account))

    @handles(Batch[JobRequest])
    def _request_job(self, batch: Batch[JobRequest]) -> None:
        jobs, peer = self._services.jobs, self._peer
        owner, door = peer.owner.name or self._services.owner, BY_FILE if peer.owner.name else ""
        about = (owner, self._identity.label, BY_KEY if peer.permit is not None else door)
        for request in batch:
            if jobs is not None:
                jobs.send(RequestJob(self.actor_ref, peer, request, *about))
            else:
                self._put(JobResponse(request.number, JobAnswerKind.REFUSED, reason=_NO_JOBS))

    @handles(Batch[ExplainRequest])
    def _explain(self, batch: Batch[ExplainRequest]) -> None:
        for request in batch:
            self._questions.ask(request, self.now())

    @handles(ExplainForAdmin)
    def _explain_for_admin(self, asked: ExplainForAdmin) -> None:
        self._questions.answer_admin(asked)

    @handles(ExplainTask)
    def _explain_waiting(self, question: ExplainTask) -> None:
        """Answer the monitor's question about a task that waits, or forward it to the task."""
        self._questions.forward(question)

    @handles(ExplainResponse)
    def _explained(self, response: ExplainResponse) -> None:
        self._put(response)

    # From inside the scheduler

    @handles(ChildFailed)
    def _child_failed(self, failed: ChildFailed) -> None:
        task_id = self._tasks.key_of(failed.child)
        if task_id is not None:
            sentence = f"the scheduler failed while it handled this task: {failed.error!r}".encode()
            rows = self._tasks.ranges.get(task_id, 0)
            self._done(TaskResult(task_id, TaskStatus.INTERNAL_ERROR, sentence, 0, b"", rows))

    @handles(BalancerRestarted)
    def _balancer_restarted(self, restarted: BalancerRestarted) -> None:
        self._tasks.tell(restarted)

    @handles(DismissClient)
    def _dismiss(self, away: DismissClient) -> None:
        """Disconnect the client. The next hello of the client will be refused for the same reason."""
        self._outbox.put_unnumbered(self._peer, HelloRequest(away.reason))
        self._depart(SENT_AWAY, away.reason)

    @handles(ReportOpen)
    def _report_open(self, ask: ReportOpen) -> None:
        backlog, waiting = ask.backlog, self._waiting
        backlog.open[self._client_id] += self._tasks.n_rows + len(self._held) + waiting.n_waiting
        backlog.inputs += waiting.n_waiting
        wanted = backlog.wants_tasks
        if wanted:
            for task_id, task in islice(self._tasks.items(), SEARCHED_MOST):
                for row in row_ids(task_id, self._tasks.ranges.get(task_id, 0)):
                    if public_id(row) in wanted:
                        task.send(ReportTask(row))
            for each in islice(waiting.open_tasks(), SEARCHED_MOST):
                if each.task_id not in self._tasks and (short_id := public_id(each.task_id)) in wanted:
                    backlog.asked_waiting[short_id] = WatchedTask(
                        each.task_id, each.function_id, self.actor_ref, each.graph_id
                    )
        for graph in waiting.graphs.values() if backlog.wants_graphs else ():
            show_graph(backlog, graph)

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add(self.role, self._client_id.hex()[:8], self.statistics())

    def statistics(self) -> dict[str, int]:
        """Return the numbers of open tasks that are in no graph, of waiting tasks, and of open graphs."""
        waiting = self._waiting
        return {"tasks": self._bounds.n_open, "waiting": waiting.n_waiting, "graphs": len(waiting.graphs)}

    def check(self) -> None:
        assert not any(task_id in self._tasks for task_id in self._held), "a task is both held and open"
        assert self._known is self._waiting.known
        assert self._known is not None or not self._waiting.has_held, "a graph waits for its resubmission"
        self._tasks.check()
        self._waiting.check()

    # Its end

    def _leave(self) -> None:
        self._owner.leave(self.actor_ref)
        cancels: list[tuple[ActorRef, Any]] = [(task, CancelTask()) for task in self._tasks.take_all()]
        cancels += self._waiting.take_all()
        for spec in self._held.take_all():
            self._services.events.ended_of.count(spec.function_id, TaskStatus.CANCELED)
        if cancels:
            self.spawn(SessionTeardown(cancels))
        self._object_store.send(OwnerLeft(self._client_id))
        if self._services.jobs is not None:
            self._services.jobs.send(ReaderLeft(self.actor_ref))
        super()._leave()
