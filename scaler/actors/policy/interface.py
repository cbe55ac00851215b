"""Interface: what the policy says: its decisions, and what tasks wait for.

Must never: know an actor or a clock; the time comes with the question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scaler.ids import ObjectId
from scaler.kit import ActorRef

if TYPE_CHECKING:
    from scaler.actors.messages.tasks import TaskReady


class ResourceGroup(NamedTuple):
    """Tasks that ask for the same resources."""

    asks: str
    """such as `gpu=1,memory=1024`; empty: nothing"""
    waiting: int
    running: int
    places: int
    """how many of them the connected workers can run at a time"""
    capacity: Capacity
    functions: Mapping[ObjectId, int]
    """how many waiting ones call which function; empty if nobody counts"""
    known_us: Callable[[ObjectId], float]
    """how long a task of a function takes; 0: not known"""
    last_function: ObjectId | None
    """of the last one that came, for those that run"""


@dataclass(slots=True)
class Decisions:
    """The decisions of one turn, to be carried out in this order."""

    assigned: dict[ActorRef, list[tuple[TaskReady, int]]] = field(default_factory=dict)
    """which worker gets which tasks, and for how many microseconds of work each counts until it is freed"""
    refused: list[tuple[TaskReady, str]] = field(default_factory=list)
    """tasks that will not wait, and why"""
    recalled: dict[ActorRef, int] = field(default_factory=dict)
    """how many tasks to recall from which workers"""
    look_at: float | None = None
    """when to ask again, at the latest"""
    split: list[TaskReady] = field(default_factory=list)
    """ranges that are too long: each row is to report ready as a task of its own, and to go first"""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a policy says about a task that waits for a worker."""

    workers: int
    """how many there are"""
    with_room: int
    """how many get tasks now, of those where what it asks for is free"""
    tasks: int
    """how many tasks all workers have"""
    asked: str = ""
    """what the task asks for; empty: nothing"""
    able: int = 0
    """how many workers could take it, if it asks for something"""
    has_free: bool = True
    """whether what it asks for is free somewhere"""
    missing: str = ""
    """what nobody has, as a sentence"""
    held: int = 0
    """how many workers begin nothing, because there is no room for results on their hosts"""
