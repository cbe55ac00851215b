"""Outputs: what a client has asked about the output of its tasks, until it has the answers; and its stream of lines.

Used by the protocol only. Requests are said again when a session begins anew. Must never: block, or leave a request
open when the client has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Protocol, TypeAlias

from scaler.ids import NO_ID, TaskId
from scaler.wire.messages.client import OutputLine, OutputRequest, OutputResponse

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
