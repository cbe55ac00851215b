"""Choosy: the tasks that wait and ask for more than a place, and which of them can be placed now.

Tasks that ask for the same are one kind, and wait in an order of their own. A kind is looked at only while a node is
known on which it may fit. So a task that nobody can take holds up nobody, and each step takes constant time, however
many tasks, clients and nodes there are; it grows with the number of kinds, which is bounded.

A node may fit a kind when something has become free there since it was found not to: a place, or an amount.

Must never: look at a task that asks for nothing; `placement` has the turns between those and these.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import nlargest
from typing import Generic

from scaler.actors.policy.interface import Group, Order, Room, T, W
from scaler.actors.policy.needs import Amounts, Needs, Offer, in_words
from scaler.actors.policy.nodes import Node, Nodes
from scaler.actors.policy.places import Places
from scaler.amounts import CALL, amount_text
from scaler.ids import ObjectId

KINDS_MOST = 1000
"""So many kinds of tasks may wait."""
GROUPS_MOST = 32
"""So many groups are told one by one to those who watch."""
OTHERS = "others"
"""What the rest of them asks for."""


class Kind(Generic[T]):
    """Tasks that ask for the same, and what is known of nodes for them."""

    __slots__ = ("able", "function_id", "functions", "may_fit", "needs", "queue", "turn", "unable_since")

    def __init__(self, needs: Needs, queue: Order[T]) -> None:
        self.needs = needs
        self.queue = queue
        self.function_id: ObjectId | None = None
        """of the last one that came"""
        self.functions: Counter[ObjectId] = Counter()
        """how many of which function wait"""
        self.turn = 0
        """the number of the turn in which one of them was placed last"""
        self.able = 0
        """how many nodes could take them if nothing were taken there"""
        self.unable_since = math.inf
        """since when tasks have waited while there was no such node"""
        self.may_fit: OrderedDict[Hashable, None] = OrderedDict()
        """hosts; those that are not among them do not fit now. The one that was used last is the last"""

    def has_left(self, ready: T) -> None:
        """One of its tasks does not wait any more."""
        functions, function_id = self.functions, ready.spec.function_id
        functions[function_id] -= 1
        if not functions[function_id]:
            del functions[function_id]


class Choosy(Generic[W, T]):
    """Tasks that ask for something.

    Args:
        places: of the workers that run any task.
        for_calls: of those that run calls by name only.
        new_order: makes an empty order of tasks.
    """

    def __init__(self, places: Places[W], for_calls: Places[W], new_order: Callable[[], Order[T]]) -> None:
        self._places = places
        self._for_calls = for_calls
        self._new_order = new_order
        self._nodes: Nodes[W] = Nodes()
        self.kinds: dict[Needs, Kind[T]] = {}
        """those of which tasks wait, and some of which tasks have waited"""
        self.waiting: dict[Hashable, Kind[T]] = {}
        """the tasks that wait, and of which kind each is"""
        self._impatient: dict[Needs, Kind[T]] = {}
        """kinds with tasks that wait only for a while"""
        self._changed: dict[Hashable, None] = {}
        """hosts where something has become free"""

    def __len__(self) -> int:
        return len(self.waiting)

    def __iter__(self) -> Iterator[T]:
        return (ready for kind in self.kinds.values() for ready in kind.queue)

    # Tasks

    def put(self, ready: T, needs: Needs) -> str:
        """Add a task. Returns why it cannot wait; nothing if it does."""
        kind = self.kinds.get(needs)
        if kind is None:
            kind = self._new_kind(needs)
            if kind is None:
                return (
                    f"the task was refused: tasks of {KINDS_MOST:,} kinds wait already that differ in what they ask "
                    "for; submit it again later, or ask for round amounts"
                )
        if ready.task not in self.waiting:
            kind.functions[ready.spec.function_id] += 1
        self.waiting[ready.task] = kind
        kind.queue.put((ready,))
        kind.function_id = ready.spec.function_id
        if needs.patience_ms:
            self._impatient[needs] = kind
        return ""

    def remove(self, task: Hashable, priority: int, account: int) -> bool:
        """Remove a task. Returns whether it waited here."""
        kind = self.waiting.pop(task, None)
        ready = None if kind is None else kind.queue.remove(task, priority, account)
        if kind is None or ready is None:
            return False
        kind.has_left(ready)
        return True

    def _new_kind(self, needs: Needs) -> Kind[T] | None:
        if len(self.kinds) >= KINDS_MOST:
            unused = next((known for known, kind in self.kinds.items() if not kind.queue), None)
            if unused is None:
                return None
            del self.kinds[unused]
            self._impatient.pop(unused, None)
        kind = self.kinds[needs] = Kind(needs, self._new_order())
        kind.able = len(self._nodes.able(needs))
        kind.may_fit.update(dict.fromkeys(self._nodes.hosts()))
        return kind

    # Nodes

    def join(self, worker: W, host: Hashable, offer: Offer, taken: Iterable[tuple[Needs, int]], unsure: bool) -> None:
        """Add a worker, with what its runs take. `unsure`: it has runs of which that is not known."""
        node = self._nodes.join(worker, host, offer, taken, unsure)
        if node is not None:
            self._count_able(node, 1)
        self._changed[host] = None

    def leave(self, worker: W) -> bool:
        """Remove a worker. Returns whether tasks may have to be refused now or later."""
        host = self._nodes.host_of(worker)
        node = self._nodes.leave(worker)
        if node is not None:
            self._count_able(node, -1)
            self._changed.pop(host, None)
            for kind in self.kinds.values():
                kind.may_fit.pop(host, None)
        return bool(self._impatient)

    def change(self, worker: W, changes: Iterable[tuple[Needs, int]], unsure: bool) -> bool:
        """So many runs of these kinds have come to a worker or ended. Returns whether tasks wait that may fit now."""
        node = self._nodes.of_worker(worker)
        if node is None:
            return False
        for needs, runs in changes:
            node.change(worker, needs, runs)
        node.set_sure(worker, not unsure)
        self.freed(worker)
        return bool(self.waiting)

    def freed(self, worker: W) -> None:
        """Something may have become free at the host of a worker."""
        host = self._nodes.host_of(worker)
        if host is not None:
            self._changed[host] = None

    def _count_able(self, node: Node[W], sign: int) -> None:
        for kind in self.kinds.values():
            kind.able += sign * node.could_take(kind.needs)

    # Placing

    def open_kinds(self) -> list[Kind[T]]:
        """Return the kinds with tasks of which one may fit somewhere now."""
        changed, self._changed = self._changed, {}
        for kind in self.kinds.values():
            for host in changed:
                kind.may_fit.setdefault(host)
        return [kind for kind in self.kinds.values() if kind.may_fit and kind.queue]

    def place(self, kind: Kind[T], ready: T, work_us: int) -> W | None:
        """Take a place and what this kind needs for its next task. Returns the worker; None: there is none now."""
        near = self._nodes.host_of(ready.near) if ready.near is not None else None
        if near is not None and near in kind.may_fit:
            kind.may_fit.move_to_end(near, last=False)
        while kind.may_fit:
            host = next(iter(kind.may_fit))
            node = self._nodes.get(host)
            fits = node is not None and node.can_take(kind.needs)
            worker = self._places_of(node).take_at(host, work_us, ready.near) if node is not None and fits else None
            if node is not None and worker is not None:
                node.change(worker, kind.needs, 1)
                kind.may_fit.move_to_end(host)
                del self.waiting[ready.task]
                kind.has_left(ready)
                return worker
            del kind.may_fit[host]
        return None

    def _places_of(self, node: Node[W]) -> Places[W]:
        return self._for_calls if node.named_only else self._places

    # Patience

    def give_up(self, now: float) -> tuple[list[tuple[T, str]], float]:
        """Remove the tasks that have waited too long for a node that could take them.

        Returns:
            them, with the reason for each, and when to ask again.
        """
        refused: list[tuple[T, str]] = []
        look_at = math.inf
        for kind in list(self._impatient.values()):
            if not kind.queue:
                del self._impatient[kind.needs]
            if kind.able or not kind.queue:
                kind.unable_since = math.inf
                continue
            kind.unable_since = min(kind.unable_since, now)
            due = kind.unable_since + kind.needs.patience_ms / 1000
            if due > now:
                look_at = min(look_at, due)
                continue
            sentence = (
                f"the task was refused: for {kind.needs.patience_ms / 1000:g} s no worker was connected that could "
                f"take it; {self._what_is_missing(kind.needs)}"
            )
            for ready in list(kind.queue.drain()):
                del self.waiting[ready.task]
                kind.has_left(ready)
                refused.append((ready, sentence))
        return refused, look_at

    # What is said

    def groups(self, plain: Group) -> list[Group]:
        """Return the tasks that wait or run, by what they ask for: first `plain`, which ask for nothing, and then those
        that are most. Of many groups the last ones are those that some worker could take, and those that none could.
        """
        kinds: dict[Amounts, list[Kind[T]]] = {}
        running: Counter[Amounts] = Counter()
        for needs, kind in self.kinds.items():
            kinds.setdefault(needs.amounts, []).append(kind)
        for needs, runs in self._nodes.running.items():
            running[needs.amounts] += runs
        open_of = {
            amounts: sum(len(kind.queue) for kind in kinds.get(amounts, ())) + running[amounts]
            for amounts in {**kinds, **running}
        }
        impatient = kinds.pop((), [])
        open_of.pop((), None)
        running.pop((), None)
        most = nlargest(GROUPS_MOST, filter(open_of.get, open_of), key=open_of.__getitem__)
        groups = [self._group(plain, [amounts], kinds, running) for amounts in most]
        others: dict[bool, list[Amounts]] = {}
        for amounts in open_of.keys() - most:
            others.setdefault(all(kind.able for kind in kinds.get(amounts, ())), []).append(amounts)
        groups += [self._group(plain, each, kinds, running)._replace(asks=OTHERS) for each in others.values()]
        functions = sum((kind.functions for kind in impatient), Counter(plain.functions))
        waiting = plain.waiting + sum(len(kind.queue) for kind in impatient)
        rest = max(0, plain.running - sum(running.values()))
        return [plain._replace(waiting=waiting, running=rest, functions=functions), *groups]

    def _group(
        self, plain: Group, some: list[Amounts], kinds: dict[Amounts, list[Kind[T]]], running: Counter[Amounts]
    ) -> Group:
        needs, chosen = Needs(some[0]), [kind for amounts in some for kind in kinds.get(amounts, ())]
        able = self._nodes.able(needs)
        return Group(
            ",".join(f"{name}={amount_text(amount)}" for name, amount in needs.amounts),
            sum(len(kind.queue) for kind in chosen),
            sum(running[amounts] for amounts in some),
            sum(node.places(needs) for node in able),
            self._room(needs, able),
            sum((kind.functions for kind in chosen), Counter()),
            plain.known_us,
            chosen[0].function_id if chosen else None,
        )

    def room(self, needs: Needs) -> Room:
        """Return what a task that asks for this has to wait for."""
        return self._room(needs, self._nodes.able(needs))

    def _room(self, needs: Needs, able: list[Node[W]]) -> Room:
        both = (self._places, self._for_calls) if needs.is_call else (self._places,)
        missing = "" if able else self._what_is_missing(needs)
        free = [node for node in able if node.can_take(needs)]
        with_room = sum(self._places_of(node).has_room(worker) for node in free for worker in node.workers())
        workers, tasks = sum(map(len, both)), sum(places.tasks for places in both)
        return Room(workers, with_room, tasks, str(needs), sum(map(len, able)), bool(free), missing)

    def _what_is_missing(self, needs: Needs) -> str:
        called = [name.removeprefix(CALL) for name, _ in needs.amounts if name.startswith(CALL)]
        if called:
            return (
                f"it asks for {needs}: no worker that is connected serves the function {called[0]} by name, with all "
                f"of that; start one with scaler_cluster ADDRESS --functions {called[0]}=MODULE:FUNCTION, or one in "
                "another language"
            )
        if not len(self._places):
            return "no worker is connected to the scheduler; start workers with scaler_cluster ADDRESS"
        most = self._nodes.most()
        lacking = tuple((name, amount) for name, amount in needs.amounts if most.get(name, -1) < amount)
        there = tuple((name, most[name]) for name, _ in lacking if name in most)
        asks = f"it asks for {needs}, and no worker is on a machine with "
        found = f"the most there is on one: {in_words(there)}" if there else "none has any"
        what = in_words(lacking) if lacking else "all of that"
        hint = ",".join(f"{name}={amount}" for name, amount in needs.amounts if amount) or "NAME"
        return f"{asks}{what} ({found}); start one with scaler_cluster ADDRESS --capabilities {hint}"

    def by_account(self) -> Counter[int]:
        """Return how many tasks of each account wait; nothing if accounts take no turns."""
        counts: Counter[int] = Counter()
        for kind in self.kinds.values():
            counts.update(kind.queue.by_account())
        return counts
