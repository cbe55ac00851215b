"""The monitor: shows viewers what the scheduler does, one topic at a time, and only what somebody has subscribed to.

`topics` says what there is, `monitor` asks for what is due, and each other module builds the items of a topic or two.
The scheduler's tree starts it, and its edge publishes what it builds. Never here: anything that changes a task.
"""

from scaler.actors.monitor.board import About, Board, Gauges, Sources
from scaler.actors.monitor.monitor import Monitor

__all__ = ["About", "Board", "Gauges", "Monitor", "Sources"]
