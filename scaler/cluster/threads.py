"""ThreadCluster: a scheduler and an agent as threads of this process; the tasks run in threads, too.

    client --inproc--> scheduler <--inproc-- agent --> threads of tasks (engine `inline`)

For `Client(processes=False)`. Signals, limits and the garbage collector of the user's program are not changed.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeAlias

from scaler.agent.agent import run_agent
from scaler.client.lifetime import end_shared_links
from scaler.client.link.link import fail_links
from scaler.config import ConfigError
from scaler.endpoint import in_process_address
from scaler.errors import WorkerDiedError
from scaler.ids import random_id
from scaler.jobs.names import usual_job_folder
from scaler.scheduler.scheduler import SchedulerProcess
from scaler.settings import ClusterConfig, SchedulerConfig
from scaler.starters import LocalSettings

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0

NO_SILENCE_SECONDS = 86_400.0
"""A time-out too long to pass in practice: a task that holds the interpreter lock silences even healthy threads."""


Started: TypeAlias = Callable[[], None]
"""A function that a part of the cluster calls, in its own thread, when it has started."""


class _Part:
    def __init__(self, name: str, run: Callable[[Started, int], None]) -> None:
        self._ours, self._theirs = socket.socketpair()
        self.has_started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(run,), name=name, daemon=True)
        self._thread.start()

    def _run(self, run: Callable[[Started, int], None]) -> None:
        try:
            run(lambda: self.has_started.set_result(None), self._theirs.fileno())
        except (ConfigError, OSError) as error:
            self.has_started.set_exception(error)

    def end(self) -> None:
        """End the thread in order. Idempotent.

        A byte on the lifeline ends the thread. Closing the lifeline would not suffice while a forked process has a copy
        of it.
        """
        if self._ours.fileno() == -1:
            return
        with contextlib.suppress(OSError):
            self._ours.send(b"\0")
        if self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS)
        self._ours.close()
        if not self._thread.is_alive():
            self._theirs.close()


class ThreadCluster:
    """A scheduler and workers in threads of this process; `settings` have neither an address nor an engine.

    Raises:
        ConfigError: if a setting has a bad value, or the engine `inline` is not installed.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self._address = in_process_address(f"scaler-{random_id().hex()}")
        scheduler = SchedulerConfig(
            self._address,
            client_timeout_seconds=NO_SILENCE_SECONDS,
            worker_timeout_seconds=NO_SILENCE_SECONDS,
            keep=settings.get("keep", usual_job_folder()),
            keep_shared=True,
        )
        of_cluster = {name: value for name, value in settings.items() if name != "keep"}
        cluster = ClusterConfig.of({**of_cluster, "address": self._address, "engine": "inline"})
        self._scheduler = _Part("scaler-scheduler", partial(_run_scheduler, scheduler))
        self._agent = _Part("scaler-agent", partial(_run_agent, cluster))
        try:
            self._scheduler.has_started.result()
            self._agent.has_started.result()
        except BaseException:  # raised again: nothing may be left behind
            self.shutdown()
            raise

    def get_address(self) -> str:
        """Return the address of the scheduler, for clients of this process."""
        return self._address

    def shutdown(self) -> None:
        """End all threads. A thread that runs a task ends after that task. Idempotent."""
        end_shared_links(self._address)
        self._agent.end()
        self._scheduler.end()


def _run_scheduler(config: SchedulerConfig, on_started: Started, lifeline: int) -> None:
    _fail_if(SchedulerProcess(config).run(lambda _address: on_started(), lifeline), config.address)


def _run_agent(config: ClusterConfig, on_started: Started, lifeline: int) -> None:
    _fail_if(run_agent(config, lifeline, on_started), config.address)


def _fail_if(code: int, address: str) -> None:
    """Fail the open futures of this process if the exit code of the scheduler or the agent is not 0."""
    if code:
        text = "the scheduler or the agent in this process failed: see the log, and create a new client"
        logger.critical(text)
        fail_links(address, partial(WorkerDiedError, text))
