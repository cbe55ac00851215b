"""Balancer: the mailbox of the policy, which decides which worker runs which ready task.

Receives messages from tasks (ready, withdraw) and worker proxies (joined, left, failed, slots freed). Sends tasks to
worker proxies. The balancer runs last: it asks the policy for decisions once per turn, after all mail of all actors,
and when a check is due.

Recalled tasks wait here like retries. A task that only one worker may run is assigned even if that worker has no
capacity; the policy only counts the task.

When the balancer fails, all tasks and workers report again, and durations are measured again. Earlier reports of tasks
in its mailbox are dropped. An assignment sent just before the failure may reach its worker after the task has reported
"ready" again. Then the task stops the older run, so a task may start twice, but ends once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from scaler.actors.messages.monitor import ReportBacklog
from scaler.actors.messages.peers import ReportStatistics
from scaler.actors.messages.tasks import (
    AmountsChanged,
    AssignTasks,
    BalancerRestarted,
    CheckBalance,
    ExplainWaiting,
    LoadFreed,
    LoadResumed,
    RangeRefused,
    RecallTasks,
    ReportsRequested,
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
    WorkersPausedAt,
)
from scaler.actors.policy import Placement
from scaler.actors.policy.queue_reasons import of_low_priority, queue_reason
from scaler.actors.vocabulary.task_states import READY
from scaler.kit import Actor, ActorRef, Timer, handles
from scaler.wire.messages.priority import MOST, with_user_priority

_LOOK = CheckBalance()
_FORGOTTEN = WorkerForgotten()


class Balancer(Actor):
    """Assigns ready tasks as the policy decides. A new balancer requests reports from all sessions, tasks and workers.

    Args:
        next_attempt: returns a new number for a run.
    """

    runs_last = True

    def __init__(self, acceptor: ActorRef, policy: Placement, next_attempt: Callable[[], int]) -> None:
        self._acceptor = acceptor
        self._next_attempt = next_attempt
        self._policy = policy
        self._ready: list[TaskReady] = []
        self._constrained: list[TaskReady] = []
        """tasks that reported ready in this turn and request resources"""
        self._pinned: dict[ActorRef, tuple[TaskReady, str]] = {}
        """tasks that only one worker may run, each with the name of this worker"""
        self._names: dict[ActorRef, str] = {}
        self._by_name: dict[str, ActorRef] = {}
        """the workers that accept pickled functions, by name; only these workers can have pinned tasks"""
        self._will_place = False
        self._timer: Timer | None = None
        self._look_at = math.inf
        self._asked: int | None = None
        """the number of the latest request for reports, until all earlier mail has been read; else None"""

    def on_start(self) -> None:
        self._ask_all()

    def _ask_all(self) -> None:
        self._asked = self._next_attempt()
        self.actor_ref.send(ReportsRequested(self._asked))
        self._acceptor.send(BalancerRestarted(self._asked))

    @handles(ReportsRequested)
    def _all_asked(self, asked: ReportsRequested) -> None:
        """Drop the reports of tasks that arrived before the request for reports, since these tasks report again."""
        if asked.attempt == self._asked:
            self._asked = None
            self._ready, self._constrained, self._pinned = [], [], {}

    @handles(TaskReady)
    def _task_ready(self, ready: TaskReady) -> None:
        needs = ready.needs
        if needs is None:
            self._ready.append(ready)
        elif needs.worker:
            self._pinned[ready.task] = ready, needs.worker
        else:
            self._constrained.append(ready)
        self._will_place = True

    @handles(WithdrawTask)
    def _withdraw(self, withdraw: WithdrawTask) -> None:
        self._pass_to_policy()
        waited = self._pinned.pop(withdraw.task, None) is not None
        waited = waited or self._policy.withdraw(withdraw.task, withdraw.priority, withdraw.account)
        self._will_place |= waited  # a range that fits no worker blocks the tasks behind it
        withdraw.task.send(TaskWithdrawn() if waited else TaskNotWaiting())

    @handles(WorkerJoined)
    def _worker_joined(self, joined: WorkerJoined) -> None:
        # If it has joined before, its load here also counts assignments that it has not received, so it is not changed.
        load = joined.queue_size, joined.tasks, joined.expected_us, joined.host
        self._policy.join(joined.worker, *load, joined.offer, joined.taken, joined.is_unsure)
        if not joined.offer.named_only:  # tasks for one worker are pickled functions
            self._names[joined.worker] = joined.name
            self._by_name[joined.name] = joined.worker
        self._will_place = True

    @handles(WorkerLeft)
    def _worker_left(self, left: WorkerLeft) -> None:
        if self._policy.leave(left.worker):
            self._will_place = True
        name = self._names.pop(left.worker, "")
        if self._by_name.get(name) == left.worker:
            del self._by_name[name]
        left.worker.send(_FORGOTTEN)

    @handles(WorkerFailed)
    def _worker_failed(self, _failed: WorkerFailed) -> None:
        """Request all reports again, since assignments may have been lost with the mail of the proxy."""
        self._names, self._by_name = {}, {}
        self._policy.forget()
        self._ask_all()

    @handles(LoadFreed)
    def _load_freed(self, freed: LoadFreed) -> None:
        if self._policy.freed(freed.worker, freed.count, freed.expected_us, freed.measured):
            self._will_place = True

    @handles(TasksRecalled)
    def _tasks_recalled(self, returned: TasksRecalled) -> None:
        # If the tasks were cancelled meanwhile, no other message reports the free capacity.
        if self._policy.recalled(returned.worker, returned.count, returned.expected_us, returned.function_ids):
            self._will_place = True

    @handles(LoadResumed)
    def _load_resumed(self, taken: LoadResumed) -> None:
        self._policy.resumed(taken.worker, taken.count, taken.expected_us)

    @handles(WorkersPausedAt)
    def _workers_paused(self, news: WorkersPausedAt) -> None:
        self._policy.held(news.host, news.held)

    @handles(AmountsChanged)
    def _amounts_changed(self, changed: AmountsChanged) -> None:
        if self._policy.amounts_changed(changed.worker, changed.changes, changed.is_unsure):
            self._will_place = True

    @handles(CheckBalance)
    def _look(self, _look: CheckBalance) -> None:
        self._look_at = math.inf
        self._will_place = True

    def on_turn_end(self) -> None:
        if self._will_place and self._asked is None:
            self._will_place = False
            self._place()

    def _place(self) -> None:
        self._pass_to_policy()
        if self._pinned:
            self._assign_pinned()
        decisions = self._policy.decide(self.now())
        for worker, tasks in decisions.assigned.items():
            worker.send(AssignTasks(tasks))
        for ready in decisions.too_long:
            ready.task.send(RangeRefused(ready.attempt))
        for ready, sentence in decisions.refused:
            ready.task.send(TaskRefused(ready.attempt, sentence))
        for worker, count in decisions.recalled.items():
            worker.send(RecallTasks(count))
        if decisions.look_at is not None and decisions.look_at < self._look_at:
            self._look_later(decisions.look_at)

    def _assign_pinned(self) -> None:
        pinned, self._pinned = self._pinned, {}
        for ready, name in pinned.values():
            worker = self._by_name.get(name)
            if worker is None:
                sentence = f"the task was refused: only worker {name}, which no longer takes tasks, may run it"
                ready.task.send(TaskRefused(ready.attempt, sentence))
            else:
                self._policy.resumed(worker, 1, 0)
                worker.send(AssignTasks([(ready, 0)]))

    def _pass_to_policy(self) -> None:
        if self._asked is not None:
            return
        if self._ready:
            ready, self._ready = self._ready, []
            self._policy.ready(ready)
        if self._constrained:
            constrained, self._constrained = self._constrained, []
            self._policy.ready_constrained(constrained)

    def _look_later(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._look_at = at
        self._timer = self.schedule(at - self.now(), _LOOK)

    @handles(ExplainWaiting)
    def _explain(self, waiting: ExplainWaiting) -> None:
        found = of_low_priority(queue_reason(self._policy.capacity(waiting.needs)), waiting.priority)
        if waiting.question.is_wanted:
            self._start_wanted(waiting)
        waiting.question.answer(READY, found, waiting.tries, seconds=waiting.seconds)

    def _start_wanted(self, waiting: ExplainWaiting) -> None:
        """Assign a waiting task to a paused worker, because a client waits for the result of the task.

        If the task is a range, its rows become tasks first. When the client asks again, the row is assigned.
        """
        self._pass_to_policy()
        found = self._policy.take_wanted(waiting.task, waiting.priority, waiting.account)
        if found is None:
            return
        worker, ready = found
        spec = ready.spec
        if spec.rows:
            ready.task.send(RangeRefused(ready.attempt))
        else:
            self._policy.resumed(worker, 1, 0)
            first = replace(ready, spec=replace(spec, priority=with_user_priority(spec.priority, MOST)))
            worker.send(AssignTasks([(first, 0)]))

    @handles(ReportBacklog)
    def _report_backlog(self, ask: ReportBacklog) -> None:
        self._pass_to_policy()
        self._policy.report_backlog(ask.backlog, ask.functions)

    def check(self) -> None:
        self._policy.check()

    @handles(ReportStatistics)
    def _report_statistics(self, ask: ReportStatistics) -> None:
        ask.report.add("balancer", "", self.statistics())

    def statistics(self) -> dict[str, int]:
        """Return the numbers of waiting tasks and of workers."""
        return self._policy.statistics()
