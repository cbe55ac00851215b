"""Workers as viewers show them: a row for each worker, made from items of its agent, and which workers look stuck."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from scaler.monitor.model.functions import percentile_us
from scaler.wire.messages.monitor import (
    HAS_TASK,
    INITIALIZED,
    PROCESSOR_ROW,
    REPORTS,
    SUSPENDED,
    TASK_LOCK,
    WORKER_ROW,
    StateAgent,
    StateFunction,
    StateProcessors,
    whole_rows,
)

STUCK_SECONDS = 60.0
QUIET_SECONDS = 30.0
QUIET_PERMILLE = 10
SEEN_SECONDS = 5.0
"""The silence of an agent after which viewers show the workers of the agent as silent."""


@dataclass(frozen=True)
class WorkerView:
    """One worker, as viewers show it. Unknown values are None."""

    key: tuple[bytes, int]
    """the short id of the agent, and the position of the worker in this agent; names are not unique"""
    name: str
    host: str
    agent: StateAgent
    free: int | None = None
    cpu_permille: int | None = None
    sent: int | None = None
    queued: int | None = None
    suspended: int | None = None
    flags: int | None = None
    rss_bytes: int | None = None
    function: bytes = b""
    running_ms: int = 0
    ended: int | None = None

    @property
    def seen_seconds(self) -> float:
        """Seconds since the last message of the worker's agent."""
        return self.agent.seen_ms / 1000

    @property
    def is_busy(self) -> bool:
        """Whether the worker executes a task now."""
        return bool((self.flags or 0) & HAS_TASK) and not (self.flags or 0) & TASK_LOCK

    @property
    def reports(self) -> bool:
        """Whether the task of the worker has recently reported progress."""
        return bool((self.flags or 0) & REPORTS)

    @property
    def is_stopped(self) -> bool:
        """Whether the process that executes a task was stopped, for instance by `kill -STOP`."""
        return self.is_busy and bool((self.flags or 0) & SUSPENDED)

    @property
    def marks(self) -> str:
        """Three digits, 1 or 0: the worker is initialized, the worker has a task, the task waits for other tasks."""
        if self.flags is None:
            return "---"
        flags = self.flags | (TASK_LOCK if self.suspended else 0)
        return "".join("01"[bool(flags & flag)] for flag in (INITIALIZED, HAS_TASK, TASK_LOCK))


@dataclass(frozen=True)
class ProcessorView:
    """A process of a worker, as viewers show it."""

    agent: bytes
    pid: int
    position: int
    flags: int
    cpu_permille: int
    running_ms: int
    rss_bytes: int
    peak_bytes: int
    task: bytes
    function: bytes


def workers_of(agent: StateAgent, queue_size: int) -> Iterator[WorkerView]:
    """Yield the workers of an agent. Before the first report of the agent, yield the workers that its hello named."""
    names = agent.worker_names.split(",") if agent.worker_names else []
    rows = list(whole_rows(WORKER_ROW, agent.workers))
    for position in range(max(len(names), len(rows))):
        name = names[position] if position < len(names) else f"{agent.host}:{agent.pid}/{position}"
        key = (agent.agent, position)
        if position >= len(rows):
            yield WorkerView(key, name, agent.host, agent)
            continue
        cpu, sent, queued, suspended, flags, rss, function, running_ms, ended = rows[position]
        free = max(0, queue_size - sent) if queue_size else None
        process = (cpu, rss) if rss else (None, None)  # tasks run in threads, or in processes of an engine
        load = (free, process[0], sent, queued, suspended, flags, process[1])
        yield WorkerView(key, name, agent.host, agent, *load, function if any(function) else b"", running_ms, ended)


def processors_of(state: StateProcessors) -> Iterator[ProcessorView]:
    """Yield the processes of an agent's workers."""
    for *numbers, task, function in whole_rows(PROCESSOR_ROW, state.processors):
        ids = (each if any(each) else b"" for each in (task, function))
        yield ProcessorView(state.agent, *numbers, *ids)


class Stuck:
    """Finds the workers that look stuck, and why."""

    def __init__(self) -> None:
        self._quiet_since: dict[tuple[bytes, int], tuple[int, float]] = {}
        self.reasons: dict[tuple[bytes, int], str] = {}

    def update(self, workers: Iterable[WorkerView], functions: Mapping[bytes, StateFunction], now: float) -> None:
        """Find the workers that look stuck, from a new snapshot. Call this once for each snapshot."""
        quiet_since: dict[tuple[bytes, int], tuple[int, float]] = {}
        self.reasons = {}
        for worker in workers:
            quiet_seconds = 0.0
            if worker.is_busy and worker.rss_bytes and (worker.cpu_permille or 0) < QUIET_PERMILLE:
                running_ms, since = self._quiet_since.get(worker.key, (0, now))
                since = since if worker.running_ms >= running_ms else now
                quiet_since[worker.key] = worker.running_ms, since
                quiet_seconds = now - since
            reason = _reason(worker, functions.get(worker.function), quiet_seconds)
            if reason:
                self.reasons[worker.key] = reason
        self._quiet_since = quiet_since


def _reason(worker: WorkerView, function: StateFunction | None, quiet_seconds: float) -> str:
    if worker.seen_seconds > SEEN_SECONDS:
        return f"no message for {worker.seen_seconds:.0f} s"
    if not worker.is_busy or (worker.reports and not worker.is_stopped):
        return ""
    seconds = worker.running_ms / 1000
    if worker.is_stopped and seconds > SEEN_SECONDS:
        return f"its process has been stopped for up to {seconds:.0f} s: kill -CONT resumes it"
    usual_us = percentile_us(function, 0.95) if function else None
    usual = (usual_us or 0.0) / 1e6
    if usual_us is not None and seconds > max(STUCK_SECONDS, 10 * usual):
        return f"its task has run for {seconds:.0f} s; 95 % of the runs of its function take less than {usual:.1f} s"
    if seconds > usual and quiet_seconds >= QUIET_SECONDS:
        return f"its task has run for {seconds:.0f} s and used no processor time for {quiet_seconds:.0f} s"
    return ""
