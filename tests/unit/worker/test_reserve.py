"""Reserve: how many processors there are."""

from __future__ import annotations

import pytest

from scaler.wire.messages.common import TaskStatus
from scaler.worker.messages import (
    AddProcessor,
    DismissProcessor,
    ProcessorComing,
    ProcessorDown,
    ProcessorNotComing,
    ProcessorStays,
)
from scaler.worker.reserve import SPARE_KEPT, SPARE_SECONDS
from tests.support.slot_bench import WaitingBench


@pytest.fixture
def bench() -> WaitingBench:
    return WaitingBench()


def test_there_are_no_more_processors_than_needed_before_a_task_waits(bench: WaitingBench) -> None:
    bench.run(*(bench.task() for _ in range(5)))
    assert bench.pool.messages == []


def test_one_that_does_not_come_is_asked_for_again(bench: WaitingBench) -> None:
    bench.run(bench.task())
    bench.wait_for_others(1)
    assert bench.pool.take(AddProcessor) == [AddProcessor(3)] * SPARE_KEPT
    bench.tell(ProcessorComing(50, True))
    bench.tell(ProcessorNotComing(50))
    bench.run(bench.task())
    assert bench.pool.take(AddProcessor) == [AddProcessor(3)]


def test_those_that_had_nothing_to_do_for_some_time_end(bench: WaitingBench) -> None:
    parent = bench.task()
    bench.run(parent)
    bench.wait_for_others(1)
    for _ in range(SPARE_KEPT + 3):
        bench.up()
    bench.ask(1)
    bench.end(1, parent)
    for _ in range(2):
        bench.wait(SPARE_SECONDS)
    dismissed = [dismiss.number for dismiss in bench.processor.take(DismissProcessor)]
    assert len(dismissed) == 3
    assert 1 not in dismissed
    bench.tell(ProcessorStays(dismissed[0]))
    bench.tell(ProcessorDown(dismissed[1], 0, "ended"))
    assert bench.answers() == [(parent.task_id, TaskStatus.SUCCESS)]
