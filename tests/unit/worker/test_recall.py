"""Taking back: what is behind a task that takes long."""

from __future__ import annotations

import pytest

from scaler.agent.messages import ObjectFound, StoredObject
from scaler.wire.messages.common import TaskStatus
from scaler.worker.cancellation import STOPPED
from scaler.worker.messages import KillProcessor
from scaler.worker.recall import SETTLE_SECONDS, STUCK_SECONDS
from tests.support.slot_bench import FUNCTION, SlotBench


@pytest.fixture
def bench() -> SlotBench:
    return SlotBench().with_function()


def test_tasks_behind_a_long_one_are_taken_back(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    bench.wait(STUCK_SECONDS)
    assert list(bench.progress.words[1:3]) == [2, 4]
    bench.wait(SETTLE_SECONDS)
    bench.cancel(tasks[1])
    assert bench.answers() == [(tasks[1].task_id, TaskStatus.CANCELED)]
    assert bench.processor.take(KillProcessor) == []
    bench.finish(tasks[0], microseconds=20_000)
    assert bench.answers() == [(tasks[0].task_id, TaskStatus.SUCCESS)]
    # What the processor says of the tasks that it did not start is no news, and the one that is left is handed again.
    bench.finish(tasks[1], tasks[2], status=STOPPED)
    assert bench.answers() == []
    assert bench.handed() == [tasks[2]]


def test_tasks_that_were_taken_back_from_behind_a_long_one_can_be_given_back(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    assert bench.ask_back(*tasks) == []
    bench.wait(STUCK_SECONDS)
    bench.wait(SETTLE_SECONDS)
    assert bench.ask_back(*tasks) == [tasks[1].task_id, tasks[2].task_id]


def test_a_task_that_started_in_the_meantime_is_not_taken_back(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    bench.wait(STUCK_SECONDS)
    bench.progress.words[0] = 3  # it did not see the new words in time
    bench.wait(SETTLE_SECONDS)
    bench.finish(tasks[0], tasks[1])
    bench.finish(tasks[2], status=STOPPED)
    assert [task_id for task_id, _ in bench.answers()] == [tasks[0].task_id, tasks[1].task_id]
    assert bench.handed() == [tasks[2]]


def test_progress_keeps_tasks_where_they_are(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    bench.finish(tasks[0])
    bench.wait(STUCK_SECONDS)
    assert list(bench.progress.words[1:3]) == [0, 0]


def test_no_timer_is_set_for_a_single_task(bench: SlotBench) -> None:
    bench.run(bench.task())
    assert bench.dispatcher.next_deadline() is None


def test_order_is_kept_when_tasks_come_back_twice(bench: SlotBench) -> None:
    tasks = bench.hold_and_execute()
    late = bench.task()
    bench.run(late)
    bench.handed()
    bench.wait(STUCK_SECONDS)
    bench.wait(SETTLE_SECONDS)
    bench.die(executing=2)
    assert bench.answers() == [(tasks[0].task_id, TaskStatus.PROCESSOR_DIED)]
    bench.processor_up()
    bench.tell(ObjectFound(StoredObject(FUNCTION, [b"x"], None)))
    assert bench.handed() == [tasks[1], tasks[2], late]
