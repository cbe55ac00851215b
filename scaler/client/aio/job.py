"""AsyncJob: the awaitable counterpart of `Job`.

Returned by `AsyncClient.start`, `AsyncClient.job` and `AsyncClient.jobs`. Each request waits in a thread of the loop's
executor, so the loop is never blocked. `wait`, which may take days, needs no thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import islice
from math import inf
from typing import Any, TypeVar

from scaler.client.aio.queries import in_thread
from scaler.client.foreign_words import OF_ASYNC_JOBS, hints_at, without_foreign_words
from scaler.client.insight import markup
from scaler.client.jobs.job import FailedRow, Job, JobProgress
from scaler.client.jobs.job_requests import seconds_left, wait
from scaler.client.link.requests import JobQuestion
from scaler.client.progress.bar import REDRAW_SECONDS
from scaler.config import check_timeout

T = TypeVar("T")

AT_ONCE = 256
"""The most results fetched from the thread at a time."""


class AsyncFailedRow(FailedRow):
    """A failed row, as `AsyncJob.failures` returns it: a `FailedRow` whose `rerun` is awaited."""

    async def rerun(self, *, again: bool = False) -> Any:
        """Call the function of the row again in this process, as `FailedRow.rerun` does.

        A thread reads the call. Then the function runs in the loop's thread, for debuggers, and blocks the loop.
        """
        __tracebackhide__ = True
        from scaler.client.rerun.failed_call import run  # noqa: PLC0415 - few programs need it

        return run(await in_thread(partial(self._call, again=again)))


def _awaited(row: FailedRow) -> AsyncFailedRow:
    return AsyncFailedRow(row.row, row.error, row.arguments).read_by(row._read)  # noqa: SLF001 - of its base class


@hints_at(OF_ASYNC_JOBS)
class AsyncJob:
    """A handle of a job that the scheduler keeps under a name. Its methods are those of `Job`, awaited.

    `async for` iterates over the results, as over `results()`.

    Attributes:
        name: the name of the job.
    """

    def __init__(self, job: Job) -> None:
        self.name = job.name
        self._job = job

    def __repr__(self) -> str:
        return f"<AsyncJob {self.name!r} of {self._job.function}: {self._job.shown}>"

    def _repr_html_(self) -> str:
        return markup.job("AsyncJob", self.name, self._job.function, self._job.shown)

    def __dir__(self) -> list[str]:
        return without_foreign_words(type(self), super().__dir__())

    def __aiter__(self) -> AsyncIterator[Any]:
        return self.results()

    async def state(self) -> str:
        """Return the state of the job: `open`, `paused`, `done`, `canceled` or `stopped`."""
        return (await self.progress()).state

    async def rows(self) -> int:
        """Return the number of rows submitted so far."""
        return (await self.progress()).rows

    async def progress(self) -> JobProgress:
        """Return the state of the job and its numbers of rows."""
        return await in_thread(self._job.progress)

    async def wait(self, timeout: float | None = None, progress: bool = False) -> JobProgress:
        """Wait until the job has ended, and return its progress, as `Job.wait` does.

        Raises:
            TimeoutError: if the job has not ended after `timeout` seconds. The job continues.
            ConfigError: if `timeout` is not a number of seconds; it is a `ValueError`.
        """
        check_timeout(timeout)
        job, deadline = self._job, None if timeout is None else time.monotonic() + timeout
        question = job.sent_wait()
        answer = _answer(question)
        if not progress:
            await _is_set_within(answer, seconds_left(deadline))
            return job.end_of(wait(question, 0))
        with job.new_bar() as bar:
            while (left := seconds_left(deadline)) and not await _is_set_within(answer, min(left, REDRAW_SECONDS)):
                bar.draw()
            found = job.end_of(wait(question, 0))
            bar.info = job.heard
        return found

    def results(self, start: int = 0, return_exceptions: bool = False) -> AsyncIterator[Any]:
        """Iterate over the results in the order of the rows, as `Job.results` does."""
        return through(self._job.results(start, return_exceptions))

    def as_completed(self, return_exceptions: bool = False) -> AsyncIterator[tuple[int, Any]]:
        """Iterate over (row number, result) in the order of completion, as `Job.as_completed` does."""
        return through(self._job.as_completed(return_exceptions))

    async def failures(self) -> list[AsyncFailedRow]:
        """Return the failed rows, as `Job.failures` does. The `rerun` of each is awaited."""
        return [_awaited(row) for row in await in_thread(self._job.failures)]

    async def retry(self, fn: Callable[..., Any] | None = None) -> None:
        """Run failed rows again, and resume the job if it was cancelled or stopped, as `Job.retry` does."""
        await in_thread(self._job.retry, fn)

    async def cancel(self) -> None:
        """Cancel the job. Results of ended rows are kept."""
        await in_thread(self._job.cancel)

    async def forget(self) -> None:
        """Cancel the job and delete it with all its results."""
        await in_thread(self._job.forget)


def _answer(question: JobQuestion) -> asyncio.Event:
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def wake(_question: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(event.set)

    question.add_done_callback(wake)
    return event


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), None if seconds == inf else seconds)
    return event.is_set()


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
