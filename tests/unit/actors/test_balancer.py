"""The queue of ready tasks, and whom it gives the next one to."""

from __future__ import annotations

import pytest

from scaler.actors.balancer import Balancer
from scaler.actors.kit import ActorRef
from scaler.actors.messages import (
    AssignTask,
    BalancerRestarted,
    PlacesFreed,
    TaskNotWaiting,
    TaskReady,
    TaskWithdrawn,
    WithdrawTask,
    WorkerFailed,
    WorkerForgotten,
    WorkerJoined,
    WorkerLeft,
)
from scaler.ids import ObjectId, TaskId
from scaler.wire.messages import Task
from tests.support.bench import Bench, Recorder


class Scene:
    """A balancer, one task and one worker."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.acceptor, acceptor_ref = bench.recorder()
        self.task, self.task_ref = bench.recorder()
        self.worker, self.worker_ref = bench.recorder()
        self.actor = Balancer(acceptor_ref)
        self.balancer = bench.dispatcher.spawn(self.actor)
        bench.run()

    def ready(self, *numbers: int, attempt: int = 1, again: bool = False, task: ActorRef | None = None) -> None:
        for number in numbers:
            spec = Task(TaskId(bytes([number]) * 16), ObjectId(b"f" * 16), b"", b"")
            self.balancer.send(TaskReady(task or self.task_ref, spec, attempt, again))
        self.bench.run()

    def join(self, window: int = 1, load: int = 0) -> None:
        self.bench.tell(self.balancer, WorkerJoined(self.worker_ref, window, load))

    def free(self, count: int, window: int) -> None:
        self.bench.tell(self.balancer, PlacesFreed(self.worker_ref, count, window))

    def placed(self, worker: Recorder | None = None) -> list[int]:
        mail = (worker or self.worker).take()
        return [assign.spec.task_id[0] for assign in mail if type(assign) is AssignTask]


@pytest.fixture
def scene(bench: Bench) -> Scene:
    return Scene(bench)


def test_it_starts_by_asking_everybody(scene: Scene) -> None:
    assert scene.acceptor.take() == [BalancerRestarted()]


def test_first_come_first_served(scene: Scene) -> None:
    scene.ready(3, 1, 2)
    scene.join(window=2)
    assert scene.placed() == [3, 1]
    scene.free(1, 2)
    assert scene.placed() == [2]


def test_a_task_that_comes_to_a_free_worker_is_placed_at_once(scene: Scene) -> None:
    scene.join()
    scene.ready(1)
    assert scene.placed() == [1]
    assert scene.actor.statistics() == {"ready_tasks": 0, "workers": 1}


def test_tasks_that_are_tried_again_go_first_and_keep_their_order(scene: Scene) -> None:
    scene.ready(1, 2)
    scene.ready(7, 8, attempt=2, again=True)
    scene.join(window=4)
    assert scene.placed() == [7, 8, 1, 2]


def test_tasks_that_say_ready_anew_when_asked_keep_their_order(scene: Scene) -> None:
    scene.ready(1, 2, 3)
    scene.ready(1, 2, 3, attempt=2)
    scene.join(window=9)
    assert scene.placed() == [1, 2, 3]


def test_a_task_tried_again_that_is_asked_waits_once(scene: Scene) -> None:
    scene.ready(1, attempt=2, again=True)
    scene.ready(1, attempt=3)
    scene.join(window=9)
    assert scene.placed() == [1]


def test_tasks_are_spread_over_the_workers(scene: Scene, bench: Bench) -> None:
    other, other_ref = bench.recorder()
    scene.join(window=3)
    bench.tell(scene.balancer, WorkerJoined(other_ref, 3, 0))
    scene.ready(1, 2, 3, 4)
    assert (len(scene.placed()), len(scene.placed(other))) == (2, 2)


def test_a_worker_that_joins_with_tasks_gets_only_what_it_has_places_for(scene: Scene) -> None:
    scene.ready(1, 2, 3)
    scene.join(window=3, load=2)
    assert scene.placed() == [1]


def test_a_worker_that_joined_while_it_was_asked_is_counted_once(scene: Scene) -> None:
    scene.ready(1, 2)
    scene.join(window=1)
    scene.join(window=1)  # said before the assignment reached it
    assert scene.placed() == [1]


@pytest.mark.parametrize("again", [False, True])
def test_a_waiting_task_can_be_withdrawn(scene: Scene, again: bool) -> None:
    scene.ready(1, again=again)
    scene.bench.tell(scene.balancer, WithdrawTask(scene.task_ref, TaskId(b"\x01" * 16)))
    assert scene.task.take() == [TaskWithdrawn()]
    scene.join()
    assert scene.placed() == []


def test_a_task_that_does_not_wait_is_told_so(scene: Scene) -> None:
    scene.join()
    scene.ready(1)
    scene.bench.tell(scene.balancer, WithdrawTask(scene.task_ref, TaskId(b"\x01" * 16)))
    assert scene.task.take() == [TaskNotWaiting()]


def test_a_task_cannot_withdraw_another_one_of_the_same_id(scene: Scene, bench: Bench) -> None:
    other, other_ref = bench.recorder()
    scene.ready(1)
    bench.tell(scene.balancer, WithdrawTask(other_ref, TaskId(b"\x01" * 16)))
    assert other.take() == [TaskNotWaiting()]
    assert scene.actor.statistics()["ready_tasks"] == 1


def test_a_worker_that_leaves_gets_nothing_after_the_answer(scene: Scene) -> None:
    scene.join(window=5)
    scene.ready(1)
    scene.bench.tell(scene.balancer, WorkerLeft(scene.worker_ref))
    scene.ready(2)
    assert [type(mail) for mail in scene.worker.take()] == [AssignTask, WorkerForgotten]
    assert scene.actor.statistics() == {"ready_tasks": 1, "workers": 0}


def test_after_the_failure_of_a_worker_it_asks_everybody_again(scene: Scene) -> None:
    scene.join()
    scene.ready(1, 2)
    scene.acceptor.take()
    scene.bench.tell(scene.balancer, WorkerFailed(scene.worker_ref))
    assert scene.acceptor.take() == [BalancerRestarted()]
    assert scene.actor.statistics() == {"ready_tasks": 0, "workers": 0}
