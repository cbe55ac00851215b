"""Rules: the scheduler's settings for the policy. Read by the policy."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.texts import counted

FAIR, FIFO = "fair", "fifo"


@dataclass(frozen=True)
class Rules:
    """The settings. The policy reads them when it is made."""

    waiting_most: int = -1
    """so many tasks may wait when no worker has room; -1: any number"""
    round_seconds: float = 1.0
    """the least time between two rounds of balancing; 0: no balancing"""
    looks: int = 2
    """how many checks in a row must find workers idle while tasks wait at others"""
    policy: str = FAIR
    """the order of tasks: `FAIR` or `FIFO`"""

    def refusal(self, waiting: int, workers: int, was_let_in: bool = False) -> str:
        """Return the reason why a task is refused, and what to do about it.

        Args:
            was_let_in: whether it waited before, and now makes room for another client.
        """
        if not workers:
            found = "no worker is connected"
        else:
            found = "none of them has" if workers > 1 else "it does not have"
            found = f"{counted(workers, 'worker')} {'are' if workers > 1 else 'is'} connected, and {found} a free place"
        why = "it waited, and makes room for a client that has fewer, since " if was_let_in else ""
        return (
            f"the task was refused: {why}{counted(waiting, 'task')} wait{'s' * (waiting == 1)}, "
            f"max_number_of_tasks_waiting is {self.waiting_most}, and {found}; "
            "submit it again later, add workers, or raise that setting"
        )
