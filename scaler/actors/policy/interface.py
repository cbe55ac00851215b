"""What a policy is: it hears what is ready and who has room, and decides who gets what, in which order.

Called by the balancer, which turns mail into these calls and decisions into mail. A policy is a plain value: it knows
workers and tasks only as things that can be told apart. It is asked for decisions after all mail of a turn is in.

Must never: know a message, an actor or a clock; the time comes with the question.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from scaler.ids import ObjectId

W = TypeVar("W", bound=Hashable)
"""What tells workers apart."""


class Spec(Protocol):
    """What a policy reads of what a client has submitted."""

    @property
    def function_id(self) -> ObjectId:
        """Tasks of one function are taken to be alike."""

    @property
    def priority(self) -> int:
        """The greater goes first: how deep it is nested, and the wish of its user."""


class Ready(Protocol):
    """What a policy reads of a task that is ready."""

    @property
    def task(self) -> Hashable:
        """What tells tasks apart."""

    @property
    def spec(self) -> Spec:
        """What was submitted."""

    @property
    def is_new(self) -> bool:
        """It has never been let in: only such a task may be refused."""

    @property
    def again(self) -> bool:
        """It goes before those of its account and priority that were never tried."""

    @property
    def near(self) -> Any:
        """A worker on whose host it had better run, or None."""

    @property
    def account(self) -> int:
        """On whose share it runs."""


T = TypeVar("T", bound=Ready)


@dataclass(slots=True)
class Decisions(Generic[W, T]):
    """What is to be done now, in this order."""

    assigned: list[tuple[T, W, int]] = field(default_factory=list)
    """which worker gets which task, and for how many microseconds of work it counts until it is freed"""
    refused: list[tuple[T, str]] = field(default_factory=list)
    """tasks that will not wait, and why"""
    recalled: dict[W, int] = field(default_factory=dict)
    """how many tasks workers shall give back"""
    look_at: float | None = None
    """when to ask again, if nothing happens before"""


class Policy(Protocol[W, T]):
    """Decides where tasks go. Each call takes constant time, however many tasks, clients and workers there are."""

    def ready(self, tasks: Iterable[T]) -> None:
        """These tasks can run, or say so anew, with a higher attempt."""

    def withdraw(self, task: Hashable, priority: int, account: int) -> bool:
        """A task does not want to run any more. Returns whether it waited."""

    def join(self, worker: W, queue_size: int, tasks: int, work_us: int, host: Hashable) -> None:
        """A worker takes tasks, and has so many. One that has joined already is not changed."""

    def leave(self, worker: W) -> None:
        """A worker takes none any more."""

    def freed(self, worker: W, tasks: int, work_us: int, measured: Mapping[ObjectId, tuple[int, int]]) -> bool:
        """So many tasks of a worker ended, which counted for so much work. Returns whether to ask for decisions.

        Args:
            measured: by function, how many microseconds those took that ran to their end, and how many they were.
        """

    def recalled(self, worker: W, tasks: int, work_us: int, function_ids: set[ObjectId]) -> None:
        """A worker gave tasks of these functions back. Each will be ready again."""

    def resumed(self, worker: W, tasks: int, work_us: int) -> None:
        """Tasks of a worker that were freed because they waited go on, whether there is room or not."""

    def forget(self) -> None:
        """All workers and tasks will be said anew."""

    def decide(self, now: float) -> Decisions[W, T]:
        """Return what to do. To be called when tasks are ready, workers have joined, `freed` says so, or it is time."""

    def statistics(self) -> dict[str, int]:
        """Return counts: tasks that wait, workers."""
