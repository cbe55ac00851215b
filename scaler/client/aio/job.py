"""AsyncJob: work that the scheduler keeps, for whoever comes back to it, awaited.

Made by `AsyncClient.start` and `AsyncClient.job`. Each question waits in a thread of the loop's executor.
Must never: hold up the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

from scaler.client.jobs.job import FailedRow, Job, JobProgress

T = TypeVar("T")

AT_ONCE = 256
"""So many results come from the thread at a time, if they are there."""


class AsyncJob:
    """Work that the scheduler keeps under a name. Its calls are those of `Job`, awaited.

    Attributes:
        name: of the job.
    """

    def __init__(self, job: Job) -> None:
        self.name = job.name
        self._job = job

    def __repr__(self) -> str:
        return repr(self._job).replace("<Job", "<AsyncJob", 1)

    async def progress(self) -> JobProgress:
        """Return how far it is."""
        return await in_thread(self._job.progress)

    async def wait(self, timeout: float | None = None) -> JobProgress:
        """Wait until it has ended, and return how. Raises `TimeoutError` if it took longer; the job goes on."""
        return await in_thread(self._job.wait, timeout)

    def results(self, start: int = 0, return_exceptions: bool = False) -> AsyncIterator[Any]:
        """Go through the results in the order of the rows, as `Job.results` does."""
        return through(self._job.results(start, return_exceptions))

    def as_completed(self, return_exceptions: bool = False) -> AsyncIterator[tuple[int, Any]]:
        """Go through rows and results in the order in which they come, as `Job.as_completed` does."""
        return through(self._job.as_completed(return_exceptions))

    async def failures(self) -> list[FailedRow]:
        """Return the rows that have failed."""
        return await in_thread(self._job.failures)

    async def retry(self) -> None:
        """Run the rows again that have failed, and go on if it was cancelled or has stopped."""
        await in_thread(self._job.retry)

    async def cancel(self) -> None:
        """End it; what has ended is kept."""
        await in_thread(self._job.cancel)

    async def forget(self) -> None:
        """End it, and keep nothing."""
        await in_thread(self._job.forget)


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Call something that waits."""
    return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)


async def through(results: Iterator[T]) -> AsyncIterator[T]:
    """Go through an iterator that waits. The first results come one by one, the others in groups."""
    most = 1
    try:
        while group := await in_thread(list[T], islice(results, most)):
            for result in group:
                yield result
            most = min(2 * most, AT_ONCE)
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            await in_thread(close)
