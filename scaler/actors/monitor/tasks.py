"""SampledTasks: the topics `tasks` and `task/ID`: a sample of tasks, and the tasks that viewers watch.

While few tasks end, the monitor follows all tasks. Otherwise it follows the tasks that viewers watch, and tasks that
have run for a while according to an agent's report. Failed and retried tasks are always reported.

A task that was published as open is followed until it ends, and its end is published. As a safeguard, each message of
the topic `tasks` names all open tasks of the sample, so that viewers can drop every other open task.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from scaler.actors.insight.output_table import KeptLine, OutputTable
from scaler.actors.messages.monitor import ReportTask, WatchedTask
from scaler.actors.messages.tasks import ExplainTask
from scaler.actors.monitor.board import Shown
from scaler.actors.monitor.names import Names
from scaler.actors.vocabulary.events import SUBMITTED, TaskMoved
from scaler.actors.vocabulary.task_states import ASSIGNED, FAILED, shown_state
from scaler.ids import ClientId, GraphId, TaskId, public_id
from scaler.kit import ActorRef
from scaler.wire.messages.client import NO_GRAPH, ExplainResponse
from scaler.wire.messages.common import PROFILE, TaskStatus
from scaler.wire.messages.monitor import StateLine, StateMove, StateRuns, StateTask, unseen_after_us
from scaler.wire.messages.rows import RowsError, results_of, row_ids
from scaler.wire.messages.worker import RunResult

KEPT_MOST = 5000
"""Limit of the kept tasks. The task that ended first is dropped first; open tasks are not dropped."""

OPEN_MOST = 4000
"""Limit of the kept open tasks. While it is reached, further open tasks are added only if a viewer watches them."""

SHOWN_MOST = 500
"""Limit of the tasks published at once, besides the ends of tasks that were published as open. If more have changed,
succeeded tasks are left out, and open tasks are published later.
"""

FIRST_MOST = 2000
"""Limit of the tasks published at once to a new viewer. Further open tasks are published later."""

LINES_MOST = 200
"""Limit of the output lines of a task published at once. Older lines are omitted."""

MOVES_MOST = 1000
"""Limit of the moves of a watched task kept until the next publication. Further moves are dropped."""

_UINT32_MOST = 2**32 - 1
_RUNNING = "running"
_OPEN = ("inactive", _RUNNING, "canceling")


class _Record:
    __slots__ = (
        "attempt", "client_id", "client_label", "cpu_us", "duration_us", "ended_us", "function", "function_name",
        "graph_id", "has_stopped", "is_asked", "is_published", "name", "owner", "peak_bytes", "reason", "seen_us",
        "short_id", "started_us", "state", "submitted_us", "task", "task_id", "worker",
    )  # fmt: skip

    def __init__(self, task_id: TaskId, function: bytes, function_name: str) -> None:
        self.task_id = task_id
        self.short_id = public_id(task_id)
        self.function = function
        self.function_name = function_name
        self.name = ""
        self.client_id: ClientId | None = None
        self.graph_id = NO_GRAPH
        self.owner = self.client_label = ""
        self.state = ""
        self.worker = self.reason = ""
        self.attempt = self.submitted_us = self.started_us = self.ended_us = self.seen_us = 0
        self.duration_us = self.cpu_us = self.peak_bytes = 0
        self.task: ActorRef | None = None
        """the actor of the task, if known"""
        self.is_asked = False
        """whether the actor was asked when the task was submitted"""
        self.is_published = False
        """whether viewers know the task as open"""
        self.has_stopped = False
        """whether the actor of this open task had ended at the last publication"""

    def move(self, moved: TaskMoved, worker: str, now_us: int) -> None:
        """Store a move of the task."""
        spec = moved.spec
        self.task = moved.task
        self.name, self.client_id, self.graph_id = spec.name, moved.client_id, spec.graph_id
        self.owner, self.client_label = moved.owner, moved.client_label
        self.state, self.reason = moved.state, moved.reason
        self.worker = worker or self.worker
        if moved.event == SUBMITTED:
            self.submitted_us = now_us
        elif moved.age_seconds and not self.submitted_us:
            self.submitted_us = now_us - int(1e6 * moved.age_seconds)
        if moved.event == ASSIGNED:
            self.attempt += 1
            self.started_us = self.seen_us = 0
        if moved.state not in _OPEN:
            self.ended_us = now_us
        if moved.result is not None:
            self.measure(moved.result, now_us)

    def measure(self, result: RunResult, now_us: int) -> None:
        """Store the duration and profile of a run that has ended. The task may run again."""
        self.duration_us = result.duration_us
        if result.duration_us:
            self.started_us = now_us - result.duration_us
        if result.profile:
            _, self.cpu_us, self.peak_bytes = PROFILE.unpack(result.profile)
        self.reason = result.failure or self.reason

    def ask_when_submitted(self) -> None:
        """Ask the actor of an open task once, if it is not known when the task was submitted."""
        if self.task is not None and not (self.submitted_us or self.ended_us or self.is_asked):
            self.is_asked = True
            self.task.send(ReportTask(self.task_id))

    def run(self, worker: str, began_us: int, now_us: int) -> None:
        """Store that an agent reports a run of the task, which began at `began_us`."""
        self.seen_us = now_us
        self.worker = worker or self.worker
        self.attempt = self.attempt or 1
        if self.state != "canceling":
            self.state = _RUNNING
        if abs(self.started_us - began_us) > 1_000_000:
            self.started_us = began_us


class SampledTasks:
    """The tasks of which the monitor has received moves or runs, each with its latest state."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._open: dict[TaskId, _Record] = {}
        self._ended: OrderedDict[TaskId, _Record] = OrderedDict()
        self._changed: dict[TaskId, None] = {}
        self._running: dict[TaskId, None] = {}
        """the open tasks that the agents' reports since the last publication name as running"""
        self._asked: dict[bytes, TaskId | None] = {}
        """short ids of the tasks that viewers watch, each with the full id if that is known"""
        self._moves: dict[bytes, list[StateMove]] = {}
        self._where: dict[bytes, tuple[TaskId, ActorRef, GraphId]] = {}
        """by short id of an open watched task: its id, the actor that explains it, and its graph"""
        self._updated: set[bytes] = set()
        """short ids of the watched tasks with an explanation or a report that has not been published"""
        self.followed: set[TaskId] = set()
        """tasks for which all moves are reported to the monitor: all open ones, and the watched ones"""
        self.moves = 0

    # Watched tasks

    def ask(self, short_ids: Collection[bytes]) -> None:
        """Watch the tasks with these short ids, and no other task."""
        is_new = any(each not in self._asked for each in short_ids)
        records = (*self._open.values(), *self._ended.values()) if is_new else ()
        known = {record.short_id: record.task_id for record in records}
        self._asked = {each: self._asked.get(each) or known.get(each) for each in short_ids}
        self._moves = {each: moves for each, moves in self._moves.items() if each in self._asked}
        self._where = {each: where for each, where in self._where.items() if each in self._asked}
        self._updated.intersection_update(self._asked)
        self.followed.clear()
        self.followed.update(self._open, filter(None, self._asked.values()))

    def unknown(self) -> frozenset[bytes]:
        """Return the watched short ids that may belong to an open task for which no actor is known."""
        ended = {short_id for short_id, task_id in self._asked.items() if task_id in self._ended}
        return frozenset(self._asked.keys() - self._where.keys() - ended)

    def questions(self, asker: ActorRef, now: float) -> Iterator[tuple[ActorRef, ExplainTask]]:
        """For each open watched task, yield the actor to ask and the question. Answers are passed to `explained`."""
        for task_id, knows, graph_id in self._where.values():
            if not knows.is_stopped():
                yield knows, ExplainTask(asker, task_id, asked_at=now, graph_id=graph_id)

    # Received

    def add(self, moved: TaskMoved, now_us: int) -> bool:
        """Add a move of a task to the record of the task. Return whether the task was not among the open ones."""
        self.moves += 1
        spec, is_open = moved.spec, moved.state in _OPEN
        task_id = spec.task_id
        known = record = self._open.get(task_id)
        if record is None:
            self._ended.pop(task_id, None)  # it was submitted again
            if is_open and not self._has_room(task_id):
                return True
            function = self._names.short(spec.function_id)
            record = self._add(task_id, function, self._names.of_function(spec.function_id))
        record.move(moved, self._names.of_worker(moved.worker), now_us)
        self._touch(record)
        if self._asked:
            self._add_move(record, moved, now_us)
        if not is_open:
            self._end(record)
        return known is None

    def _add_move(self, record: _Record, moved: TaskMoved, now_us: int) -> None:
        short_id = record.short_id
        if short_id not in self._asked:
            return
        self._asked[short_id] = record.task_id
        if record.ended_us:
            self._where.pop(short_id, None)
        else:
            self._where[short_id] = record.task_id, moved.task, moved.spec.graph_id
        moves = self._moves.setdefault(short_id, [])
        if len(moves) < MOVES_MOST:
            reason = record.reason
            moves.append(StateMove(short_id, now_us, moved.event, moved.state, record.worker, record.attempt, reason))

    def found(self, waiting: Mapping[bytes, WatchedTask]) -> None:
        """Store watched tasks that wait for results of other tasks."""
        for short_id, task in waiting.items():
            if short_id in self._asked:
                self._asked[short_id] = task.task_id
                self._where[short_id] = task.task_id, task.session, task.graph_id
                if task.task_id not in self._open:
                    self._ended.pop(task.task_id, None)
                    function = task.function_id
                    self._add(task.task_id, self._names.short(function), self._names.of_function(function))

    def explained(self, answer: ExplainResponse, address: str) -> None:
        """Store the explanation of what an open task waits for."""
        record = self._open.get(answer.task_id)
        if record is not None:
            record.state, record.worker = answer.state or record.state, answer.worker or record.worker
            record.reason = answer.sentence.replace("ADDRESS", address)
            self._updated.add(record.short_id)

    def see_run(self, task_id: TaskId, worker: str, began_us: int, now_us: int) -> bool:
        """Store that an agent reports a run of this task. Return False if the task is not in the sample.

        Args:
            worker: the name of the worker; empty if it is unknown.
        """
        record = self._open.get(task_id)
        if record is None:
            return task_id in self._ended
        before = record.state, record.worker, record.started_us
        record.run(worker, began_us, now_us)
        self._running[task_id] = None
        if (record.state, record.worker, record.started_us) != before:
            self._touch(record)
        if record.short_id in self._asked:
            self._updated.add(record.short_id)
        return True

    def add_run(
        self, task_id: TaskId, worker: str, began_us: int, now_us: int, function: bytes, function_name: str
    ) -> bool:
        """Add a task that is only known from an agent's report. Return False if there is no room for it."""
        if not self._has_room(task_id):
            return False
        self._add(task_id, function, function_name)
        return self.see_run(task_id, worker, began_us, now_us)

    def _has_room(self, task_id: TaskId) -> bool:
        return len(self._open) < OPEN_MOST or (bool(self._asked) and public_id(task_id) in self._asked)

    def _add(self, task_id: TaskId, function: bytes, function_name: str) -> _Record:
        record = self._open[task_id] = _Record(task_id, function, function_name)
        self.followed.add(task_id)
        self._limit()
        return record

    def _limit(self) -> None:
        while self._ended and len(self._open) + len(self._ended) > KEPT_MOST:
            self._changed.pop(self._ended.popitem(last=False)[0], None)

    def _touch(self, record: _Record) -> None:
        self._changed[record.task_id] = None

    def _end(self, record: _Record) -> None:
        task_id = record.task_id
        self._drop(task_id)
        self._ended[task_id] = record
        self._changed[task_id] = None
        self._limit()

    def _drop(self, task_id: TaskId) -> None:
        """Remove an open task from the sample. The next list of open tasks does not name it."""
        del self._open[task_id]
        self._running.pop(task_id, None)
        self._changed.pop(task_id, None)
        self.followed.discard(task_id)

    def drop_open(self) -> None:
        """Remove all open tasks, because no viewer shows tasks, and their ends will not be reported."""
        for task_id in list(self._open):
            self._drop(task_id)

    # Published

    def items(self, is_first: bool, now_us: int, interval_ms: int) -> Shown:
        """Return the tasks that changed since the last call, and the list of all open tasks.

        With `is_first`, return at most `FIRST_MOST` of all tasks. `interval_ms`: the interval of the agents' reports.
        """
        self._drop_lost(now_us, interval_ms)
        records = self._all() if is_first else [self._record(task_id) for task_id in self._changed]
        self._changed.clear()
        shown, n_left_out = self._chosen(records, FIRST_MOST if is_first else SHOWN_MOST)
        for record in shown:
            record.is_published = not record.ended_us
            record.ask_when_submitted()
        tasks = [self._item(record) for record in shown]
        return [*tasks, self._runs(interval_ms)], len(tasks), len(tasks) + n_left_out

    def _all(self) -> list[_Record]:
        return [*self._ended.values(), *self._open.values()]

    def _record(self, task_id: TaskId) -> _Record:
        return self._open.get(task_id) or self._ended[task_id]

    def _chosen(self, records: list[_Record], most: int) -> tuple[list[_Record], int]:
        """Return the records to publish, and the number of those that are left out for good."""
        ends = [record for record in records if record.is_published and record.ended_us]
        others = [record for record in records if not (record.is_published and record.ended_us)]
        others.sort(key=_rank)
        n_left_out = 0
        for record in others[:-most]:
            if record.ended_us:
                n_left_out += 1
            else:
                self._touch(record)
        return [*ends, *others[-most:]], n_left_out

    def _runs(self, interval_ms: int) -> StateRuns:
        running, self._running = self._running, {}
        others = (record.short_id for record in self._open.values() if record.task_id not in running)
        return StateRuns(b"".join(self._open[each].short_id for each in running), b"".join(others), interval_ms)

    def _drop_lost(self, now_us: int, interval_ms: int) -> None:
        """Drop the open tasks whose ends will not be reported.

        Their actors had ended before the last publication. Tasks without a known actor are dropped when no agent
        reports them any longer, and no viewer watches them.
        """
        oldest_us = now_us - unseen_after_us(interval_ms)
        lost = []
        for task_id, record in self._open.items():
            if record.task is None:
                is_lost = record.seen_us < oldest_us and record.short_id not in self._asked
            else:
                is_lost = record.has_stopped
                record.has_stopped = record.task.is_stopped()
            if is_lost:
                lost.append(task_id)
        for task_id in lost:
            self._drop(task_id)

    def of_task(self, short_id: bytes, is_first: bool) -> list[StateTask | StateMove]:
        """Return a watched task and its new moves; empty if `is_first` is False and the task has not changed."""
        task_id = self._asked.get(short_id)
        record = None if task_id is None else self._open.get(task_id) or self._ended.get(task_id)
        moves = self._moves.pop(short_id, [])
        is_new = is_first or moves or short_id in self._updated
        self._updated.discard(short_id)
        return [self._item(record), *moves] if record is not None and is_new else []

    def _item(self, record: _Record) -> StateTask:
        return StateTask(
            record.short_id,
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
            record.seen_us,
        )


def _rank(record: _Record) -> tuple[int, int]:
    """Return the rank of a task, which is published if it is among the highest ranks: failed before open ones."""
    if record.state == "success":
        return 0, record.ended_us
    return (2, record.ended_us) if record.ended_us else (1, record.seen_us)


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
