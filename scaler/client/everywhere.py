"""Everywhere: one call on each worker that is connected.

Called by the client, in any thread of the user. Must never: leave a task open when it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaler.client.calls.bound import bound, has_left, hurried
from scaler.client.calls.options import TaskOptions
from scaler.client.core import Core
from scaler.client.future import ScalerFuture
from scaler.client.insight import presence


def run_on_all(
    client: object,
    core: Core,
    options: TaskOptions,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    """Run a function once on each worker, and return what it returned, by worker.

    Raises:
        BaseException: the exception of the first worker where it failed, when all others have ended, too.
    """
    function = core.functions.get(fn).instruction.name
    presence.wait_for_workers(core.link, 1, None)
    terms = core.terms(hurried(options))
    futures: dict[str, ScalerFuture[Any]] = {}
    try:
        for worker in presence.names_of(presence.workers(core.link)):
            futures[worker] = core.submit(client, fn, args, kwargs, bound(terms, function, worker))
        return _results(futures)
    except BaseException:  # raised again: nobody will read the results
        for future in futures.values():
            future.cancel()
        raise


def _results(futures: Mapping[str, ScalerFuture[Any]]) -> dict[str, Any]:
    errors = {worker: future.exception() for worker, future in futures.items()}
    return {worker: future.result() for worker, future in futures.items() if not has_left(errors[worker])}
