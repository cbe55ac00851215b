"""SampledTasks: the topics `tasks` and `task/ID`: a sample of tasks, and the tasks that viewers watch.

While few tasks end, the monitor follows all tasks. Otherwise it follows the tasks that viewers watch, and tasks that
have run for a while according to an agent's report. Failed and retried tasks are always reported.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from scaler.actors.insight.output_table import KeptLine, OutputTable
from scaler.actors.messages.monitor import WatchedTask
from scaler.actors.messages.tasks import ExplainTask
from scaler.actors.monitor.names import Names
from scaler.actors.vocabulary.events import SUBMITTED, TaskMoved
from scaler.actors.vocabulary.task_states import ASSIGNED, FAILED, shown_state
from scaler.ids import ClientId, GraphId, TaskId, public_id
from scaler.kit import ActorRef
from scaler.wire.messages.client import NO_GRAPH, ExplainResponse
from scaler.wire.messages.common import PROFILE, TaskStatus
from scaler.wire.messages.monitor import StateLine, StateMove, StateTask
from scaler.wire.messages.rows import RowsError, results_of, row_ids
from scaler.wire.messages.worker import RunResult

KEPT_MOST = 5000
"""Limit of the kept tasks. The task that has not changed for the longest time is dropped first."""

SHOWN_MOST = 500
"""Limit of the tasks published at once. If more have changed, succeeded tasks are left out first."""

LINES_MOST = 200
"""Limit of the output lines of a task published at once. Older lines are omitted."""

MOVES_MOST = 1000
"""Limit of the moves of a watched task kept until the next publication. Further moves are dropped."""

_UINT32_MOST = 2**32 - 1
_OPEN = ("inactive", "running", "canceling")


class _Record:
    __slots__ = (
        "attempt", "client_id", "client_label", "cpu_us", "duration_us", "ended_us", "function",
        "function_name", "graph_id", "name", "owner", "peak_bytes", "reason", "short_id", "started_us", "state",
        "submitted_us", "task_id", "worker",
    )  # fmt: skip

    def __init__(self, task_id: TaskId, function: bytes, function_name: str) -> None:
        self.task_id = task_id
        self.short_id = b""
        self.function = function
        self.function_name = function_name
        self.name = ""
        self.client_id: ClientId | None = None
        self.graph_id = NO_GRAPH
        self.owner = self.client_label = ""
        self.state = ""
        self.worker = self.reason = ""
        self.attempt = self.submitted_us = self.started_us = self.ended_us = 0
        self.duration_us = self.cpu_us = self.peak_bytes = 0

    def measure(self, result: RunResult, now_us: int) -> None:
        """Store the duration and profile of a run that has ended. The task may run again."""
        self.duration_us = result.duration_us
        if result.duration_us:
            self.started_us = now_us - result.duration_us
        if result.profile:
            _, self.cpu_us, self.peak_bytes = PROFILE.unpack(result.profile)
        self.reason = result.failure or self.reason


class SampledTasks:
    """The tasks of which the monitor has received moves or runs, each with its latest state."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._records: OrderedDict[TaskId, _Record] = OrderedDict()
        self._changed: dict[TaskId, None] = {}
        self._asked: dict[bytes, TaskId | None] = {}
        """short ids of the tasks that viewers watch, each with the full id if that is known"""
        self._moves: dict[bytes, list[StateMove]] = {}
        self._where: dict[bytes, tuple[TaskId, ActorRef, GraphId]] = {}
        """by short id of an open watched task: its id, the actor that explains it, and its graph"""
        self._explained: set[bytes] = set()
        """short ids of the tasks with an explanation that has not been published"""
        self.followed: set[TaskId] = set()
        """tasks for which all moves are reported to the monitor"""
        self.moves = 0

    # Watched tasks

    def ask(self, short_ids: Collection[bytes]) -> None:
        """Watch the tasks with these short ids, and no other task."""
        is_new = any(each not in self._asked for each in short_ids)
        known = {public_id(task_id): task_id for task_id in self._records} if is_new else {}
        self._asked = {each: self._asked.get(each) or known.get(each) for each in short_ids}
        self._moves = {each: moves for each, moves in self._moves.items() if each in self._asked}
        self._where = {each: where for each, where in self._where.items() if each in self._asked}
        self._explained.intersection_update(self._asked)
        self.followed.update(task_id for task_id in self._asked.values() if task_id is not None)

    def unknown(self) -> frozenset[bytes]:
        """Return the watched short ids that may belong to an open task for which no actor is known."""
        records = {short_id: self._records.get(task_id) for short_id, task_id in self._asked.items() if task_id}
        ended = {short_id for short_id, record in records.items() if record is not None and record.ended_us}
        return frozenset(self._asked.keys() - self._where.keys() - ended)

    def questions(self, asker: ActorRef, now: float) -> Iterator[tuple[ActorRef, ExplainTask]]:
        """For each open watched task, yield the actor to ask and the question. Answers are passed to `explained`."""
        for task_id, knows, graph_id in self._where.values():
            if not knows.is_stopped():
                yield knows, ExplainTask(asker, task_id, asked_at=now, graph_id=graph_id)

    # Received

    def add(self, moved: TaskMoved, now_us: int) -> None:
        """Add a move of a task to the record of the task."""
        self.moves += 1
        spec = moved.spec
        record = self._records.get(spec.task_id)
        if record is None:
            names = self._names
            record = self._add(spec.task_id, names.short(spec.function_id), names.of_function(spec.function_id))
        self._touch(record)
        record.name, record.client_id, record.graph_id = spec.name, moved.client_id, spec.graph_id
        record.owner, record.client_label = moved.owner, moved.client_label
        record.state, record.reason = moved.state, moved.reason
        if moved.event == SUBMITTED:
            record.submitted_us = now_us
        if moved.event == ASSIGNED:
            record.attempt += 1
        if moved.worker is not None:
            record.worker = self._names.of_worker(moved.worker)
        if moved.state not in _OPEN:
            record.ended_us = now_us
            self.followed.discard(spec.task_id)
        if moved.result is not None:
            record.measure(moved.result, now_us)
        if self._asked:
            self._add_move(record, moved, now_us)

    def _add_move(self, record: _Record, moved: TaskMoved, now_us: int) -> None:
        short_id = self._short(record)
        if short_id not in self._asked:
            return
        self._asked[short_id] = record.task_id
        if record.ended_us:
            self._where.pop(short_id, None)
        else:
            self._where[short_id] = record.task_id, moved.task, moved.spec.graph_id
            self.followed.add(record.task_id)
        moves = self._moves.setdefault(short_id, [])
        if len(moves) < MOVES_MOST:
            reason = record.reason
            moves.append(StateMove(short_id, now_us, moved.event, moved.state, record.worker, record.attempt, reason))

    def found(self, waiting: Mapping[bytes, WatchedTask]) -> None:
        """Store watched tasks that wait for results of other tasks."""
        for short_id, task in waiting.items():
            if short_id in self._asked:
                self._asked[short_id] = task.task_id
                self.followed.add(task.task_id)
                self._where[short_id] = task.task_id, task.session, task.graph_id
                if task.task_id not in self._records:
                    function = task.function_id
                    self._add(task.task_id, self._names.short(function), self._names.of_function(function))

    def explained(self, answer: ExplainResponse, address: str) -> None:
        """Store the explanation of what an open task waits for."""
        record = self._records.get(answer.task_id)
        if record is not None and not record.ended_us:
            record.state, record.worker = answer.state or record.state, answer.worker or record.worker
            record.reason = answer.sentence.replace("ADDRESS", address)
            self._explained.add(self._short(record))

    def observe_run(self, task_id: TaskId, function: bytes, function_name: str, worker: str, began_us: int) -> None:
        """Store the run of a task from an agent's report, and follow the task."""
        record = self._records.get(task_id)
        if record is None:
            record = self._add(task_id, function, function_name)
        elif record.ended_us:
            return  # it has ended since
        if (record.state, record.worker) != ("running", worker):
            self._touch(record)
        record.state, record.worker = "running", worker
        record.attempt = record.attempt or 1
        if not record.started_us or abs(record.started_us - began_us) > 1_000_000:
            record.started_us = began_us
        self.followed.add(task_id)

    def _add(self, task_id: TaskId, function: bytes, function_name: str) -> _Record:
        record = self._records[task_id] = _Record(task_id, function, function_name)
        if len(self._records) > KEPT_MOST:
            self._forget(self._records.popitem(last=False)[0])
        return record

    def _touch(self, record: _Record) -> None:
        self._records.move_to_end(record.task_id)
        self._changed[record.task_id] = None

    def _forget(self, task_id: TaskId) -> None:
        self._changed.pop(task_id, None)
        if task_id not in self._asked.values():
            self.followed.discard(task_id)

    # Published

    def items(self, is_first: bool) -> tuple[list[StateTask], int]:
        """Return at most `SHOWN_MOST` of the tasks that changed since the last call, and the number that changed.

        With `is_first`, return at most `SHOWN_MOST` of all tasks.
        """
        task_ids = list(self._records if is_first else self._changed)
        self._changed.clear()
        records = [self._records[task_id] for task_id in task_ids]
        if len(records) > SHOWN_MOST:
            records.sort(key=lambda record: (record.state != "success", record.ended_us or record.started_us))
        return [self._item(record) for record in records[-SHOWN_MOST:]], len(task_ids)

    def of_task(self, short_id: bytes, is_first: bool) -> list[StateTask | StateMove]:
        """Return a watched task and its new moves; empty if `is_first` is False and the task has not changed."""
        task_id = self._asked.get(short_id)
        record = None if task_id is None else self._records.get(task_id)
        moves = self._moves.pop(short_id, [])
        is_new = is_first or moves or short_id in self._explained
        self._explained.discard(short_id)
        return [self._item(record), *moves] if record is not None and is_new else []

    def _short(self, record: _Record) -> bytes:
        if not record.short_id:
            record.short_id = public_id(record.task_id)
        return record.short_id

    def _item(self, record: _Record) -> StateTask:
        return StateTask(
            self._short(record),
            record.name,
            record.function,
            record.function_name,
            self._names.short(record.client_id) if record.client_id is not None else b"",
            self._names.short(record.graph_id),
            record.state,
            record.worker,
            record.attempt,
            record.submitted_us,
            record.started_us,
            record.ended_us,
            min(_UINT32_MOST, record.duration_us),
            min(_UINT32_MOST, record.cpu_us),
            record.peak_bytes,
            record.reason,
            record.owner,
            record.client_label,
        )


def rows_of(moved: TaskMoved) -> Iterator[TaskMoved]:
    """Yield one move for each row of a range that has moved."""
    result = moved.result
    results: Sequence[RunResult | None] = [result] * moved.spec.rows
    if result is not None and result.rows == moved.spec.rows:
        with suppress(RowsError):  # the client reports invalid results
            results = results_of(result)
    for row, ended in zip(row_ids(moved.spec.task_id, moved.spec.rows), results, strict=True):
        spec, state = replace(moved.spec, task_id=row, rows=0, payload=b""), moved.state
        if ended is not None and ended.status == TaskStatus.FAILED:
            state = shown_state(FAILED, ended.status)
        elif ended is not None and ended.failure:  # the failure of another row
            ended = replace(ended, failure="")  # noqa: PLW2901
        yield replace(moved, spec=spec, state=state, result=ended)


class WatchedOutputs:
    """Selects the output lines of watched tasks that have not been published."""

    def __init__(self, table: OutputTable) -> None:
        self._table = table
        self._last_shown: dict[bytes, int] = {}
        """the number of the last published line, by short id of the task"""

    def keep_only(self, short_ids: Collection[bytes]) -> None:
        """Watch the output of these tasks, and forget which lines of all other tasks were published."""
        self._last_shown = {short_id: number for short_id, number in self._last_shown.items() if short_id in short_ids}

    def items(self, short_id: bytes, is_first: bool) -> list[StateLine]:
        """Return the last `LINES_MOST` lines of a task since the last call (`is_first`: of all its kept lines)."""
        task_id = self._table.id_of(short_id)
        if task_id is None:
            return []
        lines = self._table.after(task_id, 0 if is_first else self._last_shown.get(short_id, 0))
        if not lines:
            return []
        self._last_shown[short_id] = lines[-1].number
        skipped = lines[:-LINES_MOST]
        dropped = len(skipped) + sum(line.dropped for line in skipped)
        return [_line(short_id, line, 0 if index else dropped) for index, line in enumerate(lines[-LINES_MOST:])]


def _line(short_id: bytes, line: KeptLine, dropped: int) -> StateLine:
    return StateLine(short_id, line.number, line.time_us, line.stream, dropped + line.dropped, line.worker, line.text)
