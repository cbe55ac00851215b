"""Tasks and workers for a policy under test: plain values, as a policy knows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scaler.ids import ObjectId

SHORT = ObjectId(b"s" * 16)


@dataclass
class Work:
    """What a client has submitted."""

    function_id: ObjectId = SHORT
    priority: int = 0
    options: bytes = b""
    rows: int = 0


@dataclass
class Task:
    """A task that is ready; `task` tells it from others."""

    task: Any
    account: int = 0
    spec: Work = field(default_factory=Work)
    attempt: int = 1
    goes_first: bool = False
    near_worker: Any = None
    context: Any = None

    @property
    def is_new(self) -> bool:
        return self.attempt == 1


def task(
    name: Any,
    account: int = 0,
    priority: int = 0,
    goes_first: bool = False,
    attempt: int = 1,
    function_id: ObjectId = SHORT,
) -> Task:
    return Task(name, account, Work(function_id, priority), attempt, goes_first)


def of_map(name: Any, account: int = 0, function_id: ObjectId = SHORT, **others: Any) -> Task:
    return Task(name, account, Work(function_id, **others))
