"""Directions: which messages may travel which way. A class declares its directions: `@travels(CLIENT_TO_SCHEDULER)`.

Each direction is a union of the same name in the schemas, which number the members of the union. A test compares both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from scaler.message import dataclass_transform, message
from scaler.wire.messages.columns import Batch

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Direction:
    """The messages of one direction, and the name of their union in the schema."""

    name: str
    schema: str
    number: int
    """the number in every message of this direction, so that a message of another direction is refused"""
    items: list[type] = field(default_factory=list, repr=False)

    @property
    def batches(self) -> list[type[Batch[Any]]]:
        """The batch classes of the messages of this direction."""
        return [Batch.__class_getitem__(item) for item in self.items]


CLIENT_TO_SCHEDULER = Direction("ClientToScheduler", "client", 1)
SCHEDULER_TO_CLIENT = Direction("SchedulerToClient", "client", 2)
AGENT_TO_SCHEDULER = Direction("AgentToScheduler", "worker", 3)
SCHEDULER_TO_AGENT = Direction("SchedulerToAgent", "worker", 4)
AGENT_TO_PROCESSOR = Direction("AgentToProcessor", "processor", 5)
PROCESSOR_TO_AGENT = Direction("ProcessorToAgent", "processor", 6)
SCHEDULER_TO_MONITOR = Direction("SchedulerToMonitor", "monitor", 7)
DIRECTIONS = (
    CLIENT_TO_SCHEDULER,
    SCHEDULER_TO_CLIENT,
    AGENT_TO_SCHEDULER,
    SCHEDULER_TO_AGENT,
    AGENT_TO_PROCESSOR,
    PROCESSOR_TO_AGENT,
    SCHEDULER_TO_MONITOR,
)


@dataclass_transform(frozen_default=True, eq_default=True, field_specifiers=(field,))
def travels(*directions: Direction) -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes a class a message of these directions."""

    def made(cls: type[T]) -> type[T]:
        item = message(cls)
        for direction in directions:
            direction.items.append(item)
        return item

    return made
