"""Opening: a program and the job that it names: the same work goes on, other work is a conflict, new work is kept.

Called by the client, in the thread of the user. What is known of a job is compared here, so that the scheduler reads
nothing of it. Must never: run a row of another job than was meant.
"""

from __future__ import annotations

import json
import logging
import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler.client.calls.functions import Function, Terms
from scaler.client.calls.inputs import FutureArgumentError
from scaler.client.jobs.fingerprint import differences, fingerprint
from scaler.client.jobs.job import Job
from scaler.client.jobs.questions import Info, ask, read_info, wait
from scaler.client.jobs.row_ranges import NewRange, compare, new_ranges
from scaler.client.link.link import Link
from scaler.client.link.requests import JobQuestion
from scaler.client.object_reference import ObjectReference, check_stored
from scaler.config import ConfigError
from scaler.errors import JobConflictError
from scaler.ids import ObjectId, TaskId, random_id
from scaler.jobs.names import check_job_name
from scaler.pickling.serialization import Serializer
from scaler.wire.messages.client import JobVerb
from scaler.wire.messages.common import ObjectInstruction

logger = logging.getLogger(__name__)

ON_CHANGE = RAISE, RESTART = "raise", "restart"

GOES_ON, RETRIES = 1, 2
"""What a client wishes when it opens a job: that it goes on, and that failed rows run again."""

UNWRITTEN_MOST = 8
"""So many ranges are on their way to the disk at a time."""

PYTHON = ".".join(platform.python_version_tuple()[:2])

_NO_TASK = TaskId(bytes(16))


@dataclass(frozen=True)
class Work:
    """What is to be done under a name.

    Args:
        fn: the function of the user.
        function: the same, ready to be sent.
        sources: of the modules that travel with it.
        is_attended: whether it goes on only while a client needs it.
        keep_seconds: how long it is kept after its last change.
    """

    name: str
    fn: Callable[..., Any]
    function: Function
    sources: dict[str, bytes]
    items: Iterable[Sequence[Any]]
    terms: Terms
    is_attended: bool
    keep_seconds: float
    max_failures: float | None
    on_change: str = RAISE

    def __post_init__(self) -> None:
        if self.on_change not in ON_CHANGE:
            raise ConfigError(f"on_change must be one of {', '.join(map(repr, ON_CHANGE))}, not {self.on_change!r}")
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a job must be a str, not {self.name!r}")
        check_job_name(self.name)

    def said(self) -> dict[str, Any]:
        """Return its terms as they travel."""
        priority, task_name, options, _ = self.terms
        instruction = self.function.instruction
        return {
            "function": instruction.name, "function_id": instruction.object_id.hex(), "program": _program(),
            "python": PYTHON, "fingerprint": fingerprint(self.fn, self.sources).parts, "options": options.hex(),
            "priority": priority, "task_name": task_name, "attended": self.is_attended, "created": time.time(),
            "max_failures": self.max_failures, "keep_seconds": self.keep_seconds,
        }  # fmt: skip


def _program() -> str:
    return Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"


class Opening:
    """One program at one job, until all its rows are on disk.

    Args:
        work: what it is about.
        stored: the objects that this client holds.
    """

    def __init__(
        self, link: Link, serializer: Serializer, work: Work, stored: Mapping[ObjectId, ObjectInstruction]
    ) -> None:
        if link.is_nested:
            raise ConfigError("jobs are made outside of tasks: return the rows from the task, and make the job of them")
        self._link, self._serializer, self._work = link, serializer, work
        self._body = json.dumps(work.said()).encode()
        self._said = json.loads(self._body)
        self._sent: set[str] = set()
        """objects that the job has"""
        self._stored = stored
        self._copies: dict[ObjectId, ObjectReference] = {}
        """of objects that rows refer to: the job has its own, which do not end with this program"""

    def open(self) -> Job:
        """Make the job, or find it, and have all its rows on disk.

        Raises:
            JobConflictError: if there is a job of this name with other work.
            JobError: if it cannot be kept.
            TypeError, SerializeObjectError: if a row cannot be sent.
        """
        work = self._work
        info = self._ask_open()
        items = work.items if work.on_change == RAISE or isinstance(work.items, Sequence) else list(work.items)
        rest = iter(items)
        conflict, n_unknown = self._compare(info, rest)
        if conflict and work.on_change == RESTART:
            logger.warning("the job %r is begun anew: %s", work.name, conflict)
            ask(self._link, JobQuestion(JobVerb.FORGET, work.name))
            info, rest = self._ask_open(), iter(items)
        elif conflict:
            raise JobConflictError(
                f"there is a job {work.name!r} with other work: {conflict}. Take another name, or "
                f"on_change={RESTART!r} to forget what it has"
            )
        if n_unknown:
            logger.info("job %s: %d rows are not plain values, so they were not compared", work.name, n_unknown)
        self._send_function(info)
        self._ask_open(GOES_ON | RETRIES if work.is_attended else GOES_ON)
        self._send_rows(rest, info)
        return Job(work.name, self._link, self._serializer, info)

    def _ask_open(self, wish: int = 0) -> Info:
        info: Info = read_info(ask(self._link, JobQuestion(JobVerb.OPEN, self._work.name, 0, wish, self._body)))
        return info

    def _compare(self, info: Info, items: Iterator[Sequence[Any]]) -> tuple[str, int]:
        """Return what differs from the job that is there, and how many rows could not be compared."""
        if info["python"] != PYTHON:
            return f"it was made by Python {info['python']}, and this is {PYTHON}, which reads other values", 0
        other = differences(info["fingerprint"], self._said["fingerprint"])
        if info["attended"] != self._work.is_attended:
            other.append(f"it was made by {'map' if info['attended'] else 'start'}")
        if other:
            return "; ".join(other), 0
        return compare(items, [tuple(each) for each in info["ranges"]], info["sealed"])

    def _send_function(self, info: Info) -> None:
        self._sent = set(info["objects"])
        function = self._work.function.instruction
        if not self._sent:
            self._send_object(function)

    def _send_object(self, instruction: ObjectInstruction) -> None:
        if instruction.object_id.hex() not in self._sent:
            self._sent.add(instruction.object_id.hex())
            body, frames = instruction.object_id, instruction.frames
            ask(self._link, JobQuestion(JobVerb.OBJECT, self._work.name, 0, int(instruction.kind), body, frames))

    def _send_rows(self, items: Iterator[Sequence[Any]], info: Info) -> None:
        if info["sealed"]:
            return
        unwritten: deque[JobQuestion] = deque()
        for new in new_ranges(items, info["rows"], self._work.function.block, self._make):
            self._send_range(new, unwritten)
            if len(unwritten) >= UNWRITTEN_MOST:
                wait(unwritten.popleft())
        while unwritten:
            wait(unwritten.popleft())
        ask(self._link, JobQuestion(JobVerb.SEAL, self._work.name))

    def _send_range(self, new: NewRange, unwritten: deque[JobQuestion]) -> None:
        for each in new.objects:
            self._send_object(each)
        question = JobQuestion(JobVerb.ROWS, self._work.name, new.first, new.n_rows, new.digest, (new.block,))
        self._link.ask_job(question)
        unwritten.append(question)

    def _make(self, row: int, item: Sequence[Any]) -> Any:
        function = self._work.function
        own = [self._copy(each) if isinstance(each, ObjectReference) else each for each in item]
        try:
            entry = function.entry(_NO_TASK, None, own)  # type: ignore[arg-type]  # no result comes there
        except FutureArgumentError:
            raise TypeError(f"row {row} has a future, which ends with this program: wait for its result") from None
        if entry[2] is not function.instruction or not all(each in self._copies.values() for each in entry[4]):
            raise TypeError(
                f"row {row} has an ObjectReference in a container, or as_is(), whose object ends with this program: "
                "make it an argument of its own"
            )
        return entry

    def _copy(self, reference: ObjectReference) -> ObjectReference:
        """Return a reference to the job's own copy of an object. It is on disk."""
        check_stored(reference)
        copy = self._copies.get(reference.object_id)
        if copy is None:
            known = self._stored.get(reference.object_id)
            if known is None:
                raise TypeError(f"{reference!r} is of another client, and a job needs its value: pass that")
            new_id = ObjectId(random_id())
            self._send_object(ObjectInstruction(known.kind, new_id, known.name, known.frames))
            copy = self._copies[reference.object_id] = type(reference)(known.name, new_id, reference.size)
        return copy
