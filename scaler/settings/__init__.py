"""The settings of each process, one table for each process.

To add a setting, write a field as a `setting` into the table of the process, and its type into the `TypedDict` above
the table. Everything else comes from the table:

- the signatures of `Scheduler`, `Cluster` and `SchedulerClusterCombo`, with defaults and descriptions;
- the checks of values;
- the options of the commands and their `-h`, the environment variables, and the keys in `scaler.toml`;
- the page `docs/reference/settings.md` (after `make draw`).

Durations are in seconds, sizes in bytes. A table is imported when it is first used, because a scheduler and an agent
need only one table.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scaler.settings.base import EVENT_LOOPS, LoggingConfig, Settings

if TYPE_CHECKING:
    from scaler.settings.client import ClientConfig
    from scaler.settings.cluster import ClusterConfig
    from scaler.settings.scheduler import SchedulerConfig
    from scaler.settings.symphony import SymphonyConfig
    from scaler.settings.ui import UiConfig

    PROCESSES: tuple[type[Settings], ...]

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
_TABLES = {f"{name.title()}Config": name for name in ("scheduler", "cluster", "symphony", "client", "ui")}


def __getattr__(name: str) -> Any:
    """Return a table; `PROCESSES` is a tuple of all tables."""
    if name == "PROCESSES":
        return tuple(__getattr__(each) for each in _TABLES)
    if name not in _TABLES:
        raise AttributeError(f"module 'scaler.settings' has no attribute {name!r}", name=name)
    return getattr(import_module(f"scaler.settings.{_TABLES[name]}"), name)
