"""Whose turn it is among the kinds of tasks."""

from __future__ import annotations

from scaler.actors.policy.constrained import ResourceClass
from scaler.actors.policy.fair_share import FairShare
from scaler.actors.policy.needs import Needs
from scaler.actors.policy.turns import Turns
from tests.support.ready import Task, task


def kind_of(name: str, *tasks: Task) -> ResourceClass[Task]:
    resource_class: ResourceClass[Task] = ResourceClass(Needs(((name, 1),)), FairShare())
    resource_class.queue.put(tasks)
    return resource_class


def play(turns: Turns[Task], classes: list[ResourceClass[Task]], steps: int) -> list[object]:
    names = []
    for _ in range(steps):
        resource_class = turns.next(classes)
        names.append(next(resource_class.queue.drain()).task)
        turns.had(resource_class)
        classes = [each for each in classes if each.queue]
    return names


def test_kinds_take_turns_and_a_new_one_does_not_go_before_all_others() -> None:
    plain: FairShare[Task] = FairShare()
    plain.put(task(f"plain{number}") for number in range(9))
    turns = Turns(plain)
    one, two = (kind_of(name, *(task(f"{name}{number}") for number in range(9))) for name in ("one", "two"))
    first = [str(name)[:3] for name in play(turns, [one], 4)]
    assert first in (["pla", "one"] * 2, ["one", "pla"] * 2)
    then = [str(name)[:3] for name in play(turns, [one, two], 6)]
    assert sorted(then) == ["one"] * 2 + ["pla"] * 2 + ["two"] * 2


def test_a_kind_steps_back_for_a_greater_priority_of_the_same_account_elsewhere() -> None:
    turns: Turns[Task] = Turns(FairShare())
    shallow, deep = kind_of("shallow", task("s", 1), task("other", 2)), kind_of("deep", task("d", 1, 5))
    assert play(turns, [shallow, deep], 3) == ["d", "other", "s"]


def test_when_each_has_something_greater_than_the_other_the_one_whose_turn_it_is_goes() -> None:
    turns: Turns[Task] = Turns(FairShare())
    one = kind_of("one", task("a", 1, 0), task("b", 2, 5))
    two = kind_of("two", task("c", 2, 0), task("d", 1, 5))
    assert len(set(play(turns, [one, two], 4))) == 4
