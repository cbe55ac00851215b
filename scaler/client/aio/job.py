"""AsyncJob: the awaitable counterpart of `Job`.

Returned by `AsyncClient.start`, `AsyncClient.job` and `AsyncClient.jobs`. Each request waits in a thread of the loop's
executor, so the loop is never blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from scaler.client.jobs.job import FailedRow, Job, JobProgress

T = TypeVar("T")

AT_ONCE = 256
"""The most results fetched from the thread at a time."""


class AsyncFailedRow(FailedRow):
    """A failed row, as `AsyncJob.failures` returns it: a `FailedRow` whose `rerun` is awaited."""

    async def rerun(self, *, again: bool = False) -> Any:
        """Call the function of the row again, here, as `FailedRow.rerun` does.

        The call is read in a thread of the loop's executor. Then the function runs in the thread of the loop, which
        stands still until the function returns, so that a debugger stops in it. Raises as `FailedRow.rerun`.
        """
        __tracebackhide__ = True
        from scaler.client.rerun.failed_call import run  # noqa: PLC0415 - few programs need it

        return run(await in_thread(partial(self._call, again=again)))


class AsyncJob:
    """A handle of work that the scheduler keeps under a name. Its methods are those of `Job`, awaited.

    Attributes:
        name: the name of the job.
    """

    def __init__(self, job: Job) -> None:
        self.name = job.name
        self._job = job

    def __repr__(self) -> str:
        return repr(self._job).replace("<Job", "<AsyncJob", 1)

    async def progress(self) -> JobProgress:
        """Return the state of the job and its numbers of rows."""
        return await in_thread(self._job.progress)

    async def wait(self, timeout: float | None = None) -> JobProgress:
        """Wait until the job has ended, and return its progress. Raises `TimeoutError` after `timeout` seconds."""
        return await in_thread(self._job.wait, timeout)

    def results(self, start: int = 0, return_exceptions: bool = False) -> AsyncIterator[Any]:
        """Iterate over the results in the order of the rows, as `Job.results` does."""
        return through(self._job.results(start, return_exceptions))

    def as_completed(self, return_exceptions: bool = False) -> AsyncIterator[tuple[int, Any]]:
        """Iterate over (row number, result) in the order of completion, as `Job.as_completed` does."""
        return through(self._job.as_completed(return_exceptions))

    async def failures(self) -> list[AsyncFailedRow]:
        """Return the failed rows, as `Job.failures` does. The `rerun` of each is awaited."""
        return [AsyncFailedRow(*vars(row).values()) for row in await in_thread(self._job.failures)]

    async def retry(self) -> None:
        """Run failed rows again, and resume the job if it was cancelled or stopped, as `Job.retry` does."""
        await in_thread(self._job.retry)

    async def cancel(self) -> None:
        """Cancel the job. Results of ended rows are kept."""
        await in_thread(self._job.cancel)

    async def forget(self) -> None:
        """Cancel the job and delete it with all its results."""
        await in_thread(self._job.forget)


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Run a blocking call in a thread of the loop's executor."""
    return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)


async def through(results: Iterator[T]) -> AsyncIterator[T]:
    """Iterate over a blocking iterator in a thread, in groups that double from 1 to `AT_ONCE` items."""
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
