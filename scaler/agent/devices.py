"""Devices: the numbers of the GPUs of its node that each run may use.

The scheduler counts the GPUs that are taken. The agent chooses the numbers, because runs continue when the scheduler is
restarted. Two runs share a number only if resumed tasks take more GPUs than the node has; no run waits for a free
device. A worker gets the same numbers again if possible, because its processes may have opened these devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scaler.amounts import GPU, GPUS_VARIABLE, read_amounts, visible_gpus
from scaler.config import ConfigError
from scaler.executors.executor import LOCAL_ENGINES
from scaler.ids import TaskId
from scaler.settings import ClusterConfig
from scaler.texts import counted
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.worker import RecallResponse, RunBlocked, RunResult, RunTask, RunUnblocked

DEVICES_MOST = 1024
"""The largest number of GPUs that get numbers. If a node has a larger amount of `gpu`, its tasks get no GPU numbers."""


class Devices:
    """Assigns the GPUs of a node to runs."""

    def __init__(self, count: int) -> None:
        self._users = [0] * count
        """by GPU number: how many runs use the GPU, without blocked runs"""
        self._runs: dict[tuple[TaskId, int], tuple[int, ...]] = {}
        self._blocked: set[tuple[TaskId, int]] = set()
        self._last: dict[int, tuple[int, ...]] = {}
        """by worker: the GPU numbers of the last run of the worker"""

    def number(self, tasks: Batch[RunTask]) -> Batch[RunTask]:
        """Return these tasks, with GPU numbers in the options of tasks that request GPUs."""
        return Batch[RunTask](self._numbered(task) if task.options else task for task in tasks)

    def _numbered(self, task: RunTask) -> RunTask:
        options = RunOptions.decode(task.options)
        asked = min(dict(options.capabilities).get(GPU, 0), len(self._users))
        if not asked:
            return task
        run = (task.task_id, task.attempt)
        numbers = self._runs.get(run)
        if numbers is None:
            numbers = self._runs[run] = self._choose(asked, self._last.get(task.worker, ()))
            self._last[task.worker] = numbers
            self._use(numbers, 1)
        return replace(task, options=options._replace(devices=numbers).encode())

    def _choose(self, asked: int, last: tuple[int, ...]) -> tuple[int, ...]:
        users = self._users
        order = sorted(range(len(users)), key=lambda number: (users[number], number not in last))
        return tuple(sorted(order[:asked]))

    def _use(self, numbers: tuple[int, ...], change: int) -> None:
        for number in numbers:
            self._users[number] += change

    def block(self, runs: Iterable[RunBlocked]) -> None:
        """Lend the GPU numbers of these blocked runs to other runs."""
        for run in runs:
            key = (run.task_id, run.attempt)
            if key in self._runs and key not in self._blocked:
                self._blocked.add(key)
                self._use(self._runs[key], -1)

    def resume(self, runs: Iterable[RunUnblocked]) -> None:
        """Take back the GPU numbers of these runs, which resume."""
        for run in runs:
            key = (run.task_id, run.attempt)
            if key in self._blocked:
                self._blocked.discard(key)
                self._use(self._runs[key], 1)

    def end(self, runs: Iterable[RunResult | RecallResponse]) -> None:
        """Free the GPU numbers of these runs, which have ended or were recalled."""
        if not self._runs:
            return
        for run in runs:
            key = (run.task_id, run.attempt)
            numbers = self._runs.pop(key, ())
            if key in self._blocked:
                self._blocked.discard(key)
            else:
                self._use(numbers, -1)


def check_gpus(config: ClusterConfig, environment: Mapping[str, str]) -> None:
    """Check that CUDA_VISIBLE_DEVICES, if it is set, names at least as many GPUs as a cluster offers.

    Raises:
        ConfigError: if a cluster of local processes or threads offers more GPUs than the variable names.
    """
    offered, value = read_amounts(config.capabilities).get(GPU, 0), environment.get(GPUS_VARIABLE)
    if value is None or config.engine not in LOCAL_ENGINES or not 0 < offered <= DEVICES_MOST:
        return
    count = len(visible_gpus(value))
    if offered > count:
        cure = f"offer gpu={count}" if count else "leave gpu out"
        raise ConfigError(
            f"capabilities: gpu={offered} is more than the environment has: {GPUS_VARIABLE}={value!r} names "
            f"{counted(count, 'GPU')}; {cure}, or name more GPUs in this variable"
        )


def devices_of(amounts: Iterable[tuple[str, int]]) -> Devices | None:
    """Return the GPUs of a node with these amounts of resources; None if the node has no GPUs with numbers."""
    count = dict(amounts).get(GPU, 0)
    return Devices(count) if 0 < count <= DEVICES_MOST else None
