"""Job: the actor of one job: it says open rows to tasks, has results written, and tells who asks.

Written to by the job keeper (what clients ask, and that one has left), its tasks, the object store (large results) and
the clerk; sends to these and, through the outbox, to clients. No connection owns it. It lives as a client session does
among tasks: each row is a task of its own, whose id is the prefix of the job and the number of the row, so a new
scheduler says the same rows again, and agents' runs of them are adopted.

Must never: tell anybody of a row before its result is on disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, TypeVar

from scaler.actors.jobs.answers import info_of, refused, said_max_failures
from scaler.actors.jobs.open_rows import NextRows, OpenRows
from scaler.actors.jobs.reading import ATTEND, Reading
from scaler.actors.jobs.row_sizes import RowSizes, pieces_of
from scaler.actors.jobs.shelf import JobShelf
from scaler.actors.jobs.values_of_rows import LargeResults, store_objects
from scaler.actors.messages.adoption import AgentsAreBack
from scaler.actors.messages.jobs import GoOn, JobAsked, JobEnded, Obeyed, ReaderLeft, Rest, TryAgain, WriteNext
from scaler.actors.messages.objects import ObjectLost, OwnerLeft, SupplyObject, ValueRefused
from scaler.actors.messages.tasks import BalancerRestarted, BeginRun, CancelTask, RunHeld, RunNotBegun, TaskDone
from scaler.actors.peers.owners import UNBOUNDED, RoomInQuota
from scaler.actors.services import Services
from scaler.actors.tasks.adoption import HOLD_SECONDS
from scaler.actors.tasks.client_context import Begun, ClientContext
from scaler.actors.tasks.open_tasks import OpenTasks
from scaler.actors.tasks.retries import NOT_AGAIN
from scaler.actors.tasks.task import TaskActor
from scaler.ids import ClientId, ObjectId, TaskId, random_id
from scaler.jobs.record import (
    CANCELED,
    DONE,
    FAILURES_SHOWN,
    OPEN,
    STOPPED,
    JobRecord,
    JobTerms,
    Object,
    Result,
    Summary,
)
from scaler.jobs.values import Arguments, Row
from scaler.kit import Actor, ActorRef, ChildFailed, handles
from scaler.wire.messages.client import JobResponse, JobVerb, Task, TaskResult
from scaler.wire.messages.common import ObjectResponse, TaskStatus
from scaler.wire.messages.rows import PREFIX_BYTES, ROWS_MOST, calls_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

WINDOW_ROWS = 8192
"""The most rows that are said at once: their actors take memory, and their agents must be known to a new scheduler."""

SAID_AT_ONCE = 256
"""So many tasks are made in one turn."""

FIRST_ROWS, FIRST_PER_WORKER = 64, 8
"""So many rows are said, and for each worker, before it is known how long one takes: each is a task of its own."""

WRITE_SECONDS = 0.05
"""So long results wait after others are on disk: to have few on disk costs as much as to have many."""

TRY_AGAIN_SECONDS = 2.0
"""How long it waits after the disk has failed."""

REST_SECONDS = 60.0
"""How long a job that is not open stays in memory, with its file, when nobody asks for it."""

RETRIES = 2
"""In the amount of `OPEN`: failed rows are to run again."""


class JobActor(Actor):
    """One job.

    Args:
        record: of the job, open for writing. Only the clerk touches it.
        rows: what is in it.
        keeper: the job keeper.
        is_new: whether no scheduler has said its rows before.
    """

    def __init__(
        self, record: JobRecord, rows: OpenRows, shelf: JobShelf, services: Services, keeper: ActorRef, is_new: bool
    ) -> None:
        self._record, self._shelf, self._services, self._keeper = record, shelf, services, keeper
        self._rows = rows
        self.terms = record.terms
        self._state, self._reason, self._is_sealed = record.state, record.reason, record.is_sealed
        self._size_bytes, self._changed, self._duration_us = 0, record.changed, record.duration_us
        self._failures = list(record.first_failures)
        self._max_failures = self.terms.max_failures
        self._is_new = is_new
        self._has_objects = is_new
        """whether the object store has its functions"""
        self._marks = set(record.marked)
        """for `at_most_once`: rows that are marked on disk, because they may have begun"""
        self._held: dict[int, RunHeld] = {}
        """rows that are about to begin, and wait for their marks"""
        self._afresh: set[int] = set()
        """rows that have failed and are to run again: what agents may have of them is how they have failed"""
        self._results: list[Result] = []
        """of rows that have ended, and that the clerk does not have"""
        self._is_writing = False
        self._readers: dict[ActorRef, None] = {}
        """sessions of clients without which it does not go on: an ordered set"""
        self._reading = Reading(record, rows, self._order, self._tell)
        self._trouble = self._told_trouble = ""
        """why nothing can be written at the moment, and what the log has of it"""
        self._is_loading = self._is_going_on = self._has_turn = False
        self._is_closing = False
        """whether its record is being closed, to be removed or given away"""
        self._orders = self._asked_until_now = 0
        """how many orders the clerk has, and questions that came since it was last seen whether there are any"""
        self._verbs: dict[int, Callable[[JobAsked], None]] = {
            JobVerb.OPEN: self._attach,
            JobVerb.ROWS: self._take_rows,
            JobVerb.OBJECT: self._take_object,
            JobVerb.SEAL: self._seal,
            JobVerb.READ: self._read,
            JobVerb.READ_NEW: lambda asked: self._reading.read_new(asked, is_open=self._state == OPEN),
            JobVerb.SHOW: self._show,
            JobVerb.FAILURES: self._reading.read_failures,
            JobVerb.RETRY: self._retry,
            JobVerb.CANCEL: self._cancel,
            JobVerb.FORGET: self._forget,
            JobVerb.LEAVE: self._leave_job,
            JobVerb.GIVE: self._give,
        }

    _context: ClientContext
    """of its tasks, from its start"""
    _tasks: OpenTasks[int]
    """of rows, by the numbers of these"""

    def on_start(self) -> None:
        terms, services = self.terms, self._services
        client_id = self._client_id = ClientId(random_id())
        owner, label = services.directory.owners.of(terms.owner), f"job {terms.name}"
        account = services.directory.accounts.open(client_id, owner, label=label)
        is_asked = not (self._is_new or self._shelf.is_shared)  # the agents of a local cluster end with its scheduler
        adoption = services.adoption if is_asked else None
        self._context = ClientContext(services, self.actor_ref, client_id, account, adoption, label)
        self._tasks = OpenTasks[int](owner)
        self._large = LargeResults(self.actor_ref, client_id, owner, services.object_store)
        self._context.open_rows = self._open_rows
        options = services.read_options(terms.options)
        self._sizes = RowSizes(self._most_together() if options.suit_rows else 1)
        self._is_at_most_once, self._options_again = options.at_most_once, options.said_again()
        self._context.notes_begins = self._is_at_most_once
        self._context_afresh = copy(self._context)
        self._context_afresh.adoption = None
        if adoption is not None:
            patience = services.config.client_timeout_seconds if self._is_at_most_once else HOLD_SECONDS
            self.schedule(patience, AgentsAreBack())
        self._show_on_screens()
        self._load_objects()
        self._go_on_soon()
        self.schedule(REST_SECONDS, Rest())

    def _most_together(self) -> int:
        config, owner = self._services.config, self._context.owner
        is_bounded = config.max_number_of_tasks_waiting >= 0 or owner.has_quota
        return 1 if is_bounded else min(config.rows_per_task, config.per_worker_queue_size, ROWS_MOST)

    def _load_objects(self) -> None:
        if not self._has_objects and self._state == OPEN:
            self._order(self._record.objects, self._objects_are_here)

    @handles(AgentsAreBack)
    def _agents_are_back(self, _news: AgentsAreBack) -> None:
        """No agent has a run of its new tasks, or, unless they may run once, what one may still have is not awaited."""
        self._context.adoption = None

    def _order(self, order: Callable[[], Any], then: Callable[[Any, BaseException | None], None]) -> None:
        self._orders += 1
        self._shelf.order(self.actor_ref, self._record, order, then)

    @handles(Obeyed)
    def _obeyed(self, news: Obeyed) -> None:
        self._orders -= 1
        news.then(news.value, news.error)

    @handles(Rest)
    def _rest(self, rest: Rest) -> None:
        """Leave memory if it has ended and nobody asks for it any more."""
        is_idle = not (self._orders or self._tasks or self._results or self._reading.parked or self._asked_until_now)
        self._asked_until_now = 0
        if is_idle and self._state != OPEN:
            self.stop_now()
        else:
            self.schedule(REST_SECONDS, rest)

    def _objects_are_here(self, objects: list[Object] | None, error: BaseException | None) -> None:
        if objects is None:
            self._stop_for(f"its functions cannot be read: {error}")
            return
        if self._state != OPEN:
            return
        self._store(objects)
        self._has_objects = True
        self._go_on_soon()

    def _store(self, objects: Sequence[Object]) -> None:
        store_objects(objects, self._client_id, self._context.owner, self.actor_ref, self._services.object_store)

    # Rows to tasks

    def _may_go_on(self) -> bool:
        is_wanted = not self.terms.is_attended or bool(self._readers)
        return is_wanted and self._has_objects and self._state == OPEN and not self._trouble

    def _go_on_soon(self) -> None:
        if not self._is_going_on:
            self._is_going_on = True
            self.actor_ref.send(GoOn())

    @handles(GoOn)
    def _go_on(self, _go_on: GoOn) -> None:
        self._is_going_on = False
        self._write_results()
        if self._state != OPEN and not self._is_settling():
            self._answer_parked()
        if not self._may_go_on():
            return
        if self._held:
            held, self._held = self._held, {}
            self._order(lambda: self._record.mark(held), partial(self._are_marked, held))
        n_said, size = 0, 1 if self._context.adoption is not None else self._sizes.size(self._rows.n_open)
        room = min(self._window() - self._rows.n_said, SAID_AT_ONCE * size, self._room_in_quota())
        if room <= 0:
            return
        while n_said < room and (taken := self._rows.take(min(size, room - n_said))) is not None:
            n_said += taken.n_rows
            if taken.n_rows > 1:
                self._say_together(taken)
            else:
                self._say(taken.first, taken.arguments.one(taken.at))
        if n_said:
            self._go_on_soon()
            return
        first = self._rows.next_range()
        if first is not None and not self._is_loading:
            self._is_loading = True
            self._order(lambda: self._record.rows_of(first), partial(self._loaded, first))

    def _room_in_quota(self) -> int:
        """Return how many rows may be said by the quota of its owner. Without room it waits for its turn.

        Agents may have any of its rows while it has an adoption: these are not held up.
        """
        owner, rows = self._context.owner, self._rows
        if not owner.has_quota or self._context.adoption is not None:
            return UNBOUNDED
        room = owner.room_for_one() if self._has_turn or not owner.is_awaited else 0
        if not room and rows.n_open > rows.n_said:
            owner.wait(self.actor_ref)
            if not self._tasks:
                self._say_over_quota(f"{owner.why_full()}: rows wait")
        return room

    @handles(RoomInQuota)
    def _has_room_in_quota(self, _news: RoomInQuota) -> None:
        self._has_turn = True
        self._go_on(GoOn())
        self._has_turn = False
        self._context.owner.wake()  # others, if there is still room

    @handles(ValueRefused)
    def _value_refused(self, refused: ValueRefused) -> None:
        self._say_over_quota(refused.reason)

    def _say_over_quota(self, why: str) -> None:
        owner, name = self._context.owner.name, self._context.label
        self._services.audit("over quota", owner, owner=owner, name=name, why=why)

    def _window(self) -> int:
        workers = self._services.directory.workers
        return WINDOW_ROWS if self._sizes.is_known else min(FIRST_ROWS + FIRST_PER_WORKER * workers, WINDOW_ROWS)

    @handles(RunHeld)
    def _is_held(self, held: RunHeld) -> None:
        """A row that may run once is about to begin: when that is on disk."""
        self._held[self._row_of(held.task_id)] = held
        self._go_on_soon()

    def _are_marked(self, held: dict[int, RunHeld], _nothing: None, error: BaseException | None) -> None:
        if error is not None:
            self._held = {**held, **self._held}
            self._is_in_trouble(f"rows cannot be marked: {error}")
            return
        self._marks.update(held)
        for each in held.values():
            each.worker.send(BeginRun(each.task_id, each.attempt))

    @handles(RunNotBegun)
    def _has_not_begun(self, news: RunNotBegun) -> None:
        """Such a row has come back from its worker."""
        row = self._row_of(news.task_id)
        self._marks.discard(row)
        if self._held.pop(row, None) is None:
            self._order(lambda: self._record.mark((), (row,)), lambda _nothing, _error: None)

    def _loaded(self, first: int, arguments: Arguments | None, error: BaseException | None) -> None:
        self._is_loading = False
        if arguments is None:
            self._stop_for(f"the arguments of the rows from {first} on cannot be read: {error}")
            return
        self._rows.load(first, arguments)
        self._go_on_soon()

    def _say(self, row: int, arguments: Row) -> None:
        terms = self.terms
        task_id = TaskId(terms.prefix + row.to_bytes(8, "big"))
        payload, object_ids, frames = arguments
        options = self._options_again if row in self._marks else terms.options
        task = Task(
            task_id, ObjectId(terms.function_id), payload, object_ids, terms.priority, terms.task_name, options,
            self._context.account, frames,
        )  # fmt: skip
        context = self._context
        if row in self._afresh:
            self._afresh.discard(row)
            context = self._context_afresh
        self._tasks.add(row, self.spawn(TaskActor(task, context)))

    def _say_together(self, taken: NextRows) -> None:
        terms, first, n_rows = self.terms, taken.first, taken.n_rows
        payload = taken.arguments.cut(taken.at, taken.at + n_rows)
        task = Task(
            TaskId(terms.prefix + first.to_bytes(8, "big")), ObjectId(terms.function_id), payload, b"", terms.priority,
            terms.task_name, terms.options, self._context.account, (), n_rows,
        )  # fmt: skip
        self._tasks.add(first, self.spawn(TaskActor(task, self._context)), n_rows)

    def _open_rows(self, context: ClientContext, spec: Task, begun: Begun) -> Sequence[ActorRef]:
        """Called by a worker proxy or a task: see `ClientContext.split`."""
        first = self._row_of(spec.task_id)
        if first not in self._tasks.ranges:
            return ()
        rows = [self.spawn(TaskActor(row, context, begun=begun)) for row in calls_of(spec)]
        self._tasks.open(first, dict(enumerate(rows, first)))
        return rows

    # Results to the record

    @handles(TaskResult)
    def _ended(self, result: TaskResult) -> None:
        if result.duration_us:
            self._sizes.learn(result.rows or 1, result.duration_us)
        if not result.rows:
            self._keep(result.task_id, result.status, (result.payload,), result.duration_us)
            return
        first = self._row_of(result.task_id)
        if first not in self._tasks.ranges:
            return
        self._tasks.end(first)
        for piece in pieces_of(result):
            self._end(piece)

    @handles(TaskDone)
    def _ended_with_frames(self, done: TaskDone) -> None:
        if self._row_of(done.result.task_id) not in self._tasks:
            return
        frames, reason = self._large.take(done.result.task_id, done.frames)
        if reason:
            self._keep(done.result.task_id, TaskStatus.MISSING_OBJECTS, (reason.encode(),))
        elif frames is not None:
            self._keep(done.result.task_id, TaskStatus.SUCCESS, frames, done.result.duration_us)

    @handles(ObjectResponse)
    def _large_is_here(self, response: ObjectResponse) -> None:
        """The bytes of a large result have come from its agent, or are lost."""
        task_id = TaskId(response.object_id)
        frames = self._large.come(response)
        if frames is not None:
            self._keep(task_id, TaskStatus.SUCCESS, frames)
        else:
            self._make_again(task_id)

    @handles(ObjectLost)
    def _large_is_lost(self, lost: ObjectLost) -> None:
        if self._large.lose(lost.object_id):
            self._make_again(TaskId(lost.object_id))

    def _make_again(self, task_id: TaskId) -> None:
        """A large result is gone, and its row runs again if it may."""
        if self._is_at_most_once:
            reason = f"its result was lost before it was on disk{NOT_AGAIN}"
            self._keep(task_id, TaskStatus.MISSING_OBJECTS, (reason.encode(),))
        else:
            self._take_back(self._row_of(task_id))

    @handles(SupplyObject)
    def _supply(self, _supply: SupplyObject) -> None:
        """Never needed: all that it stores has its bytes."""

    def _row_of(self, task_id: bytes) -> int:
        return int.from_bytes(task_id[PREFIX_BYTES:], "big")

    def _take_back(self, row: int) -> None:
        if self._tasks.end(row):
            self._is_open_again(row)

    def _is_open_again(self, row: int) -> None:
        self._rows.take_back(row)
        self._go_on_soon()

    def _keep(self, task_id: TaskId, status: int, frames: Any, duration_us: int = 0) -> None:
        row = self._row_of(task_id)
        if self._tasks.end(row):
            self._end(Result(row, status, frames, 1, duration_us))

    def _end(self, piece: Result) -> None:
        if piece.status == TaskStatus.CANCELED and piece.row not in self._marks:
            self._is_open_again(piece.row)
            return
        self._results.append(piece)
        self._go_on_soon()

    def _write_results(self) -> None:
        if not self._results or self._trouble or self._is_writing or self._is_closing:
            return
        self._is_writing = True
        results, self._results = self._results, []

        def write() -> tuple[int, float, int]:
            self._record.add_results(results)
            return self._record.size_bytes, self._record.changed, self._record.duration_us

        self._order(write, partial(self._written, results))

    def _written(
        self, results: list[Result], known: tuple[int, float, int] | None, error: BaseException | None
    ) -> None:
        if known is None or self._is_at_most_once:  # its next rows wait for room among those that are marked
            self._is_writing = False
        else:
            self.schedule(WRITE_SECONDS, WriteNext())
        if known is None:
            self._results = [*results, *self._results]
            self._is_in_trouble(f"results cannot be written: {error}")
            return
        if self._told_trouble:
            self._told_trouble = ""
            logger.info("the job %s goes on", self.terms.name)
        self._size_bytes, self._changed, self._duration_us = known
        for result in results:
            row, is_failure = result.row, result.status != TaskStatus.SUCCESS
            self._marks.discard(row)
            new = self._rows.end(row, result.n_rows, is_failure=is_failure)
            self._reading.note(new)
            if new and is_failure and len(self._failures) < FAILURES_SHOWN:
                self._failures.append(result)
        self._look_at_room()
        self._look_at_failures()
        self._look_at_end()
        self._answer_parked()
        self._go_on_soon()

    @handles(WriteNext)
    def _write_next(self, _next: WriteNext) -> None:
        self._is_writing = False
        self._go_on_soon()

    def _is_in_trouble(self, reason: str) -> None:
        if reason != self._told_trouble:
            logger.error("the job %s pauses: %s", self.terms.name, reason)
        if not self._trouble:
            self.schedule(TRY_AGAIN_SECONDS, TryAgain())
        self._trouble = self._told_trouble = reason
        self._answer_parked()

    @handles(TryAgain)
    def _try_again(self, _again: TryAgain) -> None:
        self._trouble = ""
        if self._shelf.why_full():
            self._is_in_trouble(self._shelf.why_full())
            return
        self._go_on_soon()

    def _show_on_screens(self) -> None:
        rows = self._rows
        self._shelf.seen[self._record.folder] = Summary(
            self.terms, self._state, self._reason or self._trouble, self._is_sealed, rows.rows, rows.done, rows.failed,
            self._size_bytes, self._changed, tuple(self._failures), rows.n_said,
        )  # fmt: skip

    def _look_at_room(self) -> None:
        self._show_on_screens()
        why = self._shelf.why_full()
        if why and self._state == OPEN and self._rows.n_open:
            self._is_in_trouble(why)

    # Its end

    def _look_at_failures(self) -> None:
        most, failed, ended = self._max_failures, self._rows.failed, self._rows.done + self._rows.failed
        if most is None or self._state != OPEN:
            return
        allowed = most if most >= 1 or most == 0 else most * ended
        if failed > allowed and (most >= 1 or most == 0 or ended >= 100):
            self._move(STOPPED, f"{failed} of {ended} rows that have ended have failed, and at most {most:g} may")

    def _look_at_end(self) -> None:
        if self._state == OPEN and self._is_sealed and not self._rows.n_open:
            self._move(DONE)

    def _move(self, state: str, reason: str = "") -> None:
        """The state is another one from now on. It is told when it is on disk."""
        self._state, self._reason = state, reason
        self._show_on_screens()
        if state == OPEN:
            self._load_objects()
        else:
            self._tasks.tell(CancelTask())
            self._has_objects = False
            self._services.object_store.send(OwnerLeft(self._client_id))
        self._order(lambda: self._record.move(state, reason), self._moved)

    def _moved(self, _nothing: None, error: BaseException | None) -> None:
        if error is not None:
            logger.error("the state of the job %s cannot be written: %s", self.terms.name, error)
        elif self._state != OPEN:
            logger.info("the job %s: %s%s", self.terms.name, self._state, self._reason and f": {self._reason}")
        self._answer_parked()

    def _stop_for(self, reason: str) -> None:
        self._move(STOPPED, reason)

    # What clients ask

    @handles(JobAsked)
    def _asked(self, asked: JobAsked) -> None:
        self._asked_until_now += 1
        if not self._is_closing:  # else the job keeper asks it again
            self._verbs[asked.request.verb](asked)

    def _tell(self, asked: JobAsked, response: JobResponse) -> None:
        self._shelf.unanswered.pop((asked.session, asked.request.number), None)
        self._services.outbox.put(asked.peer, response)

    def _attach(self, asked: JobAsked) -> None:
        """Somebody has opened it: with all ranges, so that its rows can be compared."""
        wish = asked.request.amount
        if wish & RETRIES and self._is_settling():
            self._park_or_refuse(asked)
            return
        if wish:
            self._max_failures = said_max_failures(asked.request, self._max_failures)
            self._attend(asked)
        if wish & RETRIES and self._rows.failed:
            self._order(self._reopen_failed, partial(self._reopened, asked))
        else:
            self._reopened(asked, [], None)

    def _reopen_failed(self) -> list[int]:
        """Called by the clerk. Of rows that may run once, only those run again that no worker has had."""
        return self._record.reopen_failed(TaskStatus.NO_WORKER if self._is_at_most_once else None)

    def _park_or_refuse(self, asked: JobAsked) -> None:
        if self._trouble:
            self._tell(asked, refused(asked.request, self._trouble))
        else:
            self._reading.park(asked)

    def _is_settling(self) -> bool:
        """Return whether rows that were said before it ended may still fail: these would not run again."""
        return self._state != OPEN and bool(self._tasks or self._results or self._is_writing)

    def _attend(self, asked: JobAsked) -> None:
        if self.terms.is_attended and asked.session not in self._readers:
            self._readers[asked.session] = None
            self._go_on_soon()

    def _reopened(self, asked: JobAsked, rows: list[int] | None, error: BaseException | None) -> None:
        if rows is None:
            self._tell(asked, refused(asked.request, f"its failed rows cannot be opened: {error}"))
            return
        if asked.request.amount:
            self._open_again(rows)

        def read() -> tuple[Any, set[bytes]]:
            return list(self._record.ranges.values()), self._record.object_ids()

        self._order(read, partial(self._told_all, asked))

    def _open_again(self, rows: list[int]) -> None:
        """These rows have failed, and the job goes on, if it may."""
        self._rows.reopen(rows)
        self._afresh.update(rows)
        again = set(rows)
        self._failures = [each for each in self._failures if each.row not in again]
        if rows or self._state in (CANCELED, STOPPED):
            self._move(OPEN)
        self._show_on_screens()
        self._look_at_failures()
        self._look_at_end()
        self._go_on_soon()

    def _told_all(self, asked: JobAsked, known: tuple[Any, set[bytes]] | None, error: BaseException | None) -> None:
        if known is None:
            self._tell(asked, refused(asked.request, f"the job cannot be read: {error}"))
            return
        info = self._info()
        info["ranges"] = [[each.first, each.n_rows, each.digest.hex()] for each in known[0]]
        info["objects"] = [each.hex() for each in known[1]]
        self._tell(asked, info_of(asked.request, info))

    def _info(self) -> dict[str, Any]:
        terms, rows = self.terms, self._rows
        return {
            "name": terms.name, "owner": terms.owner, "function": terms.function, "program": terms.program,
            "python": terms.python, "fingerprint": terms.fingerprint, "attended": terms.is_attended,
            "created": terms.created, "state": self._state, "reason": self._reason, "sealed": self._is_sealed,
            "rows": rows.rows, "done": rows.done, "failed": rows.failed, "said": rows.n_said,
            "bytes": self._size_bytes, "trouble": self._trouble, "log": self._reading.log_id,
            "logged": self._reading.n_noted, "readers": len(self._readers), "seconds": self._duration_us / 1e6,
        }  # fmt: skip

    def _written_for(self, asked: JobAsked, _value: Any, error: BaseException | None) -> None:
        if error is not None:
            self._tell(asked, refused(asked.request, f"it cannot be kept: {error}"))
        else:
            self._tell(asked, info_of(asked.request, self._info()))
            self._answer_parked()
        self._go_on_soon()

    def _take_rows(self, asked: JobAsked) -> None:
        request = asked.request
        why = self._shelf.why_full() or ("" if len(request.frames) == 1 else "its rows did not come whole")
        if why:
            self._tell(asked, refused(request, why))
            return
        block = request.frames[0]

        def write() -> tuple[bool, int]:
            return self._record.add_range(request.first, request.amount, request.body, block), self._record.size_bytes

        self._order(write, partial(self._rows_are_kept, asked))

    def _rows_are_kept(self, asked: JobAsked, kept: tuple[bool, int] | None, error: BaseException | None) -> None:
        if kept is not None:
            if kept[0]:
                self._rows.add(asked.request.first, asked.request.amount)
            self._size_bytes = kept[1]
            self._look_at_room()
        self._written_for(asked, None, error)

    def _take_object(self, asked: JobAsked) -> None:
        request = asked.request
        new = Object(request.body, request.amount, "", tuple(request.frames))

        def write() -> JobTerms:
            self._record.add_object(new)
            return self._record.terms

        def then(terms: JobTerms | None, error: BaseException | None) -> None:
            if terms is not None:
                self.terms = terms
                self._store([new])
            self._written_for(asked, None, error)

        self._order(write, then)

    def _seal(self, asked: JobAsked) -> None:
        def then(value: Any, error: BaseException | None) -> None:
            self._is_sealed = error is None
            self._look_at_end()
            self._written_for(asked, value, error)

        self._order(self._record.seal, then)

    def _read(self, asked: JobAsked) -> None:
        if asked.request.body == ATTEND:
            self._attend(asked)
        # No row beyond these ends before somebody does something.
        end = 0 if self._state != OPEN else self._rows.rows if self._is_sealed else None
        self._reading.read(asked, end)

    def _show(self, asked: JobAsked) -> None:
        if asked.request.amount and self._state == OPEN:
            self._reading.park(asked)
        else:
            self._tell(asked, info_of(asked.request, self._info()))

    def _retry(self, asked: JobAsked) -> None:
        if self._is_settling():
            self._park_or_refuse(asked)
            return

        def then(rows: list[int] | None, error: BaseException | None) -> None:
            if rows == [] and self._state == DONE and self._rows.failed:
                why = f"the {self._rows.failed} rows that have failed are not run again: they may have begun, and have"
                self._tell(asked, refused(asked.request, f"{why} the option at_most_once"))
                return
            if rows is not None:
                self._open_again(rows)
            self._written_for(asked, None, error)

        self._order(self._reopen_failed, then)

    def _cancel(self, asked: JobAsked) -> None:
        if self._state == OPEN:
            self._move(CANCELED, "by its user")
        self._order(lambda: None, partial(self._written_for, asked))

    def _forget(self, asked: JobAsked) -> None:
        self._state = CANCELED
        self._tasks.tell(CancelTask())
        self._answer_parked()
        folder, record = self._shelf.folder, self._record

        def is_gone(_nothing: None) -> None:
            self._shelf.seen.pop(record.folder, None)

        self._close(asked, lambda: folder.remove(record), is_gone)

    def _give(self, asked: JobAsked) -> None:
        """It belongs to somebody else, who opens it anew."""
        folder, record, owner = self._shelf.folder, self._record, asked.request.body.decode(errors="replace")
        if owner == self.terms.owner:  # it was given before, and the answer was lost
            self._tell(asked, info_of(asked.request, self._info()))
            return
        if self._state == OPEN:
            self._tell(asked, refused(asked.request, "the job goes on: cancel it, give it, and have it go on (retry)"))
            return

        def is_given(given: Summary) -> None:
            seen = self._shelf.seen
            seen.pop(record.folder, None)
            seen[folder.place_of(given.terms.owner, given.terms.name)] = given

        self._close(asked, lambda: folder.give(record, owner), is_given)

    def _close(self, asked: JobAsked, order: Callable[[], T], is_done: Callable[[T], None]) -> None:
        """Have the record closed, after all that was ordered before. Nothing else is written or answered."""
        self._is_closing = True

        def then(value: T, error: BaseException | None) -> None:
            if error is None:
                is_done(value)
            self._tell(asked, refused(asked.request, str(error)) if error else info_of(asked.request, self._info()))
            self.stop_now()

        self._orders += 1
        self._shelf.order(self.actor_ref, None, order, then)

    def _leave_job(self, asked: JobAsked) -> None:
        self._detach(asked.session)
        self._tell(asked, info_of(asked.request, self._info()))

    @handles(ReaderLeft)
    def _reader_left(self, left: ReaderLeft) -> None:
        self._reading.leave(left.session)
        self._detach(left.session)

    def _detach(self, session: ActorRef) -> None:
        if self._readers.pop(session, self) is None and not self._readers:
            # Nobody is attached: what runs goes on to its end, and what only waits does not begin.
            self._tasks.tell(CancelTask(waiting=True))

    def _answer_parked(self) -> None:
        for asked in self._reading.take_parked():
            self._verbs[asked.request.verb](asked)

    # From inside the scheduler

    @handles(ChildFailed)
    def _child_failed(self, failed: ChildFailed) -> None:
        sentence = f"the scheduler failed at this row: {failed.error!r}".encode()
        first = self._tasks.key_of(failed.child)
        if first is not None:
            rows = range(first, first + self._tasks.ranges.get(first, 1))
            self._tasks.end(first)
            for row in rows:
                self._end(Result(row, TaskStatus.INTERNAL_ERROR, (sentence,)))

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
