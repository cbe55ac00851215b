"""Supplies: objects are requested, sent, lost, and dropped when no task needs them."""

from __future__ import annotations

import pytest

from scaler.executors.messages import (
    CachedObject,
    CollectionDue,
    ForgetObjects,
    NeedObject,
    ObjectFound,
    ObjectUnavailable,
)
from scaler.executors.processes.messages import CleanProcessor, DropObjects, SendObject, SendTasks
from scaler.executors.supply import AWAITED_OBJECTS
from scaler.ids import ObjectId
from scaler.wire.messages.common import TaskStatus
from tests.support.slot_bench import FUNCTION, OTHER, SlotBench, WaitingBench


@pytest.fixture
def bench() -> SlotBench:
    return SlotBench().with_function()


def test_an_object_is_sent_to_the_processor_before_its_task() -> None:
    bench = SlotBench()
    bench.processor_up()
    task = bench.task()
    bench.run(task, bench.task())
    assert len(bench.objects.take(NeedObject)) == 1
    stored = CachedObject(FUNCTION, [b"x"], None)
    bench.tell(ObjectFound(stored))
    assert bench.processor.messages == [SendObject(1, stored), SendTasks(1, [task])]


def test_a_task_with_missing_objects_fails_and_other_tasks_run(bench: SlotBench) -> None:
    lost = ObjectId(b"o" * 16)
    broken, whole = bench.task(object_ids=lost), bench.task()
    bench.run(broken, whole)
    assert bench.objects.take(NeedObject) == [NeedObject(lost, bench.slot)]
    assert bench.handed() == [whole]
    bench.tell(ObjectUnavailable(lost))
    assert bench.objects.take(NeedObject) == [NeedObject(lost, bench.slot)]
    assert bench.answers() == []
    bench.tell(ObjectUnavailable(lost))
    assert bench.answers() == [(broken.task_id, TaskStatus.MISSING_OBJECTS)]
    assert bench.objects.take(NeedObject) == []


def test_a_late_answer_to_an_earlier_request_does_not_fail_a_newer_task(bench: SlotBench) -> None:
    of_one_that_left, of_another = bench.task(OTHER), bench.task(OTHER)
    bench.run(of_one_that_left)
    assert bench.objects.take(NeedObject) == [NeedObject(OTHER, bench.slot, is_function=True)]
    bench.run(of_another)
    bench.cancel(of_one_that_left)
    bench.answers()
    bench.tell(ObjectUnavailable(OTHER))
    assert bench.answers() == []
    bench.tell(ObjectFound(CachedObject(OTHER, [b"x"], None)))
    assert bench.handed() == [of_another]


def test_a_task_added_between_two_requests_for_an_object_gets_its_own_requests(bench: SlotBench) -> None:
    first, second = bench.task(OTHER), bench.task(OTHER)
    bench.run(first)
    bench.tell(ObjectUnavailable(OTHER))
    bench.run(second)
    bench.tell(ObjectUnavailable(OTHER))
    assert bench.answers() == [(first.task_id, TaskStatus.MISSING_OBJECTS)]
    bench.tell(ObjectUnavailable(OTHER))
    bench.tell(ObjectUnavailable(OTHER))
    assert bench.answers() == [(second.task_id, TaskStatus.MISSING_OBJECTS)]


def test_tasks_that_wait_for_objects_do_not_delay_tasks_behind_them(bench: SlotBench) -> None:
    bench.know()
    first, second = ObjectId(b"1" * 16), ObjectId(b"2" * 16)
    waiting = [bench.task(object_ids=first), bench.task(object_ids=second), bench.task(object_ids=first)]
    behind = [bench.task() for _ in range(3)]
    bench.run(*waiting, *behind)
    assert bench.objects.take(NeedObject) == [NeedObject(first, bench.slot), NeedObject(second, bench.slot)]
    assert bench.handed() == behind
    bench.finish(*behind)
    late = bench.task()
    bench.tell(ObjectFound(CachedObject(first, [b"x"], None)))
    bench.run(late)
    assert bench.handed() == [waiting[0], waiting[2], late]
    assert bench.ask_back(waiting[1]) == [waiting[1].task_id]


def test_only_a_few_objects_are_requested_at_a_time(bench: SlotBench) -> None:
    bench.know()
    tasks = [bench.task(object_ids=bytes([n]) * 16) for n in range(1, 100)]
    last = bench.task()
    bench.run(*tasks, last)
    assert len(bench.objects.take(NeedObject)) == AWAITED_OBJECTS + 1
    assert bench.handed() == []
    bench.tell(ObjectFound(CachedObject(ObjectId(b"\x02" * 16), [b"x"], None)))
    assert bench.handed() == [tasks[1]]
    assert len(bench.objects.take(NeedObject)) == 1


def test_tasks_that_wait_for_objects_can_be_cancelled_and_survive_the_processors_death(bench: SlotBench) -> None:
    lost = ObjectId(b"o" * 16)
    cancelled, other = bench.task(object_ids=lost), bench.task(object_ids=lost)
    bench.run(cancelled, other)
    bench.objects.take(NeedObject)
    bench.cancel(cancelled)
    assert bench.answers() == [(cancelled.task_id, TaskStatus.CANCELED)]
    bench.die(executing=0)
    bench.processor_up()
    assert bench.objects.take(NeedObject) == [
        NeedObject(FUNCTION, bench.slot, is_function=True),
        NeedObject(lost, bench.slot),
    ]
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    bench.tell(ObjectFound(CachedObject(lost, [b"x"], None)))
    assert bench.handed() == [other]


def test_deleted_objects_are_dropped_and_requested_again_when_needed(bench: SlotBench) -> None:
    bench.tell(ForgetObjects([FUNCTION, OTHER]))
    assert bench.processor.take(DropObjects) == [DropObjects(1, (FUNCTION,))]
    bench.run(bench.task())
    assert bench.objects.take(NeedObject) == [NeedObject(FUNCTION, bench.slot, is_function=True)]


def dropped(bench: SlotBench) -> list[ObjectId]:
    """Return the objects that the processor dropped at the last collection. Fail if there was no collection."""
    drops = [object_id for drop in bench.processor.take(DropObjects) for object_id in drop.object_ids]
    assert bench.processor.take(CleanProcessor) == [CleanProcessor(bench.number)]
    return sorted(drops)


def test_objects_unused_since_the_last_collection_are_dropped() -> None:
    bench = SlotBench().with_function(FUNCTION, OTHER)
    for function in (FUNCTION, OTHER):
        bench.know(function=function)
    bench.tell(CollectionDue())
    assert dropped(bench) == []
    bench.know()
    bench.tell(CollectionDue())
    assert dropped(bench) == [OTHER]
    bench.tell(CollectionDue())
    assert dropped(bench) == [FUNCTION]


def test_an_object_deleted_under_a_running_task_is_fetched_for_the_next_task(bench: SlotBench) -> None:
    bench.know()
    running, after = bench.task(), bench.task()
    bench.run(running)
    assert bench.handed() == [running]
    bench.tell(ForgetObjects([FUNCTION]))
    bench.tell(CollectionDue())
    bench.finish(running)
    bench.run(after)
    assert bench.objects.take(NeedObject) == [NeedObject(FUNCTION, bench.slot, is_function=True)]
    assert bench.handed() == []


def test_an_idle_processor_gets_no_second_collection(bench: SlotBench) -> None:
    bench.know()
    for _ in range(2):
        bench.tell(CollectionDue())
        dropped(bench)
    for _ in range(3):
        bench.tell(CollectionDue())
    assert bench.processor.messages == []


def test_unused_arguments_are_dropped_and_fetched_again_when_needed(bench: SlotBench) -> None:
    task = bench.task(object_ids=OTHER)
    bench.run(task)
    bench.tell(ObjectFound(CachedObject(OTHER, [b"x"], None)))
    assert bench.handed() == [task]
    bench.finish(task)
    bench.know()
    bench.tell(CollectionDue())
    bench.know()
    bench.processor.messages.clear()
    bench.tell(CollectionDue())
    assert dropped(bench) == [OTHER]
    bench.objects.messages.clear()
    again = bench.task(object_ids=OTHER)
    bench.run(again)
    assert [need.object_id for need in bench.objects.take(NeedObject)] == [OTHER]
    assert bench.handed() == []
    bench.tell(ObjectFound(CachedObject(OTHER, [b"x"], None)))
    assert bench.handed() == [again]


def test_objects_of_a_running_task_are_not_dropped(bench: SlotBench) -> None:
    bench.run(bench.task())
    bench.handed()
    bench.processor.messages.clear()
    for _ in range(5):
        bench.tell(CollectionDue())
    assert bench.processor.messages == []


def test_collections_do_not_accumulate_behind_a_long_task(bench: SlotBench) -> None:
    bench.know()
    bench.run(bench.task())
    bench.processor.messages.clear()
    for _ in range(5):
        bench.tell(CollectionDue())
    assert dropped(bench) == []


def test_a_collection_without_a_processor_does_nothing(bench: SlotBench) -> None:
    bench.die(0)
    bench.tell(CollectionDue())
    assert bench.processor.messages == []


def test_an_object_is_sent_once_and_only_to_a_living_processor(bench: SlotBench) -> None:
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    bench.die(0)
    bench.tell(ObjectFound(CachedObject(OTHER, [b"x"], None)))
    assert bench.processor.messages == []


def test_deleted_objects_are_dropped_by_all_processors() -> None:
    bench = WaitingBench()
    bench.run(bench.task())
    bench.wait_for_others(1)
    bench.up()
    bench.run(bench.task(priority=1))
    bench.tell(ForgetObjects([FUNCTION]))
    assert bench.processor.take(DropObjects) == [DropObjects(number, (FUNCTION,)) for number in (1, 2)]
