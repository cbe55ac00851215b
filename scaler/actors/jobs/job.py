"""Job: the actor of one job: it submits open rows as tasks, has results written, and answers its clients.

Receives messages from the job keeper (requests, departures), its tasks, the object store (large results) and the job
writer. Sends to these and, through the outbox, to clients. No connection owns it. Its tasks see it as a client session:
each row is a task, whose id is the prefix of the version of the job and the number of the row. So a new scheduler
submits the same rows, and adopts the runs of them that agents hold. Runs of an earlier version are never adopted.

Memory follows the disk: a result or a state is adopted, and announced, once the job writer has it on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from scaler.actors.jobs.job_catalog import JobCatalog
from scaler.actors.jobs.job_requests import JobRequests
from scaler.actors.jobs.job_state import JobState
from scaler.actors.jobs.row_sizes import RowSizes, pieces_of
from scaler.actors.jobs.row_values import JobResults, store_objects
from scaler.actors.jobs.submitted_rows import SubmittedRows
from scaler.actors.messages.adoption import FindRuns, NotHeld, RunsAreHeld
from scaler.actors.messages.jobs import ContinueJob, JobDue, JobEnded, OrderDone, OwnersChanged, ReaderLeft, RequestJob
from scaler.actors.messages.objects import ObjectLost, OwnerLeft, SupplyObject, ValueRefused
from scaler.actors.messages.tasks import (
    BalancerRestarted,
    CancelTask,
    RunNotStarted,
    StartRequested,
    StartRun,
    TaskDone,
)
from scaler.actors.peers.owners import UNBOUNDED, RoomInQuota
from scaler.actors.services import Services
from scaler.actors.tasks.adoption import HOLD_SECONDS
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.tasks.retries import NOT_AGAIN
from scaler.ids import ClientId, TaskId, index_of, random_id
from scaler.jobs.record import DONE, OPEN, STOPPED, JobObject, JobRecord, RowResult
from scaler.jobs.tables.schema import RecordError
from scaler.jobs.values import Arguments
from scaler.kit import Actor, ActorRef, ChildFailed, handles
from scaler.wire.messages.client import TaskResult
from scaler.wire.messages.columns import ROWS_MOST
from scaler.wire.messages.common import ObjectResponse, TaskStatus

logger = logging.getLogger(__name__)

T = TypeVar("T")

WINDOW_ROWS = 8192
"""Limit of submitted, unended rows: their actors take memory, and agents report them to a new scheduler."""

SAID_AT_ONCE = 256
"""Limit of the tasks that are made in one turn."""

FIRST_ROWS, FIRST_PER_WORKER = 64, 8
"""Limit of submitted rows while the duration of a row is unknown: a fixed part, and a part for each worker."""

WRITE_SECONDS = 0.05
"""Pause between two writes of results: writing a few results costs as much as writing many."""

GROUP_BYTES = 1024 * 1024
"""Size at which a group of results is full; `--keep-bytes` may be exceeded by one group."""

TRY_AGAIN_SECONDS = 2.0
"""Pause before a failed disk is tried again."""

PROGRAM_SECONDS = 10.0
"""Time for programs to reconnect after a start of the scheduler, before a job without a program is reported as idle."""

WRITE_ANEW = "Run its program again with the same rows, which rewrites them"

INCONSISTENT = (
    "its record is damaged: the number of results on disk does not match the number of ended rows. Read the results "
    'on disk; then forget the job, or run its program again with on_change="restart"'
)
"""Why a job without open rows stops instead of being done."""

REST_SECONDS = 20.0
"""Time for which a job that cannot run stays in memory, with its file open, without a request; at most twice that."""


class JobActor(Actor):
    """The actor of one job.

    Args:
        record: of the job, open for writing. Only the job writer touches it.
        job_state: the state of the job in memory.
        keeper: the job keeper.
    """

    def __init__(
        self, record: JobRecord, standing: JobState, shelf: JobCatalog, services: Services, keeper: ActorRef
    ) -> None:
        self._record, self._shelf, self._services, self._keeper = record, shelf, services, keeper
        self._standing, self._rows = standing, standing.rows
        self._has_objects = standing.is_new
        """whether the object store has the functions of the job"""
        self._held: dict[int, StartRequested] = {}
        """for `at_most_once`: starts of rows that are held until they are recorded on disk"""
        self._results: list[RowResult] = []
        """results of ended rows that the job writer has not received"""
        self._is_writing = self._is_loading = self._is_going_on = self._has_turn = self._is_moving = False
        self._is_reading_objects = False
        self._awaits_agents = False
        """whether agents that may hold rows have yet to return, and the quota of the owner is limited"""
        self._n_at_agents = 0
        """the number of rows held by agents: they are submitted even above the quota, as they have started"""
        self._told_trouble = ""
        """the logged reason why nothing can be written"""
        self._orders = self._asked_until_now = 0
        """the number of unanswered orders at the job writer, and the number of requests since the last `_rest`"""

    _context: ClientContext
    _tasks: OpenTasks[int]
    """the tasks of rows, by row number"""

    def on_start(self) -> None:
        terms, services, client_id = self._standing.terms, self._services, ClientId(random_id())
        self._client_id, options = client_id, services.read_options(terms.options)
        owner, label = services.directory.owners.of(terms.owner), f"job {terms.name}"
        account = services.directory.accounts.open(client_id, owner, label=label)
        # The agents of a local cluster end with its scheduler.
        is_asked = not (self._standing.is_new or self._standing.is_new_version or self._shelf.is_shared)
        adoption = services.adoption if is_asked else None
        self._context = ClientContext(services, self.actor_ref, client_id, account, adoption, label)
        self._context.notes_begins = self._standing.is_at_most_once = options.at_most_once
        self._standing.lockout = self._shelf.lockout(terms)
        self._tasks = OpenTasks[int](owner)
        self._said = SubmittedRows(self.spawn, self._context, self._tasks, options.said_again(), self._record)
        self._large = JobResults(self.actor_ref, client_id, owner, services.object_store)
        self._sizes = RowSizes(self._most_together() if options.suit_rows else 1)
        self._desk = JobRequests(
            self, self._record, self._standing, self._shelf, services.outbox, services.read_options
        )
        if adoption is not None and owner.has_quota:
            self._awaits_agents = True
            adoption.send(FindRuns(owner.tag, self.actor_ref, prefix=terms.prefix))
        if is_asked:
            patience = services.config.client_timeout_seconds if options.at_most_once else HOLD_SECONDS
            self.schedule(patience, JobDue(self._stop_asking))
        self.look()  # its last scheduler may have died between its last result and its end
        self._load_objects()
        self._report_lost()
        self.go_on_soon()
        self.schedule(PROGRAM_SECONDS, JobDue(self._no_longer_fresh))
        self.schedule(REST_SECONDS, JobDue(self._rest))

    def _report_lost(self) -> None:
        """Report acknowledged changes that the disk has lost, and stop the job if it has the option `at_most_once`."""
        lost = self._record.lost
        if lost:
            logger.error("the job %s: %s", self._standing.terms.name, lost)
            if self._standing.is_at_most_once and self._standing.is_open:
                self.move(STOPPED, f"{lost}; its rows may have started, and have the option at_most_once")

    def _no_longer_fresh(self) -> None:
        """End the grace period for programs to reconnect, and send waiting clients the reason why the job is idle."""
        self._standing.is_fresh = False
        self._desk.answer_parked()

    def _most_together(self) -> int:
        config, owner = self._services.config, self._context.owner
        is_bounded = config.max_number_of_tasks_waiting >= 0 or owner.has_quota
        return 1 if is_bounded else min(config.rows_per_task, config.per_worker_queue_size, ROWS_MOST)

    def _load_objects(self) -> None:
        if not self._has_objects and self._standing.is_open and not self._is_reading_objects:
            self._is_reading_objects = True
            self.order(self._record.objects, self._objects_are_here)

    def _stop_asking(self) -> None:
        """Stop looking for runs of new tasks at agents: all have had the time to return."""
        self._context.adoption = None
        self._n_at_agents = 0

    def order(
        self, order: Callable[[], Any], then: Callable[[Any, BaseException | None], None], *, alone: bool = False
    ) -> None:
        """Run an order in the job writer, then call `then` here. `alone`: outside of a transaction."""
        self._orders += 1
        record = self._record

        def obey() -> tuple[Any, list[RowResult]]:
            return order(), record.take_damaged()

        def go_on(found: tuple[Any, list[RowResult]] | None, error: BaseException | None) -> None:
            value, damaged = found or (None, [])
            if damaged:
                self._lose(damaged)
            then(value, error)

        self._shelf.order(self.actor_ref, None if alone else record, obey, go_on)

    def _lose(self, damaged: list[RowResult]) -> None:
        """Count rows with damaged results as failed; run them again at once if a map needs them."""
        standing, rows = self._standing, [each.row for each in damaged]
        what = f"the results of {len(rows)} rows on disk are damaged or missing; the first is row {rows[0]}"
        logger.error("the job %s: %s", standing.terms.name, what)
        if standing.terms.is_attended and not standing.is_at_most_once and self._desk.is_wanted:
            self._desk.reading.to_run_again.update(rows)
            self.order(lambda: self._reopen(rows), partial(self._has_reopened, damaged))
        else:
            standing.lose(damaged)
        self._show_on_screens()

    def _reopen(self, rows: list[int]) -> tuple[str, str]:
        """Reopen rows in the record. Called in the job writer's thread."""
        record = self._record
        if record.reopen_rows(rows) and record.state == DONE:
            record.move(OPEN)
        return record.state, record.reason

    def _has_reopened(
        self, damaged: list[RowResult], state: tuple[str, str] | None, error: BaseException | None
    ) -> None:
        rows = [each.row for each in damaged]
        self._desk.reading.to_run_again.difference_update(rows)
        if state is not None:
            self.reopen(rows, len(rows))
            self.enter(*state)
        else:
            self._standing.lose(damaged)
            logger.error("the job %s: rows cannot run again: %s", self._standing.terms.name, error)
        self._desk.answer_parked()
        self.go_on_soon()

    @handles(OrderDone)
    def _obeyed(self, news: OrderDone) -> None:
        self._orders -= 1
        news.then(news.value, news.error)

    @handles(JobDue)
    def _due(self, due: JobDue) -> None:
        due.then()

    def _rest(self) -> None:
        """Leave memory if the job cannot run and no request arrived."""
        is_needed = self._asked_until_now or self._desk.reading.parked or self._desk.may_run
        self._asked_until_now = 0
        if is_needed or self._orders or self._tasks or self._results:
            self.schedule(REST_SECONDS, JobDue(self._rest))
        else:
            self.stop_now()

    def _objects_are_here(self, objects: list[JobObject] | None, error: BaseException | None) -> None:
        self._is_reading_objects = False
        if objects is None and not isinstance(error, (RecordError, ValueError)):
            self._is_in_trouble(f"its functions cannot be read: {error}")
            return
        if objects is None:
            self.move(STOPPED, f"its functions cannot be read: {error}. {WRITE_ANEW}")
            return
        if not self._standing.is_open:
            return
        self.store(objects)
        self._has_objects = True
        self.go_on_soon()

    # Rows to tasks

    def _may_go_on(self) -> bool:
        standing = self._standing
        return self._desk.is_wanted and self._has_objects and standing.is_open and not standing.why_paused

    def go_on_soon(self) -> None:
        """Submit more rows and have results written, once the mailbox is empty."""
        if not self._is_going_on:
            self._is_going_on = True
            self.actor_ref.send(ContinueJob())

    @handles(ContinueJob)
    def _go_on(self, _go_on: ContinueJob) -> None:
        self._is_going_on = False
        self._write_results()
        if (not self._standing.is_open or self._standing.lockout is not None) and not self.is_settling():
            self._desk.answer_parked()
        if not self._may_go_on():
            return
        if self._held:
            held, self._held = self._held, {}
            self.order(lambda: self._record.mark(held), partial(self._are_marked, held))
        n_said, size = 0, 1 if self._context.adoption is not None else self._sizes.size(self._rows.n_open)
        room = min(self._window() - self._rows.n_said, SAID_AT_ONCE * size, self._room_in_quota())
        if room <= 0:
            return
        while n_said < room and (taken := self._rows.take(min(size, room - n_said))) is not None:
            n_said += taken.n_rows
            self._said.say(self._standing.terms, taken)
        self._n_at_agents = max(0, self._n_at_agents - n_said)
        if n_said:
            self.go_on_soon()
            return
        first = self._rows.next_range()
        if first is not None and not self._is_loading:
            self._is_loading = True
            self.order(lambda: self._record.rows_of(first), partial(self._loaded, first))

    def _room_in_quota(self) -> int:
        """Return how many rows the quota of the owner allows to submit. At 0, the job waits for its turn.

        Rows that agents hold do not wait. They are the first open ones, since rows are submitted in order.
        """
        owner, rows = self._context.owner, self._rows
        if not owner.has_quota:
            return UNBOUNDED
        if self._n_at_agents or self._awaits_agents:
            return self._n_at_agents
        room = owner.room_for_one() if self._has_turn or not owner.is_awaited else 0
        if not room and rows.n_open > rows.n_said:
            owner.wait(self.actor_ref)
            if not self._tasks:
                self._say_over_quota(f"{owner.why_full()}: rows wait")
        return room

    @handles(RunsAreHeld)
    def _runs_are_held(self, news: RunsAreHeld) -> None:
        if self._context.adoption is None:
            return
        rows, held = self._rows, map(index_of, news.task_ids)
        self._n_at_agents += sum(
            row < rows.rows and row not in self._tasks and not rows.ended_from(row, 1) for row in held
        )
        self.go_on_soon()

    @handles(NotHeld)
    def _not_held(self, _news: NotHeld) -> None:
        """Apply the quota to the remaining rows, since all agents have returned."""
        self._awaits_agents = False
        self.go_on_soon()

    @handles(RoomInQuota)
    def _has_room_in_quota(self, _news: RoomInQuota) -> None:
        self._has_turn = True
        self._go_on(ContinueJob())
        self._has_turn = False
        self._context.owner.wake()  # other waiting jobs and sessions, if there is still room

    @handles(ValueRefused)
    def _value_refused(self, refused: ValueRefused) -> None:
        self._say_over_quota(refused.reason)

    def _say_over_quota(self, why: str) -> None:
        owner, name = self._context.owner.name, self._context.label
        self._services.audit("over quota", owner, owner=owner, name=name, why=why)

    def _window(self) -> int:
        workers = self._services.directory.workers
        return WINDOW_ROWS if self._sizes.is_known else min(FIRST_ROWS + FIRST_PER_WORKER * workers, WINDOW_ROWS)

    @handles(StartRequested)
    def _is_held(self, held: StartRequested) -> None:
        """Start an at-most-once row after its start has been recorded on disk."""
        self._held[index_of(held.task_id)] = held
        self.go_on_soon()

    def _are_marked(self, held: dict[int, StartRequested], _nothing: None, error: BaseException | None) -> None:
        if error is not None:
            self._held = {**held, **self._held}
            self._is_in_trouble(f"rows cannot be marked: {error}")
            return
        self._said.marks.update(held)
        for each in held.values():
            each.worker.send(StartRun(each.task_id, each.attempt))

    @handles(RunNotStarted)
    def _has_not_begun(self, news: RunNotStarted) -> None:
        """Unmark an at-most-once row that its worker returned without starting it."""
        row = index_of(news.task_id)
        self._said.marks.discard(row)
        if self._held.pop(row, None) is None:
            self.order(lambda: self._record.mark((), (row,)), lambda _nothing, _error: None)

    def _loaded(self, first: int, arguments: Arguments | None, error: BaseException | None) -> None:
        self._is_loading = False
        if arguments is None and not isinstance(error, (RecordError, ValueError)):
            self._is_in_trouble(f"the arguments of the rows from {first} on cannot be read: {error}")
            return
        if arguments is None:
            self.move(STOPPED, f"the arguments of the rows from {first} on cannot be read: {error}. {WRITE_ANEW}")
            return
        self._rows.load(first, arguments)
        self.go_on_soon()

    # Results to the record

    @handles(TaskResult)
    def _ended(self, result: TaskResult) -> None:
        if result.duration_us:
            self._sizes.learn(result.rows or 1, result.duration_us)
        if not result.rows:
            self._keep(result.task_id, result.status, (result.payload,), result.duration_us)
            return
        first = index_of(result.task_id)
        if first not in self._tasks.ranges:
            return
        self._tasks.end(first)
        for piece in pieces_of(result):
            self._end(piece)

    @handles(TaskDone)
    def _ended_with_frames(self, done: TaskDone) -> None:
        if index_of(done.result.task_id) not in self._tasks:
            return
        result = done.result
        frames, reason = self._large.take(result.task_id, done.frames, done.function_id, result.duration_us)
        if reason:
            self._keep(done.result.task_id, TaskStatus.MISSING_OBJECTS, (reason.encode(),))
        elif frames is not None:
            self._keep(done.result.task_id, TaskStatus.SUCCESS, frames, done.result.duration_us)

    @handles(ObjectResponse)
    def _large_is_here(self, response: ObjectResponse) -> None:
        """Handle the arrival of a large result from its agent, or its loss."""
        task_id = TaskId(response.object_id)
        frames, duration_us = self._large.come(response)
        if frames is not None:
            self._keep(task_id, TaskStatus.SUCCESS, frames, duration_us)
        else:
            self._make_again(task_id)

    @handles(ObjectLost)
    def _large_is_lost(self, lost: ObjectLost) -> None:
        if self._large.lose(lost.object_id):
            self._make_again(TaskId(lost.object_id))

    def _make_again(self, task_id: TaskId) -> None:
        """Run the row of a lost large result again, or fail it if it may run only once."""
        if self._standing.is_at_most_once:
            reason = f"its result was lost before it was on disk{NOT_AGAIN}"
            self._keep(task_id, TaskStatus.MISSING_OBJECTS, (reason.encode(),))
        else:
            self._take_back(index_of(task_id))

    @handles(SupplyObject)
    def _supply(self, _supply: SupplyObject) -> None:
        """Ignore the request: the object store has the bytes of all objects of the job."""

    def _take_back(self, row: int) -> None:
        if self._tasks.end(row):
            self._is_open_again(row)

    def _is_open_again(self, row: int) -> None:
        self._rows.take_back(row)
        self.go_on_soon()

    def _keep(self, task_id: TaskId, status: int, frames: Any, duration_us: int = 0) -> None:
        row = index_of(task_id)
        if self._tasks.end(row):
            self._end(RowResult(row, status, frames, 1, duration_us))

    def _end(self, piece: RowResult) -> None:
        if piece.status == TaskStatus.CANCELED and piece.row not in self._said.marks:
            self._is_open_again(piece.row)
            return
        self._results.append(piece)
        self.go_on_soon()

    def _write_results(self) -> None:
        if not self._results or self._standing.trouble or self._is_writing or self._desk.is_closing:
            return
        self._is_writing = True
        n_bytes, end = 0, 0
        while end < len(self._results) and n_bytes < GROUP_BYTES:
            n_bytes += sum(map(len, self._results[end].frames))
            end += 1
        results, self._results = self._results[:end], self._results[end:]

        def write() -> tuple[int, float, int]:
            self._record.add_results(results)
            return self._record.size_bytes, self._record.changed, self._record.duration_us

        self.order(write, partial(self._written, results))

    def _written(
        self, results: list[RowResult], known: tuple[int, float, int] | None, error: BaseException | None
    ) -> None:
        if known is None or self._standing.is_at_most_once:  # such results must not wait
            self._is_writing = False
        else:
            self.schedule(WRITE_SECONDS, JobDue(self._write_next))
        if known is None:
            self._results = [*results, *self._results]
            self._is_in_trouble(f"results cannot be written: {error}")
            return
        if self._told_trouble:
            self._told_trouble = ""
            logger.info("the job %s resumes", self._standing.terms.name)
        standing = self._standing
        standing.size_bytes, standing.changed, standing.duration_us = known
        self._said.have_ended(results)
        for new in standing.end(results):
            self._desk.reading.note(new)
        self.look()
        self._desk.answer_parked()
        self.go_on_soon()

    def _write_next(self) -> None:
        self._is_writing = False
        self.go_on_soon()

    def _is_in_trouble(self, reason: str) -> None:
        if reason != self._told_trouble:
            logger.error("the job %s pauses: %s", self._standing.terms.name, reason)
        if not self._standing.trouble:
            self.schedule(TRY_AGAIN_SECONDS, JobDue(self._try_again))
        self._standing.trouble = self._told_trouble = reason
        self._show_on_screens()
        self._desk.answer_parked()

    def _try_again(self) -> None:
        """Truncate the log of the record, and resume the job if it has disk space."""
        self.order(self._make_room, self._has_made_room, alone=True)

    def _make_room(self) -> int:
        """Truncate the log of the record. Called in the job writer's thread."""
        self._record.checkpoint()
        return self._record.size_bytes

    def _has_made_room(self, size_bytes: int | None, error: BaseException | None) -> None:
        standing = self._standing
        standing.size_bytes = standing.size_bytes if size_bytes is None else size_bytes
        standing.trouble = ""
        self._show_on_screens()
        why = self._shelf.why_full() or (f"it cannot be written: {error}" if error is not None else "")
        if why and standing.is_open:
            self._is_in_trouble(why)
            return
        self.look()
        self._load_objects()
        self._desk.answer_parked()
        self.go_on_soon()

    def _show_on_screens(self) -> None:
        self._shelf.seen[self._record.folder] = self._standing.summary()

    def look(self) -> None:
        """Check whether the job must pause, or has ended."""
        standing, why_stop = self._standing, self._standing.why_stop()
        self._show_on_screens()
        if self._shelf.why_full() and standing.is_open and standing.rows.n_open and not standing.trouble:
            standing.trouble = self._shelf.why_full()  # no writes until the size of the log is known
            self._try_again()
        failed, record = standing.rows.failed, self._record
        if why_stop:
            self.move(STOPPED, why_stop, lambda: record.failed >= failed)
        elif standing.is_open and self._is_finished():
            self.move(DONE, "", lambda: record.is_sealed and record.done + record.failed == record.rows)

    # Its end

    def move(self, state: str, reason: str, is_so: Callable[[], bool] = lambda: True) -> None:
        """Change the state on disk, then in memory; announced once it is durable. A failed write is tried again.

        Args:
            is_so: called by the job writer after all earlier orders: whether the reason still holds.
        """
        if self._is_moving or self._desk.is_closing:
            return
        self._is_moving, record = True, self._record

        def order() -> tuple[str, str]:
            if record.state == OPEN and is_so():
                record.move(state, reason)
            return record.state, record.reason

        self.order(order, self._moved)

    def _moved(self, state: tuple[str, str] | None, error: BaseException | None) -> None:
        self._is_moving = False
        if state is None:
            self._is_in_trouble(f"its state cannot be written: {error}")
            return
        self.enter(*state)
        if self._standing.is_open and self._is_finished() and not self._desk.is_closing:
            self.move(STOPPED, INCONSISTENT)
        self._desk.answer_parked()
        self.go_on_soon()

    def _is_finished(self) -> bool:
        return self._standing.is_sealed and not self._standing.rows.n_open

    def enter(self, state: str, reason: str) -> None:
        """Adopt the state that is on disk."""
        standing = self._standing
        is_change, standing.state, standing.reason = state != standing.state, state, reason
        self._show_on_screens()
        if not is_change:
            return
        if state == OPEN:
            self._load_objects()
            return
        logger.info("the job %s: %s%s", standing.terms.name, state, reason and f": {reason}")
        self._tasks.tell(CancelTask())
        self._has_objects = False
        self._services.object_store.send(OwnerLeft(self._client_id))

    # What clients ask

    @handles(RequestJob)
    def _asked(self, asked: RequestJob) -> None:
        self._asked_until_now += 1
        self._desk.ask(asked)

    @handles(ReaderLeft)
    def _reader_left(self, left: ReaderLeft) -> None:
        self._desk.leave(left.session)

    @handles(OwnersChanged)
    def _owners_changed(self, _news: OwnersChanged) -> None:
        """Pause if the owner is locked out now, and resume if the owner no longer is."""
        standing, lockout = self._standing, self._shelf.lockout(self._standing.terms)
        if lockout == standing.lockout:
            return
        standing.lockout = lockout
        if standing.is_open:
            logger.warning(
                "the job %s %s", standing.terms.name, f"pauses: {lockout.reason}" if lockout else "continues"
            )
            if lockout is not None:
                self.end_tasks(waiting=lockout.is_expiry)
        self._show_on_screens()
        self._desk.answer_parked()
        self.go_on_soon()

    def end_tasks(self, *, waiting: bool = False) -> None:
        """Cancel all submitted rows, or with `waiting` only those that have not started."""
        self._tasks.tell(CancelTask(waiting))

    def store(self, objects: list[JobObject]) -> None:
        """Store functions and values of rows in the object store."""
        store_objects(objects, self._client_id, self._context.owner, self.actor_ref, self._services.object_store)

    def has_unwritten(self) -> bool:
        """Return whether rows have ended whose results are not on disk."""
        return bool(self._results or self._is_writing)

    def has_begun(self) -> bool:
        """Return whether a worker has had a row under this scheduler."""
        return self._context.has_begun

    def is_settling(self) -> bool:
        """Return whether rows submitted before the job ended may still fail: a retry would miss them."""
        is_ending = not self._standing.is_open or self._standing.lockout is not None
        return is_ending and bool(self._tasks or self._results or self._is_writing)

    def reopen(self, rows: list[int], n_done: int = 0) -> None:
        """Run ended rows again. `n_done`: how many of them had succeeded."""
        self._standing.reopen(rows, n_done)
        self._said.afresh.update(rows)

    # From inside the scheduler

    @handles(ChildFailed)
    def _child_failed(self, failed: ChildFailed) -> None:
        sentence = f"the scheduler failed while it handled this row: {failed.error!r}".encode()
        first = self._tasks.key_of(failed.child)
        if first is not None:
            rows = range(first, first + self._tasks.ranges.get(first, 1))
            self._tasks.end(first)
            for row in rows:
                self._end(RowResult(row, TaskStatus.INTERNAL_ERROR, (sentence,)))

    @handles(BalancerRestarted)
    def _balancer_restarted(self, restarted: BalancerRestarted) -> None:
        self._tasks.tell(restarted)

    def on_stop(self) -> None:
        self._leave()

    def on_failure(self, _type: object, _error: BaseException | None, _traceback: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._context.owner.leave(self.actor_ref)
        for task in self._tasks.take_all():
            task.send(CancelTask())
        self._services.directory.accounts.close(self._client_id)
        self._services.object_store.send(OwnerLeft(self._client_id))
        shelf, record = self._shelf, self._record
        shelf.order(self._keeper, None, lambda: shelf.folder.shut(record), lambda _nothing, _error: None)
        self._keeper.send(JobEnded(self.actor_ref))
