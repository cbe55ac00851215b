"""ConstrainedQueue: waiting tasks that request resources, and which of them can be assigned now.

Tasks with equal requests form a resource class with a queue of its own. A class is considered only while some node may
have room for its tasks. So a task that no node can take blocks no other task. The time of a step grows only with the
number of classes, which is bounded. A node without room is rechecked after one of its workers, or an amount of its
resources, was freed.

Tasks that request no resources, and all ranges, wait in another queue. `ClassTurns` alternates between the two queues.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import nlargest
from operator import attrgetter
from typing import TYPE_CHECKING

from scaler.actors.policy.fair_share import FairShare
from scaler.actors.policy.nodes import NodeResources, Nodes
from scaler.actors.policy.worker_loads import WorkerLoads
from scaler.actors.vocabulary.capacity import Capacity, ResourceGroup
from scaler.actors.vocabulary.needs import Amounts, Needs, Offer, in_words
from scaler.amounts import CALL, amount_text
from scaler.ids import ObjectId
from scaler.kit import ActorRef

if TYPE_CHECKING:
    from scaler.actors.messages.tasks import TaskReady

CLASSES_MOST = 1000
"""The most resource classes that may have waiting tasks. A task of a further class is refused."""
GROUPS_MOST = 32
"""The most groups of tasks that viewers see individually."""
OTHERS = "others"
"""The name of a group that is the sum of the groups that viewers do not see individually."""


class ResourceClass:
    """The waiting tasks with equal requests, and the nodes that may fit these requests."""

    __slots__ = ("able", "function_id", "functions", "may_fit", "needs", "queue", "turn", "unable_since")

    def __init__(self, needs: Needs, queue: FairShare) -> None:
        self.needs = needs
        self.queue = queue
        self.function_id: ObjectId | None = None
        """the function of the task of this class that arrived last"""
        self.functions: Counter[ObjectId] = Counter()
        self.turn = 0
        """the number of the turn in which a task of this class was last assigned"""
        self.able = 0
        """the number of nodes that could take tasks of this class if all resources of the nodes were free"""
        self.unable_since = math.inf
        """the time since which no node could take the waiting tasks of this class; infinite while some node could"""
        self.may_fit: OrderedDict[Hashable, None] = OrderedDict()
        """the hosts that may have room for this class now, the most recently used last; no other host has room"""

    def remove_one(self, ready: TaskReady) -> None:
        """Subtract a task that no longer waits from the number of waiting tasks of its function."""
        functions, function_id = self.functions, ready.spec.function_id
        functions[function_id] -= 1
        if not functions[function_id]:
            del functions[function_id]


class ConstrainedQueue:
    """The waiting tasks that request resources, by resource class.

    Args:
        call_loads: the loads of the workers that run only calls by name.
    """

    def __init__(self, loads: WorkerLoads, call_loads: WorkerLoads, new_order: Callable[[], FairShare]) -> None:
        self._loads = loads
        self._call_loads = call_loads
        self._new_order = new_order
        self._nodes: Nodes = Nodes()
        self.classes: dict[Needs, ResourceClass] = {}
        """all resource classes with waiting tasks, and some without waiting tasks"""
        self.waiting: dict[Hashable, ResourceClass] = {}
        self._impatient: dict[Needs, ResourceClass] = {}
        """resource classes whose tasks wait only for a limited time"""
        self._changed: dict[Hashable, None] = {}
        """the hosts where a worker or an amount of a resource was freed"""

    def __len__(self) -> int:
        return sum(len(resource_class.queue) for resource_class in self.classes.values())

    def __iter__(self) -> Iterator[TaskReady]:
        return (ready for resource_class in self.classes.values() for ready in resource_class.queue)

    # Tasks

    def put(self, ready: TaskReady) -> str:
        """Add a task. Return why the task cannot wait; empty if it can."""
        needs = ready.needs or Needs()
        resource_class = self.classes.get(needs)
        if resource_class is None:
            resource_class = self._new_class(needs)
            if resource_class is None:
                return (
                    f"the task was refused: too many distinct resource requests wait ({CLASSES_MOST:,}); "
                    "submit it again later, or ask for round amounts"
                )
        if ready.task not in self.waiting:
            resource_class.functions[ready.spec.function_id] += 1
        self.waiting[ready.task] = resource_class
        resource_class.queue.put((ready,))
        resource_class.function_id = ready.spec.function_id
        if needs.patience_ms:
            self._impatient[needs] = resource_class
        return ""

    def remove(self, task: Hashable, priority: int, account: int) -> bool:
        """Remove a task. Return whether the task was in this queue."""
        resource_class = self.waiting.pop(task, None)
        ready = None if resource_class is None else resource_class.queue.remove(task, priority, account)
        if resource_class is None or ready is None:
            return False
        resource_class.remove_one(ready)
        return True

    def _new_class(self, needs: Needs) -> ResourceClass | None:
        if len(self.classes) >= CLASSES_MOST:
            unused = next((known for known, resource_class in self.classes.items() if not resource_class.queue), None)
            if unused is None:
                return None
            del self.classes[unused]
            self._impatient.pop(unused, None)
        resource_class = self.classes[needs] = ResourceClass(needs, self._new_order())
        resource_class.able = len(self._nodes.able(needs))
        resource_class.may_fit.update(dict.fromkeys(self._nodes.hosts()))
        return resource_class

    # Nodes

    def join(
        self, worker: ActorRef, host: Hashable, offer: Offer, taken: Iterable[tuple[Needs, int]], unsure: bool
    ) -> None:
        """Add a worker and the resources that its runs take. `unsure`: whether some runs have unknown needs."""
        node = self._nodes.join(worker, host, offer, taken, unsure)
        if node is not None:
            self._count_able(node, 1)
        self._changed[host] = None

    def leave(self, worker: ActorRef) -> bool:
        """Remove a worker. Return whether tasks may have to be refused now or later."""
        host = self._nodes.host_of(worker)
        node = self._nodes.leave(worker)
        if node is not None:
            self._count_able(node, -1)
            self._changed.pop(host, None)
            for resource_class in self.classes.values():
                resource_class.may_fit.pop(host, None)
        return bool(self._impatient)

    def change(self, worker: ActorRef, changes: Iterable[tuple[Needs, int]], unsure: bool) -> bool:
        """Add runs to a worker, or subtract runs (negative numbers). Return whether waiting tasks may fit now."""
        node = self._nodes.of_worker(worker)
        if node is None:
            return False
        for needs, runs in changes:
            node.change(worker, needs, runs)
        node.set_sure(worker, not unsure)
        self.freed(worker)
        return bool(self.waiting)

    def freed(self, worker: ActorRef) -> None:
        """Recheck the host of a worker later, because a worker or an amount of a resource may have been freed."""
        host = self._nodes.host_of(worker)
        if host is not None:
            self._changed[host] = None

    def _count_able(self, node: NodeResources, sign: int) -> None:
        for resource_class in self.classes.values():
            resource_class.able += sign * node.could_take(resource_class.needs)

    # Placing

    def open_classes(self) -> list[ResourceClass]:
        """Return the resource classes with waiting tasks for which some host may have room now."""
        changed, self._changed = self._changed, {}
        for resource_class in self.classes.values():
            for host in changed:
                resource_class.may_fit.setdefault(host)
        return [
            resource_class
            for resource_class in self.classes.values()
            if resource_class.may_fit and resource_class.queue
        ]

    def assign(self, resource_class: ResourceClass, ready: TaskReady, work_us: int) -> ActorRef | None:
        """Take a worker and resources for the next task of a class. Return the worker, or None if no host fits now."""
        near = self._nodes.host_of(ready.near_worker) if ready.near_worker is not None else None
        if near is not None and near in resource_class.may_fit:
            resource_class.may_fit.move_to_end(near, last=False)
        while resource_class.may_fit:
            host = next(iter(resource_class.may_fit))
            node = self._nodes.get(host)
            fits = node is not None and node.can_take(resource_class.needs)
            worker = (
                self._loads_of(node).take_at(host, work_us, ready.near_worker) if node is not None and fits else None
            )
            if node is not None and worker is not None:
                node.change(worker, resource_class.needs, 1)
                resource_class.may_fit.move_to_end(host)
                del self.waiting[ready.task]
                resource_class.remove_one(ready)
                return worker
            del resource_class.may_fit[host]
        return None

    def _loads_of(self, node: NodeResources) -> WorkerLoads:
        return self._call_loads if node.named_only else self._loads

    # Patience

    def take_expired(self, now: float) -> tuple[list[tuple[TaskReady, str]], float]:
        """Remove the tasks that waited too long for an able node. Return them with reasons, and when to call again."""
        refused: list[tuple[TaskReady, str]] = []
        look_at = math.inf
        for resource_class in list(self._impatient.values()):
            if not resource_class.queue:
                del self._impatient[resource_class.needs]
            if resource_class.able or not resource_class.queue:
                resource_class.unable_since = math.inf
                continue
            resource_class.unable_since = min(resource_class.unable_since, now)
            due = resource_class.unable_since + resource_class.needs.patience_ms / 1000
            if due > now:
                look_at = min(look_at, due)
                continue
            sentence = (
                f"the task was refused: for {resource_class.needs.patience_ms / 1000:g} s no worker was connected that "
                f"could take it; {self._what_is_missing(resource_class.needs)}"
            )
            for ready in list(resource_class.queue.drain()):
                del self.waiting[ready.task]
                resource_class.remove_one(ready)
                refused.append((ready, sentence))
        return refused, look_at

    # For viewers and clients

    def groups(self, plain: ResourceGroup) -> list[ResourceGroup]:
        """Return the open tasks by requested resources: first `plain` (no resources), then the largest groups.

        Groups beyond `GROUPS_MOST` are summed up as two: tasks that some worker could take, and all other tasks.
        """
        classes: dict[Amounts, list[ResourceClass]] = {}
        running: Counter[Amounts] = Counter()
        for needs, resource_class in self.classes.items():
            classes.setdefault(needs.amounts, []).append(resource_class)
        for needs, runs in self._nodes.running.items():
            running[needs.amounts] += runs
        open_of = {
            amounts: sum(len(resource_class.queue) for resource_class in classes.get(amounts, ())) + running[amounts]
            for amounts in {**classes, **running}
        }
        impatient = classes.pop((), [])
        open_of.pop((), None)
        running.pop((), None)
        most = nlargest(GROUPS_MOST, filter(open_of.get, open_of), key=open_of.__getitem__)
        groups = [self._group(plain, [amounts], classes, running) for amounts in most]
        others: dict[bool, list[Amounts]] = {}
        for amounts in open_of.keys() - most:
            others.setdefault(all(resource_class.able for resource_class in classes.get(amounts, ())), []).append(
                amounts
            )
        groups += [self._group(plain, each, classes, running)._replace(asks=OTHERS) for each in others.values()]
        functions = sum((resource_class.functions for resource_class in impatient), Counter(plain.functions))
        waiting = plain.waiting + sum(len(resource_class.queue) for resource_class in impatient)
        rest = max(0, plain.running - sum(running.values()))
        return [plain._replace(waiting=waiting, running=rest, functions=functions), *groups]

    def _group(
        self,
        plain: ResourceGroup,
        some: list[Amounts],
        classes: dict[Amounts, list[ResourceClass]],
        running: Counter[Amounts],
    ) -> ResourceGroup:
        needs, chosen = (
            Needs(some[0]),
            [resource_class for amounts in some for resource_class in classes.get(amounts, ())],
        )
        able = self._nodes.able(needs)
        return ResourceGroup(
            ",".join(f"{name}={amount_text(amount)}" for name, amount in needs.amounts),
            sum(len(resource_class.queue) for resource_class in chosen),
            sum(running[amounts] for amounts in some),
            sum(node.places(needs) for node in able),
            self._capacity(needs, able),
            sum((resource_class.functions for resource_class in chosen), Counter()),
            plain.known_us,
            chosen[0].function_id if chosen else None,
        )

    def capacity(self, needs: Needs) -> Capacity:
        """Return the figures that explain what a task with these needs waits for."""
        return self._capacity(needs, self._nodes.able(needs))

    def _capacity(self, needs: Needs, able: list[NodeResources]) -> Capacity:
        both = (self._loads, self._call_loads) if needs.is_call else (self._loads,)
        missing = "" if able else self._what_is_missing(needs)
        free = [node for node in able if node.can_take(needs)]
        with_room = sum(self._loads_of(node).has_room(worker) for node in free for worker in node.workers())
        workers, tasks = sum(map(len, both)), sum(loads.tasks for loads in both)
        return Capacity(
            workers, with_room, tasks, str(needs), sum(map(len, able)), bool(free), missing, self._loads.paused_workers
        )

    def _what_is_missing(self, needs: Needs) -> str:
        called = [name.removeprefix(CALL) for name, _ in needs.amounts if name.startswith(CALL)]
        if called:
            return (
                f"it asks for {needs}, and no connected worker serves the function {called[0]} by name and has all "
                f"of that; start one with scaler_cluster ADDRESS --functions {called[0]}=MODULE:FUNCTION, or one in "
                "another language"
            )
        if not len(self._loads):
            return "no worker is connected to the scheduler; start workers with scaler_cluster ADDRESS"
        most = self._nodes.most()
        lacking = tuple((name, amount) for name, amount in needs.amounts if most.get(name, -1) < amount)
        there = tuple((name, most[name]) for name, _ in lacking if name in most)
        asks = f"it asks for {needs}, and no worker is on a machine with "
        found = f"the most on one machine: {in_words(there)}" if there else "no machine has any"
        what = in_words(lacking)
        if not lacking:
            found, what = "each is on some machine, and no machine has all", "all of that"
        hint = ",".join(f"{name}={amount}" for name, amount in needs.amounts if amount) or "NAME"
        return f"{asks}{what} ({found}); start one with scaler_cluster ADDRESS --capabilities {hint}"

    def by_account(self) -> Counter[int]:
        """Return the number of waiting tasks by account; empty if accounts do not take turns."""
        counts: Counter[int] = Counter()
        for resource_class in self.classes.values():
            counts.update(resource_class.queue.by_account())
        return counts


_by_turn = attrgetter("turn")


class ClassTurns:
    """Alternates between the resource classes and `plain`, the queue of the tasks that request no resources."""

    def __init__(self, plain: FairShare) -> None:
        self.plain = ResourceClass(Needs(), plain)
        self._number = 2

    def next(self, classes: Iterable[ResourceClass], with_plain: bool = True) -> ResourceClass:
        """Return the class whose first task is assigned next. `with_plain`: whether this may be `plain`."""
        plain = self.plain
        for resource_class in classes:
            # a new class precedes only the one that has just had its turn
            resource_class.turn = resource_class.turn or self._number - 1
        rows = sorted((plain, *classes) if with_plain and plain.queue else classes, key=_by_turn)
        for row in rows:
            first = row.queue.first()
            if first is None or not any(
                other.queue.greatest(first.account) > first.spec.priority for other in rows if other is not row
            ):
                return row
            row.queue.pass_turn()
        return rows[0]

    def note_turn(self, resource_class: ResourceClass) -> None:
        """Record that a task of this class was assigned in the present turn."""
        self._number += 2
        resource_class.turn = self._number
