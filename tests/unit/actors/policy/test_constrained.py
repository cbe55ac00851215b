"""Tasks that request resources: where they are placed, which tasks they delay, and when they are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaler.actors.messages.monitor import Backlog
from scaler.actors.policy import WORK_AHEAD_US, Placement, constrained, make_policy
from scaler.actors.policy.constrained import ClassTurns, ResourceClass
from scaler.actors.policy.decisions import Decisions
from scaler.actors.policy.fair_share import FairShare
from scaler.actors.vocabulary.needs import Needs, Offer
from scaler.ids import ObjectId
from scaler.settings import SchedulerConfig
from scaler.settings.scheduler import FAIR, FIFO
from tests.support.configs import scheduler_config
from tests.support.ready import SHORT, Task, of_map, task

GPU, TWO, THERE = Needs((("gpu", 1),)), Needs((("gpu", 2),)), Needs((("gpu", 0),))
NOWHERE = Needs((("tpu", 1),))
LONG_US = WORK_AHEAD_US


class Scene:
    """A policy with nodes and their workers."""

    def __init__(self, policy: str = FAIR, rules: SchedulerConfig | None = None) -> None:
        self.policy: Placement = make_policy(rules or scheduler_config(policy=policy))

    def node(self, host: str, workers: int, queue_size: int = 1000, named_only: bool = False, **amounts: int) -> None:
        offer = Offer(tuple(sorted(amounts.items())), workers, named_only)
        for number in range(workers):
            self.policy.join(f"{host}{number}", queue_size, 0, 0, host, offer)

    def constrained(self, needs: Needs, *tasks: Task) -> None:
        self.policy.ready_constrained([replace(each, needs=needs) for each in tasks])

    def decide(self, now: float = 0.0) -> Decisions:
        return self.policy.decide(now)

    def placed(self) -> dict[Any, str]:
        """Return the workers of the tasks that were placed."""
        assigned = self.decide().assigned
        return {ready.task: worker for worker, tasks in assigned.items() for ready, _ in tasks}

    def end(self, worker: str, needs: Needs | None = GPU) -> None:
        if needs is not None:
            self.policy.amounts_changed(worker, ((needs, -1),), is_unsure=False)
        self.policy.freed(worker, 1, LONG_US, {})

    def waiting(self) -> int:
        return self.policy.statistics()["ready_tasks"]


@pytest.fixture(params=[FAIR, FIFO])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


def test_a_task_is_placed_on_a_node_with_the_resources_that_it_requests(scene: Scene) -> None:
    scene.node("plain", 2)
    scene.node("big", 2, gpu=2)
    scene.constrained(GPU, task("a"), task("b"), task("c"))
    decisions = scene.decide()
    assert set(decisions.assigned) == {"big0", "big1"}
    assert [ready.needs for row in decisions.assigned.values() for ready, _ in row] == [GPU, GPU]
    assert scene.waiting() == 1
    scene.end("big1")
    assert scene.placed() == {"c": "big1"}


def test_resources_of_a_task_are_free_again_when_it_has_ended(scene: Scene) -> None:
    scene.node("big", 3, gpu=1)
    scene.constrained(GPU, task("a"), task("b"))
    (first,) = scene.placed().values()
    assert scene.placed() == {}
    assert scene.policy.freed(first, 1, LONG_US, {})
    assert scene.placed() == {}
    assert scene.policy.amounts_changed(first, ((GPU, -1),), is_unsure=False)
    assert list(scene.placed()) == ["b"]


def test_tasks_that_no_worker_can_take_do_not_delay_other_tasks(scene: Scene) -> None:
    scene.node("big", 2, gpu=1)
    scene.constrained(NOWHERE, *map(task, range(50)))
    scene.constrained(TWO, task("two"))
    scene.policy.ready([task("plain")])
    scene.constrained(GPU, task("gpu"))
    assert set(scene.placed()) == {"plain", "gpu"}
    assert scene.waiting() == 51
    scene.node("later", 1, tpu=1)
    assert list(scene.placed()) == [0]


def test_a_resource_requested_with_amount_zero_is_not_used_up() -> None:
    scene = Scene()
    scene.node("plain", 5)
    scene.node("big", 3, gpu=1)
    scene.constrained(THERE, *map(task, range(4)))
    assert set(scene.placed().values()) == {"big0", "big1", "big2"}


def test_tasks_with_resource_requests_are_spread_over_the_nodes() -> None:
    scene = Scene()
    for host in ("a", "b", "c"):
        scene.node(host, 2, gpu=9)
    scene.policy.freed("a0", 0, 0, {SHORT: (2, 1)})
    scene.constrained(GPU, *map(task, range(3)))
    assert sorted(worker[0] for worker in scene.placed().values()) == ["a", "b", "c"]


def test_a_task_runs_on_the_node_with_its_data_if_it_fits_there() -> None:
    scene = Scene()
    for host in ("a", "b", "c"):
        scene.node(host, 2, gpu=1)
    near = [task(number) for number in range(2)]
    for each in near:
        each.near_worker = "c1"
    scene.constrained(GPU, *near)
    placed = scene.placed()
    assert placed[0][0] == "c"
    assert placed[1][0] != "c"


def test_tasks_with_and_without_resource_requests_take_turns_at_one_worker(scene: Scene) -> None:
    scene.node("big", 1, gpu=1)
    scene.constrained(GPU, *(task(f"gpu{number}") for number in range(3)))
    scene.policy.ready([task(f"plain{number}") for number in range(3)])
    order = []
    for _ in range(6):
        ((name, worker),) = scene.placed().items()
        order.append(str(name))
        scene.end(worker, GPU if "gpu" in str(name) else None)
    assert [name[:3] for name in order] in (["gpu", "pla"] * 3, ["pla", "gpu"] * 3)
    assert sorted(order) == [f"gpu{n}" for n in range(3)] + [f"plain{n}" for n in range(3)]


def test_tasks_of_one_client_run_by_priority_whatever_they_request(scene: Scene) -> None:
    scene.node("big", 1, gpu=1)
    scene.constrained(GPU, task("parent"), task("parent 2"))
    scene.policy.ready([task("child", priority=5), task("child 2", priority=5)])
    order = []
    for _ in range(4):
        ((name, worker),) = scene.placed().items()
        order.append(name)
        scene.end(worker, GPU if "parent" in str(name) else None)
    assert order == ["child", "child 2", "parent", "parent 2"]


def test_clients_take_turns_among_tasks_with_equal_resource_requests() -> None:
    scene = Scene(FAIR)
    scene.node("big", 1, gpu=1)
    scene.constrained(GPU, *(task(f"many{number}", account=1) for number in range(9)), task("one", account=2))
    order = []
    for _ in range(3):
        ((name, worker),) = scene.placed().items()
        order.append(name)
        scene.end(worker)
    assert "one" in order[:2]


def test_a_withdrawn_task_is_removed_and_a_task_reported_twice_waits_once(scene: Scene) -> None:
    scene.constrained(GPU, task("a"), task("b"))
    scene.constrained(GPU, task("a", attempt=2))
    assert scene.waiting() == 2
    assert scene.policy.withdraw("a", 0, 0)
    assert not scene.policy.withdraw("a", 0, 0)
    scene.node("big", 2, gpu=2)
    assert list(scene.placed()) == ["b"]


def test_a_node_with_unknown_runs_gets_no_task_that_requests_resources(scene: Scene) -> None:
    offer = Offer((("gpu", 1),), 2)
    scene.policy.join("one", 9, 1, LONG_US, "big", offer, (), is_unsure=True)
    scene.policy.join("two", 9, 0, 0, "big", offer)
    scene.constrained(GPU, task("a"))
    scene.policy.ready([task("plain")])
    assert scene.placed() == {"plain": "two"}
    scene.policy.freed("two", 1, LONG_US, {})
    assert scene.policy.amounts_changed("one", ((GPU, 1),), is_unsure=False)
    assert scene.placed() == {}
    assert scene.policy.amounts_changed("one", ((GPU, -1),), is_unsure=False)
    assert scene.placed() == {"a": "two"}


def test_a_worker_that_joins_again_reports_the_resources_of_its_runs(scene: Scene) -> None:
    scene.node("big", 1, gpu=1)
    scene.constrained(GPU, task("a"), task("b"))
    assert list(scene.placed()) == ["a"]
    scene.policy.leave("big0")
    scene.policy.join("big0", 9, 0, 0, "big", Offer((("gpu", 1),), 1), ((GPU, 1),))
    assert scene.placed() == {}
    scene.end("big0")
    assert list(scene.placed()) == ["b"]


def test_after_a_restart_of_the_balancer_no_resources_are_taken(scene: Scene) -> None:
    scene.node("big", 1, gpu=1)
    scene.constrained(GPU, task("a"), task("b"))
    scene.placed()
    scene.policy.forget()
    assert scene.waiting() == 0
    assert not scene.policy.amounts_changed("big0", ((GPU, -1),), is_unsure=False)
    scene.node("big", 1, gpu=1)
    scene.constrained(GPU, task("c"))
    assert list(scene.placed()) == ["c"]


# Tasks with limited patience


def test_a_task_is_refused_if_no_worker_could_take_it_for_its_patience(scene: Scene) -> None:
    needs = Needs((("gpu", 2),), 2_000)
    scene.node("small", 1, gpu=1)
    scene.constrained(needs, task("a"))
    assert scene.decide(10.0).look_at == 12.0
    assert scene.decide(11.9).refused == []
    ((refused, sentence),) = scene.decide(12.0).refused
    assert refused.task == "a"
    assert sentence == (
        "the task was refused: for 2 s no worker was connected that could take it; it asks for gpu=2, and no worker is "
        "on a machine with gpu=2 (the most on one machine: gpu=1); start one with scaler_cluster ADDRESS "
        "--capabilities gpu=2"
    )
    assert scene.waiting() == 0
    assert scene.decide(13.0) == Decisions()


def test_a_task_that_a_connected_worker_could_take_waits_without_limit(scene: Scene) -> None:
    needs = Needs((("gpu", 1),), 2_000)
    scene.node("big", 1, gpu=1)
    scene.constrained(needs, task("a"), task("b"))
    assert list(scene.placed()) == ["a"]
    for now in (5.0, 50.0):
        decisions = scene.decide(now)
        assert (decisions.refused, decisions.look_at) == ([], None)
    assert scene.policy.leave("big0")
    assert scene.decide(60.0).look_at == 62.0
    scene.node("big", 1, gpu=1)
    assert list(scene.decide(61.9).assigned) == ["big0"]
    scene.constrained(needs, task("c"))
    assert scene.policy.leave("big0")
    assert scene.decide(70.0).look_at == 72.0  # from now, not from the last time
    ((_, sentence),) = scene.decide(72.0).refused
    assert "no worker is connected to the scheduler" in sentence


def test_the_newest_of_too_many_waiting_tasks_is_refused_whatever_it_requests() -> None:
    scene = Scene(FIFO, scheduler_config(max_number_of_tasks_waiting=1, policy=FIFO))
    scene.node("big", 1, 1, gpu=1)
    scene.constrained(GPU, task("a"))
    assert list(scene.placed()) == ["a"]
    scene.constrained(GPU, task("b"), task("c"))
    decisions = scene.decide()
    assert [(ready.task, sentence[:20]) for ready, sentence in decisions.refused] == [("c", "the task was refused")]
    scene.constrained(Needs(GPU.amounts, 1000), task("d"))
    assert [ready.task for ready, _ in scene.decide().refused] == ["d"]
    assert scene.waiting() == 1


def test_resource_classes_are_limited_and_classes_without_waiting_tasks_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constrained, "CLASSES_MOST", 2)
    scene = Scene()
    for number in range(3):
        scene.constrained(Needs((("gpu", number),), 60_000), task(number))
    ((refused, sentence),) = scene.decide().refused
    assert refused.task == 2
    assert "wait (2)" in sentence
    assert scene.policy.withdraw(0, 0, 0)
    scene.constrained(Needs((("gpu", 2),)), task("again"))
    assert scene.decide().refused == []
    assert scene.waiting() == 2


# Reports and limits


def test_the_capacity_for_a_request_names_missing_or_taken_resources() -> None:
    scene = Scene()
    room = scene.policy.capacity(GPU)
    assert (room.workers, room.able) == (0, 0)
    scene.node("plain", 2)
    room = scene.policy.capacity(NOWHERE)
    assert "no worker is on a machine with tpu=1 (no machine has any)" in room.missing
    assert (scene.policy.capacity(None).asked, scene.policy.capacity(None).missing) == ("", "")
    scene.node("big", 3, gpu=1)
    scene.node("other", 1, ssd=1)
    room = scene.policy.capacity(Needs((("gpu", 1), ("ssd", 1))))
    assert "with all of that (each is on some machine, and no machine has all)" in room.missing
    room = scene.policy.capacity(GPU)
    assert (room.asked, room.able, room.has_free, room.missing) == ("gpu=1", 3, True, "")
    scene.constrained(GPU, task("a"))
    scene.placed()
    assert not scene.policy.capacity(GPU).has_free


def test_waiting_tasks_with_resource_requests_are_counted_by_account_and_group() -> None:
    scene = Scene(FAIR)
    scene.policy.ready([task("plain", account=1)])
    scene.constrained(GPU, task("a", account=1), task("b", account=2))
    scene.constrained(NOWHERE, task("c", account=2))
    backlog = Backlog()
    scene.policy.report_backlog(backlog, functions=True)
    assert (backlog.waiting, backlog.accounts) == (4, {1: 2, 2: 2})
    assert [(each.asks, each.waiting, each.functions) for each in backlog.groups] == [
        ("", 1, {SHORT: 1}),
        ("gpu=1", 2, {SHORT: 2}),
        ("tpu=1", 1, {SHORT: 1}),
    ]


def test_nodes_that_left_and_ended_tasks_leave_no_entries() -> None:
    scene = Scene()
    for number in range(5):
        scene.node(f"host{number}-", 1, gpu=1)
        scene.constrained(GPU, task(number))
        scene.placed()
        scene.end(f"host{number}-0")
        scene.policy.leave(f"host{number}-0")
    queue = scene.policy._constrained
    assert (queue.waiting, queue._changed, list(queue._nodes.hosts())) == ({}, {}, [])
    assert [dict(resource_class.may_fit) for resource_class in queue.classes.values()] == [{}]


def test_the_backlog_reports_waiting_running_and_duration_by_group(scene: Scene) -> None:
    def asked() -> dict[str, tuple[int, int, int]]:
        backlog = Backlog()
        scene.policy.report_backlog(backlog, functions=False)
        return {
            each.asks: (each.waiting, each.running, int(each.known_us(each.last_function or SHORT)))
            for each in backlog.groups[1:]
        }

    assert asked() == {}
    scene.node("big", 4, gpu=2)
    scene.constrained(GPU, task("a"), task("b"), task("c"))
    scene.constrained(Needs((("gpu", 1),), patience_ms=9), task("d"))
    scene.constrained(NOWHERE, task("e"))
    scene.constrained(Needs(worker="big0"), task("f"))
    assert asked() == {"gpu=1": (4, 0, 0), "tpu=1": (1, 0, 0)}
    scene.decide()
    assert asked() == {"gpu=1": (2, 2, 0), "tpu=1": (1, 0, 0)}
    scene.policy.freed("big0", 1, LONG_US, {SHORT: (3000, 1)})
    assert asked()["gpu=1"] == (2, 2, 3000)
    for worker in ("big0", "big1", "big2", "big3"):
        scene.policy.leave(worker)
    assert asked()["gpu=1"] == (2, 0, 3000)


CALL_AREA = Needs((("call:area", 0),))
AREA = {"call:area": 1}


def test_a_worker_for_named_calls_only_gets_no_other_tasks(scene: Scene) -> None:
    scene.node("other", 2, named_only=True, gpu=1, **AREA)
    scene.policy.ready([task("plain")])
    scene.constrained(GPU, task("gpu"))
    scene.constrained(CALL_AREA, task("call"))
    (worker,) = (placed := scene.placed()).values()
    assert (set(placed), worker[:-1]) == ({"call"}, "other")
    assert scene.waiting() == 2
    scene.node("python", 2, gpu=1)
    assert {call: worker[:-1] for call, worker in scene.placed().items()} == {"plain": "python", "gpu": "python"}


def test_named_calls_are_placed_only_at_workers_that_serve_them_in_any_language(scene: Scene) -> None:
    scene.node("python", 1)
    scene.constrained(CALL_AREA, *map(task, range(4)))
    assert scene.placed() == {}
    scene.node("serves", 1, queue_size=1, **AREA)
    scene.node("other", 1, queue_size=1, named_only=True, **AREA)
    assert set(scene.placed().values()) == {"serves0", "other0"}
    scene.end("other0", CALL_AREA)
    assert set(scene.placed().values()) == {"other0"}


def test_named_calls_and_other_tasks_are_placed_independently_of_each_other(scene: Scene) -> None:
    scene.node("python", 1, queue_size=1)
    scene.node("other", 1, queue_size=1, named_only=True, **AREA)
    scene.policy.ready([task(number) for number in range(3)])
    scene.constrained(CALL_AREA, task("a"), task("b"))
    assert scene.placed() == {0: "python0", "a": "other0"}
    scene.end("other0", CALL_AREA)
    assert scene.placed() == {"b": "other0"}
    scene.end("python0", None)
    assert scene.placed() == {1: "python0"}
    assert scene.policy.statistics() == {"ready_tasks": 1, "workers": 2}
    scene.policy.leave("other0")
    scene.end("python0", None)
    assert scene.placed() == {2: "python0"}
    assert scene.policy.statistics() == {"ready_tasks": 0, "workers": 1}


def test_named_calls_behind_a_long_call_move_to_an_idle_worker_that_serves_them() -> None:
    scene = Scene(rules=scheduler_config(load_balance_trigger_times=1, load_balance_seconds=1))
    scene.node("other", 1, named_only=True, **AREA)
    scene.policy.freed("other0", 0, 0, {SHORT: (1, 1)})
    scene.constrained(CALL_AREA, *map(task, range(4)))
    assert set(scene.placed().values()) == {"other0"}
    scene.node("more", 1, named_only=True, **AREA)
    assert scene.decide(5.0).recalled == {"other0": 2}


def test_the_capacity_for_a_call_names_the_function_that_no_worker_serves(scene: Scene) -> None:
    scene.node("python", 1)
    scene.constrained(CALL_AREA, task("call"))
    assert scene.placed() == {}
    room = scene.policy.capacity(CALL_AREA)
    assert "no connected worker serves the function area" in room.missing
    assert "--functions area=MODULE:FUNCTION" in room.missing
    scene.node("other", 2, named_only=True, **AREA)
    room = scene.policy.capacity(CALL_AREA)
    assert (room.missing, room.able, room.workers) == ("", 2, 3)


def kind_of(name: str, *tasks: Task) -> ResourceClass:
    resource_class: ResourceClass = ResourceClass(Needs(((name, 1),)), FairShare())
    resource_class.queue.put(tasks)
    return resource_class


def play(turns: ClassTurns, classes: list[ResourceClass], steps: int) -> list[object]:
    names = []
    for _ in range(steps):
        resource_class = turns.next(classes)
        names.append(next(resource_class.queue.drain()).task)
        turns.note_turn(resource_class)
        classes = [each for each in classes if each.queue]
    return names


def test_resource_classes_take_turns_and_a_new_class_gets_no_precedence() -> None:
    plain: FairShare = FairShare()
    plain.put(task(f"plain{number}") for number in range(9))
    turns = ClassTurns(plain)
    one, two = (kind_of(name, *(task(f"{name}{number}") for number in range(9))) for name in ("one", "two"))
    first = [str(name)[:3] for name in play(turns, [one], 4)]
    assert first in (["pla", "one"] * 2, ["one", "pla"] * 2)
    then = [str(name)[:3] for name in play(turns, [one, two], 6)]
    assert sorted(then) == ["one"] * 2 + ["pla"] * 2 + ["two"] * 2


def test_a_resource_class_yields_to_a_greater_priority_of_its_account_in_another_class() -> None:
    turns: ClassTurns = ClassTurns(FairShare())
    shallow, deep = kind_of("shallow", task("s", 1), task("other", 2)), kind_of("deep", task("d", 1, 5))
    assert play(turns, [shallow, deep], 3) == ["d", "other", "s"]


def test_two_resource_classes_that_yield_to_each_other_are_both_taken() -> None:
    turns: ClassTurns = ClassTurns(FairShare())
    one = kind_of("one", task("a", 1, 0), task("b", 2, 5))
    two = kind_of("two", task("c", 2, 0), task("d", 1, 5))
    assert len(set(play(turns, [one, two], 4))) == 4


def test_ranges_are_placed_and_split_while_tasks_with_resource_requests_wait(scene: Scene) -> None:
    scene.node("plain", 1, queue_size=10)
    scene.node("big", 1, gpu=1)
    scene.policy.leave("big0")
    scene.policy.freed("plain0", 0, 0, {SHORT: (2, 1)})
    scene.constrained(GPU, task("gpu"))  # it waits for a node
    scene.policy.ready([of_map("first", rows=7), of_map("wide", rows=7), task("behind")])
    assert scene.placed() == {"first": "plain0"}, "no worker's queue has capacity for seven more rows"
    assert scene.placed() == {}
    scene.policy.freed("plain0", 7, 14, {})
    assert scene.placed() == {"wide": "plain0", "behind": "plain0"}
    scene.policy.freed("plain0", 8, 16, {})
    long = of_map("long", rows=7, function_id=ObjectId(b"l" * 16))
    scene.policy.ready([long, task("behind")])
    decisions = scene.decide()
    assert (decisions.too_long, decisions.assigned) == ([long], {})


def test_a_range_that_does_not_fit_is_not_overtaken_forever_by_small_tasks() -> None:
    scene = Scene(FIFO)
    scene.node("big", 1, queue_size=10, gpu=1)
    scene.policy.freed("big0", 0, 0, {SHORT: (2, 1)})
    scene.policy.ready([of_map(number, rows=8) for number in range(2)])
    scene.constrained(THERE, *map(task, "abcdefgh"))
    assert scene.placed() == {0: "big0", "a": "big0"}
    for _ in range(3):
        assert scene.placed() == {}, "the other range has its turn, and waits for capacity"
    scene.policy.freed("big0", 8, 16, {})
    assert scene.placed() == {1: "big0", "b": "big0"}
