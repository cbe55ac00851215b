"""Model: what a viewer knows of a cluster, from the items of the monitor stream. The terminal and the page show it.

The model detects restarts, gaps and silence. Sans I/O: callers pass the time, in monotonic seconds. All collections are
bounded.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from scaler.monitor.model.history import GAP, SERIES, History
from scaler.monitor.model.jobs import JobRates
from scaler.monitor.model.rates import RateMeter, Rates, by_outcome
from scaler.monitor.model.tasks import KeptTasks
from scaler.monitor.model.workers import ProcessorView, Stuck, WorkerView, processors_of, workers_of
from scaler.texts import signature
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import OutputStream
from scaler.wire.messages.monitor import (
    StateAgent,
    StateClient,
    StateEvent,
    StateFailure,
    StateFunction,
    StateGraph,
    StateHead,
    StateJob,
    StateLine,
    StateMove,
    StateNode,
    StateObject,
    StateProcessors,
    StateRuns,
    StateScheduler,
    StateTask,
    StateVerdict,
    StateWaiting,
)

SILENT_SECONDS = 3.0
"""The silence after which viewers report the scheduler as silent. The scheduler sends its state each second."""
RESTARTS_MOST = 100
FAILURES_MOST = 1_000
EVENTS_MOST = 1_000
LINES_MOST, OUTPUTS_MOST = 500, 20
"""The most output lines that are kept of one task, and the most tasks whose lines are kept."""

MOVES_MOST = 1_000
LOOKING = StateVerdict("unknown", "the scheduler awaits the first reports of agents")
"""The verdict before the first verdict of the scheduler."""


class News(NamedTuple):
    """One message of the monitor stream."""

    topic: str
    head: StateHead
    batches: list[Batch[Any]]
    missed: int
    """the number of messages of this topic that were lost just before this message"""


class Model:
    """The state of a cluster, as one viewer knows it; `kept` is called with ended steps, as in `History`."""

    def __init__(self, kept: Callable[[int, int, Sequence[float]], None] = lambda *_: None) -> None:
        self.scheduler_id = b""
        self.restarts: list[int] = []
        """The times of the last restarts of the scheduler, in seconds since 1970."""
        self.restarted_us = 0
        """The time of the first message of this scheduler, if it replaced another scheduler; else 0."""
        self.workers_before = 0
        self.received_at: float | None = None
        self.received_us = 0
        """The time of the last message, in microseconds since 1970 by the clock of the scheduler."""
        self.missed = 0
        self.history = History(kept)
        self.events: deque[StateEvent] = deque(maxlen=EVENTS_MOST)
        self._forget()
        self._handlers = self._make_handlers()
        self._snapshots = self._make_snapshots()

    def _forget(self) -> None:
        """Reset the state, for a new scheduler."""
        self.scheduler: StateScheduler | None = None
        self.verdict = LOOKING
        self.ended: dict[str, int] = {}
        """The number of ended tasks by state, since the start of the scheduler."""
        self.sent: dict[str, int] = {}
        self.received: dict[str, int] = {}
        self.waiting: list[StateWaiting] = []
        """The groups of open tasks: one for each set of requested capabilities, one for tasks that wait for inputs."""
        self.clients: dict[bytes, StateClient] = {}
        self.agents: dict[bytes, StateAgent] = {}
        self.workers: list[WorkerView] = []
        self.processors: list[ProcessorView] = []
        self.functions: dict[bytes, StateFunction] = {}
        """Functions by short id. The empty id stands for all functions without an item of their own."""
        self.graphs: dict[bytes, StateGraph] = {}
        self.objects: dict[bytes, StateObject] = {}
        self.jobs: dict[bytes, StateJob] = {}
        self.job_rates = JobRates()
        self.meter = RateMeter()
        self.failures: dict[bytes, StateFailure] = {}
        self.tasks = KeptTasks()
        self.moves: dict[bytes, deque[StateMove]] = {}
        self.output: dict[bytes, deque[StateLine]] = {}
        """The last output lines of each task that a viewer shows, by the short id of the task."""
        self.nodes: dict[bytes, dict[int, StateNode]] = {}
        self.heads: dict[str, StateHead] = {}
        """By topic: the head of the last message: how many things the stream has, and how many the scheduler has."""
        self.stuck = Stuck()
        self._pages: dict[str, list[Any]] = {}
        self._names: dict[bytes, str] = {}

    def _make_handlers(self) -> dict[type, Callable[[Batch[Any]], None]]:
        return {
            StateFailure: self._on_failures,
            StateTask: self._on_tasks,
            StateRuns: self._on_runs,
            StateMove: self._on_moves,
            StateLine: self._on_lines,
            StateNode: self._on_nodes,
            StateEvent: self._on_events,
        }

    def _make_snapshots(self) -> dict[str, Callable[[list[Any], float], None]]:
        """Return, by topic, the function that applies a complete snapshot and removes what the snapshot lacks."""
        return {
            "scheduler": self._update_scheduler,
            "clients": partial(self._update_things, "clients", "client"),
            "workers": self._update_agents,
            "processors": self._update_processors,
            "functions": self._update_functions,
            "graphs": partial(self._update_things, "graphs", "graph"),
            "jobs": self._update_jobs,
            "objects": partial(self._update_things, "objects", "object"),
        }

    # ------------------------------------------------------------------------------------------------------- taking

    def take(self, news: News, now: float) -> None:
        """Apply one message to the state."""
        head = news.head
        if head.scheduler != self.scheduler_id:
            self._switch_scheduler(head)
        self.received_at, self.received_us = now, max(head.time_us, self.received_us)
        self.tasks.tick(head.time_us)
        if news.missed:
            self.missed += news.missed
            self._pages.pop(news.topic, None)  # the rest of this snapshot was lost
        self.heads[news.topic] = head
        update = self._snapshots.get(news.topic)
        if update is not None:
            page = self._pages.setdefault(news.topic, [])
            for batch in news.batches:
                page.extend(batch)
            if not head.more:
                update(self._pages.pop(news.topic), now)
            return
        for batch in news.batches:
            handle = self._handlers.get(batch.item)
            if handle is not None:
                handle(batch)

    def _switch_scheduler(self, head: StateHead) -> None:
        if self.scheduler_id:
            self.workers_before = len(self.workers) or (self.scheduler.workers if self.scheduler else 0)
            self.restarted_us = self.received_us = head.time_us
            self.restarts = [*self.restarts[1 - RESTARTS_MOST :], head.time_us // 1_000_000]
            self._forget()
        self.scheduler_id = head.scheduler

    def _update_scheduler(self, items: list[Any], _: float) -> None:
        groups: tuple[dict[str, int], ...] = ({}, {}, {})
        self.waiting = []
        for each in items:
            if isinstance(each, StateWaiting):
                self.waiting.append(each)
            elif isinstance(each, StateVerdict):
                self.verdict = each
            elif isinstance(each, StateScheduler):
                self._update_state(each)
            elif each.group < len(groups):
                groups[each.group][each.name] = each.amount
        self.ended, self.sent, self.received = groups
        if self.scheduler is not None:
            time_us = self.heads["scheduler"].time_us
            self.meter.add(time_us, self.ended, self.sent, self.received)
            self.history.add(time_us / 1e6, self._sample(self.scheduler))

    def _sample(self, scheduler: StateScheduler) -> list[float]:
        ended = self.rates.ended
        are_known = "workers" in self.heads  # their first report arrives a little later
        agents = {(agent.host, agent.pid): agent.rss_bytes for agent in self.agents.values()}
        values = {
            "success": ended.get("success", 0.0),
            "failed": ended.get("failed", 0.0) + ended.get("not_found", 0.0),
            "canceled": ended.get("canceled", 0.0),
            "open": self.open_tasks,
            "workers": self.worker_count,
            "busy": GAP if self.busy is None else self.busy,
            "cpu": scheduler.cpu_permille / 1000,
            "lag": scheduler.lag_us / 1e6,
            "lag_most": scheduler.lag_most_us / 1e6,
            "scheduler": scheduler.rss_bytes,
            "agents": sum(agents.values()) if are_known else GAP,
            "processors": sum(worker.rss_bytes or 0 for worker in self.workers) if are_known else GAP,
            "objects": scheduler.object_bytes,
        }
        return [values[name] for name in SERIES]

    def _update_state(self, state: StateScheduler) -> None:
        is_first, self.scheduler = self.scheduler is None, state
        if is_first:
            self._list_workers()  # the queue size was unknown

    def _update_things(self, name: str, key: str, items: list[Any], _: float) -> None:
        setattr(self, name, {getattr(each, key): each for each in items})

    def _update_jobs(self, jobs: list[StateJob], _: float) -> None:
        self.jobs = {each.job: each for each in jobs}
        self.job_rates.update(jobs, self.heads["jobs"].time_us)

    def _update_agents(self, agents: list[StateAgent], now: float) -> None:
        self.agents = {each.agent: each for each in agents}
        self._list_workers()
        self.stuck.update(self.workers, self.functions, now)

    def _list_workers(self) -> None:
        queue_size = self.scheduler.queue_size if self.scheduler else 0
        self.workers = [worker for agent in self.agents.values() for worker in workers_of(agent, queue_size)]

    def _update_processors(self, states: list[StateProcessors], _: float) -> None:
        self.processors = [each for state in states for each in processors_of(state)]

    def _update_functions(self, functions: list[StateFunction], _: float) -> None:
        self.functions = {each.function: each for each in functions}
        self._names.update((each.function, each.name) for each in functions if each.function)

    def _on_failures(self, batch: Batch[StateFailure]) -> None:
        for failure in batch:
            known = self.failures.pop(failure.failure, None)
            if known is not None and not failure.traceback:
                self.failures[failure.failure] = replace(failure, traceback=known.traceback)  # it is sent once
            else:
                self.failures[failure.failure] = failure
            self._names.setdefault(failure.function, failure.function_name)
        _cut(self.failures, FAILURES_MOST)

    def _on_tasks(self, batch: Batch[StateTask]) -> None:
        self.tasks.take(batch, self.received_us)
        for task in batch:
            if task.function_name:
                self._names.setdefault(task.function, task.function_name)

    def _on_runs(self, batch: Batch[StateRuns]) -> None:
        for runs in batch:
            self.tasks.take_runs(runs, self.received_us)

    def _on_events(self, batch: Batch[StateEvent]) -> None:
        """Add the events that are new. Each message of the scheduler repeats the last events."""
        known = set(map(_event_key, self.events))
        self.events.extend(event for event in batch if _event_key(event) not in known)

    def _on_moves(self, batch: Batch[StateMove]) -> None:
        for move in batch:
            self.moves.setdefault(move.task, deque(maxlen=MOVES_MOST)).append(move)
        _cut(self.moves, MOVES_MOST)

    def _on_lines(self, batch: Batch[StateLine]) -> None:
        """Add the output lines that are new. The scheduler resends lines when another viewer shows the task."""
        for line in batch:
            lines = self.output.setdefault(line.task, deque(maxlen=LINES_MOST))
            if not lines or line.number > lines[-1].number:
                if lines and line.stream == lines[-1].stream == OutputStream.REPORT:
                    lines.pop()  # the latest counts
                lines.append(line)
        _cut(self.output, OUTPUTS_MOST)

    def _on_nodes(self, batch: Batch[StateNode]) -> None:
        for node in batch:
            self.nodes.setdefault(node.graph, {})[node.position] = node
        _cut(self.nodes, MOVES_MOST)

    # ------------------------------------------------------------------------------------------------------ deriving

    def frozen(self) -> Model:
        """Return a copy of the present state, which further messages do not change."""
        picture = copy(self)
        picture.history, picture.meter = deepcopy(self.history), copy(self.meter)
        picture.job_rates = deepcopy(self.job_rates)
        picture.stuck, picture.events = copy(self.stuck), self.events.copy()
        picture.failures, picture.tasks, picture.heads = dict(self.failures), self.tasks.copy(), dict(self.heads)
        picture.moves = {task: moves.copy() for task, moves in self.moves.items()}
        picture.output = {task: lines.copy() for task, lines in self.output.items()}
        picture.nodes = {graph: dict(nodes) for graph, nodes in self.nodes.items()}
        return picture

    @property
    def rates(self) -> Rates:
        """Rates per second, between the last two messages with counters."""
        return self.meter.rates

    @property
    def reasons(self) -> dict[str, int]:
        """The number of waiting tasks, by reason."""
        counts = Counter[str]()
        for each in self.waiting:
            counts[each.waits_for] += each.waiting
        return dict(+counts)

    @property
    def outcomes(self) -> dict[str, int]:
        """The number of ended tasks by outcome: success, failed, canceled or not_found."""
        return by_outcome(self.ended)

    @property
    def failed(self) -> int:
        """The number of tasks that neither succeeded nor were cancelled."""
        return self.outcomes["failed"] + self.outcomes["not_found"]

    @property
    def open_tasks(self) -> int:
        """The number of tasks that have not ended."""
        return self.scheduler.waiting + self.scheduler.running if self.scheduler else 0

    @property
    def function_count(self) -> int:
        """The number of functions with tasks, of which the largest have items of their own."""
        return max(self.shown_and_total("functions")[1], sum(map(bool, self.functions)))

    @property
    def worker_count(self) -> int:
        """The number of workers, known even before the rows of the workers have arrived."""
        return len(self.workers) or (self.scheduler.workers if self.scheduler else 0)

    @property
    def busy(self) -> int | None:
        """The number of workers that execute a task; None if the agents of most workers have not reported yet."""
        known = [worker for worker in self.workers if worker.flags is not None]
        return sum(worker.is_busy for worker in known) if 2 * len(known) >= len(self.workers) else None

    @property
    def left_seconds(self) -> float | None:
        """The estimated time until the open tasks have ended, in seconds; None if it is unknown."""
        return self.verdict.left_us / 1e6 or None

    def silent_seconds(self, now: float) -> float | None:
        """Return the seconds since the last message if they exceed `SILENT_SECONDS`; else None."""
        if self.received_at is None:
            return None
        silent = now - self.received_at
        return silent if silent > SILENT_SECONDS else None

    def function_name(self, function: bytes) -> str:
        """Return the name of a function if it is known, else its short id."""
        return self._names.get(function, "") or function.hex()

    def failure_of(self, task: StateTask, others: Iterable[StateFailure] = ()) -> StateFailure | None:
        """Return the kind of failure of a task that has ended; `others`: further kinds to search, of earlier
        schedulers.
        """
        reason = signature(task.reason, task.worker)
        kinds = [*self.failures.values(), *others]
        for each in kinds:
            if each.task == task.task:
                return each
        for each in kinds:
            message = signature(each.message, each.worker)
            whole = message if each.type == task.state else ": ".join(filter(None, (each.type, message)))
            if each.function == task.function and reason == whole:
                return each
        return None

    def why_it_waits(self, function: StateFunction) -> str:
        """Return a sentence about what most waiting tasks of a function wait for; empty if no such task waits."""
        sentences = (each.sentence for each in self.waiting if each.asks == function.asks)
        return next(sentences, "") if function.waiting else ""

    def shown_and_total(self, topic: str) -> tuple[int, int]:
        """Return how many things of a topic the stream contains, and how many the scheduler has."""
        head = self.heads.get(topic)
        return (head.shown, head.total) if head else (0, 0)


def _event_key(event: StateEvent) -> tuple[int, str, str]:
    return event.time_us, event.kind, event.subject


def _cut(things: dict[bytes, Any], most: int) -> None:
    for name in list(islice(things, max(0, len(things) - most))):
        del things[name]
