"""Record: what really happened in a run, against which the project's own view is checked.

A task needs a second run only if its first one was lost: with its processor or agent, with the session of its agent or
client, or with the scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.simulation.programs import Script
from tests.simulation.world import ViolationError, World

SCHEDULER = "scheduler"
ORDER_SECONDS = 60.0
"""An order may be so old when its run begins: it waited in a queue, or at a process that was stopped."""


@dataclass
class Start:
    """One run of a task."""

    at: float
    processor: str
    agent: str
    client: str


@dataclass
class Record:
    """The truth about runs and losses."""

    world: World
    crash_limit: int = 3
    """of the scheduler"""
    check_each: int = 8
    """all invariants are checked after one in so many turns"""
    orders_of: dict[str, Callable[[], list[Script]]] = field(default_factory=dict)
    """name of an agent -> what it has been told to run, and has not ended"""
    starts: dict[str, list[Start]] = field(default_factory=dict)
    hits: Counter[str] = field(default_factory=Counter)
    """how often a task was lost with its processor or agent while it may have run"""
    losses: list[tuple[float, str]] = field(default_factory=list)
    again: int = 0
    """runs that were needed again"""
    canceled: set[str] = field(default_factory=set)
    excused: set[str] = field(default_factory=set)
    """tasks that failed, as they should, with what was lost"""
    owners: dict[str, str] = field(default_factory=dict)
    """of a task: the name of its user"""
    clients: dict[bytes, str] = field(default_factory=dict)
    """id -> name of the user"""

    def lose(self, name: str) -> None:
        """A process has ended, or a session was lost."""
        self.world.log(f"lost: {name}")
        self.losses.append((self.world.now, name))

    def _needs_another(self, last: Start) -> bool:
        """Return whether a process was lost since this run began, or a session not long before: it may have begun since
        its order was on the way.
        """
        since = last.at - ORDER_SECONDS
        if any(at >= since and name in (last.client, last.agent, SCHEDULER) for at, name in self.losses):
            return True
        return any(at >= last.at and name == last.processor for at, name in self.losses)

    def start(self, script: Script, processor: str, agent: str) -> int:
        """A run begins. Return how many runs of this task there were.

        Raises:
            ViolationError: if there was one before, and nothing has been lost since.
        """
        starts = self.starts.setdefault(script.key, [])
        now, client = self.world.now, self.owners.get(script.key, "")
        self.world.log(f"task {script.key} starts on {processor}" + (f", run {len(starts) + 1}" if starts else ""))
        if starts:
            last = starts[-1]
            self.again += 1
            if not self._needs_another(last):
                raise ViolationError(
                    f"task {script.key} runs again on {processor} without need: it ran on {last.processor} "
                    f"{now - last.at:.3f} s before, and nothing was lost since"
                )
        starts.append(Start(now, processor, agent, client))
        return len(starts)

    def agent_lost(self, name: str) -> None:
        """The session of an agent has ended, as it had to: that counts against the runs whose orders it has heard."""
        for script in self.orders_of[name]() if name in self.orders_of else ():
            self.hit(script)

    def hit(self, script: Script) -> None:
        self.hits[script.key] += 1

    def excuse(self, key: str, needed: Iterable[str], error: BaseException) -> None:
        """A task has failed because it was lost too often, or one that it needs.

        Raises:
            ViolationError: if that is not so.
        """
        if all(self.hits[each] < self.crash_limit for each in (key, *needed)):
            raise ViolationError(
                f"task {key} was lost {self.hits[key]} times while it ran, the limit is {self.crash_limit}: {error!r}"
            )
        self.excused.add(key)
