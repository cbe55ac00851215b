"""What the policy decides, from what it is told: who gets what, who is refused, when it is to be asked again."""

from __future__ import annotations

import pytest

from scaler.actors.policy import FAIR, FIFO, LOOK_SECONDS, WORK_AHEAD_US, Placement, Rules
from scaler.actors.policy.interface import Decisions
from scaler.actors.policy.placement import ORDERS, make_policy
from tests.support.ready import SHORT, Task, task


class Scene:
    """A policy that knows a short function."""

    def __init__(self, rules: Rules | None = None) -> None:
        rules = rules or Rules()
        self.policy: Placement[str, Task] = Placement(rules, ORDERS[rules.policy])
        self.policy.join("nobody", 1, 0, 0, None)
        self.policy.freed("nobody", 0, 0, {SHORT: (2, 1)})
        self.policy.leave("nobody")

    def decide(self, *tasks: Task, now: float = 0.0) -> Decisions[str, Task]:
        if tasks:
            self.policy.ready(tasks)
        return self.policy.decide(now)

    def names(self, *tasks: Task) -> list[object]:
        return [ready.task for row in self.decide(*tasks).assigned.values() for ready, _ in row]


def test_the_settings_say_which_order_it_has() -> None:
    for policy, expected in ((FAIR, ["a", "c", "b"]), (FIFO, ["a", "b", "c"])):
        scene = Scene(Rules(policy=policy))
        scene.policy = make_policy(Rules(policy=policy))  # type: ignore[assignment]
        scene.policy.join("worker", 9, 0, 0, None)
        scene.policy.freed("worker", 0, 0, {SHORT: (2, 1)})
        assert scene.names(task("a"), task("b"), task("c", 1)) == expected


def test_an_assignment_says_who_runs_it_and_for_how_much_work_it_counts() -> None:
    scene = Scene()
    scene.policy.join("worker", 9, 0, 0, None)
    known, unknown = task("a"), task("b", function_id=task("c").spec.function_id[:-1] + b"x")
    assert scene.decide(known, unknown).assigned == {"worker": [(known, 2), (unknown, WORK_AHEAD_US)]}


def test_nothing_is_to_be_decided_when_a_place_is_free_and_nothing_waits() -> None:
    scene = Scene()
    scene.policy.join("worker", 1, 0, 0, None)
    assert scene.names(task("a"), task("b")) == ["a"]
    assert scene.policy.freed("worker", 1, 2, {})
    assert scene.names() == ["b"]
    assert not scene.policy.freed("worker", 1, 2, {})
    assert scene.decide() == Decisions()


def test_there_is_something_to_decide_when_a_worker_becomes_idle_beside_a_busy_one() -> None:
    scene = Scene()
    for worker in ("one", "two"):
        scene.policy.join(worker, 9, 0, 0, None)
    scene.decide(*map(task, range(4)))
    assert not scene.policy.freed("one", 1, 2, {})
    assert scene.policy.freed("one", 1, 2, {})
    assert scene.decide(now=5.0).look_at == pytest.approx(5.0 + LOOK_SECONDS)
    assert scene.decide(now=5.0 + LOOK_SECONDS).recalled == {"two": 1}


def test_a_task_that_waits_can_be_withdrawn_also_if_there_is_a_limit() -> None:
    for rules in (Rules(), Rules(waiting_most=1)):
        scene = Scene(rules)
        scene.decide(task("a", 3))
        assert not scene.policy.withdraw("a", 0, 2)
        assert scene.policy.withdraw("a", 0, 3)
        assert not scene.policy.withdraw("a", 0, 3)
        assert scene.decide(task("b")).refused == []


def test_what_was_given_back_is_of_unknown_functions_until_one_has_ended() -> None:
    scene = Scene()
    scene.policy.join("worker", 9, 0, 0, None)
    scene.decide(task("a"), task("b"))
    scene.policy.recalled("worker", 1, 2, {SHORT})
    scene.policy.freed("worker", 1, 2, {})
    assert scene.names(task("b", again=True), task("c")) == ["b"]
    scene.policy.freed("worker", 1, WORK_AHEAD_US, {SHORT: (2, 1)})
    assert scene.names() == ["c"]


def test_a_task_that_goes_on_takes_its_place_again() -> None:
    scene = Scene()
    scene.policy.join("worker", 1, 0, 0, None)
    assert scene.names(task("a")) == ["a"]
    scene.policy.freed("worker", 1, 2, {})
    scene.policy.resumed("worker", 1, 2)
    assert scene.names(task("b")) == []
    scene.policy.freed("worker", 1, 2, {})
    assert scene.names() == ["b"]


def test_when_everybody_says_everything_anew_nothing_is_known_but_durations() -> None:
    scene = Scene(Rules(waiting_most=5))
    scene.policy.join("worker", 9, 0, 0, None)
    scene.decide(task("a"))
    scene.policy.leave("worker")
    scene.decide(task("b"), task("c"))
    scene.policy.forget()
    assert scene.policy.statistics() == {"ready_tasks": 0, "workers": 0}
    scene.policy.join("worker", 9, 1, 2, None)
    assert scene.decide(task("b", attempt=2)).assigned == {"worker": [(task("b", attempt=2), 2)]}


def test_near_is_where_a_task_goes_if_there_is_room() -> None:
    scene = Scene()
    scene.policy.join("here", 1, 0, 0, "host")
    scene.policy.join("there", 9, 0, 0, "other host")
    near = [task("a"), task("b")]
    for each in near:
        each.near = "here"
    assert scene.decide(*near).assigned == {"here": [(near[0], 2)], "there": [(near[1], 2)]}


def test_a_refusal_says_how_many_wait_now_and_whether_the_task_had_been_let_in() -> None:
    scene = Scene(Rules(waiting_most=2))
    assert scene.decide(task("a"), task("b")).refused == []
    ((refused, sentence),) = scene.decide(task("c", 1)).refused
    assert refused.task == "b"
    assert "it waited, and makes room" in sentence
    assert "2 tasks wait" in sentence
    ((refused, sentence),) = scene.decide(task("d", 1)).refused
    assert refused.task == "d"
    assert "it waited" not in sentence
