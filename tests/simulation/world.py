"""World: virtual time, chance and parties of one simulated run. Whatever is random comes from its seed.

A party is a process: scheduler, agent, processor or client. What happens to it is an event of the world, which runs one
event after the other. A dead party misses its events, and a paused one has them when it goes on.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, ClassVar, TypeAlias

from scaler import task_context
from scaler.task_context import TaskContext
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER, SCHEDULER_TO_CLIENT, Direction

Action: TypeAlias = Callable[[], Any]

START_SECONDS = 1_000.0
LATE_MOST_SECONDS = 0.003
"""After a stop, the threads of a process go on in any order."""
EVENTS_MOST = 500_000
"""Ten times as many as the longest runs have."""


class Event:
    """Something that will happen, unless it is cancelled."""

    __slots__ = ("_action", "party")

    def __init__(self, action: Action, party: Party | None) -> None:
        self._action: Action | None = action
        self.party = party

    def cancel(self) -> None:
        self._action = None

    def happen(self) -> None:
        action, self._action = self._action, None
        if action is None:
            return
        if self.party is None:
            action()
        else:
            self.party.do(action)


class ViolationError(AssertionError):
    """The run has shown a defect."""


class World:
    """One run.

    Args:
        seed: of all that is random.
        tell: gets each line of the log as it is written.
    """

    def __init__(self, seed: int, tell: Callable[[str], object] | None = None) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.chance = random.Random(seed + 1)
        """for what parties draw themselves, such as ids"""
        self.now = START_SECONDS
        self.current: Party | None = None
        self.lines: list[str] = []
        self.violations: list[str] = []
        self._tell = tell
        self._events: list[tuple[float, int, Event]] = []
        self._count = 0
        self._descriptors = 1_000_000

    def log(self, line: str) -> None:
        line = f"{self.now - START_SECONDS:9.3f} {line}"
        self.lines.append(line)
        if self._tell is not None:
            self._tell(line)

    def complain(self, text: str) -> None:
        """A defect was seen; the run ends."""
        self.log(f"!! {text}")
        self.violations.append(text)

    def new_descriptor(self) -> int:
        self._descriptors += 1
        return self._descriptors

    def monotonic(self) -> float:
        """Return the time on the clock of the party that asks."""
        return self.now if self.current is None else self.now + self.current.clock_ahead

    def monotonic_ns(self) -> int:
        return int(self.monotonic() * 1e9)

    def urandom(self, count: int) -> bytes:
        return self.chance.randbytes(count)

    def at(self, seconds: float, action: Action, party: Party | None = None) -> Event:
        """Have something happen after `seconds`, to a party or to the world."""
        event = Event(action, party)
        self._count += 1
        heapq.heappush(self._events, (self.now + max(0.0, seconds), self._count, event))
        return event

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass. Return whether `until` came true; the end of time, too, is a reason to stop."""
        end = self.now + seconds
        events = self._events
        while events and events[0][0] <= end and not self.violations:
            self.now, count, event = heapq.heappop(events)
            if count > EVENTS_MOST:
                self.complain("the run has no end")
                break
            event.happen()
            if until is not None and until():
                return True
        self.now = max(self.now, end)
        return until is not None and until()


class Party:
    """A process of the simulation, on a host of the network."""

    directions: ClassVar[dict[str, Direction]] = {"up": CLIENT_TO_SCHEDULER, "down": SCHEDULER_TO_CLIENT}
    """what it says to the scheduler, and what it hears"""

    def __init__(self, world: World, name: str, host: str) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.owner = ""
        """whose process it is, as the scheduler sees it"""
        self.is_alive = True
        self.is_paused = False
        self.stopped_at = -inf
        """when it was stopped last, or went on"""
        self.clock_ahead = 0.0
        self.context = TaskContext()
        self._missed: deque[Action] = deque()
        self.on_go_on: list[Action] = []
        """what the other threads of the process do when it goes on"""

    @property
    def runs(self) -> bool:
        return self.is_alive and not self.is_paused

    def do(self, action: Action) -> None:
        """Have the process do something, now or when it goes on."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._missed.append(action)
            return
        world, context = self.world, task_context.current
        before, world.current = world.current, self
        task_context.current = self.context
        try:
            action()
            self.after()
        except ViolationError as violation:
            world.complain(str(violation))
        except Exception as error:  # noqa: BLE001 - in a loop, it would be logged, and whatever it interrupted is lost
            import traceback

            world.lines.append(traceback.format_exc())
            world.complain(f"an exception reached the loop of {self.name}: {error!r}")
        finally:
            world.current = before
            task_context.current = context

    def after(self) -> None:
        """Called after each event."""

    def soon(self, action: Action, seconds: float = 0.0) -> Event:
        return self.world.at(seconds, action, self)

    def pause(self) -> None:
        """As by SIGSTOP."""
        self.is_paused, self.stopped_at = True, self.world.now

    def go_on(self) -> None:
        if not self.is_paused:
            return
        self.is_paused, self.stopped_at = False, self.world.now
        missed, self._missed = self._missed, deque()
        others, self.on_go_on = self.on_go_on, []
        for action in others:
            self.world.at(self.world.random.random() * LATE_MOST_SECONDS, action)
        for action in missed:
            self.do(action)

    def die(self) -> None:
        """As by SIGKILL: it does nothing any more. Its connections are ended by the network."""
        self.is_alive = False
        self._missed.clear()
