"""RayEngine: runs each call as a task of a Ray cluster, `--engine ray://HOST:PORT`, `ray://auto` or `ray://local`.

Called by the engine host. A nested task requests no CPU from Ray: it uses the CPU of its parent, which Ray still counts
as busy while the parent waits. A cancel raises KeyboardInterrupt in the task.

This module can be imported only with the package `ray`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, InvalidStateError
from functools import partial
from typing import Any

import ray
from ray import exceptions

from scaler.config import ConfigError
from scaler.executors.engines.call import EngineCall, run
from scaler.executors.engines.engine import EngineLostError
from scaler.wire.messages.priority import depth_of
from scaler.wire.messages.worker import RunResult

LOCAL, AUTO = "ray://local", "ray://auto"
CONNECT_SECONDS = 45.0
"""The time limit of an attempt to connect. After a failed attempt, Ray's own client may wait forever."""
EXIT_NO_ANSWER = 75
"""The exit code of an engine host that gets no answer from Ray: "try again later", as in `sysexits.h`."""

LOOK_SECONDS = 1.0
"""How often the engine asks Ray for the number of its CPUs."""

_DIED = (exceptions.WorkerCrashedError, exceptions.OutOfMemoryError)
"""The errors with which Ray reports that the process of a task has died, perhaps because of the task."""


class RayEngine:
    """Submits calls to one Ray cluster."""

    def __init__(self) -> None:
        # When a process dies, Scaler retries the task and counts the deaths.
        self._run = ray.remote(max_retries=0)(run)

    def submit(self, call: EngineCall) -> Future[RunResult]:
        task = call.task
        try:
            reference = self._run.options(name=task.name or "scaler", num_cpus=int(depth_of(task.priority) < 1)).remote(
                call
            )
            inner = reference.future()
        except (exceptions.RayError, ConnectionError) as error:
            raise EngineLostError(f"Ray accepts no task: {error}") from error
        future: Future[RunResult] = Future()
        future.add_done_callback(partial(_cancel, reference))
        inner.add_done_callback(partial(_ended, future))
        return future

    def follow(self, changed: Callable[[int], None]) -> None:
        """Call `changed` with the number of CPUs of the Ray nodes, now and at each change."""
        threading.Thread(target=_follow, args=(changed,), name="scaler-capacity", daemon=True).start()

    def close(self) -> None:
        ray.shutdown()


def _follow(changed: Callable[[int], None]) -> None:
    known = -1
    while True:
        with contextlib.suppress(Exception):  # foreign code; if Ray is lost, the number stays
            cpus = _cpus()
            if cpus != known:
                changed(cpus)
                known = cpus
        time.sleep(LOOK_SECONDS)


def _cpus() -> int:
    return int(ray.cluster_resources().get("CPU", 0))


def _cancel(reference: Any, future: Future[RunResult]) -> None:
    if future.cancelled():
        ray.cancel(reference)


def _ended(future: Future[RunResult], inner: Future[RunResult]) -> None:
    error = inner.exception()
    try:
        if error is None:
            future.set_result(inner.result())
        elif isinstance(error, _DIED):
            future.set_exception(BrokenExecutor(str(error)))
        elif isinstance(error, exceptions.RayError) and not isinstance(error, exceptions.RayTaskError):
            future.set_exception(EngineLostError(f"Ray has lost the task: {error}"))
        else:
            future.set_exception(error)
    except InvalidStateError:
        return  # the task was cancelled


def _connect(text: str, n_cpus: int | None = None) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "namespace": "scaler"}
    limit = threading.Timer(CONNECT_SECONDS, _give_up, (text,))
    limit.daemon = True
    limit.start()
    try:
        if text == LOCAL:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            ray.init(address="local", num_cpus=n_cpus, include_dashboard=False, **quiet)
        else:
            ray.init(address="auto" if text == AUTO else text, **quiet)
    except Exception as error:  # foreign code
        raise ConfigError(
            f"Ray cannot be reached at {text}: {error}; HOST:PORT must be that of the Ray Client server "
            "(10001 by default), and both sides need the same versions of Ray and Python"
        ) from error
    finally:
        limit.cancel()


def _give_up(text: str) -> None:
    """End this process, because nothing else can end a wait of Ray's client. The agent starts another host."""
    sentence = f"scaler: Ray at {text} has not answered for {CONNECT_SECONDS:g} s; the engine host starts again\n"
    os.write(2, sentence.encode())
    os._exit(EXIT_NO_ANSWER)


def ray_engine(text: str, n_workers: int, _report: Callable[[str], None]) -> RayEngine:
    """Connect to Ray, and return the engine of a text like `ray://HOST:PORT`.

    Raises:
        ConfigError: if Ray cannot be reached.
    """
    _connect(text, n_workers)
    return RayEngine()


def ray_capacity(text: str) -> int | None:
    """Return the number of CPUs of the Ray cluster; None for a local cluster, which has the CPUs of this machine."""
    if text == LOCAL:
        return None
    _connect(text)
    return _cpus()
