"""Clusters: the clusters that a `scaler_scale` has started by the user's command, or taken over from another.

The workers of a cluster get their names from the environment, so they are recognised on any machine. Each name starts
with the name of the cluster's owner (`scaling_client.py`). A command runs for as long as its cluster. Clusters are not
drained by a signal, which programs such as `srun` or `ssh` may not forward, but by a request of the scheduler.
"""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from scaler.config import ConfigError
from scaler.monitor.model.workers import WorkerView
from scaler.scaling.plan import ScaledCluster
from scaler.scaling.scaling_client import ScalingClient, owned, owners_in

WORKER_NAMES = "SCALER_WORKER_NAMES"
SEEN_SECONDS = 2.0
"""The longest time until newly connected workers of a cluster appear in the monitor stream."""
RESEND_SECONDS = 5.0
"""The time between two drain requests for a cluster that does not drain."""
GONE_SECONDS = 10.0
"""The time after which a cluster without connected workers, or an owner without a connection, counts as lost."""
_PLACES = ("address", "names", "n")


@dataclass
class _Cluster:
    names: set[str]
    since: float
    """the time when this program started the cluster, or took the cluster over"""
    process: subprocess.Popen[bytes] | None = None
    """the process of the command; None if another `scaler_scale` started the cluster"""
    seen_at: float = -math.inf
    """the time when workers of the cluster were last connected"""
    requested_at: float = -math.inf
    is_leaving: bool = False
    is_terminated: bool = False
    """whether the command of the cluster was terminated while the cluster had no workers"""

    def is_gone(self, now: float) -> bool:
        """Return whether the command of a draining cluster without workers may be terminated.

        This is false as long as the monitor stream might not yet show new workers, which may have tasks.
        """
        return self.process is None or now >= max(self.requested_at + SEEN_SECONDS, self.seen_at + GONE_SECONDS)

    def terminate(self) -> None:
        if self.process is not None and not self.is_terminated:
            self.process.send_signal(signal.SIGTERM)
        self.is_terminated = True


class Clusters:
    """Starts clusters with one command, takes over the clusters of an ended `scaler_scale`, and drains clusters.

    Args:
        command: the user's command, which may contain {address}, {n} and {names}.
        each: the number of workers that one command starts.
        owner: the client that requests drains and whose name marks the clusters.

    Raises:
        ConfigError: if the command is invalid.
    """

    def __init__(self, command: str, address: str, each: int, owner: ScalingClient) -> None:
        self._command, self._address, self._each, self._owner = command, address, each, owner
        self._clusters: dict[str, _Cluster] = {}
        self._left: set[str] = set()
        """the names of the workers that the scheduler still reports although their clusters have ended"""
        self._missing: dict[str, float] = {}
        """owner -> the time since which the owner is not connected, although workers of its clusters are connected"""
        self._numbers = count(1)
        self._arguments(["name"] * each)

    def __len__(self) -> int:
        return len(self._clusters)

    def _arguments(self, names: list[str]) -> list[str]:
        values = {"address": self._address, "names": ",".join(names), "n": str(len(names))}
        try:
            arguments = [argument.format_map(values) for argument in shlex.split(self._command)]
        except (ValueError, KeyError, IndexError) as error:
            places = ", ".join(f"{{{place}}}" for place in _PLACES)
            raise ConfigError(
                f"the command {self._command!r} cannot be read: {error}; it may contain {places}; write a brace as {{{{"
            ) from None
        if not arguments:
            raise ConfigError("the command of --up is empty")
        return arguments

    def start(self, now: float) -> str:
        """Start a cluster and return the name of the cluster. Raises `OSError` if the command cannot be run."""
        name = f"{self._owner.name}-{next(self._numbers)}"
        names = [f"{name}-{number}" for number in range(self._each)]
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            self._arguments(names),
            env={**os.environ, WORKER_NAMES: ",".join(names)},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process, which drains them
        )
        self._clusters[name] = _Cluster(set(names), now, process)
        return name

    def adopt(self, workers: Iterable[WorkerView], labels: Iterable[str], now: float) -> list[str]:
        """Take over the clusters of lost owners. Forget clusters whose owner has returned.

        Args:
            workers: connected workers that this command could have started.
            labels: the labels of all connected clients.

        Returns:
            the names of the clusters that were taken over.
        """
        found = [(worker.name, *names) for worker in workers if (names := owned(worker.name)) is not None]
        missing = {owner for _, _, owner in found} - owners_in(labels) - {self._owner.name}
        self._missing = {owner: self._missing.get(owner, now) for owner in missing}
        new = []
        for worker, name, owner in found:
            if owner == self._owner.name:
                continue
            is_orphan = now - self._missing.get(owner, now) >= GONE_SECONDS
            if is_orphan and name not in self._clusters:
                self._clusters[name] = _Cluster(set(), now)
                new.append(name)
            if is_orphan:
                self._clusters[name].names.add(worker)
            elif owner not in missing:
                self._clusters.pop(name, None)
        return new

    def drain(self, name: str) -> None:
        """Drain a cluster: the cluster ends when its running tasks have ended."""
        self._clusters[name].is_leaving = True

    def drain_all(self) -> None:
        """Drain all clusters."""
        for cluster in self._clusters.values():
            cluster.is_leaving = True

    def send_drains(self, workers: Iterable[WorkerView], now: float) -> None:
        """Send the scheduler the requests to drain clusters. Terminate the commands of draining clusters that have no
        workers.
        """
        present = self._present(workers)
        for name, cluster in self._clusters.items():
            its_workers = present.get(name, ())
            if its_workers:
                cluster.seen_at = now
            if not cluster.is_leaving:
                continue
            stays = any(not worker.agent.is_leaving for worker in its_workers)
            if cluster.requested_at == -math.inf or (stays and now - cluster.requested_at >= RESEND_SECONDS):
                cluster.requested_at = now
                self._owner.request_drain(cluster.names)
            elif not its_workers and cluster.is_gone(now):
                cluster.terminate()

    def reset_absences(self, now: float) -> None:
        """Restart the time-outs of absent workers and owners, after a time without reliable reports."""
        self._missing.clear()
        for cluster in self._clusters.values():
            if cluster.seen_at > -math.inf:
                cluster.seen_at = now

    def terminate(self) -> None:
        """Terminate the commands of draining clusters while no scheduler answers.

        A cluster that has had workers and whose drain was requested is left alone, because it may still run tasks.
        """
        for cluster in self._clusters.values():
            if cluster.is_leaving and (cluster.process is None or -math.inf in (cluster.requested_at, cluster.seen_at)):
                cluster.terminate()

    def kill(self) -> None:
        """Kill all commands, and forget the clusters that another `scaler_scale` started."""
        for name, cluster in list(self._clusters.items()):
            if cluster.process is None:
                del self._clusters[name]
            else:
                cluster.process.kill()

    def ended(self, now: float) -> list[tuple[str, int, bool]]:
        """Remove ended clusters. Return for each its name, exit code (0 if unknown), and whether it was draining."""
        ended = []
        for name, cluster in list(self._clusters.items()):
            if cluster.process is None:
                is_gone = cluster.is_terminated or now - max(cluster.since, cluster.seen_at) >= GONE_SECONDS
                code = 0 if is_gone else None
            else:
                code = cluster.process.poll()
            if code is not None:
                del self._clusters[name]
                self._left |= cluster.names
                ended.append((name, code, cluster.is_leaving))
        return ended

    def staying(self, workers: Iterable[WorkerView]) -> list[WorkerView]:
        """Return the workers that are not draining, including workers of foreign clusters."""
        workers = list(workers)
        self._left &= {worker.name for worker in workers}
        leaving = self._left.union(*(each.names for each in self._clusters.values() if each.is_leaving))
        return [worker for worker in workers if worker.name not in leaving and not worker.agent.is_leaving]

    def look(self, workers: Iterable[WorkerView]) -> list[ScaledCluster]:
        """Return the state of the clusters that are not draining."""
        present = self._present(workers)
        return [
            ScaledCluster(name, each.since, len(present.get(name, ())), any(map(_has_work, present.get(name, ()))))
            for name, each in self._clusters.items()
            if not each.is_leaving and (each.process is not None or name in present)
        ]

    def _present(self, workers: Iterable[WorkerView]) -> dict[str, list[WorkerView]]:
        present: dict[str, list[WorkerView]] = {}
        for worker in workers:
            names = owned(worker.name)
            if names is not None and names[0] in self._clusters:
                present.setdefault(names[0], []).append(worker)
        return present


def _has_work(worker: WorkerView) -> bool:
    return worker.flags is None or worker.is_busy or bool(worker.sent or worker.queued or worker.suspended)
