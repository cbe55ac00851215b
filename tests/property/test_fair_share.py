"""The order of waiting tasks, whatever comes, goes and is placed in between; and what the policy makes of it."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.actors.policy import Placement
from scaler.actors.policy.fair_share import TURN_US, FairShare
from scaler.actors.policy.in_order import InOrder
from scaler.actors.policy.placement import make_policy
from scaler.settings.scheduler import FAIR, FIFO, POLICIES
from scaler.wire.messages.priority import STEP
from tests.support.configs import scheduler_config
from tests.support.examples import examples
from tests.support.ready import Task, of_map, task

accounts = st.integers(0, 4)
tasks = st.builds(
    lambda account, priority, again: (account, priority, again),
    accounts,
    st.sampled_from((0, 0, 0, 1, 2)),
    st.sampled_from((False, False, True)),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(tasks, max_size=8)),
        st.tuples(st.just("take"), st.integers(0, 6)),
        st.tuples(st.just("remove"), st.integers(0, 50)),
    ),
    max_size=50,
)


@examples(50)
@given(
    st.lists(st.tuples(accounts, st.integers(0, 8), st.booleans()), max_size=40),
    st.lists(st.integers(1, 3), min_size=5, max_size=5),
    st.sampled_from((1, 1000, TURN_US)),
)
def test_a_task_that_is_put_back_changes_nobodys_turn(
    waiting: list[tuple[int, int, bool]], shares: list[int], each_us: int
) -> None:
    owners = [Someone(share) for share in shares[:3]]
    taken: list[list[object]] = []
    for has_put_back in (False, True):
        queue: FairShare = FairShare(lambda account: owners[account % 3])
        queue.put([of_map(number, account, rows=rows) for number, (account, rows, _) in enumerate(waiting)])
        names: list[object] = []
        for *_, is_put_back in waiting:
            ready = next(queue.drain(lambda _function: each_us))
            if has_put_back and is_put_back:
                before = len(queue)
                queue.put_back(ready)
                assert queue.first() is ready
                assert len(queue) == before + (ready.spec.rows or 1)
                assert next(queue.drain(lambda _function: each_us)) is ready
            names.append(ready.task)
        assert not queue
        taken.append(names)
    assert taken[0] == taken[1]


class Ring:
    """What it should do: a queue for each account, and a ring of those that have tasks."""

    def __init__(self) -> None:
        self.accounts: deque[int] = deque()
        self.queues: dict[int, InOrder] = {account: InOrder() for account in range(5)}

    def put(self, new: Task) -> None:
        self.queues[new.account].put([new])
        if new.account not in self.accounts:
            self.accounts.append(new.account)

    def remove(self, old: Task) -> None:
        assert self.queues[old.account].remove(old.task, old.spec.priority)
        if not self.queues[old.account]:
            self.accounts.remove(old.account)

    def pop(self) -> Task | None:
        account = self.accounts.popleft()
        task = self.queues[account].pop()
        if self.queues[account]:
            self.accounts.append(account)
        return task


@examples(50)
@given(steps)
def test_turns_are_taken_one_task_each_and_nothing_is_lost(story: list[tuple[str, Any]]) -> None:
    queue: FairShare = FairShare()
    ring = Ring()
    number = 0
    for name, what in story:
        if name == "put":
            new = [task(number + index, *each) for index, each in enumerate(what)]
            number += len(new)
            queue.put(new)
            for each in new:
                ring.put(each)
        elif name == "remove":
            for each in list(queue)[what : what + 1]:
                assert queue.remove(each.task, each.spec.priority, each.account)
                ring.remove(each)
        else:
            for taken in islice(queue.drain(), what):
                assert taken is ring.pop()
        left = sorted(each.task for each in queue)
        assert left == sorted(each.task for one in ring.queues.values() for each in one)
        assert (len(queue), bool(queue)) == (len(left), bool(left))


@examples(50)
@given(st.lists(st.tuples(accounts, st.integers(1, 30)), min_size=1, max_size=12), st.integers(1, 7))
def test_no_client_with_a_task_waits_for_more_than_one_of_each_other(
    arrivals: list[tuple[int, int]], at_a_time: int
) -> None:
    queue: FairShare = FairShare()
    since: dict[int, list[int]] = {}
    """for each account with tasks: whose were taken since it was its turn"""
    for number, (account, count) in enumerate(arrivals):
        queue.put([task((number, index), account) for index in range(count)])
        since.setdefault(account, [])
        for taken in islice(queue.drain(), at_a_time):
            for others in since.values():
                others.append(taken.account)
            since[taken.account] = []
            waiting = {each.account for each in queue}
            since = {account: others for account, others in since.items() if account in waiting}
            assert all(len(others) == len(set(others)) for others in since.values())


class Someone:
    """An owner of accounts."""

    def __init__(self, share: int) -> None:
        self.share = share


@examples(50)
@given(steps, st.lists(st.integers(0, 2), min_size=5, max_size=5), st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_no_owner_gets_more_than_its_share_while_another_waits(
    story: list[tuple[str, Any]], owner_of: list[int], shares: list[int]
) -> None:
    owners = [Someone(share) for share in shares]
    queue: FairShare = FairShare(lambda account: owners[owner_of[account]])
    waiting: dict[object, Task] = {}
    numbers = itertools.count()
    taken_beside: dict[int, Counter[int]] = {}
    """for each owner that waits: how many tasks of each other one were placed since it came, or had its last one"""
    for name, what in story:
        if name == "put":
            for each in what:
                new = task(next(numbers), *each)
                waiting[new.task] = new
                queue.put([new])
                taken_beside.setdefault(owner_of[new.account], Counter())
        elif name == "remove":
            for each in list(queue)[what : what + 1]:
                assert queue.remove(each.task, each.spec.priority, each.account) is waiting.pop(each.task)
        else:
            for taken in islice(queue.drain(), what):
                assert waiting.pop(taken.task) is taken
                own = owner_of[taken.account]
                for owner, others in taken_beside.items():
                    others[own] += owner != own
                taken_beside[own] = Counter()
        left = {owner_of[each.account] for each in waiting.values()}
        taken_beside = {owner: others for owner, others in taken_beside.items() if owner in left}
        for others in taken_beside.values():
            assert all(number <= 2 * shares[other] for other, number in others.items())
        assert sorted(map(id, queue)) == sorted(map(id, waiting.values()))


@examples(50)
@given(
    st.lists(st.lists(tasks, max_size=12), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_no_worker_is_idle_while_tasks_wait_whichever_client_is_next(
    turns: list[list[tuple[int, int, bool]]], workers: int, queue_size: int
) -> None:
    counts = {policy: placed(policy, turns, workers, queue_size) for policy in POLICIES}
    assert counts[FAIR] == counts[FIFO]


def placed(policy: str, turns: list[list[tuple[int, int, bool]]], workers: int, queue_size: int) -> list[int]:
    """Return how many tasks each turn places; after each, every worker finishes one."""
    placement: Placement = make_policy(scheduler_config(policy=policy))
    loads = dict.fromkeys(range(workers), 0)
    for worker in loads:
        placement.join(worker, queue_size)
        placement.freed(worker, 0, 0, {task(0).spec.function_id: (2, 1)})
    counts, submitted, seen = [], 0, set()
    for number, turn in enumerate(turns):
        submitted += len(turn)
        placement.ready(
            [task((number, index), account, depth, again) for index, (account, depth, again) in enumerate(turn)]
        )
        decisions = placement.decide(0.0)
        counts.append(sum(map(len, decisions.assigned.values())))
        for worker, row in decisions.assigned.items():
            seen |= {ready.task for ready, _ in row}
            loads[worker] += len(row)
        waiting = placement.statistics()["ready_tasks"]
        assert len(seen) == sum(counts) == submitted - waiting
        assert all(load <= queue_size for load in loads.values())
        assert not waiting or all(load == queue_size for load in loads.values())
        for worker, load in loads.items():
            if load:
                loads[worker] -= 1
                placement.freed(worker, 1, 2, {})
    return counts


@pytest.mark.parametrize("policy", POLICIES)
@examples(50)
@given(
    st.lists(st.lists(st.tuples(accounts, st.integers(0, 1), st.booleans()), max_size=6), max_size=8),
    st.integers(0, 6),
)
def test_with_a_limit_as_many_are_refused_as_are_too_many_of_those_that_come(
    policy: str, turns: list[list[tuple[int, int, bool]]], most: int
) -> None:
    """Nobody has a place. What is nested or was tried before is let in, whatever waits."""
    placement: Placement = make_policy(scheduler_config(max_number_of_tasks_waiting=most, policy=policy))
    waiting: dict[object, Task] = {}
    for number, turn in enumerate(turns):
        new = [
            task((number, index), account, depth * STEP, attempt=2 if was_tried else 1)
            for index, (account, depth, was_tried) in enumerate(turn)
        ]
        waiting.update((each.task, each) for each in new)
        placement.ready(new)
        decisions = placement.decide(0.0)
        allowed = sum((each.attempt, each.spec.priority) == (1, 0) for each in new)
        assert len(decisions.refused) == max(0, min(len(waiting) - most, allowed))
        for refused, _ in decisions.refused:
            assert waiting.pop(refused.task) is refused
            assert (refused.attempt, refused.spec.priority) == (1, 0)
            may = [each.account for each in waiting.values() if (each.attempt, each.spec.priority) == (1, 0)]
            assert may.count(refused.account) + 1 >= max(map(may.count, may), default=0)
        assert placement.statistics()["ready_tasks"] == len(waiting)
