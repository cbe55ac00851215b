"""WorkerProxy: the scheduler's view of one worker: its tasks and their attempts.

Receives messages from the balancer (assign), tasks (cancel, adopt, questions of clients) and its agent session
(results, loss of the agent). Sends to tasks, the balancer and, through the outbox, to the agent. No other actor knows
all tasks of the worker. If the worker is lost, the proxy notifies these tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum

from scaler.actors.messages.adoption import AdoptRun, NotHeld, RunAdopted, RunsLost
from scaler.actors.messages.monitor import ReportTask, ReportTaskOf
from scaler.actors.messages.outputs import RunsPrinted
from scaler.actors.messages.peers import (
    CloseWorker,
    ConnectionLost,
    DrainWorker,
    OpenWorker,
    ReportStatistics,
    Resumed,
    StartOver,
    StopWorker,
)
from scaler.actors.messages.tasks import (
    AmountsChanged,
    AnswerOverdue,
    AssignTasks,
    BalancerRestarted,
    CancelOrphan,
    CancelRun,
    ExplainRun,
    KeepResult,
    LoadFreed,
    LoadResumed,
    RangeRefused,
    RecallRun,
    RecallTasks,
    RunLost,
    RunRecalled,
    StartRequested,
    StartRun,
    TaskAssigned,
    TaskReady,
    TasksRecalled,
    WorkerFailed,
    WorkerForgotten,
    WorkerJoined,
    WorkerLeft,
)
from scaler.actors.policy import Offer
from scaler.actors.vocabulary.hellos import HeldRun
from scaler.actors.vocabulary.needs import NO_OFFER
from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.peer import Peer
from scaler.actors.vocabulary.recent_runs import RecentRuns
from scaler.actors.workers.run_reports import explain_run
from scaler.actors.workers.runs import Allocations, Measured, Orphan, Orphans, RunRecord, add_measured, order_of
from scaler.ids import ObjectId, TaskId, split_ids
from scaler.kit import Actor, ActorRef, handles
from scaler.wire.messages.accounts import owner_of
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, RunState, TaskStatus
from scaler.wire.messages.rows import part_of, row_id, row_ids, row_of, rows_of
from scaler.wire.messages.worker import (
    RecallRequest,
    RecallResponse,
    RunBlocked,
    RunCancel,
    RunOutput,
    RunQuestion,
    RunResult,
    RunStatus,
    RunTask,
    RunUnblocked,
)

_STATUSES = frozenset(map(int, TaskStatus))

_OWN_END = (TaskStatus.SUCCESS, TaskStatus.FAILED)
"""The statuses of runs whose durations are measured. A run that was dropped from the queue took no time."""


ANSWER_SECONDS = 0.2
"""The time for the agent to report the state of a run. After that, the client receives what the scheduler knows."""
QUESTIONS_MOST = 256
"""The most questions that may wait for the agent. Further questions are answered from what the scheduler knows."""


class InBalancer(Enum):
    """Whether the balancer may assign tasks to a worker."""

    OUT = "out"
    IN = "in"
    LEAVING = "leaving"
    """the worker has left the balancer, and an earlier assignment may still arrive"""


class WorkerPhase(Enum):
    """Whether the worker takes tasks."""

    WORK = "work"
    DRAIN = "drain"
    """the worker finishes its tasks and takes no new tasks"""
    END = "end"


class WorkerProxy(Actor):
    """Assigns, recalls and cancels the runs of one worker. In `_runs`, runs of equal priority have the worker's order.

    Args:
        index: the position of the worker at its agent.
        recent_runs: remembers the tasks that end at this worker.
        held: the runs that the worker had at the hello of its agent.
        offer: the resources of the worker's node.
        takes_rows: whether the agent accepts ranges.
    """

    def __init__(
        self,
        name: str,
        index: int,
        peer: Peer,
        *,
        outbox: Outbox,
        balancer: ActorRef,
        queue_size: int,
        host: ActorRef,
        adoption: ActorRef,
        outputs: ActorRef,
        recent_runs: RecentRuns,
        held: Sequence[HeldRun] = (),
        offer: Offer = NO_OFFER,
        takes_rows: bool = False,
    ) -> None:
        self.name = name
        self._index = index
        self._peer = peer
        self._outbox = outbox
        self._balancer = balancer
        self._runs: dict[TaskId, RunRecord] = {}
        self._orphans = Orphans((run.task_id, run.attempt) for run in held)
        self._ranges = {run.attempt for run in held if run.is_row}
        """the attempts of ranges that the agent had at its hello, of which each row is a run here"""
        self._is_unsure = self._orphans.are_running
        """whether the worker has runs with unknown needs"""
        self._offer = offer
        self._takes_rows = takes_rows
        self._allocations = Allocations()
        self._host = host
        self._queue_size = queue_size
        self._adoption = adoption
        self._outputs = outputs
        self._recent_runs = recent_runs
        self._phase = WorkerPhase.WORK
        self._in_balancer = InBalancer.OUT
        self._last_recall: list[tuple[TaskId, int]] = []
        self._questions: list[ExplainRun] = []

    def on_start(self) -> None:
        self._join()

    def _join(self) -> None:
        self._in_balancer = InBalancer.IN
        offer, taken, is_unsure = self._offer, self._allocations.counts(), self._is_unsure
        load = self._queue_size, *self.load, self._host
        self._balancer.send(WorkerJoined(self.actor_ref, *load, offer, taken, is_unsure, self.name))

    @handles(BalancerRestarted)
    def _balancer_restarted(self, _restarted: BalancerRestarted) -> None:
        if self._in_balancer is InBalancer.IN:
            self._join()

    @handles(AssignTasks)
    def _assign(self, assign: AssignTasks) -> None:
        peer, runs, index = self._peer, self._runs, self._index
        takes_tasks = self._in_balancer is InBalancer.IN and peer.connection  # else the connection was lost just now
        connection_number, orders = peer.connection_number, []
        attempts: dict[ActorRef, int] = {}
        for ready, expected_us in assign.tasks:
            task, spec, attempt, account = ready.task, ready.spec, ready.attempt, ready.account
            task_id = spec.task_id
            if not takes_tasks or task_id in runs or task.is_stopped():
                self._refuse(ready, expected_us)
                continue
            if spec.rows and not self._takes_rows:
                task.send(RangeRefused(attempt))
                self._free(spec.rows, expected_us)
                continue
            run = runs[task_id] = RunRecord(task, spec, attempt, expected_us, account, connection_number)
            if ready.context is not None:
                run.is_held = True
                ready.context.session.send(StartRequested(self.actor_ref, task_id, attempt))
                attempts[task] = attempt
                continue
            orders.append(order_of(spec, index, attempt, account))
            attempts[task] = attempt
        self._outbox.put_all(peer, orders)
        assigned = TaskAssigned(self.actor_ref, attempts)
        for task in attempts:
            task.send(assigned)
        self._allocate(assign.tasks)

    def _refuse(self, ready: TaskReady, expected_us: int) -> None:
        ready.task.send(TaskAssigned(self.actor_ref, {ready.task: ready.attempt}))
        ready.task.send(RunLost(ready.attempt, self.name, was_running=False, was_ordered=False))
        run = self._runs.get(ready.spec.task_id)
        if run is not None:
            run.counted += 1
            run.expected_us += expected_us
        else:
            self._free(ready.spec.rows or 1, expected_us)
        if not self._peer.connection:
            self._leave_balancer()  # the report of the loss is still in the slices

    @handles(StartRun)
    def _start_run(self, start: StartRun) -> None:
        run = self._runs.get(start.task_id)
        if run is None or run.attempt != start.attempt or not run.is_held:
            return
        if not self._peer.connection:
            self._recall_held(run)
            return
        run.is_held, run.connection_number = False, self._peer.connection_number
        self._outbox.put(self._peer, order_of(run.spec, self._index, run.attempt, run.account))

    def _recall_held(self, run: RunRecord) -> None:
        """Return a held run to its task. No recall is sent, since the worker never received the `RunTask`."""
        del self._runs[run.spec.task_id]
        self._free(*run.load)
        self._report_allocations([run.spec.task_id])
        run.task.send(RunRecalled(run.attempt))

    def _request_recall(self, run: RunRecord) -> None:
        if run.is_held:
            self._recall_held(run)
        else:
            self._outbox.put(self._peer, RecallRequest(run.spec.task_id, self._index, run.attempt))

    @handles(Batch[RunTask])
    def _left_late(self, orders: Batch[RunTask]) -> None:
        """Move the runs of large `RunTask`s to the end of `_runs`: smaller ones, put later, were sent before."""
        for order in orders:
            run = self._runs.get(order.task_id)
            if run is not None and run.attempt == order.attempt:
                self._runs[order.task_id] = self._runs.pop(order.task_id)

    @handles(CancelRun)
    def _cancel(self, cancel: CancelRun) -> None:
        run = self._runs.get(cancel.task_id)
        if run is None or run.attempt != cancel.attempt:
            return
        if run.is_held:
            self._recall_held(run)
            return
        run.canceled = True
        self._outbox.put(self._peer, RunCancel(cancel.task_id, self._index, cancel.attempt, run.spec.rows))

    @handles(CancelOrphan)
    def _cancel_orphan(self, cancel: CancelOrphan) -> None:
        if self._orphans.cancel(cancel.task_id, cancel.attempt):
            self._outbox.put(self._peer, RunCancel(cancel.task_id, self._index, cancel.attempt))

    @handles(RecallRun)
    def _recall_run(self, recall: RecallRun) -> None:
        run = self._runs.get(recall.task_id)
        if run is not None and run.attempt == recall.attempt and not run.released:
            self._request_recall(run)

    @handles(KeepResult)
    def _keep_result(self, keep: KeepResult) -> None:
        self._outbox.put(self._peer, ObjectInstruction(InstructionKind.KEEP_RESULT, keep.object_id, "", ()))

    # Its runs

    @handles(Batch[RunResult])
    def _finish(self, results: Batch[RunResult]) -> None:
        runs, recent, name = self._runs, self._recent_runs.latest, self.name
        freed = expected_us = ended = duration_us = 0
        function_id: ObjectId | None = None
        measured: Measured = {}
        row_results: list[RunResult] = []
        for result in results:
            run = runs.get(result.task_id)
            is_single = not (result.rows or result.running or result.statuses)
            if not is_single and (run is None or not run.spec.rows) and result.attempt in self._ranges:
                row_results += self._rows_of(result)
                continue
            if run is None or run.attempt != result.attempt:
                places, work_us = self._orphans.finish(checked(0, result))  # (0, 0): sent twice, or an older attempt
                freed += places
                expected_us += work_us
                continue
            rows = run.spec.rows
            result = result if is_single and not rows else checked(rows, result)  # noqa: PLW2901
            del runs[result.task_id]
            recent[result.task_id] = name
            places, work_us = self._end_range(run, result) if result.running else run.load
            freed += places
            expected_us += work_us
            if result.status in _OWN_END:
                if run.spec.function_id != function_id:
                    add_measured(measured, function_id, duration_us, ended)
                    function_id = run.spec.function_id
                    ended = duration_us = 0
                ended += result.rows if result.running else rows or 1
                duration_us += result.duration_us
            run.task.send(result)
        self._recent_runs.limit()
        if freed:
            add_measured(measured, function_id, duration_us, ended)
            self._balancer.send(LoadFreed(self.actor_ref, freed, expected_us, measured))
        if row_results:
            self._finish(Batch[RunResult](row_results))
        if self._allocations or self._is_unsure:
            self._report_allocations([result.task_id for result in results])

    def _end_range(self, run: RunRecord, result: RunResult) -> tuple[int, int]:
        """Replace a range that has ended early by its running row. Return the slots and the work that become free."""
        places, work_us = run.load
        spec = part_of(run.spec, result.running - 1, 1)
        each_us = run.expected_us // run.spec.rows
        row = RunRecord(run.task, spec, run.attempt, each_us, run.account, run.connection_number)
        row.counted = run.counted
        self._runs[spec.task_id] = row
        return places - row.load[0], work_us - row.load[1]

    def _rows_of(self, result: RunResult) -> list[RunResult]:
        """Return the results of the rows of a range that the agent had at its hello: here, each row is a run."""
        if result.running:
            self._return_rows(result)
        return rows_of(checked(result.rows, replace(result, running=0)))

    def _return_rows(self, result: RunResult) -> None:
        """Return the rows of a range that has ended early to their tasks, except rows that have ended, and the running
        one.
        """
        kept = {row_id(result.task_id, row) for row in (*range(result.rows), result.running - 1)}
        for task_id, run in list(self._runs.items()):
            if run.attempt == result.attempt and not run.spec.rows and task_id not in kept:
                del self._runs[task_id]
                self._free(*run.load)
                run.task.send(RunRecalled(run.attempt))
        self._free(*self._orphans.drop(result.attempt, kept))

    @handles(RecallTasks)
    def _recall_tasks(self, request: RecallTasks) -> None:
        """Recall the tasks that the worker would run last. The tasks stay in `_runs` until the worker returns them.

        The first task probably runs. It is recalled only if the last recall named the same tasks, and the worker
        did not return them: then others may have overtaken the first task while it waited for its objects.
        """
        runs = [run for run in self._runs.values() if not (run.canceled or run.released or run.is_held)]
        behind = sorted(runs[1:], key=lambda run: run.spec.priority, reverse=True)
        wanted, left = [], request.count
        while behind and left > 0:  # a range is recalled as a whole
            run = behind.pop()
            wanted.append((run.spec.task_id, run.attempt))
            left -= run.spec.rows or 1
        wanted.reverse()
        asked, self._last_recall = self._last_recall, wanted
        if wanted and wanted == asked:
            wanted = [(runs[0].spec.task_id, runs[0].attempt), *wanted]
        for task_id, attempt in wanted:
            self._outbox.put(self._peer, RecallRequest(task_id, self._index, attempt))

    @handles(Batch[RecallResponse])
    def _recalled(self, responses: Batch[RecallResponse]) -> None:
        count = expected_us = 0
        function_ids: set[ObjectId] = set()
        for task_id, attempt in self._recalled_runs(responses):
            run = self._runs.get(task_id)
            if run is None or run.attempt != attempt:
                continue  # of a former scheduler
            del self._runs[task_id]
            places, work_us = run.load  # agents do not return blocked runs
            count += places
            expected_us += work_us
            function_ids.add(run.spec.function_id)
            run.task.send(RunRecalled(run.attempt))
        if count:
            self._balancer.send(TasksRecalled(self.actor_ref, count, expected_us, function_ids))
        if self._allocations:
            self._report_allocations([response.task_id for response in responses])

    def _recalled_runs(self, responses: Batch[RecallResponse]) -> Iterator[tuple[TaskId, int]]:
        """Yield the recalled runs, and each row of a range that the agent had at its hello."""
        for response in responses:
            run = self._runs.get(response.task_id)
            rows = 0 if run is not None and run.spec.rows else response.rows
            if rows:
                self._free(*self._orphans.drop(response.attempt, ()))
            yield from ((task_id, response.attempt) for task_id in row_ids(response.task_id, rows))

    @handles(Batch[RunBlocked])
    def _blocked(self, batch: Batch[RunBlocked]) -> None:
        for blocked in batch:
            run = self._run_of(blocked) or self._orphans.find(blocked.task_id, blocked.attempt)
            if run is not None:
                self._free(*run.block())
        if self._allocations:
            self._report_allocations([blocked.task_id for blocked in batch])

    @handles(Batch[RunUnblocked])
    def _unblocked(self, batch: Batch[RunUnblocked]) -> None:
        for unblocked in batch:
            run = self._run_of(unblocked) or self._orphans.find(unblocked.task_id, unblocked.attempt)
            if run is not None:
                self._unblock_run(run)
        if self._allocations:
            self._report_allocations([unblocked.task_id for unblocked in batch])

    @handles(Batch[RunOutput])
    def _printed(self, lines: Batch[RunOutput]) -> None:
        rows = [replace(line, task_id=row_id(line.task_id, line.row), row=0) if line.row else line for line in lines]
        found = ((row, self._run_of(line) or self._run_of(row)) for line, row in zip(lines, rows, strict=True))
        known = [(row, run.spec, run.account) for row, run in found if run is not None]
        if known:
            self._outputs.send(RunsPrinted(self.name, known, self._host))

    def _run_of(self, news: RunBlocked | RunUnblocked | RunOutput | RunStatus) -> RunRecord | None:
        run = self._runs.get(news.task_id)
        return run if run is not None and run.attempt == news.attempt else None

    # What the balancer counts

    @property
    def load(self) -> tuple[int, int]:
        """The slots and the expected work that the runs of the worker take."""
        loads = [self._orphans.load, *(run.load for run in self._runs.values())]
        return sum(places for places, _ in loads), sum(expected_us for _, expected_us in loads)

    def _free(self, places: int, expected_us: int) -> None:
        if places:
            self._balancer.send(LoadFreed(self.actor_ref, places, expected_us, {}))

    def _unblock_run(self, run: RunRecord | Orphan) -> None:
        places, expected_us = run.unblock()
        if places:
            self._balancer.send(LoadResumed(self.actor_ref, places, expected_us))

    def _allocate(self, tasks: list[tuple[TaskReady, int]]) -> None:
        takes = [ready for ready, _ in tasks if ready.needs is not None and not ready.needs.worker]
        for ready in takes:
            assert ready.needs is not None
            self._allocations.add(ready.spec.task_id, ready.needs, 1)
        if takes:
            self._report_allocations([ready.spec.task_id for ready in takes])

    def _report_allocations(self, task_ids: Iterable[TaskId] | None = None) -> None:
        """Report changes in the taken resources to the balancer. `task_ids`: the tasks to compare; None: all."""
        changes = self._allocations.changes(self._runs, task_ids)
        was_unsure, self._is_unsure = self._is_unsure, self._is_unsure and self._orphans.are_running
        if changes or was_unsure is not self._is_unsure:
            self._balancer.send(AmountsChanged(self.actor_ref, changes, self._is_unsure))

    # Orphaned runs

    @handles(AdoptRun)
    def _adopt(self, adopt: AdoptRun) -> None:
        task, spec, attempt = adopt.task, adopt.spec, adopt.attempt
        is_here = self._phase is not WorkerPhase.END and spec.task_id not in self._runs
        orphan = self._orphans.claim(spec.task_id, attempt) if is_here else None
        if orphan is None:
            task.send(NotHeld())
            return
        run = RunRecord(task, spec, attempt, orphan.expected_us, adopt.account, self._peer.connection_number)
        run.was_adopted = True
        self._runs[spec.task_id] = run
        if adopt.needs is not None:
            self._allocations.add(spec.task_id, adopt.needs, 0)
        task.send(RunAdopted(self.actor_ref, attempt))
        if orphan.result is not None:  # its place is free already
            run.counted = run.expected_us = 0
            self._finish(Batch[RunResult]([orphan.result]))
        elif orphan.is_blocked:
            run.block()
        self._report_allocations([spec.task_id])

    # Questions of clients

    @handles(ExplainRun)
    def _explain(self, asked: ExplainRun) -> None:
        run = self._runs.get(asked.task_id)
        if run is None:
            return
        if run.canceled or not self._peer.connection or len(self._questions) >= QUESTIONS_MOST:
            self._explain_run(asked)
            return
        self._questions.append(asked)
        self._outbox.put_unnumbered(self._peer, RunQuestion(asked.task_id, self._index, run.attempt))
        self.schedule(ANSWER_SECONDS, AnswerOverdue(asked))

    @handles(Batch[RunStatus])
    def _receive_status(self, batch: Batch[RunStatus]) -> None:
        for status in batch:
            where = status if self._run_of(status) is not None else None
            for asked in [asked for asked in self._questions if asked.task_id == status.task_id]:
                self._explain_run(asked, where)
                if asked.question.is_wanted and where is not None and status.state == RunState.NO_ROOM:
                    self._recall_run(RecallRun(status.task_id, status.attempt))  # after its return it is assigned next

    @handles(AnswerOverdue)
    def _overdue(self, overdue: AnswerOverdue) -> None:
        if any(asked is overdue.asked for asked in self._questions):
            self._explain_run(overdue.asked)

    @handles(ReportTaskOf)
    def _report_task_of(self, asked: ReportTaskOf) -> None:
        task_id = asked.task_id
        run = self._runs.get(task_id) or next(
            (run for run in self._runs.values() if run.spec.rows and row_of(run.spec, task_id) is not None), None
        )
        if run is not None:
            run.task.send(ReportTask(task_id))

    def _explain_run(self, asked: ExplainRun, where: RunStatus | None = None) -> None:
        self._questions = [each for each in self._questions if each is not asked]
        explain_run(asked, self.name, self._runs, not self._peer.connection, where)

    # Connection

    @handles(Resumed)
    def _resumed(self, resumed: Resumed) -> None:
        """Take tasks again, since the agent has reconnected."""
        if resumed.connection_number != self._peer.connection_number:
            return  # it has reconnected once more
        if self._in_balancer is InBalancer.OUT and self._phase is WorkerPhase.WORK:
            self._join()

    @handles(StartOver)
    def _start_over(self, started: StartOver) -> None:
        """Make the runs agree with the hello of the agent, in a new session.

        A run that the agent does not have has not started: return it to its task. Cancel runs that are unknown here.
        The agent reports blocked runs again.
        """
        if started.connection_number != self._peer.connection_number:
            return  # it has reconnected once more
        held = {run.task_id: run.attempt for run in started.held}
        self._ranges.update(run.attempt for run in started.held if run.is_row)
        for task_id, run in list(self._runs.items()):
            self._unblock_run(run)
            is_new = run.is_held or run.connection_number == started.connection_number
            if held.get(task_id) != run.attempt and not is_new:
                del self._runs[task_id]
                self._free(*run.load)
                run.task.send(
                    RunRecalled(run.attempt)
                    if started.is_complete
                    else RunLost(run.attempt, self.name, was_running=False, was_ordered=True)
                )
            elif run.canceled:
                self._outbox.put(self._peer, RunCancel(task_id, self._index, run.attempt, run.spec.rows))
        self._free(*self._orphans.keep_only(held))
        self._report_allocations()
        attempts = {run.attempt for run in self._runs.values()}
        for task_id, attempt in held.items():
            mine, orphan = self._runs.get(task_id), self._orphans.find(task_id, attempt)
            if mine is None and attempt in attempts:
                continue  # a row of a range
            if mine.attempt != attempt if mine is not None else (orphan is None or orphan.canceled):
                self._outbox.put(self._peer, RunCancel(task_id, self._index, attempt))
        self._resumed(Resumed(started.connection_number))

    @handles(ConnectionLost)
    def _connection_lost(self, lost: ConnectionLost) -> None:
        """Leave the balancer while the agent is disconnected. The worker keeps its tasks until the agent is lost."""
        if lost.connection_number == self._peer.connection_number:  # else it has reconnected already
            self._leave_balancer()
        freed = expected_us = 0
        for order in lost.unsent:
            run = self._runs.get(order.task_id)
            if run is not None and run.attempt == order.attempt:
                del self._runs[order.task_id]
                places, work_us = run.load
                freed += places
                expected_us += work_us
                run.task.send(RunLost(run.attempt, self.name, was_running=False, was_ordered=False))
        self._free(freed, expected_us)
        self._report_allocations()

    def _leave_balancer(self) -> None:
        if self._in_balancer is InBalancer.IN:
            self._in_balancer = InBalancer.LEAVING
            self._balancer.send(WorkerLeft(self.actor_ref))

    # Whether it takes tasks

    @handles(DrainWorker)
    def _drain(self, _drain: DrainWorker) -> None:
        """Take no new tasks. The worker finishes its present tasks, or returns them."""
        if self._phase is WorkerPhase.WORK:
            self._phase = WorkerPhase.DRAIN
            self._leave_balancer()

    @handles(CloseWorker)
    def _close(self, _close: CloseWorker) -> None:
        self._drain(DrainWorker())
        for run in list(self._runs.values()):
            if not (run.canceled or run.released):
                self._request_recall(run)

    @handles(OpenWorker)
    def _open(self, _open: OpenWorker) -> None:
        if self._phase is WorkerPhase.DRAIN:
            self._phase = WorkerPhase.WORK
            if self._in_balancer is InBalancer.OUT and self._peer.connection:
                self._join()

    @handles(StopWorker)
    def _stop_worker(self, stop: StopWorker) -> None:
        """Return all tasks, and end the proxy when no more mail can arrive."""
        self._phase = WorkerPhase.END
        self._leave_balancer()
        unacknowledged = {(order.task_id, order.attempt) for order in stop.unacknowledged}
        self._give_back(stop.was_lost, unacknowledged, stop.values, stop.awaited)
        if self._in_balancer is InBalancer.OUT:
            self.stop_now()

    @handles(WorkerForgotten)
    def _forgotten(self, _forgotten: WorkerForgotten) -> None:
        self._in_balancer = InBalancer.OUT
        if self._phase is WorkerPhase.END:
            self.stop_now()
        elif self._phase is WorkerPhase.WORK and self._peer.connection:
            self._join()  # it has reconnected meanwhile

    def on_failure(self, *_error: object) -> None:
        self._balancer.send(WorkerFailed(self.actor_ref))
        self._give_back(was_lost=True, unacknowledged=set())

    def _give_back(
        self,
        was_lost: bool,
        unacknowledged: set[tuple[TaskId, int]],
        values: frozenset[ObjectId] = frozenset(),
        awaited: frozenset[ObjectId] = frozenset(),
    ) -> None:
        suspects: set[ActorRef] = set()
        if values:  # runs that need one of them have not started
            needing = (run for run in self._runs.values() if _needs(run, values))
            unacknowledged.update((run.spec.task_id, run.attempt) for run in needing)
        runs = [run for run in self._runs.values() if (run.spec.task_id, run.attempt) not in unacknowledged]
        if was_lost and not values:  # the oldest unblocked run was running, or one with the greatest priority
            suspects = {run.task for run in runs if run.released}
            others = [run for run in runs if not (run.released or run.is_held or (awaited and _needs(run, awaited)))]
            if others:
                suspects |= {others[0].task, max(others, key=lambda run: run.spec.priority).task}
        for run in self._runs.values():
            was_unacknowledged = was_lost and (run.spec.task_id, run.attempt) in unacknowledged
            is_suspect = run.task in suspects and not run.spec.rows  # it is unknown which row of a range ran
            run.task.send(RunLost(run.attempt, self.name, is_suspect, not run.is_held, was_unacknowledged))
        if self._runs:  # a session that has failed may be followed by another one of the same agent
            runs = [run for run in self._runs.values() if not run.spec.rows]
            self._adoption.send(RunsLost([(owner_of(run.account), run.spec.task_id, run.task) for run in runs]))
        self._runs, self._orphans = {}, Orphans()

    def check(self) -> None:
        assert self._phase is not WorkerPhase.END or not self._runs, "a worker that has ended has runs"
        for task_id, run in self._runs.items():
            assert task_id == run.spec.task_id
            assert self._orphans.find(task_id, run.attempt) is None, "a run of a task is orphaned too"
            assert run.released in (0, run.counted), "a blocked run gives up only a part of its slots"
        self._orphans.check()

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add("worker", self.name, self.statistics())

    def statistics(self) -> dict[str, int]:
        """Return the number of tasks at the worker, and the number of blocked tasks."""
        rows = sum(run.spec.rows or 1 for run in self._runs.values())
        return {"tasks": rows, "blocked_tasks": sum(run.released > 0 for run in self._runs.values())}


def _needs(run: RunRecord, values: frozenset[ObjectId]) -> bool:
    return not values.isdisjoint(split_ids(run.spec.object_ids))


def checked(rows: int, result: RunResult) -> RunResult:
    """Return the result of a range, or a failure if the result does not fit `rows` rows, or has unknown statuses."""
    n_rows, n_statuses = result.rows, len(result.statuses)
    is_early = result.status == TaskStatus.SUCCESS and n_rows < result.running <= rows
    if (is_early or (n_rows == rows and not result.running)) and n_statuses in (0, n_rows) and _are_known(result):
        return result
    what = f"{n_statuses:,} statuses" if _are_known(result) else "unknown statuses"
    text = f"its worker sent {n_rows:,} results and {what} for {rows:,} rows".encode()
    status = TaskStatus.INTERNAL_ERROR
    return replace(result, status=status, payload=text, rows=rows, statuses=b"", running=0)


def _are_known(result: RunResult) -> bool:
    return _STATUSES.issuperset(result.statuses)
