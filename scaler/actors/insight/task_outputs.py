"""TaskOutputs: receives the lines that tasks write, and sends each line to the client of its task.

Lines come from worker proxies, requests for lines come from client sessions, and the acceptor reports ended sessions. A
client receives the lines of its own tasks and of tasks nested in them, and no other lines. The unacknowledged lines for
a client are bounded, so a slow client needs little memory.
"""

from __future__ import annotations

from collections import deque

from scaler.actors.insight.output_table import KeptLine, OutputTable
from scaler.actors.messages.outputs import OutputRequested, RunsPrinted
from scaler.actors.messages.peers import ReportStatistics, SessionEnded
from scaler.actors.objects.object_table import ObjectTable
from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.peer import Peer
from scaler.ids import NO_CONNECTION, NO_ID, TaskId
from scaler.kit import Actor, charged_to, handles
from scaler.message import message
from scaler.wire.messages.client import OutputLine, OutputRequest, OutputResponse, Task
from scaler.wire.messages.common import OutputStream

UNACKNOWLEDGED_MOST = 5000
"""Limit of the unacknowledged lines for a client. At this limit a stream omits lines, and other requests wait."""
WAITING_MOST = 256
"""Limit of the waiting requests of a client. Beyond this limit the oldest request is answered without lines."""
LOOK_SECONDS = 0.25
"""Interval at which waiting requests are examined."""


@message
class _CheckReaders:
    """outputs -> itself, by timer: serve waiting requests of clients that have acknowledged earlier answers."""


@message
class _ExpireDue:
    """outputs -> itself, by timer: drop expired output."""


class OutputReader:
    """A client that has requested output, with the number of lines that were sent and not acknowledged."""

    __slots__ = ("dropped", "number", "peer", "pipe", "unheard", "unheard_lines", "waiting")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.pipe = peer.pipe
        self.number: int | None = None
        """the number of the client's request for a stream of all lines; None without a stream"""
        self.dropped = 0
        """the number of lines that the stream has omitted since the last sent line"""
        self.unheard: deque[tuple[int, int]] = deque()
        """for each unacknowledged message to the client: its number, and the number of its lines"""
        self.unheard_lines = 0
        self.waiting: deque[tuple[frozenset[int] | None, OutputRequest]] = deque()

    def has_capacity(self) -> bool:
        """Return whether the number of unacknowledged lines is below `UNACKNOWLEDGED_MOST`."""
        if self.pipe is not self.peer.pipe:  # its peer has a new session
            self.pipe, self.unheard_lines = self.peer.pipe, 0
            self.unheard.clear()
        while self.unheard and self.pipe.acknowledged >= self.unheard[0][0]:
            self.unheard_lines -= self.unheard.popleft()[1]
        return self.unheard_lines < UNACKNOWLEDGED_MOST

    def said(self, lines: int) -> None:
        """Count `lines` more unacknowledged lines, which are about to be sent."""
        number = self.pipe.last_sent + 1
        self.unheard_lines += lines
        if self.unheard and self.unheard[-1][0] == number:
            lines += self.unheard.pop()[1]
        self.unheard.append((number, lines))


class OutputState:
    """The output table and the readers, which outlive the actor `TaskOutputs`."""

    def __init__(self, retention_seconds: float) -> None:
        self.table = OutputTable(retention_seconds)
        self.readers: dict[Peer, OutputReader] = {}
        self.streams: dict[int, OutputReader] = {}
        """the client that receives a stream of all lines of its tasks, by account"""


class TaskOutputs(Actor):
    """Stores the lines that tasks write, and sends lines to the clients that request them."""

    def __init__(self, state: OutputState, outbox: Outbox, objects: ObjectTable) -> None:
        self._state = state
        self._table = state.table
        self._outbox = outbox
        self._objects = objects
        self._check_is_due = self._will_expire = False

    def on_start(self) -> None:
        self._expire_later()
        if any(reader.waiting for reader in self._state.readers.values()):
            self._schedule_check()

    # Lines

    @handles(RunsPrinted)
    @charged_to("host")
    def _lines_arrived(self, said: RunsPrinted) -> None:
        now, add, streams = self.now(), self._table.add, self._state.streams
        for line, spec, account in said.lines:
            name = self._name(spec)
            kept = add(line, account, name, said.worker, now)
            reader = streams.get(account)
            if reader is not None and line.stream != OutputStream.REPORT:
                self._stream(reader, spec.task_id, name, kept)
        self._expire_later()

    def _name(self, spec: Task) -> str:
        stored = None if spec.name else self._objects.functions.get(spec.function_id)
        return spec.name if stored is None else stored.name

    def _stream(self, reader: OutputReader, task_id: TaskId, name: str, line: KeptLine) -> None:
        assert reader.number is not None
        if reader.peer.connection == NO_CONNECTION or not reader.has_capacity():
            reader.dropped += 1 + line.dropped
            return
        line = line._replace(dropped=line.dropped + reader.dropped)
        reader.dropped = 0
        self._outbox.put(reader.peer, _item(reader.number, task_id, name, line))
        reader.said(1)

    def _expire_later(self) -> None:
        at = None if self._will_expire else self._table.expire(self.now())
        if at is not None:
            self._will_expire = True
            self.schedule(max(1.0, at - self.now()), _ExpireDue())

    @handles(_ExpireDue)
    def _expire(self, _due: _ExpireDue) -> None:
        self._will_expire = False
        self._expire_later()

    # Requests

    @handles(OutputRequested)
    @charged_to("peer.session")
    def _asked(self, asked: OutputRequested) -> None:
        reader = self._state.readers.get(asked.peer)
        if reader is None:
            reader = self._state.readers[asked.peer] = OutputReader(asked.peer)
        for request in asked.requests:
            if request.task_id != NO_ID:
                reader.waiting.append((asked.accounts, request))
            elif asked.stream_of is not None:
                reader.number = request.number
                self._state.streams[asked.stream_of] = reader
        while len(reader.waiting) > WAITING_MOST:
            self._outbox.put(reader.peer, OutputResponse(reader.waiting.popleft()[1].number, 0))
        self._serve(reader)

    def _serve(self, reader: OutputReader) -> None:
        while reader.waiting and reader.has_capacity():
            self._serve_one(reader, *reader.waiting.popleft())
        if reader.waiting:
            self._schedule_check()

    def _serve_one(self, reader: OutputReader, accounts: frozenset[int] | None, request: OutputRequest) -> None:
        peer, task = reader.peer, self._table.find(request.task_id)
        dropped = 0
        if task is not None and (accounts is None or task.account in accounts):
            dropped = task.dropped
            lines = task.lines if not request.report else () if task.report is None else (task.report,)
            for line in lines:
                self._outbox.put(peer, _item(request.number, request.task_id, task.name, line))
            reader.said(len(lines))
        self._outbox.put(peer, OutputResponse(request.number, dropped))

    def _schedule_check(self) -> None:
        if not self._check_is_due:
            self._check_is_due = True
            self.schedule(LOOK_SECONDS, _CheckReaders())

    @handles(_CheckReaders)
    def _check_waiting(self, _look: _CheckReaders) -> None:
        self._check_is_due = False
        for reader in self._state.readers.values():
            self._serve(reader)

    @handles(SessionEnded)
    def _session_ended(self, ended: SessionEnded) -> None:
        reader = self._state.readers.pop(ended.peer, None)
        if reader is not None:
            streams = self._state.streams
            self._state.streams = {account: each for account, each in streams.items() if each is not reader}

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        counts = {"tasks": len(self._table), "bytes": self._table.size_bytes, "readers": len(self._state.readers)}
        ask.report.add("outputs", "", counts)


def _item(number: int, task_id: TaskId, name: str, line: KeptLine) -> OutputLine:
    return OutputLine(number, task_id, line.stream, line.time_us, line.dropped, name, line.worker, line.text)
