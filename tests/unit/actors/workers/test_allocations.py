"""What the balancer is told of what the runs of a worker take."""

from __future__ import annotations

from typing import Any

from scaler.actors.policy import Needs
from scaler.actors.workers.allocations import Allocations
from scaler.actors.workers.runs import RunRecord
from scaler.ids import TaskId

GPU = Needs((("gpu", 1),))
ONE, TWO = TaskId(b"1" * 16), TaskId(b"2" * 16)


def run() -> RunRecord:
    nothing: Any = None
    return RunRecord(nothing, nothing, 1, 7, 0, 1)


def test_an_assignment_is_counted_already_and_its_end_is_told_once() -> None:
    allocations, runs = Allocations(), {ONE: run(), TWO: run()}
    assert not allocations
    allocations.add(ONE, GPU, 1)
    allocations.add(TWO, GPU, 1)
    assert allocations.changes(runs) == ()
    assert allocations.counts() == ((GPU, 2),)
    del runs[ONE]
    assert allocations.changes(runs, [TWO]) == ()
    assert allocations.changes(runs, [ONE, TWO]) == ((GPU, -1),)
    assert allocations.changes(runs) == ()
    del runs[TWO]
    assert allocations.changes(runs) == ((GPU, -1),)
    assert not allocations


def test_a_run_that_waits_for_others_lends_what_it_takes() -> None:
    allocations, runs = Allocations(), {ONE: run()}
    allocations.add(ONE, GPU, 1)
    runs[ONE].lent = 1
    assert allocations.changes(runs) == ((GPU, -1),)
    assert allocations.counts() == ()
    runs[ONE].lent = 0
    assert allocations.changes(runs) == ((GPU, 1),)
    runs[ONE].lent = 1
    allocations.changes(runs)
    runs.clear()
    assert allocations.changes(runs) == ()


def test_a_run_that_was_taken_over_is_told_and_a_second_assignment_of_it_counts_too() -> None:
    allocations, runs = Allocations(), {ONE: run()}
    allocations.add(ONE, GPU, 0)
    assert allocations.changes(runs) == ((GPU, 1),)
    runs[ONE].counted += 1
    allocations.add(ONE, GPU, 1)
    assert allocations.changes(runs) == ()
    runs.clear()
    assert allocations.changes(runs) == ((GPU, -2),)
