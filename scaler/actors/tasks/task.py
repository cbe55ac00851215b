"""Task: one actor for each task, from its submission to its end.

Receives messages from its client session (cancel), the balancer, and the proxy of its worker. Sends to these, and to
the object store if the task needs objects. No other actor counts the attempts of a task.

If the client had another scheduler before, the task may adopt a run that an agent has. In this case, the adoption and
other worker proxies also send messages to the task. `task_states` decides the next state. Messages about old attempts
are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scaler.actors.messages.adoption import AdoptRun, FindRun, NotHeld, RunAdopted, RunFound
from scaler.actors.messages.monitor import ReportTask
from scaler.actors.messages.objects import CountArguments, ReleaseObjects, UseObjects
from scaler.actors.messages.tasks import (
    FIRST_TRY,
    BalancerRestarted,
    CancelOrphan,
    CancelRun,
    CancelTask,
    ExplainRun,
    ExplainTask,
    ExplainWaiting,
    RangeEnded,
    RangeRefused,
    RecallRun,
    RetryDue,
    ReturnedRows,
    RunLost,
    RunNotStarted,
    RunRecalled,
    TaskAssigned,
    TaskDone,
    TaskNotWaiting,
    TaskReady,
    TaskRefused,
    TaskWithdrawn,
    WithdrawTask,
)
from scaler.actors.objects.located import bytes_in
from scaler.actors.tasks.client_context import ClientContext
from scaler.actors.tasks.retries import NOT_RETRIED, STARTED, delay_seconds, retry_reason
from scaler.actors.tasks.waits import explain_unassigned
from scaler.actors.vocabulary import task_states as states
from scaler.actors.vocabulary.events import BROKE, SEEN, SUBMITTED, TaskMoved
from scaler.actors.vocabulary.needs import Needs
from scaler.actors.vocabulary.task_states import (
    EVENT_OF_STATUS,
    FINISHED,
    RUNNING,
    SUCCEEDED,
    TRANSITIONS,
    Event,
    State,
)
from scaler.ids import is_later
from scaler.kit import Actor, ActorRef, handles
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import Frames, size_of
from scaler.wire.messages.accounts import owner_of
from scaler.wire.messages.client import Task, TaskResult
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.rows import calls_of, part_of, row_ids, row_of, rows_of
from scaler.wire.messages.worker import RunResult

REASON_BYTES_MOST = 400
"""An event contains at most this many bytes of a text from a worker, since a peer may send a text of any length."""

_SUCCESS = TaskStatus.SUCCESS
_WITHOUT_SENTENCE = (TaskStatus.SUCCESS, TaskStatus.FAILED)


class TaskActor(Actor):
    """Takes one task through its states: finds a worker, retries, and reports the result."""

    _retries = 0
    """number of retries after the function raised"""

    _tries = FIRST_TRY
    """the number of the current try, and why the earlier tries ended"""

    _crashes = 0

    _suspect = -1
    """the last attempt that counted as a crash because its worker was lost; not a crash if that worker returns"""

    _lost_in_transit = 0
    """how many agents in a row were lost while they received this task's `RunTask`, or a large value for the task"""

    _adopted = -1

    _first_attempt: int | None = None
    """the first attempt of the task; None while the present attempt is the first"""

    _is_unstarted = False
    """whether the task was submitted before, and this scheduler knows that it did not start"""

    _only_waited = False
    """whether the task was cancelled while it waited, and has not been assigned since"""

    _wanted: ExplainTask | None = None
    """the latest `explain` question of a client that waits for the result in `result()`"""

    _unwanted: int | None = None
    """the attempt that was recalled in order to cancel the task; if it is returned unstarted, the task is cancelled"""

    _returned: ReturnedRows | None = None
    """the rows that the task consists of, if they were in a range that has ended early"""

    def __init__(
        self, spec: Task, context: ClientContext, near_worker: ActorRef | None = None, goes_first: bool = False
    ) -> None:
        self._near_worker = near_worker
        self._goes_first = goes_first
        self._spec = spec
        self._context = context
        self._state = states.READY
        self._worker: ActorRef | None = None
        self._attempt = context.next_attempt()
        self._offer: RunFound | None = None
        """the run that the task has requested from a worker proxy, until the proxy answers"""

    @classmethod
    def of_returned(cls, returned: ReturnedRows, context: ClientContext) -> TaskActor:
        """Return the task of rows of a range that has ended early. It is placed before newer tasks."""
        task = cls(returned.spec, context, goes_first=True)
        task._returned = returned
        if returned.event is not None:
            task._state, task._worker, task._attempt = RUNNING, returned.worker, returned.event.attempt
            task._count_at_worker(returned.spec.rows or 1)
        return task

    def on_start(self) -> None:
        spec, context = self._spec, self._context
        if spec.object_ids:
            context.object_store.send(UseObjects(spec.object_ids))
        if spec.frames:
            context.object_store.send(CountArguments(size_of(spec.frames), context.owner))
        if self._returned is not None:
            self._start_returned(self._returned)
            return
        if context.events.followed is not None:
            self._report_if_followed(SUBMITTED)
        if spec.options:
            self._is_unstarted = context.directory.unstarted.take(spec.task_id)
        if spec.rows or (context.adoption is None and not (spec.options and self._may_have_been_started())):
            self._report_ready(self._goes_first, True)
        else:
            self._move(states.ASKED)

    def _start_returned(self, returned: ReturnedRows) -> None:
        event = returned.event
        if isinstance(event, RunLost):
            self._lost(event)
        elif event is not None:
            self._finished(event)
        else:
            if self._context.events.listener is not None:
                self._report_move(states.RECALLED, None, None)
            self._report_ready(goes_first=True, is_new=False)

    # Events

    @handles(TaskAssigned)
    def _assigned(self, assigned: TaskAssigned) -> None:
        attempt = assigned.attempts[self._actor_ref]
        if attempt != self._attempt:
            assigned.worker.send(CancelRun(self._spec.task_id, attempt))
            return
        self._worker = assigned.worker
        context = self._context
        context.has_started = True
        if context.live is not None:
            self._count_at_worker(self._spec.rows or 1)
        if self._offer is not None:  # it may have started there
            self._drop_offer()
        self._move(states.ASSIGNED, None, assigned.worker)

    @handles(TaskRefused)
    def _refused(self, refused: TaskRefused) -> None:
        if refused.attempt == self._attempt:
            self._move(states.REFUSED, self._failed_result(refused.sentence, TaskStatus.NO_WORKER))

    @handles(RunResult)
    def _finished(self, result: RunResult) -> None:
        worker = self._worker
        if result.attempt != self._attempt or worker is None:
            return
        if self._spec.rows and (result.running or (result.statuses and self._spec.options)):
            self._end_range(result, worker)
            return
        event = EVENT_OF_STATUS[result.status]
        if event is not FINISHED:  # after a success, the end reports the worker
            self._leave_worker()
            event, result = self._failure(event, result)
        self._move(event, result, worker)

    def _failure(self, event: Event, result: RunResult) -> tuple[Event, RunResult]:
        """Return the event and the result to handle for a run that did not succeed."""
        if result.status == TaskStatus.MISSING_OBJECTS and result.attempt == self._adopted:
            return states.STOPPED, result  # only the last scheduler had the objects: the task did not start
        if event in STARTED and self._must_not_run_again():
            status = TaskStatus(result.status) if event is states.CRASHED else STARTED[event]
            return states.GIVEN_UP, self._given_up(result.payload.decode("utf-8", "replace"), status)
        if event is states.CRASHED and self._count_crash():
            event = states.CRASHED_TOO_OFTEN
        elif event is states.RAISED and self._spec.options:
            options = self._context.read_options(self._spec.options)
            reason = retry_reason(options, result, self._retries)
            if reason:
                return states.RETRIED, replace(result, payload=reason.encode())
        return event, result

    def _wait_for_retry(self) -> None:
        options = self._context.read_options(self._spec.options)
        self.schedule(delay_seconds(options, self._retries), RetryDue())
        self._retries += 1

    @handles(RetryDue)
    def _retry_due(self, _due: RetryDue) -> None:
        self._move(states.DUE)

    @handles(RunLost)
    def _lost(self, lost: RunLost) -> None:
        worker = self._worker
        if lost.attempt != self._attempt or worker is None:
            return
        if self._spec.rows and lost.was_ordered and self._state is RUNNING:  # it is unknown which row ran
            self._return_rows([ReturnedRows(row, lost, worker) for row in calls_of(self._spec)])
            return
        self._leave_worker()
        sentence, status = f"its worker {lost.worker_name} was lost", TaskStatus.WORKER_DIED
        if lost.was_ordered and self._must_not_run_again():
            self._move(states.GIVEN_UP, self._given_up(sentence, status), worker)
            return
        self._report_not_started()
        event = states.LOST
        self._lost_in_transit = self._lost_in_transit + 1 if lost.was_unacknowledged else 0
        if lost.was_running:
            self._suspect = lost.attempt
            event = states.LOST_TOO_OFTEN if self._count_crash() else states.LOST
        elif self._lost_in_transit >= TRIES_MOST:  # the task may be the cause
            event = states.LOST_TOO_OFTEN
            were_lost = f"{TRIES_MOST} agents in a row were lost"
            sentence += f": {were_lost} while it, or a value for it, was being sent to them"
        self._move(event, self._failed_result(sentence, status), worker)

    @handles(RunRecalled)
    def _recalled(self, returned: RunRecalled) -> None:
        worker, attempt = self._worker, self._attempt
        if returned.attempt == attempt and worker is not None:
            self._leave_worker()
            self._report_not_started()
            self._move(states.RECALLED, None, worker)
            self._cancel_if_unwanted(attempt)

    def _cancel_if_unwanted(self, attempt: int) -> None:
        """Cancel the task if it is ready to run again after `attempt`, and this attempt is the unwanted one."""
        if attempt == self._unwanted and self._state is states.READY:
            self._only_waited = True
            self._move(states.CANCEL)

    def _leave_worker(self) -> None:
        self._worker = None
        self._count_at_worker(-(self._spec.rows or 1))

    def _count_at_worker(self, rows: int) -> None:
        """Count this task, or some of its rows, as being at a worker; a negative number subtracts rows."""
        if self._context.live is not None:
            self._context.live.running += rows

    def _report_not_started(self) -> None:
        if self._context.records_starts:
            self._context.session.send(RunNotStarted(self._spec.task_id))

    # Ranges that end early

    @handles(RangeRefused)
    def _range_refused(self, refused: RangeRefused) -> None:
        if refused.attempt == self._attempt and self._state is states.READY:
            self._return_rows([ReturnedRows(row) for row in calls_of(self._spec)])

    def _end_range(self, result: RunResult, worker: ActorRef) -> None:
        """Report the rows that have ended, go on as the running row, and return all other rows to the session or job.

        Rows that have failed and may be retried are returned together with their failure.
        """
        spec = self._spec
        results, returned = self._ended_rows(result, worker)
        first, row = result.rows, result.running - 1
        for begin, end in ((first, row), (row + 1, spec.rows)) if result.running else ():
            if end - begin > 1 and self._returned is not None:  # they return for the second time
                returned += [ReturnedRows(each) for each in calls_of(part_of(spec, begin, end - begin))]
            elif end > begin:
                returned.append(ReturnedRows(part_of(spec, begin, end - begin)))
        self._return_rows(returned, results, part_of(spec, row, 1) if result.running else None)

    def _ended_rows(self, result: RunResult, worker: ActorRef) -> tuple[list[TaskResult], list[ReturnedRows]]:
        """Report the rows that have ended, and return their results, and the rows that are retried."""
        spec, result = self._spec, replace(result, running=0)
        options = self._context.read_options(spec.options) if spec.options and result.statuses else None
        final: list[TaskResult] = []
        retried: list[ReturnedRows] = []
        for each in rows_of(result) if options is not None or result.rows < 2 else [result]:
            if each.status and options is not None and retry_reason(options, each, 0):
                retried.append(ReturnedRows(self._part_of(each), each, worker))
                continue
            self._report_ended_rows(each, worker)
            self._context.ended_of.count(self._spec.function_id, each.status, each.rows or 1, each.statuses)
            what = each.task_id, each.status, each.payload, 0, b"", each.rows, each.statuses, each.duration_us
            final.append(TaskResult(*what))
        return final, retried

    def _part_of(self, result: RunResult) -> Task:
        row = row_of(self._spec, result.task_id)
        assert row is not None
        return part_of(self._spec, row, result.rows or 1)

    def _report_ended_rows(self, result: RunResult, worker: ActorRef) -> None:
        events, has_failed = self._context.events, result.status or result.statuses
        if not (has_failed or events.followed) or events.listener is None:
            return
        if has_failed or any(row in (events.followed or ()) for row in row_ids(result.task_id, result.rows)):
            event, state = EVENT_OF_STATUS[result.status], states.FAILED if result.status else SUCCEEDED
            shown = states.shown_state(state, result.status)
            self._send_moved(event, shown, worker, result.failure, result, self._part_of(result))

    def _return_rows(
        self, returned: list[ReturnedRows], results: Sequence[TaskResult] = (), running: Task | None = None
    ) -> None:
        """End the range. The task goes on as the row `running`, if any."""
        context, spec = self._context, self._spec
        if context.session.is_stopped():
            context.cancel_unstarted(each.spec for each in returned)
        context.session.send(RangeEnded(context, spec.task_id, results, running, returned))
        if self._worker is not None:
            self._count_at_worker((running is not None) - spec.rows)
        if spec.frames:
            kept = 0 if running is None else size_of(running.frames)
            context.object_store.send(CountArguments(kept - size_of(spec.frames), context.owner))
        if running is None:
            self.stop_now()
            return
        self._spec = running
        if self._state is states.CANCELING:  # the worker proxy had no such run yet
            self._enter_canceling()

    @handles(CancelTask)
    def _cancel(self, cancel: CancelTask) -> None:
        if not cancel.waiting or self._state in (states.READY, states.DELAYED):
            self._only_waited = self._state is states.READY
            self._move(states.CANCEL)
        elif self._worker is not None and self._state is RUNNING:
            self._unwanted = self._attempt
            self._worker.send(RecallRun(self._spec.task_id, self._attempt))
        elif self._state in (states.RETURNING, states.LEAVING):  # a run at an agent may continue
            self._unwanted = self._attempt

    @handles(TaskWithdrawn)
    def _withdrawn(self, _withdrawn: TaskWithdrawn) -> None:
        if self._only_waited and self._state is states.WITHDRAWING and self._is_at_most_once():
            self._context.directory.unstarted.add(self._spec.task_id)
        self._move(states.WITHDRAWN)

    @handles(TaskNotWaiting)
    def _not_waiting(self, _not_waiting: TaskNotWaiting) -> None:
        self._move(states.NOT_WAITING)

    @handles(BalancerRestarted)
    def _balancer_restarted(self, restarted: BalancerRestarted) -> None:
        if not is_later(self._attempt, restarted.attempt):
            self._move(states.BALANCER_RESTARTED)

    def _failed_result(self, sentence: str, status: TaskStatus) -> RunResult:
        return RunResult(self._spec.task_id, 0, self._attempt, status, sentence.encode(), 0, ())

    def _count_crash(self) -> bool:
        """Count a crash of this task's processor or worker. Return whether the crash limit is reached."""
        self._crashes += 1
        return self._crashes >= self._context.services.config.crash_limit

    # Adoption of a run

    @handles(RunFound)
    def _found(self, found: RunFound) -> None:
        task_id = self._spec.task_id
        self._lost_in_transit = 0  # its agent lives
        if found.attempt == self._suspect:
            self._suspect = -1
            self._crashes -= 1
        if self._state is states.READY or (self._state is states.RETURNING and self._offer is None):
            self._offer = found
            self._move(states.FOUND)
        else:
            found.worker.send(CancelOrphan(task_id, found.attempt))

    @handles(RunAdopted)
    def _run_adopted(self, adopted: RunAdopted) -> None:
        if self._state is not states.RETURNING:
            adopted.worker.send(CancelRun(self._spec.task_id, adopted.attempt))
            return
        self._offer = None
        self._keep_first_attempt()
        self._worker, self._attempt, self._adopted = adopted.worker, adopted.attempt, adopted.attempt
        self._context.has_started = True
        self._count_at_worker(self._spec.rows or 1)
        self._move(states.ADOPTED, None, adopted.worker)

    @handles(NotHeld)
    def _not_held(self, _not_held: NotHeld) -> None:
        self._has_no_run("its scheduler has ended, and no worker that has returned has it")

    def _has_no_run(self, sentence: str) -> None:
        if self._state is states.RETURNING and self._may_have_been_started():
            self._move(states.GIVEN_UP, self._given_up(sentence, TaskStatus.NOT_FOUND))
        else:
            attempt = self._attempt
            self._move(states.NOT_HELD)
            self._cancel_if_unwanted(attempt)

    def _enter_returning(self) -> None:
        """Request the offered run from its worker proxy; without an offer, request a run from the adoption, if any."""
        context, spec, offer = self._context, self._spec, self._offer
        if offer is not None:
            offer.worker.send(AdoptRun(self.actor_ref, spec, offer.attempt, context.account, self._needs()))
        elif context.adoption is not None:
            context.adoption.send(
                FindRun(
                    owner_of(context.account),
                    spec.task_id,
                    self.actor_ref,
                    self._is_at_most_once() and self._may_have_been_started(),
                )
            )
        else:
            self._has_no_run("the session in which it was submitted has ended, and its result with it")

    def _drop_offer(self) -> None:
        if self._offer is not None:
            what = self._spec.task_id, self._offer.attempt
            self._offer.worker.send(CancelRun(*what))  # ignored unless the worker proxy has given the run to this task
            self._offer.worker.send(CancelOrphan(*what))
            self._offer = None

    # At most once

    def _is_at_most_once(self) -> bool:
        options = self._spec.options
        return bool(options) and self._context.read_options(options).at_most_once

    def _must_not_run_again(self) -> bool:
        """Return whether the task must not start again after a run that ended without a result."""
        return self._is_at_most_once() or self._may_have_been_started()

    def _may_have_been_started(self) -> bool:
        """Return whether an earlier session or scheduler may have started the task, so that it must not start here."""
        options = self._spec.options
        return bool(options) and self._context.read_options(options).was_submitted and not self._is_unstarted

    def _given_up(self, sentence: str, status: TaskStatus) -> RunResult:
        return self._failed_result(sentence + NOT_RETRIED, status)

    # States

    def _move(self, event: Event, result: RunResult | None = None, worker: ActorRef | None = None) -> None:
        """Change the state according to the table. `worker`: the worker that had this attempt."""
        state = TRANSITIONS[self._state].get(event)
        if state is None:
            states.check_ignored(self._state, event)
            return
        self._state = state
        if state is RUNNING or state is SUCCEEDED:  # the usual way
            if result is not None and result.statuses and self._context.events.listener is not None:
                self._report_move(event, result, worker)  # rows have failed
            elif self._context.events.followed is not None:
                self._report_if_followed(event, worker, result)
            if result is not None:  # else the worker proxy has sent it on
                self._end(_SUCCESS, result.payload, result.frames, result.profile, result)
            return
        if self._context.events.listener is not None:
            self._report_move(event, result, worker or self._worker)
        self._enter(state, event, result)

    def _enter(self, state: State, event: Event, result: RunResult | None) -> None:
        if result is not None and state in (states.READY, states.DELAYED):
            self._tries = self._tries.after(event, _sentence_of(result), self.now())
        if state is states.READY:
            self._drop_offer()
            self._report_ready_again(
                self._goes_first if event is states.NOT_HELD else event is not states.BALANCER_RESTARTED
            )
        elif state is states.DELAYED:
            self._wait_for_retry()
        elif state is states.RETURNING:
            self._enter_returning()
        elif state is states.LEAVING:
            self._leave_queue(event)
        elif state is states.WITHDRAWING:
            self._drop_offer()
            self._leave_queue(event)
        elif state is states.CANCELING:
            self._enter_canceling()
        elif state is states.FAILED and result is not None:
            self._drop_offer()
            self._enter_failed(result)
        elif state is states.CANCELED:
            self._end(TaskStatus.CANCELED, b"")

    @handles(ExplainTask)
    def _explain(self, question: ExplainTask) -> None:
        """Forward a question to the worker proxy of the task or, if it is ready, to the balancer; else answer it."""
        if question.is_wanted:
            self._wanted = question
        if question.because:
            task_id, function_id = self._spec.task_id, self._spec.function_id
            name = self._spec.name or self._context.services.function_name(function_id)
            question = question.with_name(task_id, name)
        if self._worker is not None:
            self._worker.send(ExplainRun(question, self._spec.task_id, self._tries))
        elif self._state is states.READY:
            seconds = self._context.directory.attempt_times.seconds_since(self._attempt, self.now())
            where = self._actor_ref, self._spec.priority, self._context.account
            self._context.balancer.send(ExplainWaiting(question, *where, self._needs(), self._tries, seconds))
        else:
            explain_unassigned(question, self._state, self._tries)

    @handles(ReportTask)
    def _report_task(self, asked: ReportTask) -> None:
        row, first = row_of(self._spec, asked.task_id), self._first_attempt
        of_rows = None if row is None else part_of(self._spec, row, 1)
        times = self._context.directory.attempt_times
        age_seconds = times.seconds_since_at_most(self._attempt if first is None else first, self.now())
        self._send_moved(
            SEEN, states.shown_state(self._state), self._worker, "", of_rows=of_rows, age_seconds=age_seconds
        )

    def _report_if_followed(
        self, event: Event, worker: ActorRef | None = None, result: RunResult | None = None
    ) -> None:
        followed, spec = self._context.events.followed or (), self._spec
        if any(row in followed for row in row_ids(spec.task_id, spec.rows)) if spec.rows else spec.task_id in followed:
            self._report_move(event, result, worker)

    def _report_move(self, event: Event, result: RunResult | None, worker: ActorRef | None) -> None:
        status = None if result is None else result.status
        reason = ""
        if result is not None and (status not in _WITHOUT_SENTENCE or event is states.RETRIED):
            reason = _sentence_of(result)
        self._send_moved(event, states.shown_state(self._state, status), worker, reason, result)

    def _send_moved(
        self,
        event: Event,
        state: str,
        worker: ActorRef | None,
        reason: str,
        result: RunResult | None = None,
        of_rows: Task | None = None,
        age_seconds: float = 0.0,
    ) -> None:
        context, spec, attempt = self._context, of_rows or self._spec, self._attempt
        if context.events.listener is not None:
            what = (event, state, attempt, worker, reason, result, context.owner.name, context.label, age_seconds)
            context.events.listener.send(TaskMoved(self.actor_ref, spec, context.client_id, *what))

    def _report_ready_again(self, goes_first: bool) -> None:
        self._keep_first_attempt()
        # A new attempt also after a restart of the balancer: an assignment of the old one may still arrive.
        self._attempt = self._context.next_attempt()
        self._report_ready(goes_first, False)
        if self._wanted is not None:
            self._explain(self._wanted)

    def _keep_first_attempt(self) -> None:
        if self._first_attempt is None:
            self._first_attempt = self._attempt

    def _report_ready(self, goes_first: bool, is_new: bool) -> None:
        context, spec = self._context, self._spec
        keeps = context if context.records_starts else None
        needs = context.needs_of(spec.options) if spec.options else None
        what = (spec, self._attempt, goes_first, self._near_worker, context.account, is_new, keeps, needs)
        context.balancer.send(TaskReady(self._actor_ref, *what))

    def _needs(self) -> Needs | None:
        options = self._spec.options
        return self._context.needs_of(options) if options else None

    def _leave_queue(self, event: Event) -> None:
        if event is states.NOT_WAITING or event is states.BALANCER_RESTARTED:
            # The balancer does not know the task. With a new attempt it finds it. If the old attempt was
            # assigned after all, the task cancels it at the worker.
            self._only_waited = False
            self._report_ready_again(goes_first=False)
        self._withdraw()

    def _withdraw(self) -> None:
        context = self._context
        context.balancer.send(WithdrawTask(self.actor_ref, self._spec.priority, context.account))

    def _enter_canceling(self) -> None:
        if self._worker is not None:
            self._worker.send(CancelRun(self._spec.task_id, self._attempt))

    def _enter_failed(self, result: RunResult) -> None:
        payload, limit = result.payload, self._context.services.config.crash_limit
        if self._crashes >= limit:
            payload += f" (attempt {self._crashes} of {limit})".encode()
        self._end(TaskStatus(result.status), payload, (), result.profile)

    def _end(
        self,
        status: TaskStatus,
        payload: bytes,
        frames: Frames = (),
        profile: bytes = b"",
        of_run: RunResult | None = None,
    ) -> None:
        context, spec = self._context, self._spec
        if spec.object_ids or spec.frames:
            self._release_arguments()
        statuses, duration_us = (b"", 0) if of_run is None else (of_run.statuses, of_run.duration_us)
        context.ended_of.count(spec.function_id, status, spec.rows or 1, statuses)
        size = bytes_in(frames) if frames else 0
        result = TaskResult(spec.task_id, status, payload, size, profile, spec.rows, statuses, duration_us)
        if frames:
            context.session.send(TaskDone(result, frames, self._worker, spec.function_id))
        else:
            context.session.send(result)
        if context.live is not None and self._worker is not None:
            self._count_at_worker(-(spec.rows or 1))
        self.stop_now()

    def on_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """Remove the task of this failed actor from the queue, the worker, and the object store."""
        context, spec = self._context, self._spec
        context.ended_of.count(spec.function_id, TaskStatus.INTERNAL_ERROR, spec.rows or 1)
        self._send_moved(BROKE, states.shown_state(states.FAILED, TaskStatus.INTERNAL_ERROR), self._worker, repr(error))
        if self._worker is not None:
            self._count_at_worker(-(spec.rows or 1))
            self._worker.send(CancelRun(spec.task_id, self._attempt))
        else:
            self._withdraw()
        self._release_arguments()

    def _release_arguments(self) -> None:
        context, spec = self._context, self._spec
        if spec.object_ids:
            context.object_store.send(ReleaseObjects(spec.object_ids))
        if spec.frames:
            context.object_store.send(CountArguments(-size_of(spec.frames), context.owner))

    def check(self) -> None:
        has_worker = self._state in (RUNNING, states.CANCELING)
        assert (self._worker is not None) == has_worker, f"a task that is {self._state} has worker {self._worker}"
        assert self._offer is None or self._state in (states.LEAVING, states.RETURNING), "a task has kept an offer"
        assert self._suspect < 0 or self._crashes > 0, "a mark counts no crash"
        assert 0 <= self._crashes < self._context.services.config.crash_limit, "a task exceeds its crash limit"

    @property
    def state(self) -> State:
        """The state of the task, for tests and the monitor."""
        return self._state


def _sentence_of(result: RunResult) -> str:
    return result.payload[:REASON_BYTES_MOST].decode("utf-8", "replace")
