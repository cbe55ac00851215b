"""Metrics: the state of a cluster in the text format of Prometheus.

While the scheduler is silent, `scaler_up` is 0 and the metrics of the cluster are left out, so that diagrams have gaps
instead of old values. The number of time series is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from scaler.monitor.model.model import Model
from scaler.monitor.model.remaining import wanted_by_capabilities
from scaler.monitor.model.workers import run_counts
from scaler.wire.messages.monitor import StateFunction, StateScheduler

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
WORKERS_MOST = 2_000
"""The most workers, and the most agents, that have metrics of their own. `scaler_workers` counts all workers."""
NAMES_MOST = 256
"""The most functions, the most clients, and the most kinds of failures that have metrics of their own."""
_ENDS = ("success", "failed", "canceled", "other")
_WORKER_LABELS = ("agent", "host", "worker")


def exposition(model: Model, now: float) -> bytes:
    """Return the state of a model as metrics; `now`: seconds, by the same clock as in `Model.take`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(model, now))
    return generate_latest(registry)


class _Scrape(Collector):
    def __init__(self, model: Model, now: float) -> None:
        self._model = model
        self._now = now

    def collect(self) -> Iterator[Metric]:
        model = self._model
        is_live = model.scheduler is not None and model.silent_seconds(self._now) is None
        yield _gauge("scaler_up", "1 if the scheduler answers, else 0", int(is_live))
        text = "Messages of the monitor stream that were lost"
        yield CounterMetricFamily("scaler_monitor_missed_messages", text, value=model.missed)
        if model.scheduler is None or not is_live:
            return
        yield from _of_scheduler(model.scheduler)
        yield from _of_tasks(model, model.scheduler)
        yield from _of_functions(model)
        yield from _of_clients(model)
        yield from _of_agents(model)
        yield from _of_workers(model)
        yield from _of_failures(model)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _rows(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    text: str,
    labels: Iterable[str],
    rows: Iterable[tuple[Iterable[str], float]],
) -> Metric:
    family = kind(name, text, labels=list(labels))
    for values, amount in rows:
        family.add_metric(list(values), amount)
    return family


_gauges, _counters = partial(_rows, GaugeMetricFamily), partial(_rows, CounterMetricFamily)


def _of_scheduler(scheduler: StateScheduler) -> Iterator[Metric]:
    version = scheduler.package_version
    yield _gauges("scaler_build_info", "Version of the scheduler", ["version"], [([version], 1)])
    started = scheduler.started_us / 1e6
    yield _gauge("scaler_scheduler_start_time_seconds", "Start time of the scheduler, in seconds since 1970", started)
    cpu = scheduler.cpu_permille / 1000
    yield _gauge("scaler_scheduler_cpu_cores", "Cores that the scheduler uses, at most one", cpu)
    memory = scheduler.rss_bytes
    yield _gauge("scaler_scheduler_resident_memory_bytes", "Resident memory of the scheduler", memory)
    free = scheduler.free_bytes
    yield _gauge("scaler_scheduler_host_free_memory_bytes", "Free memory of the host of the scheduler", free)
    lags = [(["0.5"], scheduler.lag_us / 1e6), (["0.95"], scheduler.lag_most_us / 1e6)]
    yield _gauges("scaler_scheduler_loop_lag_seconds", "Delay of the event loop of the scheduler", ["quantile"], lags)
    yield _gauge("scaler_objects", "Objects that are stored", scheduler.objects)
    yield _gauge("scaler_object_bytes", "Bytes of stored objects", scheduler.object_bytes)
    yield _gauge(
        "scaler_object_shared_bytes", "Bytes of stored objects in shared memory of clients", scheduler.shared_bytes
    )
    yield _gauge("scaler_agents", "Agents that are connected, or disconnected and not lost", scheduler.agents)
    yield _gauge("scaler_workers", "Workers of connected or disconnected agents", scheduler.workers)
    yield _gauge("scaler_clients", "Root clients that are connected, or disconnected and not lost", scheduler.clients)


def _of_tasks(model: Model, scheduler: StateScheduler) -> Iterator[Metric]:
    yield _gauge("scaler_tasks_waiting", "Tasks that are not assigned to a worker", scheduler.waiting)
    yield _gauge("scaler_tasks_running", "Tasks that are assigned to workers", scheduler.running)
    wanted = [([asked], number) for asked, number in wanted_by_capabilities(model.waiting).items()]
    text = "Workers that the open tasks could use, by requested capabilities"
    yield _gauges("scaler_wanted_workers", text, ["capabilities"], wanted)
    reasons = [([reason], amount) for reason, amount in model.reasons.items()]
    yield _gauges("scaler_tasks_waiting_by_reason", "Waiting tasks, by reason", ["reason"], reasons)
    ended = [([state], amount) for state, amount in model.ended.items()]
    yield _counters("scaler_tasks_ended", "Tasks that have ended, by state", ["state"], ended)
    for way, counts in (("sent", model.sent), ("received", model.received)):
        rows = [([name], amount) for name, amount in counts.items()]
        yield _counters(f"scaler_scheduler_items_{way}", f"Items that the scheduler has {way}", ["item"], rows)


def _of_functions(model: Model) -> Iterator[Metric]:
    functions = list(islice(model.functions.values(), NAMES_MOST))
    labels = ["function", "name"]
    opened = [([*_names(each), state], getattr(each, state)) for each in functions for state in ("waiting", "running")]
    yield _gauges("scaler_function_open_tasks", "Open tasks of a function, by state", [*labels, "state"], opened)
    ends = [([*_names(each), end], float(getattr(each, end))) for each in functions for end in _ENDS]
    text = "Tasks of a function that have ended since the first viewer connected, by state"
    yield _counters("scaler_function_tasks_ended", text, [*labels, "state"], ends)
    family = HistogramMetricFamily("scaler_function_duration_seconds", "Duration of runs of a function", labels=labels)
    for each in functions:
        if counts := run_counts(each.durations):
            buckets, count = _buckets(counts)
            family.add_metric(list(_names(each)), buckets, each.mean_us / 1e6 * count)
    yield family


def _names(function: StateFunction) -> tuple[str, str]:
    return function.function.hex() or "others", function.name


def _buckets(counts: Iterable[int]) -> tuple[list[tuple[str, float]], int]:
    """Return the buckets of a histogram (limits in seconds, cumulative counts of runs) and the number of runs."""
    below = 0
    buckets: list[tuple[str, float]] = []
    for number, amount in enumerate(counts):
        below += amount
        buckets.append((repr((1 << number) / 1e6), below))
    return [*buckets, ("+Inf", below)], below


def _of_clients(model: Model) -> Iterator[Metric]:
    clients = list(islice(model.clients.values(), NAMES_MOST))
    labels = ["client", "label", "owner"]
    rows = [((each.client.hex(), each.label, each.owner), each) for each in clients]
    opened = [(names, each.open) for names, each in rows]
    yield _gauges("scaler_client_open_tasks", "Tasks of a client that have not ended", labels, opened)
    waiting = [(names, each.waiting) for names, each in rows]
    yield _gauges("scaler_client_waiting_tasks", "Tasks of a client that are not assigned to a worker", labels, waiting)


def _of_agents(model: Model) -> Iterator[Metric]:
    agents = list(islice(model.agents.values(), WORKERS_MOST))
    rows = [((each.agent.hex(), each.host), each) for each in agents]
    values: tuple[tuple[str, str, Callable[..., float]], ...] = (
        ("scaler_agent_cpu_cores", "Cores that an agent uses", lambda each: each.cpu_permille / 1000),
        ("scaler_agent_resident_memory_bytes", "Resident memory of an agent", lambda each: each.rss_bytes),
        ("scaler_agent_host_free_memory_bytes", "Free memory of the host of an agent", lambda each: each.free_bytes),
        ("scaler_agent_values_memory_bytes", "Shared memory of the values of an agent", lambda each: each.hot_bytes),
        (
            "scaler_agent_values_memory_limit_bytes",
            "Limit of the shared memory of values, for all agents of a user on a host",
            lambda each: each.hot_most_bytes,
        ),
        ("scaler_agent_values_disk_bytes", "Bytes of the spilled values of an agent", lambda each: each.cold_bytes),
        (
            "scaler_agent_values_disk_limit_bytes",
            "Limit of the spilled values, for all agents of a user on a host",
            lambda each: each.cold_most_bytes,
        ),
        (
            "scaler_agent_held_workers",
            "Workers that are paused, because memory and disk for values are full",
            lambda each: each.held_workers,
        ),
        ("scaler_agent_lag_seconds", "Round-trip time of a message to an agent", lambda each: each.lag_us / 1e6),
        ("scaler_agent_seen_seconds", "Time since the last message of an agent", lambda each: each.seen_ms / 1000),
    )
    for name, text, value in values:
        yield _gauges(name, text, ["agent", "host"], [(names, value(each)) for names, each in rows])
    spilled = [(names, each.spilled_bytes) for names, each in rows]
    text = "Bytes of values that an agent has written to its disk"
    yield _counters("scaler_agent_values_spilled_bytes", text, ["agent", "host"], spilled)
    read = [(names, each.read_bytes) for names, each in rows]
    text = "Bytes of values that an agent has read from its disk"
    yield _counters("scaler_agent_values_read_bytes", text, ["agent", "host"], read)


def _of_workers(model: Model) -> Iterator[Metric]:
    workers = [each for each in islice(model.workers, WORKERS_MOST) if each.flags is not None]
    rows = [((each.agent.agent.hex(), each.host, each.name), each) for each in workers]
    values: tuple[tuple[str, str, Callable[..., float]], ...] = (
        ("scaler_worker_busy", "Whether a worker executes a task", lambda each: int(each.is_busy)),
        ("scaler_worker_tasks", "Tasks that are assigned to a worker", lambda each: each.sent),
        ("scaler_worker_queued_tasks", "Tasks in the queue of a worker", lambda each: each.queued),
        ("scaler_worker_suspended_tasks", "Tasks of a worker that wait for nested tasks", lambda each: each.suspended),
        ("scaler_worker_cpu_cores", "Cores that the process of a worker uses", lambda each: each.cpu_permille / 1000),
        (
            "scaler_worker_resident_memory_bytes",
            "Resident memory of the process of a worker",
            lambda each: each.rss_bytes,
        ),
    )
    for name, text, value in values:
        yield _gauges(name, text, _WORKER_LABELS, [(names, value(each)) for names, each in rows])
    ended = [(names, float(each.ended or 0)) for names, each in rows]
    yield _counters("scaler_worker_runs_ended", "Runs that have ended at a worker", _WORKER_LABELS, ended)
    yield _gauge("scaler_workers_busy", "Workers that execute a task", model.busy)
    yield _gauge("scaler_workers_stuck", "Workers that look stuck", len(model.stuck.reasons))


def _of_failures(model: Model) -> Iterator[Metric]:
    rows = [
        ((each.failure.hex(), each.type, each.function_name), float(each.times))
        for each in islice(reversed(model.failures.values()), NAMES_MOST)
    ]
    yield _counters("scaler_failures", "Failures of one kind", ["failure", "type", "function"], rows)
