"""AgentSession: one cluster's agent and its workers, from its first hello until it leaves or stays silent for too long.

Receives messages from the edge (batches from the agent) and the acceptor. Sends to its worker proxies, the sessions of
the clients inside its processors, the object store and, through the outbox, to the agent. If a proxy fails, the session
ends and the agent is asked for a new hello, so that both sides agree on who has which task.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from scaler.actors.messages.adoption import RunsHeld
from scaler.actors.messages.monitor import AgentSeen, WatchAgent
from scaler.actors.messages.objects import (
    CopyKept,
    DeleteCopy,
    FetchObject,
    HostLeft,
    ObjectCame,
    PartCame,
    RequestPart,
    SupplyObject,
)
from scaler.actors.messages.peers import (
    CloseWorker,
    ConnectionLost,
    DrainWorker,
    EndNested,
    NestedArrived,
    OpenWorker,
    ReportStatistics,
    Resumed,
    StartOver,
    StopAgent,
    StopWorker,
    WorkersChanged,
)
from scaler.actors.messages.tasks import BalancerRestarted, WorkersPausedAt
from scaler.actors.objects.located import LocatedFrames
from scaler.actors.sessions.session import Session, SessionTeardown
from scaler.actors.slices import NextSlice, Slices
from scaler.actors.vocabulary.events import AGENT, FAILED, LEFT, SENT_AWAY, PeerChanged, PeerIdentity
from scaler.actors.vocabulary.hellos import HeldRun, listed, offer_of, runs_of_workers
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.vocabulary.services import Services
from scaler.actors.workers.worker_proxy import WorkerProxy
from scaler.ids import ObjectId
from scaler.kit import ActorRef, ChildFailed, Timer, handles
from scaler.message import message
from scaler.pickling.serialization import Frames, size_of
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    FOUND,
    HelloRequest,
    InstructionKind,
    ObjectInstruction,
    ObjectKept,
    ObjectPart,
    ObjectRequest,
    ObjectResponse,
    PartRequest,
    TaskStatus,
)
from scaler.wire.messages.worker import (
    AgentState,
    DisconnectRequest,
    DisconnectResponse,
    DrainRequest,
    ProcessorGone,
    ProcessorNews,
    RecallResponse,
    RunBlocked,
    RunOutput,
    RunResult,
    RunStatus,
    RunTask,
    RunUnblocked,
    WatchRequest,
    WorkerHeartbeat,
    WorkerHeartbeatEcho,
    WorkersClosed,
    WorkersPaused,
)
from scaler.wire.session.streamed import PART_BYTES, SIZE_MOST, StreamedFrames

logger = logging.getLogger(__name__)

PROCESSORS_REMEMBERED = 1024
"""The most ended processors that are remembered. The hello of a client may arrive after its processor has ended."""

COME_BACK_SECONDS = 2.0
"""The time in which an agent must reconnect. After that, its tasks are assigned to other workers."""

DEADLY_BYTES = 64 * 1024 * 1024
"""If an agent is lost while a value of at least this size is being sent to it, the value counts as the cause."""

OPENED_AT_ONCE = 1024
"""The most worker proxies that start in one turn, which takes some ten milliseconds. Then other actors have turns."""


@message
class _OpenMore:
    """session -> itself, by a timer without delay: start more worker proxies."""


class AgentSession(Session):
    """The session of one agent. The number of a worker is its position in the list of names in the hello.

    Args:
        names: the names of all workers of the agent. The workers that take tasks come first; `identity` has only these.
        held: the runs that the agent has.
        agents: the number of agents of its last scheduler; 0 if unknown, or if the agent had no scheduler.
        is_back: whether the agent had a scheduler before, or another session at this scheduler.
    """

    role = AGENT

    def __init__(
        self,
        identity: PeerIdentity,
        peer: Peer,
        services: Services,
        *,
        names: tuple[str, ...],
        held: Sequence[HeldRun] = (),
        agents: int = 0,
        is_back: bool = False,
    ) -> None:
        title = f"agent of {listed(identity.worker_names)}"
        super().__init__(identity, title, peer, services, services.config.worker_timeout_seconds, COME_BACK_SECONDS)
        self._names = names
        self._n_open = len(identity.worker_names)
        """number of workers that take tasks; these are the first workers of the list"""
        self._n_paused = 0
        self._offer = offer_of(identity, self._n_open if self._n_open == len(names) else 0)
        self._held = held
        self._to_start: deque[list[HeldRun]] = deque()
        self._agents = agents
        self._is_back = is_back
        self._workers: list[ActorRef] = []
        """the proxies of the first workers; each other proxy starts in a later turn, or when its worker takes tasks"""
        self._opening: Timer | None = None
        self._slices = Slices(self)
        """pending messages for all workers; later messages for single workers are queued behind these messages"""
        self._nested: dict[int, list[ActorRef]] = {}
        self._values: dict[ObjectId, weakref.ref[LocatedFrames]] = {}
        """placeholders of results that stay at the agent; without its placeholder, a result is deleted at the agent"""
        self._watcher: ActorRef | None = None
        self._is_draining = False
        self._ended_processors: deque[int] = deque(maxlen=PROCESSORS_REMEMBERED)

    def on_start(self) -> None:
        super().on_start()
        held, refused = runs_of_workers(self._held, len(self._names))
        self._outbox.put_all(self._peer, refused)
        n_first = min(self._n_open, OPENED_AT_ONCE)
        while len(held) > n_first and not held[-1]:
            held.pop()
        self._to_start.extend(held)
        self._slices.add(self._start_worker, range(len(held)))
        self._report_joined(tuple(self._workers[: self._n_open]))
        if len(self._workers) > self._n_open:
            self._report_changed(self._n_open)
        self._report_if_all_started()

    def _start_worker(self, index: int) -> None:
        if not self._to_start:
            return  # the session has ended
        held = self._to_start.popleft()
        worker = self._worker(index, held)
        self._workers.append(worker)
        if held:
            self._services.adoption.send(RunsHeld([(run.owner, run.task_id, worker, run.attempt) for run in held]))
        if index >= self._n_open:
            worker.send(CloseWorker())

    def _report_if_all_started(self) -> None:
        if not self._to_start and self._agents:  # all of its runs are known now
            self._services.adoption.send(RunsHeld((), self._agents))
            self._agents = 0
        self._open_later()

    def _open_later(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if len(self._workers) < self._n_open and not self._to_start:
            self._opening = self.schedule(0.0, _OpenMore())

    @handles(_OpenMore)
    def _open_more(self, _more: _OpenMore) -> None:
        if self._is_draining or not self._peer.connection:
            return
        known = len(self._workers)
        last = min(self._n_open, known + OPENED_AT_ONCE)
        self._workers += [self._worker(index, []) for index in range(known, last)]
        self._report_changed(known)
        self._open_later()

    def _worker(self, index: int, held: Sequence[HeldRun]) -> ActorRef:
        return self.spawn(
            WorkerProxy(
                self._names[index],
                index,
                self._peer,
                outbox=self._outbox,
                balancer=self._services.balancer,
                queue_size=self._services.config.per_worker_queue_size,
                host=self.actor_ref,
                adoption=self._services.adoption,
                outputs=self._services.outputs,
                recent_runs=self._services.directory.recent_runs,
                held=held,
                offer=self._offer,
                takes_rows=self._identity.takes_rows,
            )
        )

    # From the agent

    @handles(Batch[RunResult])
    def _results(self, results: Batch[RunResult]) -> None:
        for result in results:
            if result.location:
                results = self._with_values(results)
                break
        self._news_of_runs(results)

    def _with_values(self, results: Batch[RunResult]) -> Batch[RunResult]:
        """Return these results without resent ones that are known, and with placeholders for values at the agent."""
        new = (result for result in results if not (result.location and self._is_here(result)))
        return Batch[RunResult](self._located(result) if result.location else result for result in new)

    def _is_here(self, result: RunResult) -> bool:
        reference = self._values.get(ObjectId(result.task_id))
        frames = None if reference is None else reference()
        return frames is not None and frames.location == result.location

    def _located(self, result: RunResult) -> RunResult:
        object_id, frames = ObjectId(result.task_id), LocatedFrames(result.location, self.actor_ref)
        if result.frames or not 0 < frames.size_bytes < SIZE_MOST:
            status, text = TaskStatus.INTERNAL_ERROR, b"the agent of its worker has sent an invalid location"
            return replace(result, status=status, payload=text, frames=(), location=b"")
        self._values[object_id] = weakref.ref(frames, partial(self._not_needed, object_id, result.location))
        return replace(result, frames=frames, location=b"")

    def _not_needed(self, object_id: ObjectId, location: bytes, reference: weakref.ref[LocatedFrames]) -> None:
        if self._values.get(object_id) is reference:  # else the agent has replaced it
            del self._values[object_id]
            self.actor_ref.send(DeleteCopy(object_id, location))

    @handles(
        Batch[RecallResponse],
        Batch[RunBlocked],
        Batch[RunUnblocked],
        Batch[RunOutput],
        Batch[RunStatus],
        Batch[RunTask],
    )
    def _news_of_runs(self, news: Batch[Any]) -> None:
        if len(news) == 1:
            self._send_to_worker(news[0].worker, news)
            return
        by_worker: dict[int, Batch[Any]] = {}
        for item in news:
            batch = by_worker.get(item.worker)
            if batch is None:
                batch = by_worker[item.worker] = type(news)()
            batch.append(item)
        for worker, batch in by_worker.items():
            self._send_to_worker(worker, batch)

    def _send_to_worker(self, worker: int, batch: Batch[Any]) -> None:
        workers = self._workers
        if self._slices:  # the worker may start, or the session end, before this is sent
            self._send_to_workers((workers[worker] for _ in [batch] if worker < len(workers)), lambda _number: batch)
        elif worker < len(workers):
            workers[worker].send(batch)

    def _send_to_workers(self, workers: Iterable[ActorRef], message_to: Callable[[int], Any]) -> None:
        """Send a message to each of these workers, in slices, after all earlier messages for workers."""
        self._slices.add(lambda pair: pair[1].send(message_to(pair[0])), enumerate(workers))

    @handles(NextSlice)
    def _next_slice(self, _next: NextSlice) -> None:
        known, were_starting = len(self._workers), bool(self._to_start)
        self._slices.go_on()
        if were_starting:
            self._report_changed(known)
            self._report_if_all_started()

    @handles(Batch[ObjectRequest])
    def _requests(self, batch: Batch[ObjectRequest]) -> None:
        for request in batch:
            by_value = bool(request.by_value)
            self._services.object_store.send(FetchObject(request.object_id, self._peer, self.actor_ref, by_value))

    @handles(Batch[ObjectResponse])
    def _objects_arrived(self, batch: Batch[ObjectResponse]) -> None:
        for each in batch:
            reference = self._values.get(each.object_id) if self._is_draining else None
            located = None if reference is None else reference()
            if located is not None and each.found == FOUND:  # the result may reach the store after these frames
                located.handed_over = each.frames
            came = ObjectCame(
                each.object_id, self.actor_ref, each.found == FOUND, each.frames, each.reason, self._is_draining
            )
            self._services.object_store.send(came)

    @handles(Batch[ObjectPart])
    def _parts_arrived(self, batch: Batch[ObjectPart]) -> None:
        for part in batch:
            self._services.object_store.send(PartCame(self.actor_ref, part))

    @handles(Batch[ObjectKept])
    def _kept(self, batch: Batch[ObjectKept]) -> None:
        for kept in batch:
            self._services.object_store.send(CopyKept(kept.object_id, self.actor_ref, self._is_back))

    @handles(Batch[WorkerHeartbeat])
    def _heartbeat(self, batch: Batch[WorkerHeartbeat]) -> None:
        self._note_heartbeat(batch[-1].sent_ns)
        services = self._services
        n_agents = services.directory.agents_to_announce(self.now())
        for heartbeat in batch:
            self._outbox.put_unnumbered(
                self._peer, WorkerHeartbeatEcho(heartbeat.sent_ns, n_agents, services.value_bytes())
            )

    @handles(Batch[DisconnectRequest])
    def _leaves(self, batch: Batch[DisconnectRequest]) -> None:
        logger.info("workers %s leave: %s", listed(self._identity.worker_names), batch[0].reason)
        self._outbox.put(self._peer, DisconnectResponse("goodbye"))
        self._depart(LEFT, batch[0].reason)

    @handles(Batch[DrainRequest])
    def _drains(self, batch: Batch[DrainRequest]) -> None:
        logger.info("workers %s take no new tasks: %s", listed(self._identity.worker_names), batch[0].reason)
        self._is_draining = True
        self._send_to_workers(self._workers, lambda _number: DrainWorker())

    @handles(Batch[WorkersClosed])
    def _workers_closed(self, batch: Batch[WorkersClosed]) -> None:
        n_open = max(0, len(self._names) - batch[-1].closed)
        was_open, self._n_open = self._n_open, n_open
        if self._is_draining or n_open == was_open:
            return
        self._send_to_workers(self._workers[n_open:was_open], lambda _number: CloseWorker())
        self._send_to_workers(self._workers[was_open:n_open], lambda _number: OpenWorker())
        self._identity = replace(self._identity, worker_names=self._names[:n_open])
        self._services.acceptor.send(WorkersChanged(self._peer, self._identity))
        self._report_changed(len(self._workers))
        self._report_to_watcher(None)
        self._open_later()

    @handles(Batch[WorkersPaused])
    def _workers_paused(self, batch: Batch[WorkersPaused]) -> None:
        self._n_paused = batch[-1].held
        self._report_paused()

    def _report_paused(self) -> None:
        self._services.balancer.send(WorkersPausedAt(self.actor_ref, self._n_paused))

    def _report_changed(self, known: int) -> None:
        """Report to the listener which workers take tasks, and all workers after the first `known` workers."""
        listener = self._services.events.listener
        if listener is not None:
            names, workers = self._names[known : len(self._workers)], tuple(self._workers[known:])
            listener.send(PeerChanged(self.actor_ref, self._identity, names, workers))

    # For the monitor

    @handles(WatchAgent)
    def _watch(self, watch: WatchAgent) -> None:
        self._watcher = watch.watcher if watch.interval_ms else None
        self._outbox.put_unnumbered(self._peer, WatchRequest(watch.interval_ms, watch.parts))
        self._report_to_watcher(None)

    @handles(Batch[AgentState])
    def _reports(self, batch: Batch[AgentState]) -> None:
        self._report_to_watcher(batch[-1])

    def _report_to_watcher(self, state: AgentState | None) -> None:
        if self._watcher is not None:
            seen = AgentSeen(self.actor_ref, self._peer, self._identity, self._is_draining, state)
            self._watcher.send(seen)

    # The clients inside its processors

    @handles(NestedArrived)
    def _nested_arrived(self, arrived: NestedArrived) -> None:
        if arrived.processor in self._ended_processors:
            arrived.session.send(EndNested())
            return
        sessions = self._nested.setdefault(arrived.processor, [])
        sessions[:] = [session for session in sessions if not session.is_stopped()]
        sessions.append(arrived.session)

    @handles(Batch[ProcessorGone])
    def _processors_gone(self, batch: Batch[ProcessorGone]) -> None:
        for gone in batch:
            self._ended_processors.append(gone.processor)
            for session in self._nested.pop(gone.processor, ()):
                session.send(EndNested())

    @handles(Batch[ProcessorNews])
    def _processors_news(self, batch: Batch[ProcessorNews]) -> None:
        for news in batch:
            self._outbox.put(self._peer, news)

    # From the scheduler

    @handles(DeleteCopy)
    def _delete_copy(self, delete: DeleteCopy) -> None:
        self._outbox.put(
            self._peer, ObjectInstruction(InstructionKind.DELETE, delete.object_id, "", (), delete.location)
        )

    @handles(SupplyObject)
    def _supply(self, supply: SupplyObject) -> None:
        self._outbox.put(self._peer, ObjectRequest(supply.object_id, 1))

    @handles(RequestPart)
    def _part_wanted(self, wanted: RequestPart) -> None:
        self._outbox.put(self._peer, PartRequest(wanted.object_id, wanted.location, wanted.offset, PART_BYTES))

    @handles(BalancerRestarted)
    def _balancer_restarted(self, restarted: BalancerRestarted) -> None:
        self._send_to_workers(self._workers, lambda _number: restarted)
        self._report_paused()

    @handles(StopAgent)
    def _stop_agent(self, stop: StopAgent) -> None:
        self._outbox.put(self._peer, DisconnectResponse(stop.reason))
        self._depart(SENT_AWAY, stop.reason)

    @handles(ChildFailed)
    def _worker_failed(self, failed: ChildFailed) -> None:
        reason = f"the scheduler failed while it handled one of your workers: {failed.error!r}"
        self._outbox.put_unnumbered(self._peer, HelloRequest(reason))
        self._depart(FAILED, reason)

    # Its connection

    @handles(Resumed)
    def _resumed(self, resumed: Resumed) -> None:
        self._reconnected()
        self._is_back = False  # other peers of the last scheduler have returned by now
        self._send_to_workers(self._workers, lambda _number: resumed)
        self._open_later()

    @handles(StartOver)
    def _start_over(self, started: StartOver) -> None:
        """Have each worker proxy compare its runs with those in the hello. Values and nested sessions stay."""
        self._reconnected()
        self._is_back = False
        self._services.object_store.send(HostLeft(self.actor_ref, reason=""))
        held, refused = runs_of_workers(started.held, len(self._names))
        self._outbox.put_all(self._peer, refused)
        self._send_to_workers(self._workers, lambda number: replace(started, held=held[number]))
        self._open_later()

    @handles(ConnectionLost)
    def _connection_lost(self, lost: ConnectionLost) -> None:
        unsent = orders_by_worker(lost.unsent)
        self._send_to_workers(
            self._workers, lambda number: ConnectionLost(lost.connection_number, lost.reason, unsent.get(number, ()))
        )
        super()._connection_lost(lost)

    def _notify_lost(self) -> None:
        self._stop_workers(was_lost=True)
        # It must stop tasks that other workers run now.
        self._outbox.put_unnumbered(self._peer, HelloRequest("you were silent for too long"))

    # Its end

    def _leave(self) -> None:
        self._stop_workers(was_lost=False)
        self._lose_values()
        for sessions in self._nested.values():
            for session in sessions:
                session.send(EndNested())
        super()._leave()

    def _lose_values(self) -> None:
        self._services.balancer.send(WorkersPausedAt(self.actor_ref, 0))
        reason = f"it was lost with the cluster of {listed(self._identity.worker_names)}"
        for reference in self._values.values():
            frames = reference()
            if frames is not None:
                frames.lost = reason
        self._values.clear()
        self._services.object_store.send(HostLeft(self.actor_ref, reason))

    def _stop_workers(self, was_lost: bool) -> None:
        self._to_start.clear()
        if not self._workers:
            return
        unacknowledged = list(self._peer.pipe.unacknowledged())
        orders = orders_by_worker(item for item in unacknowledged if type(item) is RunTask)
        values = frozenset(
            item.object_id for item in unacknowledged if type(item) is ObjectResponse and is_deadly(item.frames)
        )
        pending = {item.object_id for item in self._peer.pipe.pending() if type(item) is ObjectResponse}
        awaited = frozenset(pending | self._services.awaited_by(self.actor_ref))
        workers, self._workers = self._workers, []
        stops = (
            (worker, StopWorker(was_lost, orders.get(number, ()), values, awaited))
            for number, worker in enumerate(workers)
        )
        self.spawn(SessionTeardown(stops, self._slices))

    def check(self) -> None:
        assert len(self._workers) + len(self._to_start) <= len(self._names)
        assert 0 <= self._n_open <= len(self._names)
        assert all(reference() is not None for reference in self._values.values()), "a dropped value is remembered"

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add(self.role, self._title, {"workers": self._n_open})
        for worker in self._workers[: self._n_open]:
            worker.notify(ask)


def is_deadly(frames: Frames) -> bool:
    """Return whether a value may have exhausted the memory of an agent."""
    size = frames.stream.n_bytes if type(frames) is StreamedFrames else size_of(frames)
    return size >= DEADLY_BYTES


def orders_by_worker(orders: Iterable[RunTask]) -> dict[int, list[RunTask]]:
    """Return each `RunTask` for one agent, grouped by the number of the worker."""
    by_worker: dict[int, list[RunTask]] = {}
    for order in orders:
        by_worker.setdefault(order.worker, []).append(order)
    return by_worker
