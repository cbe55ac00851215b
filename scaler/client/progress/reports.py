"""Reports: what the oldest open task says of itself, for a progress bar that draws now.

Asked by bars, in the thread of their caller, which never waits for it: the answer is shown the next time. Must never:
ask more often than the bar's reader can follow, or when no bar is drawn.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from scaler.client.insight.task_log import read_progress
from scaler.client.link.outputs import OnOutput
from scaler.errors import DisconnectedError
from scaler.wire.messages.client import OutputLine

ASK_SECONDS = 1.0


class Reports:
    """The latest report of a task.

    Args:
        ask: asks what the task has reported.
    """

    def __init__(self, ask: Callable[[OnOutput], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._next_at = clock() + ASK_SECONDS
        self._text = ""

    def text(self) -> str:
        """Return what is known; empty: nothing."""
        now = self._clock()
        if now >= self._next_at:
            self._next_at = now + ASK_SECONDS
            with contextlib.suppress(DisconnectedError):
                self._ask(self._take)
        return self._text

    def _take(self, lines: Sequence[OutputLine], _dropped: int) -> None:
        progress = read_progress(lines)
        self._text = "" if progress is None else f"{lines[0].name}: {progress}"
