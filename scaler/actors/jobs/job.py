"""Job: the actor of one job, which submits rows as tasks, passes results to the job writer, and answers clients.

Receives messages from the job keeper, its tasks, the object store (large results) and the job writer. Sends to these
and, through the outbox, to clients. No connection owns a job. Tasks of a job report to the job, not to a session.

A task's id is the prefix of the job's version and the number of the row. So a new scheduler submits a row with the same
id, and can adopt a run of the row that an agent holds. Runs of an earlier version are never adopted.

A result or a state takes effect in memory, and is announced, only after the job writer has written it to disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from scaler.actors.jobs.job_catalog import JobCatalog
from scaler.actors.jobs.job_requests import JobRequests
from scaler.actors.jobs.job_state import JobState
from scaler.actors.jobs.row_values import JobResults, store_objects
from scaler.actors.jobs.submitted_rows import RowSizes, SubmittedRows, pieces_of
from scaler.actors.messages.adoption import FindRuns, NotHeld, RunsAreHeld
from scaler.actors.messages.jobs import ContinueJob, JobDue, JobEnded, OrderDone, OwnersChanged, ReaderLeft, RequestJob
from scaler.actors.messages.objects import ObjectLost, OwnerLeft, SupplyObject, ValueRefused
from scaler.actors.messages.tasks import (
    BalancerRestarted,
    CancelTask,
    RangeEnded,
    RunNotStarted,
    StartRequested,
    StartRun,
    TaskDone,
)
from scaler.actors.tasks.adoption import HOLD_SECONDS
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.tasks.retries import NOT_RETRIED
from scaler.actors.vocabulary.owners import UNBOUNDED, RoomInQuota
from scaler.actors.vocabulary.services import Services
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
"""Limit of submitted rows that have not ended. Each row takes memory, and agents report it to a new scheduler."""

SUBMITTED_AT_ONCE = 256
"""Limit of the tasks that a job submits in one turn."""

FIRST_ROWS, FIRST_PER_WORKER = 64, 8
"""Limit of submitted rows while their duration is unknown; `FIRST_PER_WORKER` is added for each worker."""

WRITE_SECONDS = 0.05
"""Pause between two writes of results, because writing a few results costs as much as writing many."""

GROUP_BYTES = 1024 * 1024
"""Size at which a group of results is full; `--keep-bytes` may be exceeded by one group."""

TRY_AGAIN_SECONDS = 2.0
"""Pause before a failed write to the disk is retried."""

PROGRAM_SECONDS = 10.0
"""Time for programs to reconnect after a start of the scheduler. A job that then has no program counts as idle."""

WRITE_ANEW = "Run its program again with the same rows, which rewrites them"

INCONSISTENT = (
    "its record is damaged: the number of results on disk does not match the number of ended rows. Read the results "
    'on disk; then forget the job, or run its program again with on_change="restart"'
)
"""Why a job is stopped if all its rows have ended, but the disk has more or fewer results than rows."""

REST_SECONDS = 20.0
"""A job that cannot run leaves memory after one to two intervals of this length without a request."""


class JobActor(Actor):
    """Runs one job: submits its rows, passes their results to the job writer, and answers requests about it.

    Args:
        record: the record of the job, open for writing. Only the job writer uses it.
    """

    def __init__(
        self, record: JobRecord, job_state: JobState, catalog: JobCatalog, services: Services, keeper: ActorRef
    ) -> None:
        self._record, self._catalog, self._services, self._keeper = record, catalog, services, keeper
        self._state, self._rows = job_state, job_state.rows
        self._has_objects = job_state.is_new
        self._held: dict[int, StartRequested] = {}
        """for `at_most_once`: starts of rows that are held until the starts are recorded on disk"""
        self._results: list[RowResult] = []
        self._is_writing = self._is_loading = self._will_continue = self._has_turn = self._is_moving = False
        self._is_reading_objects = False
        self._awaits_agents = False
        """whether agents that may hold rows have yet to return; the quota of the owner applies after that"""
        self._n_at_agents = 0
        """the number of rows held by agents; these rows have started, so they are submitted even above the quota"""
        self._logged_trouble = ""
        """the last logged reason for a pause; empty after results have been written again"""
        self._orders = self._asked_until_now = 0
        """two numbers: unanswered orders at the job writer, and requests since the last call of `_rest`"""

    _context: ClientContext
    _tasks: OpenTasks[int]

    def on_start(self) -> None:
        terms, services, client_id = self._state.terms, self._services, ClientId(random_id())
        self._client_id, options = client_id, services.read_options(terms.options)
        owner, label = services.directory.owners.of(terms.owner), f"job {terms.name}"
        account = services.directory.accounts.open(client_id, owner, label=label)
        # The agents of a local cluster end with its scheduler.
        is_asked = not (self._state.is_new or self._state.is_new_version or self._catalog.is_shared)
        adoption = services.adoption if is_asked else None
        what = (client_id, account, adoption, label, self._rows.live)
        self._context = ClientContext(services, self.actor_ref, *what)
        self._context.records_starts = self._state.is_at_most_once = options.at_most_once
        self._state.lockout = self._catalog.lockout(terms)
        self._tasks = OpenTasks[int](owner)
        self._submitted = SubmittedRows(self.spawn, self._context, self._tasks, options.resubmitted(), self._record)
        self._large = JobResults(self.actor_ref, client_id, owner, services.object_store)
        self._sizes = RowSizes(self._most_together() if options.suit_rows else 1)
        self._requests = JobRequests(
            self, self._record, self._state, self._catalog, services.outbox, services.read_options
        )
        if adoption is not None and owner.has_quota:
            self._awaits_agents = True
            adoption.send(FindRuns(owner.tag, self.actor_ref, prefix=terms.prefix))
        if is_asked:
            patience = services.config.client_timeout_seconds if options.at_most_once else HOLD_SECONDS
            self.schedule(patience, JobDue(self._end_adoption))
        self.look()  # its last scheduler may have died between its last result and its end
        self._load_objects()
        self._report_lost()
        self.continue_soon()
        self.schedule(PROGRAM_SECONDS, JobDue(self._no_longer_fresh))
        self.schedule(REST_SECONDS, JobDue(self._rest))

    def _report_lost(self) -> None:
        """Log which acknowledged changes the disk has lost. If the job has the option `at_most_once`, stop the job."""
        lost = self._record.lost
        if lost:
            logger.error("the job %s: %s", self._state.terms.name, lost)
            if self._state.is_at_most_once and self._state.is_open:
                self.move(STOPPED, f"{lost}; its rows may have started, and have the option at_most_once")

    def _no_longer_fresh(self) -> None:
        self._state.is_fresh = False
        self._requests.answer_parked()

    def _most_together(self) -> int:
        config, owner = self._services.config, self._context.owner
        is_bounded = config.max_number_of_tasks_waiting >= 0 or owner.has_quota
        return 1 if is_bounded else min(config.rows_per_task, config.per_worker_queue_size, ROWS_MOST)

    def _load_objects(self) -> None:
        if not self._has_objects and self._state.is_open and not self._is_reading_objects:
            self._is_reading_objects = True
            self.order(self._record.objects, self._objects_read)

    def _end_adoption(self) -> None:
        """Stop looking for runs that agents may have, because all agents have had the time to return."""
        self._context.adoption = None
        self._n_at_agents = 0

    def order(
        self, order: Callable[[], Any], then: Callable[[Any, BaseException | None], None], *, alone: bool = False
    ) -> None:
        """Run an order in the job writer, then call `then` in this actor. `alone`: outside of a transaction."""
        self._orders += 1
        record = self._record

        def obey() -> tuple[Any, list[RowResult]]:
            return order(), record.take_damaged()

        def receive(found: tuple[Any, list[RowResult]] | None, error: BaseException | None) -> None:
            value, damaged = found or (None, [])
            if damaged:
                self._lose(damaged)
            then(value, error)

        self._catalog.order(self.actor_ref, None if alone else record, obey, receive)

    def _lose(self, damaged: list[RowResult]) -> None:
        """Handle rows with damaged results: the rows run again if a map waits for them, else they count as failed."""
        job_state, rows = self._state, [each.row for each in damaged]
        what = f"the results of {len(rows)} rows on disk are damaged or missing; the first is row {rows[0]}"
        logger.error("the job %s: %s", job_state.terms.name, what)
        if job_state.terms.is_attended and not job_state.is_at_most_once and self._requests.is_wanted:
            self._requests.reading.to_run_again.update(rows)
            self.order(lambda: self._reopen(rows), partial(self._has_reopened, damaged))
        else:
            job_state.lose(damaged)
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
        self._requests.reading.to_run_again.difference_update(rows)
        if state is not None:
            self.reopen(rows, len(rows))
            self.enter(*state)
        else:
            self._state.lose(damaged)
            logger.error("the job %s: rows cannot run again: %s", self._state.terms.name, error)
        self._requests.answer_parked()
        self.continue_soon()

    @handles(OrderDone)
    def _order_done(self, news: OrderDone) -> None:
        self._orders -= 1
        news.then(news.value, news.error)

    @handles(JobDue)
    def _due(self, due: JobDue) -> None:
        due.then()

    def _rest(self) -> None:
        """Leave memory if the job cannot run and no request arrived."""
        is_needed = self._asked_until_now or self._requests.reading.parked or self._requests.may_run
        self._asked_until_now = 0
        if is_needed or self._orders or self._tasks or self._results:
            self.schedule(REST_SECONDS, JobDue(self._rest))
        else:
            self.stop_now()

    def _objects_read(self, objects: list[JobObject] | None, error: BaseException | None) -> None:
        self._is_reading_objects = False
        if objects is None and not isinstance(error, (RecordError, ValueError)):
            self._pause(f"its functions cannot be read: {error}")
            return
        if objects is None:
            self.move(STOPPED, f"its functions cannot be read: {error}. {WRITE_ANEW}")
            return
        if not self._state.is_open:
            return
        self.store(objects)
        self._has_objects = True
        self.continue_soon()

    # Rows to tasks

    def _may_submit(self) -> bool:
        job_state = self._state
        return self._requests.is_wanted and self._has_objects and job_state.is_open and not job_state.why_paused

    def continue_soon(self) -> None:
        """Submit more rows, and pass results to the job writer, once the mailbox is empty."""
        if not self._will_continue:
            self._will_continue = True
            self.actor_ref.send(ContinueJob())

    @handles(ContinueJob)
    def _continue(self, _continue: ContinueJob) -> None:
        self._will_continue = False
        self._write_results()
        if (not self._state.is_open or self._state.lockout is not None) and not self.is_settling():
            self._requests.answer_parked()
        if not self._may_submit():
            return
        if self._held:
            held, self._held = self._held, {}
            self.order(lambda: self._record.mark(held), partial(self._starts_recorded, held))
        n_submitted, size = 0, 1 if self._context.adoption is not None else self._sizes.size(self._rows.n_open)
        room = min(self._window() - self._rows.live.handed_out, SUBMITTED_AT_ONCE * size, self._room_in_quota())
        if room <= 0:
            return
        while n_submitted < room and (taken := self._rows.take(min(size, room - n_submitted))) is not None:
            n_submitted += taken.n_rows
            self._submitted.submit(self._state.terms, taken)
        self._n_at_agents = max(0, self._n_at_agents - n_submitted)
        if n_submitted:
            self.continue_soon()
            return
        first = self._rows.next_range()
        if first is not None and not self._is_loading:
            self._is_loading = True
            self.order(lambda: self._record.rows_of(first), partial(self._loaded, first))

    def _room_in_quota(self) -> int:
        """Return how many rows may be submitted within the owner's quota. With 0, the job waits for its turn.

        Rows that agents hold do not wait. They are the first open rows, because rows are submitted in order.
        """
        owner, rows = self._context.owner, self._rows
        if not owner.has_quota:
            return UNBOUNDED
        if self._n_at_agents or self._awaits_agents:
            return self._n_at_agents
        room = owner.room_for_one() if self._has_turn or not owner.is_awaited else 0
        if not room and rows.n_open > rows.live.handed_out:
            owner.wait(self.actor_ref)
            if not self._tasks:
                self._audit_over_quota(f"{owner.why_full()}: rows wait")
        return room

    @handles(RunsAreHeld)
    def _runs_are_held(self, news: RunsAreHeld) -> None:
        if self._context.adoption is None:
            return
        rows, held = self._rows, map(index_of, news.task_ids)
        self._n_at_agents += sum(
            row < rows.rows and row not in self._tasks and not rows.ended_from(row, 1) for row in held
        )
        self.continue_soon()

    @handles(NotHeld)
    def _not_held(self, _news: NotHeld) -> None:
        """Apply the quota to the rows that have not been submitted, because all agents have returned."""
        self._awaits_agents = False
        self.continue_soon()

    @handles(RoomInQuota)
    def _has_room_in_quota(self, _news: RoomInQuota) -> None:
        self._has_turn = True
        self._continue(ContinueJob())
        self._has_turn = False
        self._context.owner.wake()  # other waiting jobs and sessions, if the quota has capacity left

    @handles(ValueRefused)
    def _value_refused(self, refused: ValueRefused) -> None:
        self._audit_over_quota(refused.reason)

    def _audit_over_quota(self, why: str) -> None:
        owner, name = self._context.owner.name, self._context.label
        self._services.audit("over quota", owner, owner=owner, name=name, why=why)

    def _window(self) -> int:
        workers = self._services.directory.workers
        return WINDOW_ROWS if self._sizes.is_known else min(FIRST_ROWS + FIRST_PER_WORKER * workers, WINDOW_ROWS)

    @handles(StartRequested)
    def _start_requested(self, held: StartRequested) -> None:
        self._held[index_of(held.task_id)] = held
        self.continue_soon()

    def _starts_recorded(self, held: dict[int, StartRequested], _nothing: None, error: BaseException | None) -> None:
        if error is not None:
            self._held = {**held, **self._held}
            self._pause(f"rows cannot be marked: {error}")
            return
        self._submitted.marks.update(held)
        for each in held.values():
            each.worker.send(StartRun(each.task_id, each.attempt))

    @handles(RunNotStarted)
    def _run_not_started(self, news: RunNotStarted) -> None:
        """Remove the mark of an at-most-once row that a worker returned without having started the row."""
        row = index_of(news.task_id)
        self._submitted.marks.discard(row)
        if self._held.pop(row, None) is None:
            self.order(lambda: self._record.mark((), (row,)), lambda _nothing, _error: None)

    def _loaded(self, first: int, arguments: Arguments | None, error: BaseException | None) -> None:
        self._is_loading = False
        if arguments is None and not isinstance(error, (RecordError, ValueError)):
            self._pause(f"the arguments of the rows from {first} on cannot be read: {error}")
            return
        if arguments is None:
            self.move(STOPPED, f"the arguments of the rows from {first} on cannot be read: {error}. {WRITE_ANEW}")
            return
        self._rows.load(first, arguments)
        self.continue_soon()

    # Results to the record

    @handles(TaskResult)
    def _ended(self, result: TaskResult) -> None:
        if self._tasks.end(index_of(result.task_id)):
            self._take(result)

    def _take(self, result: TaskResult) -> None:
        """Keep the result of a task that has ended, or of some of its rows."""
        if result.duration_us:
            self._sizes.learn(result.rows or 1, result.duration_us)
        for piece in pieces_of(result):
            self._end(piece)

    @handles(RangeEnded)
    def _range_ended(self, ended: RangeEnded) -> None:
        """Keep the results of rows of a range that has ended early, and submit those that return."""
        running = None if ended.running is None else index_of(ended.running.task_id)
        is_canceled = self._tasks.end_range(index_of(ended.first), running)
        if is_canceled is not False:
            ended.context.cancel_unstarted(each.spec for each in ended.returned)
        if is_canceled is None:
            return
        for result in ended.results:
            self._take(result)
        for returned in ended.returned:
            if is_canceled:
                self._rows.requeue(index_of(returned.spec.task_id), returned.spec.rows or 1)
            else:
                self._submitted.open(returned, ended.context)

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
    def _large_arrived(self, response: ObjectResponse) -> None:
        """Record a large result that has arrived from its agent. If the result is lost, run its row again."""
        task_id = TaskId(response.object_id)
        frames, duration_us = self._large.receive(response)
        if frames is not None:
            self._keep(task_id, TaskStatus.SUCCESS, frames, duration_us)
        else:
            self._rerun_lost(task_id)

    @handles(ObjectLost)
    def _large_lost(self, lost: ObjectLost) -> None:
        if self._large.lose(lost.object_id):
            self._rerun_lost(TaskId(lost.object_id))

    def _rerun_lost(self, task_id: TaskId) -> None:
        """Run the row of a lost large result again, or fail the row if it may run only once."""
        if self._state.is_at_most_once:
            reason = f"its result was lost before it was on disk{NOT_RETRIED}"
            self._keep(task_id, TaskStatus.MISSING_OBJECTS, (reason.encode(),))
        else:
            self._end_and_requeue(index_of(task_id))

    @handles(SupplyObject)
    def _supply(self, _supply: SupplyObject) -> None:
        """Ignore a request for the bytes of an object: the object store has all objects of the job."""

    def _end_and_requeue(self, row: int) -> None:
        if self._tasks.end(row):
            self._requeue(row)

    def _requeue(self, row: int) -> None:
        self._rows.requeue(row)
        self.continue_soon()

    def _keep(self, task_id: TaskId, status: int, frames: Any, duration_us: int = 0) -> None:
        row = index_of(task_id)
        if self._tasks.end(row):
            self._end(RowResult(row, status, frames, 1, duration_us))

    def _end(self, piece: RowResult) -> None:
        if piece.status == TaskStatus.CANCELED and piece.row not in self._submitted.marks:
            self._requeue(piece.row)
            return
        self._results.append(piece)
        self.continue_soon()

    def _write_results(self) -> None:
        if not self._results or self._state.trouble or self._is_writing or self._requests.is_closing:
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
        if known is None or self._state.is_at_most_once:  # such results must not wait
            self._is_writing = False
        else:
            self.schedule(WRITE_SECONDS, JobDue(self._write_next))
        if known is None:
            self._results = [*results, *self._results]
            self._pause(f"results cannot be written: {error}")
            return
        if self._logged_trouble:
            self._logged_trouble = ""
            logger.info("the job %s resumes", self._state.terms.name)
        job_state = self._state
        job_state.size_bytes, job_state.changed, job_state.duration_us = known
        self._submitted.have_ended(results)
        job_state.end(results)
        self.look()
        self._requests.answer_parked()
        self.continue_soon()

    def _write_next(self) -> None:
        self._is_writing = False
        self.continue_soon()

    def _pause(self, reason: str) -> None:
        if reason != self._logged_trouble:
            logger.error("the job %s pauses: %s", self._state.terms.name, reason)
        if not self._state.trouble:
            self.schedule(TRY_AGAIN_SECONDS, JobDue(self._try_again))
        self._state.trouble = self._logged_trouble = reason
        self._show_on_screens()
        self._requests.answer_parked()

    def _try_again(self) -> None:
        """Truncate the log of the record, and resume the job if it has disk space."""
        self.order(self._free_space, self._space_freed, alone=True)

    def _free_space(self) -> int:
        """Truncate the log of the record. Called in the job writer's thread."""
        self._record.checkpoint()
        return self._record.size_bytes

    def _space_freed(self, size_bytes: int | None, error: BaseException | None) -> None:
        job_state = self._state
        job_state.size_bytes = job_state.size_bytes if size_bytes is None else size_bytes
        job_state.trouble = ""
        self._show_on_screens()
        why = self._catalog.why_full() or (f"it cannot be written: {error}" if error is not None else "")
        if why and job_state.is_open:
            self._pause(why)
            return
        self.look()
        self._load_objects()
        self._requests.answer_parked()
        self.continue_soon()

    def _show_on_screens(self) -> None:
        self._catalog.seen[self._record.folder] = self._state.summary()

    def look(self) -> None:
        """Check whether the job must pause, or has ended."""
        job_state, why_stop = self._state, self._state.why_stop()
        self._show_on_screens()
        if self._catalog.why_full() and job_state.is_open and job_state.rows.n_open and not job_state.trouble:
            job_state.trouble = self._catalog.why_full()  # no writes until the size of the log is known
            self._try_again()
        failed, record = job_state.rows.failed, self._record
        if why_stop:
            self.move(STOPPED, why_stop, lambda: record.failed >= failed)
        elif job_state.is_open and self._is_finished():
            self.move(DONE, "", lambda: record.is_sealed and record.done + record.failed == record.rows)

    # Its end

    def move(self, state: str, reason: str, is_so: Callable[[], bool] = lambda: True) -> None:
        """Change the state on disk, then in memory, and announce the new state. A failed write is retried.

        Args:
            is_so: returns whether the change is still due; called by the job writer after all earlier orders.
        """
        if self._is_moving or self._requests.is_closing:
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
            self._pause(f"its state cannot be written: {error}")
            return
        self.enter(*state)
        if self._state.is_open and self._is_finished() and not self._requests.is_closing:
            self.move(STOPPED, INCONSISTENT)
        self._requests.answer_parked()
        self.continue_soon()

    def _is_finished(self) -> bool:
        return self._state.is_sealed and not self._state.rows.n_open

    def enter(self, state: str, reason: str) -> None:
        """Set the state in memory to the given state, which is on disk."""
        job_state = self._state
        is_change, job_state.state, job_state.reason = state != job_state.state, state, reason
        self._show_on_screens()
        if not is_change:
            return
        if state == OPEN:
            self._load_objects()
            return
        logger.info("the job %s: %s%s", job_state.terms.name, state, reason and f": {reason}")
        self.end_tasks()
        self._has_objects = False
        self._services.object_store.send(OwnerLeft(self._client_id))

    # What clients ask

    @handles(RequestJob)
    def _asked(self, asked: RequestJob) -> None:
        self._asked_until_now += 1
        self._requests.ask(asked)

    @handles(ReaderLeft)
    def _reader_left(self, left: ReaderLeft) -> None:
        self._requests.leave(left.session)

    @handles(OwnersChanged)
    def _owners_changed(self, _news: OwnersChanged) -> None:
        job_state, lockout = self._state, self._catalog.lockout(self._state.terms)
        if lockout == job_state.lockout:
            return
        job_state.lockout = lockout
        if job_state.is_open:
            logger.warning("the job %s %s", job_state.terms.name, f"pauses: {lockout.reason}" if lockout else "resumes")
            if lockout is not None:
                self.end_tasks(waiting=lockout.is_expiry)
        self._show_on_screens()
        self._requests.answer_parked()
        self.continue_soon()

    def end_tasks(self, *, waiting: bool = False) -> None:
        """Cancel submitted rows. `waiting`: only rows that have not started."""
        for key in self._tasks:
            self._tasks.cancel(key, CancelTask(waiting))

    def store(self, objects: list[JobObject]) -> None:
        """Store functions and values of rows in the object store."""
        whose = (self._client_id, self._context.owner, self.actor_ref)
        store_objects(objects, self._state.terms.function, *whose, self._services.object_store)

    def has_unwritten(self) -> bool:
        """Return whether the result of any ended row is not on disk yet."""
        return bool(self._results or self._is_writing)

    def has_started(self) -> bool:
        """Return whether this scheduler has assigned a row to a worker."""
        return self._context.has_started

    def is_settling(self) -> bool:
        """Return whether the job has ended but submitted rows may still fail; a retry now would miss these rows."""
        is_ending = not self._state.is_open or self._state.lockout is not None
        return is_ending and bool(self._tasks or self._results or self._is_writing)

    def reopen(self, rows: list[int], n_done: int = 0) -> None:
        """Mark ended rows as open, so that they run again. `n_done`: how many of the rows had succeeded."""
        self._state.reopen(rows, n_done)
        self._submitted.reopened.update(rows)

    def check(self) -> None:
        self._rows.check()
        self._tasks.check()

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
        catalog, record = self._catalog, self._record
        catalog.order(self._keeper, None, lambda: catalog.folder.shut(record), lambda _nothing, _error: None)
        self._keeper.send(JobEnded(self.actor_ref))
