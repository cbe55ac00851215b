"""Progress of futures: shows how many futures have ended, until all of them have ended.

Runs in the thread of its caller. Checking the futures takes at most about 1/`LOOK_SHARE` of the time of that thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from scaler.client.calls.inputs import ResultArgument
from scaler.client.future import ScalerFuture
from scaler.client.link.requests import OnOutput
from scaler.client.progress.bar import REDRAW_SECONDS, Progress, Reports
from scaler.config import check_timeout
from scaler.texts import shown

F = TypeVar("F", bound="Future[Any]")

LOOK_SHARE = 50
"""The pause after a check of all open futures, as a multiple of the duration of the check."""


def progress(futures: Iterable[F], *, timeout: float | None = None) -> list[F]:
    """Show the progress of futures until all have ended, and return the futures in their order.

    The display shows how many futures have ended and failed, the rate, the remaining time, and the reason if no task
    progresses. It is one line of standard error on a terminal, an output of a notebook cell, or a bar of tqdm if tqdm
    is installed. A file or a pipe gets a line every ten seconds and at the end. Exceptions of futures are not raised.

    Args:
        futures: the futures to watch.
        timeout: seconds after which to give up; by default never.

    Raises:
        TypeError: if an item is not a future.
        ConfigError: if `timeout` is not a number in range; this error is a `ValueError`.
        TimeoutError: if some futures are still open after `timeout` seconds.
    """
    if isinstance(futures, (Future, ResultArgument)) or not isinstance(futures, Iterable):
        raise TypeError(f"progress() takes an iterable of futures, such as [future], not {shown(futures)}")
    watched = list(futures)
    for future in watched:
        if not isinstance(future, Future):
            raise TypeError(f"progress() takes futures, not {shown(future)}")
    timeout = check_timeout(timeout)
    watch = _Watch(watched)
    bar = Progress(len(watched), sys.stderr, watch.concern)
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        while watch.look():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"{watch.done} of {len(watched)} futures have ended after {timeout:g} s")
            bar.update(watch.done, watch.failed)
            watch.wait(left)
    finally:
        bar.finish(watch.done, watch.failed)
    return watched


class _Watch:
    """Counts the ended and failed futures."""

    def __init__(self, futures: list[F]) -> None:
        self._open: list[Any] = futures
        self._pause_seconds = REDRAW_SECONDS
        self._reports = Reports(self._ask)
        self.done = 0
        self.failed = 0

    def look(self) -> bool:
        """Check the open futures. Return whether some futures are still open."""
        started = time.monotonic()
        still_open = []
        for future in self._open:
            if not future.done():
                still_open.append(future)
            elif future.cancelled() or _has_failed(future):
                self.failed += 1
        self.done += len(self._open) - len(still_open)
        self._open = still_open
        self._pause_seconds = max(REDRAW_SECONDS, LOOK_SHARE * (time.monotonic() - started))
        return bool(still_open)

    def wait(self, most: float | None) -> None:
        """Wait for a while, for at most `most` seconds. Return early if the last open future ends."""
        seconds = self._pause_seconds if most is None else min(most, self._pause_seconds)
        wait(self._open[-1:], seconds)

    def concern(self) -> str:
        """Return why no task progresses, or the progress report of the first open future; empty without either."""
        first = self._first()
        return "" if first is None else first.concern or self._reports.text()

    def _first(self) -> ScalerFuture[Any] | None:
        return next((future for future in self._open[:1] if isinstance(future, ScalerFuture)), None)

    def _ask(self, on_output: OnOutput) -> None:
        first = self._first()
        if first is not None:
            first.ask_report(on_output)


def _has_failed(future: Future[Any]) -> bool:
    return future.has_failed if isinstance(future, ScalerFuture) else future.exception(0) is not None
