"""OutputLimiter: bounds what the tasks of a node write before it travels to the scheduler.

Used by the link. Of all workers together so many lines pass in a second; of the others it is counted how many each run
has lost, and that is said with its next line, or before its result. Must never: keep a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scaler.ids import TaskId
from scaler.process.allowance import Allowance
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import OutputStream
from scaler.wire.messages.worker import RunOutput, RunResult

TIMES_OF_ONE = 2
"""All workers together have so many times the lines of one."""
BURST_SECONDS = 4
"""After some silence, as many lines pass at once as usually in so many seconds."""


class OutputLimiter:
    """The lines of one node.

    Args:
        lines_per_second: of one worker.
        clock: returns the time in seconds.
    """

    def __init__(self, lines_per_second: float, clock: Callable[[], float]) -> None:
        self._allowance = Allowance(TIMES_OF_ONE * lines_per_second, BURST_SECONDS, clock)
        self.owed: dict[tuple[TaskId, int], RunOutput] = {}
        """runs of which lines were left out since it was said last: the last of these lines"""
        self.reported: dict[int, tuple[TaskId, float]] = {}
        """by worker: which task has reported last how far it is, and when"""
        self._clock = clock

    def passing(self, lines: Iterable[RunOutput], is_up: bool) -> Batch[RunOutput]:
        """Return the lines that may be said. `is_up`: whether there is a scheduler now; else there are none."""
        passing = Batch[RunOutput]()
        for line in lines:
            if line.stream == OutputStream.REPORT:  # there are few, and only the latest counts
                self.reported[line.worker] = line.task_id, self._clock()
                if is_up:
                    passing.append(line)
                continue
            run = (line.task_id, line.attempt)
            if is_up and self._allowance.take(len(line.text)):
                passing.append(_with(line, self._dropped(run) + line.dropped, line.text))
            else:
                self.owed[run] = _with(line, self._dropped(run) + line.dropped + 1, "")
        return passing

    def _dropped(self, run: tuple[TaskId, int]) -> int:
        owed = self.owed.pop(run, None)
        return 0 if owed is None else owed.dropped

    def last_words(self, results: Iterable[RunResult]) -> Batch[RunOutput]:
        """These runs have ended: return how many of their lines were left out since it was said last."""
        owed = (self.owed.pop((result.task_id, result.attempt), None) for result in results)
        return Batch[RunOutput](words for words in owed if words is not None)


def _with(line: RunOutput, dropped: int, text: str) -> RunOutput:
    if dropped == line.dropped and text is line.text:
        return line
    return RunOutput(line.task_id, line.worker, line.attempt, line.stream, line.time_us, dropped, text)
