"""Clusters: the processes of the user's command, one for each cluster that was started here.

The workers of a cluster have names that it is told in the environment, so they are known again on whatever machine they
turn up. A command runs for as long as its cluster, and ends it when it gets SIGTERM.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from scaler.config import ConfigError
from scaler.monitor.model_workers import Worker
from scaler.scaling.plan import Cluster

WORKER_NAMES = "SCALER_WORKER_NAMES"
_PLACES = ("address", "names", "n")


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    names: frozenset[str]
    started_at: float
    is_leaving: bool = False


class Clusters:
    """Starts clusters with one command and tells them to end.

    Args:
        command: with {address}, {n} and {names} in it where it needs them.
        address: of the scheduler.
        each: how many workers one command brings.

    Raises:
        ConfigError: if the command is none.
    """

    def __init__(self, command: str, address: str, each: int) -> None:
        self._command, self._address, self._each = command, address, each
        self._running: dict[str, _Running] = {}
        self._left: set[str] = set()
        """workers of commands that have ended, for as long as the scheduler still knows them"""
        self._arguments(["name"] * each)

    def __len__(self) -> int:
        return len(self._running)

    def _arguments(self, names: list[str]) -> list[str]:
        values = {"address": self._address, "names": ",".join(names), "n": str(len(names))}
        try:
            arguments = [argument.format_map(values) for argument in shlex.split(self._command)]
        except (ValueError, KeyError, IndexError) as error:
            places = ", ".join(f"{{{place}}}" for place in _PLACES)
            raise ConfigError(
                f"the command {self._command!r} cannot be read: {error}; it may contain {places}, and a brace is {{{{"
            ) from None
        if not arguments:
            raise ConfigError("the command of --up is empty")
        return arguments

    def start(self, now: float) -> str:
        """Start a cluster and return its name.

        Raises:
            OSError: if the command cannot be run.
        """
        name = f"scale-{uuid.uuid4().hex[:8]}"
        names = [f"{name}-{number}" for number in range(self._each)]
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            self._arguments(names),
            env={**os.environ, WORKER_NAMES: ",".join(names)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us: we tell them
        )
        self._running[name] = _Running(process, frozenset(names), now)
        return name

    def drain(self, name: str) -> None:
        """Tell a cluster to end when it has done what it runs."""
        running = self._running[name]
        running.is_leaving = True
        running.process.send_signal(signal.SIGTERM)

    def drain_all(self) -> None:
        """Tell all clusters to end."""
        for name, running in self._running.items():
            if not running.is_leaving:
                self.drain(name)

    def kill(self) -> None:
        """End the commands of all clusters at once."""
        for running in self._running.values():
            running.process.kill()

    def wait(self) -> None:
        """Wait until the commands of all have ended. Signals are heard meanwhile."""
        for running in self._running.values():
            running.process.wait()

    def ended(self) -> list[tuple[str, int, bool]]:
        """Return and forget those whose command has ended: name, exit code, and whether it was told to."""
        ended = [(name, each) for name, each in self._running.items() if each.process.poll() is not None]
        for name, _ in ended:
            self._left |= self._running.pop(name).names
        return [(name, int(each.process.returncode), each.is_leaving) for name, each in ended]

    def staying(self, workers: Iterable[Worker]) -> list[Worker]:
        """Return the workers that are not about to leave, whoever has started them."""
        workers = list(workers)
        self._left &= {worker.name for worker in workers}
        leaving = self._left.union(*(each.names for each in self._running.values() if each.is_leaving))
        return [worker for worker in workers if worker.name not in leaving and not worker.agent.is_leaving]

    def look(self, workers: Iterable[Worker]) -> list[Cluster]:
        """Return those that were not told to leave, with what their workers do."""
        present: dict[str, list[Worker]] = {}
        by_worker = {worker: name for name, each in self._running.items() for worker in each.names}
        for worker in workers:
            name = by_worker.get(worker.name)
            if name is not None:
                present.setdefault(name, []).append(worker)
        return [
            Cluster(name, each.started_at, len(present.get(name, ())), any(map(_has_work, present.get(name, ()))))
            for name, each in self._running.items()
            if not each.is_leaving
        ]


def _has_work(worker: Worker) -> bool:
    """Return whether it has tasks; one that has not reported yet may have."""
    return worker.flags is None or worker.is_busy or bool(worker.sent or worker.queued or worker.suspended)
