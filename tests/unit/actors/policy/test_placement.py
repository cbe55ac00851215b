"""The policy: which worker gets which task, which tasks are refused, and when to decide again."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from scaler.actors.messages.monitor import Backlog
from scaler.actors.policy import LOOK_SECONDS, WORK_AHEAD_US, Placement
from scaler.actors.policy.decisions import Decisions
from scaler.actors.policy.fair_share import TURN_US
from scaler.actors.policy.placement import RANGE_MOST_US, make_policy
from scaler.actors.vocabulary.needs import Needs, Offer
from scaler.ids import ObjectId
from scaler.settings import SchedulerConfig
from scaler.settings.scheduler import FAIR, FIFO
from tests.support.configs import scheduler_config
from tests.support.ready import SHORT, Task, of_map, task

OF = [ObjectId(bytes([number]) * 16) for number in range(3)]


class Scene:
    """A policy that knows a short function."""

    def __init__(self, rules: SchedulerConfig | None = None) -> None:
        rules = rules or scheduler_config()
        self.policy: Placement = make_policy(rules)
        self.policy.join("nobody", 1, 0, 0, None)
        self.policy.freed("nobody", 0, 0, {SHORT: (2, 1)})
        self.policy.leave("nobody")

    def decide(self, *tasks: Task, now: float = 0.0) -> Decisions:
        if tasks:
            self.policy.ready(tasks)
        return self.policy.decide(now)

    def names(self, *tasks: Task) -> list[object]:
        return [ready.task for row in self.decide(*tasks).assigned.values() for ready, _ in row]


def test_the_policy_setting_determines_the_order() -> None:
    for policy, expected in ((FAIR, ["a", "c", "b"]), (FIFO, ["a", "b", "c"])):
        scene = Scene(scheduler_config(policy=policy))
        scene.policy = make_policy(scheduler_config(policy=policy))  # type: ignore[assignment]
        scene.policy.join("worker", 9, 0, 0, None)
        scene.policy.freed("worker", 0, 0, {SHORT: (TURN_US, 1)})
        assert scene.names(task("a"), task("b"), task("c", 1)) == expected


def test_an_assignment_names_the_worker_and_the_expected_work() -> None:
    scene = Scene()
    scene.policy.join("worker", 9, 0, 0, None)
    known, unknown = task("a"), task("b", function_id=task("c").spec.function_id[:-1] + b"x")
    assert scene.decide(known, unknown).assigned == {"worker": [(known, 2), (unknown, WORK_AHEAD_US)]}


def test_a_free_slot_without_waiting_tasks_needs_no_decision() -> None:
    scene = Scene()
    scene.policy.join("worker", 1, 0, 0, None)
    assert scene.names(task("a"), task("b")) == ["a"]
    assert scene.policy.freed("worker", 1, 2, {})
    assert scene.names() == ["b"]
    assert not scene.policy.freed("worker", 1, 2, {})
    assert scene.decide() == Decisions()


def test_a_worker_that_becomes_idle_beside_a_busy_one_needs_a_decision() -> None:
    scene = Scene()
    for worker in ("one", "two"):
        scene.policy.join(worker, 9, 0, 0, None)
    scene.decide(*map(task, range(4)))
    assert not scene.policy.freed("one", 1, 2, {})
    assert scene.policy.freed("one", 1, 2, {})
    assert scene.decide(now=5.0).look_at == pytest.approx(5.0 + LOOK_SECONDS)
    assert scene.decide(now=5.0 + LOOK_SECONDS).recalled == {"two": 1}


def test_a_waiting_task_can_be_withdrawn_with_and_without_a_limit() -> None:
    for rules in (scheduler_config(), scheduler_config(max_number_of_tasks_waiting=1)):
        scene = Scene(rules)
        scene.decide(task("a", 3))
        assert not scene.policy.withdraw("a", 0, 2)
        assert scene.policy.withdraw("a", 0, 3)
        assert not scene.policy.withdraw("a", 0, 3)
        assert scene.decide(task("b")).refused == []


def test_functions_of_recalled_tasks_count_as_unknown_until_one_task_has_ended() -> None:
    scene = Scene()
    scene.policy.join("worker", 9, 0, 0, None)
    scene.decide(task("a"), task("b"))
    scene.policy.recalled("worker", 1, 2, {SHORT})
    scene.policy.freed("worker", 1, 2, {})
    assert scene.names(task("b", goes_first=True), task("c")) == ["b"]
    scene.policy.freed("worker", 1, WORK_AHEAD_US, {SHORT: (2, 1)})
    assert scene.names() == ["c"]


def test_a_resumed_task_takes_its_slot_again() -> None:
    scene = Scene()
    scene.policy.join("worker", 1, 0, 0, None)
    assert scene.names(task("a")) == ["a"]
    scene.policy.freed("worker", 1, 2, {})
    scene.policy.resumed("worker", 1, 2)
    assert scene.names(task("b")) == []
    scene.policy.freed("worker", 1, 2, {})
    assert scene.names() == ["b"]


def test_after_a_restart_of_the_balancer_only_durations_are_known() -> None:
    scene = Scene(scheduler_config(max_number_of_tasks_waiting=5))
    scene.policy.join("worker", 9, 0, 0, None)
    scene.decide(task("a"))
    scene.policy.leave("worker")
    scene.decide(task("b"), task("c"))
    scene.policy.forget()
    assert scene.policy.statistics() == {"ready_tasks": 0, "workers": 0}
    scene.policy.join("worker", 9, 1, 2, None)
    assert scene.decide(task("b", attempt=2)).assigned == {"worker": [(task("b", attempt=2), 2)]}


def test_a_task_is_placed_near_its_data_if_a_worker_has_capacity() -> None:
    scene = Scene()
    scene.policy.join("here", 1, 0, 0, "host")
    scene.policy.join("there", 9, 0, 0, "other host")
    near = [task("a"), task("b")]
    for each in near:
        each.near_worker = "here"
    assert scene.decide(*near).assigned == {"here": [(near[0], 2)], "there": [(near[1], 2)]}


def test_a_refusal_gives_the_number_of_waiting_tasks_and_whether_the_task_had_waited() -> None:
    scene = Scene(scheduler_config(max_number_of_tasks_waiting=2))
    assert scene.decide(task("a"), task("b")).refused == []
    ((refused, sentence),) = scene.decide(task("c", 1)).refused
    assert refused.task == "b"
    assert "in favour of a client with fewer waiting tasks" in sentence
    assert "2 tasks wait" in sentence
    ((refused, sentence),) = scene.decide(task("d", 1)).refused
    assert refused.task == "d"
    assert "it waited" not in sentence


# Maps

TENTH_US = WORK_AHEAD_US // 10
MAPPED = ObjectId(b"m" * 16)


def map_of(count: int, account: int = 0, function_id: ObjectId = MAPPED) -> list[Task]:
    return [of_map(f"{account}-{number}", account, function_id) for number in range(count)]


def map_scene(*workers: str, rules: SchedulerConfig | None = None) -> Scene:
    """Return a policy whose workers know a function that takes a tenth of the work ahead."""
    scene = Scene(rules)
    for worker in workers:
        scene.policy.join(worker, 1000, 0, 0, worker)
    scene.policy.freed("nobody", 0, 0, {MAPPED: (TENTH_US, 1)})
    return scene


def counts(decisions: Decisions) -> dict[str, int]:
    return {worker: len(tasks) for worker, tasks in decisions.assigned.items()}


@pytest.mark.parametrize(
    "waiting",
    [
        map_of(1000),
        [task(str(number), function_id=MAPPED) for number in range(1000)],
        [of_map(str(number), function_id=MAPPED, options=b"retries") for number in range(1000)],
        [of_map(str(number), function_id=MAPPED, priority=1) for number in range(1000)],
        [*map_of(500), *map_of(500, account=1)],
        map_of(1000, function_id=ObjectId(b"?" * 16)),
    ],
)
def test_workers_get_no_more_than_the_work_ahead(waiting: list[Task]) -> None:
    decisions = map_scene("one", "two").decide(*waiting)
    for tasks in decisions.assigned.values():
        assert sum(expected_us for _, expected_us in tasks) == WORK_AHEAD_US


def test_tasks_recalled_from_behind_a_long_task_are_still_of_an_unknown_function() -> None:
    scene = map_scene("one")
    scene.decide(*map_of(1000))
    scene.policy.recalled("one", 9, 9 * TENTH_US, {MAPPED})
    assert counts(scene.decide()) == {"one": 1}


def waiting_by_function(policy: Placement) -> dict[ObjectId, int]:
    backlog = Backlog()
    policy.report_backlog(backlog, functions=True)
    return dict(sum((Counter(group.functions) for group in backlog.groups), Counter()))


def test_all_waiting_tasks_are_counted_by_function_however_many_wait() -> None:
    """Each of two clients has 30,000 waiting tasks of a function of its own."""
    policy: Placement = make_policy(scheduler_config(policy=FAIR))
    policy.ready([task((account, n), account, function_id=OF[account]) for account in (0, 1) for n in range(30_000)])
    assert waiting_by_function(policy) == {OF[0]: 30_000, OF[1]: 30_000}
    policy.join("w", 2)
    policy.decide(0.0)
    policy.ready([task("late", 1, function_id=OF[2])])
    assert policy.withdraw((0, 29_999), 0, 0)
    counts = waiting_by_function(policy)
    assert (sum(counts.values()), counts[OF[2]]) == (policy.statistics()["ready_tasks"], 1)
    assert counts[OF[0]] + counts[OF[1]] == 59_998


@pytest.mark.parametrize("name", [FAIR, FIFO])
def test_the_counts_by_function_stay_exact_whatever_happens(name: str) -> None:
    chance = random.Random(7)
    policy: Placement = make_policy(scheduler_config(policy=name, max_number_of_tasks_waiting=60))
    accounts, looks = [0], 0
    for step in range(1500):
        for _ in range(chance.randrange(4)):
            accounts.append(chance.randrange(3))
            made = task(
                len(accounts) - 1, accounts[-1], function_id=chance.choice(OF), goes_first=chance.random() < 0.2
            )
            if chance.random() < 0.3:
                policy.ready_constrained([replace(made, needs=Needs((("gpu", 1),), chance.choice((0, 5))))])
            else:
                policy.ready([made])
        number = chance.randrange(3)
        if chance.random() < 0.2:
            policy.join(f"w{number}", 3, host=f"h{number}", offer=Offer((("gpu", number),), 1))
        if chance.random() < 0.1:
            policy.leave(f"w{number}")
        policy.freed(f"w{number}", 1, 10**9, {})
        policy.amounts_changed(f"w{number}", ((Needs((("gpu", 1),)), -1),), is_unsure=False)
        withdrawn = max(0, len(accounts) - 1 - chance.randrange(5))
        policy.withdraw(withdrawn, 0, accounts[withdrawn])
        policy.decide(float(step))
        if chance.random() < 0.3:
            looks += 1
            waiting = [*policy._queue, *policy._constrained]
            assert waiting_by_function(policy) == Counter(ready.spec.function_id for ready in waiting)
        if chance.random() < 0.01:
            policy.report_backlog(Backlog(), functions=False)
            assert policy._functions is None
    assert looks > 300


def test_a_task_reported_ready_twice_is_counted_once() -> None:
    policy: Placement = make_policy(scheduler_config())
    assert waiting_by_function(policy) == {}
    policy.ready([task("a"), task("b")])
    policy.ready([task("a", attempt=2)])
    assert waiting_by_function(policy) == {SHORT: 2}


def test_rows_of_a_range_count_at_workers_and_while_they_wait() -> None:
    scene = Scene()
    scene.policy.join("worker", 100, 0, 0, None)
    scene.policy.report_backlog(Backlog(), functions=True)
    first, second = of_map("first", rows=60), of_map("second", rows=30)
    assert scene.decide(first, second, task("one")).assigned == {
        "worker": [(first, 120), (second, 60), (task("one"), 2)]
    }
    assert scene.policy.capacity(None).tasks == 91
    wide = of_map("wide", rows=50)
    assert not scene.decide(wide).assigned, "the queue of the worker has capacity for 9 more tasks"
    backlog = Backlog()
    scene.policy.report_backlog(backlog, functions=True)
    assert (backlog.waiting, backlog.running) == (50, 91)
    assert dict(backlog.groups[0].functions) == {SHORT: 50}
    assert scene.policy.statistics()["ready_tasks"] == 50
    scene.policy.freed("worker", 60, 120, {})
    assert scene.decide().assigned == {"worker": [(wide, 100)]}
    assert scene.policy.capacity(None).tasks == 81


def test_a_range_that_does_not_fit_keeps_its_turn() -> None:
    scene = Scene()
    scene.policy.join("worker", 10, 8, 16, None)
    wide = of_map("wide", rows=4)
    assert not scene.decide(wide, task("other", 1)).assigned
    scene.policy.freed("worker", 1, 2, {})
    assert not scene.decide().assigned, "if short tasks of other clients took each place, it would never fit"
    scene.policy.freed("worker", 1, 2, {})
    assert scene.names() == ["wide"]
    scene.policy.freed("worker", 1, 2, {})
    assert scene.names() == ["other"]


@pytest.mark.parametrize("known_us", [0, 2 * RANGE_MOST_US])
def test_a_range_longer_than_a_turn_or_of_an_unknown_function_is_split(known_us: int) -> None:
    scene = Scene()
    scene.policy.join("worker", 100, 0, 0, None)
    if known_us:
        scene.policy.freed("worker", 0, 0, {MAPPED: (known_us, 1)})
    ranges = [of_map(number, rows=4, function_id=MAPPED) for number in range(3)]
    decisions = scene.decide(*ranges)
    assert (decisions.too_long, decisions.assigned) == (ranges[:1], {})
    rows = [of_map((0, row), function_id=MAPPED) for row in range(4)]
    for row in rows:
        row.goes_first = True
    decisions = scene.decide(*rows)
    assert not decisions.too_long, "rows are placed before other ranges"
    assert [ready for ready, _ in decisions.assigned["worker"]][:1] == rows[:1]


def test_an_awaited_task_is_placed_at_a_paused_worker_if_no_other_has_capacity() -> None:
    scene = Scene(scheduler_config(max_number_of_tasks_waiting=9))
    for worker, host in (("one", "full"), ("two", "full"), ("busy", "other")):
        scene.policy.join(worker, 1, 1, WORK_AHEAD_US, host)
    waiting = task("a"), task("b")
    scene.decide(*waiting)
    assert scene.policy.take_wanted("b", 0, 0) is None
    scene.policy.held("full", 1)
    scene.policy.held("gone", 1)
    assert scene.policy.take_wanted("b", 1, 0) is None
    assert scene.policy.take_wanted("b", 0, 0) == ("one", waiting[1])
    scene.policy.resumed("one", 1, 0)
    assert scene.policy.take_wanted("b", 0, 0) is None
    assert scene.policy.take_wanted("a", 0, 0) == ("two", waiting[0])
    scene.decide(task("c"))
    scene.policy.freed("two", 1, 2, {})  # it has a free place, but its results take more memory
    assert scene.policy.take_wanted("c", 0, 0) == ("two", task("c"))
    scene.policy.freed("busy", 1, 2, {})
    scene.policy.ready([task("d")])
    assert scene.policy.take_wanted("d", 0, 0) is None
    assert scene.names() == ["d"]
