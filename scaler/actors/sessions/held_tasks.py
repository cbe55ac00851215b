"""HeldTasks: the tasks of one client that wait because their owner has as much open as its quota allows.

Owned by the client session, which begins those that it is handed. Tasks of a client that had another scheduler wait
until the agents are back. Those of which an agent has a run begin then, whatever the quota is, since they have begun
already.

Must never: hold a task that a task has submitted: its parent, which waits for it, would count against the same quota.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence

from scaler.actors.messages.tasks import ExplainTask
from scaler.actors.peers.owners import Owner
from scaler.ids import TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.client import ExplainResponse, Task
from scaler.wire.messages.vocabulary import QUOTA


class HeldTasks:
    """Those of one session, in the order in which they came.

    Args:
        owner: whose quota it is.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.tasks: OrderedDict[TaskId, Task] = OrderedDict()
        self.awaits_agents = False
        """whether agents that may have runs of its tasks are still to come back"""

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self.tasks)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self.tasks

    def admit(self, batch: Sequence[Task], open_tasks: Container[TaskId], session: ActorRef) -> Sequence[Task]:
        """Return the tasks that may begin; the others wait until the session is told that there is room."""
        new = [spec for spec in batch if spec.task_id not in open_tasks and spec.task_id not in self.tasks]
        room = 0 if self.tasks or self.awaits_agents else self._owner.room()
        for spec in new[room:]:
            self.tasks[spec.task_id] = spec
        self._owner.held += max(0, len(new) - room)
        if self.tasks and not self.awaits_agents:
            self._owner.wait(session)
        return new[:room]

    def take_begun(self, task_ids: Iterable[TaskId]) -> list[Task]:
        """Return those of these tasks that wait: agents have runs of them."""
        return [spec for task_id in task_ids if (spec := self.drop(task_id)) is not None]

    def take(self, session: ActorRef) -> list[Task]:
        """Return tasks that may begin now: a part of what there is room for, as other sessions may wait, too."""
        count = min(len(self.tasks), self._owner.room_for_one())
        self._owner.held -= count
        taken = [self.tasks.popitem(last=False)[1] for _ in range(count)]
        if self.tasks:
            self._owner.wait(session)
        return taken

    def drop(self, task_id: TaskId) -> Task | None:
        """Remove a task; None: it is not here."""
        spec = self.tasks.pop(task_id, None)
        self._owner.held -= spec is not None
        return spec

    def clear(self) -> None:
        """Remove all."""
        self._owner.held -= len(self.tasks)
        self.tasks.clear()

    def explain(self, question: ExplainTask) -> ExplainResponse:
        """Return what a task waits for that is here."""
        sentence = f"{self._owner.why_full()}; it starts when some of that has ended or is dropped"
        if self.awaits_agents:
            sentence = "the scheduler has just started, and waits for agents that may run it already"
        return ExplainResponse(question.task_id, "inactive", QUOTA, sentence)
