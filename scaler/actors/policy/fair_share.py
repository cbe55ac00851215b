"""FairShare: the policy `fair`: owners with waiting tasks take turns, and so do the clients of each owner.

All owners with waiting tasks form a ring (round robin). The accounts of an owner, one for each of its clients outside
of tasks, form a ring of their own. In each turn of an owner, the next accounts of its ring have turns: as many turns as
the owner's share, usually one. Within an account the order is that of `in_order`. New and returning owners and accounts
join at the end of their ring.

A turn of an account is some milliseconds of expected work, and at least one task. So twenty clients of one owner have
the share of one client, and an owner waits for at most one turn of each other owner. Each operation takes constant time
for any number of owners and accounts. With the policy `fifo` all tasks have the same account.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

from scaler.actors.policy.in_order import InOrder
from scaler.actors.vocabulary.owners import NOBODY, Owner
from scaler.ids import ObjectId

if TYPE_CHECKING:
    from scaler.actors.messages.tasks import TaskReady

MOST_SPARE = 1024
"""The most empty queues that are kept for reuse, so that a client with a single task seldom needs a new queue."""

TURN_US = 5_000
"""The expected work of a turn of an account in microseconds. The task that exceeds this work is still in the turn."""


def a_turn_each(_function_id: ObjectId) -> float:
    """Return an infinite duration for each function, so that each task is a turn of its client."""
    return inf


_one_for_all = Owner(NOBODY)


def owner_of_all(_account: int) -> Owner:
    """Return the same owner for all accounts, so that owners do not take turns."""
    return _one_for_all


def _no_account(_ready: TaskReady) -> int:
    return 0


class _Holding:
    """The accounts of one owner that have waiting tasks."""

    __slots__ = ("left", "owner", "ring")

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.ring: OrderedDict[int, None] = OrderedDict()
        """the accounts in the order of their turns"""
        self.left = owner.share
        """the number of turns that the accounts of the owner still have in this turn of the owner"""


class FairShare:
    """The waiting tasks in the order of assignment. Each row of a range counts as a task.

    Args:
        has_turns: whether accounts take turns; if not, all tasks count for one account.
    """

    def __init__(self, owner_of: Callable[[int], Owner] = owner_of_all, *, has_turns: bool = True) -> None:
        self._has_turns = has_turns
        self._account_of: Callable[[TaskReady], int] = attrgetter("account") if has_turns else _no_account
        self._owner_of = owner_of
        self._queues: dict[int, InOrder] = {}
        """the queue of each account; a queue may be empty only if there is no other queue"""
        self._holdings: dict[int, _Holding] = {}
        self._ring: OrderedDict[Owner, _Holding] = OrderedDict()
        """the owners with waiting tasks, in the order of their turns"""
        self._spare: list[InOrder] = []
        self._turn_of = -1
        """the account in the middle of a turn; -1 between two turns"""
        self._left_us = 0.0
        """the expected work that is left in the present turn, in microseconds"""
        self._before: tuple[int, float, int] | None = None
        """for `put_back`: `_turn_of`, `_left_us` and `_Holding.left` before the last task; None if it took no turn"""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        queues = self._queues
        return bool(next(iter(queues.values()))) if len(queues) == 1 else bool(queues)

    def __iter__(self) -> Iterator[TaskReady]:
        """Iterate over the waiting tasks, account by account."""
        return (ready for account in self._in_turn() for ready in self._queues[account])

    def _in_turn(self) -> Iterator[int]:
        return (account for holding in self._ring.values() for account in holding.ring)

    def put(self, tasks: Iterable[TaskReady]) -> None:
        """Add tasks. A task that is waiting already is replaced."""
        for account, row in groupby(tasks, self._account_of):
            queue = self._queues.get(account)
            if queue is None:
                queue = self._open(account)
            elif not queue and not self._is_alone(account):
                self._drop(account)
                queue = self._open(account)
            queue.put(row)

    def _is_alone(self, account: int) -> bool:
        """Return whether this account is the only one, and still has the same owner: account numbers may be reused."""
        return len(self._queues) == 1 and self._owner_of(account) is self._holdings[account].owner

    def _open(self, account: int) -> InOrder:
        owner = self._owner_of(account)
        holding = self._ring.get(owner)
        if holding is None:
            holding = self._ring[owner] = _Holding(owner)
        self._holdings[account] = holding
        holding.ring[account] = None
        queue = self._queues[account] = self._spare.pop() if self._spare else InOrder()
        return queue

    def put_back(self, ready: TaskReady) -> None:
        """Make the task that was yielded last the next task again."""
        account, before = self._account_of(ready), self._before
        self.put((ready,))
        self._queues[account].put_back(ready)
        if before is not None:
            holding = self._holdings[account]
            self._turn_of, self._left_us, holding.left = before
            holding.ring.move_to_end(account, last=False)
            self._ring.move_to_end(holding.owner, last=False)

    def remove(self, task: Hashable, priority: int, account: int) -> TaskReady | None:
        """Remove a task and return it; None if the task was not in the queue."""
        account = account if self._has_turns else 0
        queue = self._queues.get(account)
        found = None if queue is None else queue.remove(task, priority)
        if found is not None and not queue:
            self._drop(account)
        return found

    def drain(self, expected_us: Callable[[ObjectId], float] = a_turn_each) -> Iterator[TaskReady]:
        """Remove and yield tasks in order, until the caller stops. `expected_us` returns a task's expected work."""
        if len(self._queues) == 1:  # most of the time there is one client
            self._before = None
            return next(iter(self._queues.values())).drain()
        return self._take_turns(expected_us)

    def _take_turns(self, expected_us: Callable[[ObjectId], float]) -> Iterator[TaskReady]:
        ring, queues = self._ring, self._queues
        while ring:
            holding = next(iter(ring.values()))
            accounts = holding.ring
            account = next(iter(accounts))
            queue = queues[account]
            if len(queues) == 1:
                self._before = None
                yield from queue.drain()
                self._drop(account)
                return
            self._before = self._turn_of, self._left_us, holding.left
            ready = queue.pop()
            is_over = ready is None or self._take_time(account, expected_us(ready.spec.function_id), ready.spec.rows)
            if not queue:
                self._drop(account)
            elif is_over:
                accounts.move_to_end(account)
            if ready is not None:
                if len(ring) > 1 and accounts and (is_over or not queue):
                    self._count_turn(holding)
                yield ready

    def _take_time(self, account: int, each_us: float, rows: int) -> bool:
        """Subtract the expected work of a task from the turn of its account. Return whether the turn has ended."""
        if account != self._turn_of:
            self._turn_of, self._left_us = account, TURN_US
        self._left_us -= each_us * (rows or 1)
        if self._left_us > 0:
            return False
        self._turn_of = -1
        return True

    def _count_turn(self, holding: _Holding) -> None:
        """Count a turn of an account. If it was the last turn that the owner has now, end the turn of the owner."""
        if holding.left > 1:
            holding.left -= 1
        else:
            self._end_turn(holding)

    def _end_turn(self, holding: _Holding) -> None:
        holding.left = holding.owner.share
        self._ring.move_to_end(holding.owner)

    def first(self) -> TaskReady | None:
        """Return the task that `drain` yields next; None if no task waits."""
        return next(filter(None, (self._queues[account].first() for account in self._in_turn())), None)

    def greatest(self, account: int) -> float:
        """Return the greatest priority of an account's waiting tasks; -inf if the account has no waiting task."""
        queue = self._queues.get(account if self._has_turns else 0)
        return -inf if queue is None else queue.greatest()

    def pass_turn(self) -> None:
        """Move the account of the first task to the end of the ring of its owner."""
        first = self.first()
        if first is not None:
            account = self._account_of(first)
            holding = self._holdings[account]
            holding.ring.move_to_end(account)
            self._turn_of = -1
            self._end_turn(holding)

    def by_account(self) -> dict[int, int]:
        """Return the number of waiting tasks by account; empty if accounts do not take turns."""
        return {account: len(queue) for account, queue in self._queues.items() if queue and self._has_turns}

    def clear(self) -> None:
        """Remove all tasks, accounts and turns."""
        self._ring.clear()
        self._holdings.clear()
        self._queues.clear()

    def _drop(self, account: int) -> None:
        holding = self._holdings.pop(account)
        del holding.ring[account]
        if not holding.ring:
            del self._ring[holding.owner]
        queue = self._queues.pop(account)
        if len(self._spare) < MOST_SPARE:
            self._spare.append(queue)
