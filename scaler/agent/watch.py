"""AgentWatch: periodic reports of what the workers of an agent do, while the scheduler requests them (`WatchRequest`).

In each interval, the watch asks the workers for their runs and processes, the ledger for the tasks, and the system for
processor time and memory. If the executor lacks `ExecutorFeature.WATCH`, the report has only the tasks of the workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import reduce

from scaler.agent.ledger import Ledger
from scaler.agent.tally import NO_RUNS, Bin, Runs, Tally, merged
from scaler.agent.values import NodeValues
from scaler.executors.messages import ProcessNow, ReportRuns, WorkersView
from scaler.ids import ObjectId, TaskId, public_id
from scaler.kit import ActorRef
from scaler.message import message
from scaler.process.memory import resident_bytes
from scaler.process.meters import CpuMeter, host_free_bytes, peak_bytes
from scaler.store.store import StoreGauges
from scaler.wire.messages.common import RunState
from scaler.wire.messages.monitor import (
    BIN_ROW,
    FUNCTION_ROW,
    HAS_TASK,
    INITIALIZED,
    PROCESSOR_ROW,
    REPORTS,
    RUN_ROW,
    SUSPENDED,
    TASK_LOCK,
    WORKER_ROW,
)
from scaler.wire.messages.rows import row_of
from scaler.wire.messages.worker import AgentState, RunQuestion, RunStatus, RunTask, WatchedPart

LEAST_SECONDS = 0.2
"""The shortest interval of reports that a scheduler may request."""

FUNCTIONS_MOST = 1000
"""The largest number of functions in one report: those with the longest total time. One more row sums up all others."""

REPORT_SECONDS = 30.0
"""The age up to which a progress report counts as recent. A task without a recent report may be stuck."""

_UINT32_MOST, _UINT16_MOST = 2**32 - 1, 2**16 - 1


@message
class WatchDue:
    """Link to itself, by timer: send a report for the request with this number, unless a later request has arrived."""

    number: int


@message
class ReportDue:
    """Link to itself: the workers have added their runs to `view`, so the report can be sent."""

    view: WorkersView
    number: int


class _Totals:
    """The sums over the processes of one worker."""

    __slots__ = ("cpu_permille", "executing", "first", "flags", "resident_bytes", "suspended")

    def __init__(self) -> None:
        self.cpu_permille = self.resident_bytes = self.suspended = self.executing = self.flags = 0
        self.first: ProcessNow | None = None
        """the process that holds the slot of the worker"""


class AgentWatch:
    """Makes the reports of one agent.

    Args:
        workers: the workers that report runs and processes; empty if the executor cannot report these.
        count: the number of all workers.
        reported: for each worker, the task that last reported its progress, and when.
    """

    def __init__(
        self,
        host: str,
        engine: str,
        workers: Sequence[ActorRef],
        count: int,
        ledger: Ledger,
        reported: Mapping[int, tuple[TaskId, float]],
        values: NodeValues | None = None,
    ) -> None:
        self._host = host
        self._engine = engine
        self._workers = workers
        self._count = count
        self._ledger = ledger
        self._reported = reported
        self.shown = count
        """how many workers have rows in the report, counted from the first one; all other workers take no tasks now"""
        self._gauges = StoreGauges if values is None else values.gauges
        self._values = values
        self._parts = WatchedPart(0)
        self._meter = CpuMeter()
        self._last: tuple[float, float] | None = None
        """the time of the last report, and the processor time of this process at that time"""
        self.number = 0
        self.interval_seconds = 0.0
        """the time between two reports; 0: no reports are requested"""

    def request(self, interval_ms: int, parts: int) -> None:
        """Change the interval and the parts of the reports. An interval of 0 ends the reports."""
        self.number += 1
        self.interval_seconds = max(LEAST_SECONDS, interval_ms / 1000) if interval_ms else 0.0
        self._parts = WatchedPart(parts & int(~WatchedPart(0)))
        if not interval_ms:
            self._ledger.tally, self._last, self._meter = None, None, CpuMeter()
        elif self._ledger.tally is None:
            self._ledger.tally = Tally()

    @property
    def can_look(self) -> bool:
        """Whether the workers can report what they execute."""
        return bool(self._workers)

    def look(self) -> WorkersView:
        """Ask the workers for their runs. Mail that the link then sends to itself arrives after the answers."""
        view = WorkersView()
        for worker in self._workers:
            worker.notify(ReportRuns(view))
        return view

    def report(self, view: WorkersView, now: float, lag_us: int) -> AgentState:
        """Return a report of the workers, runs, functions and memory of the agent."""
        parts, tally = self._parts, self._ledger.tally
        assert tally is not None, "no report is requested"
        open_tasks = self._ledger.open_by_worker_and_function()
        bins, functions = tally.take(
            (process.task, int(process.ran_seconds * 1e6))
            for process in view.processes
            if process.task is not None and not process.is_waiting
        )
        short = _ShortIds()
        totals = [_Totals() for _ in range(self._count)]
        processors = self._processors(view, now, totals, short)
        for worker, (task_id, at) in self._reported.items():
            first = totals[worker].first if worker < self._count else None
            if first is not None and first.task is not None and first.task.task_id == task_id:
                totals[worker].flags |= REPORTS * (now - at < REPORT_SECONDS)
        pids = {process.pid for process in view.processes if process.pid}
        self._meter.keep_only(pids)
        if not pids:  # the workers have no processes of their own
            for total in totals:
                total.flags |= INITIALIZED
        return AgentState(
            self._host,
            self._engine,
            os.getpid(),
            self._own_cpu(now),
            resident_bytes(),
            host_free_bytes(),
            lag_us,
            _worker_rows(totals[: self.shown], open_tasks, tally, short) if parts & WatchedPart.WORKERS else b"",
            processors if parts & WatchedPart.PROCESSORS else b"",
            _bin_rows(bins, short) if parts & WatchedPart.BINS else b"",
            _function_rows(functions, open_tasks, short) if parts & WatchedPart.FUNCTIONS else b"",
            _run_rows(view, short) if parts & WatchedPart.RUNS else b"",
            *self._gauges(),
            0 if self._values is None else len(self._values.room.held),
        )

    def _own_cpu(self, now: float) -> int:
        cpu = time.process_time()
        last, self._last = self._last, (now, cpu)
        return 0 if last is None or now <= last[0] else round(1000 * (cpu - last[1]) / (now - last[0]))

    def _processors(self, view: WorkersView, now: float, totals: list[_Totals], short: _ShortIds) -> bytes:
        """Return the rows of all processes, and add their figures to the totals."""
        wants_rows = bool(self._parts & WatchedPart.PROCESSORS)
        rows = []
        for process in view.processes:
            cpu_permille, reading = self._meter.look(process.pid, now) if process.pid else (0, None)
            resident = 0 if reading is None else reading.resident_bytes
            flags = INITIALIZED
            task = process.task
            if task is not None:
                flags |= HAS_TASK
            if process.is_waiting:
                flags |= TASK_LOCK
            if reading is not None and reading.is_stopped:
                flags |= SUSPENDED
            _add(totals[process.worker], process, cpu_permille, resident, flags)
            if wants_rows:
                rows.append(
                    PROCESSOR_ROW.pack(
                        process.pid,
                        process.worker,
                        flags,
                        cpu_permille,
                        _milliseconds(process.ran_seconds) if task is not None else 0,
                        resident,
                        peak_bytes(process.pid) if process.pid else 0,
                        short.of(task.task_id) if task is not None else b"",
                        short.of(task.function_id) if task is not None else b"",
                    )
                )
        return b"".join(rows)


class _ShortIds:
    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def of(self, secret: bytes) -> bytes:
        known = self._known.get(secret)
        if known is None:
            known = self._known[secret] = public_id(secret)
        return known


def _add(total: _Totals, process: ProcessNow, cpu_permille: int, resident: int, flags: int) -> None:
    total.cpu_permille += cpu_permille
    total.resident_bytes += resident
    total.flags |= flags & INITIALIZED
    if process.is_waiting:
        total.suspended += 1
    elif process.task is not None:
        total.executing += 1
        total.flags |= flags
        if total.first is None:
            total.first = process


def _milliseconds(seconds: float) -> int:
    return min(_UINT32_MOST, max(0, int(seconds * 1000)))


def _worker_rows(
    totals: list[_Totals], open_tasks: dict[tuple[int, ObjectId], int], tally: Tally, short: _ShortIds
) -> bytes:
    tasks = [0] * len(totals)
    for (worker, _), count in open_tasks.items():
        if worker < len(tasks):
            tasks[worker] += count
    rows = []
    for worker, total in enumerate(totals):
        task = None if total.first is None else total.first.task
        rows.append(
            WORKER_ROW.pack(
                total.cpu_permille,
                tasks[worker],
                max(0, tasks[worker] - total.executing - total.suspended),
                total.suspended,
                total.flags,
                total.resident_bytes,
                short.of(task.function_id) if task is not None else b"",
                _milliseconds(total.first.ran_seconds) if total.first is not None else 0,
                tally.ended[worker] & _UINT32_MOST,
            )
        )
    return b"".join(rows)


def _bin_rows(bins: dict[int, Bin], short: _ShortIds) -> bytes:
    return b"".join(
        BIN_ROW.pack(worker, min(_UINT32_MOST, each.busy_us // 1000), *each.outcomes, short.of(each.main_function))
        for worker, each in bins.items()
    )


def _function_rows(
    functions: dict[ObjectId, Runs], open_tasks: dict[tuple[int, ObjectId], int], short: _ShortIds
) -> bytes:
    open_counts: dict[ObjectId, int] = {}
    for (_, function_id), count in open_tasks.items():
        open_counts[function_id] = open_counts.get(function_id, 0) + count
    for function_id in open_counts:
        functions.setdefault(function_id, [*NO_RUNS])
    longest = sorted(functions, key=lambda each: functions[each][0], reverse=True)
    rows = [
        _function_row(short.of(each), open_counts.get(each, 0), functions[each]) for each in longest[:FUNCTIONS_MOST]
    ]
    others = longest[FUNCTIONS_MOST:]
    if others:
        runs = reduce(merged, (functions[each] for each in others))
        rows.append(_function_row(b"", sum(open_counts.get(each, 0) for each in others), runs))
    return b"".join(rows)


def _function_row(short_id: bytes, open_count: int, runs: Runs) -> bytes:
    total_us, least_us, most_us, *buckets = runs
    return FUNCTION_ROW.pack(
        short_id, min(_UINT32_MOST, open_count), total_us, least_us if any(buckets) else 0, most_us, *buckets
    )


def _run_rows(view: WorkersView, short: _ShortIds) -> bytes:
    running = [process for process in view.processes if process.task is not None]
    running.sort(key=lambda process: process.ran_seconds, reverse=True)
    rows = []
    for process in running:
        task = process.task
        assert task is not None
        flags = HAS_TASK | (TASK_LOCK if process.is_waiting else 0)
        milliseconds = _milliseconds(process.ran_seconds)
        rows.append(RUN_ROW.pack(task.task_id, process.worker, flags, milliseconds, short.of(task.function_id)))
    return b"".join(rows)


# The state of a run, for a client that asks why its task does not end.


@message
class RunStatusDue:
    """Link to itself: the workers have added their runs to `view`, which is None if the workers cannot report runs."""

    questions: Iterable[RunQuestion]
    view: WorkersView | None


def run_statuses(
    questions: Iterable[RunQuestion], view: WorkersView | None, ledger: Ledger, held: Container[int] = ()
) -> Iterator[RunStatus]:
    """Answer the questions about open runs. All other runs have ended, and their results will reach the scheduler.

    Args:
        view: what the workers execute; None: the workers cannot report that.
        held: the workers that are paused for lack of memory for results.
    """
    for question in questions:
        task = ledger.find(question.task_id, question.attempt)
        if task is None:
            continue
        if view is None:
            yield _answer(question, RunState.NOT_KNOWN)
        else:
            yield _found(question, task, view, RunState.NO_ROOM if task.worker in held else RunState.QUEUED)


def _found(question: RunQuestion, run: RunTask, view: WorkersView, else_state: RunState) -> RunStatus:
    first_seconds = 0.0
    for process in view.processes:
        task = process.task
        if task is None or process.worker != run.worker:
            continue
        if task.attempt == run.attempt and (task.task_id == run.task_id or row_of(run, task.task_id) is not None):
            state = RunState.WAITS if process.is_waiting else RunState.RUNS
            return _answer(question, state, process.ran_seconds, process.pid)
        if not process.is_waiting:
            first_seconds = max(first_seconds, process.ran_seconds)
    return _answer(question, else_state, first_seconds)


def _answer(question: RunQuestion, state: RunState, ran_seconds: float = 0.0, pid: int = 0) -> RunStatus:
    return RunStatus(question.task_id, question.worker, question.attempt, state, _milliseconds(ran_seconds), pid)
