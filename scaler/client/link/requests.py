"""Requests: what a client asks the scheduler by number, about workers and the output of tasks, until it is answered.

Used by the open work and the protocol. A request is sent again in a new session: its answer may have been lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Protocol, TypeAlias

from scaler.client.calls.entry import MakeError
from scaler.ids import NO_ID, TaskId
from scaler.wire.messages.client import InfoRequest, InfoResponse, OutputLine, OutputRequest, OutputResponse, WorkerInfo

NUMBERS = 2**32
"""A number travels as 32 bits."""


class Inquiry(Protocol):
    """Receives the answers to one request. Called by the link's thread: must not block."""

    detailed: bool
    workers: int
    restart: bool
    leave: str

    def hear(self, response: InfoResponse, workers: list[WorkerInfo]) -> bool:
        """Take an answer. Return whether it was the last one."""

    def fail(self, make_error: MakeError) -> None:
        """There will be no further answer."""


class Inquiries:
    """The open inquiries of a client, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, Inquiry] = {}
        """only to be looked at"""
        self._described: dict[int, list[WorkerInfo]] = {}
        self._numbers = count(1)

    def ask(self, inquiry: Inquiry) -> InfoRequest:
        """Add an inquiry. Return what asks for it."""
        number = next(self._numbers) % NUMBERS
        self.by_number[number] = inquiry
        return _request(number, inquiry)

    def withdraw(self, inquiry: Inquiry) -> list[InfoRequest]:
        """Forget an inquiry. Return what has the scheduler forget it."""
        numbers = [number for number, known in self.by_number.items() if known is inquiry]
        for number in numbers:
            self._forget(number)
        return [InfoRequest(number) for number in numbers]

    def all_again(self) -> Iterable[InfoRequest]:
        """Return the requests of all that are open."""
        self._described.clear()
        return [_request(number, inquiry) for number, inquiry in self.by_number.items()]

    def on_worker(self, info: WorkerInfo) -> None:
        if info.number in self.by_number:
            self._described.setdefault(info.number, []).append(info)

    def on_response(self, response: InfoResponse) -> None:
        inquiry = self.by_number.get(response.number)
        if inquiry is not None and inquiry.hear(response, self._described.pop(response.number, [])):
            self._forget(response.number)

    def _forget(self, number: int) -> None:
        del self.by_number[number]
        self._described.pop(number, None)

    def fail(self, make_error: MakeError) -> None:
        """Fail all."""
        inquiries, self.by_number = self.by_number, {}
        self._described.clear()
        for inquiry in inquiries.values():
            inquiry.fail(make_error)


def _request(number: int, inquiry: Inquiry) -> InfoRequest:
    return InfoRequest(number, inquiry.detailed, inquiry.workers, inquiry.restart, inquiry.leave)


NUMBERS = 2**32
"""A number travels as 32 bits."""
OPEN_MOST = 1024
"""So many requests are open; the oldest ones were given up by those who asked."""

OnOutput: TypeAlias = Callable[[Sequence[OutputLine], int], None]
"""Takes the lines of a task, and how many were left out, in the link's thread: must not block."""


class Stream(Protocol):
    """Takes each line that any task of the client writes, in the link's thread: must not block."""

    def take(self, line: OutputLine) -> None: ...

    def end(self) -> None:
        """There will be no further line."""


class Outputs:
    """The open requests of a client.

    Args:
        say: has the scheduler told something.
    """

    def __init__(self, say: Callable[[Any], None]) -> None:
        self._say = say
        self._numbers = count(1)
        self._open: dict[int, tuple[OutputRequest, OnOutput, list[OutputLine]]] = {}
        self._stream: Stream | None = None
        self._stream_number = 0

    def ask(self, task_id: TaskId, on_output: OnOutput, report: bool = False) -> None:
        """Ask what a task has written, or only what it has reported last."""
        number = next(self._numbers) % NUMBERS
        request = OutputRequest(number, task_id, report)
        self._open[number] = (request, on_output, [])
        if len(self._open) > OPEN_MOST:
            del self._open[next(iter(self._open))]
        self._say(request)

    def follow(self, stream: Stream) -> None:
        """Ask for all that tasks write from now on."""
        self._stream = stream
        self._stream_number = next(self._numbers) % NUMBERS
        self._say(OutputRequest(self._stream_number, TaskId(NO_ID)))

    def on_lines(self, lines: Iterable[OutputLine]) -> None:
        for line in lines:
            asked = self._open.get(line.number)
            if asked is not None:
                asked[2].append(line)
            elif self._stream is not None and line.number == self._stream_number:
                self._stream.take(line)

    def on_responses(self, responses: Iterable[OutputResponse]) -> None:
        for response in responses:
            asked = self._open.pop(response.number, None)
            if asked is not None:
                asked[1](asked[2], response.dropped)

    def resend(self) -> None:
        """Ask in a new session."""
        if self._stream is not None:
            self._say(OutputRequest(self._stream_number, TaskId(NO_ID)))
        for request, _, lines in self._open.values():
            lines.clear()
            self._say(request)

    def end(self) -> None:
        """The client has ended: nothing more comes."""
        if self._stream is not None:
            self._stream.end()
        asked, self._open = self._open, {}
        for _, on_output, _ in asked.values():
            on_output((), 0)
