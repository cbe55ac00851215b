"""Requests: what a client asks the scheduler by number, about workers and the output of tasks, until it is answered.

Used by the open work and the protocol. An answer is rows and one response. A new session begins each request anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
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
    JobRequest,
    JobResponse,
    JobVerb,
    ObjectInfo,
    OutputLine,
    OutputResponse,
    WorkerInfo,
)
from scaler.wire.messages.directions import CLIENT_TO_SCHEDULER

NUMBERS = 2**32
"""A number travels as 32 bits."""

Described: TypeAlias = WorkerInfo | ObjectInfo
T = TypeVar("T")
Row = TypeVar("Row", Described, OutputLine)
Reply_contra = TypeVar("Reply_contra", InfoResponse, OutputResponse, JobResponse, contravariant=True)

OnOutput: TypeAlias = Callable[[Sequence[OutputLine], int], None]
"""Takes the lines of a task, and how many were left out, in the link's thread: must not block."""


class Asker(Protocol[Row, Reply_contra]):
    """Receives the answers to one request, in the link's thread: must not block."""

    def hear(self, response: Reply_contra, rows: list[Row]) -> bool:
        """Take an answer. Return whether it was the last one."""

    def fail(self, make_error: MakeError) -> None:
        """There will be no further answer."""


class Answer(Future[T]):
    """One answer, taken by the link. A thread waits for it with `result`, a coroutine through `asyncio.wrap_future`.

    Args:
        read: makes it from what the scheduler says; must not block.
    """

    def __init__(self, read: Callable[..., T]) -> None:
        super().__init__()
        self._read = read

    def take(self, *answer: Any) -> None:
        """It has come, maybe too late."""
        if not self.done():
            self.set_result(self._read(*answer))

    def fail(self, make_error: MakeError) -> None:
        """It will not come."""
        if not self.done():
            self.set_exception(make_error())


class Inquiry(Answer[T]):
    """One request about who is there, and what its last answer comes to.

    Args:
        read: makes that from the response and what is described in it.
        detailed: what is described too: `WORKERS`, `OBJECTS`, or nothing.
        workers: how many to wait for.
        restart: whether all workers are to go on with fresh processes.
        leave: names of workers whose clusters are to leave, separated by commas.
        cancel_tasks: short ids of tasks that are to be cancelled, in hex, separated by commas.

    Raises:
        TypeError, ValueError: if it cannot be written as a message.
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
        self._wish = (detailed, workers, restart, leave, cancel_tasks)
        check_item(CLIENT_TO_SCHEDULER, self.item(0))
        self.found: int | None = None
        """how many workers there were at the last answer; None: there was none"""

    def item(self, number: int) -> InfoRequest:
        """Return what is asked."""
        return InfoRequest(number, *self._wish)

    def hear(self, response: InfoResponse, described: list[Any]) -> bool:
        self.found = response.workers
        if response.refused:
            self.fail(partial(NotAllowedError, response.refused))
        elif response.workers >= self.workers:
            self.take(response, described)
        return self.done()


class JobQuestion(Answer[JobResponse]):
    """One question about a job.

    Raises:
        TypeError, ValueError: if it cannot be written as a message.
    """

    def __init__(
        self, verb: JobVerb, name: str, first: int = 0, amount: int = 0, body: bytes = b"", frames: Frames = ()
    ) -> None:
        super().__init__(lambda response: response)
        if not isinstance(name, str):
            raise TypeError(f"the name of a job must be a str, not {shown(name)}")
        self._said = (JobVerb(verb), name, first, amount, body, frames)
        check_item(CLIENT_TO_SCHEDULER, self.item(0))

    def item(self, number: int) -> JobRequest:
        """Return what is asked."""
        return JobRequest(number, *self._said)

    def hear(self, response: JobResponse, _rows: object) -> bool:
        self.take(response)
        return True


class Stream(Protocol):
    """Takes each line that any task of the client writes, in the link's thread: must not block."""

    def take(self, line: OutputLine) -> None: ...

    def end(self) -> None:
        """There will be no further line."""


class Requests(Generic[Row, Reply_contra]):
    """Open requests by number, with the rows that have come of each answer.

    Args:
        send: queues an item for the scheduler.
    """

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._numbers = count(1)
        self.open: dict[int, tuple[Any, Asker[Row, Reply_contra], list[Row]]] = {}
        """only to be looked at"""
        self._tries: dict[int, int] = {}
        """how many unreadable messages each open request has seen"""

    def add(
        self, asker: Asker[Row, Reply_contra], make_item: Callable[[int], Any], rows: list[Row] | None = None
    ) -> None:
        """Send the item that is made of the number of this request. Its rows go to a list of its own, or to `rows`."""
        number = next(self._numbers) % NUMBERS
        self.open[number] = (make_item(number), asker, [] if rows is None else rows)
        self._send(self.open[number][0])

    def withdraw(self, asker: Asker[Row, Reply_contra]) -> list[int]:
        """Forget the requests of an asker. Return their numbers."""
        numbers = [number for number, known in self.open.items() if known[1] is asker]
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
                item, asker, rows = self.open.pop(response.number)
                if not asker.hear(response, rows):
                    self.open[response.number] = (item, asker, [])

    def drop(self, number: int, make_error: MakeError) -> None:
        """Fail one request, if it is open."""
        if number in self.open:
            self.open.pop(number)[1].fail(make_error)

    def on_unreadable(self, make_error: MakeError) -> None:
        """Fail the requests that were open during too many messages that could not be read or written."""
        self._tries = {number: self._tries.get(number, 0) + 1 for number in self.open}
        for number, times in self._tries.items():
            if times >= TRIES_MOST and not isinstance(self.open[number][1], Follower):  # which is always open
                self.drop(number, make_error)

    def resend(self) -> None:
        """Ask in a new session."""
        for item, _, rows in self.open.values():
            rows.clear()
            self._send(item)

    def fail(self, make_error: MakeError) -> None:
        """Fail all requests."""
        failed, self.open = self.open, {}
        for _, asker, _ in failed.values():
            asker.fail(make_error)


class OutputAsker:
    """Asks what a task has written."""

    def __init__(self, on_output: OnOutput) -> None:
        self._on_output = on_output

    def hear(self, response: OutputResponse, rows: list[OutputLine]) -> bool:
        self._on_output(rows, response.dropped)
        return True

    def fail(self, _make_error: MakeError) -> None:
        self._on_output((), 0)


class Follower(list[OutputLine]):
    """Asks for all that tasks write from now on. Its rows go to the stream at once, and no response ever comes."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def append(self, line: OutputLine) -> None:
        self._stream.take(line)

    def hear(self, _response: OutputResponse, _rows: list[OutputLine]) -> bool:
        return False

    def fail(self, _make_error: MakeError) -> None:
        self._stream.end()
