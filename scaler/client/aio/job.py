"""AsyncJob: the awaitable counterpart of `Job`.

Returned by `AsyncClient.start`, `AsyncClient.job` and `AsyncClient.jobs`. A wait for rows, or for the end of a job, may
take days and needs no thread. Short requests wait in a thread of the loop's executor, which also unpickles values.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, nullcontext
from functools import partial
from typing import Any

from scaler.client.aio.queries import LoopWake, in_thread
from scaler.client.foreign_words import OF_ASYNC_JOBS, hints_at, without_foreign_words
from scaler.client.insight import markup
from scaler.client.jobs.job import FailedRow, Job, JobProgress, first_row, values_of
from scaler.client.jobs.job_calls import raise_first
from scaler.client.jobs.job_requests import seconds_left, wait
from scaler.client.link.requests import JobQuestion
from scaler.client.progress.bar import REDRAW_SECONDS
from scaler.config import check_timeout
from scaler.errors import TooManyFailuresError
from scaler.wire.messages.client import JobReadFlags, JobResponse


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
        if not progress:
            return job.end_of(await _answer_to(question, deadline))
        with job.new_bar() as bar:
            found = job.end_of(await _answer_to(question, deadline, bar.draw))
            bar.info = job.heard
        return found

    def results(self, start: int = 0, return_exceptions: bool = False) -> AsyncIterator[Any]:
        """Iterate over the results in the order of the rows, as `Job.results` does."""
        tolerant = self._job.tolerates(return_exceptions)
        return _without_rows(values_of_job(self._job, first_row(start), 0, tolerant))

    def as_completed(self, return_exceptions: bool = False) -> AsyncIterator[tuple[int, Any]]:
        """Iterate over (row number, result) in the order of completion, as `Job.as_completed` does."""
        return values_of_job(self._job, 0, JobReadFlags.BY_LOG, self._job.tolerates(return_exceptions))

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


async def _answer_to(
    question: JobQuestion, deadline: float | None = None, draw: Callable[[], None] | None = None
) -> JobResponse:
    """Await the answer to a request, as `wait` waits for it. Cancelling it does not cancel the request."""
    wake = LoopWake()
    question.add_done_callback(lambda _question: wake.set())
    while not question.done() and (left := seconds_left(deadline)):
        if draw is not None:
            draw()
            left = min(left, REDRAW_SECONDS)
        await wake.wait(left)
    return wait(question, 0)


async def values_of_job(
    job: Job,
    start: int,
    flags: int,
    is_tolerant: bool,
    deadline: float | None = None,
    draw: Callable[[], None] | None = None,
) -> AsyncIterator[tuple[int, Any]]:
    """Iterate over (row number, result), as `Job.read` and `values_of` do. Values are unpickled in a thread."""
    reader = job.reader(start, flags)
    while (ends := reader.take(await _answer_to(reader.question, deadline, draw))) is not None:
        for value in values_of(await in_thread(lambda ends: list(map(job.value_of, ends)), ends), is_tolerant):
            yield value
    await in_thread(job.check_end, reader.n_rows)


async def _without_rows(values: AsyncIterator[tuple[int, Any]]) -> AsyncIterator[Any]:
    async with aclosing(values) as found:  # type: ignore[type-var]
        async for _, value in found:
            yield value


async def values_of_map(
    job: Job, flags: int, max_failures: float | None, return_exceptions: bool, progress: bool = False
) -> AsyncIterator[Any]:
    """Iterate over the results of the job of a map, as `job_calls.results` does. Then the map has left the job."""
    is_tolerant = return_exceptions or max_failures is not None
    try:
        with job.new_bar() if progress else nullcontext() as bar:
            draw = None if bar is None else bar.draw
            found = values_of_job(job, 0, flags | JobReadFlags.ATTEND, is_tolerant, job.deadline, draw)
            async with aclosing(_without_rows(found)) as values:  # type: ignore[type-var]
                async for value in values:
                    yield value
            if bar is not None:
                bar.info = job.heard
    except TooManyFailuresError as error:
        raise_first(error, max_failures)
        raise
    finally:
        job.leave()
