"""Rows: mutants of ranges, chosen from the glossary, decision 24 and the interface of tasks with a count.

Each breaks one sentence about rows that travel together: what happens to the rows of a range that ends early, whom a
crash blames, what is counted.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import scaler.actors.tasks.task
import scaler.client.maps.map_run
from scaler.actors.messages.tasks import ReturnedRows
from scaler.actors.policy.fair_share import FairShare
from scaler.actors.policy.worker_loads import WorkerLoads
from scaler.actors.sessions.client_session import ClientSession
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.tasks.task import TaskActor
from scaler.actors.workers.worker_proxy import WorkerProxy
from scaler.client.maps.map_stream import MapStream
from scaler.client.maps.row_source import DrawnRows, TakenRows
from scaler.executors.processes.messages import ProcessorDown
from scaler.executors.processes.slot.processors import ProcessorRecord
from scaler.executors.processes.slot.slot import Slot
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.rows import calls_of, pack, part_of, unpack
from tests.simulation.mutants import Mutant

Patches = AbstractContextManager[Any]


def _returned_rows_repeat_one() -> Patches:
    """The last row is run as the one before it: whoever counts rows finds as many."""

    def other_part(item: Any, first: int, rows: int) -> Any:
        part = part_of(item, first, rows)
        if rows < 2:
            return part
        blocks = unpack(part.payload, rows)
        return replace(part, payload=pack([*blocks[:-1], blocks[-2]]))

    return patch.object(scaler.actors.tasks.task, "part_of", other_part)


def _single_rows_repeat_one() -> Patches:
    def others(item: Any) -> Any:
        rows = calls_of(item)
        return [*rows[:-1], replace(rows[-1], payload=rows[-2].payload)]

    return patch.object(scaler.actors.tasks.task, "calls_of", others)


def _returning(change: Any) -> Patches:
    return_rows = TaskActor._return_rows

    def changed(self: TaskActor, returned: Any, results: Any = (), running: Any = None) -> None:
        return_rows(self, change(returned, running), results, running)

    return patch.object(TaskActor, "_return_rows", changed)


def _the_running_row_returns_too() -> Patches:
    return _returning(lambda returned, running: [*returned, *([] if running is None else [ReturnedRows(running)])])


def _returned_rows_are_lost() -> Patches:
    return _returning(lambda returned, _running: returned[:-1])


def _rows_are_not_retried() -> Patches:
    ended_rows = TaskActor._ended_rows

    def never(self: TaskActor, result: Any, worker: Any) -> Any:
        with patch.object(scaler.actors.tasks.task, "retry_reason", lambda *_: ""):
            return ended_rows(self, result, worker)

    return patch.object(TaskActor, "_ended_rows", never)


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
    numbers_of = ProcessorRecord.numbers_of
    return patch.object(ProcessorRecord, "numbers_of", lambda self, runs: numbers_of(self, runs)[:1])


def _returned_rows_forget_that_they_are_cancelled() -> Patches:
    end_range = OpenTasks.end_range

    def never(self: Any, first: Any, running: Any) -> bool | None:
        return None if end_range(self, first, running) is None else False

    return patch.object(OpenTasks, "end_range", never)


def _results_are_in_another_order() -> Patches:
    return patch.object(scaler.client.maps.map_run, "unpack", lambda payload, rows: unpack(payload, rows)[::-1])


def _a_stream_is_filled_once() -> Patches:
    return patch.object(MapStream, "_may_fill", lambda _stream: False)


def _drawn_rows_skip_a_number() -> Patches:
    take = DrawnRows.take

    def one_fewer(self: DrawnRows, most: int) -> Any:
        taken = take(self, most)
        if isinstance(taken, TakenRows) and len(taken.blocks) > 2:
            self.first += 1
        return taken

    return patch.object(DrawnRows, "take", one_fewer)


def _the_running_row_begins_anew() -> Patches:
    end_range = WorkerProxy._end_range

    def other(self: WorkerProxy, run: Any, result: Any) -> Any:
        freed = end_range(self, run, result)
        next(reversed(self._runs.values())).attempt += 1
        return freed

    return patch.object(WorkerProxy, "_end_range", other)


def _rows_of_a_hello_get_no_results() -> Patches:
    return patch.object(WorkerProxy, "_rows_of", lambda _self, _result: [])


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
    Mutant("last-row", "a part of a range that returns has its last row wrong", _returned_rows_repeat_one, KINDS),
    Mutant("last-single", "of rows that return as tasks the last one is wrong", _single_rows_repeat_one, KINDS),
    Mutant("began", "a row that has begun returns", _the_running_row_returns_too, KINDS),
    Mutant("returned-last", "of the rows that return the last ones are lost", _returned_rows_are_lost, KINDS),
    Mutant("row-retries", "a row of a range is not tried again", _rows_are_not_retried, KINDS),
    Mutant("row-places", "a range is counted as one place at a worker", _a_range_is_one_place),
    Mutant("row-turns", "a range is counted as one row of a turn", _a_range_is_one_row_of_a_turn, ("shared",)),
    Mutant("row-ends", "a range that has ended is one open task less", _a_range_ends_as_one_task, KINDS),
    Mutant("stream-window", "the window of a stream is filled only once", _a_stream_is_filled_once, KINDS),
    Mutant("drawn-gap", "rows drawn after a range have other numbers", _drawn_rows_skip_a_number, KINDS),
    Mutant("blame", "a crash blames the row before the one that ran", _a_crash_blames_the_row_before, KINDS),
    Mutant("cancel-rows", "the cancel of a range ends its first row only", _a_cancel_is_of_the_first_row, KINDS),
    Mutant(
        "cancel-returned",
        "rows that return do not hear that their range was cancelled",
        _returned_rows_forget_that_they_are_cancelled,
        KINDS,
    ),
    Mutant(
        "row-order", "the results of the rows of a range are in another order", _results_are_in_another_order, KINDS
    ),
    Mutant(
        "row-attempts", "the row that goes on has another attempt than its range", _the_running_row_begins_anew, KINDS
    ),
    Mutant("held-rows", "the rows of a range in a hello get no results", _rows_of_a_hello_get_no_results, KINDS),
    Mutant("statuses", "a row that has failed counts as one that has not", _failed_rows_succeed, KINDS),
)
