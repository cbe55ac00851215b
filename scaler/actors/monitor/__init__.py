"""The monitor: shows viewers what the scheduler does, one topic at a time, and only what somebody has subscribed to."""

from scaler.actors.monitor.board import About, Board, Gauges, Sources
from scaler.actors.monitor.monitor import Monitor

__all__ = ["About", "Board", "Gauges", "Monitor", "Sources"]
