"""View: what the workers of a node do now, as they say it when the agent asks.

The agent makes one and passes it to its workers in the urgent lane (`SayRuns`); they add their parts. Must never: be
kept by an actor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler.wire.messages.worker import RunTask


@dataclass
class ProcessNow:
    """A process of a worker, or a thread, and what it executes."""

    worker: int
    pid: int
    """0: it has none of its own"""
    task: RunTask | None
    ran_seconds: float
    is_waiting: bool
    """its task waits for others, and holds no place"""


@dataclass
class View:
    """What the workers of a node do now. They add their parts."""

    processes: list[ProcessNow] = field(default_factory=list)
