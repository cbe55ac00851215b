"""Asking: what an asyncio client and its futures ask the scheduler about a task: its story, what it has written, and
how far it is; and the trace of an asyncio client.

Called in the thread of the client's event loop. Must never: wait for longer than the user wants.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scaler.client.insight.explanation import ANSWER_SECONDS, Story, from_answer, from_end
from scaler.client.insight.task_log import TaskLog, TaskProgress, late, read_log, read_progress
from scaler.client.insight.tracing import tracing
from scaler.client.link.outputs import OnOutput
from scaler.client.link.questions import OnAnswer
from scaler.ids import TaskId
from scaler.wire.messages.client import ExplainResponse, OutputLine

if TYPE_CHECKING:
    import os

T = TypeVar("T")


class AskedLink(Protocol):
    """The part of the link that is used here."""

    address: str
    loop: asyncio.AbstractEventLoop

    def ask(self, task_id: TaskId, on_answer: OnAnswer) -> None: ...

    def read_output(self, task_id: TaskId, on_output: OnOutput, report: bool = False) -> None: ...


async def story(link: AskedLink, task_id: TaskId, name: str, future: asyncio.Future[Any] | None) -> Story:
    """Return what is known of a task; ask the scheduler about it if it is open.

    Args:
        future: its future, if there is one.
    """
    answers: list[ExplainResponse] = []
    if future is None or not future.done():
        has_come = asyncio.Event()

        def take(answer: ExplainResponse) -> None:
            answers.append(answer)
            has_come.set()

        link.ask(task_id, take)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(has_come.wait(), ANSWER_SECONDS)
    if future is not None and future.done():
        is_cancelled = future.cancelled()
        return from_end(task_id, name, is_cancelled, None if is_cancelled else future.exception())
    return from_answer(task_id, name, answers[0] if answers else None, ANSWER_SECONDS)


async def logs(link: AskedLink, task_id: TaskId, timeout: float | None) -> TaskLog:
    """Return what a task has written.

    Raises:
        TimeoutError: if the scheduler did not answer in time.
    """
    return await _answer(link, task_id, read_log, False, timeout)


async def progress(link: AskedLink, task_id: TaskId, timeout: float | None) -> TaskProgress | None:
    """Return how far a task has said to be.

    Raises:
        TimeoutError: if the scheduler did not answer in time.
    """
    return await _answer(link, task_id, read_progress, True, timeout)


async def _answer(
    link: AskedLink,
    task_id: TaskId,
    read: Callable[[Sequence[OutputLine], int], T],
    report: bool,
    timeout: float | None,
) -> T:
    come: asyncio.Future[T] = link.loop.create_future()

    def take(lines: Sequence[OutputLine], dropped: int) -> None:
        if not come.done():
            come.set_result(read(lines, dropped))

    link.read_output(task_id, take, report)
    try:
        return await asyncio.wait_for(come, timeout)
    except asyncio.TimeoutError:
        raise late(link.address, timeout) from None


@contextlib.asynccontextmanager
async def traced(link: AskedLink, path: str | os.PathLike[str]) -> AsyncIterator[None]:
    """Record what the scheduler does until the block ends, and write it: in threads, since both wait."""
    recording = tracing(link.address, path)
    await link.loop.run_in_executor(None, recording.__enter__)
    try:
        yield
    finally:
        await link.loop.run_in_executor(None, recording.__exit__, None, None, None)
