"""Rows: mutants of ranges, chosen from the glossary, decision 24 and the interface of tasks with a count.

Each breaks one sentence about rows that travel together: what a split keeps, whom a crash blames, what is counted.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import scaler.actors.sessions.client_session
import scaler.client.map_run
import scaler.executors.processes.slot.processors
import scaler.executors.processes.slot.slot
from scaler.actors.messages.tasks import TaskSplit
from scaler.actors.policy.fair_share import FairShare
from scaler.actors.policy.worker_loads import WorkerLoads
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.tasks.task import TaskActor
from scaler.actors.workers import ranges
from scaler.actors.workers.worker_proxy import WorkerProxy
from scaler.executors.processes.messages import ProcessorBlocked, ProcessorDown
from scaler.executors.processes.slot.recall import Recall
from scaler.executors.processes.slot.slot import Slot
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.rows import calls_of, unpack
from scaler.wire.messages.worker import RunSplit
from tests.simulation.mutants import Mutant

Patches = AbstractContextManager[Any]


def _forgets_the_last(item: Any) -> Any:
    """The last row is run as the one before it: whoever counts rows finds as many."""
    rows = calls_of(item)
    return [*rows[:-1], rows[-2]] if len(rows) > 1 else rows


def _the_last_row_is_forgotten() -> Patches:
    return patch.object(scaler.executors.processes.slot.processors, "calls_of", _forgets_the_last)


def _a_waiting_range_loses_its_last_row() -> Patches:
    return patch.object(scaler.actors.sessions.client_session, "calls_of", _forgets_the_last)


def _a_row_that_began_is_given_back() -> Patches:
    recall = Recall._recall

    def of_one_more(self: Recall, due: Any) -> None:
        recall(self, due)
        processor = self._processors.get(due.number)
        if processor is None or processor.progress.executing != due.executing:
            return
        began = due.executing - processor.results_seen - 1
        entry = processor.held[began] if 0 <= began < len(processor.held) else None
        if entry is not None:
            processor.held[began] = None
            self._take_back(processor, [entry[0]])

    return patch.object(Recall, "_recall", of_one_more)


def _a_crash_blames_the_row_before() -> Patches:
    down = Slot.handlers[ProcessorDown]

    def one_before(self: Slot, news: ProcessorDown) -> None:
        processor = self._processors.get(news.number)
        if processor is not None and processor.extra_rows and news.executing > processor.results_seen + 1:
            news = replace(news, executing=news.executing - 1)
        down(self, news)

    return patch.dict(Slot.handlers, {ProcessorDown: one_before})


def _a_range_is_one_place() -> Patches:
    take = WorkerLoads.take
    return patch.object(WorkerLoads, "take", lambda self, work_us, _tasks=1: take(self, work_us))


def _a_range_is_one_row_of_a_turn() -> Patches:
    take = FairShare._take_time
    return patch.object(FairShare, "_take_time", lambda self, account, each_us, _rows: take(self, account, each_us, 0))


def _a_range_ends_as_one_task() -> Patches:
    done = ClientSession.handlers[TaskResult]

    def counted_once(self: ClientSession, result: Any) -> None:
        before = self._owner.tasks
        done(self, result)
        if result.rows and self._owner.tasks < before:
            self._owner.tasks = before - 1

    return patch.dict(ClientSession.handlers, {TaskResult: counted_once})


def _a_cancel_is_of_the_first_row() -> Patches:
    return patch.object(scaler.executors.processes.slot.slot, "_runs_of", lambda task: [(task.task_id, task.attempt)])


def _rows_forget_that_they_are_cancelled() -> Patches:
    return patch.dict(TaskActor.handlers, {TaskSplit: lambda self, _split: self.stop_now()})


def _results_are_in_another_order() -> Patches:
    return patch.object(scaler.client.map_run, "unpack", lambda payload, rows: unpack(payload, rows)[::-1])


def _a_row_that_waits_keeps_the_rest() -> Patches:
    mail = Slot._dispatch_to_part

    def keeps(self: Slot, news: Any) -> None:
        if isinstance(news, ProcessorBlocked):
            with patch.object(Slot, "_split", lambda _self, _processor: None):
                mail(self, news)
        else:
            mail(self, news)

    return patch.dict(Slot.handlers, {ProcessorBlocked: keeps})


def _a_split_is_not_heard() -> Patches:
    return patch.dict(WorkerProxy.handlers, {Batch[RunSplit]: lambda _self, _batch: None})


def _a_split_begins_anew() -> Patches:
    def others(runs: Any, run: Any, worker: Any) -> Any:
        rows, news = split(runs, run, worker)
        for row in rows:
            row.attempt += 1
        return rows, news

    split = ranges.split
    return patch("scaler.actors.workers.worker_proxy.split", others)


def _failed_rows_succeed() -> Patches:
    without = partial(replace, statuses=b"")
    finish = TaskActor._end

    def end(
        self: TaskActor, status: Any, payload: Any, frames: Any = (), profile: Any = b"", of_run: Any = None
    ) -> None:
        finish(self, status, payload, frames, profile, of_run if of_run is None else without(of_run))

    return patch.object(TaskActor, "_end", end)


KINDS = ("rows", "resumed")

ROWS = (
    Mutant("last-row", "a split forgets the last row", _the_last_row_is_forgotten),
    Mutant("last-waiting", "a range that waits is split without its last row", _a_waiting_range_loses_its_last_row),
    Mutant("began", "a row that has begun is given back", _a_row_that_began_is_given_back),
    Mutant("row-places", "a range is counted as one place at a worker", _a_range_is_one_place),
    Mutant("row-turns", "a range is counted as one row of a turn", _a_range_is_one_row_of_a_turn, ("shared",)),
    Mutant("row-ends", "a range that has ended is one open task less", _a_range_ends_as_one_task, KINDS),
    Mutant("blame", "a crash blames the row before the one that ran", _a_crash_blames_the_row_before, KINDS),
    Mutant("cancel-rows", "the cancel of a range ends its first row only", _a_cancel_is_of_the_first_row, KINDS),
    Mutant(
        "cancel-split", "rows do not hear that their range was cancelled", _rows_forget_that_they_are_cancelled, KINDS
    ),
    Mutant(
        "row-order", "the results of the rows of a range are in another order", _results_are_in_another_order, KINDS
    ),
    Mutant("blocked-row", "a row that waits keeps the rest of its range", _a_row_that_waits_keeps_the_rest, KINDS),
    Mutant("unheard-split", "the scheduler does not hear that a range was split", _a_split_is_not_heard, KINDS),
    Mutant("row-attempts", "a split gives rows other attempts than their range had", _a_split_begins_anew, KINDS),
    Mutant("statuses", "a row that has failed counts as one that has not", _failed_rows_succeed, KINDS),
)
