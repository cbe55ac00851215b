"""Monitor: shows viewers what the scheduler does: counters, agents and their workers, functions, clients, events.

Written to by its edge (subscriptions), the door of events, and agent sessions (reports). Asks the balancer and the
sessions of clients, has agents report, and puts what it has built on the board. It builds what somebody has subscribed
to and nothing else, at each tick of its clock; between ticks it only collects.

It is a listener of events and stands below a supervisor of its own: its failure costs viewers a moment, and nobody else
anything. Must never: change anything in the scheduler, or be needed by any other actor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scaler.actors.events import (
    AGENT,
    ObjectFilled,
    ObjectGone,
    ObjectStored,
    PartRestarted,
    PeerBack,
    PeerCame,
    PeerCut,
    PeerRefused,
    PeerWent,
    TaskMoved,
)
from scaler.actors.kit import Actor, ActorRef, handles
from scaler.actors.messages.monitor import (
    AgentSeen,
    Backlog,
    SayBacklog,
    SayOpen,
    ShowDue,
    SubscriptionsChanged,
    Tick,
    WatchAgent,
)
from scaler.actors.monitor import topics
from scaler.actors.monitor.agents import Agents
from scaler.actors.monitor.board import Board, Shown
from scaler.actors.monitor.functions import Functions
from scaler.actors.monitor.happenings import Happenings, PeerEvent
from scaler.actors.monitor.overview import client_items, scheduler_items
from scaler.actors.monitor.sources import Sources
from scaler.actors.monitor.topics import TICKS, Subscriptions
from scaler.wire.messages.worker import Part

TICK_SECONDS = 1.0

SOON_SECONDS = 0.05
"""A new viewer does not wait for the tick."""

WATCH_SECONDS, AGENTS_PER_SECOND = 2.0, 200
"""How often an agent reports; less often where there are so many that more reports than this would come in a second."""

FUNCTIONS_COUNTED = 20_000
"""Of so many waiting tasks the functions are counted at a tick."""


class Monitor(Actor):
    """The one monitor of the scheduler."""

    def __init__(self, board: Board, sources: Sources) -> None:
        self._board = board
        self._sources = sources
        self._subscriptions = Subscriptions(())
        self._agents = Agents()
        self._functions = Functions(sources.objects)
        self._happenings = Happenings()
        self._asked: dict[ActorRef, int] = {}
        """agent sessions that were asked to have their agents report, and the visit in which they were asked"""
        self._interval_ms = 0
        self._parts = Part(0)
        self._ticks = 0
        self._ticking = 0
        """the number of the series of ticks; 0: there is none"""
        self._is_soon = False
        self._makers: dict[str, Callable[[Backlog], Shown]] = {
            topics.SCHEDULER: self._scheduler,
            topics.CLIENTS: lambda backlog: _some(*client_items(self._sources, backlog, self.now())),
            topics.WORKERS: lambda _backlog: self._agents.workers(self.now()),
            topics.PROCESSORS: lambda _backlog: self._agents.processors(),
            topics.FUNCTIONS: lambda backlog: _some(*self._functions.items(self._agents.states(), backlog)),
            topics.BINS: lambda _backlog: self._agents.bins(),
            topics.EVENTS: lambda _backlog: _some(self._happenings.items(), self._happenings.total),
        }

    def on_start(self) -> None:
        self._subscribe()

    # Who wants what

    @handles(SubscriptionsChanged)
    def _subscriptions_changed(self, changed: SubscriptionsChanged) -> None:
        self._subscribe()
        if changed.prefix is not None and not self._is_soon:
            self._is_soon = True
            self.schedule(SOON_SECONDS, Tick(0))

    def _subscribe(self) -> None:
        self._subscriptions = Subscriptions(self._board.prefixes())
        self._watch_agents()
        if self._subscriptions and not self._ticking:
            self._ticking = self._ticks + 1
            self.schedule(TICK_SECONDS, Tick(self._ticking))

    def _watch_agents(self) -> None:
        """Have the agents report what is wanted; those too that came, or came back, since the last time."""
        parts = self._subscriptions.parts
        peers = self._sources.directory.peers.items()
        sessions = {peer.session: peer.visit for key, peer in peers if key[0] == "cluster"}
        self._agents.keep_only(sessions if parts else ())
        interval_ms = _interval_ms(len(sessions), self._interval_ms) if parts else 0
        if (parts, interval_ms) != (self._parts, self._interval_ms):
            self._parts, self._interval_ms = parts, interval_ms
            to_ask = list(sessions)
        elif parts:
            to_ask = [session for session, visit in sessions.items() if self._asked.get(session) != visit]
        else:
            to_ask = []
        self._asked = sessions if parts else {}
        for session in to_ask:
            session.send(WatchAgent(interval_ms, int(parts), self.actor_ref))

    # Ticks

    @handles(Tick)
    def _tick(self, tick: Tick) -> None:
        """Ask those who know what is to be shown. They have answered when `ShowDue` is read."""
        if not tick.number:
            self._is_soon = False
            due = self._subscriptions.topics
        elif not self._subscriptions:
            self._ticking = 0
            return
        else:
            self._ticks += 1
            self.schedule(TICK_SECONDS, tick)
            due = frozenset(topic for topic in self._subscriptions.topics if self._ticks % TICKS[topic] == 0)
        self._watch_agents()
        backlog = Backlog()
        if due & {topics.SCHEDULER, topics.FUNCTIONS, topics.CLIENTS}:
            counted = FUNCTIONS_COUNTED if topics.FUNCTIONS in due else 0
            self._sources.balancer.notify(SayBacklog(backlog, counted))
        if topics.CLIENTS in due:
            self._ask_clients(backlog)
        if due:
            self.actor_ref.send(ShowDue(tuple(due), backlog))

    def _ask_clients(self, backlog: Backlog) -> None:
        directory = self._sources.directory
        for (kind, peer_id), peer in directory.peers.items():
            if kind == "client" and not directory.accounts.is_inside(peer_id):
                peer.session.notify(SayOpen(backlog))

    @handles(ShowDue)
    def _show(self, due: ShowDue) -> None:
        for topic in due.topics:
            items, shown, total = self._makers[topic](due.backlog)
            self._board.publish(topic, items, shown, total)

    def _scheduler(self, backlog: Backlog) -> Shown:
        return scheduler_items(self._board, self._sources, backlog), 1, 1

    # What is collected

    @handles(AgentSeen)
    def _agent_seen(self, seen: AgentSeen) -> None:
        self._agents.add(seen)
        if seen.state is not None and seen.state.functions:
            self._functions.add(seen.state)

    @handles(PeerCame, PeerCut, PeerBack, PeerWent, PeerRefused, PartRestarted)
    def _happened(self, event: PeerEvent) -> None:
        self._happenings.add(event, self._board.time_us())
        is_new = type(event) is PeerCame and event.role is AGENT
        if self._parts and (is_new or (type(event) is PeerBack and event.session in self._asked)):
            self._watch_agents()

    @handles(TaskMoved)
    def _moved(self, moved: TaskMoved) -> None:
        """A task changed its state."""

    @handles(ObjectStored, ObjectFilled, ObjectGone)
    def _object_changed(self, _event: Any) -> None:
        """Ignored: the table says what is there."""


def _some(items: Sequence[Any], total: int) -> Shown:
    return items, len(items), total


def _interval_ms(agents: int, present_ms: int) -> int:
    """Return how often agents are to report. It changes only when their number has changed much."""
    wanted_ms = int(1000 * max(WATCH_SECONDS, agents / AGENTS_PER_SECOND))
    return present_ms if present_ms and wanted_ms / 2 < present_ms < wanted_ms * 2 else wanted_ms
