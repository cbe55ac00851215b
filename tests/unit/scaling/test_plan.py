from __future__ import annotations

from scaler.scaling.plan import SHORTAGE_SECONDS, Bounds, Decision, Plan, ScaledCluster

NOTHING = Decision()


def cluster(name: str, workers: int = 1, is_busy: bool = False, started_at: float = 0.0) -> ScaledCluster:
    return ScaledCluster(name, started_at, workers, is_busy)


def test_the_minimum_number_of_workers_is_started_at_once() -> None:
    plan = Plan(Bounds(least=3, most=8, each=2))
    assert plan.decide(0, 0, 0, []) == Decision(start=2)
    assert plan.decide(1, 0, 0, [cluster("a", 0), cluster("b", 0)]) == NOTHING


def test_workers_are_started_only_after_a_lasting_shortage() -> None:
    plan = Plan(Bounds(0, 4))
    assert plan.decide(0, 3, 0, []) == NOTHING
    assert plan.decide(1, 0, 0, []) == NOTHING
    assert plan.decide(2, 3, 0, []) == NOTHING, "it begins anew"
    assert plan.decide(2 + SHORTAGE_SECONDS, 3, 0, []) == Decision(start=3)


def test_the_maximum_number_of_workers_is_never_exceeded() -> None:
    plan = Plan(Bounds(0, 5, each=2))
    plan.decide(0, 100, 0, [])
    assert plan.decide(9, 100, 0, []) == Decision(start=2), "three would be six workers"
    assert plan.decide(9, 100, 4, [cluster("a", 0, started_at=9)]) == NOTHING


def test_workers_that_were_started_otherwise_count() -> None:
    plan = Plan(Bounds(0, 9))
    plan.decide(0, 4, 3, [])
    assert plan.decide(9, 4, 3, []) == Decision(start=1)


def test_a_cluster_that_does_not_join_in_time_is_drained_and_replaced() -> None:
    plan = Plan(Bounds(1, 4, start_seconds=30))
    late = cluster("late", 0)
    assert plan.decide(29, 0, 0, [late]) == NOTHING
    assert plan.decide(30, 0, 0, [late]) == Decision(start=1, drain=["late"])


def test_without_a_start_limit_a_queued_cluster_is_awaited_and_idle_ones_are_drained() -> None:
    plan = Plan(Bounds(1, 4, idle_seconds=10))
    waiting = cluster("waiting", 0)
    assert plan.decide(1e6, 0, 0, [waiting]) == NOTHING
    idle = [cluster("a"), cluster("b")]
    plan.decide(1e6, 2, 2, [waiting, *idle])
    assert plan.decide(1e6 + 10, 0, 2, [waiting, *idle]).drain == ["a"]


def test_a_cluster_that_has_joined_before_is_expected_to_reconnect() -> None:
    plan = Plan(Bounds(1, 4, start_seconds=30))
    assert plan.decide(0, 0, 1, [cluster("a")]) == NOTHING
    for now in (40, 100):
        assert plan.decide(now, 0, 0, [cluster("a", 0)]) == NOTHING


def test_the_longest_idle_clusters_are_drained_down_to_the_wanted_number() -> None:
    plan = Plan(Bounds(least=1, most=9, idle_seconds=10))
    a, b, c = cluster("a"), cluster("b"), cluster("c")
    plan.decide(0, 0, 3, [cluster("a", is_busy=True), b, c])
    plan.decide(5, 0, 3, [a, b, c])
    assert plan.decide(10, 2, 3, [a, b, c]).drain == ["b"]
    assert plan.decide(10, 0, 3, [a, b, c]).drain == ["b", "c"]
    assert plan.decide(15, 0, 1, [a]) == NOTHING, "the last one stays"


def test_a_task_restarts_the_idle_time_of_its_cluster() -> None:
    plan = Plan(Bounds(0, 9, idle_seconds=10))
    plan.decide(0, 0, 1, [cluster("a")])
    plan.decide(9, 1, 1, [cluster("a", is_busy=True)])
    assert plan.decide(11, 0, 1, [cluster("a")]) == NOTHING
    assert plan.decide(21, 0, 1, [cluster("a")]).drain == ["a"]


def test_no_cluster_is_drained_shortly_after_another_was_started() -> None:
    plan = Plan(Bounds(0, 9, each=2, idle_seconds=10))
    plan.decide(0, 0, 2, [cluster("a", 2)])
    assert plan.decide(20, 0, 2, [cluster("a", 2), cluster("b", 0, started_at=15)]) == NOTHING


def test_a_cluster_of_which_some_workers_are_needed_stays() -> None:
    plan = Plan(Bounds(least=1, most=9, idle_seconds=10))
    plan.decide(0, 0, 4, [cluster("a", 4)])
    assert plan.decide(20, 0, 4, [cluster("a", 4)]) == NOTHING
