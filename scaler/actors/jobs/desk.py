"""Desk: answers what clients ask of one job, and does what they wish.

Owned by the job, which hands on what the job keeper brings. What cannot be answered yet waits here, in `Reading`. Must
never: tell anybody of a change before it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from scaler.actors.jobs.answers import info_of, refused, said_max_failures
from scaler.actors.jobs.reading import ATTEND, Reading, Steps
from scaler.actors.jobs.shelf import JobShelf
from scaler.actors.jobs.standing import Standing
from scaler.actors.messages.jobs import JobAsked
from scaler.actors.peers.outbox import Outbox
from scaler.jobs.record import CANCELED, DONE, JobRecord, JobTerms, Object, Summary
from scaler.kit import ActorRef
from scaler.wire.messages.client import JobResponse, JobVerb
from scaler.wire.messages.common import TaskStatus

T = TypeVar("T")

RETRIES = 2
"""In the amount of `OPEN`: failed rows are to run again."""

NOT_KEPT = "it cannot be kept"


class Doer(Protocol):
    """The job, as far as it does what clients wish."""

    def order(
        self, order: Callable[[], Any], then: Callable[[Any, BaseException | None], None], *, is_last: bool = False
    ) -> None:
        """Have an order obeyed by the clerk, and go on with its answer. `is_last`: it closes the record."""

    def go_on_soon(self) -> None:
        """Say further rows, and have results written."""

    def look(self) -> None:
        """Something about it is another one now: perhaps it must pause, or has ended."""

    def move(self, state: str, reason: str = "") -> None:
        """The state is another one from now on."""

    def open_again(self, rows: list[int]) -> None:
        """These rows have failed, and are to run again."""

    def is_settling(self) -> bool:
        """Return whether rows that were said before it ended may still fail."""

    def store(self, objects: list[Object]) -> None:
        """Functions and values of its rows are here."""

    def end_tasks(self, *, waiting: bool = False) -> None:
        """Cancel all rows that were said, or those of them that have not begun."""

    def stop_now(self) -> None:
        """End the actor."""


class Desk:
    """What clients ask of one job.

    Args:
        job: does what they wish.
        record: only the clerk touches it.
    """

    def __init__(self, job: Doer, record: JobRecord, standing: Standing, shelf: JobShelf, outbox: Outbox) -> None:
        self._job, self._record, self._standing, self._shelf, self._outbox = job, record, standing, shelf, outbox
        self._readers: dict[ActorRef, None] = {}
        """sessions of clients without which it does not go on: an ordered set"""
        self.reading = Reading(record, standing.rows, self._tell)
        self.is_closing = False
        """whether its record is being closed, to be removed or given away"""
        self._verbs: dict[int, Callable[[JobAsked], Steps | None]] = {
            JobVerb.OPEN: self._attach,
            JobVerb.ROWS: self._take_rows,
            JobVerb.OBJECT: self._take_object,
            JobVerb.SEAL: self._seal,
            JobVerb.READ: self._read,
            JobVerb.READ_NEW: lambda asked: self.reading.read_new(asked, is_open=standing.is_open),
            JobVerb.SHOW: self._show,
            JobVerb.FAILURES: self.reading.read_failures,
            JobVerb.RETRY: self._retry,
            JobVerb.CANCEL: self._cancel,
            JobVerb.FORGET: self._forget,
            JobVerb.LEAVE: self._leave,
            JobVerb.GIVE: self._give,
        }

    @property
    def is_wanted(self) -> bool:
        """Whether the job may go on: a client needs it, or none need be there."""
        return not self._standing.terms.is_attended or bool(self._readers)

    def ask(self, asked: JobAsked) -> None:
        """Answer now, or later."""
        if not self.is_closing:  # else the job keeper asks it again
            steps = self._verbs[asked.request.verb](asked)
            if steps is not None:
                self._go_on(asked, steps)

    def _go_on(self, asked: JobAsked, steps: Steps, value: Any = None) -> None:
        """Go on until the next order of the clerk, or to the end."""
        try:
            order, failing = steps.send(value)
        except StopIteration:
            return

        def then(value: Any, error: BaseException | None) -> None:
            if error is None:
                self._go_on(asked, steps, value)
            else:
                steps.close()
                self._tell(asked, refused(asked.request, f"{failing}: {error}"))
                self._job.go_on_soon()

        self._job.order(order, then)

    def answer_parked(self) -> None:
        """More is known: look again at what waits."""
        for asked in self.reading.take_parked():
            self.ask(asked)

    def _tell(self, asked: JobAsked, response: JobResponse) -> None:
        self._shelf.unanswered.pop((asked.session, asked.request.number), None)
        self._outbox.put(asked.peer, response)

    def _attach(self, asked: JobAsked) -> Steps:
        """Somebody has opened it: with all ranges, so that its rows can be compared."""
        wish = asked.request.amount
        if wish & RETRIES and self._job.is_settling():
            self._park_or_refuse(asked)
            return
        rows: list[int] = []
        if wish:
            self._standing.max_failures = said_max_failures(asked.request, self._standing.max_failures)
            self._attend(asked)
        if wish & RETRIES and self._standing.rows.failed:
            rows = yield self._reopen_failed, "its failed rows cannot be opened"
        if wish:
            self._job.open_again(rows)
        record = self._record
        ranges, objects = yield lambda: (list(record.ranges.values()), record.object_ids()), "the job cannot be read"
        info = self._info()
        info["ranges"] = [[each.first, each.n_rows, each.digest.hex()] for each in ranges]
        info["objects"] = [each.hex() for each in objects]
        self._tell(asked, info_of(asked.request, info))

    def _reopen_failed(self) -> list[int]:
        """Called by the clerk. Of rows that may run once, only those run again that no worker has had."""
        return self._record.reopen_failed(TaskStatus.NO_WORKER if self._standing.is_at_most_once else None)

    def _park_or_refuse(self, asked: JobAsked) -> None:
        if self._standing.trouble:
            self._tell(asked, refused(asked.request, self._standing.trouble))
        else:
            self.reading.park(asked)

    def _attend(self, asked: JobAsked) -> None:
        if self._standing.terms.is_attended and asked.session not in self._readers:
            self._readers[asked.session] = None
            self._job.go_on_soon()

    def _info(self) -> dict[str, Any]:
        reading = self.reading
        return {
            **self._standing.info(), "log": reading.log_id, "logged": reading.n_noted, "readers": len(self._readers),
        }  # fmt: skip

    def _tell_kept(self, asked: JobAsked) -> None:
        self._tell(asked, info_of(asked.request, self._info()))
        self.answer_parked()
        self._job.go_on_soon()

    def _take_rows(self, asked: JobAsked) -> Steps:
        request, record = asked.request, self._record
        why = self._shelf.why_full() or ("" if len(request.frames) == 1 else "its rows did not come whole")
        if why:
            self._tell(asked, refused(request, why))
            return
        rows = request.first, request.amount, request.body, bytes(8 * request.amount), request.frames[0]
        n_new, size_bytes = yield lambda: (record.add_range(*rows), record.size_bytes), NOT_KEPT
        if n_new:
            self._standing.rows.add(request.first + request.amount - n_new, n_new)
        self._standing.size_bytes = size_bytes
        self._job.look()
        self._tell_kept(asked)

    def _take_object(self, asked: JobAsked) -> Steps:
        request = asked.request
        new = Object(request.body, request.amount, "", tuple(request.frames))

        def add() -> JobTerms:
            self._record.add_object(new)
            return self._record.terms

        self._standing.terms = yield add, NOT_KEPT
        self._job.store([new])
        self._tell_kept(asked)

    def _seal(self, asked: JobAsked) -> Steps:
        yield lambda: self._record.seal(self._record.rows), NOT_KEPT
        self._standing.is_sealed = True
        self._job.look()
        self._tell_kept(asked)

    def _read(self, asked: JobAsked) -> Steps:
        if asked.request.body == ATTEND:
            self._attend(asked)
        # No row beyond these ends before somebody does something.
        standing = self._standing
        end = 0 if not standing.is_open else standing.rows.rows if standing.is_sealed else None
        return self.reading.read(asked, end)

    def _show(self, asked: JobAsked) -> None:
        if asked.request.amount and self._standing.is_open:
            self.reading.park(asked)
        else:
            self._tell(asked, info_of(asked.request, self._info()))

    def _retry(self, asked: JobAsked) -> Steps:
        if self._job.is_settling():
            self._park_or_refuse(asked)
            return
        rows = yield self._reopen_failed, NOT_KEPT
        failed = self._standing.rows.failed
        if failed and self._standing.state == DONE and not rows:
            why = f"the {failed} rows that have failed are not run again: they may have begun"
            self._tell(asked, refused(asked.request, f"{why}, and have the option at_most_once"))
            return
        self._job.open_again(rows)
        self._tell_kept(asked)

    def _cancel(self, asked: JobAsked) -> Steps:
        if self._standing.is_open:
            self._job.move(CANCELED, "by its user")
        yield lambda: None, NOT_KEPT
        self._tell_kept(asked)

    def _forget(self, asked: JobAsked) -> None:
        self._standing.state = CANCELED
        self._job.end_tasks()
        self.answer_parked()
        folder, record = self._shelf.folder, self._record

        def is_gone(_nothing: None) -> None:
            self._shelf.seen.pop(record.folder, None)

        self._close(asked, lambda: folder.remove(record), is_gone)

    def _give(self, asked: JobAsked) -> None:
        """It belongs to somebody else, who opens it anew."""
        folder, record, owner = self._shelf.folder, self._record, asked.request.body.decode(errors="replace")
        if owner == self._standing.terms.owner:  # it was given before, and the answer was lost
            self._tell(asked, info_of(asked.request, self._info()))
            return
        if self._standing.is_open:
            self._tell(asked, refused(asked.request, "the job goes on: cancel it, give it, and have it go on (retry)"))
            return

        def is_given(given: Summary) -> None:
            seen = self._shelf.seen
            seen.pop(record.folder, None)
            seen[folder.place_of(given.terms.owner, given.terms.name)] = given

        self._close(asked, lambda: folder.give(record, owner), is_given)

    def _close(self, asked: JobAsked, order: Callable[[], T], is_done: Callable[[T], None]) -> None:
        """Have the record closed, after all that was ordered before. Nothing else is written or answered."""
        self.is_closing = True

        def then(value: T, error: BaseException | None) -> None:
            if error is None:
                is_done(value)
            self._tell(asked, refused(asked.request, str(error)) if error else info_of(asked.request, self._info()))
            self._job.stop_now()

        self._job.order(order, then, is_last=True)

    def _leave(self, asked: JobAsked) -> None:
        for left in self.reading.take_attending(asked.session):
            self._tell(left, refused(left.request, "its client needs the job no more"))
        self._detach(asked.session)
        self._tell(asked, info_of(asked.request, self._info()))

    def leave(self, session: ActorRef) -> None:
        """A client is gone."""
        self.reading.leave(session)
        self._detach(session)

    def _detach(self, session: ActorRef) -> None:
        if self._readers.pop(session, self) is None and not self._readers:
            # Nobody is attached: what runs goes on to its end, and what only waits does not begin.
            self._job.end_tasks(waiting=True)
