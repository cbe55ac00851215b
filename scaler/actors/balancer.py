"""Balancer: the queue of ready tasks, and which worker gets the next one.

Written to by tasks (ready, withdraw) and worker proxies (joined, left, places freed); sends tasks to worker proxies. It places
once per turn, after all mail of the turn is in. First come, first served; a task that is tried again goes first.

Must never: know why a task is ready or what it does; decide by anything but `policy`.
"""

from __future__ import annotations

from collections import OrderedDict

from scaler.actors.kit import Actor, ActorRef, handles
from scaler.actors.messages import (
    AssignTask,
    BalancerRestarted,
    PlaceReadyTasks,
    PlacesFreed,
    TaskReady,
    TaskWithdrawn,
    WithdrawTask,
    WorkerJoined,
    WorkerLeft,
)
from scaler.actors.policy import Places
from scaler.ids import TaskId

_PLACE = PlaceReadyTasks()


class Balancer(Actor):
    """The one balancer of the scheduler. When it starts, it asks everybody for what it should know."""

    def __init__(self, acceptor: ActorRef) -> None:
        self._acceptor = acceptor
        self._ready: OrderedDict[TaskId, TaskReady] = OrderedDict()
        self._places: Places[ActorRef] = Places()
        self._will_place = False

    def on_start(self) -> None:
        self._acceptor.send(BalancerRestarted())

    @handles(TaskReady)
    def _task_ready(self, ready: TaskReady) -> None:
        task_id = ready.spec.task_id
        self._ready[task_id] = ready
        if ready.attempt > 1:
            self._ready.move_to_end(task_id, last=False)
        if not self._will_place:
            self._place_soon()

    @handles(WithdrawTask)
    def _withdraw(self, withdraw: WithdrawTask) -> None:
        ready = self._ready.get(withdraw.task_id)
        if ready is not None and ready.task is withdraw.task:
            del self._ready[withdraw.task_id]
            withdraw.task.send(TaskWithdrawn())

    @handles(WorkerJoined)
    def _worker_joined(self, joined: WorkerJoined) -> None:
        self._places.join(joined.worker, joined.window, joined.load)
        self._place_soon()

    @handles(WorkerLeft)
    def _worker_left(self, left: WorkerLeft) -> None:
        self._places.leave(left.worker)

    @handles(PlacesFreed)
    def _places_freed(self, freed: PlacesFreed) -> None:
        self._places.free(freed.worker, freed.count, freed.window)
        if self._ready:
            self._place_soon()

    def _place_soon(self) -> None:
        if not self._will_place:
            self._will_place = True
            self.actor_ref.send(_PLACE)

    @handles(PlaceReadyTasks)
    def _place(self, _place: PlaceReadyTasks) -> None:
        self._will_place = False
        ready, take = self._ready, self._places.take
        while ready:
            worker = take()
            if worker is None:
                return
            _, task = ready.popitem(last=False)
            worker.send(AssignTask(task.task, task.spec, task.attempt))

    def statistics(self) -> dict[str, int]:
        """Return counts: tasks that wait, workers."""
        return {"ready_tasks": len(self._ready), "workers": len(self._places)}
