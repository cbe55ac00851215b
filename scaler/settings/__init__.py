"""The settings of each process, one table each.

To add one: write a field as a `setting` into the table of the process, its type into the `TypedDict` above the table,
and use it. All else comes from the table: default and description in the signatures of `Scheduler`, `Cluster` and
`SchedulerClusterCombo`, the checks, the option of the command and its `-h`, the environment variable, the key in
`scaler.toml`, and the page `docs/reference/settings.md` (make draw). Durations are in seconds, sizes in bytes.
"""

from scaler.settings.base import EVENT_LOOPS, LoggingConfig, Settings
from scaler.settings.client import ClientConfig
from scaler.settings.cluster import ClusterConfig
from scaler.settings.scheduler import SchedulerConfig
from scaler.settings.symphony import SymphonyConfig
from scaler.settings.ui import UiConfig

PROCESSES: tuple[type[Settings], ...] = (SchedulerConfig, ClusterConfig, SymphonyConfig, ClientConfig, UiConfig)
"""Everything that has settings."""

__all__ = [
    "EVENT_LOOPS",
    "PROCESSES",
    "ClientConfig",
    "ClusterConfig",
    "LoggingConfig",
    "SchedulerConfig",
    "Settings",
    "SymphonyConfig",
    "UiConfig",
]
