"""Admission: counts the waiting tasks of each client, if their number is limited, and decides which ones are refused.

The newest task of the client with the most waiting tasks is refused. So a client that fills the scheduler leaves
capacity for other clients. Retries and nested tasks are never refused: the parent of a nested task may hold the slot
that the nested task needs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

from scaler.texts import counted

if TYPE_CHECKING:
    from scaler.actors.messages.tasks import TaskReady


class Admission:
    """All waiting tasks, and by account the tasks that may be refused. Each operation takes constant time."""

    def __init__(self) -> None:
        self._waiting: set[Hashable] = set()
        self._accounts: dict[int, dict[Hashable, TaskReady]] = {}
        """the tasks that may be refused, by account, the newest task last"""
        self._sizes: list[OrderedDict[int, None]] = [OrderedDict()]
        """accounts by the number of tasks that may be refused; of equal accounts, the one that grew last is last"""
        self._arrived: set[Hashable] = set()
        """tasks that may be refused and arrived in this turn"""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ready: TaskReady, may_be_refused: bool) -> None:
        """Add a waiting task, which may be refused if `may_be_refused`. A task that reports again counts once."""
        self._waiting.add(ready.task)
        if not may_be_refused:
            self._protect(ready.task, ready.account)
            return
        account = ready.account
        tasks = self._accounts.setdefault(account, {})
        before = len(tasks)
        tasks[ready.task] = ready
        self._arrived.add(ready.task)
        self._resize(account, before, len(tasks))

    def remove(self, task: Hashable, account: int) -> None:
        """Remove a task that no longer waits. Unknown tasks are ignored."""
        self._waiting.discard(task)
        self._protect(task, account)

    def surplus(self, most: int) -> list[tuple[TaskReady, bool]]:
        """Remove and return the tasks to refuse, each with whether it arrived in this turn.

        At most `most` tasks may wait. No more tasks are refused than arrived in this turn, so the loss of a worker
        causes no
        refusal.
        """
        surplus = []
        arrived, self._arrived = self._arrived, set()
        for _ in range(min(len(self._waiting) - most, len(arrived))):
            account = next(reversed(self._sizes[-1]))
            task, ready = next(reversed(self._accounts[account].items()))
            surplus.append((ready, task in arrived))
            self.remove(task, ready.account)
        return surplus

    def _protect(self, task: Hashable, account: int) -> None:
        tasks = self._accounts.get(account)
        if tasks is not None and tasks.pop(task, None) is not None:
            self._arrived.discard(task)
            self._resize(account, len(tasks) + 1, len(tasks))
            if not tasks:
                del self._accounts[account]

    def _resize(self, account: int, before: int, after: int) -> None:
        sizes = self._sizes
        sizes[before].pop(account, None)
        if after == len(sizes):
            sizes.append(OrderedDict())
        if after:
            sizes[after][account] = None
        if 0 < after < before:
            sizes[after].move_to_end(account, last=False)
        while len(sizes) > 1 and not sizes[-1]:
            sizes.pop()


def refusal(most: int, waiting: int, workers: int, was_admitted: bool = False) -> str:
    """Return why a task is refused, and what to do. `was_admitted`: a task of another client takes its place."""
    if not workers:
        found = "no worker is connected"
    else:
        found = "none of them has" if workers > 1 else "it does not have"
        found = f"{counted(workers, 'worker')} {'are' if workers > 1 else 'is'} connected, and {found} a free place"
    why = " in favour of a client with fewer waiting tasks" if was_admitted else ""
    return (
        f"the task was refused{why}: {counted(waiting, 'task')} wait{'s' * (waiting == 1)}, "
        f"max_number_of_tasks_waiting is {most}, and {found}; "
        "submit it again later, add workers, or raise that setting"
    )
