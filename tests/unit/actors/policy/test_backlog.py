"""Which task is refused when too many wait."""

from __future__ import annotations

from collections import OrderedDict

from scaler.actors.policy.backlog import Backlog
from tests.support.ready import Task, task


def backlog_of(*tasks: Task) -> Backlog[Task]:
    backlog: Backlog[Task] = Backlog()
    for each in tasks:
        backlog.add(each, may_be_refused=True)
    return backlog


def refused(backlog: Backlog[Task], most: int) -> list[object]:
    return [ready.task for ready, _ in backlog.surplus(most)]


def test_the_newest_of_the_largest_is_refused() -> None:
    backlog = backlog_of(*(task(f"a{n}", 0) for n in range(5)), *(task(f"b{n}", 1) for n in range(3)))
    assert refused(backlog, 6) == ["a4", "a3"]
    assert len(backlog) == 6


def test_of_several_that_have_the_most_the_one_that_has_come_last() -> None:
    backlog = backlog_of(*(task((n, account), account) for n in range(3) for account in (0, 1)))
    assert refused(backlog, 3) == [(2, 1), (2, 0), (1, 1)]


def test_a_client_that_has_fewer_gets_the_place_of_one_that_waited() -> None:
    backlog = backlog_of(*(task(f"a{n}", 0) for n in range(4)))
    assert refused(backlog, 4) == []
    backlog.add(task("b", 1), may_be_refused=True)
    assert backlog.surplus(4) == [(task("a3", 0), False)]
    backlog.add(task("more", 0), may_be_refused=True)
    assert backlog.surplus(4) == [(task("more", 0), True)]


def test_no_more_are_refused_than_have_come() -> None:
    backlog = backlog_of(*map(task, range(10)))
    assert refused(backlog, 10) == []
    assert refused(backlog, 3) == []
    backlog.add(task("new"), may_be_refused=True)
    assert refused(backlog, 3) == ["new"]


def test_what_may_not_be_refused_counts_and_stays() -> None:
    backlog = backlog_of(task("a"))
    backlog.add(task("nested", 1), may_be_refused=False)
    assert len(backlog) == 2
    assert refused(backlog, 0) == ["a"]
    assert len(backlog) == 1


def test_a_task_that_is_tried_again_is_not_refused_any_more() -> None:
    backlog = backlog_of(task("a"), task("b"))
    backlog.add(task("b", attempt=2), may_be_refused=False)
    assert len(backlog) == 2
    assert refused(backlog, 0) == ["a"]


def test_a_task_that_waits_no_more_is_not_refused() -> None:
    backlog = backlog_of(task("a"), task("b"), task("c", 1))
    backlog.remove("b", 0)
    backlog.remove("b", 0)
    backlog.remove("x", 9)
    assert len(backlog) == 2
    assert refused(backlog, 1) == ["c"]


def test_it_keeps_nothing_of_those_that_are_gone() -> None:
    backlog = backlog_of(*(task((n, account), account) for n in range(20) for account in range(n)))
    for n in range(20):
        for account in range(n):
            backlog.remove((n, account), account)
    assert (len(backlog), backlog._accounts, backlog._sizes, backlog._arrived) == (0, {}, [OrderedDict()], set())
