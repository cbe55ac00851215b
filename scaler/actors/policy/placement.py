"""Placement: the scheduler's policy: each task goes to the worker with the fewest tasks.

`fair_share` chooses the next task. This module has durations, capacities, refusals and recalls. The balancer requests
decisions after all mail of a turn. The policy has no clock: the time is a parameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING

from scaler.actors.policy.admission import Admission, refusal
from scaler.actors.policy.constrained import ClassTurns, ConstrainedQueue
from scaler.actors.policy.decisions import Decisions
from scaler.actors.policy.fair_share import FairShare, owner_of_all
from scaler.actors.policy.rounds import Rounds
from scaler.actors.policy.worker_loads import WORK_AHEAD_US, WorkerLoads
from scaler.actors.vocabulary.capacity import Capacity, ResourceGroup
from scaler.actors.vocabulary.needs import NO_OFFER, Needs, Offer
from scaler.actors.vocabulary.owners import Owner
from scaler.durations import Durations
from scaler.ids import ObjectId
from scaler.kit import ActorRef
from scaler.settings import SchedulerConfig
from scaler.settings.scheduler import FAIR
from scaler.wire.messages.priority import depth_of

if TYPE_CHECKING:
    from scaler.actors.messages.monitor import Backlog
    from scaler.actors.messages.tasks import TaskReady

FUNCTIONS_REMEMBERED = 1024
"""The most functions whose durations are remembered. The functions that were measured last are kept."""

RANGE_MOST_US = 20_000
"""The rows of a range with more microseconds of work become tasks. Such a range was made when rows seemed shorter."""


def make_policy(config: SchedulerConfig, owner_of: Callable[[int], Owner] = owner_of_all) -> Placement:
    """Return the policy that the settings name. `owner_of` returns the owner of an account."""
    return Placement(config, partial(FairShare, owner_of, has_turns=config.policy == FAIR))


class Placement:
    """Decides which worker runs which task, in constant time for any number of tasks, clients and workers."""

    def __init__(self, config: SchedulerConfig, new_order: Callable[[], FairShare]) -> None:
        self._config = config
        self._waiting_most = config.max_number_of_tasks_waiting
        self._new_order = new_order
        self._queue = new_order()
        self._reset_workers()
        self._turns = ClassTurns(self._queue)
        self._unplaceable: list[tuple[TaskReady, str]] = []
        """tasks that the next decisions refuse, each with the reason"""
        self._durations = Durations(WORK_AHEAD_US, FUNCTIONS_REMEMBERED)
        self._rounds: Rounds = Rounds(config)
        self._rounds_of_calls: Rounds = Rounds(config)
        self._admission: Admission | None = Admission() if self._waiting_most >= 0 else None
        self._functions: Counter[ObjectId] | None = None
        """the number of waiting tasks by function; None unless a viewer needs these numbers"""

    def _reset_workers(self) -> None:
        self._loads: WorkerLoads = WorkerLoads()
        self._call_loads: WorkerLoads = WorkerLoads()
        """loads of the workers that run only calls by name"""
        self._call_only: dict[ActorRef, WorkerLoads] = {}
        """the workers that run only functions called by name; the value for each worker is `_call_loads`"""
        self._constrained: ConstrainedQueue = ConstrainedQueue(self._loads, self._call_loads, self._new_order)

    def ready(self, tasks: Iterable[TaskReady]) -> None:
        """Add ready tasks. A task may be added again, with a higher attempt."""
        if self._admission is not None:
            tasks = list(tasks)
            for task in tasks:
                self._admission.add(task, task.is_new and not depth_of(task.spec.priority))
        if self._functions is not None:
            tasks = list(tasks)
            self._count(tasks, 1)
        self._queue.put(tasks)

    def ready_constrained(self, tasks: Iterable[TaskReady]) -> None:
        """Add ready tasks that request resources. A task may be added again, with a higher attempt."""
        for task in tasks:
            refusal = self._constrained.put(task)
            if refusal:
                self._unplaceable.append((task, refusal))
            elif self._admission is not None:
                self._admission.add(task, task.is_new and not depth_of(task.spec.priority))

    def check(self) -> None:
        """Assert that no task is in the queue twice."""
        waiting = [(ready.task, ready.attempt) for ready in (*self._queue, *self._constrained)]
        assert len(set(waiting)) == len(waiting), "a task is in the queue twice"

    def held(self, host: Hashable, workers: int) -> None:
        """Set how many workers of a host are paused, because the host has no memory for results."""
        self._loads.pause_at(host, workers)

    def withdraw(self, task: Hashable, priority: int, account: int) -> bool:
        """Remove a task from the queue. Return whether the task was in the queue."""
        if self._admission is not None:
            self._admission.remove(task, account)
        return self._remove(task, priority, account)

    def take_wanted(self, task: Hashable, priority: int, account: int) -> tuple[ActorRef, TaskReady] | None:
        """Remove a queued task that a client waits for. Return a worker on a host with paused workers, and the task.

        Return None if the task requests resources, or if a worker on a host without paused workers has capacity.
        """
        worker = self._loads.first_paused()
        ready = None if worker is None else self._queue.remove(task, priority, account)
        if worker is None or ready is None:
            return None
        if self._admission is not None:
            self._admission.remove(task, account)
        self._count((ready,), -1)
        return worker, ready

    def _remove(self, task: Hashable, priority: int, account: int) -> bool:
        ready = self._queue.remove(task, priority, account)
        if ready is None:
            return self._constrained.remove(task, priority, account)
        self._count((ready,), -1)
        return True

    def _count(self, tasks: Iterable[TaskReady], change: int) -> None:
        """Count by function the tasks that were added to the queue or (negative `change`) removed from the queue."""
        functions = self._functions
        if functions is not None:
            for ready in tasks:
                functions[ready.spec.function_id] += change * (ready.spec.rows or 1)

    def join(
        self,
        worker: ActorRef,
        queue_size: int,
        tasks: int = 0,
        work_us: int = 0,
        host: Hashable = None,
        offer: Offer = NO_OFFER,
        taken: Iterable[tuple[Needs, int]] = (),
        is_unsure: bool = False,
    ) -> None:
        """Add a worker with its current load, unless the worker is known.

        Args:
            taken: the number of the worker's runs by needs.
            is_unsure: whether the worker has further runs with unknown needs.
        """
        if worker in self._loads or worker in self._call_only:
            return
        if offer.named_only:
            self._call_only[worker] = self._call_loads
        self._call_only.get(worker, self._loads).join(worker, queue_size, tasks, work_us, host)
        self._constrained.join(worker, host, offer, taken, is_unsure)

    def leave(self, worker: ActorRef) -> bool:
        """Remove a worker. Return whether to request decisions now."""
        self._call_only.pop(worker, self._loads).leave(worker)
        return self._constrained.leave(worker)

    def amounts_changed(self, worker: ActorRef, changes: Iterable[tuple[Needs, int]], is_unsure: bool) -> bool:
        """Add or subtract runs of a worker that `decide` has not assigned. Return whether to request decisions now."""
        return self._constrained.change(worker, changes, is_unsure)

    def freed(self, worker: ActorRef, tasks: int, work_us: int, measured: Mapping[ObjectId, tuple[int, int]]) -> bool:
        """Subtract from a worker its ended tasks and their expected work. Return whether to request decisions now.

        Args:
            measured: by function, the total run time in microseconds and the number of the tasks that ran to their end.
        """
        for function_id, (total_us, count) in measured.items():
            self._durations.learn(function_id, total_us, count)
        self._call_only.get(worker, self._loads).free(worker, tasks, work_us)
        if self._constrained.classes:
            self._constrained.freed(worker)
        if self._call_only and self._rounds_of_calls.has_to_look(self._call_loads):
            return True
        return bool(self._queue) or bool(self._constrained.waiting) or self._rounds.has_to_look(self._loads)

    def recalled(self, worker: ActorRef, tasks: int, work_us: int, function_ids: set[ObjectId]) -> bool:
        """Subtract from a worker its recalled tasks, which will be added again. Return whether to request decisions."""
        for function_id in function_ids:
            self._durations.distrust(function_id)
        self._call_only.get(worker, self._loads).remove_recalled(worker, tasks, work_us)
        if self._constrained.classes:
            self._constrained.freed(worker)
        return bool(self._queue) or bool(self._constrained.waiting)

    def resumed(self, worker: ActorRef, tasks: int, work_us: int) -> None:
        """Add blocked tasks that resume, or a task that a client waits for, to a worker, even beyond its capacity."""
        self._call_only.get(worker, self._loads).resume(worker, tasks, work_us)

    def forget(self) -> None:
        """Forget all tasks and workers. Tasks and worker proxies will report again."""
        self._queue.clear()
        self._reset_workers()
        self._unplaceable = []
        self._functions = None
        if self._admission is not None:
            self._admission = Admission()

    def decide(self, now: float) -> Decisions:
        """Return this turn's decisions. Called if tasks or workers came, `freed` returned True, or a check is due."""
        if self._constrained.waiting or self._unplaceable or self._call_only:
            decisions = self._decide_by_class(now)
        else:
            assigned: dict[ActorRef, list[tuple[TaskReady, int]]] = {}
            too_long: list[TaskReady] = []
            if self._loads.with_room:
                self._assign(assigned, too_long)
            refused = self._refuse(assigned) if self._admission is not None else []
            recalled = self._rounds.look(self._loads, now)
            decisions = Decisions(assigned, refused, recalled, self._rounds.look_at, too_long)
        if self._functions is not None:
            for row in decisions.assigned.values():
                self._count([ready for ready, _ in row if ready.needs is None], -1)
            self._count(decisions.too_long, -1)
        return decisions

    def _decide_by_class(self, now: float) -> Decisions:
        loads = self._loads
        assigned: dict[ActorRef, list[tuple[TaskReady, int]]] = {}
        too_long: list[TaskReady] = []
        is_open = True
        if self._constrained.waiting and (loads.with_room or self._call_loads.with_room):
            is_open = self._assign_by_turns(assigned, too_long)
        if is_open and loads.with_room and self._queue and self._assign(assigned, too_long):
            self._turns.note_turn(self._turns.plain)
        refused, self._unplaceable = self._unplaceable, []
        expired, look_at = self._constrained.take_expired(now)
        refused += expired
        if self._admission is not None:
            for ready, _ in expired:
                self._admission.remove(ready.task, ready.account)
            refused += self._refuse(assigned)
        recalled = {**self._rounds.look(loads, now), **self._rounds_of_calls.look(self._call_loads, now)}
        for rounds in (self._rounds, self._rounds_of_calls):
            look_at = min(look_at, inf if rounds.look_at is None else rounds.look_at)
        return Decisions(assigned, refused, recalled, None if look_at == inf else look_at, too_long)

    def _assign_by_turns(
        self,
        assigned: dict[ActorRef, list[tuple[TaskReady, int]]],
        too_long: list[TaskReady],
    ) -> bool:
        """Assign tasks in turns. Return whether tasks that request no resources may still be assigned."""
        loads, call_loads, turns = self._loads, self._call_loads, self._turns
        classes = self._constrained.open_classes()
        is_open = True
        """whether tasks that request no resources may be assigned; False once a range must wait or is too long"""
        while classes and ((is_open and loads.with_room) or call_loads.with_room):
            has_room = is_open and loads.with_room > 0
            if not has_room and not (
                classes := [resource_class for resource_class in classes if resource_class.needs.is_call]
            ):
                break
            resource_class = turns.next(classes, with_plain=has_room)
            if resource_class is turns.plain:
                is_open = self._assign(assigned, too_long, is_one=True)
                if is_open:
                    turns.note_turn(resource_class)
                continue
            ready = resource_class.queue.first()
            if ready is None:
                classes.remove(resource_class)
                continue
            expected_us = round(self._durations.expected_us(ready.spec.function_id))
            if ready.context is not None:
                expected_us = max(expected_us, WORK_AHEAD_US)
            worker = self._constrained.assign(resource_class, ready, expected_us)
            if worker is None:
                classes.remove(resource_class)
                continue
            next(resource_class.queue.drain(self._durations.expected_us))
            turns.note_turn(resource_class)
            assigned.setdefault(worker, []).append((ready, expected_us))
        return is_open

    def _assign(
        self, assigned: dict[ActorRef, list[tuple[TaskReady, int]]], too_long: list[TaskReady], is_one: bool = False
    ) -> bool:
        """Assign tasks, one if `is_one`, that request no resources. Return False if a range waits or is too long."""
        loads = self._loads
        take = loads.take
        function_id: ObjectId | None = None
        mean_us, mean = 0, 0.0
        for ready in self._queue.drain(self._durations.expected_us):
            spec = ready.spec
            if spec.function_id != function_id:
                function_id = spec.function_id
                mean = self._durations.expected_us(function_id)
                mean_us = round(mean)
            rows = spec.rows
            if rows:
                expected_us = round(mean * rows)
                if expected_us > RANGE_MOST_US:
                    too_long.append(ready)  # tasks behind it are next after its rows
                    return False
                if loads.room_in_next() < rows:  # it fits when tasks have ended
                    self._queue.put_back(ready)
                    return False
                worker = take(expected_us, rows)
            else:
                expected_us, near = mean_us, ready.near_worker
                if ready.context is not None and expected_us < WORK_AHEAD_US:
                    expected_us = WORK_AHEAD_US
                worker = take(expected_us) if near is None else loads.take_near(near, expected_us)
            tasks = assigned.get(worker)
            if tasks is None:
                tasks = assigned[worker] = []
            tasks.append((ready, expected_us))
            if is_one or not loads.with_room:
                break
        return True

    def _refuse(self, assigned: dict[ActorRef, list[tuple[TaskReady, int]]]) -> list[tuple[TaskReady, str]]:
        admission = self._admission
        assert admission is not None
        for ready, _ in chain.from_iterable(assigned.values()):
            admission.remove(ready.task, ready.account)
        surplus = admission.surplus(self._waiting_most + self._loads.free_places())
        for ready, _ in surplus:
            self._remove(ready.task, ready.spec.priority, ready.account)
        sentence = partial(refusal, self._waiting_most, len(admission), len(self._loads))
        return [(ready, sentence(was_admitted=not has_just_come)) for ready, has_just_come in surplus]

    def capacity(self, needs: Needs | None) -> Capacity:
        """Return the figures that explain what a task with these needs waits for."""
        loads = self._loads
        return (
            Capacity(len(loads), loads.with_room, loads.tasks, held=loads.paused_workers)
            if needs is None
            else self._constrained.capacity(needs)
        )

    def report_backlog(self, backlog: Backlog, functions: bool) -> None:
        """Store the numbers of waiting and running tasks in `backlog`. `functions`: whether to count by function."""
        self._count_functions(functions)
        backlog.waiting, backlog.running = self._waiting(), self._loads.tasks + self._call_loads.tasks
        backlog.workers = len(self._loads) + len(self._call_only)
        backlog.accounts = dict(self._constrained.by_account() + Counter(self._queue.by_account()))
        counted: Counter[ObjectId] = Counter() if self._functions is None else self._functions
        of_plain = (backlog.running, len(self._loads), self.capacity(None), counted, self._durations.known_us, None)
        plain = ResourceGroup("", len(self._queue), *of_plain)
        backlog.groups = self._constrained.groups(plain)

    def _count_functions(self, is_wanted: bool) -> None:
        """Start or stop counting the tasks in the queue by function. Only the start iterates over the queue."""
        if not is_wanted:
            self._functions = None
        elif self._functions is None or sum(self._functions.values()) != len(
            self._queue
        ):  # a task reported ready twice
            self._functions = Counter([ready.spec.function_id for ready in self._queue])
        else:
            self._functions += Counter()  # drop functions without waiting tasks

    def _waiting(self) -> int:
        return len(self._queue) + len(self._constrained)

    def statistics(self) -> dict[str, int]:
        """Return the numbers of waiting tasks and of workers."""
        return {"ready_tasks": self._waiting(), "workers": len(self._loads) + len(self._call_only)}
