"""JobCatalog: the jobs of a scheduler: their folder, their writer, their summaries and the space left for them.

Created by the scheduler process; used by the job keeper and the jobs. It never waits for the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from scaler.actors.messages.jobs import OrderDone, RequestJob
from scaler.jobs.folder import JobFolder
from scaler.jobs.record import OPEN, JobRecord, JobSummary, JobTerms
from scaler.jobs.terms import BY_KEY, PAUSED
from scaler.jobs.writer import JobWriter
from scaler.keys.allowed import Lockout
from scaler.kit import ActorRef

SeenJobs: TypeAlias = dict[Path, JobSummary]
"""The progress of each job, by the job's folder. Only the job keeper and the jobs change it; the monitor reads it."""


def no_lockout(_owner: str) -> Lockout | None:
    """Return None: without a list of keys, no owner is locked out."""


class JobCatalog:
    """The folder of jobs and its writer.

    Args:
        post: sends a message to an actor, from any thread.
        owner: the owner of jobs that come without a key.
        most_bytes: the limit of the bytes of all jobs on disk.
        is_shared: whether other schedulers use the folder, too. Then a job is opened when a client names it.
        lockout_of: returns why an owner with a key is locked out. Called in any thread.
    """

    def __init__(
        self,
        folder: JobFolder,
        writer: JobWriter,
        post: Callable[[ActorRef, Any], None],
        owner: str,
        most_bytes: int,
        is_shared: bool = False,
        lockout_of: Callable[[str], Lockout | None] = no_lockout,
    ) -> None:
        self.folder = folder
        self.owner = owner
        self.is_shared = is_shared
        self._writer, self._post = writer, post
        self._most_bytes, self._lockout_of = most_bytes, lockout_of
        self.seen: SeenJobs = {}
        """the known jobs: open jobs and, unless the folder is shared, all other jobs"""
        self.fresh: set[Path] = set()
        """jobs whose next actor need not ask agents for runs, because a new version has begun"""
        self.given: set[Path] = set()
        """jobs to open again and to continue, since their records have been transferred or changed"""
        self.unanswered: dict[tuple[ActorRef, int], tuple[ActorRef, RequestJob]] = {}
        """unanswered requests, by session and number: the job keeper adds a request, and whoever answers removes it"""
        self.n_unanswered: Counter[ActorRef] = Counter()

    def answered(self, asked: RequestJob) -> None:
        """Count a request as answered."""
        self.unanswered.pop((asked.session, asked.request.number), None)
        if asked.session in self.n_unanswered:  # else it has left
            self.n_unanswered[asked.session] -= 1

    def is_unanswered(self, asked: RequestJob) -> bool:
        """Return whether the client of a request still waits for its answer."""
        return (asked.session, asked.request.number) in self.unanswered

    def order(
        self,
        actor: ActorRef,
        record: JobRecord | None,
        order: Callable[[], Any],
        then: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Send an order to the job writer, and have `actor` call `then` with the outcome."""
        post = self._post
        self._writer.order(record, order, lambda value, error: post(actor, OrderDone(then, value, error)))

    def lockout(self, terms: JobTerms) -> Lockout | None:
        """Return why the owner of a job is locked out; None if nothing keeps the job from running."""
        return self._lockout_of(terms.owner) if terms.door == BY_KEY else None

    def shown(self, summary: JobSummary) -> JobSummary:
        """Return the summary of a job that is not in memory, with the state `PAUSED` if its owner is locked out."""
        if summary.state not in (OPEN, PAUSED):
            return summary
        lockout, reason = self.lockout(summary.terms), "" if summary.state == PAUSED else summary.reason
        return replace(summary, state=PAUSED if lockout else OPEN, reason=lockout.reason if lockout else reason)

    def why_full(self) -> str:
        """Return why no further value may be kept; empty if values may be kept."""
        used = sum(each.size_bytes for each in self.seen.values())
        if used < self._most_bytes:
            return ""
        return (
            f"the jobs in {self.folder.path} take {used:,} bytes, and may take {self._most_bytes:,}: forget some, or "
            "start the scheduler with more --keep-bytes"
        )
