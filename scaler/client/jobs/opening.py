"""Opening: creates the job of a call, continues an existing job with the same work, or refuses or replaces other work.

Called by the client, in the thread of the user. The client compares the work, so the scheduler never unpickles a value.
The results of a job always belong to the function and the arguments of the call.
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
from itertools import chain, islice
from pathlib import Path
from typing import Any

from scaler.client.calls.entry import RUN_OPTIONS, Terms
from scaler.client.calls.functions import Function
from scaler.client.calls.inputs import ResultArgument
from scaler.client.calls.items import shown_arguments
from scaler.client.jobs.comparing.fingerprint import Fingerprint, differences, fingerprint
from scaler.client.jobs.comparing.row_digests import NOT_COMPARED, RowDigests
from scaler.client.jobs.job import Job, arguments_text
from scaler.client.jobs.job_requests import Info, JobChangedError, ask, read_info, wait
from scaler.client.jobs.row_ranges import PackedRange, RangeMaker, item_of
from scaler.client.link.link import ClientLink
from scaler.client.link.requests import JobQuestion
from scaler.client.object_reference import ObjectReference, check_stored
from scaler.config import ConfigError
from scaler.errors import JobConflictError, JobError, ScalerError
from scaler.graph.gathering import has_inside
from scaler.ids import ObjectId, TaskId, random_id
from scaler.pickling.serialization import Serializer
from scaler.texts import NAME_CHARACTERS, printable, shown
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import TOKEN_BYTES, JobOpenFlags, JobResponse, JobVerb
from scaler.wire.messages.common import ObjectInstruction
from scaler.wire.messages.seeds import shown_seed

logger = logging.getLogger(__name__)

ON_CHANGE = RAISE, RESTART, KEEP = "raise", "restart", "keep"

UNWRITTEN_MOST = 8
"""The maximum number of ranges that are sent and not yet acknowledged as written to disk."""

ROWS_LATE = "the rows were not all read within the timeout. Results of ended rows are kept"
"""The text of the `TimeoutError` of a call whose rows are not all read in time."""

GIVE_UP_SECONDS = 5.0
"""The longest time that a failed opening waits for the removal of the record that it created."""

PYTHON = ".".join(platform.python_version_tuple()[:2])

_NO_TASK = TaskId(bytes(16))

_NO_LIMIT = 2**62


@dataclass(frozen=True)
class JobWork:
    """The work of a job: its function, items and options.

    Args:
        fn: the function of the user.
        function: the serialised function.
        sources: the sources of the modules that travel with the function, by module name.
        is_attended: whether the job runs only while a client needs its results.
        keep_seconds: the seconds from the last change of the job to its removal; None leaves this time as it is.
        max_failures: the option of the same name; None allows any number.
        n_calls: a function that returns the number of calls of this client that use the job, including this one.
        deadline: the end of the call, in seconds of the monotonic clock; None: no deadline.
    """

    name: str
    fn: Callable[..., Any]
    function: Function
    sources: dict[str, bytes]
    items: Iterable[Sequence[Any]]
    terms: Terms
    is_attended: bool
    keep_seconds: float | None
    max_failures: float | None
    on_change: str = RAISE
    n_calls: Callable[[], int] = lambda: 1
    deadline: float | None = None

    def __post_init__(self) -> None:
        if self.on_change not in ON_CHANGE:
            known = ", ".join(map(repr, ON_CHANGE))
            raise ConfigError(f"on_change must be one of {known}, not {shown(self.on_change)}")

    def described(self, parts: Mapping[str, str]) -> dict[str, Any]:
        """Return the description of the job for the scheduler. `parts`: the fingerprint of the function."""
        priority, task_name, options, *_account = self.terms
        instruction = self.function.instruction
        return {
            "function": instruction.name, "function_id": instruction.object_id.hex(), "program": _program(),
            "python": PYTHON, "fingerprint": {**parts}, "options": options.hex(), "priority": priority,
            "task_name": task_name, "attended": self.is_attended, "created": time.time(),
            "max_failures": self.max_failures, "keep_seconds": self.keep_seconds,
            "token": _new_token(),
        }  # fmt: skip


def _new_token() -> str:
    return random_id()[:TOKEN_BYTES].hex()


def _program() -> str:
    return printable(Path(sys.argv[0]).name, NAME_CHARACTERS) if sys.argv and sys.argv[0] else "python"


class Opening:
    """The opening of one job by one call, until all rows of the job are on disk.

    Args:
        stored: the objects that this client holds, by id.
        digest_of: returns the digest of the content of an object, or raises `TypeError` for incomparable content.
    """

    def __init__(
        self,
        link: ClientLink,
        serializer: Serializer,
        work: JobWork,
        stored: Mapping[ObjectId, ObjectInstruction],
        digest_of: Callable[[ObjectReference], bytes],
    ) -> None:
        if link.is_nested:
            raise ConfigError("a task cannot open a job: return the rows from the task, and start the job outside it")
        self._link, self._serializer, self._work = link, serializer, work
        self._fingerprint = fingerprint(work.fn, work.sources, digest_of)
        self._terms = work.described(self._fingerprint.parts)
        self._ranges = RangeMaker(RowDigests(digest_of, {*work.sources}), work.function.block, self._make)
        self._info: Info = {}
        self._is_made_here = self._has_version = False
        """`_is_made_here`: whether this call created the job; `_has_version`: whether it created a new version"""
        self._revision = 0
        """the revision of the job that this work was compared with; the scheduler refuses changes to other revisions"""
        self._is_other_work = False
        self._n_unknown = 0
        """the number of ended rows that cannot be compared and keep their results"""
        self._sent: set[str] = set()
        """the ids, in hex, of the objects that were sent to the job"""
        self._stored = stored
        self._copies: dict[ObjectId, ObjectReference] = {}
        """references to the job's own copies of objects that rows refer to; the copies outlive this program"""
        self._unsent: list[ObjectInstruction] = []

    def open(self) -> Job:
        """Create or find the job. Return when all its rows are on disk.

        Raises:
            JobConflictError: if the job of this name has another function, other rows or other options.
            JobError: if the scheduler cannot keep the job.
            TypeError, SerializeObjectError: if a row cannot be serialised.
            TimeoutError: if the deadline passes.
        """
        self._info = self._ask_open()
        self._is_made_here = self._info["token"] == self._terms["token"]
        try:
            self._complete()
        except BaseException:  # raised again
            if self._is_made_here and self._work.n_calls() == 1:
                self._give_up()
            raise
        return Job(self._work.name, self._link, self._serializer, self._info)

    def _give_up(self) -> None:
        """Remove the record that this call created, unless a row has ended or another program uses the job."""
        try:
            self._ask(JobVerb.FORGET, amount=1, deadline=time.monotonic() + GIVE_UP_SECONDS)
        except (ScalerError, TimeoutError) as error:
            logger.debug("the job %r is not removed: %s", self._work.name, error)

    def _complete(self) -> None:
        work, info = self._work, self._info
        if info["lost"]:
            logger.warning("the job %r: %s", work.name, info["lost"])
        n_rows, rest = self._settle(_in_time(self._ranges.rows(work.items), work.deadline))
        function = work.function.instruction
        if self._has_version or not info["objects"]:
            self._send_object(function)
        flags = JobOpenFlags.RUN | JobOpenFlags.RETRY if work.is_attended or self._has_version else JobOpenFlags.RUN
        self._info = self._ask_open(flags)
        if rest is not None:
            n_rows = self._send_rows(rest, n_rows)
        if self._has_version or not info["sealed"]:
            self._info = read_info(self._await(self._sent_question(JobVerb.SEAL, n_rows, 0)))
        self._log_not_compared()

    # Requests to the scheduler

    def _ask(
        self,
        verb: JobVerb,
        first: int = 0,
        amount: int = 0,
        body: bytes = b"",
        frames: Sequence[Any] = (),
        deadline: float | None = None,
    ) -> JobResponse:
        return ask(self._link, self._question(verb, first, amount, body, frames), deadline or self._work.deadline)

    def _question(
        self, verb: JobVerb, first: int, amount: int, body: bytes = b"", frames: Sequence[Any] = ()
    ) -> JobQuestion:
        record = bytes.fromhex(self._info["record"]) if self._info else b""
        return JobQuestion(verb, self._work.name, first, amount, body, frames, record)

    def _ask_open(self, flags: int = 0) -> Info:
        body = json.dumps(self._terms).encode()
        info: Info = read_info(self._ask(JobVerb.OPEN, self._revision if flags else 0, flags, body))
        self._revision = info["revision"]
        return info

    # Comparison with the existing job

    def _settle(self, rows: Iterator[tuple[Any, ...]]) -> tuple[int, Iterator[tuple[Any, ...]] | None]:
        """Compare this work with the existing job, and change the job as `on_change` says.

        Returns: the number of compared rows, and an iterator over the remaining rows, or None if no rows remain.
        """
        info = self._info
        other = self._other_work()
        if other:
            self._begin_version("; ".join(other))
        if info["lost"] and self._work.on_change == RESTART:
            self._begin_version(info["lost"])
        if info["damaged"]:
            self._begin_version("", f"parts damaged on disk are rewritten: {', '.join(info['damaged'])}")
        n_rows = 0
        for first, n_known, digest, n_open in info["ranges"]:
            own_rows = list(islice(rows, n_known))
            n_rows = first + len(own_rows)
            if len(own_rows) < n_known:
                self._check_none_started(n_rows)
                self._begin_version(f"it has {n_rows:,} rows now, and had {info['rows']:,}")
                self._change(JobVerb.TRUNCATE, n_rows)
            if own_rows:
                self._compare_range(first, own_rows, digest if len(own_rows) == n_known else "", n_open)
            if len(own_rows) < n_known:
                return n_rows, None
        following = list(islice(rows, 1))
        if following and info["sealed"]:
            self._begin_version(f"it has more rows now, and had {n_rows:,}")
        return n_rows, chain(following, rows) if following else None

    def _other_work(self) -> list[str]:
        """Return the differences between this work and the existing job. Rows are not compared here."""
        info, work = self._info, self._work
        if info["python"] != PYTHON:
            return [other_python(info)]
        found = differences(info["fingerprint"], self._fingerprint.parts)
        if not self._is_made_here:
            found += [f"its function uses {each}, which cannot be compared" for each in self._fingerprint.not_compared]
        found += _other_options(bytes.fromhex(info["options"]), work.terms[RUN_OPTIONS])
        if info["attended"] != work.is_attended:
            found.append(f"it was made by {'map' if info['attended'] else 'start'}")
        return found

    def _begin_version(self, difference: str, repair: str = "") -> None:
        """Create a new version of the job, with the function and options of this call.

        Args:
            difference: a sentence that shows how this work differs from the job's; empty if the work is the same.
            repair: the reason for a new version if the work is the same.

        Raises:
            JobConflictError: if the job may not be changed.
        """
        info, work = self._info, self._work
        has_ended, is_drop = bool(info["done"] + info["failed"]), work.on_change == RESTART and bool(difference)
        if difference and has_ended and work.on_change == RAISE:
            raise self._conflict(difference)
        if info["python"] != PYTHON and has_ended and not is_drop:
            raise self._conflict(difference, KEEP)
        is_once = RunOptions.decode(work.terms[RUN_OPTIONS]).at_most_once
        if self._is_once and not is_once and has_ended and not is_drop:
            raise self._conflict(difference, KEEP)
        if self._is_other_work or (self._has_version and not difference):
            return
        if work.n_calls() > 1:
            raise self._conflict(f"{difference or repair}, and another call of this program uses it")
        flags = JobOpenFlags.NEW_VERSION | (JobOpenFlags.DROP if is_drop else 0)
        flags |= JobOpenFlags.IF_NONE_ENDED if difference and work.on_change == RAISE else 0
        flags |= 0 if difference else JobOpenFlags.SAME_WORK
        self._terms["token"] = _new_token()
        try:
            self._ask_open(flags)
        except JobChangedError:
            raise
        except JobError as error:
            raise self._conflict(f"{difference or repair}, and it cannot be changed now: {error}") from None
        self._has_version, self._is_other_work = True, bool(difference)
        if repair or is_drop or not has_ended:
            what = "continues" if repair else "starts over"
            logger.warning("the job %r %s: %s", work.name, what, repair or difference)

    def _conflict(self, difference: str, but_for: str = "") -> JobConflictError:
        ways = {
            RESTART: f"on_change={RESTART!r} drops its results and runs all rows",
            KEEP: f"on_change={KEEP!r} keeps the results of rows whose arguments are the same, and runs all other rows",
        }
        ways.pop(but_for, None)
        return JobConflictError(
            f"the job {self._work.name!r} exists, and this call differs from it: {difference}. Take another name; or "
            f"{'; or '.join(ways.values())}"
        )

    def _compare_range(self, first: int, own_rows: list[tuple[Any, ...]], digest: str, n_open: int) -> None:
        """Compare rows with one range of the job. Replace the range if it differs and `on_change` allows it."""
        info, ranges = self._info, self._ranges
        now = ranges.digest_of(own_rows)
        if not (now and now.hex() == digest):
            known, ended = map(bytes, self._ask(JobVerb.DIGESTS, first).frames)
            if len(ended) != len(own_rows):
                raise JobChangedError("another program has changed the job in the meantime")
            changed, unknown = _differing(ranges.digests_of(own_rows)[1], known)
            ended_unknown = [at for at in unknown if ended[at]]
            if changed:
                self._check_may_change([first + at for at in changed if ended[at]])
                self._begin_version(self._row_texts(first + changed[0], item_of(own_rows[changed[0]])))
            elif ended_unknown:
                at = ended_unknown[0]
                self._begin_version(
                    f"row {first + at:,} cannot be compared: it is called with {shown_arguments(item_of(own_rows[at]))}"
                )
            elif unknown:
                self._begin_version("", f"{len(unknown):,} rows that have not ended cannot be compared")
            self._n_unknown += len(ended_unknown)
            if changed or unknown:
                self._replace(first, own_rows)
                return
        is_damaged = f"rows-{first}" in info["damaged"] or (n_open and any(map(_is_object, info["damaged"])))
        if is_damaged or info["python"] != PYTHON:
            self._replace(first, own_rows)

    def _check_none_started(self, n_rows: int) -> None:
        """Raise `JobConflictError` if row `n_rows` or a later row has ended and must not run a second time."""
        for first, n_known, _, n_open in self._info["ranges"] if self._is_once else ():
            if first + n_known > n_rows and n_open < n_known:
                ended = bytes(self._ask(JobVerb.DIGESTS, first).frames[1])
                self._check_may_change([row for row, is_over in enumerate(ended, first) if is_over and row >= n_rows])

    def _check_may_change(self, ended: list[int]) -> None:
        if ended and self._is_once and self._work.on_change != RESTART:
            what = "has started, and must not run again with other arguments: it has the option at_most_once"
            raise self._conflict(f"row {ended[0]:,} {what}", KEEP)

    @property
    def _is_once(self) -> bool:
        return RunOptions.decode(bytes.fromhex(self._info["options"])).at_most_once

    def _row_texts(self, row: int, item: Sequence[Any]) -> str:
        try:
            payload = bytes(self._ask(JobVerb.ARGUMENTS, row).frames[0])
            was = arguments_text(self._serializer, payload)
        except JobError:
            was = "..."
        now = shown_arguments(item)
        same = " (another value that looks the same)" if was == now else ""
        return f"row {row:,} was called with ({was}), and is called with ({now}){same}"

    def _replace(self, first: int, own_rows: list[tuple[Any, ...]]) -> None:
        new = self._ranges.next_range(iter(own_rows), first, len(own_rows), _NO_LIMIT)
        assert new is not None
        self._send_objects(new)
        self._change(JobVerb.REPLACE, first, new.digest, (new.row_digests, new.block))

    # Rows

    def _send_objects(self, new: PackedRange) -> None:
        unsent, self._unsent = self._unsent, []
        for each in (*unsent, *new.objects):
            self._send_object(each)

    def _send_object(self, instruction: ObjectInstruction) -> None:
        if instruction.object_id.hex() not in self._sent:
            self._sent.add(instruction.object_id.hex())
            self._ask(JobVerb.OBJECT, 0, int(instruction.kind), instruction.object_id, instruction.frames)

    def _send_rows(self, rows: Iterator[tuple[Any, ...]], first: int) -> int:
        unwritten: deque[JobQuestion] = deque()
        n_rows = first
        for new in self._ranges.ranges(rows, first):
            self._send_objects(new)
            frames = new.row_digests, new.block
            body = bytes.fromhex(self._terms["token"]) + new.digest
            unwritten.append(self._sent_question(JobVerb.ROWS, new.first, new.n_rows, body, frames))
            n_rows += new.n_rows
            if len(unwritten) >= UNWRITTEN_MOST:
                self._await(unwritten.popleft())
        while unwritten:
            self._await(unwritten.popleft())
        return n_rows

    def _change(self, verb: JobVerb, first: int, body: bytes = b"", frames: Sequence[Any] = ()) -> None:
        """Change rows that the scheduler already has. Raises `JobConflictError` if another program changes the job."""
        token = bytes.fromhex(_new_token())
        response = self._await(self._sent_question(verb, first, self._revision, token + body, frames))
        self._revision = read_info(response)["revision"]

    def _sent_question(
        self, verb: JobVerb, first: int, amount: int, body: bytes = b"", frames: Sequence[Any] = ()
    ) -> JobQuestion:
        question = self._question(verb, first, amount, body, frames)
        self._link.ask_job(question)
        return question

    def _await(self, question: JobQuestion) -> JobResponse:
        try:
            return wait(question, self._work.deadline)
        except JobChangedError:
            raise
        except JobConflictError as error:
            raise self._conflict(f"{error}; another program submits rows to it at the same time", KEEP) from None

    def _log_not_compared(self) -> None:
        name, made = self._work.name, self._ranges
        if self._n_unknown:
            logger.warning(
                "the job %r: %d ended rows cannot be compared, and keep their results", name, self._n_unknown
            )
        elif made.n_not_compared:
            logger.warning(
                "the job %r: %d rows cannot be compared when the job is opened again; the first is row %d: %s",
                name, made.n_not_compared, *made.first_not_compared,
            )  # fmt: skip
        if self._is_made_here or self._has_version:
            warn_not_compared(name, self._fingerprint)

    def _make(self, row: int, item: Sequence[Any]) -> Any:
        function = self._work.function
        own = [self._copy(each) if isinstance(each, ObjectReference) else each for each in item]
        if has_inside(own, ResultArgument):
            raise TypeError(f"row {row} has a future, which ends with this program: pass future.result()")
        entry = function.entry(_NO_TASK, None, own)  # type: ignore[arg-type]  # has no future to refer to
        if entry[2] is not function.instruction or not all(each in self._copies.values() for each in entry[4]):
            raise TypeError(
                f"an argument of row {row} contains an ObjectReference, or is the as_is() of one. The object is "
                "deleted when this program ends: make the reference itself the argument"
            )
        return entry

    def _copy(self, reference: ObjectReference) -> ObjectReference:
        """Return a reference to the job's own copy of an object. The copy is sent before the rows that refer to it."""
        check_stored(reference)
        copy = self._copies.get(reference.object_id)
        if copy is None:
            known = self._stored.get(reference.object_id)
            if known is None:
                raise TypeError(f"{reference!r} belongs to another client: pass its value to the job instead")
            new_id = ObjectId(random_id())
            self._unsent.append(ObjectInstruction(known.kind, new_id, known.name, known.frames))
            copy = self._copies[reference.object_id] = type(reference)(known.name, new_id, reference.size)
        return copy


def other_python(info: Info) -> str:
    """Return a sentence about a job whose values were written by another minor version of Python."""
    return f"it was made by Python {info['python']}, whose pickled values this Python {PYTHON} may not read"


def warn_not_compared(name: str, found: Fingerprint) -> None:
    """Log the parts of the function of a job that cannot be compared."""
    for each in found.not_compared:
        logger.warning(
            "the job %r: its function uses %s, which cannot be compared when the job is opened again", name, each
        )


def _in_time(rows: Iterator[tuple[Any, ...]], deadline: float | None) -> Iterator[tuple[Any, ...]]:
    if deadline is None:
        return rows
    return (row for row in rows if _is_in_time(deadline))


def _is_in_time(deadline: float) -> bool:
    if time.monotonic() > deadline:
        raise TimeoutError(ROWS_LATE)
    return True


def _differing(mine: bytes, known: bytes) -> tuple[list[int], list[int]]:
    """Return the indices of rows whose digests differ, and the indices of rows that cannot be compared."""
    size = len(NOT_COMPARED)
    changed: list[int] = []
    unknown: list[int] = []
    for at in range(len(mine) // size):
        one, other = mine[at * size : at * size + size], known[at * size : at * size + size]
        if NOT_COMPARED in (one, other):
            unknown.append(at)
        elif one != other:
            changed.append(at)
    return changed, unknown


def _other_options(known: bytes, now: bytes) -> list[str]:
    """Return, for display, the task options that differ. `profiling` is not compared: it changes no result."""
    pairs = zip(RunOptions.decode(known)._asdict().items(), RunOptions.decode(now), strict=True)
    differing = [
        (name, was, value) for (name, was), value in pairs if was != value and name not in ("profiling", "seed_spawns")
    ]
    return [
        f"its option {name} was {_shown(name, was)}, and is {_shown(name, value)}" for name, was, value in differing
    ]


def _shown(option: str, value: Any) -> str:
    return repr(shown_seed(value) if option == "seed" else value)


def _is_object(damaged: str) -> bool:
    return damaged.startswith("object-")
