"""The topic `functions`: whatever is not shown is in the item of all others, so that no number is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from scaler.actors.messages.monitor import Backlog
from scaler.actors.monitor.functions import FunctionTotals
from scaler.actors.objects.object_table import ObjectTable, StoredObject
from scaler.actors.vocabulary.capacity import Capacity, ResourceGroup
from scaler.actors.vocabulary.events import Events
from scaler.ids import ObjectId, public_id
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.monitor import FUNCTION_ROW, StateFunction
from scaler.wire.messages.worker import AgentState

CAPACITY = Capacity(2, 0, 2)


def function(number: int) -> ObjectId:
    return ObjectId(b"%16d" % number)


def short(number: int) -> bytes:
    return public_id(function(number))


def report(short_id: bytes, *durations_us: int, here: int = 0) -> AgentState:
    buckets = [0] * 32
    for duration_us in durations_us:
        buckets[duration_us.bit_length()] += 1
    ends = (sum(durations_us), min(durations_us, default=0), max(durations_us, default=0))
    return AgentState(functions=FUNCTION_ROW.pack(short_id, here, *ends, *buckets))


def group(functions: Mapping[ObjectId, int], asks: str = "") -> ResourceGroup:
    return ResourceGroup(asks, sum(functions.values()), 0, 2, CAPACITY, functions, lambda _: 0.0, None)


class Scene:
    def __init__(self) -> None:
        self.table = ObjectTable()
        self.events = Events(self.table.function_name)
        self.functions = FunctionTotals(self.table, self.events)

    def store(self, *numbers: int) -> None:
        for number in numbers:
            self.table.functions[function(number)] = StoredObject(f"f{number}", (), True)

    def remove(self, *numbers: int) -> None:
        for number in numbers:
            self.table.remove_function(function(number))

    def end(self, number: int, *statuses: TaskStatus) -> None:
        for status in statuses:
            self.events.ended_of.count(function(number), status)

    def items(self, waiting: Iterable[ResourceGroup] = ()) -> dict[str, StateFunction]:
        items, _ = self.functions.items(Backlog(groups=list(waiting)))
        return {each.name or each.function.hex(): each for each in items}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr("scaler.actors.monitor.functions.SHOWN_MOST", 2)
    return Scene()


def test_every_end_that_is_neither_success_nor_cancel_counts_as_failed(scene: Scene) -> None:
    scene.store(1)
    scene.end(1, *TaskStatus)
    item = scene.items()["f1"]
    assert (item.success, item.failed, item.canceled) == (1, len(TaskStatus) - 2, 1)


def test_runs_are_counted_apart_from_tasks(scene: Scene) -> None:
    scene.store(1)
    scene.functions.add(report(short(1), 100, 300))
    scene.functions.add(report(short(1), 200))
    scene.end(1, TaskStatus.SUCCESS)
    item = scene.items()["f1"]
    assert (item.success, item.runs, item.run_us, item.least_us, item.most_us) == (1, 3, 600, 100, 300)


def test_functions_with_open_tasks_are_shown_first_then_those_that_took_the_most_time(scene: Scene) -> None:
    scene.store(*range(6))
    for number in range(6):
        scene.end(number, TaskStatus.SUCCESS)
        scene.functions.add(report(short(number), 10 + number))
    assert list(scene.items()) == ["f5", "f4", ""]
    assert list(scene.items([group({function(2): 7})])) == ["f2", "f5", ""]
    scene.functions.see_running([report(short(1), here=3)])
    assert list(scene.items([group({function(2): 2, function(0): 1})])) == ["f1", "f2", ""]


def test_the_order_by_time_is_exact_in_whatever_order_runs_are_reported(scene: Scene) -> None:
    scene.store(*range(30))
    totals = dict.fromkeys(range(30), 0)
    for step in range(300):
        number = step * step % 30
        duration_us = 1 + step * 7919 % 1000
        totals[number] += duration_us
        scene.end(number, TaskStatus.SUCCESS)
        scene.functions.add(report(short(number), duration_us))
        shown = [each.run_us for each in scene.items().values() if each.function]
        assert shown == sorted(totals.values(), reverse=True)[: len(shown)]


def test_what_is_not_shown_is_in_the_item_of_all_others(scene: Scene) -> None:
    scene.store(*range(9))
    for number in range(9):
        scene.end(number, TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.CANCELED)
        scene.functions.add(report(short(number), 1000 * (10 - number), 4))
    scene.functions.add(report(bytes(8), 5_000))  # the row of an agent with too many functions
    scene.functions.see_running([report(short(8), here=1), report(bytes(8), here=2)])
    groups = [group({function(number): 10 - number for number in range(5)}), group({function(0): 3}, "gpu=1")]
    items, total = scene.functions.items(Backlog(groups=groups))
    assert total == 9
    assert [each.name for each in items] == ["f0", "f1", ""]
    sums = {field: sum(getattr(each, field) for each in items) for field in ("success", "failed", "canceled", "runs")}
    assert sums == {"success": 9, "failed": 9, "canceled": 9, "runs": 19}
    assert (sum(each.waiting for each in items), sum(each.running for each in items)) == (43, 3)
    assert sum(each.run_us for each in items) == 54_036 + 5_000
    rest = items[-1]
    assert (rest.waiting, rest.running, rest.waits_for) == (21, 3, "no room")
    assert rest.least_us == 4
    assert 8_000 <= rest.most_us <= 10_000, "it is at most the longest run of all functions"


def test_a_function_waits_for_what_most_of_its_tasks_wait_for(scene: Scene) -> None:
    scene.store(1)
    item = scene.items([group({function(1): 3}), group({function(1): 5}, "gpu=1")])["f1"]
    assert (item.waiting, item.asks) == (8, "gpu=1")


def test_a_function_keeps_its_name_when_it_is_removed(scene: Scene) -> None:
    scene.store(1, 2)
    scene.end(1, TaskStatus.SUCCESS)
    scene.items([group({function(2): 1})])  # it waits, and no task of it has ended
    scene.remove(1, 2)
    assert set(scene.items([group({function(2): 1})])) == {"f1", "f2"}


def test_a_running_function_has_a_name_before_any_of_its_tasks_has_ended(scene: Scene) -> None:
    scene.functions.see_running([report(short(1), here=1)])
    assert scene.functions.name_of(short(1)) == ""
    scene.store(1)
    assert set(scene.items()) == {"f1"}


def test_the_head_counts_all_functions(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.vocabulary.function_ends.FUNCTIONS_MOST", 4)
    scene.store(*range(12))
    for number in range(10):
        scene.end(number, TaskStatus.SUCCESS)
    items, total = scene.functions.items(Backlog(groups=[group({function(10): 1, function(11): 1})]))
    assert total == 12
    assert len(items) == 3
    assert sum(each.success for each in items) == 10


def test_the_runs_of_very_many_functions_take_bounded_memory(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.monitor.functions.FUNCTIONS_MOST", 5)
    scene.store(*range(40))
    for number in range(40):
        scene.end(number, TaskStatus.SUCCESS)
        scene.functions.add(report(short(number), 1 + number * 7 % 40))
    items, _ = scene.functions.items(Backlog())
    assert len(scene.functions._runs) == 5
    assert sum(each.runs for each in items) == 40
    assert sum(each.run_us for each in items) == sum(range(1, 41))
