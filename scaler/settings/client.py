"""The settings of a client. There is no command for these settings, because a client is created in code."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler.config import check_address, setting
from scaler.settings.base import ADDRESS, KEY_FILE, TRUST_USERS, Settings
from scaler.settings.cluster import ClusterConfig, LocalClusterOptions

LOCAL_CLUSTER = (ClusterConfig, {"io_threads": "worker_io_threads"})
"""The settings of a client's local cluster: their table, and the names of those whose argument has another name."""

NOT_LOCAL = ("address", "n_workers", "worker_names", "heartbeat_interval_seconds", "key_file", "trust_users")
"""The names of cluster settings that the docstring of `Client` does not list as options of its local cluster."""


@dataclass(frozen=True)
class ClientConfig(Settings):
    """Settings of a client. These have no command-line options, because a client is created in code."""

    OPTIONS = LocalClusterOptions
    TABLE = "client"

    address: str | None = setting(
        None,
        ADDRESS,
        check=check_address,
        default="inside a task, the scheduler of the task; else the client starts a cluster of its own",
    )
    profiling: bool = setting(False, "whether to measure time and memory of each task, for ScalerFuture.profiling_info")
    timeout_seconds: float = setting(
        60, "how long open work waits for a missing scheduler before it fails with TimeoutError", unit="s", least=0.001
    )
    heartbeat_interval_seconds: float = setting(2, "the time between two heartbeats", unit="s", least=0.001)
    stream_output: bool = setting(
        False, "whether the client prints what its tasks write, each line with worker and task name"
    )
    key_file: str | None = field(default=None, metadata={**KEY_FILE, "flags": ()})
    trust_users: tuple[int, ...] = field(default=(), metadata={**TRUST_USERS, "flags": ()})
