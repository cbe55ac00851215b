"""Backlog: who is next, and who steps aside."""

from __future__ import annotations

import pytest

from scaler.executors.inline.backlog import Backlog, run_of
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages.worker import RunTask
from tests.support.instructions import instructions


def task(name: str, priority: int = 0, account: int = 0) -> RunTask:
    return RunTask(TaskId(name.encode().ljust(16)), 0, 1, ObjectId(b"f" * 16), b"", b"", priority, account=account)


def taken(
    backlog: Backlog, lacking: frozenset[bytes] = frozenset(), waiting: frozenset[bytes] = frozenset()
) -> list[str]:
    def waited_for(each: RunTask) -> bool:
        return each.task_id.strip() in waiting

    names = []
    while (one := backlog.take(lambda each: each.task_id.strip() not in lacking, waited_for)) is not None:
        names.append(one.task_id.decode().strip())
    return names


def test_the_deepest_are_first_and_within_a_priority_those_that_came_first() -> None:
    backlog = Backlog()
    backlog.add([task("a"), task("b", 1), task("c"), task("d", 2), task("e", 1)])
    assert taken(backlog) == ["d", "b", "e", "a", "c"]


def test_a_task_that_lacks_something_steps_aside_and_keeps_its_place_in_the_order() -> None:
    backlog = Backlog()
    backlog.add([task("a"), task("b"), task("c", 1)])
    assert taken(backlog, frozenset({b"a", b"c"})) == ["b"]
    assert taken(backlog) == []
    backlog.add([task("d")])
    backlog.bring_back()
    assert taken(backlog) == ["c", "a", "d"]


def test_a_task_that_is_waited_for_holds_up_those_behind_it() -> None:
    backlog = Backlog()
    backlog.add([task("a"), task("b"), task("c")])
    lacking = frozenset({b"a", b"b"})
    assert taken(backlog, lacking, frozenset({b"b"})) == []
    assert taken(backlog, frozenset({b"a"})) == ["b", "c"]


def test_tasks_are_taken_out_wherever_they_wait() -> None:
    backlog = Backlog()
    tasks = [task("a"), task("b"), task("c", 1), task("d")]
    backlog.add(tasks)
    taken(backlog, frozenset({b"a", b"c", b"b", b"d"}))
    backlog.add([task("e")])
    out = backlog.take_out({run_of(tasks[0]), run_of(task("e")), (tasks[3].task_id, 2)})
    assert sorted(each.task_id.strip() for each in out) == [b"a", b"e"]
    backlog.bring_back()
    assert taken(backlog) == ["c", "b", "d"]


def test_while_tasks_of_several_clients_wait_it_is_first_come_first_served() -> None:
    backlog = Backlog()
    backlog.add([task("a"), task("b", 1), task("c", account=1), task("d", 2)])
    backlog.add([task("e", 3, account=1)])
    assert taken(backlog) == ["b", "a", "c", "d", "e"]
    backlog.add([task("f"), task("g", 1)])
    assert taken(backlog) == ["g", "f"]


def test_tasks_that_stepped_aside_count_as_tasks_that_wait() -> None:
    backlog = Backlog()
    backlog.add([task("a")])
    assert taken(backlog, frozenset({b"a"})) == []
    backlog.add([task("b", 1, account=1)])
    backlog.bring_back()
    assert taken(backlog) == ["a", "b"]


def test_those_of_one_client_have_their_order_again_when_those_of_the_others_were_taken_out() -> None:
    backlog = Backlog()
    other = task("b", account=1)
    backlog.add([task("a"), other])
    assert backlog.take_out({run_of(other)}) == [other]
    backlog.add([task("c", 1)])
    assert taken(backlog) == ["c", "a"]


@pytest.mark.parametrize("accounts", [1, 2])
def test_a_task_is_added_and_taken_at_the_same_cost_however_many_wait(accounts: int) -> None:
    def cost(waiting: int) -> int:
        backlog = Backlog()
        backlog.add(task(str(number), number % 3, number % accounts) for number in range(waiting))

        def add_and_take() -> None:
            backlog.add([task("next", 1)])
            backlog.take(lambda _task: True, lambda _task: False)

        return instructions(add_and_take)

    assert cost(1_000) == cost(10)
