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


def test_the_newest_of_the_largest_is_refused() -> None:
    admission = backlog_of(*(task(f"a{n}", 0) for n in range(5)), *(task(f"b{n}", 1) for n in range(3)))
    assert refused(admission, 6) == ["a4", "a3"]
    assert len(admission) == 6


def test_of_several_that_have_the_most_the_one_that_has_come_last() -> None:
    admission = backlog_of(*(task((n, account), account) for n in range(3) for account in (0, 1)))
    assert refused(admission, 3) == [(2, 1), (2, 0), (1, 1)]


def test_a_client_that_has_fewer_gets_the_place_of_one_that_waited() -> None:
    admission = backlog_of(*(task(f"a{n}", 0) for n in range(4)))
    assert refused(admission, 4) == []
    admission.add(task("b", 1), may_be_refused=True)
    assert admission.surplus(4) == [(task("a3", 0), False)]
    admission.add(task("more", 0), may_be_refused=True)
    assert admission.surplus(4) == [(task("more", 0), True)]


def test_no_more_are_refused_than_have_come() -> None:
    admission = backlog_of(*map(task, range(10)))
    assert refused(admission, 10) == []
    assert refused(admission, 3) == []
    admission.add(task("new"), may_be_refused=True)
    assert refused(admission, 3) == ["new"]


def test_what_may_not_be_refused_counts_and_stays() -> None:
    admission = backlog_of(task("a"))
    admission.add(task("nested", 1), may_be_refused=False)
    assert len(admission) == 2
    assert refused(admission, 0) == ["a"]
    assert len(admission) == 1


def test_a_task_that_is_tried_again_is_not_refused_any_more() -> None:
    admission = backlog_of(task("a"), task("b"))
    admission.add(task("b", attempt=2), may_be_refused=False)
    assert len(admission) == 2
    assert refused(admission, 0) == ["a"]


def test_a_task_that_waits_no_more_is_not_refused() -> None:
    admission = backlog_of(task("a"), task("b"), task("c", 1))
    admission.remove("b", 0)
    admission.remove("b", 0)
    admission.remove("x", 9)
    assert len(admission) == 2
    assert refused(admission, 1) == ["c"]


def test_it_keeps_nothing_of_those_that_are_gone() -> None:
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
def test_a_refusal_says_what_was_found_and_what_to_do(waiting: int, workers: int, said: str) -> None:
    sentence = refusal(waiting, waiting, workers)
    assert said in sentence
    assert sentence.endswith("submit it again later, add workers, or raise that setting")


def test_a_task_that_makes_room_for_another_client_hears_so() -> None:
    sentence = refusal(1, 1, 0, was_admitted=True)
    assert "the task was refused in favour of a client with fewer waiting tasks: 1 task waits" in sentence
