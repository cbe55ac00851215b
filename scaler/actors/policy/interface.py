"""Interface: the decisions of the policy, and its figures about waiting tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scaler.ids import ObjectId
from scaler.kit import ActorRef

if TYPE_CHECKING:
    from scaler.actors.messages.tasks import TaskReady


class ResourceGroup(NamedTuple):
    """The open tasks that ask for the same resources."""

    asks: str
    """such as `gpu=1,memory=1024`; empty if they ask for nothing"""
    waiting: int
    running: int
    places: int
    """how many of them the connected workers can run at a time"""
    capacity: Capacity
    functions: Mapping[ObjectId, int]
    """number of waiting tasks by function; empty if they are not counted"""
    known_us: Callable[[ObjectId], float]
    """returns the duration of a function's tasks; 0 if unknown"""
    last_function: ObjectId | None
    """the function of the task that arrived last; running tasks of the group are assumed to have this function"""


@dataclass(slots=True)
class Decisions:
    """The decisions of one turn, to be carried out in this order."""

    assigned: dict[ActorRef, list[tuple[TaskReady, int]]] = field(default_factory=dict)
    """tasks by worker, with the microseconds of work that each counts for until it is freed"""
    refused: list[tuple[TaskReady, str]] = field(default_factory=list)
    """tasks to refuse, and why"""
    recalled: dict[ActorRef, int] = field(default_factory=dict)
    """number of tasks to recall, by worker"""
    look_at: float | None = None
    """the time at which to ask again, at the latest; None: only after a change"""
    split: list[TaskReady] = field(default_factory=list)
    """ranges that are too long: each of their rows reports ready as a task of its own, ahead of new tasks"""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The figures about workers that explain why a task waits."""

    workers: int
    with_room: int
    """how many workers accept tasks now, among those on hosts where the requested resources are free"""
    tasks: int
    """number of tasks at all workers"""
    asked: str = ""
    """the resources that the task asks for; empty if none"""
    able: int = 0
    """how many workers could take the task, if it asks for resources"""
    has_free: bool = True
    """whether these resources are free on some host"""
    missing: str = ""
    """a sentence about the resources that no host has"""
    held: int = 0
    """number of paused workers: their hosts have no memory for results"""
