"""Balancer: the queue of ready tasks, and which worker gets the next one.

Written to by tasks (ready, withdraw) and worker proxies (joined, left, failed, places freed); sends tasks to worker
proxies. It places once per turn, after all mail of the turn is in. In which order is the business of `ReadyQueue`:
the deepest first, and first come, first served. It alone learns how long the tasks of a function take, from all
workers.

It balances: when workers are idle while tasks wait at others, or tasks wait at a worker where none ends, it has the
waiting ones given back. What comes back waits here like any other task that is tried again. A worker that was asked for
tasks gets no new ones until it has finished one.

With a limit of waiting tasks it refuses those that came last, once all that there is room for are placed: never one
that has waited before, and never a nested one, since a task that waits for it may hold the place that it needs.

When it fails it forgets everything, and everybody says again what waits and who has how much; how long tasks take, the
new one learns anew. An assignment that is on its way at that moment may reach its worker although the task has said
"ready" anew: the task then stops the older of the two runs. So a task may be started twice then, but ends once.

Must never: know why a task is ready or what it does; decide by anything but `policy`.
"""

from __future__ import annotations

from scaler.actors.kit import Actor, ActorRef, handles
from scaler.actors.messages import (
    AssignTask,
    BalancerRestarted,
    LookAtBalance,
    LookForStuck,
    PlaceReadyTasks,
    PlacesFreed,
    PlacesTaken,
    RecallTasks,
    TaskNotWaiting,
    TaskReady,
    TaskRefused,
    TasksRecalled,
    TaskWithdrawn,
    WithdrawTask,
    WorkerFailed,
    WorkerForgotten,
    WorkerJoined,
    WorkerLeft,
)
from scaler.actors.policy import LOOK_SECONDS, Durations, Places, Rules
from scaler.actors.ready_queue import ReadyQueue
from scaler.ids import ObjectId

_PLACE = PlaceReadyTasks()
_LOOK = LookAtBalance()
_LOOK_FOR_STUCK = LookForStuck()
_FORGOTTEN = WorkerForgotten()


class Balancer(Actor):
    """The one balancer of the scheduler. When it starts, it asks everybody for what it should know.

    Args:
        first_attempt: the attempt of a task that was never at a worker: only such a one may be refused.
    """

    def __init__(self, acceptor: ActorRef, rules: Rules, first_attempt: int) -> None:
        self._acceptor = acceptor
        self._rules = rules
        self._first_attempt = first_attempt
        self._is_limited = rules.waiting_most >= 0
        self._arrived: list[TaskReady] = []
        """what may be refused in this turn, the newest last; only if there is a limit"""
        self._queue = ReadyQueue()
        self._places: Places[ActorRef] = Places()
        self._durations = Durations()
        self._will_place = False
        self._is_watching = self._is_patrolling = rules.round_seconds <= 0
        """whether a look at the balance, or for stuck workers, is to come; without balancing none ever comes"""
        self._looks = 0
        """how many looks in a row found that it was uneven"""
        self._seen: dict[ActorRef, int] = {}
        """what the first of them saw"""
        self._last_seen: dict[ActorRef, int] = {}
        """what the last look for stuck workers saw"""
        self._next_round = 0.0

    def on_start(self) -> None:
        self._acceptor.send(BalancerRestarted())

    @handles(TaskReady)
    def _task_ready(self, ready: TaskReady) -> None:
        self._queue.put(ready)
        if self._is_limited and ready.attempt == self._first_attempt and not ready.spec.priority:
            self._arrived.append(ready)
        if not self._will_place:
            self._place_soon()

    @handles(WithdrawTask)
    def _withdraw(self, withdraw: WithdrawTask) -> None:
        waited = self._queue.withdraw(withdraw.task, withdraw.task_id, withdraw.priority)
        withdraw.task.send(TaskWithdrawn() if waited else TaskNotWaiting())

    @handles(WorkerJoined)
    def _worker_joined(self, joined: WorkerJoined) -> None:
        if joined.worker in self._places:
            return  # it joined while it was asked: what is on its way to it is counted here, and not in its own load
        self._places.join(joined.worker, joined.queue_size, joined.tasks, joined.expected_us, joined.host)
        self._place_soon()

    @handles(WorkerLeft)
    def _worker_left(self, left: WorkerLeft) -> None:
        self._places.leave(left.worker)
        left.worker.send(_FORGOTTEN)

    @handles(WorkerFailed)
    def _worker_failed(self, _failed: WorkerFailed) -> None:
        """Ask everybody again: which assignments were lost with the proxy's mail, nobody knows."""
        self._queue.clear()
        self._arrived.clear()
        self._places = Places()
        self._acceptor.send(BalancerRestarted())

    @handles(PlacesFreed)
    def _places_freed(self, freed: PlacesFreed) -> None:
        for function_id, (total_us, count) in freed.measured.items():
            self._durations.learn(function_id, total_us, count)
        self._places.free(freed.worker, freed.count, freed.expected_us)
        if self._queue:
            self._place_soon()
        elif not self._is_watching and self._places.is_uneven():
            self._watch()

    @handles(TasksRecalled)
    def _tasks_recalled(self, returned: TasksRecalled) -> None:
        for function_id in returned.function_ids:
            self._durations.doubt(function_id)
        self._places.give_back(returned.worker, returned.count, returned.expected_us)

    @handles(PlacesTaken)
    def _places_taken(self, taken: PlacesTaken) -> None:
        self._places.take_again(taken.worker, taken.count, taken.expected_us)

    def _place_soon(self) -> None:
        if not self._will_place:
            self._will_place = True
            self.actor_ref.send(_PLACE)

    @handles(PlaceReadyTasks)
    def _place(self, _place: PlaceReadyTasks) -> None:
        self._will_place = False
        self._place_all()
        if self._arrived:
            self._refuse_surplus()
        if not self._is_watching and self._places.is_uneven():
            self._watch()  # a worker has joined
        if not self._is_patrolling and self._places.has_waiting():
            self._patrol()

    def _place_all(self) -> None:
        take, take_near = self._places.take, self._places.take_near
        function_id: ObjectId | None = None
        expected_us = 0
        for row in self._queue.rows():
            while row:
                task_id, ready = row.popitem(last=False)
                spec = ready.spec
                if spec.function_id != function_id:
                    function_id = spec.function_id
                    expected_us = self._durations.expected_us(function_id)
                worker = take(expected_us) if ready.near is None else take_near(ready.near, expected_us)
                if worker is None:
                    row[task_id] = ready
                    row.move_to_end(task_id, last=False)
                    return
                worker.send(AssignTask(ready.task, spec, ready.attempt, expected_us, ready.account))

    def _refuse_surplus(self) -> None:
        arrived, self._arrived = self._arrived, []
        most = self._rules.waiting_most + self._places.free_places()
        waiting = len(self._queue)
        while waiting > most and arrived:
            ready = arrived.pop()
            if self._queue.remove(ready):
                waiting -= 1
                ready.task.send(TaskRefused(ready.attempt, self._rules.refusal(waiting, len(self._places))))

    # Balance

    @handles(LookAtBalance)
    def _look(self, _look: LookAtBalance) -> None:
        self._is_watching = False
        if self._places.is_uneven():
            self._watch()
        else:
            self._looks = 0

    def _watch(self) -> None:
        """Workers are idle while tasks wait at others: if that lasts, have tasks given back. Look again soon."""
        rules = self._rules
        if not self._looks:
            self._seen = self._places.ended()
        self._looks += 1
        until_round = self._next_round - self.now()
        if self._looks >= rules.looks and until_round <= 0:
            seen = self._seen if self._looks > 1 else {}  # a first look alone does not see who is stuck
            self._ask(self._places.level(seen))
            self._looks = 0
            self._next_round = self.now() + rules.round_seconds
            until_round = rules.round_seconds
        self._is_watching = True
        self.schedule(max(LOOK_SECONDS, until_round), _LOOK)

    @handles(LookForStuck)
    def _look_for_stuck(self, _look: LookForStuck) -> None:
        """Tasks that wait behind a long one must not be overtaken for ever by those that come later."""
        self._is_patrolling = False
        if self._next_round <= self.now():
            self._ask(self._places.unblock(self._last_seen))
        if self._places.has_waiting():
            self._patrol()

    def _patrol(self) -> None:
        self._is_patrolling = True
        self._last_seen = self._places.ended()
        self.schedule(self._rules.round_seconds, _LOOK_FOR_STUCK)

    def _ask(self, counts: dict[ActorRef, int]) -> None:
        for worker, count in counts.items():
            worker.send(RecallTasks(count))

    def statistics(self) -> dict[str, int]:
        """Return counts: tasks that wait, workers."""
        return {"ready_tasks": len(self._queue), "workers": len(self._places)}
