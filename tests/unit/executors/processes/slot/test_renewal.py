"""Renewal: processors are replaced by fresh ones after what they hold."""

from __future__ import annotations

import pytest

from scaler.executors.messages import BeginAnew
from scaler.executors.processes.messages import (
    AddProcessor,
    DismissProcessor,
    ProcessorComing,
    ProcessorDown,
    ProcessorStays,
)
from scaler.executors.processes.slot.renewal import AGAIN_SECONDS
from tests.support.slot_bench import WaitingBench


@pytest.fixture
def bench() -> WaitingBench:
    return WaitingBench()


def dismissed(bench: WaitingBench) -> list[int]:
    return [dismiss.number for dismiss in bench.processor.take(DismissProcessor)]


def test_an_idle_one_ends_at_once_and_what_comes_runs_in_the_next(bench: WaitingBench) -> None:
    bench.tell(BeginAnew())
    assert dismissed(bench) == [1]
    task = bench.task()
    bench.run(task)
    assert bench.handed_to() == []
    assert bench.pool.take(AddProcessor) == []  # the pool starts the next by itself
    bench.tell(ProcessorDown(1, 0, "ended"))
    bench.up(is_extra=False)
    assert bench.handed_to() == [(2, [task])]
    assert dismissed(bench) == []


def test_a_busy_one_finishes_what_it_holds_and_gets_nothing_more(bench: WaitingBench) -> None:
    first, second = bench.task(), bench.task()
    bench.run(first)
    bench.tell(BeginAnew())
    bench.run(second)
    assert bench.handed_to() == [(1, [first])]
    assert dismissed(bench) == []
    bench.end(1, first)
    assert dismissed(bench) == [1]
    bench.tell(ProcessorDown(1, 0, "ended"))
    bench.up(is_extra=False)
    assert bench.handed_to() == [(2, [second])]


def test_one_whose_task_waits_ends_after_that_task(bench: WaitingBench) -> None:
    parent, child = bench.task(), bench.task(priority=1)
    bench.run(parent)
    bench.wait_for_others(1)
    bench.up()
    bench.tell(BeginAnew())
    assert dismissed(bench) == [2]
    bench.run(child)
    asked = len(bench.pool.take(AddProcessor))
    assert asked > 0  # no idle one is left, and the usual one is not replaced before its task has ended
    bench.up()
    bench.handed_to()
    bench.end(3, child)
    bench.ask(1)
    assert bench.permitted() == [1]
    bench.end(1, parent)
    assert dismissed(bench) == [1]


def test_one_that_cannot_end_takes_tasks_until_it_can(bench: WaitingBench) -> None:
    bench.tell(BeginAnew())
    assert dismissed(bench) == [1]
    bench.tell(ProcessorStays(1))
    task = bench.task()
    bench.run(task)
    assert bench.handed_to() == [(1, [task])]
    bench.end(1, task)
    assert dismissed(bench) == []
    bench.wait(AGAIN_SECONDS)
    assert dismissed(bench) == [1]


def test_one_that_dies_is_forgotten(bench: WaitingBench) -> None:
    task = bench.task()
    bench.run(task)
    bench.tell(BeginAnew())
    bench.tell(ProcessorDown(1, 1, "died"))  # the bench audits what rooms remember
    bench.tell(ProcessorComing(9, False))
    assert dismissed(bench) == []
