"""Views of workers, of their hosts, agents and processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from scaler.monitor import units
from scaler.monitor.model.values import HostValues, values_by_host
from scaler.monitor.model.workers import SEEN_SECONDS, ProcessorView, WorkerView
from scaler.monitor.units import natural
from scaler.monitor.views.field_types import BYTES, COUNT, NAME, PID, SECONDS, SHARE, STATE, TEXT
from scaler.monitor.views.view import (
    FINE,
    FLAG,
    LANE,
    LOST,
    STUCK,
    TABLE,
    Empty,
    Field,
    Part,
    View,
    ViewState,
    counter,
    fact,
    gauge,
    hidden,
    known,
    scaled,
)
from scaler.wire.messages.monitor import HAS_TASK, INITIALIZED, SUSPENDED, TASK_LOCK

WORKERS_MOST = 2_000
"""The most workers, and the most agents, that have metrics of their own."""
_FLAGS = ((INITIALIZED, "ready"), (HAS_TASK, "has a task"), (SUSPENDED, "suspended"), (TASK_LOCK, "waits for tasks"))
_NO_WORKERS = Empty("No worker is connected. Run this on each host:", "scaler_cluster ADDRESS")


@dataclass(frozen=True)
class WorkersOfHost:
    """The workers of one host, as the subject of a row."""

    host: str
    workers: list[WorkerView]

    @cached_property
    def agents(self) -> list[WorkerView]:
        """For each agent of the host, one of its workers."""
        return list({worker.agent.agent: worker for worker in self.workers}.values())

    @cached_property
    def values(self) -> HostValues:
        """The values that the agents of the host store."""
        return values_by_host(worker.agent for worker in self.agents).get(self.host, HostValues())


class WorkerProcess(NamedTuple):
    """A process of a worker, as the subject of a row; the worker may be unknown."""

    process: ProcessorView
    worker: WorkerView | None


def _by_name(state: ViewState) -> list[WorkerView]:
    workers = sorted(state.model.workers, key=lambda each: natural(each.name))
    return [*workers, *(worker for worker, _ in state.departed.values())]


def _hosts(state: ViewState) -> list[WorkersOfHost]:
    groups: dict[str, list[WorkerView]] = {}
    for worker in state.model.workers:
        groups.setdefault(worker.host, []).append(worker)
    return [WorkersOfHost(host, groups[host]) for host in sorted(groups, key=natural)]


def _processes(state: ViewState) -> list[WorkerProcess]:
    workers = {worker.key: worker for worker in state.model.workers}
    found = [WorkerProcess(each, workers.get((each.agent, each.position))) for each in state.model.processors]
    return sorted(found, key=lambda each: (natural(each.worker.name if each.worker else "~"), each.process.pid))


def _of_agent(name: str, *, is_known: bool = True) -> Callable[[ViewState, Any], Any]:
    value = known(name) if is_known else scaled(name)
    return lambda state, each: value(state, each.agent)


def _agent_cpu(_: ViewState, worker: WorkerView) -> float | None:
    return worker.agent.cpu_permille / 1000 if worker.agent.pid else None


def _lag(_: ViewState, worker: WorkerView) -> float | None:
    """Return the lag of a worker, or the silence of its agent if that is longer and exceeds `SEEN_SECONDS`."""
    silence = worker.seen_seconds if worker.seen_seconds > SEEN_SECONDS else 0.0
    return max(worker.agent.lag_us / 1e6, silence) or None


def _lag_text(value: Callable[[ViewState, Any], float | None]) -> Callable[[ViewState, Any, int], str]:
    def text(state: ViewState, each: Any, width: int) -> str:
        seconds = value(state, each)
        is_silence = seconds is not None and seconds > SEEN_SECONDS
        return f"({units.ago(seconds)})" if seconds is not None and is_silence else SECONDS.text(seconds, width)

    return text


def _function(state: ViewState, worker: WorkerView) -> str | None:
    return state.model.function_name(worker.function) if worker.is_busy and worker.function else None


def _state(state: ViewState, worker: WorkerView) -> str:
    if worker.key in state.departed:
        return "gone"
    if worker.agent.is_leaving:
        return ("draining", "lost")[worker.agent.is_leaving != 1]
    if worker.flags is None:
        return "starting"
    return "stopped" if worker.is_stopped else "busy" if worker.is_busy else "idle"


def _reason(state: ViewState, worker: WorkerView) -> str:
    return state.model.stuck.reasons.get(worker.key, "")


def _is_busy(_: ViewState, worker: WorkerView) -> bool | None:
    return worker.is_busy if worker.flags is not None else None


def _ago(name: Callable[[ViewState, Any], float]) -> Callable[[ViewState, Any, int], str]:
    return lambda state, each, _: units.ago(name(state, each))


_SEEN = _of_agent("seen_ms", is_known=False)
_LOAD = (
    Field("agent_cpu", SHARE, _agent_cpu, "Agent", "processor time of the agent, the process that starts the workers",
          "agt_cpu", 7, "C", old=("agent_cpu_permille",)),
    Field("agent_rss", BYTES, _of_agent("rss_bytes"), "Agent memory", "memory of the agent", "agt_rss", 7, "M",
          old=("agent_rss_bytes",)),
    Field("cpu", SHARE, scaled("cpu_permille"), "CPU", "processor time of the worker's processes; 100% is one core",
          width=5, key="c", old=("cpu_permille",), metric=gauge("scaler_worker_cpu_cores")),
    Field("rss", BYTES, scaled("rss_bytes"), "Memory", "memory of the worker's processes; k m g t are of 1024",
          width=6, key="m", old=("rss_bytes",), metric=gauge("scaler_worker_resident_memory_bytes")),
    Field("rss_free", BYTES, _of_agent("free_bytes"), "Host free", "memory that the host has left", width=6, key="F",
          old=("rss_free_bytes",)),
    Field("free", COUNT, scaled("free"), "Free", "how many more tasks fit", width=4, key="f"),
    Field("sent", COUNT, scaled("sent"), "Sent", "tasks that the worker has", width=4, key="w",
          metric=gauge("scaler_worker_tasks")),
    Field("queued", COUNT, scaled("queued"), "Queued", "of these, tasks that have not started", width=6, key="d",
          metric=gauge("scaler_worker_queued_tasks")),
    Field("suspended", COUNT, scaled("suspended"), "Suspended", "blocked tasks: others run in their place", width=5,
          key="s", metric=gauge("scaler_worker_suspended_tasks")),
    Field("lag", SECONDS, _lag, "Lag", "a message to the agent and back;  (12s): silent for this time", width=5,
          key="l", shown=_lag_text(_lag), old=("lag_us",)),
    Field("marks", TEXT, lambda _, each: each.marks, "ITL",
          "1 or 0: initialized, has a task, its task waits for others (lock)", "ITL", 3, on_right=True, old=("itl",)),
)  # fmt: skip
_LESS = ("agent_rss", "agent_cpu", "suspended", "rss_free", "free", "marks", "lag", "queued", "sent", "rss", "cpu")


def _runs_at(state: ViewState, _: Any, worker: WorkerView | None) -> Iterable[WorkerProcess]:
    return [each for each in _processes(state) if worker is not None and each.worker is not None
            and each.worker.key == worker.key]  # fmt: skip


def _tasks_at(state: ViewState, _: Any, worker: WorkerView | None) -> Iterable[Any]:
    return [task for task in reversed(state.model.tasks.values()) if worker is not None and task.worker == worker.name]


WORKERS = View(
    "workers", "worker", "Workers", _by_name, lambda each: each.key,
    (
        Field("name", NAME, scaled("name"), "Worker", "the name of the worker", "worker", key="n"),
        *_LOAD,
        Field("function", NAME, _function, "Runs", "the function of the task that it executes", "runs", 14,
              is_wide=True, link=("functions", lambda _, each: each.function if each.is_busy else b"")),
        Field("running", SECONDS, lambda _, each: each.running_ms / 1000 if each.is_busy else None, "For",
              "how long it has executed this task", "for", 5, is_wide=True, old=("running_ms",)),
        fact("state", STATE, _state, "State", "idle, busy, starting, stopped, draining, lost or gone"),
        fact("host", NAME, scaled("host"), "Host", "the host of the worker",
             link=("hosts", lambda _, each: each.host)),
        fact("seen", SECONDS, _SEEN, "Seen", "time since the last message of its agent", shown=_ago(_SEEN),
             old=("seen_seconds",)),
        hidden("busy", COUNT, _is_busy, "Busy", "whether it executes a task", is_fact=False,
               metric=gauge("scaler_worker_busy")),
        hidden("ended", COUNT, scaled("ended"), "Runs ended", "runs that have ended", "ended",
               metric=counter("scaler_worker_runs_ended")),
        hidden("agent_pid", PID, _of_agent("pid"), "Agent process", "the process id of its agent", "agent"),
        hidden("engine", TEXT, _of_agent("engine"), "Engine", "what executes its tasks"),
        hidden("python", TEXT, _of_agent("python_version"), "Python", "its version of Python"),
        hidden("capabilities", TEXT, _of_agent("capabilities"), "Capabilities", "what tasks may request of it",
               "has"),
        hidden("stuck", TEXT, lambda state, each: _reason(state, each) or None, "Stuck?", "why it looks stuck",
               is_fact=False, bad=True),
    ),
    "name", _NO_WORKERS, "This worker is no longer connected.",
    detail_topic="processors", less=_LESS, first_width=11, first_most=36,
    mark=lambda state, each: STUCK if each.key in state.model.stuck.reasons
    else LOST if each.key in state.departed else FINE,
    flag=_reason, group=lambda state, each: each.key in state.departed,
    gone_seconds=lambda state, each: state.departed[each.key][1] if each.key in state.departed else None,
    texts=lambda state, each: (each.name, each.host, state.model.function_name(each.function)),
    parts=(
        Part(TABLE, "processes", _runs_at, "processors", ("name", "host"), is_always=True),
        Part(LANE, "the last minutes", lambda state, key, _: state.lane(key)),
        Part(TABLE, "tasks", _tasks_at, "tasks", ("worker",), most=50),
    ),
    labels=(("agent", lambda each: each.agent.agent.hex()), ("host", lambda each: each.host),
            ("worker", lambda each: each.name)),
    metrics_most=WORKERS_MOST,
    page_sort=FLAG,
    total=lambda state: state.model.worker_count,
)  # fmt: skip


_COMBINED: dict[str, tuple[bool, Callable[[Iterable[Any]], Any]]] = {
    "agent_cpu": (True, sum),
    "agent_rss": (True, sum),
    "rss_free": (True, max),
    "lag": (True, max),
}
"""Of columns that are not sums over workers: whether each agent counts once, and how values are combined."""


def _of_host(column: Field) -> Field:
    of_agent, combine = _COMBINED.get(column.name, (False, sum))

    def value(state: ViewState, each: WorkersOfHost) -> Any:
        values = [column.value(state, worker) for worker in (each.agents if of_agent else each.workers)]
        values = [value for value in values if value is not None]
        return combine(values) if values else None

    shown = _lag_text(value) if column.name == "lag" else None
    return replace(column, value=value, shown=shown, metric=None, old=())


def _of_values(name: str, heading: str, meaning: str, old: str) -> Field:
    def value(_: ViewState, each: WorkersOfHost) -> int | None:
        amount = getattr(each.values, old)
        return amount or None if old.endswith("_most") else int(amount)

    return fact(name, COUNT if old == "held" else BYTES, value, heading, meaning, bad=old == "held",
                 old=(old,))  # fmt: skip


def _agents_of(state: ViewState, host: str, _: Any) -> Iterable[Any]:
    return [each for each in state.model.agents.values() if each.host == host]


HOSTS = View(
    "hosts", "host", "Hosts", _hosts, lambda each: each.host,
    (
        Field("name", NAME, lambda _, each: each.host, "Host", "the name of the host", "host", key="n",
              shown=lambda _, each, __: f"{each.host} {sum(map(_busy, each.workers))}/{len(each.workers)}"),
        *(_of_host(column) for column in _LOAD if column.name != "marks"),
        fact("workers", COUNT, lambda _, each: len(each.workers), "Workers", "workers of the host"),
        fact("busy", COUNT, lambda _, each: sum(map(_busy, each.workers)), "Busy", "workers that execute a task"),
        _of_values("memory", "Values", "bytes of values in shared memory", "hot"),
        _of_values("memory_limit", "Most", "the limit of values in shared memory", "hot_most"),
        _of_values("disk", "On disk", "bytes of values on disk", "cold"),
        _of_values("disk_limit", "Disk most", "the limit of values on disk; set it with --spill-folder", "cold_most"),
        _of_values("written", "Written", "bytes of values written to disk", "spilled"),
        _of_values("read_back", "Read back", "bytes of values read back from disk", "read"),
        _of_values("paused", "Paused", "workers that are paused, because memory and disk for values are full", "held"),
    ),
    "name", _NO_WORKERS, "This host has no workers.", topics=("workers",),
    less=tuple(name for name in _LESS if name != "marks"), first_width=11, first_most=36,
    mark=lambda state, each: STUCK if any(worker.key in state.model.stuck.reasons for worker in each.workers)
    else FINE,
    texts=lambda _, each: (each.host,),
    parts=(
        Part(TABLE, "agents", _agents_of, "agents", ("host",)),
        Part(TABLE, "workers", lambda state, host, _: [each for each in _by_name(state) if each.host == host],
             "workers", ("host",)),
    ),
)  # fmt: skip


def _busy(worker: WorkerView) -> bool:
    return worker.is_busy


AGENTS = View(
    "agents", "agent", "Agents", lambda state: state.model.agents.values(), lambda each: each.agent,
    (
        Field("name", NAME, lambda _, each: f"process {each.pid or units.UNKNOWN}", "Agent",
              "the process that starts workers", "agent", key="n"),
        Field("host", NAME, scaled("host"), "Host", "its host", width=14, link=("hosts", lambda _, each: each.host)),
        Field("cpu", SHARE, lambda _, each: each.cpu_permille / 1000 if each.pid else None, "CPU",
              "its processor time", width=6, key="c", metric=gauge("scaler_agent_cpu_cores")),
        Field("rss", BYTES, known("rss_bytes"), "Memory", "its memory", width=6, key="m",
              metric=gauge("scaler_agent_resident_memory_bytes")),
        Field("rss_free", BYTES, known("free_bytes"), "Host free", "memory that its host has left", width=8, key="F",
              metric=gauge("scaler_agent_host_free_memory_bytes")),
        Field("lag", SECONDS, known("lag_us"), "Lag", "a message to it and back", width=5, key="l",
              metric=gauge("scaler_agent_lag_seconds")),
        Field("seen", SECONDS, scaled("seen_ms"), "Seen", "time since its last message", width=5, key="s",
              shown=_ago(scaled("seen_ms")), metric=gauge("scaler_agent_seen_seconds")),
        Field("state", STATE, lambda _, each: ("connected", "draining", "lost")[min(each.is_leaving, 2)], "State",
              "connected, draining or lost", width=9),
        fact("engine", TEXT, known("engine"), "Engine", "what executes tasks"),
        fact("python", TEXT, known("python_version"), "Python", "its version of Python"),
        fact("capabilities", TEXT, known("capabilities"), "Capabilities", "what tasks may request", "has"),
        fact("memory", BYTES, scaled("hot_bytes"), "Values", "bytes of values in shared memory",
             metric=gauge("scaler_agent_values_memory_bytes")),
        fact("memory_limit", BYTES, known("hot_most_bytes"), "Most", "the limit of values in shared memory",
             metric=gauge("scaler_agent_values_memory_limit_bytes")),
        fact("disk", BYTES, scaled("cold_bytes"), "On disk", "bytes of values on disk",
             metric=gauge("scaler_agent_values_disk_bytes")),
        fact("disk_limit", BYTES, known("cold_most_bytes"), "Disk most", "the limit of values on disk",
             metric=gauge("scaler_agent_values_disk_limit_bytes")),
        fact("written", BYTES, scaled("spilled_bytes"), "Written", "bytes of values written to disk",
             metric=counter("scaler_agent_values_spilled_bytes")),
        fact("read_back", BYTES, scaled("read_bytes"), "Read back", "bytes of values read back from disk",
             metric=counter("scaler_agent_values_read_bytes")),
        fact("paused", COUNT, scaled("held_workers"), "Paused",
             "workers that are paused, because memory and disk for values are full", bad=True,
             metric=gauge("scaler_agent_held_workers")),
    ),
    "host", _NO_WORKERS, "This agent is no longer connected.", topics=("workers",),
    less=("seen", "lag", "rss_free", "state"),
    mark=lambda _, each: LOST if each.is_leaving > 1 else FINE,
    labels=(("agent", lambda each: each.agent.hex()), ("host", lambda each: each.host)),
    metrics_most=WORKERS_MOST,
    parts=(
        Part(TABLE, "workers", lambda state, key, _: [each for each in _by_name(state) if each.agent.agent == key],
             "workers"),
    ),
)  # fmt: skip


def _process(name: str, *, is_known: bool = False) -> Callable[[ViewState, Any], Any]:
    value = known(name) if is_known else scaled(name)
    return lambda state, each: value(state, each.process)


def _process_flags(_: ViewState, each: WorkerProcess) -> str:
    return ", ".join(text for flag, text in _FLAGS if each.process.flags & flag)


PROCESSORS = View(
    "processors", "process", "Processes", _processes,
    lambda each: (each.process.agent, each.process.position, each.process.pid),
    (
        Field("name", NAME, lambda _, each: each.worker.name if each.worker else None, "Worker",
              "the worker of the process", "worker", key="n",
              link=("workers", lambda _, each: each.worker.key if each.worker else None)),
        Field("pid", PID, _process("pid"), "Process", "its process id", width=7, key="p"),
        Field("cpu", SHARE, _process("cpu_permille"), "CPU", "its processor time", width=6, key="c"),
        Field("rss", BYTES, _process("rss_bytes", is_known=True), "Memory", "its memory", width=6, key="m"),
        Field("peak", BYTES, _process("peak_bytes", is_known=True), "Most", "the most memory that it has used",
              width=6, key="M"),
        Field("flags", TEXT, _process_flags, "State", "ready, has a task, suspended, waits for tasks", width=22),
        Field("function", NAME,
              lambda state, each: state.model.function_name(each.process.function) if each.process.function else None,
              "Runs", "the function of its task", "runs", 14,
              link=("functions", lambda _, each: each.process.function)),
        Field("running", SECONDS, lambda _, each: each.process.running_ms / 1000 if each.process.task else None,
              "For", "how long it has executed its task", "for", 5),
        fact("task", TEXT, lambda _, each: each.process.task.hex() or None, "Task", "its task",
             link=("tasks", lambda _, each: each.process.task)),
        fact("host", NAME, lambda _, each: each.worker.host if each.worker else None, "Host", "its host",
             link=("hosts", lambda _, each: each.worker.host if each.worker else "")),
    ),
    "name", Empty("No process has been reported.", loading="processors"), "This process has ended.",
    leads=lambda _, each: ("tasks", each.process.task) if each.process.task else None,
    topics=("processors",), less=("peak", "flags", "running", "function"),
    texts=lambda state, each: (each.worker.name if each.worker else "", each.worker.host if each.worker else "",
                               state.model.function_name(each.process.function)),
)  # fmt: skip
