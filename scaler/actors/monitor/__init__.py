"""The monitor: publishes what the scheduler does, by topic, and only topics that a viewer has subscribed to.

`topics` lists the topics, `monitor` collects what is due, and each other module builds the items of a topic or two.
The scheduler's tree starts it, and its edge publishes what it builds. It never changes a task.
"""

from scaler.actors.monitor.board import About, Board, Gauges, Sources
from scaler.actors.monitor.monitor import Monitor

__all__ = ["About", "Board", "Gauges", "Monitor", "Sources"]
