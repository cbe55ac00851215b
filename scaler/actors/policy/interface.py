"""The policy interface: a policy learns of ready tasks and free workers, and decides who gets which task in which
order.

Called by the balancer, which turns mail into these calls and decisions into mail. A policy is a plain value: it knows
workers and tasks only as hashable values. It is asked for decisions after all mail of a turn.

Must never: know a message, an actor or a clock; the time comes with the question.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from scaler.actors.policy.needs import Needs, Offer
from scaler.ids import ObjectId

NO_OFFER = Offer()

W = TypeVar("W", bound=Hashable)
"""Identifies a worker."""


class Spec(Protocol):
    """The part of a submitted task that a policy reads."""

    @property
    def function_id(self) -> ObjectId:
        """Tasks of one function are assumed to be alike."""

    @property
    def priority(self) -> int:
        """The greater goes first: how deep it is nested, and the wish of its user."""

    @property
    def options(self) -> bytes:
        """What its user wants of it; empty: nothing but the usual."""

    @property
    def rows(self) -> int:
        """How many calls it is, if it is a range; else 0."""


class Ready(Protocol):
    """The part of a ready task that a policy reads."""

    @property
    def task(self) -> Hashable:
        """Identifies a task."""

    @property
    def spec(self) -> Spec:
        """What was submitted."""

    @property
    def is_new(self) -> bool:
        """It was never accepted: only such a task may be refused."""

    @property
    def goes_first(self) -> bool:
        """It goes before new tasks of its account and priority."""

    @property
    def near_worker(self) -> Any:
        """The worker on whose host it should run, or None."""

    @property
    def account(self) -> int:
        """Its account."""

    @property
    def context(self) -> Any:
        """Of a single task: it is noted that it may begin, and no other one of these is to wait behind it. None: of
        others.
        """


T = TypeVar("T", bound=Ready)


def a_turn_each(_function_id: ObjectId) -> float:
    """Return how long a task of any function takes, if each is a turn of its client."""
    return inf


class Order(Protocol[T]):
    """Tasks that wait, and which is next. Numbers count each row of a range."""

    def __len__(self) -> int: ...

    def __bool__(self) -> bool: ...

    def __iter__(self) -> Iterator[T]: ...

    def put(self, tasks: Iterable[T]) -> None:
        """Add tasks. A task that reports again when asked waits once."""

    def put_back(self, ready: T) -> None:
        """Put back the task that was yielded last: it is the next one, as if it had not been yielded."""

    def remove(self, task: Hashable, priority: int, account: int) -> T | None:
        """Remove a task and return it; None if it did not wait."""

    def drain(self, expected_us: Callable[[ObjectId], float] = a_turn_each) -> Iterator[T]:
        """Remove and yield one task after the other, until the caller stops.

        Args:
            expected_us: returns how long one more task of a function is expected to take.
        """

    def first(self) -> T | None:
        """Return the task that `drain` yields next; None if there is none."""

    def greatest(self, account: int) -> float:
        """Return the greatest priority among the tasks of an account, as far as it matters here; -inf: none waits."""

    def pass_turn(self) -> None:
        """Let the account of the first task come last, if accounts take turns."""

    def clear(self) -> None:
        """Forget all tasks."""

    def by_account(self) -> dict[int, int]:
        """Return how many tasks of each account wait; nothing if accounts take no turns."""


class Backlog(Protocol):
    """What a monitor wants to know."""

    waiting: int
    """tasks that no worker has"""
    running: int
    """tasks that workers have, without those that wait for others"""
    workers: int
    accounts: dict[int, int]
    """waiting tasks by account; empty if accounts take no turns"""
    groups: list[Group]
    """all of these tasks, by what they ask for; first those that ask for nothing"""


class Group(NamedTuple):
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
class Decisions(Generic[W, T]):
    """The decisions of one turn, to be carried out in this order."""

    assigned: dict[W, list[tuple[T, int]]] = field(default_factory=dict)
    """which worker gets which tasks, and for how many microseconds of work each counts until it is freed"""
    refused: list[tuple[T, str]] = field(default_factory=list)
    """tasks that will not wait, and why"""
    recalled: dict[W, int] = field(default_factory=dict)
    """how many tasks to recall from which workers"""
    look_at: float | None = None
    """when to ask again, at the latest"""
    needs: dict[Hashable, Needs] | None = None
    """what the assigned tasks take of their nodes, for those that ask for resources"""
    split: list[T] = field(default_factory=list)
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


class Policy(Protocol[W, T]):
    """Decides where tasks go. Each call takes constant time, however many tasks, clients and workers there are."""

    def ready(self, tasks: Iterable[T]) -> None:
        """Add ready tasks. A task may report again, with a higher attempt."""

    def ready_constrained(self, tasks: Iterable[tuple[T, Needs]]) -> None:
        """Add ready tasks that ask for something. The same holds for them."""

    def held(self, host: Hashable, workers: int) -> None:
        """So many workers of a host begin nothing, because there is no room for results there."""

    def withdraw(self, task: Hashable, priority: int, account: int) -> bool:
        """Withdraw a task. Return whether it waited."""

    def take_wanted(self, task: Hashable, priority: int, account: int) -> tuple[W, T] | None:
        """Somebody waits for a task that asks for nothing. If hosts have no room for results, and no worker elsewhere
        has room, withdraw it, and return one of their workers; there it counts when it is said to have resumed.
        """

    def join(
        self,
        worker: W,
        queue_size: int,
        tasks: int,
        work_us: int,
        host: Hashable,
        offer: Offer = NO_OFFER,
        taken: Iterable[tuple[Needs, int]] = (),
        is_unsure: bool = False,
    ) -> None:
        """Add a worker with its present load. A worker that has joined already is not changed.

        Args:
            offer: what its node has.
            taken: how many of its tasks take what of that.
            is_unsure: whether there may be more of these.
        """

    def leave(self, worker: W) -> bool:
        """Remove a worker. Return whether to ask for decisions."""

    def amounts_changed(self, worker: W, changes: Iterable[tuple[Needs, int]], is_unsure: bool) -> bool:
        """So many tasks of a worker that take this have come, or have ended if it is less than 0. Return whether to ask
        for decisions. What `decide` assigns is counted without this.
        """

    def freed(self, worker: W, tasks: int, work_us: int, measured: Mapping[ObjectId, tuple[int, int]]) -> bool:
        """Subtract a worker's ended tasks and their work. Return whether to ask for decisions.

        Args:
            measured: by function, total run time in microseconds and number of the tasks that ran to their end.
        """

    def recalled(self, worker: W, tasks: int, work_us: int, function_ids: set[ObjectId]) -> bool:
        """A worker gave tasks of these functions back. They will report ready again, unless they were cancelled. Return
        whether there may be something to decide.
        """

    def resumed(self, worker: W, tasks: int, work_us: int) -> None:
        """Blocked tasks of a worker continue, or tasks come that only it may run, whether there is room or not."""

    def forget(self) -> None:
        """Forget everything: all workers and tasks will report again."""

    def decide(self, now: float) -> Decisions[W, T]:
        """Return the decisions. Called when tasks are ready, workers have joined, `freed` returns True, or a check is
        due.
        """

    def capacity(self, needs: Needs | None) -> Capacity:
        """Return what a task that waits may have to wait for. `needs`: what it asks for."""

    def report_backlog(self, backlog: Backlog, functions: bool) -> None:
        """Fill in what waits and what runs.

        Args:
            functions: whether to count the functions of the tasks that wait, from now on.
        """

    def statistics(self) -> dict[str, int]:
        """Return counts: tasks that wait, workers."""
