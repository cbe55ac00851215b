"""Who is there, for asyncio: what `scaler.client.insight.presence` asks, asked in a loop.

Called in the thread of the client's event loop. Must never: block it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from scaler import task_context
from scaler.client.calls.entry import MakeError
from scaler.client.insight.presence import (
    Asked,
    SchedulerInfo,
    WorkerInfo,
    check_wait,
    read_info,
    read_workers,
    too_few,
)
from scaler.client.link.advice import Advice
from scaler.client.link.inquiries import Inquiry
from scaler.task_context import WaitReporter
from scaler.wire.messages.client import InfoResponse
from scaler.wire.messages.client import WorkerInfo as WorkerSaid


class PresenceLink(WaitReporter, Protocol):
    """The part of the link that is needed here."""

    loop: asyncio.AbstractEventLoop
    advice: Advice

    def inquire(self, inquiry: Inquiry) -> None: ...

    def withdraw(self, inquiry: Inquiry) -> None: ...


class _Answer(Asked):
    """An answer for which a coroutine waits."""

    def __init__(self, link: PresenceLink, detailed: bool = False, workers: int = 0, restart: bool = False) -> None:
        super().__init__(detailed, workers, restart)
        self._link = link
        self._end: asyncio.Future[InfoResponse] = link.loop.create_future()

    def hear(self, response: InfoResponse, workers: list[WorkerSaid]) -> bool:
        if self.take(response, workers) and not self._end.done():
            self._end.set_result(response)
        return self._end.done()

    def fail(self, make_error: MakeError) -> None:
        if not self._end.done():
            self._end.set_exception(make_error())

    async def come(self, timeout: float | None = None) -> InfoResponse | None:
        """Ask, and return the last answer; None if it has not come in time.

        Raises:
            BaseException: if there will be none.
        """
        self._link.inquire(self)
        end_of_wait = task_context.current.expect(self._link)
        try:
            await asyncio.wait([self._end], timeout=timeout)
        finally:
            end_of_wait()
            if not self._end.done():
                self._link.withdraw(self)
        return self._end.result() if self._end.done() else None


async def info(link: PresenceLink) -> SchedulerInfo:
    """Return how many are there."""
    response = await _Answer(link).come()
    assert response is not None
    return read_info(link.address, response)


async def workers(link: PresenceLink) -> list[WorkerInfo]:
    """Return the connected workers, those of one cluster beside each other."""
    answer = _Answer(link, detailed=True)
    await answer.come()
    return read_workers(answer.described)


async def wait_for_workers(link: PresenceLink, n_workers: int, timeout: float | None) -> SchedulerInfo:
    """Wait until so many workers are connected.

    Raises:
        TimeoutError: if it took longer.
    """
    check_wait(n_workers, timeout)
    answer = _Answer(link, workers=n_workers)
    response = await answer.come(timeout)
    if response is None:
        raise too_few(link.advice, n_workers, answer.response, timeout)
    return read_info(link.address, response)


async def restart_workers(link: PresenceLink) -> None:
    """Have all agents replace their worker processes. When this returns, all of them have been told."""
    await _Answer(link, restart=True).come()
