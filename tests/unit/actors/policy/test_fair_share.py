"""Fair share: clients take turns, and the order of the tasks of one client is unchanged."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from scaler.actors.policy.fair_share import MOST_SPARE, TURN_US, FairShare
from tests.support.ready import Task, of_map, task


def queue_of(*tasks: Task) -> FairShare:
    queue: FairShare = FairShare()
    queue.put(tasks)
    return queue


def taken(queue: FairShare, count: int | None = None) -> list[object]:
    return [each.task for each in islice(queue.drain(), count)]


def tasks_of(account: int, count: int) -> list[Task]:
    return [task(f"{'abc'[account]}{number}", account) for number in range(count)]


def test_clients_take_turns_however_many_tasks_one_of_them_has() -> None:
    queue = queue_of(*tasks_of(0, 5), *tasks_of(1, 2), *tasks_of(2, 1))
    assert taken(queue) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4"]
    assert not queue


def test_turns_continue_with_the_next_client() -> None:
    queue = queue_of(*tasks_of(0, 3), *tasks_of(1, 3), *tasks_of(2, 3))
    assert taken(queue, 2) == ["a0", "b0"]
    assert taken(queue, 1) == ["c0"]
    assert taken(queue, 4) == ["a1", "b1", "c1", "a2"]
    assert taken(queue) == ["b2", "c2"]


def test_a_new_client_waits_for_one_task_of_each_other_client() -> None:
    queue = queue_of(*tasks_of(0, 1000))
    assert len(taken(queue, 500)) == 500
    queue.put(tasks_of(1, 2))
    assert taken(queue, 4) == ["a500", "b0", "a501", "b1"]
    assert taken(queue, 2) == ["a502", "a503"]


def test_a_client_that_submits_again_after_its_last_task_has_the_last_turn() -> None:
    queue = queue_of(*tasks_of(0, 1))
    assert taken(queue, 1) == ["a0"]  # and the queue was not asked for more
    queue = queue_of(*tasks_of(0, 1), *tasks_of(1, 2))
    assert taken(queue, 1) == ["a0"]
    queue.put([task("again", 0)])
    assert taken(queue) == ["b0", "again", "b1"]


def test_a_sole_client_that_submits_again_after_its_last_task_has_the_last_turn() -> None:
    queue = queue_of(*tasks_of(1, 1))
    assert taken(queue, 1) == ["b0"]
    queue.put([*tasks_of(0, 1), task("again", 1)])
    assert taken(queue) == ["a0", "again"]


def test_deeper_and_repeated_tasks_of_a_client_run_first() -> None:
    queue = queue_of(
        *tasks_of(0, 2),
        task("child", 0, priority=1),
        *tasks_of(1, 2),
        task("again", 1, goes_first=True),
        task("grandchild", 0, priority=2),
    )
    assert taken(queue) == ["grandchild", "again", "child", "b0", "a0", "b1", "a1"]


def test_a_recursion_has_the_share_of_one_client() -> None:
    queue = queue_of(task("single", 1))
    for depth in range(1, 100):
        queue.put([task(("deep", depth), 0, priority=depth)])
    assert "single" in taken(queue, 2)


def test_a_waiting_task_can_be_removed_once_and_takes_no_turn() -> None:
    queue = queue_of(*tasks_of(0, 2), *tasks_of(1, 1), *tasks_of(2, 1))
    assert not queue.remove("b0", 0, 0)
    assert not queue.remove("b0", 0, 7)
    assert queue.remove("b0", 0, 1)
    assert not queue.remove("b0", 0, 1)
    assert len(queue) == 3
    assert [each.task for each in queue] == ["a0", "a1", "c0"]
    assert taken(queue) == ["a0", "c0", "a1"]


def test_a_task_reported_ready_twice_waits_once_in_the_fair_queue() -> None:
    queue = queue_of(task(1, 0, goes_first=True), task(1, 0, attempt=2), *tasks_of(1, 1))
    assert len(queue) == 2
    assert [each.attempt for each in queue.drain()] == [2, 1]


def test_a_fair_queue_is_empty_when_all_tasks_are_taken_or_it_is_cleared() -> None:
    queue = queue_of(*tasks_of(0, 1))
    assert queue
    assert taken(queue, 1) == ["a0"]
    assert not queue
    queue.put([task("more", 1)])
    assert taken(queue, 1) == ["more"]
    queue.put([*tasks_of(0, 2), *tasks_of(1, 2)])
    queue.clear()
    assert (bool(queue), len(queue), list(queue.drain())) == (False, 0, [])


def test_accounts_without_tasks_leave_nothing_behind() -> None:
    queue: FairShare = FairShare()
    for account in range(10_000):
        queue.put([task(account, account)])
    assert len(taken(queue)) == 10_000
    assert len(queue._ring) == 0
    assert len(queue._spare) == MOST_SPARE


def test_the_first_task_of_the_fair_queue_is_the_task_taken_next() -> None:
    queue: FairShare = FairShare()
    assert queue.first() is None
    queue.put([task(1, 1)])
    assert [each.task for each in queue.drain()] == [1]  # its account exists, and has no tasks
    queue.put([task(2, 2), task(3, 2, 5), task(4, 3)])
    assert [queue.greatest(account) for account in (1, 2, 3, 4)] == [float("-inf"), 5, 0, float("-inf")]
    taken = []
    while True:
        first = queue.first()
        if first is None:
            break
        assert next(queue.drain()) is first
        taken.append(first.task)
    assert taken == [3, 4, 2]


def test_an_account_can_pass_its_turn() -> None:
    queue: FairShare = FairShare()
    queue.pass_turn()
    queue.put([task(1, 1), task(2, 2)])
    queue.pass_turn()
    assert [each.task for each in queue.drain()] == [2, 1]


class Someone:
    """An owner of accounts."""

    def __init__(self, share: int = 1) -> None:
        self.share = share


def owned(*owners: Someone) -> FairShare:
    """Return a queue of accounts that belong to these owners, in the order of account numbers."""
    return FairShare(owners.__getitem__)


def counts_of(queue: FairShare, count: int) -> list[int]:
    """Return how many of the next tasks belong to each account."""
    found = Counter(str(name)[0] for name in taken(queue, count))
    return [found[letter] for letter in sorted(found)]


def test_twenty_clients_of_one_owner_have_the_share_of_one() -> None:
    one, many = Someone(), Someone()
    queue = owned(one, *[many] * 20)
    queue.put([task(("one", number), 0) for number in range(100)])
    for account in range(1, 21):
        queue.put([task((account, number), account) for number in range(100)])
    first = list(islice(queue.drain(), 80))
    assert [each.account == 0 for each in first] == [True, False] * 40
    assert Counter(each.account for each in first if each.account) == dict.fromkeys(range(1, 21), 2)


def test_the_share_of_an_owner_is_the_number_of_its_tasks_placed_in_a_turn() -> None:
    queue = owned(Someone(2), Someone(1), Someone(3))
    for account in range(3):
        queue.put(tasks_of(account, 60))
    assert [str(name)[0] for name in taken(queue, 12)] == [*"aabccc"] * 2
    assert counts_of(queue, 48) == [16, 8, 24]
    assert [str(name)[0] for _ in range(12) for name in taken(queue, 1)] == [*"aabccc"] * 2  # one place at a time


def test_a_share_that_changes_holds_from_the_next_turn_on() -> None:
    alice = Someone(1)
    queue = owned(alice, Someone(1))
    queue.put([*tasks_of(0, 20), *tasks_of(1, 20)])
    assert [str(name)[0] for name in taken(queue, 4)] == [*"abab"]
    alice.share = 2
    assert [str(name)[0] for name in taken(queue, 7)] == [*"abaabaa"]


def test_the_number_of_an_account_may_be_given_to_another_owner() -> None:
    """The queue of a sole owner stays; the next owner with its account number has a queue of its own."""
    owners = {0: Someone(1), 1: Someone(1)}
    queue: FairShare = FairShare(owners.__getitem__)
    queue.put(tasks_of(0, 1))
    assert taken(queue) == ["a0"]
    owners[0] = Someone(3)
    queue.put([*tasks_of(0, 4), *tasks_of(1, 4)])
    assert [str(name)[0] for name in taken(queue)] == [*"aaababbb"]


def test_an_owner_that_passes_its_turn_has_a_whole_turn_next() -> None:
    queue = owned(Someone(2), Someone(1))
    queue.put([*tasks_of(0, 4), *tasks_of(1, 4)])
    assert taken(queue, 1) == ["a0"]
    queue.pass_turn()
    assert [str(name)[0] for name in taken(queue)] == [*"baababb"]


def of_rows(name: str, account: int, rows: int) -> Task:
    return of_map(name, account, rows=rows)


def test_a_turn_is_an_amount_of_expected_work_as_one_range_or_many_tasks() -> None:
    queue = queue_of(*(of_rows(f"a{number}", 0, 250) for number in range(3)), *tasks_of(1, 900))
    order = [each.account for each in queue.drain(lambda _function: TURN_US / 250)]
    assert order == [0, *[1] * 250, 0, *[1] * 250, 0, *[1] * 400]


def test_a_turn_is_one_task_of_a_long_or_unknown_function() -> None:
    queue = queue_of(*tasks_of(0, 3), *tasks_of(1, 3))
    assert [each.task for each in queue.drain(lambda _function: 10 * TURN_US)] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_an_interrupted_turn_continues_when_workers_have_capacity_again() -> None:
    queue = queue_of(*tasks_of(0, 4), *tasks_of(1, 4))
    order = [next(queue.drain(lambda _function: TURN_US / 2)).task for _ in range(8)]
    assert order == ["a0", "a1", "b0", "b1", "a2", "a3", "b2", "b3"]


def test_rows_of_ranges_count_in_the_fair_queue() -> None:
    queue = queue_of(of_rows("a", 0, 8), task("b", 0), of_rows("c", 1, 4))
    assert (len(queue), queue.by_account()) == (13, {0: 9, 1: 4})
    queue.put([of_rows("a", 0, 8)])  # the task reports ready again
    assert len(queue) == 13
    queue.remove("c", 0, 1)
    assert len(queue) == 9
    assert taken(queue, 1) == ["a"]
    assert len(queue) == 1
    assert taken(queue) == ["b"]
    assert len(queue) == 0
