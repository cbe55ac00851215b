"""The worker proxy: the scheduler's view of one worker, and what happens to its tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from scaler.actors.messages.adoption import AdoptRun
from scaler.actors.messages.monitor import ReportTask, ReportTaskOf
from scaler.actors.messages.peers import CloseWorker, ConnectionLost, DrainWorker, Resumed, StartOver, StopWorker
from scaler.actors.messages.tasks import (
    AmountsChanged,
    AssignTasks,
    BalancerRestarted,
    CancelOrphan,
    CancelRun,
    LoadFreed,
    LoadResumed,
    RecallRun,
    RecallTasks,
    RunLost,
    RunRecalled,
    StartRequested,
    StartRun,
    TaskAssigned,
    TaskReady,
    TasksRecalled,
    WorkerFailed,
    WorkerForgotten,
    WorkerJoined,
    WorkerLeft,
)
from scaler.actors.policy import Needs
from scaler.actors.vocabulary.hellos import HeldRun
from scaler.actors.vocabulary.recent_runs import RecentRuns
from scaler.actors.workers import worker_proxy
from scaler.actors.workers.worker_proxy import ANSWER_SECONDS, WorkerProxy
from scaler.ids import NO_CONNECTION, Connection, ObjectId, TaskId
from scaler.kit import ActorRef
from scaler.wire.messages.accounts import account_of
from scaler.wire.messages.client import ExplainRequest, ExplainResponse, Task
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import OutputStream, RunState, TaskStatus
from scaler.wire.messages.rows import pack, row_ids
from scaler.wire.messages.vocabulary import CHILDREN
from scaler.wire.messages.worker import (
    RecallRequest,
    RecallResponse,
    RunBlocked,
    RunCancel,
    RunOutput,
    RunResult,
    RunStatus,
    RunTask,
    RunUnblocked,
)
from tests.support.bench import Bench, RecordingOutbox, connected_peer
from tests.support.recorder import Recorder
from tests.support.simulation import Outcome, SimulatedAgent, SimulatedClient, Simulation

INDEX = 3
SHORT, OTHER = ObjectId(b"f" * 16), ObjectId(b"g" * 16)


def task_id(number: int) -> TaskId:
    return TaskId(bytes([number]) * 16)


def order(number: int, attempt: int = 1) -> RunTask:
    return RunTask(task_id(number), INDEX, attempt, SHORT, b"arguments", b"")


def never_sent(attempt: int) -> RunLost:
    return RunLost(attempt, "alpha", was_running=False, was_ordered=False)


def held_run(task_id: TaskId, attempt: int) -> HeldRun:
    return HeldRun(task_id, attempt, INDEX, 0)


class Scene:
    """A proxy, the balancer, and three tasks, numbered from 0."""

    def __init__(self, bench: Bench, held: Sequence[HeldRun] = ()) -> None:
        self.bench = bench
        self.outbox = RecordingOutbox()
        self.peer = connected_peer(b"link")
        self.balancer, balancer_ref = bench.recorder()
        self.tasks: list[Recorder] = []
        self.refs: list[ActorRef] = []
        for _ in range(3):
            recorder, ref = bench.recorder()
            self.tasks.append(recorder)
            self.refs.append(ref)
        _, self.host = bench.recorder()
        self.adoption, adoption_ref = bench.recorder()
        self.outputs, outputs_ref = bench.recorder()
        self.recent_runs = RecentRuns()
        self.actor = WorkerProxy(
            "alpha",
            INDEX,
            self.peer,
            outbox=self.outbox,
            balancer=balancer_ref,
            queue_size=100,
            host=self.host,
            adoption=adoption_ref,
            outputs=outputs_ref,
            recent_runs=self.recent_runs,
            held=held,
        )
        self.proxy = bench.dispatcher.spawn(self.actor)
        bench.run()

    def tell(self, *messages: Any) -> None:
        self.bench.tell(self.proxy, *messages)

    def assign(
        self,
        *numbers: int,
        attempt: int = 1,
        expected_us: int = 7,
        function_id: ObjectId = SHORT,
        priority: int = 0,
        object_ids: bytes = b"",
    ) -> None:
        tasks = []
        for number in numbers:
            spec = Task(task_id(number), function_id, b"arguments", object_ids, priority)
            tasks.append((TaskReady(self.refs[number], spec, attempt, goes_first=False), expected_us))
        self.tell(AssignTasks(tasks))

    def finish(
        self, *numbers: int, attempt: int = 1, status: TaskStatus = TaskStatus.SUCCESS, duration_us: int = 0
    ) -> None:
        results = (RunResult(task_id(n), INDEX, attempt, status, b"", duration_us, ()) for n in numbers)
        self.tell(Batch[RunResult](results))

    def suspend(self, number: int, attempt: int = 1) -> None:
        self.tell(Batch[RunBlocked]([RunBlocked(task_id(number), INDEX, attempt)]))

    def resume(self, number: int, attempt: int = 1) -> None:
        self.tell(Batch[RunUnblocked]([RunUnblocked(task_id(number), INDEX, attempt)]))

    def start_over(self, *held: HeldRun, is_complete: bool = True) -> None:
        """Connect the agent again, with a new session. `held`: the runs in its hello."""
        self.peer.connect(Connection(b"new link"))
        self.tell(StartOver(self.peer.connection_number, held, is_complete))

    def forget(self) -> None:
        """Drop all messages until now."""
        self.balancer.take()
        self.outbox.sent_to(self.peer)
        for task in self.tasks:
            task.take()


@pytest.fixture
def scene(bench: Bench) -> Scene:
    return Scene(bench)


def test_a_new_worker_joins_the_balancer(scene: Scene) -> None:
    assert scene.balancer.take() == [WorkerJoined(scene.proxy, 100, 0, 0, scene.host, name="alpha")]


def test_an_assigned_task_is_sent_to_the_agent_and_notified(scene: Scene) -> None:
    scene.assign(0)
    assert scene.outbox.sent_to(scene.peer) == [order(0)]
    assert scene.tasks[0].take() == [TaskAssigned(scene.proxy, {scene.refs[0]: 1})]
    assert scene.actor.statistics()["tasks"] == 1


def test_an_order_has_all_fields_of_its_task(scene: Scene) -> None:
    spec = Task(task_id(0), SHORT, b"arguments", bytes(SHORT), -3, "name", b"options", 0, (b"frame",), 2)
    scene.actor._takes_rows = True
    scene.tell(AssignTasks([(TaskReady(scene.refs[0], spec, 1, goes_first=False, account=account_of(9, 4)), 7)]))
    (run,) = scene.outbox.sent_to(scene.peer)
    of_client = {"account", "owner", "graph_id", "graph_tasks", "dependencies", "inputs", "unwanted", "named_by_key"}
    names = {field.name for field in dataclasses.fields(Task)} - of_client
    assert names < {field.name for field in dataclasses.fields(RunTask)}
    assert {name: getattr(run, name) for name in names} == {name: getattr(spec, name) for name in names}
    assert all(getattr(spec, name) for name in names)
    assert (run.account, run.owner) == (4, 9), "the scheduler uses its own record of the account"


@pytest.mark.parametrize("status", [TaskStatus.SUCCESS, TaskStatus.CANCELED, TaskStatus.FAILED])
@pytest.mark.parametrize(
    ("rows", "ended", "statuses"),
    [(0, 2, b""), (2, 0, b""), (2, 3, b""), (2, 2, bytes(3)), (2, 2, b"\0\xff"), (0, 0, b"\xff")],
)
def test_a_result_that_does_not_have_the_rows_of_its_task_is_a_failure(
    scene: Scene, status: TaskStatus, rows: int, ended: int, statuses: bytes
) -> None:
    spec = Task(task_id(0), SHORT, pack([b""] * rows), b"", rows=rows)
    scene.actor._takes_rows = True
    scene.tell(AssignTasks([(TaskReady(scene.refs[0], spec, 1, goes_first=False), 7)]))
    scene.tasks[0].take()
    result = RunResult(task_id(0), INDEX, 1, status, b"", 0, (), rows=ended, statuses=statuses)
    scene.tell(Batch[RunResult]([result]))
    [told] = scene.tasks[0].take(RunResult)
    assert (told.status, told.rows, told.statuses) == (TaskStatus.INTERNAL_ERROR, rows, b"")


def test_a_result_is_sent_to_its_task_and_frees_capacity(scene: Scene) -> None:
    scene.assign(0)
    scene.forget()
    scene.finish(0, duration_us=1000)
    assert [type(mail) for mail in scene.tasks[0].take()] == [RunResult]
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {SHORT: (1000, 1)})]
    assert scene.actor.statistics()["tasks"] == 0


def test_the_worker_of_an_ended_task_is_remembered(scene: Scene) -> None:
    scene.assign(0)
    assert scene.recent_runs.worker_of(task_id(0)) == ""
    scene.finish(0)
    assert scene.recent_runs.worker_of(task_id(0)) == "alpha"


def test_repeated_unknown_and_outdated_results_are_dropped(scene: Scene) -> None:
    scene.assign(0, attempt=2)
    scene.finish(0, attempt=2)
    scene.forget()
    scene.finish(0, attempt=2)
    scene.finish(1)
    scene.assign(0, attempt=4)
    scene.finish(0, attempt=3)
    assert scene.balancer.take() == []
    assert scene.tasks[0].take() == [TaskAssigned(scene.proxy, {scene.refs[0]: 4})]


def test_a_batch_of_results_is_reported_at_once_with_the_durations_of_functions(scene: Scene) -> None:
    scene.assign(0, expected_us=10)
    scene.assign(1, expected_us=300, function_id=OTHER)
    scene.assign(2, expected_us=50)
    scene.forget()
    ends = [(0, TaskStatus.SUCCESS, 20), (1, TaskStatus.FAILED, 400), (2, TaskStatus.SUCCESS, 30)]
    scene.tell(Batch[RunResult](RunResult(task_id(n), INDEX, 1, status, b"", us, ()) for n, status, us in ends))
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 3, 360, {SHORT: (50, 2), OTHER: (400, 1)})]


@pytest.mark.parametrize("status", [TaskStatus.CANCELED, TaskStatus.PROCESSOR_DIED, TaskStatus.MISSING_OBJECTS])
def test_tasks_that_did_not_run_to_their_end_do_not_count_for_durations(scene: Scene, status: TaskStatus) -> None:
    scene.assign(0, 1)
    scene.forget()
    results = [
        RunResult(task_id(0), INDEX, 1, status, b"", 0, ()),
        RunResult(task_id(1), INDEX, 1, TaskStatus.SUCCESS, b"", 1000, ()),
    ]
    scene.tell(Batch[RunResult](results))
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 2, 14, {SHORT: (1000, 1)})]


def test_a_cancel_of_the_current_attempt_is_sent_to_the_agent(scene: Scene) -> None:
    scene.assign(0, attempt=2)
    scene.forget()
    scene.tell(CancelRun(task_id(0), 1), CancelRun(task_id(1), 1), CancelRun(task_id(0), 2))
    assert scene.outbox.sent_to(scene.peer) == [RunCancel(task_id(0), INDEX, 2)]


def test_a_second_attempt_is_refused_and_takes_capacity_until_the_first_is_stopped(scene: Scene) -> None:
    scene.assign(0)
    scene.forget()
    scene.assign(0, attempt=2, expected_us=20)
    assert scene.outbox.sent_to(scene.peer) == []
    assert scene.tasks[0].take() == [
        TaskAssigned(scene.proxy, {scene.refs[0]: 2}),
        never_sent(2),
    ]
    assert scene.balancer.take() == []
    assert scene.actor.load == (2, 27)
    scene.finish(0, status=TaskStatus.CANCELED)
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 2, 27, {})]
    assert scene.actor.load == (0, 0)


def test_an_assigned_task_that_has_ended_is_not_run(scene: Scene) -> None:
    scene.bench.dispatcher.end(scene.refs[0])
    scene.forget()
    scene.assign(0)
    assert scene.outbox.sent_to(scene.peer) == []
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {})]


def test_a_lost_worker_returns_its_tasks_and_only_the_oldest_counts_as_running(scene: Scene) -> None:
    scene.assign(0, 1, 2)
    scene.finish(0)
    scene.forget()
    scene.tell(StopWorker(was_lost=True))
    assert scene.balancer.take() == [WorkerLeft(scene.proxy)]
    assert scene.tasks[0].take() == []
    assert scene.tasks[1].take() == [RunLost(1, "alpha", was_running=True)]
    assert scene.tasks[2].take() == [RunLost(1, "alpha", was_running=False)]


def test_at_a_lost_worker_the_oldest_and_the_deepest_task_count_as_running(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.assign(2, priority=1)
    scene.forget()
    scene.tell(StopWorker(was_lost=True))
    was_running = [task.take() for task in scene.tasks]
    assert was_running == [[RunLost(1, "alpha", flag)] for flag in (True, False, True)]


def test_at_a_lost_worker_the_oldest_unblocked_task_counts_as_running(scene: Scene) -> None:
    scene.assign(0, 1, 2)
    scene.suspend(0)
    scene.forget()
    scene.tell(StopWorker(was_lost=True))
    was_running = [task.take() for task in scene.tasks]
    assert was_running == [[RunLost(1, "alpha", flag)] for flag in (True, True, False)]


def test_a_worker_that_leaves_in_order_returns_its_tasks_as_not_running(scene: Scene) -> None:
    scene.assign(0)
    scene.forget()
    scene.tell(StopWorker(was_lost=False))
    assert scene.tasks[0].take() == [RunLost(1, "alpha", was_running=False)]


def test_an_assignment_to_a_leaving_worker_is_returned(scene: Scene) -> None:
    scene.tell(StopWorker(was_lost=True))
    scene.forget()
    scene.assign(0)
    assert scene.tasks[0].take() == [
        TaskAssigned(scene.proxy, {scene.refs[0]: 1}),
        never_sent(1),
    ]
    assert scene.outbox.sent_to(scene.peer) == []
    scene.tell(WorkerForgotten())
    assert scene.proxy.is_stopped()


def test_a_restarted_balancer_is_sent_the_load_of_a_worker(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.forget()
    scene.tell(BalancerRestarted(9))
    assert scene.balancer.take() == [WorkerJoined(scene.proxy, 100, 2, 14, scene.host, name="alpha")]
    scene.tell(StopWorker(was_lost=True))
    scene.forget()
    scene.tell(BalancerRestarted(9))
    assert scene.balancer.take() == []


def test_runs_that_an_agent_never_received_are_returned_and_unknown_runs_cancelled_in_a_new_session(
    scene: Scene,
) -> None:
    scene.assign(0, 1, 2, attempt=2)
    scene.forget()
    held = (
        held_run(task_id(0), 2),  # still there
        held_run(task_id(1), 1),  # an old attempt of it
        held_run(task_id(9), 5),  # unknown
    )
    scene.start_over(*held)
    assert [scene.tasks[number].take() for number in range(3)] == [[], [RunRecalled(2)], [RunRecalled(2)]]
    assert scene.outbox.sent_to(scene.peer) == [RunCancel(task_id(1), INDEX, 1), RunCancel(task_id(9), INDEX, 5)]
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {})] * 2
    scene.tell(CancelRun(task_id(0), 2), CancelRun(task_id(1), 2))
    assert scene.outbox.sent_to(scene.peer) == [RunCancel(task_id(0), INDEX, 2)]


def test_a_run_that_a_full_hello_does_not_name_may_have_started(scene: Scene) -> None:
    scene.assign(0)
    scene.forget()
    scene.start_over(is_complete=False)
    assert scene.tasks[0].take() == [RunLost(1, "alpha", was_running=False, was_ordered=True)]


def test_a_lost_cancel_is_resent_unless_the_run_was_never_received(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.tell(CancelRun(task_id(0), 1), CancelRun(task_id(1), 1))
    scene.forget()
    scene.start_over(held_run(task_id(0), 1))
    assert scene.outbox.sent_to(scene.peer) == [RunCancel(task_id(0), INDEX, 1)]
    assert scene.tasks[1].take() == [RunRecalled(1)]


def test_an_order_that_was_sent_on_the_new_connection_stays(scene: Scene) -> None:
    scene.assign(0)
    scene.forget()
    scene.peer.connect(Connection(b"new link"))
    scene.assign(1)
    assert scene.outbox.sent_to(scene.peer) == [order(1)]
    scene.tell(StartOver(scene.peer.connection_number))
    assert [RunRecalled(1) in scene.tasks[number].take() for number in (0, 1)] == [True, False]


def test_reports_about_former_connections_are_ignored(scene: Scene) -> None:
    scene.assign(0)
    scene.forget()
    scene.peer.connect(Connection(b"new link"))
    scene.peer.connect(Connection(b"newest link"))
    scene.tell(StartOver(2), ConnectionLost(1, "lost"), ConnectionLost(2, "lost"))
    assert scene.outbox.sent_to(scene.peer) == scene.balancer.take() == scene.tasks[0].take() == []


def test_tasks_of_unsent_orders_are_returned_also_if_the_agent_has_reconnected(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.forget()
    scene.peer.connect(Connection(b"new link"))
    scene.tell(ConnectionLost(1, "lost", [order(0), order(1, attempt=9), order(2)]))
    assert scene.tasks[0].take() == [RunLost(1, "alpha", was_running=False, was_ordered=False)]
    assert scene.tasks[1].take() == scene.tasks[2].take() == []
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {})]


def test_in_a_resumed_session_no_order_is_resent(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.peer.connection = NO_CONNECTION
    scene.tell(CancelRun(task_id(1), 1), ConnectionLost(1, "lost"), WorkerForgotten())
    scene.forget()
    scene.peer.connect(Connection(b"new link"))
    scene.tell(Resumed(scene.peer.connection_number))
    assert scene.outbox.sent_to(scene.peer) == []
    assert scene.balancer.take() == [WorkerJoined(scene.proxy, 100, 2, 14, scene.host, name="alpha")]


def test_orders_that_may_not_have_arrived_are_not_suspect(scene: Scene) -> None:
    scene.assign(0, 1, 2)
    scene.forget()
    scene.tell(StopWorker(was_lost=True, unacknowledged=[order(0), order(2)]))
    lost = [task.take() for task in scene.tasks]
    assert lost == [[RunLost(1, "alpha", heard, was_unacknowledged=not heard)] for heard in (False, True, False)]


def test_if_a_large_value_was_in_transit_only_the_task_that_needs_it_is_suspect(scene: Scene) -> None:
    scene.assign(0, 2)
    scene.assign(1, object_ids=SHORT + OTHER)
    scene.forget()
    scene.tell(StopWorker(was_lost=True, values=frozenset([OTHER])))
    lost = [task.take() for task in scene.tasks]
    assert lost == [[RunLost(1, "alpha", False, was_unacknowledged=needs)] for needs in (False, True, False)]


def test_at_a_lost_worker_the_first_task_that_does_not_wait_for_an_object_is_suspect(scene: Scene) -> None:
    scene.assign(0, object_ids=SHORT + OTHER)
    scene.assign(1, 2)
    scene.forget()
    scene.tell(StopWorker(was_lost=True, awaited=frozenset([OTHER])))
    lost = [task.take() for task in scene.tasks]
    assert lost == [[RunLost(1, "alpha", was_running)] for was_running in (False, True, False)]


def test_an_assignment_to_a_disconnected_worker_is_returned(scene: Scene) -> None:
    scene.forget()
    scene.peer.connection = NO_CONNECTION
    scene.assign(0)
    assert scene.outbox.sent_to(scene.peer) == []
    assert scene.tasks[0].take() == [
        TaskAssigned(scene.proxy, {scene.refs[0]: 1}),
        never_sent(1),
    ]
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {}), WorkerLeft(scene.proxy)]


# Balance


def asked(scene: Scene) -> list[int]:
    return [item.task_id[0] for item in scene.outbox.sent_to(scene.peer) if type(item) is RecallRequest]


def test_tasks_that_the_worker_would_start_last_are_recalled_first(scene: Scene) -> None:
    scene.assign(0, 1, 2)
    scene.forget()
    scene.tell(RecallTasks(1))
    assert scene.outbox.sent_to(scene.peer) == [RecallRequest(task_id(2), INDEX, 1)]
    scene.tell(RecallTasks(9))
    assert asked(scene) == [1, 2]


def test_if_no_recalled_task_returns_the_first_task_is_recalled_as_well(scene: Scene) -> None:
    """The first task had to wait for its objects, and another task that started meanwhile takes long."""
    scene.assign(0, 1, 2)
    scene.forget()
    for expected in ([1, 2], [0, 1, 2], [0, 1, 2]):
        scene.tell(RecallTasks(2))
        assert asked(scene) == expected
    scene.tell(Batch[RecallResponse]([RecallResponse(task_id(0), INDEX, 1)]))
    assert scene.tasks[0].take() == [RunRecalled(1)]
    scene.forget()
    scene.tell(RecallTasks(1))
    assert asked(scene) == [2]


def test_deeper_tasks_are_recalled_last_and_cancelled_tasks_never(scene: Scene) -> None:
    scene.assign(0)
    scene.assign(1)
    scene.assign(2, priority=1)
    scene.forget()
    scene.tell(RecallTasks(1))
    assert asked(scene) == [1]
    scene.tell(CancelRun(task_id(1), 1))
    scene.forget()
    scene.tell(RecallTasks(2))
    assert asked(scene) == [2]


def test_a_single_task_that_has_not_started_can_be_recalled(scene: Scene) -> None:
    scene.assign(0, 1, 2)
    scene.forget()
    scene.tell(RecallRun(task_id(1), 9), RecallRun(task_id(4), 1))
    assert asked(scene) == []
    scene.tell(RecallRun(task_id(1), 1))
    assert asked(scene) == [1]
    scene.tell(Batch[RecallResponse]([RecallResponse(task_id(1), INDEX, 1)]))
    assert scene.tasks[1].take() == [RunRecalled(1)]
    assert scene.actor.load == (2, 14)
    scene.tell(Batch[RunBlocked]([RunBlocked(task_id(0), INDEX, 1)]))
    scene.forget()
    scene.tell(RecallRun(task_id(0), 1))
    assert asked(scene) == [], "it is blocked, so it has started"


def test_a_recalled_task_counts_for_its_worker_until_it_is_returned(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.tell(RecallTasks(1))
    scene.forget()
    assert scene.actor.load == (2, 14)
    scene.tell(Batch[RecallResponse]([RecallResponse(task_id(1), INDEX, 1)]))
    assert scene.actor.load == (1, 7)
    assert scene.tasks[1].take() == [RunRecalled(1)]
    assert scene.balancer.take() == [TasksRecalled(scene.proxy, 1, 7, {SHORT})]
    scene.start_over(held_run(task_id(0), 1))
    assert scene.outbox.sent_to(scene.peer) == []


def test_a_task_whose_return_was_lost_is_returned_by_the_hello(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.tell(RecallTasks(1))
    scene.forget()
    scene.start_over(held_run(task_id(0), 1))
    assert scene.outbox.sent_to(scene.peer) == []
    assert scene.tasks[1].take() == [RunRecalled(1)]


def test_responses_to_a_recall_of_unknown_tasks_or_attempts_are_ignored(scene: Scene) -> None:
    scene.assign(0, attempt=2)
    scene.forget()
    scene.tell(Batch[RecallResponse]([RecallResponse(task_id(0), INDEX, 1), RecallResponse(task_id(2), INDEX, 1)]))
    assert scene.balancer.take() == []
    assert scene.actor.statistics()["tasks"] == 1


def test_the_only_task_of_a_worker_is_not_recalled(scene: Scene) -> None:
    scene.assign(0)
    scene.forget()
    scene.tell(RecallTasks(3))
    assert scene.outbox.sent_to(scene.peer) == []


def test_a_failed_worker_proxy_returns_its_tasks_and_reports_to_the_balancer() -> None:
    scene = Scene(Bench())
    scene.assign(0, 1)
    scene.forget()
    scene.tell("nobody handles this")
    assert scene.balancer.take() == [WorkerFailed(scene.proxy)]
    assert scene.tasks[0].take() == [RunLost(1, "alpha", was_running=True)]
    assert scene.tasks[1].take() == [RunLost(1, "alpha", was_running=False)]


# Blocked tasks


def test_a_blocked_task_gives_up_its_slot_until_it_resumes(scene: Scene) -> None:
    scene.assign(0)
    scene.forget()
    scene.suspend(0)
    scene.suspend(0)
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {})]
    assert scene.actor.load == (0, 0)
    scene.resume(0)
    scene.resume(0)
    assert scene.balancer.take() == [LoadResumed(scene.proxy, 1, 7)]
    assert scene.actor.load == (1, 7)
    scene.finish(0, duration_us=5)
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {SHORT: (5, 1)})]


def test_a_task_that_ends_while_blocked_frees_no_slot(scene: Scene) -> None:
    scene.assign(0)
    scene.suspend(0)
    scene.forget()
    scene.finish(0)
    assert scene.balancer.take() == []
    assert [type(mail) for mail in scene.tasks[0].take()] == [RunResult]


def test_a_task_that_is_returned_while_blocked_frees_no_slot(scene: Scene) -> None:
    """An agent that keeps to the protocol does not return a blocked task."""
    scene.assign(0)
    scene.assign(1)
    scene.suspend(0)
    scene.forget()
    scene.bench.tell(scene.proxy, Batch[RecallResponse]([RecallResponse(task_id(0), INDEX, 1)]))
    assert scene.balancer.take() == []
    assert [type(mail) for mail in scene.tasks[0].take()] == [RunRecalled]
    assert scene.actor.load == (1, 7)


def test_reports_of_blocked_runs_of_other_attempts_are_ignored(scene: Scene) -> None:
    scene.assign(0, attempt=2)
    scene.forget()
    scene.suspend(0, attempt=1)
    scene.suspend(1)
    scene.resume(0, attempt=1)
    assert scene.balancer.take() == []


def test_blocked_tasks_take_their_slots_when_the_agent_reconnects_until_reported_again(scene: Scene) -> None:
    scene.assign(0)
    scene.suspend(0)
    scene.forget()
    scene.start_over(held_run(task_id(0), 1))
    assert scene.balancer.take() == [LoadResumed(scene.proxy, 1, 7)]
    scene.suspend(0)
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {})]


def test_a_restarted_balancer_is_sent_the_load_without_blocked_tasks(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.suspend(0)
    scene.forget()
    scene.tell(BalancerRestarted(9))
    assert scene.balancer.take() == [WorkerJoined(scene.proxy, 100, 1, 7, scene.host, name="alpha")]


def test_an_order_that_smaller_orders_have_overtaken_does_not_count_as_running(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.tell(Batch[RunTask]([order(0)]))
    scene.assign(2)
    scene.forget()
    scene.tell(StopWorker(True))
    lost = [mail for task in scene.tasks for mail in task.take() if type(mail) is RunLost]
    assert [mail.was_running for mail in lost] == [False, True, False]


def test_at_a_lost_worker_all_blocked_tasks_are_suspect(scene: Scene) -> None:
    scene.assign(0, 1, 2)
    scene.suspend(1)
    scene.forget()
    scene.tell(StopWorker(True))
    lost = [mail for task in scene.tasks for mail in task.take() if type(mail) is RunLost]
    assert [mail.was_running for mail in lost] == [True, True, False]


def test_a_draining_worker_gets_no_new_tasks_and_does_not_join_again(scene: Scene) -> None:
    scene.assign(0, 1)
    scene.forget()
    scene.tell(DrainWorker())
    assert scene.balancer.take() == [WorkerLeft(scene.proxy)]
    scene.tell(WorkerForgotten())
    scene.assign(2)
    assert scene.outbox.sent_to(scene.peer) == []
    assert never_sent(1) in scene.tasks[2].take()
    scene.tell(Batch[RecallResponse]([RecallResponse(task_id(1), INDEX, 1)]))
    assert scene.tasks[1].take() == [RunRecalled(1)]
    scene.finish(0)
    assert len(scene.tasks[0].take()) == 1
    scene.start_over()
    assert not [each for each in scene.balancer.take() if type(each) is WorkerJoined]


def test_output_of_runs_is_passed_on_with_their_tasks_and_other_output_is_ignored(scene: Scene) -> None:
    scene.assign(0, 1)
    lines = [
        RunOutput(task_id(number), INDEX, attempt, OutputStream.LOGGING, 7, 0, "text")
        for number, attempt in ((0, 1), (1, 2), (2, 1))
    ]
    scene.tell(Batch[RunOutput](lines))
    (said,) = scene.outputs.take()
    assert (said.worker, [(line, spec.task_id) for line, spec, _ in said.lines]) == ("alpha", [(lines[0], task_id(0))])
    scene.tell(Batch[RunOutput](lines[1:]))
    assert scene.outputs.take() == []


# Resources that runs take from the node


GPU = Needs((("gpu", 1),))


def assign_with_needs(scene: Scene, number: int, attempt: int = 1) -> None:
    ready = TaskReady(scene.refs[number], Task(task_id(number), SHORT, b"arguments", b""), attempt, goes_first=False)
    scene.tell(AssignTasks([(replace(ready, needs=GPU), 7)]))


def test_resources_of_a_run_are_freed_once_with_its_result(scene: Scene) -> None:
    assign_with_needs(scene, 0)
    scene.assign(1)
    scene.forget()
    scene.finish(1)
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {SHORT: (0, 1)})]
    scene.finish(0)
    freed = LoadFreed(scene.proxy, 1, 7, {SHORT: (0, 1)})
    assert scene.balancer.take() == [freed, AmountsChanged(scene.proxy, ((GPU, -1),))]
    scene.finish(0)
    assert scene.balancer.take() == []


def test_resources_of_a_run_are_lent_while_blocked_and_freed_when_recalled(scene: Scene) -> None:
    assign_with_needs(scene, 0)
    assign_with_needs(scene, 1)
    scene.forget()
    scene.suspend(0)
    assert AmountsChanged(scene.proxy, ((GPU, -1),)) in scene.balancer.take()
    scene.resume(0)
    assert AmountsChanged(scene.proxy, ((GPU, 1),)) in scene.balancer.take()
    scene.tell(Batch[RecallResponse]([RecallResponse(task_id(1), INDEX, 1)]))
    assert AmountsChanged(scene.proxy, ((GPU, -1),)) in scene.balancer.take()


def test_resources_of_an_assignment_to_a_drained_worker_are_freed_at_once(scene: Scene) -> None:
    scene.tell(DrainWorker())
    scene.forget()
    assign_with_needs(scene, 0)
    assert scene.balancer.take() == [LoadFreed(scene.proxy, 1, 7, {}), AmountsChanged(scene.proxy, ((GPU, -1),))]


def test_unsent_orders_free_their_resources_and_other_runs_report_theirs_again(scene: Scene) -> None:
    assign_with_needs(scene, 0)
    assign_with_needs(scene, 1)
    scene.forget()
    scene.peer.connection = NO_CONNECTION
    scene.tell(ConnectionLost(1, "cut", [order(0, 1)]))
    assert AmountsChanged(scene.proxy, ((GPU, -1),)) in scene.balancer.take()
    scene.tell(WorkerForgotten())
    scene.start_over(held_run(task_id(1), 1))
    (joined,) = (mail for mail in scene.balancer.take() if type(mail) is WorkerJoined)
    assert joined.taken == ((GPU, 1),)


def test_resources_of_orphaned_runs_are_unsure_until_their_tasks_have_claimed_them(bench: Bench) -> None:
    scene = Scene(bench, held=[held_run(task_id(0), 4), held_run(task_id(1), 4)])
    (joined,) = scene.balancer.take()
    assert joined.is_unsure
    spec = Task(task_id(0), SHORT, b"arguments", b"")
    scene.tell(AdoptRun(scene.refs[0], spec, 4, 0, GPU))
    assert scene.balancer.take() == [AmountsChanged(scene.proxy, ((GPU, 1),), is_unsure=True)]
    scene.finish(1, attempt=4)
    assert AmountsChanged(scene.proxy, (), is_unsure=False) in scene.balancer.take()
    scene.finish(0, attempt=4)
    assert AmountsChanged(scene.proxy, ((GPU, -1),), is_unsure=False) in scene.balancer.take()
    scene.tell(BalancerRestarted(9))
    (joined,) = scene.balancer.take()
    assert (joined.taken, joined.is_unsure) == ((), False)


def test_the_cancel_of_an_orphaned_run_is_resent_in_a_new_session(bench: Bench) -> None:
    scene = Scene(bench, held=[held_run(task_id(0), 4), held_run(task_id(1), 4)])
    scene.tell(CancelOrphan(task_id(0), 4))
    scene.forget()
    scene.start_over(held_run(task_id(0), 4), held_run(task_id(1), 4))
    assert scene.outbox.sent_to(scene.peer) == [RunCancel(task_id(0), INDEX, 4)]


def test_a_run_that_a_task_has_adopted_is_no_orphan(bench: Bench) -> None:
    scene = Scene(bench, held=[held_run(task_id(0), 4), held_run(task_id(1), 4)])
    scene.tell(AdoptRun(scene.refs[0], Task(task_id(0), SHORT, b"arguments", b""), 4, 0, None))
    scene.forget()
    scene.tell(CancelOrphan(task_id(0), 4), CancelOrphan(task_id(1), 4))
    assert scene.outbox.sent_to(scene.peer) == [RunCancel(task_id(1), INDEX, 4)]


# Clients that request explanations of a run


def slow(_run: RunTask) -> Outcome:
    return Outcome(seconds=300.0)


class Asking:
    """A client, and an agent that has its task and answers nothing by itself."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.client: SimulatedClient = simulation.client()
        self.agent: SimulatedAgent = simulation.agent(1, slow)
        (self.task_id,) = self.client.submit(1)
        simulation.run()
        self.agent.hang()
        (self.run,) = self.agent.started

    def ask(self, times: int = 1, wanted: int = 0) -> None:
        self.client.say(*[ExplainRequest(self.task_id, wanted=wanted)] * times)
        self.simulation.run()

    def answers(self) -> list[str]:
        return [answer.sentence for answer in self.client.said(ExplainResponse)]

    def say(self, state: RunState, run_ms: int = 0, attempt: int | None = None, task: TaskId | None = None) -> None:
        number = self.run.attempt if attempt is None else attempt
        self.agent.say_alone(RunStatus(task or self.task_id, 0, number, state, run_ms, 17))
        self.simulation.run()


@pytest.fixture
def asking(simulation: Simulation) -> Asking:
    return Asking(simulation)


def test_each_request_to_explain_a_run_is_answered_once(asking: Asking) -> None:
    asking.ask(times=2)
    assert asking.answers() == []
    asking.say(RunState.RUNS, 61_000, task=TaskId(b"other---" * 2))
    asking.say(RunState.RUNS, 61_000)
    asking.say(RunState.RUNS, 62_000)
    asking.simulation.advance(2 * ANSWER_SECONDS)
    assert [sentence.partition("process ")[2] for sentence in asking.answers()] == ["17, and has run for 61 s"] * 2


def test_a_run_is_explained_without_its_agent_if_that_does_not_answer(asking: Asking) -> None:
    asking.ask()
    asking.simulation.advance(2 * ANSWER_SECONDS)
    (sentence,) = asking.answers()
    assert "has it and nothing else" in sentence
    asking.say(RunState.RUNS, 61_000)
    assert len(asking.answers()) == 1


def test_an_answer_of_the_agent_about_another_attempt_is_ignored(asking: Asking) -> None:
    asking.ask()
    asking.say(RunState.RUNS, 61_000, attempt=asking.run.attempt + 1)
    (sentence,) = asking.answers()
    assert "61 s" not in sentence


def test_a_blocked_run_is_explained_as_blocked_whatever_the_agent_reports(asking: Asking) -> None:
    asking.agent.wake()
    asking.agent.suspend(asking.task_id)
    asking.simulation.run()
    asking.ask()
    assert [answer.waits_for for answer in asking.client.said(ExplainResponse)] == [CHILDREN]


def test_an_awaited_run_that_a_paused_worker_does_not_start_is_recalled(asking: Asking) -> None:
    for wanted, state in ((0, RunState.NO_ROOM), (1, RunState.QUEUED)):
        asking.ask(wanted=wanted)
        asking.say(state)
    asking.agent.wake()
    assert asking.agent.said(RecallRequest) == []
    asking.agent.hang()
    asking.ask(wanted=1)
    asking.say(RunState.NO_ROOM)
    asking.agent.wake()
    assert asking.agent.said(RecallRequest) == [RecallRequest(asking.task_id, 0, asking.run.attempt)]


def test_the_number_of_pending_requests_to_explain_runs_is_limited(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_proxy, "QUESTIONS_MOST", 3)
    asking.ask(times=5)
    assert len(asking.answers()) == 2
    asking.simulation.advance(2 * ANSWER_SECONDS)
    assert len(asking.answers()) == 5


@pytest.fixture
def held(scene: Scene) -> Recorder:
    """Return the recorder that a proxy requests the start of its first task from; the proxy holds the order."""
    session, session_ref = scene.bench.recorder()
    context = SimpleNamespace(session=session_ref)
    ready = TaskReady(scene.refs[0], Task(task_id(0), SHORT, b"arguments", b""), 1, goes_first=False, context=context)
    scene.tell(AssignTasks([(ready, 7)]))
    return session


def test_an_at_most_once_order_is_held_until_its_start_is_recorded(scene: Scene, held: Recorder) -> None:
    assert held.take() == [StartRequested(scene.proxy, task_id(0), 1)]
    assert scene.tasks[0].take() == [TaskAssigned(scene.proxy, {scene.refs[0]: 1})]
    scene.assign(1)
    scene.tell(RecallTasks(1), StartRun(task_id(0), 2))
    assert scene.outbox.sent_to(scene.peer) == [order(1)]
    scene.tell(StartRun(task_id(0), 1), StartRun(task_id(0), 1))
    assert scene.outbox.sent_to(scene.peer) == [order(0)]


@pytest.mark.parametrize("news", [CancelRun(task_id(0), 1), RecallRun(task_id(0), 1), CloseWorker()])
def test_a_held_run_that_is_not_wanted_is_returned_at_once(scene: Scene, held: Recorder, news: Any) -> None:
    scene.balancer.take()
    scene.tell(news, StartRun(task_id(0), 1))
    assert scene.tasks[0].take()[1:] == [RunRecalled(1)]
    assert scene.balancer.take(LoadFreed) == [LoadFreed(scene.proxy, 1, 7, {})]
    assert scene.outbox.sent_to(scene.peer) == []
    assert held.take() == [StartRequested(scene.proxy, task_id(0), 1)]


def test_a_held_run_released_while_its_agent_is_disconnected_is_returned(scene: Scene, held: Recorder) -> None:
    assert held.take()
    scene.peer.connection = NO_CONNECTION
    scene.tell(ConnectionLost(scene.peer.connection_number, []))
    assert scene.tasks[0].take()[1:] == []
    scene.tell(StartRun(task_id(0), 1))
    assert scene.tasks[0].take() == [RunRecalled(1)]
    assert scene.outbox.sent_to(scene.peer) == []


def test_a_held_run_is_not_sent_to_an_agent_in_a_new_session(scene: Scene, held: Recorder) -> None:
    assert held.take()
    scene.peer.connection_number += 1
    scene.tell(StartOver(scene.peer.connection_number))
    assert scene.outbox.sent_to(scene.peer) == []
    scene.tell(StartRun(task_id(0), 1))
    assert scene.outbox.sent_to(scene.peer) == [order(0)]


def test_a_held_run_of_a_lost_agent_has_not_started(scene: Scene, held: Recorder) -> None:
    assert held.take()
    scene.tell(StopWorker(was_lost=True))
    assert scene.tasks[0].take()[1:] == [never_sent(1)]


@pytest.mark.parametrize("rows", [0, 3])
def test_the_task_of_a_run_reports_its_state_when_a_viewer_sees_the_run(bench: Bench, rows: int) -> None:
    scene = Scene(bench)
    scene.actor._takes_rows = True
    first = TaskId(bytes(16))
    spec = Task(first, SHORT, pack([b""] * rows), b"", rows=rows)
    ready = TaskReady(scene.refs[0], spec, 1, goes_first=False)
    scene.tell(AssignTasks([(ready, 0)]))
    scene.tasks[0].messages.clear()
    asked = row_ids(first, rows)[-1]
    scene.tell(ReportTaskOf(asked), ReportTaskOf(TaskId(b"unknown".ljust(16))))
    assert scene.tasks[0].take() == [ReportTask(asked)]
