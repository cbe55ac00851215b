"""Who is there: what a client can learn of its scheduler and its workers, how to wait for workers, and to restart them.

Called by the client, in any thread of the user; asks through the link. Must never: ask from time to time. The scheduler
says when workers have come.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from scaler import task_context
from scaler.client.calls.entry import MakeError
from scaler.client.link.advice import Advice
from scaler.client.link.inquiries import Inquiry
from scaler.config import ConfigError, check_number, check_whole_number
from scaler.task_context import WaitReporter
from scaler.wire.messages.capabilities import from_text
from scaler.wire.messages.client import InfoResponse
from scaler.wire.messages.client import WorkerInfo as WorkerSaid

_MOST = 2**32 - 1


@dataclass(frozen=True)
class SchedulerInfo:
    """What `Client.info` returns.

    Attributes:
        address: where the scheduler listens.
        workers: how many workers are connected.
        clusters: how many agents they belong to.
        clients: how many clients are connected, those inside tasks too.
        waiting_tasks: how many tasks of all clients wait at the scheduler for a worker.
    """

    address: str
    workers: int
    clusters: int
    clients: int
    waiting_tasks: int


@dataclass(frozen=True)
class WorkerInfo:
    """One of those that `Client.workers` returns.

    Attributes:
        name: its name.
        cluster: the workers of one `scaler_cluster` have the same number in one answer.
        tasks: how many tasks it has: one that runs, those that wait for others, those in its queue.
        blocked_tasks: how many of these wait for tasks of their own.
        python_version: of its processes, such as "3.12.1".
        version: of scaler.
        capabilities: resources of its node that tasks may ask for, and how much of each.
    """

    name: str
    cluster: int
    tasks: int
    blocked_tasks: int
    python_version: str
    version: str
    capabilities: Mapping[str, int] = field(default_factory=dict, hash=False)


class PresenceLink(WaitReporter, Protocol):
    """The part of the link that is needed here."""

    advice: Advice

    def inquire(self, inquiry: Inquiry) -> None: ...

    def withdraw(self, inquiry: Inquiry) -> None: ...


class Asked:
    """One request, and the latest answer to it.

    Args:
        detailed: whether the workers are described too.
        workers: how many to wait for.
        restart: whether all workers are to go on with fresh processes.
        leave: names of workers whose clusters are to leave, separated by commas.
    """

    leave = ""

    def __init__(self, detailed: bool = False, workers: int = 0, restart: bool = False) -> None:
        self.detailed = detailed
        self.workers = workers
        self.restart = restart
        self.response: InfoResponse | None = None
        self.described: list[WorkerSaid] = []

    def take(self, response: InfoResponse, workers: list[WorkerSaid]) -> bool:
        """Keep an answer. Return whether there are as many workers as are waited for."""
        self.response, self.described = response, workers
        return response.workers >= self.workers


class _Answer(Asked):
    """An answer for which a thread waits."""

    def __init__(self, detailed: bool = False, workers: int = 0, restart: bool = False) -> None:
        super().__init__(detailed, workers, restart)
        self._make_error: MakeError | None = None
        self._is_over = threading.Event()

    def hear(self, response: InfoResponse, workers: list[WorkerSaid]) -> bool:
        if self.take(response, workers):
            self._is_over.set()
        return self._is_over.is_set()

    def fail(self, make_error: MakeError) -> None:
        self._make_error = make_error
        self._is_over.set()

    def wait(self, link: PresenceLink, timeout: float | None = None) -> InfoResponse | None:
        """Ask, and return the last answer; None if it has not come in time.

        Raises:
            BaseException: if there will be none.
        """
        link.inquire(self)
        try:
            with task_context.current.wait(link, self._is_over.is_set, timeout):
                is_over = self._is_over.wait(timeout)
        finally:
            if not self._is_over.is_set():
                link.withdraw(self)
        if self._make_error is not None:
            raise self._make_error()
        return self.response if is_over else None


def info(link: PresenceLink) -> SchedulerInfo:
    """Return how many are there."""
    response = _Answer().wait(link)
    assert response is not None
    return read_info(link.address, response)


def restart_workers(link: PresenceLink) -> None:
    """Have all agents replace their worker processes. When this returns, all of them have been told."""
    _Answer(restart=True).wait(link)


def read_info(address: str, response: InfoResponse) -> SchedulerInfo:
    """Return the scheduler's answer for users."""
    counts = (response.workers, response.clusters, response.clients, response.waiting_tasks)
    return SchedulerInfo(address, *counts)


def workers(link: PresenceLink) -> list[WorkerInfo]:
    """Return the connected workers, those of one cluster beside each other."""
    answer = _Answer(detailed=True)
    answer.wait(link)
    return read_workers(answer.described)


def read_workers(described: Iterable[WorkerSaid]) -> list[WorkerInfo]:
    """Return the scheduler's descriptions for users."""
    return [
        WorkerInfo(
            each.name,
            each.cluster,
            each.tasks,
            each.blocked_tasks,
            each.python_version,
            each.package_version,
            dict(from_text(each.capabilities)),
        )
        for each in described
    ]


def names_of(workers: Iterable[WorkerInfo]) -> list[str]:
    """Return the names of workers that are to be addressed by these.

    Raises:
        ConfigError: if two have the same.
    """
    names = [worker.name for worker in workers]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ConfigError(
            f"two workers have the name {twice!r}, so neither can be addressed: give the workers of each cluster names "
            "of their own (scaler_cluster --worker-names), or none"
        )
    return names


def check_wait(n_workers: int, timeout: float | None) -> None:
    """Raise `ConfigError` unless one can wait for so many workers."""
    check_whole_number("n_workers", n_workers, 1, _MOST)
    if timeout is not None:
        check_number("timeout", timeout, 0)


def wait_for_workers(link: PresenceLink, n_workers: int, timeout: float | None) -> SchedulerInfo:
    """Wait until so many workers are connected.

    Raises:
        TimeoutError: if it took longer.
    """
    check_wait(n_workers, timeout)
    answer = _Answer(workers=n_workers)
    response = answer.wait(link, timeout)
    if response is not None:
        return read_info(link.address, response)
    raise too_few(link.advice, n_workers, answer.response, timeout)


def too_few(advice: Advice, n_workers: int, last: InfoResponse | None, timeout: float | None) -> TimeoutError:
    """Return the error of a wait for workers that took too long. `last`: the last answer, if there was one."""
    assert timeout is not None, "else it waits on"
    if last is None:
        return advice.silent_for(timeout)
    address, seconds = advice.address, f"{timeout:g} s"
    return TimeoutError(
        f"{last.workers} of {n_workers} workers are connected to the scheduler at {address} after {seconds}; start "
        f"more with: scaler_cluster {address} -n {n_workers - last.workers}"
    )
