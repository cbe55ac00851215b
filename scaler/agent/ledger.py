"""Ledger: the open tasks of an agent, and the results that the scheduler may not have received.

Used by the link. A task is open until its result arrives or the task is recalled. A result is kept until the scheduler
has acknowledged it.

    RunTask --> open --result--> kept --acknowledged--> removed
                 |  blocks <--> resumes
                 +--recalled--> removed

A task may return under a new attempt before its old attempt has ended. So each message about a run names its attempt,
and only the newest attempt is open. Tasks stay open under another scheduler, with the attempt of the earlier scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from scaler.agent.tally import Tally
from scaler.agent.values import NodeValues
from scaler.errors import ObjectTooLargeError
from scaler.ids import ObjectId, TaskId, is_later
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import Frames, size_of
from scaler.wire.messages.accounts import account_in
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.rows import part_of, row_of
from scaler.wire.messages.worker import (
    HELD_MOST,
    HELD_OWNER,
    HELD_RUN,
    RecallRequest,
    RecallResponse,
    RunBlocked,
    RunCancel,
    RunResult,
    RunTask,
    RunUnblocked,
)
from scaler.wire.session.too_large import NO_LIMIT, RAISE_LIMIT, crash_advice, without_result

# Made once: each task needs these, and `Batch[...]` is a call.
_TASKS, _BLOCKED, _RESULTS = Batch[RunTask], Batch[RunBlocked], Batch[RunResult]

OfRun = TypeVar("OfRun", RunCancel, RecallRequest)
ResultKey: TypeAlias = tuple[TaskId, int, int]
"""The id of a task, its attempt, and `RunResult.running`: an early end of a range differs from the result of row 0."""


class Ledger:
    """Records the open tasks and the kept results of an agent.

    Args:
        values: keeps large results on this node; None: large results are sent to the scheduler.
    """

    def __init__(self, scheduler: str = "the scheduler", values: NodeValues | None = None) -> None:
        self._scheduler = scheduler
        self._values = values
        self.value_bytes = NO_LIMIT
        """the size of the largest result that the scheduler accepts"""
        self._deaths: dict[ResultKey, int] = {}
        """by kept result: how many successive schedulers ended while the result was being sent"""
        self._open: dict[TaskId, RunTask] = {}
        """by task id: the newest attempt of a task that is at a worker"""
        self._blocked: dict[TaskId, RunBlocked] = {}
        self._former: set[TaskId] = set()
        """open tasks whose attempt was numbered by an earlier scheduler"""
        self._resent: dict[TaskId, int] = {}
        """by task id: the attempt of an open task that its worker returned and then got again"""
        self._kept: dict[ResultKey, RunResult] = {}
        """results that the scheduler may not have, by task and attempt, in the order in which the runs ended"""
        self._owners: dict[ResultKey, int] = {}
        """by task and attempt: the owner tag of the task of a kept result"""
        self.tally: Tally | None = None
        """counts runs that end; None while the scheduler requests no reports"""

    # For a hello and a welcome

    def held(self) -> bytes:
        """Return the open runs and kept results for a hello, packed, at most `HELD_MOST`.

        Stored results without a newer open attempt are included, because a new scheduler does not know them.
        """
        runs: list[RunTask | RunResult] = [*self._open.values(), *self._kept.values(), *self._values_held()]
        return b"".join(HELD_RUN.pack(run.task_id, run.attempt, run.worker, _rows_of(run)) for run in runs[:HELD_MOST])

    def owners_of_held(self) -> bytes:
        """Return the owner tags of the runs that `held` names, in the same order."""
        owners = [task.owner for task in self._open.values()]
        owners += (self._owners.get(run, 0) for run in self._kept)
        owners += (0 if self._values is None else self._values.owner_of(run.task_id) for run in self._values_held())
        return b"".join(map(HELD_OWNER.pack, owners[:HELD_MOST]))

    def _values_held(self) -> list[RunResult]:
        return [result for result in self._with_values() if result.task_id not in self._open]

    def results(self) -> list[RunResult]:
        """Return the results that the scheduler may not have, in order, and then the results with stored values.

        A new scheduler does not know stored values. Results that are too large for the scheduler become failures.
        """
        for run, result in self._kept.items():
            if self._is_too_large(result):
                self._kept[run] = self._refused(result, self.value_bytes, RAISE_LIMIT)
        return [*self._kept.values(), *self._with_values()]

    def _with_values(self) -> list[RunResult]:
        known = () if self._values is None else self._values.results()
        return [result for result in known if _key(result) not in self._kept]

    def _is_too_large(self, result: RunResult) -> bool:
        return size_of(result.frames) > self.value_bytes

    def blocked(self) -> Batch[RunBlocked]:
        """Return a report of each blocked task, for a new session."""
        return Batch[RunBlocked](self._blocked.values())

    def keep_for_new_session(self, in_transit: Iterable[Any] = ()) -> None:
        """Keep all open tasks and results for a new session; another scheduler numbers its attempts in another way.

        A result fails if `TRIES_MOST` successive schedulers ended while the result was being sent to them.

        Args:
            in_transit: large items that were being sent, and not acknowledged, when the last scheduler ended.
        """
        self._former = set(self._open)
        kept, known = self._kept, self._deaths
        left = {_key(item) for item in in_transit if type(item) is RunResult}
        self._deaths = {run: known.get(run, 0) + (run in left) for run in known.keys() | left if run in kept}
        for run in [run for run, times in self._deaths.items() if times >= TRIES_MOST]:
            del self._deaths[run]
            kept[run] = self._refused(kept[run], None, crash_advice(TRIES_MOST))

    def _refused(self, result: RunResult, budget: int | None, cure: str) -> RunResult:
        error = ObjectTooLargeError("its result", size_of(result.frames), self._scheduler, budget, cure)
        return without_result(result, error)

    def check(self) -> None:
        """Assert that what is known about runs is known about open runs and kept results only."""
        assert self._blocked.keys() <= self._open.keys(), "a task that is not open is blocked"
        assert self._former <= self._open.keys(), "a task that is not open has an attempt of an earlier scheduler"
        assert self._resent.keys() <= self._open.keys()
        assert self._owners.keys() <= self._kept.keys(), "the owner of a forgotten result is known"

    def statistics(self) -> dict[str, int]:
        """Return the numbers of tasks at the workers, of blocked tasks, and of kept results."""
        tasks = self.tasks_by_worker().total()
        return {"tasks": tasks, "blocked_tasks": len(self._blocked), "results": len(self._kept)}

    def tasks_by_worker(self) -> Counter[int]:
        """Return the number of open tasks of each worker."""
        counts: Counter[int] = Counter()
        for task in self._open.values():
            counts[task.worker] += task.rows or 1
        return counts

    def open_by_worker_and_function(self) -> Counter[tuple[int, ObjectId]]:
        """Return the number of open tasks by worker and function."""
        counts: Counter[tuple[int, ObjectId]] = Counter()
        for task in self._open.values():
            counts[task.worker, task.function_id] += task.rows or 1
        return counts

    # Tasks

    def add(self, tasks: Sequence[RunTask]) -> dict[int, Batch[RunTask]]:
        """Record tasks as open. Return the new tasks, by worker."""
        known = self._open
        by_worker: dict[int, Batch[RunTask]] = {}
        for task in tasks:
            task_id, worker = task.task_id, task.worker
            if task_id in known and not self._replaces(task, known[task_id]):
                continue
            known[task_id] = task
            if worker in by_worker:
                by_worker[worker].append(task)
            else:
                by_worker[worker] = _TASKS((task,))
        return by_worker

    def _replaces(self, task: RunTask, before: RunTask) -> bool:
        """Return whether a received task replaces the open attempt, instead of repeating an assignment."""
        if task.task_id not in self._former:
            return is_later(task.attempt, before.attempt)
        if task.attempt == before.attempt:
            return False
        self._former.discard(task.task_id)
        self._blocked.pop(task.task_id, None)
        return True

    def find(self, task_id: TaskId, attempt: int) -> RunTask | None:
        """Return the task if exactly this attempt is open, otherwise None."""
        task = self._open.get(task_id)
        return task if task is not None and task.attempt == attempt else None

    def by_worker(self, items: Iterable[OfRun]) -> tuple[dict[int, list[OfRun]], list[OfRun]]:
        """Return the items about open runs by worker, and a list of the items about other runs.

        An item may be about one row of a range: another scheduler has a task for each row of the ranges in a hello.
        """
        of_open: dict[int, list[OfRun]] = {}
        of_unknown: list[OfRun] = []
        for item in items:
            task = self.find(item.task_id, item.attempt) or self._range_of(item)
            if task is None:
                of_unknown.append(item)
            else:
                of_open.setdefault(task.worker, []).append(item)
        return of_open, of_unknown

    def _range_of(self, row: RunCancel | RecallRequest) -> RunTask | None:
        ranges = (task for task in self._open.values() if task.rows and task.attempt == row.attempt)
        return next((task for task in ranges if row_of(task, row.task_id) is not None), None)

    def not_blocked(self) -> dict[int, Batch[RecallRequest]]:
        """Return recall requests, by worker, for all open tasks except blocked ones, which have already started."""
        by_worker: dict[int, Batch[RecallRequest]] = {}
        for task in self._open.values():
            if task.task_id not in self._blocked:
                request = RecallRequest(task.task_id, task.worker, task.attempt)
                by_worker.setdefault(task.worker, Batch[RecallRequest]()).append(request)
        return by_worker

    @property
    def has_tasks(self) -> bool:
        """Whether any task is open."""
        return bool(self._open)

    def remove_recalled(self, response: RecallResponse) -> None:
        """Remove an open task that has not started and that returns to the scheduler."""
        del self._open[response.task_id]
        self._former.discard(response.task_id)
        self._resent.pop(response.task_id, None)

    def record_resent(self, task: RunTask) -> None:
        """Record that an open task is sent to its worker again. An earlier reply may still be in transit."""
        self._resent[task.task_id] = task.attempt

    def missed(
        self, runs: Iterable[RunCancel | RecallRequest]
    ) -> tuple[list[RunCancel], list[RunCancel | RecallRequest]]:
        """Return two parts of these runs, which their worker does not have: cancels to repeat, and lost open runs.

        A cancel is repeated if its task was sent to the worker again meanwhile. Runs that are not open are ignored.
        """
        again: list[RunCancel] = []
        lost: list[RunCancel | RecallRequest] = []
        for run in runs:
            if self.find(run.task_id, run.attempt) is None:
                continue
            if self._resent.get(run.task_id) != run.attempt:
                lost.append(run)
            elif isinstance(run, RunCancel):
                del self._resent[run.task_id]  # sent again once: then the run is found, or lost
                again.append(run)
        return again, lost

    def block(self, runs: Iterable[RunBlocked]) -> Batch[RunBlocked]:
        """Mark those of these runs that are open as blocked, and return the marked runs."""
        blocked = _BLOCKED([run for run in runs if self.find(run.task_id, run.attempt) is not None])
        for run in blocked:
            self._blocked[run.task_id] = run
        return blocked

    def unblock(self, run: RunUnblocked | RunResult) -> None:
        """Mark a task as no longer blocked."""
        blocked = self._blocked.get(run.task_id)
        if blocked is not None and blocked.attempt == run.attempt:
            del self._blocked[run.task_id]

    # Results

    def finish(self, results: Batch[RunResult]) -> Batch[RunResult]:
        """Keep results. Return them as they are sent: large ones as locations, too large ones as failures."""
        are_unchanged = True
        known, kept, owners, tally = self._open, self._kept, self._owners, self.tally
        blocked, former = self._blocked, self._former
        for result in results:
            task_id, attempt = result.task_id, result.attempt
            if result.frames or result.location:
                sent = self._as_sent(result)
                if sent is not result:
                    result, are_unchanged = sent, False  # noqa: PLW2901
            run = task_id, attempt, result.running
            kept[run] = result
            if blocked:
                self.unblock(result)
            task = known.pop(task_id, None)
            if task is not None:
                if tally is not None:
                    tally.add(task, result)
                if task.attempt != attempt:
                    known[task_id] = task  # a newer attempt is open
                    continue
                owners[run] = task.owner
                if result.running:
                    self._open_row(task, result.running - 1)
                    continue
            if former:
                former.discard(task_id)
            self._resent.pop(task_id, None)
        return results if are_unchanged else _RESULTS([kept[_key(each)] for each in results])

    def _open_row(self, task: RunTask, row: int) -> None:
        """Make a row of a range that has ended early an open run."""
        running = part_of(task, row, 1)
        self._open[running.task_id] = running
        if task.task_id in self._former:
            self._former.remove(task.task_id)
            self._former.add(running.task_id)
        self._resent.pop(task.task_id, None)

    def _as_sent(self, result: RunResult) -> RunResult:
        if result.location:  # only the agent announces locations, never a task
            return replace(result, location=b"")
        if self._is_too_large(result):
            return self._refused(result, self.value_bytes, RAISE_LIMIT)
        task = self.find(result.task_id, result.attempt)
        if self._values is None or task is None:
            return result  # a newer attempt makes the value of this id
        try:
            return self._values.take(result, account_in(task))
        except ObjectTooLargeError as error:
            return without_result(result, error.renamed("its result"))

    def heard(self, items: Iterable[Any]) -> None:
        """Forget the results among these items, all of which the scheduler has acknowledged."""
        forget, forget_owner = self._kept.pop, self._owners.pop
        for item in items:
            if type(item) is RunResult:
                run = _key(item)
                forget(run, None)
                forget_owner(run, None)

    def without_result(self, cancels: Sequence[RunCancel]) -> list[RunCancel]:
        """Return those cancels whose runs have neither a kept result nor a stored value."""
        values = self._values
        return [
            cancel
            for cancel in cancels
            if (cancel.task_id, cancel.attempt, 0) not in self._kept
            and not (values is not None and values.is_result_of(ObjectId(cancel.task_id), cancel.attempt))
        ]

    def large_result(self, object_id: ObjectId) -> Frames:
        """Return the frames of the kept result with this id; empty if no result is kept under this id."""
        for result in reversed(self._kept.values()):
            if result.frames and ObjectId(result.task_id) == object_id:
                return result.frames
        return ()


def _key(result: RunResult) -> ResultKey:
    return result.task_id, result.attempt, result.running


def _rows_of(run: RunTask | RunResult) -> int:
    """Return the number of rows that a hello names; of a range that has ended early, those up to the running one."""
    return run.running or run.rows if isinstance(run, RunResult) else run.rows
