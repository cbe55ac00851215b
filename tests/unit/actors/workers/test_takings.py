"""What the balancer is told of what the runs of a worker take."""

from __future__ import annotations

from typing import Any

from scaler.actors.policy import Needs
from scaler.actors.workers.runs import RunRecord
from scaler.actors.workers.takings import Takings
from scaler.ids import TaskId

GPU = Needs((("gpu", 1),))
ONE, TWO = TaskId(b"1" * 16), TaskId(b"2" * 16)


def run() -> RunRecord:
    nothing: Any = None
    return RunRecord(nothing, nothing, 1, 7, 0, 1)


def test_an_assignment_is_counted_already_and_its_end_is_told_once() -> None:
    takings, runs = Takings(), {ONE: run(), TWO: run()}
    assert not takings
    takings.add(ONE, GPU, 1)
    takings.add(TWO, GPU, 1)
    assert takings.changes(runs) == ()
    assert takings.counts() == ((GPU, 2),)
    del runs[ONE]
    assert takings.changes(runs, [TWO]) == ()
    assert takings.changes(runs, [ONE, TWO]) == ((GPU, -1),)
    assert takings.changes(runs) == ()
    del runs[TWO]
    assert takings.changes(runs) == ((GPU, -1),)
    assert not takings


def test_a_run_that_waits_for_others_lends_what_it_takes() -> None:
    takings, runs = Takings(), {ONE: run()}
    takings.add(ONE, GPU, 1)
    runs[ONE].lent_places = 1
    assert takings.changes(runs) == ((GPU, -1),)
    assert takings.counts() == ()
    runs[ONE].lent_places = 0
    assert takings.changes(runs) == ((GPU, 1),)
    runs[ONE].lent_places = 1
    takings.changes(runs)
    runs.clear()
    assert takings.changes(runs) == ()


def test_a_run_that_was_taken_over_is_told_and_a_second_assignment_of_it_counts_too() -> None:
    takings, runs = Takings(), {ONE: run()}
    takings.add(ONE, GPU, 0)
    assert takings.changes(runs) == ((GPU, 1),)
    runs[ONE].places += 1
    takings.add(ONE, GPU, 1)
    assert takings.changes(runs) == ()
    runs.clear()
    assert takings.changes(runs) == ((GPU, -2),)
