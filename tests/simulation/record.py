"""Record: what really happened in a run, against which the project's own view is checked.

A task needs a second run only if its first one was lost: with its processor or agent, with the session of its agent or
client, or with the scheduler.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from scaler.peer.conversation_state import TRIES_MOST
from scaler.shared_memory import INLINE_FRAMES_BYTES
from tests.simulation.programs import Script
from tests.simulation.world import ViolationError, World

if TYPE_CHECKING:
    from scaler.client.jobs.job_requests import RowEnd
    from tests.simulation.kept import NamedJob

SCHEDULER = "scheduler"
HEARD_SECONDS = 3.0
"""After this time the scheduler has heard that an order has arrived."""
PATIENCE_SECONDS = 3.0
"""After this time a task that waits is known everywhere."""
SINGLE_SECONDS = 5.0
"""After this time the second run of a task is cancelled."""
UNKNOWN_SECONDS = 60.0
"""How long a client may go on to speak to a scheduler that has gone: it may be stopped meanwhile."""


@dataclass
class Start:
    """One run of a task."""

    script: Script
    at: float
    attempt: int
    processor: str
    agent: str
    client: str

    @property
    def needed(self) -> tuple[str, ...]:
        """With what the run, or its result, is lost."""
        return self.processor, self.agent, self.client, SCHEDULER


@dataclass
class Record:
    """The truth about runs and losses."""

    world: World
    crash_limit: int = 3
    """of the scheduler"""
    may_refuse: bool = False
    """whether the scheduler lets only some tasks wait"""
    is_alone: bool = False
    """whether the only agent goes on with what it has, however long it was away"""
    cancel_seconds: float = inf
    """after this time, a run that was cancelled is over"""
    counts_deaths: bool = False
    """whether each death of a task is seen, and counts"""
    is_single: bool = False
    """whether the older one of two runs of a task is over soon after all can speak to each other"""
    is_orderly: bool = False
    """whether nothing is ever lost: no task runs again, and those of a high priority go first"""
    check_each: int = 8
    """all invariants are checked after one in so many turns"""
    orders_of: dict[str, Callable[[], list[str]]] = field(default_factory=dict)
    """name of an agent -> the tasks that it has been told to run, as far as the scheduler knows"""
    told: Callable[[], Container[bytes]] = tuple
    """ids of the tasks that a worker has been told to run, says the scheduler"""
    keys: dict[bytes, str] = field(default_factory=dict)
    """id of a task that has begun -> its key"""
    numbered: dict[int, float] = field(default_factory=dict)
    """number of a run -> when a scheduler has given it"""
    starts: dict[str, list[Start]] = field(default_factory=dict)
    hits: Counter[str] = field(default_factory=Counter)
    """how often a task was lost with its processor or agent while it may have run"""
    losses: list[tuple[float, str]] = field(default_factory=list)
    values_lost: list[float] = field(default_factory=list)
    """when the session of an agent ended that goes on: its tasks are not lost, but the results that it keeps are"""
    again: int = 0
    """runs that were needed again"""
    raised: dict[str, list[float]] = field(default_factory=dict)
    """when a task raised, and so was to be run again"""
    canceled: dict[str, float] = field(default_factory=dict)
    """when a task was cancelled"""
    canceled_runs: set[tuple[str, int]] = field(default_factory=set)
    """task and number of a run that was interrupted"""
    unwanted: set[tuple[bytes, int]] = field(default_factory=set)
    """id and number of runs that their agent had been told to cancel before they began"""
    waiting: dict[str, tuple[Script, float, bytes]] = field(default_factory=dict)
    """what has not begun yet, when it was submitted, and its id, where nothing is ever lost"""
    disturbed_until: float = 0.0
    """when all could speak to each other again"""
    deaths: Counter[str] = field(default_factory=Counter)
    """how often a task has died with its processor or agent, if that is sure to be known"""
    ends: dict[str, float] = field(default_factory=dict)
    """when a task has ended last"""
    spoilt: list[tuple[float, str]] = field(default_factory=list)
    """peers that had to start a new session, and when: what was on its way to or from them may be unhandled"""
    excused: set[str] = field(default_factory=set)
    """tasks that failed, as they should, with what was lost"""
    processors: set[str] = field(default_factory=set)
    """the names of those that have died; of these, its session is lost, too"""
    single: set[str] = field(default_factory=set)
    """tasks that are no rows of a map"""
    stores: dict[str, Callable[[], Iterable[bytes]]] = field(default_factory=dict)
    """name of an agent -> ids of the values that it has; none if it does not live"""
    results_of: dict[str, Callable[[], Iterable[bytes]]] = field(default_factory=dict)
    """name of an agent -> ids of the results that it keeps, or kept when it died"""
    holders: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """task and the agent that had its large result, when its session ended -> other agents that had it, too"""
    dependents: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """task -> the tasks that need its result"""
    owners: dict[str, str] = field(default_factory=dict)
    """of a task: the name of its user"""
    clients: dict[bytes, str] = field(default_factory=dict)
    """id -> name of the user"""
    jobs: dict[tuple[str, str], NamedJob] = field(default_factory=dict)
    """by owner and name"""
    rivals: list[tuple[NamedJob, NamedJob]] = field(default_factory=list)
    """jobs of other rows under one name"""
    disk_failed_until: float = -inf
    """when the disk that keeps jobs could be written again"""
    acknowledged: set[str] = field(default_factory=set)
    """rows of jobs of which a program has heard that they have ended well"""
    asked_again: Counter[str] = field(default_factory=Counter)
    """how often a program asked that a row of a job runs again if it has failed"""
    going_on: set[str] = field(default_factory=set)
    """rows of jobs that a program has started, also after somebody else had cancelled them"""
    ordered: dict[bytes, tuple[int, float]] = field(default_factory=dict)
    """id of a row of a job -> number of the run that a worker was told to begin last, and when it was told first"""
    for_nobody: set[int] = field(default_factory=set)
    """numbers of runs of maps that were ordered when no program was there"""
    gone: dict[str, float] = field(default_factory=dict)
    """name -> when its last session has ended"""
    of_canceled_jobs: set[str] = field(default_factory=set)
    """rows of jobs that somebody has cancelled: what ends just then is not kept"""
    needless: set[str] = field(default_factory=set)
    """rows of jobs that have failed because they might have begun, and had not"""

    def lose(self, name: str) -> None:
        """A process has ended, or a session was lost."""
        self.world.log(f"lost: {name}")
        self.losses.append((self.world.now, name))

    def values_left(self, name: str) -> None:
        """A session has ended: of an agent, with all results that it has."""
        if name not in self.results_of:
            return
        stores = {other: set(ids()) for other, ids in self.stores.items() if other != name}
        for object_id in self.results_of[name]():
            holders = {other for other, ids in stores.items() if object_id in ids}
            self.holders[self.keys.get(object_id, ""), name] = holders

    def session_lost(self, name: str, is_agent: bool) -> None:
        if not (is_agent and self.is_alone):
            self.lose(name)
        else:
            self.values_lost.append(self.world.now)

    def _needs_another(self, script: Script, one: Start, other: Start) -> bool:
        """Return whether anything was lost between the orders of two runs: what the older one needed, or its result,
        which an agent keeps that goes on; or the same of a task that needs its result.
        """
        key = script.key
        if self.is_orderly:
            return False
        older, newer = sorted((one, other), key=self._ordered_at)
        needed = older.needed
        since, until = self._ordered_at(older), self._ordered_at(newer)
        if one.attempt == other.attempt:  # results of rows that had not left died with their process
            since, until = sorted((one.at, other.at))
            needed = (one.processor, other.processor)
        if any(self._may_be_lost(each, until) for each in self._all_dependents(key)):
            return True
        if key in self.dependents and self._was_made_for_others(older, until):
            return True
        if key in self.single and self._is_kept_elsewhere(key, older, since, until):
            return False
        return self._was_lost(script, needed, since, until)

    def _was_lost(self, script: Script, needed: Container[str], since: float, until: float) -> bool:
        """Return whether a run of a task, or its result, was lost, if one of `needed` was lost in this time."""
        ended, is_large = self.ends.get(script.key, inf), script.size > INLINE_FRAMES_BYTES
        if is_large and any(ended <= at <= until for at in self.values_lost):
            return True
        losses = [(at, name) for at, name in self.losses if name in needed and since <= at <= until]
        if self.is_alone:  # what ends later is kept for the next scheduler, as large results are, and what runs goes on
            is_kept = is_large and script.key not in self.dependents  # else it is deleted when these have ended
            losses = [(at, name) for at, name in losses if name != SCHEDULER or (ended <= at and not is_kept)]
        return bool(losses)

    def _is_kept_elsewhere(self, key: str, older: Start, since: float, until: float) -> bool:
        """Return whether nothing was lost but the agent of a run whose result another one had, which is still there."""
        lost = {name for at, name in self.losses if since <= at <= until}
        if older.at > max((at for at, name in self.losses if name == older.agent), default=inf):
            return False  # it began when the agent had been lost: the result that the agent had was of an earlier run
        own = {start.agent for start in self.starts[key]}  # such an agent may have the result of its own run
        others = self.holders.get((key, older.agent), set()) - lost - own
        return bool(others) and not {SCHEDULER, older.client} & lost

    def _is_agent_lost(self, since: float, until: float) -> bool:
        return any(name.startswith("agent") and since <= at <= until for at, name in self.losses)

    def _all_dependents(self, key: str) -> set[str]:
        """Return the tasks that need the result of this one, directly or not."""
        found: set[str] = set()
        new = {key}
        while new:
            new = {each for of in new for each in self.dependents.get(of, ())} - found
            found |= new
        return found

    def _was_made_for_others(self, run: Start, until: float) -> bool:
        """Return whether the result of an earlier run was lost, so that this run may have been for a task that needs
        the result, and not for who reads it.
        """
        ordered_at = self._ordered_at(run)
        earlier = [start for start in self.starts[run.script.key] if self._ordered_at(start) < ordered_at]
        before = max(earlier, key=self._ordered_at, default=None)
        return before is not None and self._was_lost(run.script, before.needed, self._ordered_at(before), until)

    def _may_be_lost(self, key: str, until: float) -> bool:
        """Return whether the last run of a task, or its result, may have been lost before `until`: when it runs again,
        what it needs may be gone, since nobody needed it.
        """
        if key not in self.starts:
            return False
        last = self.starts[key][-1]
        return self._was_lost(last.script, last.needed, self._ordered_at(last), until)

    def _ordered_at(self, start: Start) -> float:
        return self.numbered.get(start.attempt, start.at)

    def start(self, script: Script, task_id: bytes, attempt: int, processor: str, agent: str) -> int:
        """A run begins. Return how many runs of this task there were.

        Raises:
            ViolationError: if there was one before, and nothing was lost between their orders, or there must be one.
        """
        self.keys[task_id] = script.key
        ordered_at = self.numbered.get(attempt, self.world.now)
        was_lost = any(name == agent and ordered_at <= at for at, name in self.losses)  # it may not know that yet
        if script.key in self.acknowledged and not was_lost:
            raise ViolationError(f"row {script.key} of a job begins on {processor}, and was acknowledged")
        if attempt in self.for_nobody:
            raise ViolationError(f"row {script.key} of a map begins on {processor}, and no program is there")
        if (task_id, attempt) in self.unwanted:
            raise ViolationError(f"task {script.key} begins on {processor}, which has heard that nobody wants it")
        starts = self.starts.setdefault(script.key, [])
        if self.is_orderly:
            self._check_order(script)
        start = Start(script, self.world.now, attempt, processor, agent, self.owners.get(script.key, ""))
        self.world.log(f"task {script.key} starts on {processor}" + (f", run {len(starts) + 1}" if starts else ""))
        if starts:
            last = starts[-1]
            self.again += 1
            if self.counts_deaths and self.deaths[script.key] >= self.crash_limit:
                raise ViolationError(f"task {script.key} runs again after {self.deaths[script.key]} deaths")
            if script.once:
                raise ViolationError(f"task {script.key} begins a second time on {processor}, and must not")
            may_run = self._is_a_retry(script, last) or self._is_asked_again(script.key)
            if not may_run and not self._needs_another(script, last, start):
                raise ViolationError(
                    f"task {script.key} runs again on {processor} without need: it ran on {last.processor} "
                    f"{start.at - last.at:.3f} s before, and nothing was lost since"
                )
        starts.append(start)
        return len(starts)

    def order(self, attempt: int, rows: Iterable[bytes]) -> bool:
        """A worker is told to begin rows of a job. Return whether that is said again, or what had them was lost."""
        is_again = False
        for row in rows:
            before, at = self.ordered.get(row, (0, inf))
            is_again |= before == attempt or self._is_agent_lost(at, self.world.now)
            if before != attempt:
                self.ordered[row] = attempt, self.world.now
        return is_again

    def _check_order(self, script: Script) -> None:
        """Complain if a task begins before one of the same user that has a higher priority, was there before, and is on
        its way to no worker.
        """
        _, since, _ = self.waiting.pop(script.key, (script, 0.0, b""))
        for other, other_since, task_id in self.waiting.values():
            is_older = other_since < min(since, self.world.now - PATIENCE_SECONDS)
            is_before = other.priority > script.priority and self.owners[other.key] == self.owners[script.key]
            if is_older and is_before and task_id not in self.told():
                raise ViolationError(f"task {script.key} of priority {script.priority} begins before {other}")

    def _is_a_retry(self, script: Script, last: Start) -> bool:
        """Return whether a run follows one that has raised, and there were no more of these than its option says. Each
        scheduler, and each session of its client, counts them anew.
        """
        began = max((at for at, name in self.losses if name in (SCHEDULER, last.client)), default=0.0)
        raised = self.raised.get(script.key, ())
        counted = sum(began <= at and self._is_heard(script.key, at) for at in raised)
        return any(last.at <= at for at in raised) and counted <= script.raises

    def _is_asked_again(self, key: str) -> bool:
        """Return whether somebody asked at least as often that this row of a job runs again as it has failed. A failure
        that was lost before the next run does not count.
        """
        n_failed = sum(self._is_heard(key, at) for at in self.raised.get(key, ()))
        was_canceled = key in self.of_canceled_jobs or any(each == key for each, _ in self.canceled_runs)
        goes_on = self.asked_again[key] > 0 or key in self.going_on
        return 0 < n_failed <= self.asked_again[key] or (was_canceled and goes_on)

    def acknowledge(self, owner: str, name: str, ends: Iterable[RowEnd]) -> None:
        """A program has heard how rows of a job have ended."""
        job = self.jobs[owner, name]
        for row, status, _frames in ends:
            key = job.scripts[row].key
            n_runs = len(self.starts.get(key, ()))
            if not status:
                self.acknowledged.add(key)
            elif n_runs == len(self.raised.get(key, ())):  # else it runs again already
                job.failed[key] = n_runs

    def _is_heard(self, key: str, raised_at: float) -> bool:
        """Return whether what a run raised was not lost before the next run began: with its agent or the scheduler, or,
        of a row of a range, with its processor.
        """
        starts = self.starts[key]
        run = [start for start in starts if start.at <= raised_at][-1]
        needed = run.agent, SCHEDULER, "" if key in self.single else run.processor
        until = next((start.at for start in starts if start.at > raised_at), self.world.now)
        return not any(name in needed and raised_at <= at <= until for at, name in self.losses)

    def end(self, key: str, attempt: int, is_canceled: bool) -> None:
        """A run ends.

        Raises:
            ViolationError: if it should have been interrupted long before.
        """
        now, since = self.world.now, self.canceled.get(key, inf)
        if any(start.attempt == attempt for start in self.starts.get(key, ())):  # else it had not begun
            self.ends[key] = now
        if is_canceled:
            self.canceled_runs.add((key, attempt))
        elif self.is_single:
            self._check_single(key, attempt)
        if not is_canceled and now > max(since, self.disturbed_until) + self.cancel_seconds:
            raise ViolationError(f"task {key} was cancelled {now - since:.1f} s before, and ran to its end")

    def _check_single(self, key: str, attempt: int) -> None:
        """Complain if a run has come to its end long after another one has begun, which goes on."""
        starts = self.starts.get(key, [])
        own = next((start.at for start in starts if start.attempt == attempt), inf)
        for start in starts:
            is_newer = start.at > own and (key, start.attempt) not in self.canceled_runs
            if is_newer and self.world.now > max(start.at, self.disturbed_until) + SINGLE_SECONDS:
                raise ViolationError(
                    f"task {key} ran to its end on two agents, which began {start.at - own:.1f} s apart"
                )

    def die(self, key: str, seconds: float) -> None:
        """A task dies with its processor or agent, after it has run so long."""
        if seconds > HEARD_SECONDS:
            self.deaths[key] += 1

    def raise_if_due(self, script: Script) -> None:
        """Raise what a task raises in its first runs.

        Raises:
            ValueError: it.
        """
        if len(self.raised.get(script.key, ())) < script.raises:
            raise ValueError(script.token)

    def has_raised(self, script: Script) -> None:
        """A run of this task has raised: in its first runs, in each, or because of a nested one."""
        self.raised.setdefault(script.key, []).append(self.world.now)

    def agent_lost(self, name: str) -> None:
        """The session of an agent has ended, as it had to: that counts against the runs whose orders it has heard.
        Where it always comes back, the marks are taken back.
        """
        if self.is_alone:
            return
        for key in self.orders_of[name]() if name in self.orders_of else ():
            self.hit(key)

    def hit(self, key: str) -> None:
        self.hits[key] += 1

    def excuse(self, key: str, needed: Iterable[str], error: BaseException) -> None:
        """A task has failed because it was lost too often, or one that it needs.

        Raises:
            ViolationError: if that is not so.
        """
        n_lost = sum(name.startswith("agent") for _, name in self.losses)
        if n_lost >= TRIES_MOST and f": {TRIES_MOST} agents in a row were lost" in str(error):
            self.excused.add(key)
            return
        if all(self.hits[each] < self.crash_limit for each in (key, *needed)):
            raise ViolationError(
                f"task {key} was lost {self.hits[key]} times while it ran, the limit is {self.crash_limit}: {error!r}"
            )
        if f"(attempt {self.crash_limit} of {self.crash_limit})" not in str(error):
            raise ViolationError(f"task {key} failed at its limit of {self.crash_limit} and says {error!r}")
        self.excused.add(key)

    def excuse_refused(self, key: str, is_unfit: bool, error: BaseException) -> None:
        """A task was refused, or one that it needs: because too many wait, or no node has what it asks for.

        Raises:
            ViolationError: if that is not so.
        """
        if not (is_unfit or self.may_refuse):
            raise ViolationError(f"task {key} was refused: {error!r}")
        self.excused.add(key)

    def excuse_once(self, key: str, needed: Iterable[str], since: float, error: BaseException) -> None:
        """A task that must not begin twice has failed, because something was lost after it was submitted, or so shortly
        before that its client did not know. Of a process that dies only the task that ran fails.

        Raises:
            ViolationError: if that is not so.
        """
        lost = [name for at, name in self.losses if at >= since - UNKNOWN_SECONDS]
        is_unknown = any(at >= since - UNKNOWN_SECONDS for at, _ in self.spoilt)  # whether its message was handled
        if not (lost or is_unknown):
            raise ViolationError(f"task {key} failed although nothing was lost: {error!r}")
        if (
            not is_unknown
            and all(name in self.processors for name in lost)
            and not any(map(self._has_died, (key, *needed)))
        ):
            raise ViolationError(f"task {key} failed although it did not run in a process that died: {error!r}")
        self.excused.add(key)

    def _has_died(self, key: str) -> bool:
        """Return whether the last run of a task has died with its process."""
        last = max((start.at for start in self.starts.get(key, ())), default=inf)
        return self.hits[key] > 0 and self.ends.get(key, 0.0) < last

    def excuse_unread(self, key: str, user: str, needed: Iterable[str], error: BaseException) -> None:
        """A large result was not had before it was lost too often: with its scheduler, its agent, or the session of its
        client. Or a task that it needs was refused when it was made again.

        Raises:
            ViolationError: if that is not so.
        """
        times = sum(name in (SCHEDULER, user) or name.startswith("agent") for _, name in self.losses)
        if times < TRIES_MOST and self.excused.isdisjoint(needed):
            raise ViolationError(f"the result of task {key} is missing after {times} losses: {error!r}")
        self.excused.add(key)
