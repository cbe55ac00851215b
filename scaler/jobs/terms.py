"""Terms: the immutable values that describe a job, its rows and its state.

Used by the record, by the scheduler, which sends these values to clients and monitors, and by `scaler_jobs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scaler.jobs.values import Frames

OPEN, DONE, CANCELED, STOPPED = STATES = ("open", "done", "canceled", "stopped")
"""The states of a job. `STOPPED`: too many rows have failed, or the job cannot continue for another reason."""

PAUSED = "paused"
"""The displayed state of an open job whose owner is locked out. Records do not store this state."""

BY_KEY, BY_FILE = "key", "ipc"
"""How an owner has connected, in this order: with a key on the scheduler's list; by the permissions of a folder."""

ENDED_WELL, FAILED = 1, 2
"""The two values of `ended_rows` for a row that has ended: it succeeded; it failed. An open row has the value 0."""

KEEP_SECONDS = 30 * 86400.0
"""How long a job is kept after its last change, unless its program sets another time."""

RAISED, NO_WORKER, DAMAGED = 1, 5, 7
"""Values of `TaskStatus`, in this order: the function has raised; no worker got the row; the row's result is lost."""


@dataclass(frozen=True)
class JobTerms:
    """The immutable properties of one version of a job."""

    name: str
    owner: str
    """the owner; only the owner and admins can find the job"""
    prefix: bytes
    """the first bytes of the ids of the job's tasks"""
    function_id: bytes
    """the id of the function; while no function is stored, the id that the submitting program has announced"""
    function: str
    """the name of the function, for display"""
    program: str = ""
    """the program that started the job, for display"""
    python: str = ""
    """the minor version of Python that wrote the values of the job"""
    fingerprint: dict[str, str] = field(default_factory=dict)
    """one hash for each part of the function; two functions with equal hashes are the same"""
    options: bytes = b""
    priority: int = 0
    task_name: str = ""
    is_attended: bool = False
    """whether the job runs only while a client is attached"""
    max_failures: float | None = None
    """how many rows may fail: a number, or, below 1, a fraction of the ended rows; None: no limit"""
    keep_seconds: float = 0.0
    """how long the job is kept after its last change"""
    created: float = 0.0
    """when the job was created, in seconds since 1970"""
    version: int = 0
    token: str = ""
    """a random id of the call that started the version"""
    door: str = ""
    """how the owner connected: `BY_KEY`, `BY_FILE`, or empty without keys. Only `BY_KEY` owners can be locked out"""
    work: int = 0
    """the number of the latest version that changed the function or the rows"""


class JobObject(NamedTuple):
    """A function or a value that several rows use."""

    object_id: bytes
    kind: int
    name: str
    frames: Frames


class RowRange(NamedTuple):
    """Consecutive rows that were stored together."""

    first: int
    n_rows: int
    digest: bytes
    """a hash of the arguments of all rows; empty if the arguments of a row cannot be compared"""
    done: int = 0
    failed: int = 0
    duration_us: int = 0
    """the sum of the durations of the ended rows, in microseconds"""

    @property
    def n_open(self) -> int:
        return self.n_rows - self.done - self.failed


class RowResult(NamedTuple):
    """The outcome of one row, or of consecutive rows that all succeeded."""

    row: int
    """the number of the first row"""
    status: int
    """a `TaskStatus`; 0: success"""
    frames: Frames
    """the frames of the value; for several rows, one frame with their packed values"""
    n_rows: int = 1
    duration_us: int = 0


@dataclass(slots=True)
class LiveCounts:
    """Counts of the open rows of a job, which change all the time."""

    handed_out: int = 0
    """the number of rows that the job has submitted to the queue of the scheduler and that have not ended"""
    running: int = 0
    """the number of rows at workers"""


@dataclass(frozen=True)
class JobSummary:
    """The state of a job, its counts of rows, and its first failures."""

    terms: JobTerms
    state: str
    reason: str
    """why the job stopped or is paused, for display"""
    is_sealed: bool
    """whether all rows were submitted, so that the job accepts no further rows"""
    rows: int
    done: int
    failed: int
    size_bytes: int
    changed: float
    """the time of the last change, in seconds since 1970"""
    failures: Sequence[RowResult] = ()
    """the failures of the first failed rows"""
    live: LiveCounts = field(default_factory=LiveCounts)
    """how many rows are handed out and running now; all other values are those of the last change"""
    record_id: bytes = b""

    @property
    def runs_alone(self) -> bool:
        """Whether the job is open and can run without a client."""
        return self.state == OPEN and self.is_sealed and not self.terms.is_attended

    def info(self) -> dict[str, Any]:
        """Return the summary in the form that is sent to clients."""
        terms = self.terms
        return {
            "name": terms.name, "owner": terms.owner, "function": terms.function, "program": terms.program,
            "attended": terms.is_attended, "created": terms.created, "state": self.state, "reason": self.reason,
            "sealed": self.is_sealed, "rows": self.rows, "done": self.done, "failed": self.failed,
            "handed_out": self.live.handed_out, "running": self.live.running, "bytes": self.size_bytes,
            "changed": self.changed, "record": self.record_id.hex(), "max_failures": terms.max_failures,
            "work": terms.work,
        }  # fmt: skip


def n_bytes(results: Sequence[RowResult]) -> int:
    """Return the total size of the values in some results."""
    return sum(len(frame) for result in results for frame in result.frames)
