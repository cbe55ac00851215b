"""Monitor: publishes what the scheduler does: counters, agents and their workers, functions, clients, events.

The edge of the monitor sends subscriptions, and the source of events sends events. The monitor requests counts from the
balancer and the client sessions, and has agents send reports. At each tick the monitor publishes the topics that have
subscribers; between ticks it only collects. No other actor depends on the monitor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scaler.actors.messages.monitor import (
    AgentSeen,
    Backlog,
    GraphEndedFor,
    PublishDue,
    ReportBacklog,
    ReportOpen,
    ReportTaskOf,
    SubscriptionsChanged,
    Tick,
    WatchAgent,
)
from scaler.actors.monitor import topics
from scaler.actors.monitor.agents import WatchedAgents
from scaler.actors.monitor.board import Board, Shown, Sources
from scaler.actors.monitor.event_log import EventLog, PeerEvent
from scaler.actors.monitor.failures import Failures
from scaler.actors.monitor.functions import FunctionTotals
from scaler.actors.monitor.graphs import Graphs
from scaler.actors.monitor.jobs import ShownJobs
from scaler.actors.monitor.load.diagnosis import Diagnosis
from scaler.actors.monitor.names import Names
from scaler.actors.monitor.overview import LargestObjects, client_items, scheduler_items, waiting_items
from scaler.actors.monitor.sampler import Sampler
from scaler.actors.monitor.tasks import SampledTasks, WatchedOutputs, rows_of
from scaler.actors.monitor.topics import TOPICS, Subscriptions
from scaler.actors.vocabulary.events import (
    AGENT,
    SUBMITTED,
    ObjectFilled,
    ObjectGone,
    ObjectStored,
    PartRestarted,
    PeerChanged,
    PeerDisconnected,
    PeerJoined,
    PeerLeft,
    PeerReconnected,
    PeerRefused,
    TaskMoved,
)
from scaler.actors.vocabulary.task_states import ASSIGNED, FINISHED
from scaler.ids import TaskId
from scaler.kit import Actor, ActorRef, handles
from scaler.wire.messages.client import ExplainResponse
from scaler.wire.messages.monitor import RUN_ROW
from scaler.wire.messages.vocabulary import CANCELED, FAILURES
from scaler.wire.messages.worker import WatchedPart

TICK_SECONDS = 1.0

SOON_SECONDS = 0.05
"""Delay from a new subscription to the first publication of its topics, which does not wait for the next tick."""

WATCH_SECONDS, AGENTS_PER_SECOND = 2.0, 200
"""Interval of an agent's reports; longer if all agents together would send more than `AGENTS_PER_SECOND`."""

RUNS_SEEN, RUNS_LEAST = 500, 2
"""Two numbers: how many runs are added to the sample from all reports together, and the fewest from each report."""

SEEN_MILLISECONDS = 200
"""Runs of at least this age are added to the sample. A younger run often ends before a viewer could look at it."""


USUAL_MOVES = frozenset({SUBMITTED, ASSIGNED, FINISHED})
"""Events that are reported only of followed tasks."""


class Monitor(Actor):
    """Collects events, counts and reports, and publishes the subscribed topics at each tick."""

    def __init__(self, board: Board, sources: Sources) -> None:
        self._board = board
        self._sources = sources
        self._subscriptions = Subscriptions(())
        self._agents = WatchedAgents()
        self._functions = FunctionTotals(sources.objects, sources.events)
        self._event_log = EventLog()
        self._names = Names(sources.objects)
        self._failures = Failures(self._names, board.read_traceback)
        self._tasks = SampledTasks(self._names)
        self._sampler = Sampler(sources.events, self._tasks)
        self._graphs = Graphs(self._names)
        self._objects = LargestObjects(sources.objects)
        self._jobs = ShownJobs(board, sources.jobs)
        self._outputs = WatchedOutputs(sources.outputs)
        self._asked: dict[ActorRef, int] = {}
        """the sessions of agents that were requested to report, each with its connection number at the request"""
        self._interval_ms = 0
        self._parts = WatchedPart(0)
        self._counts_functions = False
        self._diagnosis = Diagnosis()
        self._ticks = 0
        self._due_at = 0.0
        """when the next tick is due"""
        self._is_soon = False
        self._makers: dict[str, Callable[[Backlog, bool], Shown | None]] = {
            topics.SCHEDULER: lambda backlog, is_first: (self._scheduler_items(backlog, is_first), 1, 1),
            topics.CLIENTS: lambda backlog, _: _some(*client_items(sources, backlog, self.now())),
            topics.WORKERS: lambda _backlog, _: self._agents.workers(self.now()),
            topics.PROCESSORS: lambda _backlog, _: self._agents.processors(),
            topics.FUNCTIONS: lambda backlog, _: _some(*self._functions.items(backlog)),
            topics.BINS: lambda _backlog, _: self._agents.bins(),
            topics.FAILURES: lambda _backlog, is_first: _some(*self._failures.items(is_first)),
            topics.TASKS: lambda _, is_first: self._tasks.items(is_first, board.time_us(), self._interval_ms),
            topics.GRAPHS: lambda backlog, _: _some(*self._graphs.items(backlog, board.time_us())),
            topics.OBJECTS: lambda _backlog, _: _some(*self._objects.items(self.now())),
            topics.JOBS: lambda *_: _some(*self._jobs.items()),
            topics.EVENTS: lambda _backlog, is_first: self._event_log.shown(is_first),
        }

    def on_start(self) -> None:
        self._schedule_tick()
        self._subscribe()

    # Subscriptions

    @handles(SubscriptionsChanged)
    def _subscriptions_changed(self, changed: SubscriptionsChanged) -> None:
        self._subscribe()
        if changed.is_new and not self._is_soon:
            self._is_soon = True
            self.schedule(SOON_SECONDS, Tick(is_soon=True))

    def _subscribe(self) -> None:
        self._subscriptions = Subscriptions(self._board.prefixes())
        self._tasks.ask(self._subscriptions.tasks)
        self._graphs.ask(self._subscriptions.graphs)
        self._outputs.keep_only(self._subscriptions.tasks)
        self._follow()
        self._watch_agents()
        counts_functions = any(TOPICS[topic].needs_functions for topic in self._subscriptions.topics)
        if self._counts_functions and not counts_functions:
            self._sources.balancer.notify(ReportBacklog(Backlog(), functions=False))
        self._counts_functions = counts_functions
        if topics.SCHEDULER not in self._subscriptions.topics:
            self._diagnosis.stop()

    def _watch_agents(self) -> None:
        parts = self._subscriptions.parts
        peers = self._sources.directory.peers.items()
        sessions = {peer.session: peer.connection_number for key, peer in peers if key[0] == "cluster"}
        self._agents.keep_only(sessions if parts else ())
        interval_ms = _interval_ms(len(sessions), self._interval_ms) if parts else 0
        if (parts, interval_ms) != (self._parts, self._interval_ms):
            self._parts, self._interval_ms = parts, interval_ms
            to_ask = list(sessions)
        elif parts:
            to_ask = [
                session
                for session, connection_number in sessions.items()
                if self._asked.get(session) != connection_number
            ]
        else:
            to_ask = []
        self._asked = sessions if parts else {}
        for session in to_ask:
            session.send(WatchAgent(interval_ms, int(parts), self.actor_ref))

    # Ticks

    @handles(Tick)
    def _tick(self, tick: Tick) -> None:
        """Count the seconds, and publish what is due. Without viewers, only the counters of the second are stored."""
        if tick.is_soon:
            self._is_soon = False
            due = self._subscriptions.topics
        else:
            self._ticks += 1
            late_seconds = max(0.0, self.now() - self._due_at)
            self._schedule_tick()
            ended, gauges = sum(self._sources.events.ended), self._board.gauges()
            self._diagnosis.count(self.now(), self._board.time_us(), ended, gauges, late_seconds)
            due = frozenset(topic for topic in self._subscriptions.topics if self._ticks % TOPICS[topic].ticks == 0)
        if self._subscriptions:
            self._request_figures(due, tick.is_soon)

    def _schedule_tick(self) -> None:
        self._due_at = self.now() + TICK_SECONDS
        self.schedule(TICK_SECONDS, Tick(is_soon=False))

    def _request_figures(self, due: frozenset[str], is_soon: bool) -> None:
        """Request the figures of the due topics. The answers are complete when `PublishDue` is handled."""
        self._watch_agents()
        self._follow()
        for knows, question in self._tasks.questions(self.actor_ref, self.now()):
            knows.send(question)
        if due or self._subscriptions.tasks or self._subscriptions.graphs:
            self.actor_ref.send(PublishDue(tuple(due), self._ask(due, is_soon), is_soon))

    def _ask(self, due: frozenset[str], is_first: bool) -> Backlog:
        """Request the counts that the due topics need. Return the backlog into which actors write their counts."""
        wants_graphs = bool(topics.GRAPHS in due or self._subscriptions.graphs)
        wants_tasks = self._tasks.unknown() if is_first else frozenset()
        backlog = Backlog(wants_graphs=wants_graphs, wants_nodes_of=self._subscriptions.graphs, wants_tasks=wants_tasks)
        if any(TOPICS[topic].needs_balancer for topic in due):
            self._functions.see_running(self._agents.states())
            self._sources.balancer.notify(ReportBacklog(backlog, functions=self._counts_functions))
        if wants_graphs or wants_tasks or any(TOPICS[topic].needs_clients for topic in due):
            for (kind, _), peer in self._sources.directory.peers.items():
                if kind == "client":
                    peer.session.notify(ReportOpen(backlog))
        return backlog

    def _follow(self) -> None:
        """Choose by the subscriptions which tasks report each change of state, and whether graphs report their end."""
        events, wants = self._sources.events, self._subscriptions
        if events.listener is self.actor_ref:
            self._sampler.look(self.now(), wants_sample=topics.TASKS in wants.topics, wants_some=bool(wants.tasks))
            events.of_graphs = self.actor_ref if topics.GRAPHS in wants.topics or wants.graphs else None

    @handles(PublishDue)
    def _show(self, due: PublishDue) -> None:
        self._tasks.found(due.backlog.asked_waiting)
        for topic in due.topics:
            found = self._makers[topic](due.backlog, due.is_first)
            if found is not None:
                self._board.publish(topic, *found)
        self._show_asked(due)

    def _scheduler_items(self, backlog: Backlog, is_first: bool) -> list[Any]:
        board, sources, diagnosis = self._board, self._sources, self._diagnosis
        address = board.about.address
        groups = list(waiting_items(backlog, self._functions, address, sources.directory.owners))
        load, n_open = self._agents.load(backlog.workers), sources.directory.owners.n_open
        running = min(n_open, backlog.running + load.suspended)
        verdict = diagnosis.last if is_first else None
        if verdict is None:
            verdict = diagnosis.update(self.now(), groups, load, (n_open, running), address)
        counters = scheduler_items(board, sources, backlog, diagnosis.gauges, (n_open - running, running))
        return [*counters, *groups, *([] if verdict is None else [verdict])]

    def _show_asked(self, due: PublishDue) -> None:
        for short_id in self._subscriptions.tasks:
            moves = self._tasks.of_task(short_id, due.is_first)
            lines = self._outputs.items(short_id, due.is_first)
            if moves or lines:
                self._board.publish(f"{topics.TASK}{short_id.hex()}", [*moves, *lines], 1, 1)
        for short_id in self._subscriptions.graphs:
            nodes, total = self._graphs.nodes(short_id, due.backlog, due.is_first)
            if nodes:
                self._board.publish(f"{topics.GRAPH}{short_id.hex()}", nodes, len(nodes), total)

    # Events and reports

    @handles(AgentSeen)
    def _agent_seen(self, seen: AgentSeen) -> None:
        self._agents.add(seen)
        state = seen.state
        if state is None:
            return
        if state.functions:
            self._functions.add(state)
        if state.runs:
            self._see_runs(seen, state.runs)

    def _see_runs(self, seen: AgentSeen, packed: bytes) -> None:
        """Store which tasks run, by an agent's report, and add the oldest of those that are not in the sample.

        The more agents report, the fewer runs of each are added.
        """
        now_us, names, tasks = self._board.time_us(), seen.identity.worker_names, self._tasks
        room = max(RUNS_LEAST, RUNS_SEEN // max(1, len(self._asked)))
        for task, worker, _flags, milliseconds, function in RUN_ROW.iter_unpack(packed):
            name = names[worker] if worker < len(names) else ""  # a closed worker ends what it runs
            run = TaskId(task), name, now_us - 1000 * milliseconds, now_us
            if tasks.see_run(*run) or not room or milliseconds < SEEN_MILLISECONDS or not name:
                continue
            room -= 1
            worker_proxy = self._names.worker_at(seen.session, worker)
            if tasks.add_run(*run, function, self._functions.name_of(function)) and worker_proxy is not None:
                worker_proxy.send(ReportTaskOf(run[0]))

    @handles(PeerJoined, PeerDisconnected, PeerReconnected, PeerLeft, PeerRefused, PartRestarted)
    def _happened(self, event: PeerEvent) -> None:
        self._event_log.add(event, self._board.time_us())
        if type(event) is PeerJoined:
            self._names.joined(event)
        elif type(event) is PeerLeft:
            self._names.left(event)
        is_new = type(event) is PeerJoined and event.role is AGENT
        if self._parts and (is_new or (type(event) is PeerReconnected and event.session in self._asked)):
            self._watch_agents()

    @handles(PeerChanged)
    def _workers_changed(self, changed: PeerChanged) -> None:
        self._names.changed(changed)

    @handles(TaskMoved)
    def _moved(self, moved: TaskMoved) -> None:
        now_us, followed = self._board.time_us(), self._sources.events.followed or ()
        is_usual = moved.spec.rows or moved.event in USUAL_MOVES
        for each in rows_of(moved) if moved.spec.rows else (moved,):
            if each.state in FAILURES:
                self._failures.add(each, now_us)
            elif is_usual and each.state != CANCELED and each.spec.task_id not in followed:
                continue  # sent before the sampler stopped following all tasks, or a row beside a followed row
            if self._tasks.add(each, now_us):
                self._sampler.count_new()

    @handles(ExplainResponse)
    def _explained(self, answer: ExplainResponse) -> None:
        self._tasks.explained(answer, self._board.about.address)

    @handles(GraphEndedFor)
    def _graph_ended(self, ended: GraphEndedFor) -> None:
        self._graphs.end(ended.seen, ended.nodes, self._board.time_us())

    @handles(ObjectStored, ObjectFilled, ObjectGone)
    def _object_changed(self, _event: Any) -> None:
        """Ignore the change, because the object table is read at each tick."""


def _some(items: Sequence[Any], total: int) -> Shown:
    return items, len(items), total


def _interval_ms(agents: int, present_ms: int) -> int:
    """Return the interval of agents' reports. It changes only if the wanted interval at least doubles or halves."""
    wanted_ms = int(1000 * max(WATCH_SECONDS, agents / AGENTS_PER_SECOND))
    return present_ms if present_ms and wanted_ms / 2 < present_ms < wanted_ms * 2 else wanted_ms
