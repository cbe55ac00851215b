"""Keeper: restarts the agent or the scheduler of a local cluster when it dies, at most three times a minute.

The keeper is a thread that waits for the end of the process. A process that ends in order (exit code 0), or cannot
start with its settings (exit code 78), is not restarted. When the keeper gives up, it fails the open futures of those
clients in this program that have lost their scheduler or their last cluster.

The keeper does not hold the `Cluster` or the `Scheduler`, because garbage collection of either ends its process.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import Counter, deque
from functools import partial

from scaler.client.link.link import fail_links
from scaler.cluster.child_process import RunningProcess
from scaler.errors import WorkerDiedError
from scaler.executors.processes.pool.deaths import how_it_ended
from scaler.settings import ClusterConfig, SchedulerConfig

logger = logging.getLogger(__name__)

RESTARTS = 3
WITHIN_SECONDS = 60.0

schedulers: set[str] = set()
"""The addresses of the schedulers that this program has started."""

_clusters: Counter[str] = Counter()
"""address of a scheduler -> the number of its clusters that have a keeper"""


def keep(running: RunningProcess, config: ClusterConfig) -> None:
    """Start a thread that restarts the agent when it dies, at most three times a minute."""
    _clusters[config.address] += 1
    _start(running, config, "agent")


def keep_scheduler(running: RunningProcess, config: SchedulerConfig) -> None:
    """Start a thread that restarts the scheduler at the same address when it dies, at most three times a minute."""
    _start(running, config, "scheduler")


def _start(running: RunningProcess, config: ClusterConfig | SchedulerConfig, part: str) -> None:
    running.is_kept = True
    # A daemon: at the end of the program the finalizer of the cluster ends the process, and that ends the thread.
    threading.Thread(target=_watch, args=(running, config, part), name="scaler-keeper", daemon=True).start()


def _watch(running: RunningProcess, config: ClusterConfig | SchedulerConfig, part: str) -> None:
    deaths: deque[float] = deque(maxlen=RESTARTS + 1)
    code = 0
    try:
        while code := running.process.wait():
            with running.lock:
                if running.is_ending:
                    return
                if code == os.EX_CONFIG:
                    why = running.reports.error() or "the log of the cluster says why"
                    text = f"the local cluster for {config.address} cannot start: {why}"
                    if not _fail_clients(config.address, part, text):
                        logger.critical(text)
                    return
                deaths.append(time.monotonic())
                if len(deaths) > RESTARTS and deaths[-1] - deaths[0] < WITHIN_SECONDS:
                    why = f"its {part} has died {len(deaths)} times in {WITHIN_SECONDS:g} s"
                    _give_up(config.address, part, why, code, running.reports.error())
                    return
                logger.warning(
                    "the %s of the local cluster for %s died (%s): it is restarted, and its tasks run again",
                    part,
                    config.address,
                    how_it_ended(code),
                )
                running.restart(config.to_json())
    except OSError as error:
        _give_up(config.address, part, f"its {part} has died and cannot be restarted: {error.strerror}", code)
    finally:
        if part == "agent":
            _clusters[config.address] -= 1
        running.is_over.set()


def _give_up(address: str, part: str, why: str, code: int, error: str = "") -> None:
    """Log that a cluster is lost, and fail its clients. `error`: what the process has reported; may be empty."""
    text = f"the local cluster for {address} is lost: {why}, the last time with {how_it_ended(code)}"
    memory = "; SIGKILL most often means that the machine ran out of memory" * (code == -signal.SIGKILL)
    text += f": {error}" if error else f". The log of the cluster says why{memory}. Fix it, and create a new cluster"
    logger.critical(text)
    _fail_clients(address, part, text)


def _fail_clients(address: str, part: str, text: str) -> int:
    """Fail the open futures of all clients of the scheduler at `address`, and return the number of clients.

    After the loss of an agent, do so only if this program has started the scheduler, and this was its last cluster.
    """
    if part == "agent" and not (address in schedulers and _clusters[address] == 1):
        return 0
    return fail_links(address, partial(WorkerDiedError, text))
