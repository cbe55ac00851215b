"""The program of `scaler_scale`: receives the monitor stream, starts and drains clusters, and prints each action."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from scaler.monitor.model.model import Model
from scaler.monitor.model.remaining import wanted_by_capabilities
from scaler.monitor.subscriber import Subscriber
from scaler.scaling.clusters import Clusters
from scaler.scaling.plan import Bounds, Plan, ScaledCluster
from scaler.scaling.pool import ClusterPool
from scaler.scaling.scaling_client import owners_in

TOPICS = frozenset({"scheduler", "workers", "functions", "clients"})
LOOK_SECONDS = 0.5
RESTART_SECONDS = 10.0
"""The wait after a restart of the scheduler, in which workers reconnect."""
PAUSE_SECONDS, PAUSE_SECONDS_MOST = 2.0, 120.0
"""The first and the longest wait after a command that failed; the wait doubles with each further failure."""
WAITING_SECONDS = 60.0
"""The time after which a cluster that has not connected is reported as waiting."""


class ScaleProgram:
    """Starts and drains clusters until a signal ends the program.

    Args:
        subscriber: receives the topics of `TOPICS` from the scheduler.
        target_seconds: the time in which the open work should be done.
        say: a function that prints a line of text.
    """

    def __init__(
        self,
        subscriber: Subscriber,
        clusters: Clusters,
        bounds: Bounds,
        pool: ClusterPool,
        target_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self._subscriber, self._clusters, self._say = subscriber, clusters, say
        self._target_seconds = target_seconds
        self._plan = Plan(bounds)
        self._pool = pool
        self._model = Model()
        self._n_signals = 0
        self._is_ending = False
        self._waiting: set[str] = set()
        self._hold_until = 0.0
        self._pause_seconds = PAUSE_SECONDS
        self._is_receiving = True
        self._problem = ""

    def run(self) -> None:
        """Run until SIGINT, SIGTERM or SIGHUP; then drain all clusters, and return when their commands have ended."""
        with self._counting_signals():
            try:
                while not self._n_signals:
                    self._turn()
            finally:
                self._drain_all()

    @contextlib.contextmanager
    def _counting_signals(self) -> Iterator[None]:
        def count(*_signal: object) -> None:
            self._n_signals += 1

        before = {number: signal.signal(number, count) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _turn(self) -> None:
        self._subscriber.wait(LOOK_SECONDS)
        now, restarts = time.monotonic(), self._model.restarts
        for news in self._subscriber.receive():
            self._model.take(news, now)
        if self._subscriber.problem not in ("", self._problem):
            self._problem = self._subscriber.problem
            self._say(f"no messages from the scheduler: {self._problem}")
        if self._model.restarts != restarts:
            self._say(f"the scheduler was restarted; its workers have {RESTART_SECONDS:.0f} s to reconnect")
            self._hold_until = now + RESTART_SECONDS
            self._clusters.reset_absences(now)
        self._report_ended(now)
        if self._is_state_known(now):
            if not self._is_ending:
                self._take_over(now)
            self._clusters.send_drains(self._model.workers, now)
            if not self._is_ending and now >= self._hold_until:
                self._decide(now)
        elif self._is_ending:
            self._clusters.terminate()

    def _is_state_known(self, now: float) -> bool:
        silent = self._model.silent_seconds(now)
        if (silent is None) != self._is_receiving:
            self._is_receiving = silent is None
            self._clusters.reset_absences(now)
            self._say(
                "the scheduler answers again"
                if self._is_receiving
                else "the scheduler is silent: no cluster is started or drained"
            )
        return self._is_receiving and self._model.heads.keys() >= TOPICS

    def _report_ended(self, now: float) -> None:
        for name, code, was_requested in self._clusters.ended(now):
            if was_requested or code == 0:
                self._say(f"{name} ended")
                self._pause_seconds = PAUSE_SECONDS
            else:
                self._failed(now, f"the command of {name} ended with exit code {code}")

    def _failed(self, now: float, what: str) -> None:
        self._say(f"{what}; the next one starts in at least {self._pause_seconds:.0f} s")
        self._hold_until = now + self._pause_seconds
        self._pause_seconds = min(PAUSE_SECONDS_MOST, 2 * self._pause_seconds)

    def _take_over(self, now: float) -> None:
        model, head = self._model, self._model.heads["clients"]
        labels = [client.label for client in model.clients.values()]
        if head.shown < head.total and len(owners_in(labels)) == len(labels):  # owners are listed first
            return
        workers = [worker for worker in model.workers if self._pool.may_have(worker)]
        for name in self._clusters.adopt(workers, labels, now):
            self._say(f"took over {name}: the scaler_scale that started it is lost")

    def _decide(self, now: float) -> None:
        model = self._model
        staying = self._clusters.staying(model.workers)
        wanted, connected = self._pool.look(wanted_by_capabilities(model.waiting, self._target_seconds), staying)
        clusters = self._clusters.look(staying)
        self._print_waiting(now, clusters)
        decision = self._plan.decide(now, wanted, connected, clusters)
        for name in decision.drain:
            is_connected = any(each.workers for each in clusters if each.name == name)
            self._say(
                f"{name} is no longer needed: drained" if is_connected else f"{name} did not connect in time: ended"
            )
            self._clusters.drain(name)
        for _ in range(decision.start):
            try:
                name = self._clusters.start(now)
            except OSError as error:
                self._failed(now, f"the command cannot be run: {error}")
                return
            self._say(f"{self._reason(wanted, connected)}: started {name}")

    def _print_waiting(self, now: float, clusters: Sequence[ScaledCluster]) -> None:
        waiting = {each.name for each in clusters if not each.workers and now - each.started_at >= WAITING_SECONDS}
        for name in sorted(waiting - self._waiting):
            self._say(f"{name} is waiting: no worker of its command has connected; a queued command keeps its place")
        self._waiting = waiting

    def _reason(self, wanted: int, connected: int) -> str:
        target = self._plan.target(wanted)
        if target > wanted:
            return f"{connected:,} workers are connected, the minimum is {target:,}"
        return f"{self._model.open_tasks:,} open tasks could use {wanted:,} workers, {connected:,} are connected"

    def _drain_all(self) -> None:
        self._is_ending, n_before = True, self._n_signals
        self._clusters.drain_all()
        if len(self._clusters):
            number = len(self._clusters)
            which = "1 cluster" if number == 1 else f"{number} clusters"
            self._say(f"waiting for {which} to end; a second Ctrl-C ends their commands at once")
        while len(self._clusters):
            if self._n_signals > n_before:
                self._clusters.kill()
            self._turn()
