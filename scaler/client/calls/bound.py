"""Bound calls: the terms of a task that one worker alone may run.

Used by `run_on_all` of both clients. Must never: send anything.
"""

from __future__ import annotations

from scaler.client.calls.functions import Terms
from scaler.client.calls.options import TaskOptions
from scaler.errors import NoWorkerError
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.priority import MOST

_FIRST = TaskOptions(priority=MOST)


def hurried(options: TaskOptions) -> TaskOptions:
    """Return these options, with the greatest priority if they say none."""
    return options.over(_FIRST)


def bound(terms: Terms, function: str, worker: str) -> Terms:
    """Return the terms of a task of this function that is for one worker; its name says which."""
    priority, name, options, account = terms
    own = RunOptions.decode(options)._replace(worker=worker)
    return priority, f"{name or function} on {worker}", own.encode(), account


def has_left(error: BaseException | None) -> bool:
    """Return whether the task of a worker has failed because the worker has left meanwhile."""
    return isinstance(error, NoWorkerError)
