"""The balancer: the queue of ready tasks, and the workers that it assigns them to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from scaler.actors.messages.tasks import (
    FIRST_TRY,
    AmountsChanged,
    AssignTasks,
    BalancerRestarted,
    ExplainTask,
    ExplainWaiting,
    LoadFreed,
    LoadResumed,
    RangeRefused,
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
    WorkersPausedAt,
)
from scaler.actors.policy import LOOK_SECONDS, WORK_AHEAD_US, Decisions, Needs, Offer, Placement, make_policy
from scaler.actors.policy.fair_share import TURN_US
from scaler.actors.tree import BALANCER
from scaler.actors.workers.balancer import Balancer
from scaler.ids import ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.settings import SchedulerConfig
from scaler.settings.scheduler import FIFO
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.priority import MOST, of_child, with_user_priority
from scaler.wire.messages.worker import RunTask
from tests.support.bench import Bench
from tests.support.configs import scheduler_config
from tests.support.recorder import Recorder
from tests.support.simulation import Outcome, SimulatedClient, Simulation

RULES = scheduler_config()
SHORT, OTHER = ObjectId(b"f" * 16), ObjectId(b"g" * 16)


class Scene:
    """A balancer, one task and one worker; tasks are those of a short function, unless stated otherwise."""

    def __init__(self, bench: Bench, rules: SchedulerConfig = RULES) -> None:
        self.bench = bench
        self.acceptor, acceptor_ref = bench.recorder()
        self._tasks: dict[int, tuple[Recorder, ActorRef]] = {}
        self.worker, self.worker_ref = bench.recorder()
        _, self.host = bench.recorder()
        self.policy: Placement = make_policy(rules)  # type: ignore[assignment]
        self.actor = Balancer(acceptor_ref, self.policy, count(1).__next__)
        self.balancer = bench.dispatcher.spawn(self.actor)
        bench.run()
        self.learn(SHORT, 2)

    def task(self, number: int) -> ActorRef:
        if number not in self._tasks:
            self._tasks[number] = self.bench.recorder()
        return self._tasks[number][1]

    def received(self) -> list[Any]:
        """Return the messages that the tasks received, by task number."""
        return [message for number in sorted(self._tasks) for message in self._tasks[number][0].take()]

    def ready(
        self,
        *numbers: int,
        attempt: int = 1,
        goes_first: bool = False,
        function_id: ObjectId = SHORT,
        priority: int = 0,
        account: int = 0,
    ) -> None:
        for number in numbers:
            spec = Task(TaskId(bytes([number]) * 16), function_id, b"", b"", priority)
            self.balancer.send(TaskReady(self.task(number), spec, attempt, goes_first, None, account, attempt == 1))
        self.bench.run()

    def choosy_ready(self, worker: str, number: int) -> TaskReady:
        spec = Task(TaskId(bytes([number]) * 16), SHORT, b"", b"", 0)
        return replace(TaskReady(self.task(number), spec, 1, False, None, 0, True), needs=Needs(worker=worker))

    def ready_for(self, worker: str, number: int) -> None:
        """Report a task ready that is for one worker."""
        self.bench.tell(self.balancer, self.choosy_ready(worker, number))

    def withdraw(self, number: int, priority: int = 0, account: int = 0) -> None:
        self.bench.tell(self.balancer, WithdrawTask(self.task(number), priority, account))

    def join(self, queue_size: int = 1, tasks: int = 0, expected_us: int = 0) -> None:
        self.bench.tell(self.balancer, WorkerJoined(self.worker_ref, queue_size, tasks, expected_us, self.host))

    def free(self, count: int, expected_us: int, measured: dict[ObjectId, tuple[int, int]] | None = None) -> None:
        self.bench.tell(self.balancer, LoadFreed(self.worker_ref, count, expected_us, measured or {}))

    def learn(self, function_id: ObjectId, us: int) -> None:
        self.free(0, 0, {function_id: (us, 1)})

    def placed(self, worker: Recorder | None = None) -> list[int]:
        mail = (worker or self.worker).take()
        return [task.spec.task_id[0] for assign in mail if type(assign) is AssignTasks for task, _ in assign.tasks]


@pytest.fixture
def scene(bench: Bench) -> Scene:
    return Scene(bench)


def test_capacity_of_recalled_tasks_that_were_cancelled_goes_to_waiting_tasks(scene: Scene) -> None:
    scene.join(queue_size=10, tasks=2, expected_us=2 * WORK_AHEAD_US)
    scene.ready(1)
    assert scene.placed() == []
    scene.bench.tell(scene.balancer, TasksRecalled(scene.worker_ref, 2, 2 * WORK_AHEAD_US, {SHORT}))
    assert scene.placed() == [1]


def test_a_balancer_starts_by_requesting_all_states(scene: Scene) -> None:
    assert scene.acceptor.take() == [BalancerRestarted(1)]


def test_tasks_are_placed_in_the_order_of_their_arrival(scene: Scene) -> None:
    scene.ready(3, 1, 2)
    scene.join(queue_size=2)
    assert scene.placed() == [3, 1]
    scene.free(1, 2)
    assert scene.placed() == [2]


def test_a_task_is_placed_at_once_if_a_worker_is_free(scene: Scene) -> None:
    scene.join()
    scene.ready(1)
    assert scene.placed() == [1]
    assert scene.actor.statistics() == {"ready_tasks": 0, "workers": 1}


def test_repeated_tasks_are_placed_first_and_keep_their_order(scene: Scene) -> None:
    scene.ready(1, 2)
    scene.ready(7, 8, attempt=2, goes_first=True)
    scene.join(queue_size=4)
    assert scene.placed() == [7, 8, 1, 2]


def test_tasks_are_placed_by_priority_and_repeated_tasks_first_within_one(scene: Scene) -> None:
    scene.ready(1, 2)
    scene.ready(3, priority=2)
    scene.ready(4, 5, priority=1)
    scene.ready(6, attempt=2, goes_first=True)
    scene.ready(7, attempt=2, goes_first=True, priority=1)
    scene.join(queue_size=5)
    assert scene.placed() == [3, 7, 4, 5, 6]
    scene.ready(8, priority=7)
    scene.free(3, 6)
    assert scene.placed() == [8, 1, 2]


def test_tasks_that_report_ready_again_on_request_keep_their_order(scene: Scene) -> None:
    scene.ready(1, 2, 3)
    scene.ready(1, 2, 3, attempt=2)
    scene.join(queue_size=9)
    assert scene.placed() == [1, 2, 3]


def test_a_repeated_task_that_reports_ready_again_on_request_waits_once(scene: Scene) -> None:
    scene.ready(1, attempt=2, goes_first=True)
    scene.ready(1, attempt=3)
    scene.join(queue_size=9)
    assert scene.placed() == [1]


def test_tasks_are_spread_over_the_workers(scene: Scene, bench: Bench) -> None:
    other, other_ref = bench.recorder()
    scene.join(queue_size=3)
    bench.tell(scene.balancer, WorkerJoined(other_ref, 3, 0, 0, scene.host))
    scene.ready(1, 2, 3, 4)
    assert (len(scene.placed()), len(scene.placed(other))) == (2, 2)


def test_a_worker_that_joins_with_tasks_gets_tasks_for_its_free_queue_only(scene: Scene) -> None:
    scene.ready(1, 2, 3)
    scene.join(queue_size=3, tasks=2)
    assert scene.placed() == [1]


def test_a_worker_that_joins_twice_is_counted_once(scene: Scene) -> None:
    scene.ready(1, 2)
    scene.join(queue_size=1)
    scene.join(queue_size=1)  # sent before the assignment reached it
    assert scene.placed() == [1]


@pytest.mark.parametrize("goes_first", [False, True])
def test_a_waiting_task_can_be_withdrawn(scene: Scene, goes_first: bool) -> None:
    scene.ready(1, goes_first=goes_first)
    scene.withdraw(1)
    assert scene.received() == [TaskWithdrawn()]
    scene.join()
    assert scene.placed() == []


def test_withdrawing_a_task_that_does_not_wait_is_answered_so(scene: Scene) -> None:
    scene.join()
    scene.ready(1)
    scene.withdraw(1)
    assert scene.received() == [TaskNotWaiting()]


def test_a_cancelled_range_without_capacity_does_not_delay_the_next_task(scene: Scene, bench: Bench) -> None:
    scene.join(queue_size=4, tasks=1)
    scene.learn(SHORT, 10)
    together = Task(TaskId(bytes([1]) * 16), SHORT, b"", b"", rows=4)
    bench.tell(scene.balancer, TaskReady(scene.task(1), together, 1, goes_first=False))
    scene.ready(2)
    assert scene.placed() == []
    scene.withdraw(1)
    assert scene.placed() == [2]


def test_tasks_of_two_clients_with_the_same_id_are_separate(scene: Scene, bench: Bench) -> None:
    other, other_ref = bench.recorder()
    scene.ready(1)
    bench.tell(scene.balancer, WithdrawTask(other_ref, 0))
    assert other.take() == [TaskNotWaiting()]
    bench.tell(scene.balancer, TaskReady(other_ref, Task(TaskId(b"\x01" * 16), SHORT, b"", b""), 1, goes_first=False))
    assert scene.actor.statistics()["ready_tasks"] == 2
    scene.join(queue_size=2)
    assert scene.placed() == [1, 1]


def test_clients_take_turns(scene: Scene) -> None:
    scene.learn(SHORT, 2 * TURN_US)
    scene.ready(1, 2, 3, 4)
    scene.ready(5, 6, account=1)
    scene.ready(7, account=1, priority=1)
    scene.join(queue_size=5)
    assert scene.placed() == [1, 7, 2, 5, 3]
    scene.withdraw(6, account=1)
    scene.free(5, 10)
    assert scene.placed() == [4]


def test_the_fifo_policy_places_tasks_of_all_clients_in_the_order_of_arrival(bench: Bench) -> None:
    scene = Scene(bench, scheduler_config(policy=FIFO))
    scene.ready(1, 2, 3)
    scene.ready(4, account=1)
    scene.ready(5, account=2, priority=1)
    scene.withdraw(2)
    scene.join(queue_size=5)
    assert scene.placed() == [5, 1, 3, 4]


def test_a_worker_that_leaves_gets_no_tasks_after_the_answer(scene: Scene) -> None:
    scene.join(queue_size=5)
    scene.ready(1)
    scene.bench.tell(scene.balancer, WorkerLeft(scene.worker_ref))
    scene.ready(2)
    assert [type(mail) for mail in scene.worker.take()] == [AssignTasks, WorkerForgotten]
    assert scene.actor.statistics() == {"ready_tasks": 1, "workers": 0}


def test_the_balancer_requests_all_states_again_after_the_failure_of_a_worker(scene: Scene) -> None:
    scene.join()
    scene.ready(1, 2)
    scene.acceptor.take()
    scene.bench.tell(scene.balancer, WorkerFailed(scene.worker_ref))
    assert scene.acceptor.take() == [BalancerRestarted(2)]
    assert scene.actor.statistics() == {"ready_tasks": 0, "workers": 0}


def test_ready_reports_from_before_the_request_of_the_balancer_are_ignored(scene: Scene) -> None:
    spec = Task(TaskId(bytes([1]) * 16), SHORT, b"", b"")
    earlier = TaskReady(scene.task(1), spec, 1, goes_first=False, account=0)
    pinned = replace(TaskReady(scene.task(2), spec, 1, False, None, 0), needs=Needs(worker=""))
    scene.bench.tell(scene.balancer, earlier, WorkerFailed(scene.worker_ref), earlier, pinned)
    scene.withdraw(1)
    assert scene.received() == [TaskNotWaiting()]
    scene.join(queue_size=10)
    assert scene.placed() == []
    scene.ready(1, attempt=3)
    assert scene.placed() == [1]


# Any policy


class RecordingPolicy:
    """A policy that records its calls, and decides as a test prescribes."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.decisions: Decisions = Decisions()
        self.answer: Any = True

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def hear(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            return self.answer

        return hear

    def decide(self, now: float) -> Decisions:
        self.calls.append(("decide", now))
        decisions, self.decisions = self.decisions, Decisions()
        return decisions


def test_messages_of_a_turn_become_calls_of_the_policy_and_one_decision(bench: Bench) -> None:
    policy = RecordingPolicy()
    balancer = bench.dispatcher.spawn(Balancer(bench.recorder()[1], policy, count(1).__next__))
    (task, task_ref), (_, worker), (_, host) = bench.recorder(), bench.recorder(), bench.recorder()
    ready = [
        TaskReady(task_ref, Task(TaskId(bytes(16)), SHORT, b"", b""), attempt, goes_first=False) for attempt in (1, 2)
    ]
    measured, needs = {SHORT: (9, 3)}, Needs((("gpu", 1),))
    bench.tell(
        balancer,
        *ready,
        replace(ready[0], needs=needs),
        WorkerJoined(worker, 5, 1, 2, host, Offer((("gpu", 2),), 1), ((needs, 1),), True),
        LoadFreed(worker, 3, 4, measured),
        TasksRecalled(worker, 5, 6, {SHORT}),
        LoadResumed(worker, 7, 8),
        AmountsChanged(worker, ((needs, -1),), True),
        WorkerLeft(worker),
        WithdrawTask(task_ref, 9, 10),
    )
    assert policy.calls == [
        ("join", worker, 5, 1, 2, host, Offer((("gpu", 2),), 1), ((needs, 1),), True),
        ("freed", worker, 3, 4, measured),
        ("recalled", worker, 5, 6, {SHORT}),
        ("resumed", worker, 7, 8),
        ("amounts_changed", worker, ((needs, -1),), True),
        ("leave", worker),
        ("ready", ready),  # before the withdrawal
        ("ready_constrained", [replace(ready[0], needs=needs)]),
        ("withdraw", task_ref, 9, 10),
        ("decide", 100.0),
    ]
    assert task.take() == [TaskWithdrawn()]
    policy.calls.clear()
    policy.answer = False
    bench.tell(balancer, LoadFreed(worker, 1, 1, {}))
    assert policy.calls == [("freed", worker, 1, 1, {})]
    bench.tell(balancer, *ready, WorkerFailed(worker))
    assert policy.calls[1:] == [("forget",), ("decide", 100.0)]


def test_decisions_become_messages_and_a_look_time_becomes_a_timer(bench: Bench) -> None:
    policy = RecordingPolicy()
    balancer = bench.dispatcher.spawn(Balancer(bench.recorder()[1], policy, count(1).__next__))
    (task, task_ref), (worker, worker_ref) = bench.recorder(), bench.recorder()
    spec = Task(TaskId(bytes(16)), SHORT, b"", b"")
    ready = TaskReady(task_ref, spec, 3, goes_first=False, account=4)
    policy.decisions = Decisions({worker_ref: [(ready, 50)]}, [(ready, "no")], {worker_ref: 6}, 102.0)
    bench.tell(balancer, ready)
    assert worker.take() == [AssignTasks([(ready, 50)]), RecallTasks(6)]
    assert task.take() == [TaskRefused(3, "no")]
    policy.calls.clear()
    bench.advance(1.0)
    policy.decisions = Decisions(look_at=101.5)
    bench.tell(balancer, ready)
    policy.decisions = Decisions(look_at=103.0)
    bench.advance(0.5)
    bench.advance(1.0)
    assert [calls for calls in policy.calls if calls[0] == "decide"] == [("decide", 101.0), ("decide", 101.5)]
    bench.advance(0.5)
    assert policy.calls[-1] == ("decide", 103.0)
    assert bench.dispatcher.next_deadline() is None


# Balance


class Uneven(Scene):
    """One worker with eight tasks of a short function, and another worker that has just joined."""

    def __init__(self, bench: Bench, rules: SchedulerConfig = RULES) -> None:
        super().__init__(bench, rules)
        self.join(queue_size=1000)
        self.ready(*range(1, 9))
        assert self.placed() == [*range(1, 9)]
        self.other, self.other_ref = bench.recorder()
        bench.tell(self.balancer, WorkerJoined(self.other_ref, 1000, 0, 0, self.host))

    def asked(self) -> list[int]:
        """Return how many tasks the first worker was requested to return."""
        return [mail.count for mail in self.worker.take() if type(mail) is RecallTasks]

    def give_back(self, *numbers: int) -> None:
        self.bench.tell(self.balancer, TasksRecalled(self.worker_ref, len(numbers), 2 * len(numbers), {SHORT}))
        self.ready(*numbers, attempt=2, goes_first=True)


def test_all_queued_tasks_of_a_stuck_worker_are_recalled_if_a_second_look_finds_idle_ones(
    bench: Bench,
) -> None:
    scene = Uneven(bench)
    assert scene.asked() == []
    bench.advance(LOOK_SECONDS)
    assert scene.asked() == [7]


def test_half_of_the_tasks_of_a_busy_worker_that_makes_progress_are_recalled(bench: Bench) -> None:
    scene = Uneven(bench)
    scene.free(2, 4)
    bench.advance(LOOK_SECONDS)
    assert scene.asked() == [3]


def test_recalled_tasks_are_placed_one_by_one_until_one_has_proved_short(bench: Bench) -> None:
    scene = Uneven(bench)
    bench.advance(LOOK_SECONDS)
    scene.give_back(2, 3, 4, 5, 6, 7, 8)
    assert scene.placed(scene.other) == [2]
    assert scene.placed() == []
    bench.tell(scene.balancer, LoadFreed(scene.other_ref, 1, WORK_AHEAD_US, {SHORT: (2, 1)}))
    assert scene.placed(scene.other) == [3, 4, 5, 6, 7, 8]
    scene.ready(9)
    assert scene.placed() == []  # the first worker is stuck still
    scene.free(1, 2)
    scene.ready(10)
    assert scene.placed() == [10]


def test_a_look_of_the_balancer_that_finds_even_queues_restarts_the_series(bench: Bench) -> None:
    scene = Uneven(bench, scheduler_config(load_balance_trigger_times=3))
    bench.advance(LOOK_SECONDS)
    scene.ready(9)  # the other is not idle now
    bench.advance(LOOK_SECONDS)
    bench.tell(scene.balancer, LoadFreed(scene.other_ref, 1, 2, {}))
    bench.advance(LOOK_SECONDS)
    assert scene.asked() == []
    bench.advance(LOOK_SECONDS)
    assert scene.asked() == [7]


def test_two_rounds_of_the_balancer_are_separated_by_the_configured_time(bench: Bench) -> None:
    scene = Uneven(bench, scheduler_config(load_balance_seconds=5.0))
    bench.advance(LOOK_SECONDS)
    assert scene.asked() == [7]  # and it returns none: its processor has them
    for _ in range(498):
        bench.advance(0.01)
    assert scene.asked() == []
    bench.advance(0.02)
    bench.advance(LOOK_SECONDS)
    assert scene.asked() == [7]


def test_a_balancer_configured_for_one_look_levels_the_queues_at_once(bench: Bench) -> None:
    assert Uneven(bench, scheduler_config(load_balance_trigger_times=1)).asked() == [4]


def test_without_balancing_no_task_is_recalled_and_no_timer_is_set(bench: Bench) -> None:
    scene = Uneven(bench, scheduler_config(load_balance_seconds=0.0))
    assert bench.dispatcher.next_deadline() is None
    assert scene.asked() == []


def test_the_balancer_recalls_tasks_queued_at_a_stuck_worker_even_without_idle_workers(bench: Bench) -> None:
    """Otherwise, later tasks would overtake the queued ones for ever."""
    scene = Scene(bench)
    scene.learn(OTHER, WORK_AHEAD_US // 2)
    other, other_ref = bench.recorder()
    scene.join(queue_size=1000)
    bench.tell(scene.balancer, WorkerJoined(other_ref, 1000, 0, 0, scene.host))
    scene.ready(*range(1, 9), function_id=OTHER)
    ours = scene.placed()
    assert (len(ours), len(scene.placed(other))) == (2, 2)
    bench.tell(scene.balancer, LoadFreed(other_ref, 1, WORK_AHEAD_US // 2, {}))
    bench.advance(RULES.load_balance_seconds)
    assert [mail.count for mail in scene.worker.take() if type(mail) is RecallTasks] == [1]
    assert [type(mail) for mail in other.take()] == [AssignTasks]


def test_no_timer_is_set_when_no_task_is_queued_at_a_worker(scene: Scene) -> None:
    scene.join(queue_size=1000)
    scene.ready(1, 2, 3, function_id=OTHER)
    assert scene.bench.dispatcher.next_deadline() is None


# Refusal


def limited(bench: Bench, waiting_most: int) -> Scene:
    return Scene(bench, scheduler_config(max_number_of_tasks_waiting=waiting_most))


def refused(scene: Scene) -> int:
    mail = scene.received()
    assert {type(message) for message in mail} <= {TaskRefused}
    return len(mail)


def waiting(scene: Scene) -> list[int]:
    return [ready.spec.task_id[0] for ready in scene.policy._queue]


def test_the_newest_tasks_above_the_limit_are_refused_if_no_worker_has_capacity(bench: Bench) -> None:
    scene = limited(bench, 2)
    scene.join(queue_size=1)
    scene.ready(1, 2, 3, 4, 5)
    assert scene.placed() == [1]
    assert waiting(scene) == [2, 3]
    assert refused(scene) == 2
    scene.ready(6)
    assert refused(scene) == 1
    scene.free(1, 2)
    scene.ready(7, 8)
    assert waiting(scene) == [3, 7]
    assert refused(scene) == 1


def test_free_queue_places_count_for_the_limit_however_long_the_tasks(bench: Bench) -> None:
    scene = limited(bench, 0)
    scene.join(queue_size=3)
    scene.ready(1, 2, 3, 4, function_id=OTHER)
    assert scene.placed() == [1]  # the other tasks wait in the balancer, for free places
    assert waiting(scene) == [2, 3]
    assert refused(scene) == 1


def test_without_workers_and_with_a_limit_of_0_tasks_are_refused_at_once(bench: Bench) -> None:
    scene = limited(bench, 0)
    scene.ready(1)
    (message,) = scene.received()
    assert message.attempt == 1
    assert "no worker is connected" in message.sentence
    assert "max_number_of_tasks_waiting is 0" in message.sentence


def test_nested_tasks_and_tasks_that_waited_or_ran_before_are_never_refused(bench: Bench) -> None:
    scene = limited(bench, 0)
    scene.ready(1, attempt=2, goes_first=True)
    scene.ready(2, attempt=2)  # reported on request of a restarted balancer
    scene.ready(3, priority=of_child(0))
    assert refused(scene) == 0
    assert waiting(scene) == [3, 1, 2]


def test_a_task_with_a_user_priority_is_not_taken_for_a_nested_task(bench: Bench) -> None:
    scene = limited(bench, 0)
    scene.ready(1, priority=with_user_priority(0, 9))
    assert refused(scene) == 1


def test_a_task_that_may_wait_is_not_refused_when_its_worker_leaves(bench: Bench) -> None:
    scene = limited(bench, 0)
    scene.join(queue_size=3)
    scene.ready(1, 2, function_id=OTHER)
    bench.tell(scene.balancer, WorkerLeft(scene.worker_ref))
    scene.ready(3)
    assert refused(scene) == 1
    assert waiting(scene) == [2]


def test_a_task_that_is_withdrawn_in_the_same_turn_is_not_refused(bench: Bench) -> None:
    scene = limited(bench, 0)
    for message in (
        TaskReady(scene.task(1), Task(TaskId(b"\x01" * 16), SHORT, b"", b""), 1, goes_first=False),
        WithdrawTask(scene.task(1), 0),
    ):
        scene.balancer.send(message)
    bench.run()
    assert scene.received() == [TaskWithdrawn()]


def test_the_newest_task_of_the_largest_client_is_refused_for_a_smaller_client(bench: Bench) -> None:
    scene = limited(bench, 3)
    scene.ready(1, 2, 3)
    scene.ready(4, account=1)
    (message,) = scene.received()
    assert "in favour of a client with fewer waiting tasks" in message.sentence
    assert waiting(scene) == [1, 2, 4]
    scene.ready(5)
    scene.ready(6, account=1)
    assert [message.sentence.count("it waited") for message in scene.received()] == [0, 0]
    assert waiting(scene) == [1, 2, 4]


def test_without_a_limit_any_number_of_tasks_waits(scene: Scene) -> None:
    scene.ready(*range(100))
    assert refused(scene) == 0


# Work


def test_tasks_of_an_unknown_function_are_assigned_one_by_one(scene: Scene) -> None:
    scene.join(queue_size=1000)
    scene.ready(1, 2, 3, function_id=OTHER)
    assert scene.placed() == [1]
    scene.free(1, WORK_AHEAD_US)  # it was cancelled, so its duration is still unknown
    assert scene.placed() == [2]


def test_tasks_are_assigned_ahead_by_the_last_duration_of_their_function(scene: Scene) -> None:
    scene.join(queue_size=1000)
    scene.ready(*range(1, 10), function_id=OTHER)
    assert scene.placed() == [1]
    scene.free(1, WORK_AHEAD_US, {OTHER: (WORK_AHEAD_US // 4, 1)})
    assert scene.placed() == [2, 3, 4, 5]


def test_an_assignment_carries_its_expected_work(scene: Scene) -> None:
    scene.join(queue_size=1000)
    scene.ready(1)
    scene.ready(2, function_id=OTHER)
    mail = scene.worker.take()
    assert [expected_us for assign in mail for _, expected_us in assign.tasks] == [2, WORK_AHEAD_US]


def test_a_task_that_does_not_fit_stays_the_first(scene: Scene) -> None:
    scene.join(queue_size=1000)
    scene.ready(1, 2, function_id=OTHER)
    scene.ready(3)
    assert scene.placed() == [1]
    scene.ready(4, 5, attempt=2, goes_first=True)
    scene.free(1, WORK_AHEAD_US)
    assert scene.placed() == [4, 5, 2]
    scene.free(3, WORK_AHEAD_US + 4)
    assert scene.placed() == [3]


def test_a_worker_that_joins_with_work_gets_tasks_up_to_the_work_ahead(scene: Scene) -> None:
    scene.learn(OTHER, WORK_AHEAD_US // 5)
    scene.ready(*range(1, 10), function_id=OTHER)
    scene.join(queue_size=1000, tasks=2, expected_us=WORK_AHEAD_US // 2)
    assert scene.placed() == [1, 2, 3]


def by_payload(run: RunTask) -> Outcome:
    """Run for the time in the payload."""
    return Outcome(seconds=float(run.payload))


def submit(client: SimulatedClient, lengths: list[float]) -> None:
    for seconds in lengths:
        client.submit(payload=str(seconds).encode())


@pytest.mark.thorough
def test_long_tasks_after_a_thousand_short_ones_of_another_function_are_spread(simulation: Simulation) -> None:
    agent = simulation.agent(2, by_payload)
    client, other = simulation.client(), simulation.client(code=b"other")
    client.submit(1000, payload=b"0.0001")
    simulation.run()
    assert len(agent.queued) == 2
    simulation.advance(0.0001)
    assert len(agent.queued) > 500  # once the duration is known, tasks are assigned ahead
    simulation.advance(1.0)
    assert client.open == {}
    submit(other, [1.0, 0.1, 0.1] * 6)
    simulation.advance(3.6 * 1.1)
    assert other.open == {}


def test_with_all_queues_full_tasks_start_in_the_order_of_their_arrival() -> None:
    simulation = Simulation(scheduler_config(per_worker_queue_size=2))
    agent, client = simulation.agent(3, by_payload), simulation.client()
    submit(client, [0.003, 0.005, 0.009] * 60)
    simulation.advance(3.0)
    assert client.open == {}
    started = [run.task_id for run in agent.started]
    moved = [abs(started.index(task_id) - place) for place, task_id in enumerate(client.submitted)]
    assert max(moved) <= 3  # the second place of each queue


def test_tasks_of_a_slower_function_are_soon_assigned_one_by_one_and_ahead_again_later(
    simulation: Simulation,
) -> None:
    agent, client = simulation.agent(2, by_payload), simulation.client()
    submit(client, [0.01] * 100)
    simulation.advance(1.0)
    assert client.open == {}
    submit(client, [1.0] * 16)
    simulation.run()
    assert len(agent.queued) == 10  # 50 ms of work for each worker, as before
    simulation.advance(5.0)
    assert len(agent.queued) == 2  # while four tasks wait
    simulation.advance(3.0)
    assert client.open == {}
    submit(client, [0.01] * 200)
    simulation.run()
    assert len(agent.queued) == 2
    simulation.advance(0.8)
    assert len(agent.queued) > 4
    simulation.advance(0.3)
    assert client.open == {}


def test_a_restarted_balancer_learns_durations_again() -> None:
    simulation = Simulation()
    agent, client = simulation.agent(2, by_payload), simulation.client()
    submit(client, [0.01] * 40)
    simulation.advance(0.015)
    assert len(agent.queued) == 10
    simulation.fail(simulation.tree.supervisor.children[BALANCER])
    simulation.run()
    assert simulation.actor(BALANCER)._policy._durations.expected_us(client.function_id) == WORK_AHEAD_US
    assert len(agent.queued) == 10  # tasks assigned ahead are counted as before
    simulation.advance(0.01)
    assert len(agent.queued) == 10
    simulation.advance(0.25)
    assert client.open == {}
    assert len(agent.started) == 40


def single_tasks(simulation: Simulation, client: SimulatedClient, other: SimulatedClient) -> None:
    """While one client has a thousand waiting tasks of 10 ms, a task of another client starts after the queued ones."""
    for _ in range(3):
        single_task(simulation, other)
    assert len(client.open) > 1000


def single_task(simulation: Simulation, client: SimulatedClient) -> None:
    (task_id,) = client.submit(payload=b"0.01")
    simulation.advance(1e-6 * WORK_AHEAD_US + 0.05)
    assert client.statuses([task_id]) == [TaskStatus.SUCCESS]


def test_a_single_task_starts_after_the_queued_tasks_also_after_a_restart_of_the_balancer() -> None:
    simulation = Simulation(audited=False)
    simulation.agent(2, by_payload)
    client, other = simulation.client(), simulation.client()
    submit(client, [0.01] * 1500)
    simulation.advance(0.1)
    single_tasks(simulation, client, other)
    waiting = other.submit(payload=b"0.01")
    simulation.run()
    simulation.fail(simulation.tree.supervisor.children[BALANCER])
    simulation.run()
    single_tasks(simulation, client, other)
    assert other.statuses(waiting) == [TaskStatus.SUCCESS]


def test_a_single_task_starts_as_soon_if_another_client_has_a_map() -> None:
    simulation = Simulation(audited=False)
    agent = simulation.agent(2, by_payload)
    client, other = simulation.client(), simulation.client()
    mapped = client.submit(1500, payload=b"0.01")
    for _ in range(3):
        simulation.advance(1.3)
        single_task(simulation, other)
    simulation.advance(1500 * 0.01 / 2)
    assert client.statuses(mapped) == [TaskStatus.SUCCESS] * 1500
    assert len(agent.started) == 1503


def test_workers_end_a_map_at_the_same_time() -> None:
    simulation = Simulation(audited=False)
    simulation.agent(4, by_payload)
    client = simulation.client()
    simulation.run()
    first = client.submit(100, payload=b"0.01")
    simulation.advance(0.1)
    second = client.submit(400, payload=b"0.01")
    simulation.advance(500 * 0.01 / 4 - 0.1 + 0.02)
    assert client.statuses([*first, *second]) == [TaskStatus.SUCCESS] * 500


def test_a_recursion_in_a_task_has_the_turns_of_its_client() -> None:
    simulation = Simulation(audited=False)
    agent = simulation.agent(2, by_payload)
    client, nested, other = simulation.client(), simulation.nested_client(agent), simulation.client()
    submit(client, [0.01] * 4)
    simulation.advance(0.1)
    nested.submit(1500, payload=b"0.01", priority=of_child(0))
    simulation.run()
    single_tasks(simulation, nested, other)


def test_a_task_is_placed_at_the_node_with_most_of_its_data_if_a_worker_has_capacity(bench: Bench) -> None:
    scene = Scene(bench)
    far, far_ref = bench.recorder()
    _, far_node = bench.recorder()
    scene.join(queue_size=2)
    bench.tell(scene.balancer, WorkerJoined(far_ref, 1000, 0, 0, far_node))
    for number in range(1, 6):
        spec = Task(TaskId(bytes([number]) * 16), SHORT, b"", b"")
        bench.tell(
            scene.balancer, TaskReady(scene.task(number), spec, 1, goes_first=False, near_worker=scene.worker_ref)
        )
    assert scene.placed() == [1, 2]
    assert scene.placed(far) == [3, 4, 5]


def test_a_task_for_one_worker_is_placed_there_before_waiting_tasks() -> None:
    bench = Bench()
    scene = Scene(bench)
    scene.bench.tell(scene.balancer, WorkerJoined(scene.worker_ref, 1, 0, 0, scene.host, name="w-1"))
    scene.ready(1, 2, 3)
    scene.worker.take()
    scene.ready_for("w-1", 4)
    [assigned] = scene.worker.take(AssignTasks)
    assert [(ready.task, work_us) for ready, work_us in assigned.tasks] == [(scene.task(4), 0)]
    before = scene.policy._loads.tasks
    bench.tell(scene.balancer, LoadFreed(scene.worker_ref, 1, 0, {}))
    assert scene.policy._loads.tasks == before - 1


def test_a_task_for_a_worker_that_is_not_connected_is_refused() -> None:
    bench = Bench()
    scene = Scene(bench)
    scene.ready_for("w-1", 1)
    assert [type(each) for each in scene.received()] == [TaskRefused]
    bench.tell(scene.balancer, WorkerJoined(scene.worker_ref, 1, 0, 0, scene.host, name="w-1"))
    bench.tell(scene.balancer, WorkerLeft(scene.worker_ref))
    scene.ready_for("w-1", 2)
    [refused] = scene.received()
    assert "only worker w-1, which no longer takes tasks, may run it" in refused.sentence
    assert scene.worker.take(AssignTasks) == []


def test_a_task_for_one_worker_can_be_withdrawn_before_it_is_placed() -> None:
    bench = Bench()
    scene = Scene(bench)
    bench.tell(scene.balancer, WorkerJoined(scene.worker_ref, 1, 0, 0, scene.host, name="w-1"))
    scene.worker.take()
    scene.balancer.send(scene.choosy_ready("w-1", 1))
    scene.balancer.send(WithdrawTask(scene.task(1), 0, 0))
    bench.run()
    assert [type(each) for each in scene.received()] == [TaskWithdrawn]
    assert scene.worker.take(AssignTasks) == []


def test_an_awaited_task_is_assigned_to_a_paused_worker(bench: Bench) -> None:
    scene = Scene(bench)
    scene.join(tasks=1, expected_us=WORK_AHEAD_US)
    scene.ready(1, 2)
    asker, ref = bench.recorder()

    def ask(number: int, *, is_wanted: bool = True) -> None:
        question = ExplainTask(ref, TaskId(bytes([number]) * 16), is_wanted=is_wanted)
        bench.tell(scene.balancer, ExplainWaiting(question, scene.task(number), 0, 0, None, FIRST_TRY, 0.0))

    ask(2)
    assert scene.worker.take() == []
    bench.tell(scene.balancer, WorkersPausedAt(scene.host, 1))
    ask(2, is_wanted=False)
    assert scene.worker.take() == []
    ask(2)
    (assign,) = scene.worker.take()
    ((ready, expected_us),) = assign.tasks
    assert (ready.task, ready.spec.priority, expected_us) == (scene.task(2), MOST, 0)
    ask(2)
    assert scene.worker.take() == []
    assert {answer.waits_for for answer in asker.take()} == {"no room"}


def test_an_awaited_range_at_a_paused_worker_is_refused(bench: Bench) -> None:
    scene = Scene(bench)
    scene.join(tasks=1, expected_us=WORK_AHEAD_US)
    spec = Task(TaskId(b"r" * 16), SHORT, b"", b"", 0, rows=3)
    bench.tell(scene.balancer, TaskReady(scene.task(1), spec, 1, False, None, 0, True))
    bench.tell(scene.balancer, WorkersPausedAt(scene.host, 1))
    question = ExplainTask(bench.recorder()[1], spec.task_id, is_wanted=True)
    bench.tell(scene.balancer, ExplainWaiting(question, scene.task(1), 0, 0, None, FIRST_TRY, 0.0))
    assert scene.received() == [RangeRefused(1)]
    assert scene.worker.take() == []
