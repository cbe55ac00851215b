"""Slot: its queue, answers, cancels, and deaths of its processor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.executors.messages import CachedObject, NeedObject, ObjectFound, RunsNotHere
from scaler.executors.processes.messages import KillProcessor, ProcessorDown, TasksFinished, TasksPrinted
from scaler.executors.processes.slot.slot import Slot
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import OutputStream, TaskStatus
from scaler.wire.messages.processor import TaskOutput
from scaler.wire.messages.worker import RunOutput, RunResult, RunTask
from tests.support.slot_audit import audit_slot
from tests.support.slot_bench import FUNCTION, SlotBench

ONCE = RunOptions(at_most_once=True).encode()


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
    assert bench.objects.take(NeedObject) == [NeedObject(FUNCTION, bench.slot, is_function=True)]


def test_queued_task_is_cancelled_at_once(bench: SlotBench) -> None:
    first, second = bench.task(), bench.task()
    bench.run(first, second)
    bench.cancel(second)
    assert bench.answers() == [(second.task_id, TaskStatus.CANCELED)]
    assert bench.processor.take(KillProcessor) == []


def test_queued_tasks_are_recalled_and_tasks_in_the_processor_stay(bench: SlotBench) -> None:
    running, first, second = bench.task(), bench.task(), bench.task(priority=1)
    bench.run(running)
    bench.run(first, second)
    assert bench.handed() == [running]
    assert bench.ask_back(running, first, second) == [second.task_id, first.task_id]
    assert bench.processor.take(KillProcessor) == []
    bench.finish(running)
    assert bench.handed() == []
    assert bench.answers() == [(running.task_id, TaskStatus.SUCCESS)]


def test_a_recall_of_another_attempt_or_of_an_unknown_task_is_not_answered(bench: SlotBench) -> None:
    running, waiting = bench.task(), bench.task()
    bench.run(running, waiting)
    older = RunTask(waiting.task_id, 0, 7, FUNCTION, b"", b"")
    assert bench.ask_back(older, bench.task()) == []
    bench.finish(running)
    assert bench.handed() == [running, waiting]


def test_a_request_about_an_unknown_run_is_reported_to_the_link_without_a_result(bench: SlotBench) -> None:
    held, waiting, ended = (bench.task() for _ in range(3))
    bench.run(ended)
    bench.finish(ended)
    bench.run(held, waiting)
    bench.answers()
    bench.ask_back(held, waiting, ended)
    bench.cancel(held, ended)
    reported = [[run.task_id for run in news.runs] for news in bench.link.take(RunsNotHere)]
    assert reported == [[ended.task_id], [ended.task_id]]
    assert bench.answers() == []


def test_the_death_of_a_processor_fails_only_the_executing_task(bench: SlotBench) -> None:
    bench.know()
    tasks = [bench.task() for _ in range(4)]
    bench.run(*tasks)
    bench.handed()
    bench.finish(tasks[0])
    bench.answers()
    bench.die(executing=4)  # the first one was number 1; tasks[1] had finished, and its result was lost
    assert bench.answers() == [(tasks[2].task_id, TaskStatus.PROCESSOR_DIED)]
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [tasks[1], tasks[3]]


@pytest.mark.parametrize("executing", [3, 0])
def test_at_most_once_tasks_that_may_have_started_in_a_distrusted_processor_are_not_rerun(
    bench: SlotBench, executing: int
) -> None:
    bench.know()
    tasks = [replace(bench.task(), options=ONCE) for _ in range(4)]
    bench.run(*tasks)
    assert bench.handed() == tasks
    bench.finish(bench.task())  # a result of another task
    bench.die(executing)  # the first one has number 2
    started = tasks[:2] if executing else tasks
    assert bench.answers() == [(task.task_id, TaskStatus.PROCESSOR_DIED) for task in started]
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == tasks[len(started) :]


def test_the_status_of_an_ended_process_is_the_status_of_its_task(bench: SlotBench) -> None:
    task = bench.task()
    bench.run(task)
    bench.handed()
    bench.tell(ProcessorDown(bench.number, 1, "died: signal SIGKILL, out of memory", TaskStatus.OUT_OF_MEMORY))
    assert bench.answers() == [(task.task_id, TaskStatus.OUT_OF_MEMORY)]


def test_the_death_of_a_processor_between_tasks_fails_no_task(bench: SlotBench) -> None:
    task = bench.task()
    bench.run(task)
    bench.handed()
    bench.die(executing=0)
    assert bench.answers() == []
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [task]


@pytest.mark.parametrize("options", [b"", ONCE], ids=["any", "at most once"])
def test_ending_a_processor_on_purpose_fails_only_its_started_at_most_once_task(
    bench: SlotBench, options: bytes
) -> None:
    tasks = [replace(bench.task(), options=options) for _ in range(2)]
    bench.run(*tasks)
    bench.handed()
    bench.tell(ProcessorDown(bench.number, 1, "was ended", is_to_blame=False))
    ended = tasks[:1] if options else []
    assert bench.answers() == [(task.task_id, TaskStatus.PROCESSOR_DIED) for task in ended]
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed()[0] == tasks[len(ended)]


def test_reports_about_an_older_processor_are_ignored(bench: SlotBench) -> None:
    bench.processor_up()
    bench.tell(ProcessorDown(1, 1, "died"))
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    task = bench.task()
    bench.run(task)
    assert bench.handed() == [task]


def test_more_results_than_tasks_kill_the_processor(bench: SlotBench) -> None:
    bench.finish(bench.task())
    assert len(bench.processor.take(KillProcessor)) == 1
    assert bench.answers() == []


@pytest.mark.parametrize("attempt", [1, 2], ids=["another task", "another attempt"])
def test_a_result_of_the_wrong_run_ends_the_processor_and_loses_no_task(bench: SlotBench, attempt: int) -> None:
    first, second, third = bench.hold_and_execute()
    wrong = RunResult(third.task_id if attempt == 1 else second.task_id, 0, attempt, TaskStatus.SUCCESS, b"", 0, ())
    right = RunResult(first.task_id, 0, 1, TaskStatus.SUCCESS, b"", 0, ())
    bench.tell(TasksFinished(bench.number, Batch[RunResult]([right, wrong])))
    assert bench.answers() == [(first.task_id, TaskStatus.SUCCESS)]
    (kill,) = bench.processor.take(KillProcessor)
    assert "result of another task" in kill.reason
    bench.finish(second, third)  # too late: further results are ignored
    assert bench.answers() == []
    bench.die(executing=3)
    (results,) = bench.link.take(Batch[RunResult])
    assert [(result.task_id, result.status) for result in results] == [(second.task_id, TaskStatus.PROCESSOR_DIED)]
    assert kill.reason in results[0].payload.decode()
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [third]


def test_a_wrong_result_between_tasks_fails_no_task(bench: SlotBench) -> None:
    tasks = bench.hold()
    bench.finish(tasks[2])
    bench.die(executing=0)
    assert bench.answers() == []
    bench.processor_up()
    bench.tell(ObjectFound(CachedObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == tasks


def test_a_cancelled_task_of_a_distrusted_processor_is_cancelled(bench: SlotBench) -> None:
    first, second, third = bench.hold_and_execute()
    bench.cancel(second)
    bench.finish(third)
    bench.die(executing=2)
    assert bench.answers() == [(first.task_id, TaskStatus.PROCESSOR_DIED), (second.task_id, TaskStatus.CANCELED)]


def test_each_message_that_a_part_of_the_slot_handles_is_passed_to_it(bench: SlotBench) -> None:
    """Each message that a part handles reaches the slot, and the slot passes on no other message."""
    passed_on = {kind for kind, handler in Slot.handlers.items() if handler is Slot._dispatch_to_part}
    assert passed_on == set(bench.actor._readers)


def test_the_audit_finds_a_run_in_two_places(bench: SlotBench) -> None:
    task = bench.task()
    bench.run(task)
    bench.actor._queue.add([task])
    with pytest.raises(AssertionError, match="two places"):
        audit_slot(bench.actor)


def test_lines_of_a_task_go_to_the_link_with_its_run_if_the_slot_has_the_task(bench: SlotBench) -> None:
    task = bench.task()
    bench.run(task)
    lines = [TaskOutput(number, OutputStream.STANDARD_ERROR, 7, 1, f"of {number}") for number in (1, 2)]
    for processor in (bench.number, bench.number + 1):
        bench.tell(TasksPrinted(processor, Batch[TaskOutput](lines)))
    assert bench.link.take(Batch[RunOutput]) == [
        [RunOutput(task.task_id, task.worker, task.attempt, OutputStream.STANDARD_ERROR, 7, 1, "of 1")]
    ]
