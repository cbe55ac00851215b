from __future__ import annotations

from scaler.scaling.plan import SHORTAGE_SECONDS, Bounds, Decision, Plan, ScaledCluster

NOTHING = Decision()


def cluster(name: str, workers: int = 1, is_busy: bool = False, started_at: float = 0.0) -> ScaledCluster:
    return ScaledCluster(name, started_at, workers, is_busy)


def test_the_least_number_is_started_at_once() -> None:
    plan = Plan(Bounds(least=3, most=8, each=2))
    assert plan.decide(0, 0, 0, []) == Decision(start=2)
    assert plan.decide(1, 0, 0, [cluster("a", 0), cluster("b", 0)]) == NOTHING


def test_a_shortage_must_last() -> None:
    plan = Plan(Bounds(0, 4))
    assert plan.decide(0, 3, 0, []) == NOTHING
    assert plan.decide(1, 0, 0, []) == NOTHING
    assert plan.decide(2, 3, 0, []) == NOTHING, "it begins anew"
    assert plan.decide(2 + SHORTAGE_SECONDS, 3, 0, []) == Decision(start=3)


def test_there_are_never_more_than_the_most() -> None:
    plan = Plan(Bounds(0, 5, each=2))
    plan.decide(0, 100, 0, [])
    assert plan.decide(9, 100, 0, []) == Decision(start=2), "three would be six workers"
    assert plan.decide(9, 100, 4, [cluster("a", 0, started_at=9)]) == NOTHING


def test_workers_of_others_count() -> None:
    plan = Plan(Bounds(0, 9))
    plan.decide(0, 4, 3, [])
    assert plan.decide(9, 4, 3, []) == Decision(start=1)


def test_one_that_does_not_come_is_ended_and_another_one_started() -> None:
    plan = Plan(Bounds(1, 4, start_seconds=30))
    late = cluster("late", 0)
    assert plan.decide(29, 0, 0, [late]) == NOTHING
    assert plan.decide(30, 0, 0, [late]) == Decision(start=1, drain=["late"])


def test_one_that_waits_in_a_queue_is_waited_for_and_keeps_no_idle_one_from_its_end() -> None:
    plan = Plan(Bounds(1, 4, idle_seconds=10))
    waiting = cluster("waiting", 0)
    assert plan.decide(1e6, 0, 0, [waiting]) == NOTHING
    idle = [cluster("a"), cluster("b")]
    plan.decide(1e6, 2, 2, [waiting, *idle])
    assert plan.decide(1e6 + 10, 0, 2, [waiting, *idle]).drain == ["a"]


def test_one_that_has_come_before_is_expected_back() -> None:
    plan = Plan(Bounds(1, 4, start_seconds=30))
    assert plan.decide(0, 0, 1, [cluster("a")]) == NOTHING
    for now in (40, 100):
        assert plan.decide(now, 0, 0, [cluster("a", 0)]) == NOTHING


def test_the_longest_idle_are_drained_down_to_what_is_wanted() -> None:
    plan = Plan(Bounds(least=1, most=9, idle_seconds=10))
    a, b, c = cluster("a"), cluster("b"), cluster("c")
    plan.decide(0, 0, 3, [cluster("a", is_busy=True), b, c])
    plan.decide(5, 0, 3, [a, b, c])
    assert plan.decide(10, 2, 3, [a, b, c]).drain == ["b"]
    assert plan.decide(10, 0, 3, [a, b, c]).drain == ["b", "c"]
    assert plan.decide(15, 0, 1, [a]) == NOTHING, "the last one stays"


def test_a_task_begins_the_time_anew() -> None:
    plan = Plan(Bounds(0, 9, idle_seconds=10))
    plan.decide(0, 0, 1, [cluster("a")])
    plan.decide(9, 1, 1, [cluster("a", is_busy=True)])
    assert plan.decide(11, 0, 1, [cluster("a")]) == NOTHING
    assert plan.decide(21, 0, 1, [cluster("a")]).drain == ["a"]


def test_nothing_is_drained_while_others_have_just_been_started() -> None:
    plan = Plan(Bounds(0, 9, each=2, idle_seconds=10))
    plan.decide(0, 0, 2, [cluster("a", 2)])
    assert plan.decide(20, 0, 2, [cluster("a", 2), cluster("b", 0, started_at=15)]) == NOTHING


def test_a_cluster_that_is_needed_in_part_stays() -> None:
    plan = Plan(Bounds(least=1, most=9, idle_seconds=10))
    plan.decide(0, 0, 4, [cluster("a", 4)])
    assert plan.decide(20, 0, 4, [cluster("a", 4)]) == NOTHING
