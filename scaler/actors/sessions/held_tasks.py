"""HeldTasks: the tasks of one client that wait because the quota of its owner is exhausted.

Owned by the client session. Tasks of a client that had another scheduler are held until the agents have returned. A
task that an agent runs starts regardless of the quota. Nested tasks are never held: their parent waits for them, and
counts against the same quota.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence

from scaler.actors.messages.tasks import ExplainTask
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.client import ExplainResponse, Task
from scaler.wire.messages.vocabulary import QUOTA


class HeldTasks:
    """The held tasks of one session, in order of submission. The quota of `owner` applies."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.tasks: OrderedDict[TaskId, Task] = OrderedDict()
        self.awaits_agents = False
        """whether agents that may run some of the held tasks have not returned yet"""

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self.tasks)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self.tasks

    def admit(self, batch: Sequence[Task], open_tasks: Container[TaskId], session: ActorRef) -> Sequence[Task]:
        """Return the tasks that may start; hold all others, until the quota notifies the session of capacity."""
        new = [spec for spec in batch if spec.task_id not in open_tasks and spec.task_id not in self.tasks]
        room = 0 if self.tasks or self.awaits_agents else self._owner.room()
        for spec in new[room:]:
            self.tasks[spec.task_id] = spec
        self._owner.held += max(0, len(new) - room)
        if self.tasks and not self.awaits_agents:
            self._owner.wait(session)
        return new[:room]

    def take_started(self, task_ids: Iterable[TaskId]) -> list[Task]:
        """Remove and return those of these tasks that are held. Agents already run them."""
        return [spec for task_id in task_ids if (spec := self.drop(task_id)) is not None]

    def take(self, session: ActorRef) -> list[Task]:
        """Remove and return tasks that may start now. If other sessions wait, a part of the quota is left for them."""
        count = min(len(self.tasks), self._owner.room_for_one())
        self._owner.held -= count
        taken = [self.tasks.popitem(last=False)[1] for _ in range(count)]
        if self.tasks:
            self._owner.wait(session)
        return taken

    def drop(self, task_id: TaskId) -> Task | None:
        """Remove a task and return it, or return None if the task is not held."""
        spec = self.tasks.pop(task_id, None)
        self._owner.held -= spec is not None
        return spec

    def take_all(self) -> list[Task]:
        """Remove and return all tasks."""
        tasks = list(self.tasks.values())
        self._owner.held -= len(tasks)
        self.tasks.clear()
        return tasks

    def explain(self, question: ExplainTask) -> ExplainResponse:
        """Return why a task is held."""
        sentence = f"{self._owner.why_full()}; it starts when other tasks end or values are dropped"
        if self.awaits_agents:
            sentence = "the scheduler has just started, and waits for agents that may run it already"
        return ExplainResponse(question.task_id, "inactive", QUOTA, sentence)
