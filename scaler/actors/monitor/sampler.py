"""Sampler: chooses the tasks whose steps the monitor hears: all while few end, otherwise those that it names.

Used by the monitor. It sets `Events.followed`, and nothing else. Must never: let the monitor hear very many steps.
"""

from __future__ import annotations

from scaler.actors.insight.events import EVERY_TASK, Events
from scaler.actors.monitor.tasks import SampledTasks

ALL_BELOW, SOME_ABOVE = 150, 200
"""Tasks that end in a second: below the first number all are followed, until there are more than the second."""

LEAST_SECONDS = 0.5
"""No rate is taken over less time."""

STEPS_MOST = 1000
"""After so many steps between two ticks, not all are followed any more."""


class Sampler:
    """Decides after each tick."""

    def __init__(self, events: Events, tasks: SampledTasks) -> None:
        self._events = events
        self._tasks = tasks
        self._last: tuple[float, int] | None = None
        """when it looked last, and how many tasks had ended"""
        self._rate = 0.0
        """ends in a second"""
        self._follows_all = False
        self._steps = 0

    def look(self, now: float, *, wants_sample: bool, wants_some: bool) -> None:
        """Decide anew. Call it at each tick, and when subscriptions have changed."""
        ended = sum(self._events.ended)
        if self._last is None:
            self._last = (now, ended)
        elif now - self._last[0] >= LEAST_SECONDS:
            self._rate = (ended - self._last[1]) / (now - self._last[0])
            self._last = (now, ended)
        is_calm = self._steps < STEPS_MOST and self._rate <= (SOME_ABOVE if self._follows_all else ALL_BELOW)
        self._steps = 0
        self._follows_all = wants_sample and is_calm
        if self._follows_all:
            self._events.followed = EVERY_TASK
        else:
            self._events.followed = self._tasks.followed if wants_sample or wants_some else None

    def heard(self) -> None:
        """There was a step of a task."""
        self._steps += 1
        if self._steps == STEPS_MOST and self._follows_all:
            self._follows_all = False
            self._events.followed = self._tasks.followed
