"""The monitor: publishes what the scheduler does, by topic, and only topics that a viewer has subscribed to.

`topics` lists the topics, `monitor` collects the data of the due topics, and each other module builds the items of one
or two topics. The monitor never changes a task.
"""

from scaler.actors.monitor.board import About, Board, Gauges, Sources
from scaler.actors.monitor.monitor import Monitor

__all__ = ["About", "Board", "Gauges", "Monitor", "Sources"]
