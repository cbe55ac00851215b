"""Symphony: the executor that hands the tasks of a node to a Symphony service, `--engine symphony://SERVICE`."""

from __future__ import annotations

from scaler.executors.engines.executor import ForeignEngine


class Symphony(ForeignEngine):
    """Runs each task as a task of a Symphony session.

    A parent that waits keeps its slot in Symphony, which does not know that it waits. So a deeper task starts at once.
    """

    maker = "scaler.executors.symphony.engine:symphony_engine"
    is_deeper_first = True
