"""Queries: how a coroutine waits for answers of the scheduler about tasks, workers and itself; and an asyncio trace.

Called in the thread of the client's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from scaler import task_context
from scaler.client.insight.explanation import ANSWER_SECONDS, Story, may_know, question, story_of
from scaler.client.insight.presence import SchedulerInfo, enough, workers_timeout
from scaler.client.insight.task_log import timeout_error
from scaler.client.insight.tracing import tracing
from scaler.client.link.link import ClientLink
from scaler.client.link.requests import Answer, Inquiry
from scaler.config import check_timeout
from scaler.ids import TaskId

if TYPE_CHECKING:
    import os

T = TypeVar("T")


class LoopWake:
    """Wakes a coroutine of an event loop from any thread, once until it is cleared."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_set = False

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        self._is_set = False
        self._event.clear()

    async def wait(self, seconds: float | None) -> None:
        """Wait until it is set, at most `seconds`. Infinity and None: no limit."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), None if seconds == inf else seconds)


async def _has_arrived(answer: Answer[T], timeout: float | None) -> bool:
    """Wait for an answer. Return whether it has arrived. A later answer is ignored."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(answer), timeout)
    return not answer.cancelled()


async def story(link: ClientLink, task_id: TaskId, name: str, future: asyncio.Future[Any] | None) -> Story:
    """Return what is known of a task. The scheduler is asked where the task ran, if the task has ended."""
    known = None
    if future is None or not future.done() or may_know(link, future):
        answer = question()
        link.ask(task_id, answer.take)
        known = answer.result() if await _has_arrived(answer, ANSWER_SECONDS) else None
    return story_of(task_id, name, future, known, ANSWER_SECONDS)


async def told(link: ClientLink, answer: Answer[T], timeout: float | None) -> T:
    """Return the answer about output or progress of a task. Raises `TimeoutError` if no answer comes in time."""
    timeout = check_timeout(timeout)
    if not await _has_arrived(answer, timeout):
        raise timeout_error(link.address, timeout)
    return answer.result()


async def presence(link: ClientLink, asked: Inquiry[T], timeout: float | None = None) -> T:
    """Ask who is there, and return the answer. Raises `TimeoutError`, or the reason why there is no answer."""
    link.inquire(asked)
    end_of_wait = task_context.current.expect(link)
    try:
        if not await _has_arrived(asked, timeout):
            raise workers_timeout(link, asked, timeout)
        return asked.result()
    finally:
        end_of_wait()
        if asked.cancelled():
            link.withdraw(asked)


async def wait_for_workers(link: ClientLink, n_workers: int, timeout: float | None) -> SchedulerInfo:
    """Wait until `n_workers` workers are connected. Raises `TimeoutError` if that takes longer than `timeout`."""
    timeout = check_timeout(timeout)
    return await presence(link, enough(link.address, n_workers), timeout)


@contextlib.asynccontextmanager
async def traced(link: ClientLink, path: str | os.PathLike[str]) -> AsyncIterator[None]:
    """Record what the scheduler does until the block ends, and write it: in threads, since both wait."""
    recording = tracing(link.endpoint, path)
    await in_thread(recording.__enter__)
    try:
        yield
    finally:
        await in_thread(recording.__exit__, None, None, None)


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Run a blocking call in a thread of the loop's executor."""
    return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)
