"""Settings of schedulers under test."""

from __future__ import annotations

from typing import Any

from scaler.settings import SchedulerConfig


def scheduler_config(**values: Any) -> SchedulerConfig:
    """Return settings of a scheduler that listens nowhere."""
    return SchedulerConfig("inproc://scheduler", **values)
