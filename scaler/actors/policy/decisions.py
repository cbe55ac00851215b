"""Decisions: what the policy has decided in one turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler.actors.messages.tasks import TaskReady
from scaler.kit import ActorRef


@dataclass(slots=True)
class Decisions:
    """The decisions of the policy in one turn, which the balancer carries out in the order of the fields."""

    assigned: dict[ActorRef, list[tuple[TaskReady, int]]] = field(default_factory=dict)
    """the assigned tasks by worker, each with its expected work in microseconds, which is subtracted when it ends"""
    refused: list[tuple[TaskReady, str]] = field(default_factory=list)
    """the tasks to refuse, each with the reason"""
    recalled: dict[ActorRef, int] = field(default_factory=dict)
    look_at: float | None = None
    """the latest time at which to request decisions again; None: only after a change"""
    too_long: list[TaskReady] = field(default_factory=list)
    """ranges that are too long: each row becomes a task of its own, ahead of new tasks"""
