"""Everywhere, for asyncio: one call on each worker that is connected.

Called in the thread of the client's event loop. Must never: leave a task open when it raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from scaler.client.aio import presence
from scaler.client.aio.calls import Calls
from scaler.client.aio.future import AsyncFuture
from scaler.client.calls.bound import bound, has_left, hurried
from scaler.client.calls.options import TaskOptions
from scaler.client.insight.presence import names_of


async def run_on_all(
    calls: Calls, options: TaskOptions | None, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Run a function once on each worker, and return what it returned, by worker.

    Raises:
        BaseException: the exception of the first worker where it failed, when all others have ended, too.
    """
    maker, link = calls.maker(), calls.connected()
    function = maker.functions.get(fn).instruction.name
    await presence.wait_for_workers(link, 1, None)
    names = names_of(await presence.workers(link))
    terms = maker.terms(hurried(options or maker.options))
    futures: dict[str, AsyncFuture[Any]] = {}
    try:
        for worker in names:
            futures[worker] = calls.submit_call(fn, args, kwargs, bound(terms, function, worker))
        if futures:
            await asyncio.wait(futures.values())
        errors = {worker: future.exception() for worker, future in futures.items()}
        return {worker: future.result() for worker, future in futures.items() if not has_left(errors[worker])}
    finally:
        for future in futures.values():
            future.cancel()
