"""The settings of a cluster process whose workers pass their tasks to a Symphony service."""

from __future__ import annotations

import dataclasses
import os
import socket
from dataclasses import dataclass, field

from scaler.config import ConfigError, check_address, entry, setting
from scaler.settings.base import (
    ADDRESS,
    DEATH_TIMEOUT,
    EVENT_LOOP,
    EVENT_LOOPS,
    HEARTBEAT,
    IO_THREADS,
    KEY_FILE,
    TRUST_USERS,
    LoggingConfig,
    Settings,
)
from scaler.settings.cluster import ClusterConfig


def _check_service(service: str) -> None:
    if not service or any(character.isspace() for character in service):
        raise ConfigError(f"service must be the name of a Symphony service, not {service!r}")


@dataclass(frozen=True)
class SymphonyConfig(Settings):
    """Settings of a cluster process in front of a Symphony service."""

    TABLE = "symphony"

    address: str = field(metadata=entry(ADDRESS, "address", check=check_address, metavar="ADDRESS"))
    service: str = field(
        metadata=entry("the name of the Symphony service", "service", check=_check_service, metavar="SERVICE")
    )
    base_concurrency: int = field(
        metadata=entry(
            "how many tasks the service has at once; nested tasks start beside their parents, and are not counted",
            "-n",
            "--base-concurrency",
            least=1,
            most=65535,
        ),
    )
    worker_name: str = setting(
        "",
        "the name of the workers; each also gets a number",
        "-w",
        "--worker-name",
        metavar="NAME",
        default="made from the host name and the process id",
    )
    heartbeat_interval_seconds: float = field(default=2, metadata=HEARTBEAT)
    death_timeout_seconds: float = field(default=300, metadata=DEATH_TIMEOUT)
    key_file: str | None = field(default=None, metadata=KEY_FILE)
    trust_users: tuple[int, ...] = field(default=(), metadata=TRUST_USERS)
    event_loop: str = setting("builtin", EVENT_LOOP, "-el", "--event-loop", choices=EVENT_LOOPS, metavar="LOOP")
    io_threads: int = setting(1, IO_THREADS, "-it", "--io-threads", least=1)
    logging: LoggingConfig = field(default_factory=LoggingConfig)

    def of_cluster(self) -> ClusterConfig:
        """Return the settings of the cluster process."""
        name = self.worker_name or f"{socket.gethostname().replace(',', '-') or 'symphony'}-{os.getpid()}"
        common = {row.name for row in ClusterConfig.own_rows()} & {row.name for row in self.own_rows()}
        values = {name: value for name, value in dataclasses.asdict(self).items() if name in common}
        return ClusterConfig(
            **values,
            n_workers=self.base_concurrency,
            worker_names=tuple(f"{name}-{index}" for index in range(self.base_concurrency)),
            engine=f"symphony://{self.service}",
            logging=self.logging,
        )
