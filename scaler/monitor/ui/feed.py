"""Feed: receives the monitor stream for all browsers at once, and keeps the state that they show.

Further topics are subscribed to only while a page shows them. Only subscriptions are sent to the scheduler.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from itertools import islice

from scaler.monitor.model.history import History
from scaler.monitor.model.model import EVENTS_MOST, FAILURES_MOST, Model, News
from scaler.monitor.model.workers import WorkerView
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.ui.bins import Bins
from scaler.monitor.ui.store import HistoryStore
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.monitor import StateBins, StateEvent, StateFailure

logger = logging.getLogger(__name__)

ALWAYS = frozenset({"scheduler", "workers", "clients", "functions", "bins", "failures", "events", "graphs", "jobs"})
"""Topics that are always subscribed to, so that their past is known when a page is opened."""
TASKS = "tasks"
"""The topic of single tasks, which only some pages show: with a subscriber, each task costs the scheduler more."""
LOST = 2
"""The value of `StateAgent.is_leaving` for an agent whose connection is lost."""
DEPARTED_SECONDS_MOST = 3600.0
DEPARTED_MOST = 10_000


class FeedState:
    """The state of the cluster from which views are made."""

    def __init__(self, address: str = "", store: HistoryStore | None = None) -> None:
        self.address = address
        self.problem = ""
        self.refusal = ""
        """the reason for which the scheduler refuses this server; empty if it accepts this server"""
        self._store = store
        self.model = self._new_model()
        self.bins = Bins()
        self.old_failures: dict[bytes, StateFailure] = {}
        """failures of earlier runs of the scheduler or of this server"""
        self.events: deque[StateEvent] = deque(maxlen=EVENTS_MOST)
        """the last events, including those of earlier runs of the scheduler"""
        self._last_event_us = 0
        self.number = 0
        """the number of changes so far, which shows whether the state has changed"""
        self.departed: dict[tuple[bytes, int], tuple[WorkerView, float]] = {}
        """the workers that have left, each with the time when it left"""
        if store is not None:
            events, failures = store.load(self.history)
            self.events.extend(events)
            self._last_event_us = max((event.time_us for event in events), default=0)
            self.old_failures = {failure.failure: failure for failure in failures}

    def _new_model(self) -> Model:
        return Model(self._store.keep_step) if self._store is not None else Model()

    @property
    def history(self) -> History:
        """The history of the cluster."""
        return self.model.history

    @property
    def is_kept(self) -> bool:
        """Whether the history survives a restart of the server."""
        return self._store is not None

    def take(self, news: News, now: float) -> None:
        """Apply one message to the state."""
        model, restarts = self.model, self.model.restarts
        failures, workers = model.failures, model.workers
        model.take(news, now)
        if model.restarts is not restarts:
            self.old_failures = dict(islice((self.old_failures | failures).items(), FAILURES_MOST))
        elif model.workers is not workers:
            self._find_departed(workers, now)
        for batch in news.batches:
            if batch.item is StateBins:
                self.bins.take(news.head.time_us, batch)
            elif batch.item is StateEvent:
                self._add_events(batch)
            elif batch.item is StateFailure and self._store is not None:
                self._store.keep_failures(batch)
        self.number += 1

    def refuse(self, refusal: str) -> None:
        """Set why the scheduler refuses this server (empty: it accepts the server). A refusal deletes earlier data."""
        if refusal and not self.refusal:
            self.model, self.bins = self._new_model(), Bins()
            self.old_failures, self.departed = {}, {}
            self.events.clear()
            self.number += 1
            logger.warning("nothing is shown: %s", refusal)
        self.refusal = refusal

    def _find_departed(self, before: list[WorkerView], now: float) -> None:
        present = {worker.key for worker in self.model.workers}
        lost = {worker.key for worker in self.model.workers if worker.agent.is_leaving == LOST}
        for worker in before:
            if worker.is_busy and worker.agent.is_leaving != LOST and (worker.key in lost or worker.key not in present):
                self.bins.lose(worker.key)
        self.departed |= {worker.key: (worker, now) for worker in before if worker.key not in present}
        self.departed = {
            key: (worker, at)
            for key, (worker, at) in islice(self.departed.items(), DEPARTED_MOST)
            if key not in present and now - at < DEPARTED_SECONDS_MOST
        }

    def _add_events(self, batch: Batch[StateEvent]) -> None:
        """Add the events that are new. Each message of the scheduler repeats the last events."""
        new = [event for event in batch if event.time_us > self._last_event_us]
        if not new:
            return
        self._last_event_us = max(event.time_us for event in new)
        self.events.extend(new)
        if self._store is not None:
            self._store.keep_events(new)

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()


class Feed:
    """Receives the stream while `run` runs; with `store`, the history is kept on disk, else only in memory."""

    def __init__(self, subscriber: Subscriber, store: HistoryStore | None = None) -> None:
        self.state = FeedState(subscriber.endpoint.address, store)
        self._subscriber = subscriber
        self._wanted: dict[object, frozenset[str]] = {}
        self._listeners: dict[object, Callable[[], None]] = {}

    def listen(self, who: object, changed: Callable[[], None]) -> None:
        """Call `changed` in the event loop after each change of the state."""
        self._listeners[who] = changed

    def set_topics(self, who: object, topics: frozenset[str]) -> None:
        """Subscribe to further topics for the listener `who`, in place of the listener's previous topics."""
        self._wanted[who] = topics
        self._subscribe()

    def leave(self, who: object) -> None:
        """Remove a listener."""
        self._listeners.pop(who, None)
        self._wanted.pop(who, None)
        self._subscribe()

    def _subscribe(self) -> None:
        topics = self.topics
        if TASKS in topics and TASKS not in self._subscriber.topics:
            self.state.model.tasks.drop_open()  # their ends were missed; until now, their own pages had them
        self._subscriber.set_topics(topics)

    @property
    def topics(self) -> frozenset[str]:
        """All subscribed topics."""
        return ALWAYS.union(*self._wanted.values())

    async def run(self) -> None:
        """Receive the stream until the asyncio task that runs this method is cancelled."""
        self._subscriber.set_topics(self.topics)
        while True:
            before = time.monotonic()
            news = await self._subscriber.news()
            for each in news:
                self.state.take(each, time.monotonic())
            self.state.address, self.state.problem = self._subscriber.endpoint.address, self._subscriber.problem
            self.state.refuse(self._subscriber.refusal)
            for changed in list(self._listeners.values()):
                changed()
            # Messages of one moment arrive together; one frame is made for all of them.
            await asyncio.sleep(max(0.0, 0.1 - (time.monotonic() - before)))

    def close(self) -> None:
        """Close the connection and the store."""
        self._subscriber.close()
        self.state.close()
