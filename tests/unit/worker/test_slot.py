"""Slot: its queue, answers, cancels, and deaths of its processor."""

from __future__ import annotations

import pytest

from scaler.agent.messages import NeedObject, ObjectFound, StoredObject
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import (
    RunTask,
)
from scaler.worker.messages import KillProcessor, ProcessorDown
from tests.support.slot_bench import FUNCTION, SlotBench


@pytest.fixture
def bench() -> SlotBench:
    return SlotBench().with_function()


def test_results_go_to_the_link(bench: SlotBench) -> None:
    task = bench.task()
    bench.run(task)
    bench.finish(task)
    assert bench.answers() == [(task.task_id, TaskStatus.SUCCESS)]


def test_tasks_wait_for_a_processor() -> None:
    bench = SlotBench()
    task = bench.task()
    bench.run(task)
    assert bench.objects.messages == []
    bench.processor_up()
    assert bench.objects.take(NeedObject) == [NeedObject(FUNCTION, bench.slot)]


def test_queued_task_is_cancelled_at_once(bench: SlotBench) -> None:
    first, second = bench.task(), bench.task()
    bench.run(first, second)
    bench.cancel(second)
    assert bench.answers() == [(second.task_id, TaskStatus.CANCELED)]
    assert bench.processor.take(KillProcessor) == []


def test_tasks_that_wait_are_given_back_and_what_the_processor_has_stays(bench: SlotBench) -> None:
    running, first, second = bench.task(), bench.task(), bench.task(priority=1)
    bench.run(running)
    bench.run(first, second)
    assert bench.handed() == [running]
    assert bench.ask_back(running, first, second) == [second.task_id, first.task_id]
    assert bench.processor.take(KillProcessor) == []
    bench.finish(running)
    assert bench.handed() == []
    assert bench.answers() == [(running.task_id, TaskStatus.SUCCESS)]


def test_a_request_for_another_attempt_or_for_nothing_that_is_here_is_not_answered(bench: SlotBench) -> None:
    running, waiting = bench.task(), bench.task()
    bench.run(running, waiting)
    older = RunTask(waiting.task_id, 0, 7, FUNCTION, b"", b"")
    assert bench.ask_back(older, bench.task()) == []
    bench.finish(running)
    assert bench.handed() == [running, waiting]


def test_unknown_cancel_is_ignored(bench: SlotBench) -> None:
    bench.cancel(bench.task())
    assert bench.answers() == []


def test_only_the_executing_task_is_marked_by_a_death(bench: SlotBench) -> None:
    bench.know()
    tasks = [bench.task() for _ in range(4)]
    bench.run(*tasks)
    bench.handed()
    bench.finish(tasks[0])
    bench.answers()
    bench.die(executing=4)  # the first one was number 1; tasks[1] had finished, and its result was lost
    assert bench.answers() == [(tasks[2].task_id, TaskStatus.PROCESSOR_DIED)]
    bench.processor_up()
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [tasks[1], tasks[3]]


def test_a_death_between_tasks_marks_nobody(bench: SlotBench) -> None:
    task = bench.task()
    bench.run(task)
    bench.handed()
    bench.die(executing=0)
    assert bench.answers() == []
    bench.processor_up()
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [task]


def test_news_of_an_older_processor_is_ignored(bench: SlotBench) -> None:
    bench.processor_up()
    bench.tell(ProcessorDown(1, 1, "died"))
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    task = bench.task()
    bench.run(task)
    assert bench.handed() == [task]


def test_more_results_than_tasks_kill_the_processor(bench: SlotBench) -> None:
    bench.finish(bench.task())
    assert len(bench.processor.take(KillProcessor)) == 1
    assert bench.answers() == []
