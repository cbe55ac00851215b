"""FairShare: waiting tasks, where clients take turns: the policy `fair`.

All accounts with waiting tasks form a ring (round robin). At its turn an account has one task placed; within an account
the order is that of `in_order`. So a client waits for at most one task of each other client, however many they have
submitted. An account that comes, or comes back, is the last of the ring. Each operation takes constant time, however
many accounts there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from itertools import groupby, islice
from math import inf
from operator import attrgetter
from typing import Generic

from scaler.actors.policy.in_order import InOrder
from scaler.actors.policy.interface import T

MOST_SPARE = 1024
"""Empty queues of accounts are reused, so that single tasks of many clients allocate none."""

_account_of = attrgetter("account")


class FairShare(Generic[T]):
    """Tasks in the order in which they are to be assigned; `Order` says what each method does."""

    def __init__(self) -> None:
        self._ring: OrderedDict[int, InOrder[T]] = OrderedDict()
        """by account, the next one first; one that was alone may be empty"""
        self._spare: list[InOrder[T]] = []

    def __len__(self) -> int:
        return sum(map(len, self._ring.values()))

    def __bool__(self) -> bool:
        return any(self._ring.values())

    def __iter__(self) -> Iterator[T]:
        """Go through the tasks, account by account."""
        return (ready for queue in self._ring.values() for ready in queue)

    def put(self, tasks: Iterable[T]) -> None:
        for account, row in groupby(tasks, _account_of):
            queue = self._ring.get(account)
            if queue is None:
                queue = self._ring[account] = self._spare.pop() if self._spare else InOrder()
            elif len(self._ring) > 1 and not queue:
                self._ring.move_to_end(account)
            queue.put(row)

    def remove(self, task: Hashable, priority: int, account: int) -> T | None:
        queue = self._ring.get(account)
        found = None if queue is None else queue.remove(task, priority)
        if found is not None and not queue:
            self._drop(account)
        return found

    def drain(self) -> Iterator[T]:
        if len(self._ring) == 1:  # most of the time there is one client
            return next(iter(self._ring.values())).drain()
        return self._take_turns()

    def _take_turns(self) -> Iterator[T]:
        ring = self._ring
        while ring:
            account, queue = next(iter(ring.items()))
            if len(ring) == 1:
                yield from queue.drain()
                self._drop(account)
                return
            ready = queue.pop()
            if queue:
                ring.move_to_end(account)
            else:
                self._drop(account)
            if ready is not None:
                yield ready

    def drain_map(self) -> Iterator[T]:
        queues = list(islice(filter(None, self._ring.values()), 2))
        return queues[0].drain_map() if len(queues) == 1 else iter(())

    def has_beside(self, account: int) -> bool:
        others = (queue for other, queue in self._ring.items() if other != account)
        return any(others) or self.greatest(account) > 0

    def first(self) -> T | None:
        return next(filter(None, map(InOrder.first, self._ring.values())), None)

    def greatest(self, account: int) -> float:
        queue = self._ring.get(account)
        return -inf if queue is None else queue.greatest()

    def pass_turn(self) -> None:
        first = self.first()
        if first is not None:
            self._ring.move_to_end(first.account)

    def by_account(self) -> dict[int, int]:
        return {account: len(queue) for account, queue in self._ring.items() if queue}

    def clear(self) -> None:
        self._ring.clear()

    def _drop(self, account: int) -> None:
        queue = self._ring.pop(account)
        if len(self._spare) < MOST_SPARE:
            self._spare.append(queue)
