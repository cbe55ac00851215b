"""Terms: what a job is, and how it stands, in values that travel: from clients, to screens and into the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scaler.jobs.values import Frames

OPEN, DONE, CANCELED, STOPPED = STATES = ("open", "done", "canceled", "stopped")
"""The states of a job. `STOPPED`: too many rows have failed."""

ENDED_WELL, FAILED = 1, 2
"""What `ended_rows` says of a row; 0: it has not ended."""

NO_WORKER, DAMAGED = 5, 7
"""Two of `TaskStatus`: no worker has had the row; its result is not there any more."""


@dataclass(frozen=True)
class JobTerms:
    """What does not change about a job, or about one version of it."""

    name: str
    owner: str
    """whose it is: only they find it"""
    prefix: bytes
    """the ids of its tasks begin with it"""
    function_id: bytes
    """of the program that has made it, until the first function object is there: that is its function"""
    function: str
    """its name, for people"""
    program: str = ""
    """which program has started it, for people"""
    python: str = ""
    """with which minor version of Python its values are written"""
    fingerprint: dict[str, str] = field(default_factory=dict)
    """what the function is made of, by part, as hashes: the same ones are the same function"""
    options: bytes = b""
    priority: int = 0
    task_name: str = ""
    is_attended: bool = False
    """whether it goes on only while a client is attached"""
    max_failures: float | None = None
    """how many rows may fail, as a number or, below 1, as a part of those that have ended; None: any number"""
    keep_seconds: float = 0.0
    """how long it is kept after its last change"""
    created: float = 0.0
    """seconds since 1970"""
    version: int = 0
    """its number among the versions of the job"""


class Object(NamedTuple):
    """A function or a value that several rows use."""

    object_id: bytes
    kind: int
    name: str
    frames: Frames


class Range(NamedTuple):
    """Rows that have come together."""

    first: int
    n_rows: int
    digest: bytes
    """a hash of their arguments, if those can be compared; else empty"""
    done: int = 0
    failed: int = 0
    duration_us: int = 0
    """how long the runs took by which its rows have ended"""

    @property
    def n_open(self) -> int:
        return self.n_rows - self.done - self.failed


class Result(NamedTuple):
    """How a row has ended, or how several neighbours have, if all of them have ended well."""

    row: int
    """the first one"""
    status: int
    """a `TaskStatus`; 0: well"""
    frames: Frames
    """of several rows: one frame, in which theirs are packed"""
    n_rows: int = 1
    duration_us: int = 0
    """how long the run took"""


@dataclass(frozen=True)
class Summary:
    """A job in a line."""

    terms: JobTerms
    state: str
    reason: str
    """why it has stopped, or pauses, for people"""
    is_sealed: bool
    """whether all its rows are known"""
    rows: int
    done: int
    failed: int
    size_bytes: int
    changed: float
    """when it has changed last, in seconds since 1970"""
    failures: Sequence[Result] = ()
    """the first rows that have failed"""
    said: int = 0
    """how many rows the scheduler has said to tasks, and have not ended"""

    def info(self) -> dict[str, Any]:
        """Return it as clients are told of it."""
        terms = self.terms
        return {
            "name": terms.name, "owner": terms.owner, "function": terms.function, "program": terms.program,
            "attended": terms.is_attended, "created": terms.created, "state": self.state, "reason": self.reason,
            "sealed": self.is_sealed, "rows": self.rows, "done": self.done, "failed": self.failed, "said": self.said,
            "bytes": self.size_bytes, "changed": self.changed,
        }  # fmt: skip


def n_bytes(results: Sequence[Result]) -> int:
    """Return how many bytes the values of results have."""
    return sum(len(frame) for result in results for frame in result.frames)
