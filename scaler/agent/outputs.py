"""OutputLimiter: limits how many lines printed by a node's tasks are sent to the scheduler.

Used by the link. Lines beyond the limit of all workers together are dropped. The number of dropped lines of a run is
sent with the next line of the run, or before its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from scaler.ids import TaskId
from scaler.process.allowance import Allowance
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import OutputStream
from scaler.wire.messages.rows import row_id
from scaler.wire.messages.worker import RunOutput, RunResult

TIMES_OF_ONE = 2
"""The limit of all workers together, as a multiple of the limit of one worker."""
BURST_SECONDS = 4
"""The length of the largest burst: after a silence, as many lines pass at once as are allowed in this time."""


class OutputLimiter:
    """Limits how many printed lines a node sends; `lines_per_second` is the limit for one worker."""

    def __init__(self, lines_per_second: float, clock: Callable[[], float]) -> None:
        self._allowance = Allowance(TIMES_OF_ONE * lines_per_second, BURST_SECONDS, clock)
        self.unreported: dict[tuple[TaskId, int, int], RunOutput] = {}
        """by run and row: an output without text, with the number of dropped lines that have not been reported"""
        self.reported: dict[int, tuple[TaskId, float]] = {}
        """by worker: the task that reported its progress last, and the time of this report"""
        self._clock = clock

    def passing(self, lines: Iterable[RunOutput], is_up: bool) -> Batch[RunOutput]:
        """Return those of these lines that are sent now. While no scheduler is connected, all lines are dropped."""
        passing = Batch[RunOutput]()
        for line in lines:
            if line.stream == OutputStream.REPORT:  # reports are few, and only the latest counts
                self.reported[line.worker] = row_id(line.task_id, line.row), self._clock()
                if is_up:
                    passing.append(line)
                continue
            run = (line.task_id, line.attempt, line.row)
            if is_up and self._allowance.take(len(line.text)):
                passing.append(_with(line, self._dropped(run) + line.dropped, line.text))
            else:
                self.unreported[run] = _with(line, self._dropped(run) + line.dropped + 1, "")
        return passing

    def _dropped(self, run: tuple[TaskId, int, int]) -> int:
        unreported = self.unreported.pop(run, None)
        return 0 if unreported is None else unreported.dropped

    def take_unreported(self, results: Iterable[RunResult]) -> Batch[RunOutput]:
        """Remove and return the unreported numbers of dropped lines of these runs, which have ended."""
        ended = {(result.task_id, result.attempt) for result in results}
        runs = [run for run in self.unreported if run[:2] in ended]
        return Batch[RunOutput](self.unreported.pop(run) for run in runs)


def _with(line: RunOutput, dropped: int, text: str) -> RunOutput:
    if dropped == line.dropped and text is line.text:
        return line
    return replace(line, dropped=dropped, text=text)
