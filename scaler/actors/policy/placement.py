"""Placement: the scheduler's policy: tasks in some order, each to the worker with the fewest tasks.

The order is a separate value: `in_order` or `fair_share`. This is the part that all orders share: durations, room,
refusals and recalls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from itertools import chain, islice
from math import inf
from typing import Any, Generic

from scaler.actors.policy.backlog import Backlog
from scaler.actors.policy.choosy import Choosy, Kind
from scaler.actors.policy.fair_share import FairShare
from scaler.actors.policy.in_order import InOrder
from scaler.actors.policy.interface import NO_OFFER, Decisions, Group, Order, Policy, Room, T, W
from scaler.actors.policy.interface import Backlog as WhatWaits
from scaler.actors.policy.needs import Needs, Offer
from scaler.actors.policy.places import MAP_AHEAD_US, WORK_AHEAD_US, Places
from scaler.actors.policy.rounds import Rounds
from scaler.actors.policy.rules import FAIR, FIFO, Rules
from scaler.actors.policy.turns import Turns
from scaler.durations import Durations
from scaler.ids import ObjectId
from scaler.wire.messages.priority import depth_of

FUNCTIONS_REMEMBERED = 1024
"""How many functions have known durations; the latest ones."""

FAR_TASK_US = 25_000
"""The longest tasks of a map of which workers get more than of other tasks: longer ones are few messages anyway."""


ORDERS: dict[str, Callable[[], Order[Any]]] = {FAIR: FairShare, FIFO: InOrder}


def make_policy(rules: Rules) -> Policy[Any, Any]:
    """Return the policy that the settings name."""
    return Placement(rules, ORDERS[rules.policy])


class Placement(Generic[W, T]):
    """The policy.

    Args:
        new_order: makes what says which task is next; empty.
    """

    def __init__(self, rules: Rules, new_order: Callable[[], Order[T]]) -> None:
        self._rules = rules
        self._new_order = new_order
        self._queue = new_order()
        self._begin()
        self._turns = Turns(self._queue)
        self._unplaceable: list[tuple[T, str]] = []
        """tasks that can not even wait, and why"""
        self._durations = Durations(WORK_AHEAD_US, FUNCTIONS_REMEMBERED)
        self._rounds: Rounds[W] = Rounds(rules)
        self._rounds_of_calls: Rounds[W] = Rounds(rules)
        self._backlog: Backlog[T] | None = Backlog() if rules.waiting_most >= 0 else None
        self._functions: Counter[ObjectId] | None = None
        """while somebody watches: how many tasks of each function are in the queue"""

    def _begin(self) -> None:
        self._places: Places[W] = Places()
        self._for_calls: Places[W] = Places()
        """those of workers that run nothing but calls by name"""
        self._elsewhere: dict[W, Places[W]] = {}
        """these workers"""
        self._choosy: Choosy[W, T] = Choosy(self._places, self._for_calls, self._new_order)
        self._far_account = 0
        """whose tasks the workers have that are far ahead"""
        self._near_until = -inf
        """until then workers get no more than usual, since somebody else had to wait"""
        self._called_back: set[W] = set()
        """workers that give tasks back for that, and not because one of them takes long"""

    def ready(self, tasks: Iterable[T]) -> None:
        if self._backlog is not None:
            tasks = list(tasks)
            for task in tasks:
                self._backlog.add(task, task.is_new and not depth_of(task.spec.priority))
        if self._functions is not None:
            tasks = list(tasks)
            self._count(tasks, 1)
        self._queue.put(tasks)

    def ready_if(self, tasks: Iterable[tuple[T, Needs]]) -> None:
        for task, needs in tasks:
            refusal = self._choosy.put(task, needs)
            if refusal:
                self._unplaceable.append((task, refusal))
            elif self._backlog is not None:
                self._backlog.add(task, task.is_new and not depth_of(task.spec.priority))

    def withdraw(self, task: Hashable, priority: int, account: int) -> bool:
        if self._backlog is not None:
            self._backlog.remove(task, account)
        return self._remove(task, priority, account)

    def _remove(self, task: Hashable, priority: int, account: int) -> bool:
        ready = self._queue.remove(task, priority, account)
        if ready is None:
            return self._choosy.remove(task, priority, account)
        self._count((ready,), -1)
        return True

    def _count(self, tasks: Iterable[T], change: int) -> None:
        """Tasks have come to the queue, or left it."""
        functions = self._functions
        if functions is not None:
            for ready in tasks:
                functions[ready.spec.function_id] += change

    def join(
        self,
        worker: W,
        queue_size: int,
        tasks: int = 0,
        work_us: int = 0,
        host: Hashable = None,
        offer: Offer = NO_OFFER,
        taken: Iterable[tuple[Needs, int]] = (),
        is_unsure: bool = False,
    ) -> None:
        if worker in self._places or worker in self._elsewhere:
            return
        if offer.named_only:
            self._elsewhere[worker] = self._for_calls
        self._elsewhere.get(worker, self._places).join(worker, queue_size, tasks, work_us, host)
        self._choosy.join(worker, host, offer, taken, is_unsure)

    def leave(self, worker: W) -> bool:
        self._elsewhere.pop(worker, self._places).leave(worker)
        self._called_back.discard(worker)
        return self._choosy.leave(worker)

    def amounts_changed(self, worker: W, changes: Iterable[tuple[Needs, int]], is_unsure: bool) -> bool:
        return self._choosy.change(worker, changes, is_unsure)

    def freed(self, worker: W, tasks: int, work_us: int, measured: Mapping[ObjectId, tuple[int, int]]) -> bool:
        for function_id, (total_us, count) in measured.items():
            self._durations.learn(function_id, total_us, count)
        self._elsewhere.get(worker, self._places).free(worker, tasks, work_us)
        if self._choosy.kinds:
            self._choosy.freed(worker)
        if self._elsewhere and self._rounds_of_calls.has_to_look(self._for_calls):
            return True
        return bool(self._queue) or bool(self._choosy.waiting) or self._rounds.has_to_look(self._places)

    def recalled(self, worker: W, tasks: int, work_us: int, function_ids: set[ObjectId]) -> bool:
        if worker in self._called_back:
            self._called_back.discard(worker)
        else:
            for function_id in function_ids:
                self._durations.doubt(function_id)
        self._elsewhere.get(worker, self._places).give_back(worker, tasks, work_us)
        if self._choosy.kinds:
            self._choosy.freed(worker)
        return bool(self._queue) or bool(self._choosy.waiting)

    def resumed(self, worker: W, tasks: int, work_us: int) -> None:
        self._elsewhere.get(worker, self._places).take_again(worker, tasks, work_us)

    def forget(self) -> None:
        self._queue.clear()
        self._begin()
        self._unplaceable = []
        self._functions = None
        if self._backlog is not None:
            self._backlog = Backlog()

    def decide(self, now: float) -> Decisions[W, T]:
        if self._choosy.waiting or self._unplaceable or self._elsewhere:
            decisions = self._decide_with_kinds(now)
        else:
            assigned = self._assign({}) if self._places.with_room else {}
            if self._places.has_map_room and self._queue and now >= self._near_until:
                self._assign_far(assigned)
            refused = self._refuse(assigned) if self._backlog is not None else []
            recalled = self._rounds.look(self._places, now)
            if self._places.far_ahead and self._queue:
                self._call_back(recalled, now)
            decisions = Decisions(assigned, refused, recalled, self._rounds.look_at)
        if self._functions is not None:
            needs = decisions.needs
            for row in decisions.assigned.values():
                self._count([ready for ready, _ in row if not needs or ready.task not in needs], -1)
        return decisions

    def _decide_with_kinds(self, now: float) -> Decisions[W, T]:
        places = self._places
        assigned: dict[W, list[tuple[T, int]]] = {}
        needs: dict[Hashable, Needs] = {}
        if self._choosy.waiting and (places.with_room or self._for_calls.with_room):
            self._assign_by_turns(assigned, needs)
        if places.with_room and self._queue:
            self._assign(assigned)
            self._turns.had(self._turns.plain)
        refused, self._unplaceable = self._unplaceable, []
        given_up, look_at = self._choosy.give_up(now)
        refused += given_up
        if self._backlog is not None:
            for ready, _ in given_up:
                self._backlog.remove(ready.task, ready.account)
            refused += self._refuse(assigned)
        recalled = {**self._rounds.look(places, now), **self._rounds_of_calls.look(self._for_calls, now)}
        if places.far_ahead:
            self._call_back(recalled, now)
        for rounds in (self._rounds, self._rounds_of_calls):
            look_at = min(look_at, inf if rounds.look_at is None else rounds.look_at)
        return Decisions(assigned, refused, recalled, None if look_at == inf else look_at, needs)

    def _assign_by_turns(self, assigned: dict[W, list[tuple[T, int]]], needs: dict[Hashable, Needs]) -> None:
        """Assign tasks until none of those fits that ask for something, or there is no room."""
        places, for_calls, turns = self._places, self._for_calls, self._turns
        kinds = self._choosy.open_kinds()
        while kinds and (places.with_room or for_calls.with_room):
            if not places.with_room and not (kinds := [kind for kind in kinds if kind.needs.is_call]):
                return
            kind = turns.next(kinds, with_plain=places.with_room > 0)
            ready = kind.queue.first()
            worker = None if ready is None else self._take(kind, ready)
            if ready is None or worker is None:
                kinds.remove(kind)
                continue
            next(kind.queue.drain())
            turns.had(kind)
            if kind is not turns.plain:
                needs[ready.task] = kind.needs
            assigned.setdefault(worker[0], []).append((ready, worker[1]))

    def _take(self, kind: Kind[T], ready: T) -> tuple[W, int] | None:
        expected_us = round(self._durations.expected_us(ready.spec.function_id))
        if kind is not self._turns.plain:
            worker = self._choosy.place(kind, ready, expected_us)
            return None if worker is None else (worker, expected_us)
        if ready.near is not None:
            return self._places.take_near(ready.near, expected_us), expected_us
        return self._places.take(expected_us), expected_us

    def _assign(self, assigned: dict[W, list[tuple[T, int]]]) -> dict[W, list[tuple[T, int]]]:
        """Assign tasks that ask for nothing, until none waits or there is no room."""
        places = self._places
        take = places.take
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

    def _assign_far(self, assigned: dict[W, list[tuple[T, int]]]) -> None:
        """Assign tasks of a map to workers that have no room for others. So many wait on that workers which are done
        sooner get as much meanwhile.
        """
        places, first = self._places, self._queue.first()
        if first is None or not first.spec.together:  # nothing of a map, so nothing else need be looked at
            return
        if places.far_ahead and first.account != self._far_account:
            return
        expected_us = max(1, round(self._durations.expected_us(first.spec.function_id)))
        spare = len(self._queue) - len(places) * MAP_AHEAD_US // expected_us
        if spare <= 0 or expected_us > FAR_TASK_US or self._rules.round_seconds <= 0:
            return
        self._far_account = first.account
        tasks = islice(self._queue.drain_map(), spare)
        while places.has_map_room and (ready := next(tasks, None)) is not None:
            assigned.setdefault(places.take_far(expected_us), []).append((ready, expected_us))

    def _call_back(self, recalled: dict[W, int], now: float) -> None:
        """If somebody else waits while workers have more than usual, recall that, unless more is recalled anyway."""
        if self._choosy.waiting or self._queue.has_beside(self._far_account):
            self._near_until = now + self._rules.round_seconds
            called_back = self._places.too_far()
            self._called_back.update(called_back.keys() - recalled.keys())
            recalled.update({**called_back, **recalled})

    def _refuse(self, assigned: dict[W, list[tuple[T, int]]]) -> list[tuple[T, str]]:
        backlog = self._backlog
        assert backlog is not None
        for ready, _ in chain.from_iterable(assigned.values()):
            backlog.remove(ready.task, ready.account)
        surplus = backlog.surplus(self._rules.waiting_most + self._places.free_places())
        for ready, _ in surplus:
            self._remove(ready.task, ready.spec.priority, ready.account)
        sentence = partial(self._rules.refusal, len(backlog), len(self._places))
        return [(ready, sentence(was_let_in=not has_just_come)) for ready, has_just_come in surplus]

    def room(self, needs: Needs | None) -> Room:
        places = self._places
        return Room(len(places), places.with_room, places.tasks) if needs is None else self._choosy.room(needs)

    def say_backlog(self, backlog: WhatWaits, functions: bool) -> None:
        self._count_functions(functions)
        backlog.waiting, backlog.running = self._waiting(), self._places.tasks + self._for_calls.tasks
        backlog.workers = len(self._places) + len(self._elsewhere)
        backlog.accounts = dict(self._choosy.by_account() + Counter(self._queue.by_account()))
        counted: Counter[ObjectId] = Counter() if self._functions is None else self._functions
        of_plain = (backlog.running, len(self._places), self.room(None), counted, self._durations.known_us, None)
        plain = Group("", len(self._queue), *of_plain)
        backlog.groups = self._choosy.groups(plain)

    def _count_functions(self, is_wanted: bool) -> None:
        """See to it that the functions of what waits in the queue are counted. Once, all that wait are looked at."""
        if not is_wanted:
            self._functions = None
        elif self._functions is None or sum(self._functions.values()) != len(self._queue):  # one said "ready" twice
            self._functions = Counter([ready.spec.function_id for ready in self._queue])
        else:
            self._functions += Counter()  # without those of which none waits

    def _waiting(self) -> int:
        return len(self._queue) + len(self._choosy)

    def statistics(self) -> dict[str, int]:
        return {"ready_tasks": self._waiting(), "workers": len(self._places) + len(self._elsewhere)}
