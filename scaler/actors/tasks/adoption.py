"""Adoption: matches tasks with runs that agents already have, so that no task starts twice after a restart.

Agent sessions report the runs that their agents have, and worker proxies report lost runs. Tasks, sessions and jobs
request their runs; sessions name the tasks that will request runs later. A task to which a run is offered decides
whether to adopt it. Runs that no task claims in time are cancelled.

A client resubmits its tasks to a new scheduler while agents may still run them. A resubmitted task requests its run
here before it waits for a worker. The answer is delayed until as many agents have returned as the last scheduler had,
or for `HOLD_SECONDS`. A task whose agent was lost may adopt its run if the agent returns before the task has started
elsewhere. The table outlives the actor.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from scaler.actors.messages.adoption import (
    CheckHeld,
    FindRun,
    FindRuns,
    NotHeld,
    RunFound,
    RunsAreHeld,
    RunsHeld,
    RunsLost,
    TasksWait,
)
from scaler.actors.messages.peers import ReportStatistics
from scaler.actors.messages.tasks import CancelOrphan
from scaler.actors.slices import NextSlice, Slices
from scaler.ids import PREFIX_BYTES, TaskId
from scaler.kit import Actor, ActorRef, Timer, charged_to, handles

HOLD_SECONDS = 2.5
"""How long a new scheduler waits for agents: longer than the longest pause of an agent between two connections."""

OFFER_SECONDS = 1.0
"""How long a task waits for the worker proxy of an offered run. The proxy may have ended since the offer."""

KNOWN_MOST = 200_000
"""The most tasks that are remembered for agents that return late. Further tasks are not remembered."""

RunKey: TypeAlias = tuple[int, TaskId]
"""The tag of an owner, and the id of a task. So a task of another owner with the same id matches no run."""

_NOT_HELD = NotHeld()


class AdoptionTable:
    """Runs without a task, and tasks that may have a run. The entries of each dict are in order of time."""

    def __init__(self) -> None:
        self.began = math.inf
        self.held: dict[RunKey, tuple[ActorRef, int, float]] = {}
        """runs that no task has claimed, each with its worker, its attempt, and the time of its report"""
        self.known: dict[RunKey, tuple[ActorRef, float]] = {}
        """tasks whose runs may be at agents that have not returned, each with the time at which it was remembered"""
        self.waiting: dict[RunKey, ActorRef] = {}
        """tasks that wait for results of other tasks, and will request their runs later, with their sessions"""
        self.impatient: dict[ActorRef, None] = {}
        """tasks that wait for at most `HOLD_SECONDS`: a dict as an ordered set"""
        self.patient: dict[ActorRef, None] = {}
        """tasks that wait for as long as any agent may still return: a dict as an ordered set"""
        self.asked: dict[RunKey, tuple[ActorRef, float]] = {}
        """held tasks, each with the session that has requested its run, and the time of the request"""
        self.prefixes: dict[RunKey, ActorRef] = {}
        """jobs that have requested the runs of their rows, by the prefix of the ids of the rows"""
        self.promised: dict[RunKey, ActorRef] = {}
        """runs in `held` that were reported to a session or job, which will start the tasks of these runs"""
        self.offered: deque[tuple[float, ActorRef, ActorRef, CancelOrphan]] = deque()
        """tasks to which a run was offered, each with the time when the offer expires, its worker, and its cancel"""
        self.agents_back = 0
        self.agents_expected = 0

    @property
    def are_agents_back(self) -> bool:
        """Whether as many agents have returned as the last scheduler had; False while that number is unknown."""
        return self.agents_back >= self.agents_expected > 0


class Adoption(Actor):
    """Matches runs held by agents with tasks of clients and jobs. A run or task waits `keep_seconds` for the other."""

    def __init__(self, table: AdoptionTable, keep_seconds: float) -> None:
        self._table = table
        self._keep_seconds = keep_seconds
        self._timer: Timer | None = None
        self._look_at = math.inf
        self._slices = Slices(self)

    def on_start(self) -> None:
        self._table.began = min(self._table.began, self.now())
        self._look_later()

    # Runs and tasks

    @handles(RunsHeld)
    def _runs_held(self, news: RunsHeld) -> None:
        table, now = self._table, self.now()
        new: list[RunKey] = []
        for owner, task_id, worker, attempt in news.runs:
            key = owner, task_id
            task, _since = table.known.get(key, (None, 0.0))
            if task is not None:
                self._offer(task_id, task, worker, attempt)
                continue
            other = table.held.pop(key, None)
            if other is not None:  # one run is enough
                other[0].send(CancelOrphan(task_id, other[1]))
            table.held[key] = (worker, attempt, now)
            new.append(key)
        if table.asked or table.prefixes:
            self._promise(new)
        if news.agents:
            table.agents_back += 1
            table.agents_expected = max(table.agents_expected, news.agents)
        self._look_later()

    @handles(RunsLost)
    def _runs_lost(self, lost: RunsLost) -> None:
        held = self._table.held
        for owner, task_id, task in lost.runs:
            key = owner, task_id
            self._know(key, task)
            if key in held:  # its agent has returned already
                worker, attempt, _since = held.pop(key)
                self._offer(task_id, task, worker, attempt)
        self._look_later()

    @handles(FindRun)
    @charged_to("task")
    def _find_run(self, ask: FindRun) -> None:
        table = self._table
        key = ask.owner, ask.task_id
        self._know(key, ask.task)
        worker, attempt, _since = table.held.pop(key, (None, 0, 0.0))
        table.promised.pop(key, None)
        table.waiting.pop(key, None)
        if worker is not None and not worker.is_stopped():
            self._offer(ask.task_id, ask.task, worker, attempt)
        elif self._is_time(ask.patient):
            ask.task.send(_NOT_HELD)
        else:
            (table.patient if ask.patient else table.impatient)[ask.task] = None
        self._look_later()

    @handles(TasksWait)
    @charged_to("session")
    def _tasks_wait(self, news: TasksWait) -> None:
        waiting = self._table.waiting
        for task_id in news.task_ids:
            if news.ended:
                waiting.pop((news.owner, task_id), None)
            elif len(waiting) < KNOWN_MOST:
                waiting[news.owner, task_id] = news.session

    @handles(FindRuns)
    def _find_runs(self, ask: FindRuns) -> None:
        """Look for the runs of held tasks. A session does not hold a task any longer once an agent reports its run."""
        table, now = self._table, self.now()
        keys = [(ask.owner, task_id) for task_id in ask.task_ids]
        room = max(0, KNOWN_MOST - len(table.asked))
        for key in keys[:room]:
            if _is_gone(table.asked.get(key, (None, 0.0))[0]):
                table.asked[key] = ask.asker, now
        if ask.prefix:
            table.prefixes = {key: asker for key, asker in table.prefixes.items() if not asker.is_stopped()}
            table.prefixes[ask.owner, TaskId(ask.prefix)] = ask.asker
            keys = [key for key in table.held if key[0] == ask.owner and key[1].startswith(ask.prefix)]
        self._promise(keys)
        if self._is_time(patient=False):
            ask.asker.send(_NOT_HELD)
        else:
            table.impatient[ask.asker] = None
        self._look_later()

    def _promise(self, keys: Iterable[RunKey]) -> None:
        """Report each held run, only once, to the session or job that has requested it."""
        table, found = self._table, defaultdict[ActorRef, list[TaskId]](list)
        for key in keys:
            if key in table.held and _is_gone(table.promised.get(key)):
                asker, _since = table.asked.get(key, (None, 0.0))
                asker = asker or table.prefixes.get((key[0], TaskId(key[1][:PREFIX_BYTES])))
                if asker is not None:
                    table.promised[key] = asker
                    found[asker].append(key[1])
        for asker, task_ids in found.items():
            asker.send(RunsAreHeld(task_ids))

    def _is_time(self, patient: bool) -> bool:
        return self._table.are_agents_back or self.now() >= self._ends_at(patient)

    def _ends_at(self, patient: bool) -> float:
        return self._table.began + (max(HOLD_SECONDS, self._keep_seconds) if patient else HOLD_SECONDS)

    def _know(self, key: RunKey, task: ActorRef) -> None:
        known = self._table.known
        known.pop(key, None)
        if len(known) < KNOWN_MOST:
            known[key] = (task, self.now())

    def _offer(self, task_id: TaskId, task: ActorRef, worker: ActorRef, attempt: int) -> None:
        if task.is_stopped():
            worker.send(CancelOrphan(task_id, attempt))
            return
        self._table.impatient.pop(task, None)
        self._table.patient.pop(task, None)
        task.send(RunFound(worker, attempt))
        self._table.offered.append((self.now() + OFFER_SECONDS, task, worker, CancelOrphan(task_id, attempt)))

    # Time

    @handles(CheckHeld)
    def _check_held(self, _check: CheckHeld) -> None:
        self._look_at = math.inf
        self._look_later()

    @handles(NextSlice)
    def _next_slice(self, _next: NextSlice) -> None:
        self._slices.go_on()

    def _look_later(self) -> None:
        """Send the answers that are due, forget old runs and tasks, and set the timer."""
        table, now = self._table, self.now()
        if table.impatient and self._is_time(patient=False):
            self._send_not_held(table.impatient)
        if table.patient and self._is_time(patient=True):
            self._send_not_held(table.patient)
        while table.offered and table.offered[0][0] <= now:
            _due, task, worker, cancel = table.offered.popleft()
            if task.is_stopped():  # perhaps before it received the offer
                worker.send(cancel)
            else:
                task.send(_NOT_HELD)
        self._forget_old(now)
        next_time = min(self._times(), default=math.inf)
        if next_time < self._look_at:
            if self._timer is not None:
                self._timer.cancel()
            self._look_at = next_time
            self._timer = self.schedule(max(0.0, next_time - now), CheckHeld())

    def _send_not_held(self, waiting: dict[ActorRef, None]) -> None:
        self._slices.add(lambda task: task.send(_NOT_HELD), list(waiting))
        waiting.clear()

    def _forget_old(self, now: float) -> None:
        held, known = self._table.held, self._table.known
        while held:
            key, (worker, attempt, since) = next(iter(held.items()))
            if since + self._keep_seconds > now:
                break
            del held[key]
            self._table.promised.pop(key, None)
            if not _is_gone(self._table.waiting.get(key)):
                held[key] = worker, attempt, now
            else:
                worker.send(CancelOrphan(key[1], attempt))
        asked = self._table.asked
        while asked:
            key, (_asker, since) = next(iter(asked.items()))
            if since + self._keep_seconds > now:
                break
            del asked[key]
        while known:
            key, (_task, since) = next(iter(known.items()))
            if since + self._keep_seconds > now:
                break
            del known[key]

    def _times(self) -> Iterator[float]:
        table = self._table
        if table.impatient:
            yield self._ends_at(patient=False)
        if table.patient:
            yield self._ends_at(patient=True)
        if table.offered:
            yield table.offered[0][0]
        if table.held:
            yield next(iter(table.held.values()))[2] + self._keep_seconds
        if table.known:
            yield next(iter(table.known.values()))[1] + self._keep_seconds

    def check(self) -> None:
        table = self._table
        assert table.promised.keys() <= table.held.keys(), "a run is promised, but not held"
        assert not table.impatient.keys() & table.patient.keys(), "a task waits twice"
        assert not table.held.keys() & table.known.keys(), "a run waits beside its task"

    # Counts

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        table = self._table
        ask.report.add("adoption", "", {"runs": len(table.held), "tasks": len(table.impatient) + len(table.patient)})


def _is_gone(asker: ActorRef | None) -> bool:
    return asker is None or asker.is_stopped()
