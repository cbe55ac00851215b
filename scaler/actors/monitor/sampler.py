"""Sampler: chooses the tasks whose moves the monitor receives: all tasks while few end, else only the watched tasks."""

from __future__ import annotations

from scaler.actors.monitor.tasks import SampledTasks
from scaler.actors.vocabulary.events import EVERY_TASK, Events

ALL_BELOW, SOME_ABOVE = 150, 200
"""Two rates of ended tasks per second: following all tasks starts below the first, and stops above the second."""

LEAST_SECONDS = 0.5
"""The shortest time over which the rate of ended tasks is measured."""

NEW_MOST = 300
"""Limit of the tasks added to the sample between two ticks, which limits the cost of a burst. At this number the
monitor stops following all tasks. It follows the tasks in the sample until they end.
"""


class Sampler:
    """Decides whether the monitor follows all tasks or only some."""

    def __init__(self, events: Events, tasks: SampledTasks) -> None:
        self._events = events
        self._tasks = tasks
        self._last: tuple[float, int] | None = None
        """the time of the last measurement, and the number of tasks that had ended by then"""
        self._rate = 0.0
        self._follows_all = False
        self._n_new = 0

    def look(self, now: float, *, wants_sample: bool, wants_some: bool) -> None:
        """Choose the tasks to follow, given whether viewers want the topic `tasks`, or watch single tasks."""
        ended = sum(self._events.ended)
        if self._last is None:
            self._last = (now, ended)
        elif now - self._last[0] >= LEAST_SECONDS:
            self._rate = (ended - self._last[1]) / (now - self._last[0])
            self._last = (now, ended)
        is_calm = self._n_new < NEW_MOST and self._rate <= (SOME_ABOVE if self._follows_all else ALL_BELOW)
        self._n_new = 0
        self._follows_all = wants_sample and is_calm
        if self._follows_all:
            self._events.followed = EVERY_TASK
        elif wants_sample or wants_some:
            self._events.followed = self._tasks.followed
        else:
            self._events.followed = None
            self._tasks.drop_open()

    def count_new(self) -> None:
        """Count a task that was added to the sample. Stop following all tasks if there were too many since a tick."""
        self._n_new += 1
        if self._n_new == NEW_MOST and self._follows_all:
            self._follows_all = False
            self._events.followed = self._tasks.followed
