"""Clusters: those that were started here, one by each command of the user, and those whose `scaler_scale` is gone.

The workers of a cluster have names that it is told in the environment, so they are known again on whatever machine they
turn up. They begin with the name of their owner (`owner.py`). A command runs for as long as its cluster. A cluster is
told to leave by the scheduler: what stands between, as `srun` or `ssh`, need not pass a signal on.
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
"""So soon after they have come the workers of a cluster are seen here."""
AGAIN_SECONDS = 5.0
"""A cluster that was told to leave, and does not, is told again."""
GONE_SECONDS = 10.0
"""A cluster whose workers, or whose owner, are not there for so long is gone."""
_PLACES = ("address", "names", "n")


@dataclass
class _Cluster:
    names: set[str]
    """of its workers"""
    since: float
    """when it was started, or taken over"""
    process: subprocess.Popen[bytes] | None = None
    """None: another `scaler_scale` had started it"""
    seen_at: float = -math.inf
    """when its workers were there last"""
    told_at: float = -math.inf
    is_leaving: bool = False
    is_terminated: bool = False
    """whether it was ended without its workers: they have never come, or are gone"""

    def is_gone(self, now: float) -> bool:
        """Return whether it may be ended by its command, its workers not being there: it was told to leave before.

        One that has never been seen may have come just now, and works.
        """
        return self.process is None or now >= max(self.told_at + SEEN_SECONDS, self.seen_at + GONE_SECONDS)

    def terminate(self) -> None:
        """End its command, once."""
        if self.process is not None and not self.is_terminated:
            self.process.send_signal(signal.SIGTERM)
        self.is_terminated = True


class Clusters:
    """Starts clusters with one command, takes over those of a `scaler_scale` that is gone, and tells them to leave.

    Args:
        command: with {address}, {n} and {names} in it where it needs them.
        address: of the scheduler.
        each: how many workers one command brings.
        owner: tells clusters to leave.

    Raises:
        ConfigError: if the command is none.
    """

    def __init__(self, command: str, address: str, each: int, owner: ScalingClient) -> None:
        self._command, self._address, self._each, self._owner = command, address, each, owner
        self._clusters: dict[str, _Cluster] = {}
        self._left: set[str] = set()
        """workers of commands that have ended, for as long as the scheduler still knows them"""
        self._missing: dict[str, float] = {}
        """owners that are not there, but clusters of theirs, and since when"""
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
        """Start a cluster and return its name.

        Raises:
            OSError: if the command cannot be run.
        """
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
        """Take over the clusters whose owners are gone, and give those back whose owners are there again.

        Args:
            workers: that are connected, and could be of this command.
            labels: of all clients that are connected.

        Returns:
            the names of those that were taken over now.
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
        """Have a cluster leave when it has done what it runs."""
        self._clusters[name].is_leaving = True

    def drain_all(self) -> None:
        """Have all clusters leave."""
        for cluster in self._clusters.values():
            cluster.is_leaving = True

    def tell(self, workers: Iterable[WorkerView], now: float) -> None:
        """Have those that are to leave told so by the scheduler. One that has never come ends with its command."""
        present = self._present(workers)
        for name, cluster in self._clusters.items():
            its_workers = present.get(name, ())
            if its_workers:
                cluster.seen_at = now
            if not cluster.is_leaving:
                continue
            stays = any(not worker.agent.is_leaving for worker in its_workers)
            if cluster.told_at == -math.inf or (stays and now - cluster.told_at >= AGAIN_SECONDS):
                cluster.told_at = now
                self._owner.send_away(cluster.names)
            elif not its_workers and cluster.is_gone(now):
                cluster.terminate()

    def wait_again(self, now: float) -> None:
        """Who is there was not known for a while: all that have been there have time to come back."""
        self._missing.clear()
        for cluster in self._clusters.values():
            if cluster.seen_at > -math.inf:
                cluster.seen_at = now

    def terminate(self) -> None:
        """End those that are to leave by their commands: no scheduler is there. One that was told may still work."""
        for cluster in self._clusters.values():
            if cluster.is_leaving and (cluster.process is None or -math.inf in (cluster.told_at, cluster.seen_at)):
                cluster.terminate()

    def kill(self) -> None:
        """End all commands at once, and wait no longer for other clusters."""
        for name, cluster in list(self._clusters.items()):
            if cluster.process is None:
                del self._clusters[name]
            else:
                cluster.process.kill()

    def ended(self, now: float) -> list[tuple[str, int, bool]]:
        """Return and forget those that have ended: name, exit code of the command or 0, and whether it was told to."""
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
        """Return the workers that are not about to leave, whoever has started them."""
        workers = list(workers)
        self._left &= {worker.name for worker in workers}
        leaving = self._left.union(*(each.names for each in self._clusters.values() if each.is_leaving))
        return [worker for worker in workers if worker.name not in leaving and not worker.agent.is_leaving]

    def look(self, workers: Iterable[WorkerView]) -> list[ScaledCluster]:
        """Return those that were not told to leave, with what their workers do."""
        present = self._present(workers)
        return [
            ScaledCluster(name, each.since, len(present.get(name, ())), any(map(_has_work, present.get(name, ()))))
            for name, each in self._clusters.items()
            if not each.is_leaving and (each.process is not None or name in present)
        ]

    def _present(self, workers: Iterable[WorkerView]) -> dict[str, list[WorkerView]]:
        """Return the workers of each cluster that are connected."""
        present: dict[str, list[WorkerView]] = {}
        for worker in workers:
            names = owned(worker.name)
            if names is not None and names[0] in self._clusters:
                present.setdefault(names[0], []).append(worker)
        return present


def _has_work(worker: WorkerView) -> bool:
    """Return whether it has tasks; one that has not reported yet may have."""
    return worker.flags is None or worker.is_busy or bool(worker.sent or worker.queued or worker.suspended)
