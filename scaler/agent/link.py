"""AgentLink: the agent's side of the protocol, over successive connections.

It receives batches and `LinkLost` from the edge, results from workers, and requests from the object cache. It sends
tasks and cancels to the workers, objects to the cache, and all items for the scheduler to the edge. It decodes no
payload. Its `ConnectionManager` handles hellos, heartbeats and goodbyes. Results are kept until the scheduler has
acknowledged them, and are sent first in each new session. Tasks continue while the scheduler is away.
"""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scaler.agent.connection_manager import AbsenceDue, ConnectionDue, ConnectionManager
from scaler.agent.devices import devices_of
from scaler.agent.messages import (
    FetchForWorker,
    HandOverValues,
    KeepObject,
    Leave,
    LinkHeard,
    LinkLost,
    LinkUnreadable,
    ObjectsHere,
    ObjectsSupplied,
    PartsSupplied,
    PausedChanged,
    ReportLinkStatistics,
    ValuesKept,
)
from scaler.agent.outputs import OutputLimiter
from scaler.agent.session_state import SessionState
from scaler.agent.values import NodeValues
from scaler.agent.watch import AgentWatch, ReportDue, RunStatusDue, WatchDue, run_statuses
from scaler.executors.messages import CapacityChanged, ExecutorProcessGone, RestartProcesses, RunsNotHere
from scaler.ids import ObjectId
from scaler.kit import Actor, ActorRef, handles
from scaler.message import message
from scaler.peer.states import CONNECTED, LEAVE
from scaler.pickling.serialization import size_of
from scaler.settings import ClusterConfig
from scaler.wire.messages.capabilities import from_text
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    NOT_FOUND,
    HelloReply,
    HelloRequest,
    InstructionKind,
    ObjectInstruction,
    ObjectKept,
    ObjectRequest,
    ObjectResponse,
    PartRequest,
    TaskStatus,
)
from scaler.wire.messages.rows import flaw_of
from scaler.wire.messages.worker import (
    DisconnectResponse,
    DrainRequest,
    LeaveRequest,
    ProcessorGone,
    ProcessorNews,
    RecallRequest,
    RecallResponse,
    RestartRequest,
    RunBlocked,
    RunCancel,
    RunOutput,
    RunQuestion,
    RunResult,
    RunTask,
    RunUnblocked,
    WatchRequest,
    WorkerHeartbeatEcho,
    WorkersClosed,
    WorkersPaused,
)

if TYPE_CHECKING:
    from scaler.agent.edge import AgentEdge

logger = logging.getLogger(__name__)

DRAIN_LOOK_SECONDS = 0.02
GIVE_BACK_SECONDS = 0.05
"""The time that an agent which leaves without a drain waits for running tasks. It returns waiting tasks at once."""


@message
class _DrainLook:
    reason: str
    ends_at: float
    are_values_sent: bool = False


class AgentLink(Actor):
    """Exchanges messages with the scheduler for the workers and the object cache of an agent.

    Args:
        end: called once with the exit code when the agent must end.
        n_open: how many workers take tasks at first, counted from the first one; None: all workers, always.
        can_report_runs: whether the workers answer `ReportRuns`.
        can_restart: whether the workers obey `RestartProcesses`.
        values: keeps large results on this node; None: large results are sent to the scheduler.
        takes_rows: whether the workers take ranges.
        text_hash: the hash of a fixed text in the workers, for the hello.
    """

    def __init__(
        self,
        edge: AgentEdge,
        *,
        config: ClusterConfig,
        names: tuple[str, ...],
        workers: tuple[ActorRef, ...],
        objects: ActorRef,
        agent_token: bytes,
        end: Callable[[int], None],
        capabilities: str = "",
        can_report_runs: bool = False,
        can_restart: bool = False,
        n_open: int | None = None,
        values: NodeValues | None = None,
        takes_rows: bool = False,
        text_hash: int = 0,
    ) -> None:
        self._session_state = session_state = SessionState(workers, objects, config.endpoint, values)
        self._connection = connection = ConnectionManager(
            edge, config, names, agent_token, session_state, end, capabilities, self, takes_rows, text_hash
        )
        self._conversation, self._is_up, self._send = connection.conversation, connection.is_up, connection.send
        self._edge, self._names, self._values = edge, names, values
        self._workers = workers
        self._objects = objects
        self._ledger = session_state.ledger
        self._requested = session_state.requested
        self._gone = session_state.gone
        self._outputs = OutputLimiter(config.task_output_lines_per_second, self.now)
        self._devices = devices_of(from_text(capabilities))
        self._can_restart = can_restart
        asked = workers if can_report_runs else ()
        self._n_open = self._n_opened = len(names) if n_open is None else n_open
        """in this order: how many workers take tasks now, and the most workers that ever took tasks at once"""
        if self._n_open < len(names):
            session_state.closed = len(names) - self._n_open
        self._watch = AgentWatch(
            socket.gethostname(), config.engine, asked, len(names), session_state.ledger, self._outputs.reported, values
        )
        self._watch.shown = self._n_open

    def on_start(self) -> None:
        self._connection.start()

    @handles(
        *(ConnectionDue, AbsenceDue, LinkLost, LinkUnreadable),
        *(Batch[HelloRequest], Batch[HelloReply], Batch[WorkerHeartbeatEcho], Batch[DisconnectResponse]),
    )
    def _dispatch_to_connection(self, mail: Any) -> None:
        self._connection.mail[type(mail)](mail)

    # Statistics

    @handles(ReportLinkStatistics)
    def _report_statistics(self, request: ReportLinkStatistics) -> None:
        request.report.add("link", self._conversation.state, self._ledger.statistics())
        tasks = self._ledger.tasks_by_worker()
        for worker, name in enumerate(self._names[: self._n_open]):
            request.report.add("worker", name, {"tasks": tasks[worker]})

    # How many workers take tasks

    @handles(CapacityChanged)
    def _capacity_changed(self, changed: CapacityChanged) -> None:
        """Report how many workers take tasks now. The scheduler recalls the queued tasks of the remaining workers."""
        n_open = min(changed.capacity, len(self._names))
        if self._session_state.closed is None or n_open == self._n_open:
            return
        level = logging.INFO if n_open else logging.WARNING
        logger.log(
            level, "%d workers take tasks now, %d before: the capacity of the engine has changed", n_open, self._n_open
        )
        self._n_open, self._n_opened = n_open, max(n_open, self._n_opened)
        self._watch.shown = n_open
        self._session_state.closed = len(self._names) - n_open
        self._send([WorkersClosed(self._session_state.closed)])

    @handles(PausedChanged)
    def _paused_changed(self, changed: PausedChanged) -> None:
        self._send([WorkersPaused(changed.held)])

    # Reports for viewers

    @handles(Batch[WatchRequest])
    def _watch_requested(self, requests: Batch[WatchRequest]) -> None:
        if self._is_up():
            self._watch.request(requests[-1].interval_ms, requests[-1].parts)
            self._look_at_workers(WatchDue(self._watch.number))

    @handles(WatchDue)
    def _look_at_workers(self, due: WatchDue) -> None:
        watch = self._watch
        if due.number != watch.number or not watch.interval_seconds:
            return
        if self._conversation.state is CONNECTED:
            self.actor_ref.send(ReportDue(watch.look(), due.number))
            self.schedule(watch.interval_seconds, due)
        else:  # the next scheduler requests reports itself
            watch.request(0, 0)

    @handles(ReportDue)
    def _report(self, due: ReportDue) -> None:
        watch = self._watch
        if due.number == watch.number and watch.interval_seconds and self._conversation.state is CONNECTED:
            self._edge.send_unnumbered(watch.report(due.view, self.now(), self._connection.round_trip_us))

    @handles(Batch[RunQuestion])
    def _on_run_question(self, questions: Batch[RunQuestion]) -> None:
        if self._is_up():
            self.actor_ref.send(RunStatusDue(questions, self._watch.look() if self._watch.can_look else None))

    @handles(RunStatusDue)
    def _answer_run_questions(self, due: RunStatusDue) -> None:
        if self._conversation.state is CONNECTED:
            held = () if self._values is None else self._values.room.held
            for status in run_statuses(due.questions, due.view, self._ledger, held):
                self._edge.send_unnumbered(status)

    # Tasks

    @handles(Batch[RunTask])
    def _run_tasks(self, tasks: Batch[RunTask]) -> None:
        if not self._is_up():
            return
        if any(task.rows for task in tasks):
            tasks = Batch[RunTask](task for task in tasks if not (task.rows and self._is_flawed(task)))
        for worker, new in self._ledger.add(tasks).items():
            if worker < len(self._workers):
                self._workers[worker].send(new if self._devices is None else self._devices.number(new))
            else:
                self._refuse(new, f"this cluster has no worker {worker}")

    def _is_flawed(self, task: RunTask) -> bool:
        flaw = flaw_of(task, suits_rows=True)
        if flaw:
            self._refuse([replace(task, rows=0)], f"these rows cannot be run: {flaw}")
        return bool(flaw)

    @handles(Batch[RunCancel])
    def _run_cancels(self, cancels: Batch[RunCancel]) -> None:
        if not self._is_up():
            return
        by_worker, unknown = self._ledger.by_worker(cancels)
        for worker, wanted in by_worker.items():
            self._workers[worker].send(Batch[RunCancel](wanted))
        if unknown:
            self._refuse(self._ledger.without_result(unknown), "the cluster has no such task")

    @handles(RunsNotHere)
    def _runs_missing(self, news: RunsNotHere) -> None:
        """Report as failed the open runs that their worker lacks. For runs that were resent, repeat cancels instead."""
        again, lost = self._ledger.missed(news.runs)
        for cancel in again:
            self._workers[cancel.worker].send(Batch[RunCancel]([cancel]))
        if lost:
            self._refuse(lost, "the worker no longer has the task")

    def _refuse(self, items: Iterable[RunTask | RunCancel | RecallRequest], text: str) -> None:
        status, payload = TaskStatus.NOT_FOUND, text.encode()
        self._results(
            Batch[RunResult](
                RunResult(item.task_id, item.worker, item.attempt, status, payload, 0, (), rows=_rows_in(item))
                for item in items
            )
        )

    @handles(Batch[RunResult])
    def _results(self, results: Batch[RunResult]) -> None:
        results = self._ledger.finish(results)
        if self._outputs.unreported:
            self._send(self._outputs.take_unreported(results))
        if self._devices is not None:
            self._devices.end(results)
        self._send(results)
        kept = [result for result in results if result.location]
        if kept:
            for result in kept:
                self._requested.pop(ObjectId(result.task_id), None)  # it was made here meanwhile
            self._objects.send(ValuesKept({result.worker for result in kept}))

    @handles(Batch[RunOutput])
    def _runs_printed(self, lines: Batch[RunOutput]) -> None:
        self._send(self._outputs.passing(lines, self._conversation.state is CONNECTED))

    @handles(Batch[RunBlocked])
    def _runs_blocked(self, batch: Batch[RunBlocked]) -> None:
        blocked = self._ledger.block(batch)
        if self._devices is not None:
            self._devices.block(blocked)
        self._send(blocked)

    @handles(Batch[RunUnblocked])
    def _runs_unblocked(self, batch: Batch[RunUnblocked]) -> None:
        for unblocked in batch:
            self._ledger.unblock(unblocked)
        if self._devices is not None:
            self._devices.resume(batch)
        self._send(batch)

    @handles(LinkHeard)
    def _acknowledged(self, heard: LinkHeard) -> None:
        self._is_up()
        self._ledger.heard(heard.items)

    # Balance

    @handles(Batch[RecallRequest])
    def _recall_requests(self, requests: Batch[RecallRequest]) -> None:
        if not self._is_up():
            return
        by_worker, _ended = self._ledger.by_worker(requests)
        for worker, wanted in by_worker.items():
            self._workers[worker].send(Batch[RecallRequest](wanted))

    @handles(Batch[RecallResponse])
    def _recalled(self, responses: Batch[RecallResponse]) -> None:
        """Forget recalled tasks and return them to the scheduler.

        While no scheduler is connected, send the tasks to their workers again instead, since a hello may have named
        them.
        """
        given = Batch[RecallResponse]()
        for response in responses:
            task = self._ledger.find(response.task_id, response.attempt)
            if task is None:
                continue
            if self._conversation.state is CONNECTED:
                self._ledger.remove_recalled(response)
                given.append(response)
            else:
                self._ledger.record_resent(task)
                again = Batch[RunTask]([task])
                self._workers[task.worker].send(again if self._devices is None else self._devices.number(again))
        if self._devices is not None:
            self._devices.end(given)
        self._send(given)

    # Processors

    @handles(Batch[ProcessorNews])
    def _processors_news(self, batch: Batch[ProcessorNews]) -> None:
        if self._is_up():
            for worker in self._workers[: self._n_opened]:
                worker.send(batch)

    @handles(Batch[RestartRequest])
    def _restart_requested(self, requests: Batch[RestartRequest]) -> None:
        if self._is_up() and self._can_restart:
            logger.info("all worker processes are replaced by new ones: %s", requests[-1].reason)
            for worker in self._workers:
                worker.send(RestartProcesses())

    @handles(ExecutorProcessGone)
    def _process_ended(self, process: ExecutorProcessGone) -> None:
        gone = ProcessorGone(process.number)
        self._gone.append(gone)
        self._send([gone])

    # Objects

    @handles(FetchForWorker)
    def _fetch(self, fetch: FetchForWorker) -> None:
        self._requested[fetch.object_id] = fetch.by_value
        self._send([ObjectRequest(fetch.object_id, fetch.by_value)])

    @handles(ObjectsHere)
    def _objects_here(self, here: ObjectsHere) -> None:
        self._send([ObjectKept(object_id) for object_id in here.object_ids])

    @handles(Batch[ObjectRequest], Batch[PartRequest])
    def _objects_requested(self, requests: Batch[ObjectRequest] | Batch[PartRequest]) -> None:
        if self._is_up():
            self._objects.send(requests)

    @handles(ObjectsSupplied)
    def _supply(self, supplied: ObjectsSupplied) -> None:
        most = self._ledger.value_bytes
        why = f"the scheduler accepts at most {most:,} bytes for one value"
        self._send(
            [
                each if size_of(each.frames) <= most else replace(each, found=NOT_FOUND, frames=(), reason=why)
                for each in supplied.responses
            ]
        )

    @handles(PartsSupplied)
    def _supply_parts(self, supplied: PartsSupplied) -> None:
        self._send(supplied.parts)

    @handles(Batch[ObjectResponse])
    def _objects_received(self, responses: Batch[ObjectResponse]) -> None:
        if self._is_up():
            for response in responses:
                self._requested.pop(response.object_id, None)
            self._objects.send(responses)

    @handles(Batch[ObjectInstruction])
    def _objects_deleted(self, instructions: Batch[ObjectInstruction]) -> None:
        if not self._is_up():
            return
        for item in instructions:
            if item.kind == InstructionKind.KEEP_RESULT:
                self._keep_result(item.object_id)
        self._objects.send(instructions)

    def _keep_result(self, object_id: ObjectId) -> None:
        frames = self._ledger.large_result(object_id)
        if frames:
            self._objects.send(KeepObject(object_id, frames))

    def check(self) -> None:
        self._ledger.check()

    # The end

    @handles(Leave)
    def _leave(self, leave: Leave) -> None:
        if self._conversation.state is CONNECTED and (leave.drain_seconds or self._ledger.has_tasks):
            self._session_state.drain = DrainRequest(leave.reason)
            self._edge.send([self._session_state.drain])
            seconds = leave.drain_seconds or GIVE_BACK_SECONDS
            self._look_at_drain(_DrainLook(leave.reason, self.now() + seconds, are_values_sent=not leave.drain_seconds))
        else:
            self._connection.happened(LEAVE, leave.reason)

    @handles(Batch[LeaveRequest])
    def _leave_requested(self, requests: Batch[LeaveRequest]) -> None:
        if self._is_up() and self._conversation.state is CONNECTED and self._session_state.drain is None:
            logger.info("the cluster leaves when its tasks have ended: %s", requests[-1].reason)
            self._leave(Leave(requests[-1].reason, math.inf))

    @handles(_DrainLook)
    def _look_at_drain(self, look: _DrainLook) -> None:
        """Leave when no task is open and all sole copies of values are handed over; until then, recall queued tasks."""
        left_seconds = look.ends_at - self.now()
        is_done = (
            self._conversation.state is CONNECTED
            and not self._ledger.has_tasks
            and not self._edge.session.pipe.has_pending
        )
        n_values = 0 if self._values is None else len(self._values)
        if left_seconds <= 0 or (is_done and (look.are_values_sent or not n_values)):
            if n_values and not look.are_values_sent:
                logger.warning(
                    "%d values are lost with this cluster: the time for its drain is over (drain_seconds)", n_values
                )
            self._connection.happened(LEAVE, look.reason)
        elif is_done:
            self._objects.send(HandOverValues(look, replace(look, are_values_sent=True)))
        else:
            self._session_state.recall_queued()
            self.schedule(min(left_seconds, DRAIN_LOOK_SECONDS), look)


def _rows_in(item: RunTask | RunCancel | RecallRequest) -> int:
    return item.rows if isinstance(item, RunTask) else 0
