"""Requests: a client's numbered requests about workers, jobs and the output of tasks, each open until it is answered.

Used by the open work and the protocol. An answer consists of rows and one response. In a new session, all open requests
are sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from scaler.client.calls.entry import MakeError
from scaler.errors import NotAllowedError
from scaler.peer.conversation_state import TRIES_MOST
from scaler.pickling.serialization import Frames
from scaler.texts import shown
from scaler.wire.codec.codec import check_item
from scaler.wire.messages.client import (
    InfoRequest,
    InfoResponse,
    JobAnswerKind,
    JobRequest,
    JobResponse,
    JobVerb,
    ObjectDetails,
    OutputLine,
    OutputResponse,
    WorkerDetails,
)
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER

logger = logging.getLogger(__name__)

NUMBERS = 2**32
"""The number of different request numbers: a request number has 32 bits."""

Described: TypeAlias = WorkerDetails | ObjectDetails
T = TypeVar("T")
Row = TypeVar("Row", Described, OutputLine)
Reply_contra = TypeVar("Reply_contra", InfoResponse, OutputResponse, JobResponse, contravariant=True)

OnOutput: TypeAlias = Callable[[Sequence[OutputLine], int], None]
"""Receives output lines of a task, and the number of dropped lines. Called in the link's thread: must not block."""


class AnswerReceiver(Protocol[Row, Reply_contra]):
    """A receiver of the answers to one request. Called in the link's thread: must not block."""

    def receive(self, response: Reply_contra, rows: list[Row]) -> bool:
        """Receive an answer. Return whether this was the last answer to the request."""

    def fail(self, make_error: MakeError) -> None:
        """Fail the request: no further answer will arrive."""


class Answer(Future[T]):
    """A future of the answer to one request; the link sets its result. Coroutines wait for it through
    `asyncio.wrap_future`.

    Args:
        read: converts the arguments of `take` to the result; must not block.
    """

    def __init__(self, read: Callable[..., T]) -> None:
        super().__init__()
        self._read = read

    def take(self, *answer: Any) -> None:
        """Set the answer as the result, unless the future has ended already."""
        if not self.done():
            value = self._read(*answer)
            with suppress(InvalidStateError):  # a coroutine that awaited it was cancelled just now
                self.set_result(value)

    def fail(self, make_error: MakeError) -> None:
        """Set an exception, unless the future has ended already."""
        if not self.done():
            with suppress(InvalidStateError):
                self.set_exception(make_error())


class Inquiry(Answer[T]):
    """A request about the scheduler and its workers, and the future of the final answer.

    Args:
        read: converts the response and its rows, which describe workers or objects, to the result.
        detailed: what the answer describes one by one: `WORKERS`, `OBJECTS`, or 0 for nothing.
        workers: the number of workers to wait for.
        restart: whether to restart the processes of all workers.
        leave: names of workers, separated by commas: the clusters of these workers are to leave.
        cancel_tasks: short ids, in hex, of tasks to cancel, separated by commas.

    Raises:
        TypeError, ValueError: if an argument cannot be encoded.
    """

    def __init__(
        self,
        read: Callable[[InfoResponse, list[Any]], T],
        detailed: int = 0,
        workers: int = 0,
        restart: bool = False,
        leave: str = "",
        cancel_tasks: str = "",
    ) -> None:
        super().__init__(read)
        self.workers = workers
        self._request = (detailed, workers, restart, leave, cancel_tasks)
        check_item(CLIENT_TO_SCHEDULER, self.item(0))
        self.found: int | None = None
        """the number of workers in the last answer; None before the first answer"""

    def item(self, number: int) -> InfoRequest:
        """Return the request as a message item with this number."""
        return InfoRequest(number, *self._request)

    def receive(self, response: InfoResponse, described: list[Any]) -> bool:
        self.found = response.workers
        if response.refused:
            self.fail(partial(NotAllowedError, response.refused))
        elif response.workers >= self.workers:
            self.take(response, described)
        return self.done()


class JobQuestion(Answer[JobResponse]):
    """A request about a job, and the future of the answer.

    `waits_for` is the reason why the answer is delayed, as the scheduler reported it; empty without a report.

    Raises:
        TypeError, ValueError: if an argument cannot be encoded.
    """

    def __init__(
        self,
        verb: JobVerb,
        name: str,
        first: int = 0,
        amount: int = 0,
        body: bytes = b"",
        frames: Frames = (),
        record: bytes = b"",
    ) -> None:
        super().__init__(lambda response: response)
        if not isinstance(name, str):
            raise TypeError(f"the name of a job must be a str, not {shown(name)}")
        self._request = (JobVerb(verb), name, first, amount, body, record, frames)
        self.waits_for = ""
        check_item(CLIENT_TO_SCHEDULER, self.item(0))

    def item(self, number: int) -> JobRequest:
        """Return the request as a message item with this number."""
        return JobRequest(number, *self._request)

    def receive(self, response: JobResponse, _rows: object) -> bool:
        if response.status != JobAnswerKind.WAITS:
            self.take(response)
            return True
        if response.reason not in ("", self.waits_for):
            logger.warning("the job %r waits: %s", self._request[1], response.reason)
        self.waits_for = response.reason
        return False


class OutputListener(Protocol):
    """Receives each output line of all tasks of the client. Called in the link's thread: must not block."""

    def take(self, line: OutputLine) -> None: ...

    def end(self) -> None:
        """End the stream: no further line will arrive."""


class Requests(Generic[Row, Reply_contra]):
    """The open requests by number, each with the rows received so far. `send` queues an item for the scheduler."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._numbers = count(1)
        self.open: dict[int, tuple[Any, AnswerReceiver[Row, Reply_contra], list[Row]]] = {}
        """number of a request -> its item, its receiver, and the rows received so far; read-only outside this class"""
        self._tries: dict[int, int] = {}
        """number of a request -> how many messages could not be read or written while the request was open"""

    def add(
        self,
        receiver: AnswerReceiver[Row, Reply_contra],
        make_item: Callable[[int], Any],
        rows: list[Row] | None = None,
    ) -> None:
        """Send a new request, which `make_item` makes from its number. Received rows go to `rows`, or to a new list."""
        number = next(self._numbers) % NUMBERS
        self.open[number] = (make_item(number), receiver, [] if rows is None else rows)
        self._send(self.open[number][0])

    def withdraw(self, receiver: AnswerReceiver[Row, Reply_contra]) -> list[int]:
        """Remove the requests of a receiver. Return the numbers of these requests."""
        numbers = [number for number, known in self.open.items() if known[1] is receiver]
        for number in numbers:
            del self.open[number]
        return numbers

    def on_rows(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row.number in self.open:
                self.open[row.number][2].append(row)

    def on_responses(self, responses: Iterable[Reply_contra]) -> None:
        for response in responses:
            if response.number in self.open:
                item, receiver, rows = self.open.pop(response.number)
                if not receiver.receive(response, rows):
                    self.open[response.number] = (item, receiver, [])

    def drop(self, number: int, make_error: MakeError) -> None:
        """Fail the request with this number, if it is open."""
        if number in self.open:
            self.open.pop(number)[1].fail(make_error)

    def on_unreadable(self, make_error: MakeError) -> None:
        """Count an unreadable or unwritable message. Fail requests that were open during `TRIES_MOST` such messages."""
        self._tries = {number: self._tries.get(number, 0) + 1 for number in self.open}
        for number, times in self._tries.items():
            if times >= TRIES_MOST and not isinstance(
                self.open[number][1], OutputFollower
            ):  # a Follower is always open
                self.drop(number, make_error)

    def resend(self) -> None:
        """Resend all open requests in a new session."""
        for item, _, rows in self.open.values():
            rows.clear()
            self._send(item)

    def fail(self, make_error: MakeError) -> None:
        """Fail all requests."""
        failed, self.open = self.open, {}
        for _, receiver, _ in failed.values():
            receiver.fail(make_error)


class OutputQuery:
    """A request for the output of a task."""

    def __init__(self, on_output: OnOutput) -> None:
        self._on_output = on_output

    def receive(self, response: OutputResponse, rows: list[OutputLine]) -> bool:
        self._on_output(rows, response.dropped)
        return True

    def fail(self, _make_error: MakeError) -> None:
        self._on_output((), 0)


class OutputFollower(list[OutputLine]):
    """A request for all output that tasks write from now on. It stays open; each row goes to the stream at once."""

    def __init__(self, stream: OutputListener) -> None:
        super().__init__()
        self._stream = stream

    def append(self, line: OutputLine) -> None:
        self._stream.take(line)

    def receive(self, _response: OutputResponse, _rows: list[OutputLine]) -> bool:
        return False

    def fail(self, _make_error: MakeError) -> None:
        self._stream.end()
