"""Admission: which task is refused when too many tasks wait."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from scaler.actors.policy.admission import Admission, refusal
from tests.support.ready import Task, task


def backlog_of(*tasks: Task) -> Admission:
    admission: Admission = Admission()
    for each in tasks:
        admission.add(each, may_be_refused=True)
    return admission


def refused(admission: Admission, most: int) -> list[object]:
    return [ready.task for ready, _ in admission.surplus(most)]


def test_the_newest_task_of_the_account_with_most_tasks_is_refused() -> None:
    admission = backlog_of(*(task(f"a{n}", 0) for n in range(5)), *(task(f"b{n}", 1) for n in range(3)))
    assert refused(admission, 6) == ["a4", "a3"]
    assert len(admission) == 6


def test_among_accounts_with_equally_many_tasks_the_newest_task_is_refused() -> None:
    admission = backlog_of(*(task((n, account), account) for n in range(3) for account in (0, 1)))
    assert refused(admission, 3) == [(2, 1), (2, 0), (1, 1)]


def test_a_task_of_a_client_with_fewer_tasks_takes_the_place_of_a_waiting_task() -> None:
    admission = backlog_of(*(task(f"a{n}", 0) for n in range(4)))
    assert refused(admission, 4) == []
    admission.add(task("b", 1), may_be_refused=True)
    assert admission.surplus(4) == [(task("a3", 0), False)]
    admission.add(task("more", 0), may_be_refused=True)
    assert admission.surplus(4) == [(task("more", 0), True)]


def test_no_more_tasks_are_refused_than_have_arrived() -> None:
    admission = backlog_of(*map(task, range(10)))
    assert refused(admission, 10) == []
    assert refused(admission, 3) == []
    admission.add(task("new"), may_be_refused=True)
    assert refused(admission, 3) == ["new"]


def test_tasks_that_may_not_be_refused_count_and_stay() -> None:
    admission = backlog_of(task("a"))
    admission.add(task("nested", 1), may_be_refused=False)
    assert len(admission) == 2
    assert refused(admission, 0) == ["a"]
    assert len(admission) == 1


def test_a_task_that_is_run_again_is_not_refused() -> None:
    admission = backlog_of(task("a"), task("b"))
    admission.add(task("b", attempt=2), may_be_refused=False)
    assert len(admission) == 2
    assert refused(admission, 0) == ["a"]


def test_a_removed_task_is_not_refused() -> None:
    admission = backlog_of(task("a"), task("b"), task("c", 1))
    admission.remove("b", 0)
    admission.remove("b", 0)
    admission.remove("x", 9)
    assert len(admission) == 2
    assert refused(admission, 1) == ["c"]


def test_removed_tasks_leave_no_entries_in_the_admission() -> None:
    admission = backlog_of(*(task((n, account), account) for n in range(20) for account in range(n)))
    for n in range(20):
        for account in range(n):
            admission.remove((n, account), account)
    assert (len(admission), admission._accounts, admission._sizes, admission._arrived) == (
        0,
        {},
        [OrderedDict()],
        set(),
    )


@pytest.mark.parametrize(
    ("waiting", "workers", "said"),
    [
        (7, 2, "7 tasks wait, max_number_of_tasks_waiting is 7, and 2 workers are connected, and none of them has"),
        (1, 1, "1 task waits, max_number_of_tasks_waiting is 1, and 1 worker is connected, and it does not have"),
        (0, 0, "0 tasks wait, max_number_of_tasks_waiting is 0, and no worker is connected;"),
    ],
)
def test_a_refusal_gives_the_cause_and_the_remedy(waiting: int, workers: int, said: str) -> None:
    sentence = refusal(waiting, waiting, workers)
    assert said in sentence
    assert sentence.endswith("submit it again later, add workers, or raise that setting")


def test_the_refusal_of_a_waiting_task_says_that_it_makes_room_for_another_client() -> None:
    sentence = refusal(1, 1, 0, was_admitted=True)
    assert "the task was refused in favour of a client with fewer waiting tasks: 1 task waits" in sentence
