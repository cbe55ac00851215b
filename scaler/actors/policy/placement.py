"""Placement: the scheduler's policy: tasks in some order, each to the worker with the fewest tasks.

The order is a separate value: `in_order` or `fair_share`. This is the part that all orders share: durations, room,
refusals and recalls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from typing import Any, Generic, Protocol

from scaler.actors.policy.backlog import Backlog
from scaler.actors.policy.fair_share import FairShare
from scaler.actors.policy.in_order import InOrder
from scaler.actors.policy.interface import Backlog as WhatWaits
from scaler.actors.policy.interface import Decisions, Policy, Room, Spec, T, W
from scaler.actors.policy.places import WORK_AHEAD_US, Places
from scaler.actors.policy.rounds import Rounds
from scaler.actors.policy.rules import FAIR, FIFO, Rules
from scaler.durations import Durations
from scaler.ids import ObjectId
from scaler.wire.priority import depth_of

FUNCTIONS_REMEMBERED = 1024
"""How many functions have known durations; the latest ones."""


class Order(Protocol[T]):
    """The tasks that wait, and which is next."""

    def __len__(self) -> int: ...

    def __bool__(self) -> bool: ...

    def __iter__(self) -> Iterator[T]: ...

    def put(self, tasks: Iterable[T]) -> None:
        """Add tasks. A task that reports again when asked waits once."""

    def remove(self, task: Hashable, priority: int, account: int) -> bool:
        """Remove a task. Returns whether it waited."""

    def drain(self) -> Iterator[T]:
        """Remove and yield one task after the other, until the caller stops."""

    def clear(self) -> None:
        """Forget all tasks."""

    def by_account(self) -> dict[int, int]:
        """Return how many tasks of each account wait; nothing if accounts take no turns."""


ORDERS: dict[str, Callable[[], Order[Any]]] = {FAIR: FairShare, FIFO: InOrder}


def make_policy(rules: Rules) -> Policy[Any, Any]:
    """Return the policy that the settings name."""
    return Placement(rules, ORDERS[rules.policy]())


class Placement(Generic[W, T]):
    """The policy.

    Args:
        order: which task is next; empty.
    """

    def __init__(self, rules: Rules, order: Order[T]) -> None:
        self._rules = rules
        self._queue = order
        self._places: Places[W] = Places()
        self._durations = Durations(WORK_AHEAD_US, FUNCTIONS_REMEMBERED)
        self._rounds: Rounds[W] = Rounds(rules)
        self._backlog: Backlog[T] | None = Backlog() if rules.waiting_most >= 0 else None

    def ready(self, tasks: Iterable[T]) -> None:
        if self._backlog is not None:
            tasks = list(tasks)
            for task in tasks:
                self._backlog.add(task, task.is_new and not depth_of(task.spec.priority))
        self._queue.put(tasks)

    def withdraw(self, task: Hashable, priority: int, account: int) -> bool:
        if self._backlog is not None:
            self._backlog.remove(task, account)
        return self._queue.remove(task, priority, account)

    def join(self, worker: W, queue_size: int, tasks: int = 0, work_us: int = 0, host: Hashable = None) -> None:
        if worker not in self._places:
            self._places.join(worker, queue_size, tasks, work_us, host)

    def leave(self, worker: W) -> None:
        self._places.leave(worker)

    def freed(self, worker: W, tasks: int, work_us: int, measured: Mapping[ObjectId, tuple[int, int]]) -> bool:
        for function_id, (total_us, count) in measured.items():
            self._durations.learn(function_id, total_us, count)
        self._places.free(worker, tasks, work_us)
        return bool(self._queue) or self._rounds.has_to_look(self._places)

    def recalled(self, worker: W, tasks: int, work_us: int, function_ids: set[ObjectId]) -> None:
        for function_id in function_ids:
            self._durations.doubt(function_id)
        self._places.give_back(worker, tasks, work_us)

    def resumed(self, worker: W, tasks: int, work_us: int) -> None:
        self._places.take_again(worker, tasks, work_us)

    def forget(self) -> None:
        self._queue.clear()
        self._places = Places()
        if self._backlog is not None:
            self._backlog = Backlog()

    def decide(self, now: float) -> Decisions[W, T]:
        assigned = self._assign() if self._places.with_room else {}
        refused = self._refuse(assigned) if self._backlog is not None else []
        recalled = self._rounds.look(self._places, now)
        return Decisions(assigned, refused, recalled, self._rounds.look_at)

    def _assign(self) -> dict[W, list[tuple[T, int]]]:
        places = self._places
        take = places.take
        assigned: dict[W, list[tuple[T, int]]] = {}
        function_id: ObjectId | None = None
        expected_us = 0
        for ready in self._queue.drain():
            spec = ready.spec
            if spec.function_id != function_id:
                function_id = spec.function_id
                expected_us = round(self._durations.expected_us(function_id))
            worker = take(expected_us) if ready.near is None else places.take_near(ready.near, expected_us)
            tasks = assigned.get(worker)
            if tasks is None:
                tasks = assigned[worker] = []
            tasks.append((ready, expected_us))
            if not places.with_room:
                break
        return assigned

    def _refuse(self, assigned: dict[W, list[tuple[T, int]]]) -> list[tuple[T, str]]:
        backlog = self._backlog
        assert backlog is not None
        for ready, _ in chain.from_iterable(assigned.values()):
            backlog.remove(ready.task, ready.account)
        surplus = backlog.surplus(self._rules.waiting_most + self._places.free_places())
        for ready, _ in surplus:
            self._queue.remove(ready.task, ready.spec.priority, ready.account)
        sentence = partial(self._rules.refusal, len(backlog), len(self._places))
        return [(ready, sentence(was_let_in=not has_just_come)) for ready, has_just_come in surplus]

    def room(self, spec: Spec) -> Room:  # noqa: ARG002 - all workers take the same tasks
        places = self._places
        return Room(len(places), places.with_room, places.tasks)

    def say_backlog(self, backlog: WhatWaits, functions: int) -> None:
        backlog.waiting, backlog.running = len(self._queue), self._places.tasks
        backlog.workers = len(self._places)
        backlog.accounts = self._queue.by_account()
        if functions:
            backlog.functions = Counter(ready.spec.function_id for ready in islice(self._queue, functions))
            backlog.counted = min(functions, backlog.waiting)

    def statistics(self) -> dict[str, int]:
        return {"ready_tasks": len(self._queue), "workers": len(self._places)}
