"""JobBar: the progress bar of a wait for a job.

Drawn by the thread or coroutine that waits. The bar asks the scheduler for the numbers of rows twice a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from scaler.client.jobs.job_requests import Info, checked, read_info
from scaler.client.link.requests import JobQuestion
from scaler.client.progress.bar import Progress

if TYPE_CHECKING:
    from typing_extensions import Self

ASK_SECONDS = 0.5
"""The time between two requests for the state of the job."""


class JobBar:
    """A progress bar of the rows of a job. It is drawn for the last time at the end of its `with` block.

    Args:
        ask: a function that sends a request for the state of the job.
        concern: a function that returns why no scheduler answers; empty if a scheduler answers.
    """

    def __init__(self, info: Info, ask: Callable[[], JobQuestion], concern: Callable[[], str]) -> None:
        self.info, self._ask, self._link_concern = info, ask, concern
        self._question: JobQuestion | None = None
        self._ask_at = time.monotonic() + ASK_SECONDS
        self._bar = Progress(_total(info), sys.stderr, self._concern, done=_ended(info)[0])

    def draw(self) -> None:
        """Draw the latest numbers of rows. If the next request is due, send it."""
        if self._question is not None and self._question.done():
            if not self._question.exception():  # otherwise the wait for the job ends with that error, too
                self.info = read_info(checked(self._question.result()))
            self._question = None
        if self._question is None and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + ASK_SECONDS
            self._question = self._ask()
        self._bar.total = _total(self.info)
        self._bar.update(*_ended(self.info))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.total = _total(self.info)
        self._bar.finish(*_ended(self.info))

    def _concern(self) -> str:
        return self._link_concern() or str(self.info["reason"])


def _ended(info: Info) -> tuple[int, int]:
    return info["done"] + info["failed"], info["failed"]


def _total(info: Info) -> int | None:
    return info["rows"] if info["sealed"] else None
