"""Link: tasks, results and objects before and after a lost connection, and a drain, on a virtual clock."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from scaler.agent.messages import (
    FetchForWorker,
    HandOverValues,
    KeepObject,
    Leave,
    LinkHeard,
    LinkLost,
    ObjectsHere,
    ObjectsSupplied,
    PausedChanged,
    ReportKeptObjects,
    ReportLinkStatistics,
)
from scaler.agent.values import NodeValues
from scaler.executors.messages import CapacityChanged, ExecutorProcessGone, RestartProcesses, RunsNotHere
from scaler.ids import ObjectId, TaskId, public_id
from scaler.peer.conversation_state import TRIES_MOST
from scaler.peer.times import PAUSE_MOST_SECONDS
from scaler.process.report import Report
from scaler.shared_memory import SharedBlock
from scaler.store.host_share import HostShare
from scaler.store.store import ValueStore
from scaler.wire.codec.codec import encode_message
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    HelloReply,
    InstructionKind,
    ObjectInstruction,
    ObjectKept,
    ObjectRequest,
    ObjectResponse,
    OutputStream,
    TaskStatus,
)
from scaler.wire.messages.directions import AGENT_TO_SCHEDULER
from scaler.wire.messages.monitor import BIN_ROW, FUNCTION_ROW, WORKER_ROW
from scaler.wire.messages.rows import pack
from scaler.wire.messages.worker import (
    AgentState,
    DisconnectRequest,
    DrainRequest,
    LeaveRequest,
    ProcessorGone,
    ProcessorNews,
    RecallRequest,
    RecallResponse,
    RestartRequest,
    RunBlocked,
    RunCancel,
    RunOutput,
    RunResult,
    RunTask,
    RunUnblocked,
    WatchedPart,
    WatchRequest,
    WorkerHeartbeatEcho,
    WorkerHello,
    WorkersClosed,
    WorkersPaused,
)
from tests.support.link_bench import FUNCTION, NEST_ID, NEXT_SCHEDULER, SCHEDULER, Bench, held


def test_tasks_go_to_the_slots_of_their_workers(bench: Bench) -> None:
    bench.up()
    tasks = [bench.task(0), bench.task(1), bench.task(0)]
    bench.tell(Batch[RunTask](tasks))
    assert bench.workers[0].messages == [[tasks[0], tasks[2]]]
    assert bench.workers[1].messages == [[tasks[1]]]


def test_tasks_before_the_welcome_are_ignored(bench: Bench) -> None:
    bench.tell(Batch[RunTask]([bench.task()]))
    assert bench.workers[0].messages == []


def test_a_duplicate_task_is_ignored_and_a_newer_attempt_is_run(bench: Bench) -> None:
    bench.up()
    task = bench.task(attempt=2)
    newer = RunTask(task.task_id, 0, 3, FUNCTION, b"", b"")
    older = RunTask(task.task_id, 0, 1, FUNCTION, b"", b"")
    bench.tell(Batch[RunTask]([task, task, older, newer]))
    assert bench.workers[0].messages == [[task, newer]]
    bench.finish(task)
    assert bench.reconnect().held == held(newer, task)


def test_a_task_for_an_unknown_worker_is_answered_with_not_found(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[RunTask]([bench.task(worker=7)]))
    [result] = bench.door.take()
    assert (result.status, result.worker) == (TaskStatus.NOT_FOUND, 7)


@pytest.mark.parametrize("payload", [b"", pack([b"a"]), pack([b"a", b"b", b"c"])])
def test_a_range_whose_rows_cannot_be_read_is_refused_as_one_task(bench: Bench, payload: bytes) -> None:
    bench.up()
    first, second = (replace(bench.task(), rows=2, payload=each) for each in (payload, pack([b"a", b"b"])))
    bench.tell(Batch[RunTask]([first, second]))
    [refused] = bench.door.take()
    assert (refused.task_id, refused.status, refused.rows) == (first.task_id, TaskStatus.NOT_FOUND, 0)
    assert bench.workers[0].messages == [[second]]


def test_results_are_resent_before_other_messages_until_they_are_acknowledged(bench: Bench) -> None:
    bench.up()
    tasks = [bench.task() for _ in range(3)]
    bench.tell(Batch[RunTask](tasks))
    results = bench.finish(*tasks[:2])
    assert bench.door.take() == results
    bench.tell(LinkHeard(results[:1]))
    bench.tell(FetchForWorker(FUNCTION))
    assert bench.reconnect().held == held(tasks[2], tasks[1])
    assert bench.door.take() == [results[1], ObjectRequest(FUNCTION)]
    bench.tell(LinkHeard(results))
    assert bench.reconnect().held == held(tasks[2])


def test_a_resumed_session_sends_only_results_that_were_not_sent_before(bench: Bench) -> None:
    bench.up()
    bench.finish(bench.task())
    bench.door.take()
    bench.tell(LinkLost("cut"))
    while_away = bench.finish(bench.task())
    bench.wait(PAUSE_MOST_SECONDS)
    [hello] = bench.door.take()
    assert (hello.resumes, hello.held) != (0, b"")
    bench.welcome(resumed=1)
    assert bench.door.take() == while_away


def test_a_task_received_before_a_cut_is_run_after_it(bench: Bench) -> None:
    """The scheduler may count the task as received."""
    bench.up()
    task = bench.task()
    bench.tell(LinkLost("cut"), Batch[RunTask]([task]))
    assert bench.workers[0].messages == [[task]]


def test_results_of_a_disconnected_agent_are_kept_and_sent_later(bench: Bench) -> None:
    bench.up()
    bench.tell(LinkLost("cut"))
    results = bench.finish(bench.task())
    bench.wait(PAUSE_MOST_SECONDS)
    bench.door.take()
    bench.welcome()
    assert bench.door.take() == results


def test_the_next_scheduler_gets_all_runs_and_results_and_no_run_is_stopped(bench: Bench) -> None:
    bench.up()
    runs, waits, ended = bench.task(worker=0), bench.task(worker=1), bench.task(worker=1)
    bench.tell(Batch[RunTask]([runs, waits, ended]), Batch[RunBlocked]([RunBlocked(waits.task_id, 1, waits.attempt)]))
    bench.tell(LinkLost("the scheduler is gone"))
    results = bench.finish(ended)
    for worker in bench.workers:
        worker.messages.clear()
    bench.wait(PAUSE_MOST_SECONDS)
    (hello,) = bench.door.take()
    assert all(held(run) in hello.held for run in (runs, waits, ended))
    assert hello.resumes == 1
    bench.welcome(NEXT_SCHEDULER)
    assert bench.door.take() == [*results, RunBlocked(waits.task_id, 1, waits.attempt)]
    assert [worker.messages for worker in bench.workers] == [[], []]
    later = bench.finish(runs)
    assert bench.door.take() == later


def test_a_hello_has_the_number_of_agents_of_the_last_scheduler(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[WorkerHeartbeatEcho]([WorkerHeartbeatEcho(1, 7)]))
    assert bench.reconnect(NEXT_SCHEDULER).agents == 7


@pytest.mark.parametrize("worker", [0, 1], ids=["the same worker", "another worker"])
def test_the_next_scheduler_may_assign_a_held_task_to_any_worker(bench: Bench, worker: int) -> None:
    bench.up()
    task = bench.task(worker=0, attempt=70)
    bench.tell(Batch[RunTask]([task]))
    bench.reconnect(NEXT_SCHEDULER)
    bench.tell(Batch[RunCancel]([RunCancel(task.task_id, 0, 70)]))
    assert bench.workers[0].take(Batch[RunCancel]) == [Batch[RunCancel]([RunCancel(task.task_id, 0, 70)])]
    again = RunTask(task.task_id, worker, 20, FUNCTION, b"", b"")
    bench.workers[0].messages.clear()
    bench.tell(Batch[RunTask]([again]))
    assert bench.workers[worker].take(Batch[RunTask]) == [Batch[RunTask]([again])]
    bench.door.take()
    bench.tell(Batch[RunResult]([RunResult(task.task_id, 0, 70, TaskStatus.CANCELED, b"", 0, ())]))
    assert {item.attempt for item in bench.door.take()} <= {70}
    assert held(again) in bench.reconnect(NEXT_SCHEDULER).held
    bench.door.take()
    results = bench.finish(again)
    assert bench.door.take() == results


def test_late_messages_about_an_attempt_of_the_last_scheduler_do_not_affect_the_new_attempt(
    bench: Bench,
) -> None:
    bench.up()
    task = bench.task(attempt=20)
    again = RunTask(task.task_id, 0, 70, FUNCTION, b"", b"")
    bench.tell(Batch[RunTask]([task]))
    bench.reconnect(NEXT_SCHEDULER)
    bench.tell(Batch[RunTask]([again]), Batch[RunBlocked]([RunBlocked(task.task_id, 0, 70)]))
    bench.door.take()
    bench.tell(
        Batch[RunBlocked]([RunBlocked(task.task_id, 0, 20)]),
        Batch[RunUnblocked]([RunUnblocked(task.task_id, 0, 20)]),
        Batch[RecallResponse]([RecallResponse(task.task_id, 0, 20)]),
        Batch[RunResult]([RunResult(task.task_id, 0, 20, TaskStatus.SUCCESS, b"", 0, ())]),
    )
    assert {item.attempt for item in bench.door.take()} <= {20}
    bench.reconnect(NEXT_SCHEDULER)
    sent = bench.door.take()
    assert [item for item in sent if type(item) is RunBlocked] == [RunBlocked(task.task_id, 0, 70)]
    results = bench.finish(again)
    assert bench.door.take() == results


def test_a_repeated_assignment_of_an_adopted_run_starts_no_second_run(bench: Bench) -> None:
    bench.up()
    task = bench.task(attempt=70)
    bench.tell(Batch[RunTask]([task]))
    bench.reconnect(NEXT_SCHEDULER)
    bench.workers[0].messages.clear()
    bench.tell(Batch[RunTask]([task]))
    assert bench.workers[0].take(Batch[RunTask]) == []


def test_each_scheduler_gets_a_report_of_the_objects_kept_by_the_node(bench: Bench) -> None:
    bench.up()
    bench.objects.messages.clear()
    bench.reconnect()
    assert bench.objects.take(ReportKeptObjects) == [ReportKeptObjects()]
    bench.door.take()
    bench.tell(ObjectsHere([FUNCTION]))
    assert bench.door.take() == [ObjectKept(FUNCTION)]
    bench.reconnect(NEXT_SCHEDULER)
    assert bench.objects.take(ReportKeptObjects) == [ReportKeptObjects()]


def test_kept_objects_are_not_reported_while_the_link_is_down(bench: Bench) -> None:
    bench.up()
    bench.tell(LinkLost("cut"), ObjectsHere([FUNCTION]))
    assert bench.door.take() == []


def test_cancels_go_to_the_slot_that_has_the_task(bench: Bench) -> None:
    bench.up()
    task = bench.task(worker=1)
    bench.tell(Batch[RunTask]([task]))
    bench.workers[1].messages.clear()
    cancel = RunCancel(task.task_id, 1, 1)
    bench.tell(Batch[RunCancel]([cancel]))
    assert bench.workers[1].messages == [[cancel]]


def test_cancel_of_a_finished_task_is_answered_by_its_result_only(bench: Bench) -> None:
    bench.up()
    task = bench.task()
    bench.tell(Batch[RunTask]([task]))
    bench.finish(task)
    bench.door.take()
    bench.tell(Batch[RunCancel]([RunCancel(task.task_id, 0, 1)]))
    assert bench.door.take() == []


def test_cancel_of_an_unknown_task_is_answered(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[RunCancel]([RunCancel(TaskId(b"?" * 16), 0, 1)]))
    [result] = bench.door.take()
    assert result.status == TaskStatus.NOT_FOUND


def test_recall_requests_go_to_the_slot_that_has_the_task(bench: Bench) -> None:
    bench.up()
    task, other = bench.task(0), bench.task(1)
    bench.tell(Batch[RunTask]([task, other]))
    bench.workers[0].messages.clear()
    bench.tell(
        Batch[RecallRequest](
            [
                RecallRequest(task.task_id, 0, 1),
                RecallRequest(other.task_id, 1, 7),  # another attempt
                RecallRequest(bench.task().task_id, 0, 1),  # an unknown task
            ]
        )
    )
    assert bench.workers[0].messages == [[RecallRequest(task.task_id, 0, 1)]]
    assert bench.workers[1].messages == [[other]]
    assert bench.door.take() == []


def test_a_recalled_task_is_reported_and_no_longer_held(bench: Bench) -> None:
    bench.up()
    task, other = bench.task(0), bench.task(0)
    bench.tell(Batch[RunTask]([task, other]))
    response = RecallResponse(task.task_id, 0, 1)
    bench.tell(Batch[RecallResponse]([response]))
    assert bench.door.take() == [response]
    assert bench.reconnect().held == held(other)
    bench.tell(Batch[RunTask]([task]))  # the response was lost with the connection
    assert bench.workers[0].messages[-1] == [task]


def test_a_task_that_a_hello_reported_as_held_is_not_given_back(bench: Bench) -> None:
    bench.up()
    task = bench.task(0)
    bench.tell(Batch[RunTask]([task]))
    bench.tell(LinkLost("cut"))
    bench.wait(PAUSE_MOST_SECONDS)
    [hello] = bench.door.take()
    assert hello.held == held(task)
    bench.tell(Batch[RecallResponse]([RecallResponse(task.task_id, 0, 1)]))
    assert bench.workers[0].messages == [[task], [task]]
    bench.welcome(SCHEDULER)
    assert bench.door.take() == []


def test_a_task_returned_to_its_worker_is_not_lost_when_earlier_requests_did_not_find_it(bench: Bench) -> None:
    bench.up()
    task = bench.task(0)
    bench.tell(Batch[RunTask]([task]))
    bench.tell(LinkLost("cut"))
    bench.wait(PAUSE_MOST_SECONDS)
    bench.door.take()
    recall, cancel = RecallRequest(task.task_id, 0, 1), RunCancel(task.task_id, 0, 1)
    bench.tell(Batch[RecallResponse]([RecallResponse(task.task_id, 0, 1)]))  # to the first of several requests
    bench.tell(RunsNotHere([recall]), RunsNotHere([recall]))
    bench.welcome(SCHEDULER)
    assert bench.door.take() == []
    bench.tell(RunsNotHere([cancel]))
    assert bench.workers[0].messages == [[task], [task], [cancel]]
    bench.tell(RunsNotHere([cancel]))  # sent after the worker got the task: so the task is lost
    assert [result.status for result in bench.door.take()] == [TaskStatus.NOT_FOUND]


def test_tasks_that_are_still_blocked_are_reported_again_on_the_next_connection(bench: Bench) -> None:
    bench.up()
    tasks = [bench.task() for _ in range(3)]
    bench.tell(Batch[RunTask](tasks))
    waits = [RunBlocked(task.task_id, 0, 1) for task in tasks]
    unblocked = RunUnblocked(tasks[1].task_id, 0, 1)
    bench.tell(Batch[RunBlocked](waits), Batch[RunUnblocked]([unblocked]))
    bench.finish(tasks[2])
    sent = bench.door.take()
    assert [item for item in sent if type(item) is not RunResult] == [*waits, unblocked]
    bench.reconnect()
    assert [item for item in bench.door.take() if type(item) is RunBlocked] == waits[:1]


def test_the_end_of_a_processor_is_reported_again_on_the_next_connection() -> None:
    bench = Bench().up()
    bench.tell(ExecutorProcessGone(4))
    assert bench.door.take() == [ProcessorGone(4)]
    hello = bench.reconnect()
    assert hello.agent_token == NEST_ID
    assert ProcessorGone(4) in bench.door.take()
    bench.tell(LinkLost("cut"))
    bench.tell(ExecutorProcessGone(5))
    bench.wait(PAUSE_MOST_SECONDS)
    bench.welcome()
    assert [item for item in bench.door.take() if type(item) is ProcessorGone] == [ProcessorGone(4), ProcessorGone(5)]


def test_only_an_unacknowledged_result_is_kept_as_an_object_for_other_tasks() -> None:
    bench = Bench().up()
    first, second = bench.task(), bench.task()
    bench.tell(Batch[RunTask]([first, second]))
    results = [
        RunResult(task.task_id, task.worker, task.attempt, TaskStatus.SUCCESS, b"", 5, (b"large",))
        for task in (first, second)
    ]
    bench.tell(Batch[RunResult](results))
    bench.tell(LinkHeard(results[:1]))
    bench.objects.messages.clear()
    orders = Batch[ObjectInstruction](
        ObjectInstruction(InstructionKind.KEEP_RESULT, ObjectId(task.task_id), "", ()) for task in (first, second)
    )
    bench.tell(orders)
    assert bench.objects.messages == [KeepObject(ObjectId(second.task_id), (b"large",)), orders]


def test_messages_about_a_processor_go_to_all_slots(bench: Bench) -> None:
    bench.up()
    news = Batch[ProcessorNews]([ProcessorNews(4, 1, 0)])
    bench.tell(news)
    assert [slot.take(Batch[ProcessorNews]) for slot in bench.workers] == [[news], [news]]


def test_a_run_that_its_worker_does_not_have_is_answered_unless_its_result_is_known(bench: Bench) -> None:
    bench.up()
    lost, asked_back, ended = bench.task(), bench.task(), bench.task(attempt=2)
    bench.tell(Batch[RunTask]([lost, asked_back, ended]))
    bench.finish(ended)
    bench.door.take()
    cancels = [RunCancel(task.task_id, 0, task.attempt) for task in (lost, ended)]
    bench.tell(RunsNotHere(cancels), RunsNotHere([RecallRequest(asked_back.task_id, 0, 1)]))
    assert [(result.task_id, result.status) for result in bench.door.take()] == [
        (lost.task_id, TaskStatus.NOT_FOUND),
        (asked_back.task_id, TaskStatus.NOT_FOUND),
    ]
    assert bench.actor._ledger.held() == held(ended, lost, asked_back)  # results until they are acknowledged
    bench.tell(RunsNotHere(cancels))
    assert bench.door.take() == []


def test_the_link_reports_its_state_and_the_tasks_of_each_worker() -> None:
    bench = Bench().up()
    one, two = bench.task(worker=1), bench.task(worker=1)
    bench.tell(Batch[RunTask]([one, two]))
    bench.finish(two)
    report = Report()
    bench.link.notify(ReportLinkStatistics(report))
    bench.wait(0.05)
    assert report.of("link") == [("connected", {"tasks": 1, "blocked_tasks": 0, "results": 1})]
    assert report.of("worker") == [("a", {"tasks": 0}), ("b", {"tasks": 1})]


def test_workers_restart_on_request_before_they_get_later_tasks() -> None:
    bench = Bench(can_restart=True).up()
    task = bench.task(1)
    bench.tell(Batch[RestartRequest]([RestartRequest("a client asks")]), Batch[RunTask]([task]))
    assert bench.workers[0].messages == [RestartProcesses()]
    assert bench.workers[1].messages == [RestartProcesses(), [task]]


def test_workers_without_own_processes_are_not_restarted(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[RestartRequest]([RestartRequest("a client asks")]))
    assert bench.workers[0].messages == []


# Watching


def report_of(bench: Bench) -> AgentState | None:
    return next((item for item in reversed(bench.door.take()) if type(item) is AgentState), None)


def test_watched_agent_reports_at_each_interval_until_it_is_told_to_stop(bench: Bench) -> None:
    bench.up()
    parts = WatchedPart.WORKERS | WatchedPart.BINS | WatchedPart.FUNCTIONS
    bench.tell(Batch[WatchRequest]([WatchRequest(2000, parts)]))
    assert report_of(bench) is not None
    tasks = [bench.task(0), bench.task(0), bench.task(1)]
    bench.tell(Batch[RunTask](tasks))
    results = [RunResult(task.task_id, task.worker, task.attempt, 0, b"", 100, ()) for task in tasks[:2]]
    bench.tell(Batch[RunResult](results))
    bench.wait(1.9)
    assert report_of(bench) is None
    bench.wait(0.2)
    report = report_of(bench)
    assert report is not None
    first, second = WORKER_ROW.iter_unpack(report.workers)
    assert (first[1], first[-1], second[1], second[-1]) == (0, 2, 1, 0)
    assert [row[:6] for row in BIN_ROW.iter_unpack(report.bins)] == [(0, 0, 2, 0, 0, 0)]
    ((short, here, total_us, least_us, most_us, *buckets),) = FUNCTION_ROW.iter_unpack(report.functions)
    assert (short, here) == (public_id(tasks[0].function_id), 1)
    assert (total_us, least_us, most_us, sum(buckets)) == (200, 100, 100, 2)
    assert report.pid == os.getpid()
    bench.tell(Batch[WatchRequest]([WatchRequest(0, 0)]))
    bench.door.take()
    bench.wait(10.0)
    assert report_of(bench) is None
    assert bench.actor._ledger.tally is None


def test_watched_agent_reports_only_the_requested_parts(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[WatchRequest]([WatchRequest(2000, WatchedPart.FUNCTIONS)]))
    report = report_of(bench)
    assert report is not None
    assert (report.workers, report.processors, report.bins, report.runs) == (b"", b"", b"", b"")


def test_a_lost_connection_ends_the_watch(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[WatchRequest]([WatchRequest(1000, WatchedPart.WORKERS)]))
    bench.tell(LinkLost("cut"))
    bench.wait(1.5)
    assert bench.actor._ledger.tally is None


def test_lines_of_tasks_reach_the_scheduler_and_dropped_lines_are_counted_before_the_result(bench: Bench) -> None:
    bench.up()
    task = bench.task()
    bench.tell(Batch[RunTask]([task]))
    line = RunOutput(task.task_id, 0, 1, OutputStream.STANDARD_OUTPUT, 7, 0, "hello")
    bench.tell(Batch[RunOutput]([line]))
    assert bench.door.take() == [line]
    bench.tell(LinkLost("cut"), Batch[RunOutput]([line, line]))
    bench.wait(PAUSE_MOST_SECONDS)
    bench.welcome(resumed=1)
    bench.door.take()
    [result] = bench.finish(task)
    assert bench.door.take() == [RunOutput(task.task_id, 0, 1, OutputStream.STANDARD_OUTPUT, 7, 2, ""), result]


def elastic_bench(n_open: int) -> Bench:
    bench = Bench(n_open=n_open)
    bench.welcome()
    return bench


def test_the_hello_and_the_first_message_have_the_number_of_closed_workers() -> None:
    bench = elastic_bench(1)
    hello, closed = bench.door.take()
    assert (type(hello), hello.worker_names, hello.closed) == (WorkerHello, "a,b", 1)
    assert closed == WorkersClosed(1)


def test_a_changed_capacity_changes_the_number_of_workers_that_take_tasks(caplog: pytest.LogCaptureFixture) -> None:
    bench = elastic_bench(1)
    bench.door.take()
    bench.tell(CapacityChanged(7), CapacityChanged(2), CapacityChanged(0))
    assert bench.door.take() == [WorkersClosed(0), WorkersClosed(2)]
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("0 workers take tasks now")
    assert bench.reconnect().closed == 2


def test_the_number_of_paused_workers_is_reported_when_it_changes() -> None:
    values = NodeValues(ValueStore(HostShare(None), 1 << 20))
    bench = Bench(values=values)
    bench.up()
    bench.tell(PausedChanged(2), PausedChanged(0))
    assert bench.door.take() == [WorkersPaused(2), WorkersPaused(0)]
    values.room.held.add(1)
    bench.reconnect()
    bench.welcome()
    assert bench.door.take()[-1] == WorkersPaused(1)


def test_a_changed_capacity_is_ignored_if_the_number_of_workers_is_fixed(bench: Bench) -> None:
    bench.up()
    bench.tell(CapacityChanged(1))
    assert bench.door.take() == []


@pytest.mark.parametrize("sent_ns", [1, 2**64 - 1])
def test_an_echo_of_any_age_can_be_reported(bench: Bench, sent_ns: int) -> None:
    """A process that was stopped for two hours reads an echo of that age."""
    bench.clock.advance(7200)
    bench.up()
    bench.tell(Batch[WorkerHeartbeatEcho]([WorkerHeartbeatEcho(sent_ns)]))
    bench.tell(Batch[WatchRequest]([WatchRequest(1000, WatchedPart.WORKERS)]))
    report = report_of(bench)
    assert report is not None
    encode_message(AGENT_TO_SCHEDULER, [report])


def test_workers_that_take_no_tasks_are_not_reported() -> None:
    bench = elastic_bench(1)
    bench.tell(Batch[WatchRequest]([WatchRequest(1000, WatchedPart.WORKERS)]))
    [report] = [item for item in bench.door.take() if type(item) is AgentState]
    assert len(report.workers) == WORKER_ROW.size


def test_a_result_that_is_larger_than_the_scheduler_accepts_is_sent_as_a_failure(bench: Bench) -> None:
    bench.tell(Batch[HelloReply]([HelloReply(1, "", SCHEDULER, 1, "0", value_bytes=1000)]))
    bench.door.take()

    def statuses(size: int) -> list[tuple[TaskStatus, int]]:
        run = bench.task()
        bench.tell(Batch[RunTask]([run]))
        bench.tell(
            Batch[RunResult]([RunResult(run.task_id, 0, run.attempt, TaskStatus.SUCCESS, b"", 0, (bytes(size),))])
        )
        return [(item.status, sum(map(len, item.frames))) for item in bench.door.take() if type(item) is RunResult]

    assert statuses(1000) == [(TaskStatus.SUCCESS, 1000)]
    assert statuses(1001) == [(TaskStatus.FAILED, 0)]
    bench.tell(Batch[WorkerHeartbeatEcho]([WorkerHeartbeatEcho(1, 1, 2000)]))
    assert statuses(2000) == [(TaskStatus.SUCCESS, 2000)]
    bench.tell(Batch[WorkerHeartbeatEcho]([WorkerHeartbeatEcho(0)]))
    assert statuses(2001) == [(TaskStatus.FAILED, 0)]


def test_a_result_whose_transfer_ended_several_schedulers_is_reported_as_a_failure(bench: Bench) -> None:
    bench.up()
    run = bench.task()
    bench.tell(Batch[RunTask]([run]))
    result = RunResult(run.task_id, 0, run.attempt, TaskStatus.SUCCESS, b"", 0, (bytes(5_000_000),))
    bench.tell(Batch[RunResult]([result]))
    for number in range(TRIES_MOST):
        (sent,) = bench.door.take()
        assert sent == result
        pipe = bench.door.session.pipe  # as the edge does
        pipe.put(sent)
        pipe.take()
        bench.reconnect(bytes([65 + number]) * 16)
    (given_up,) = bench.door.take()
    assert (given_up.task_id, given_up.status, given_up.frames) == (run.task_id, TaskStatus.FAILED, ())
    assert "ObjectTooLargeError: its result is too large" in given_up.failure


def test_a_drain_gives_back_queued_tasks_and_ends_after_the_last_running_task(bench: Bench) -> None:
    bench.up()
    running, waiting = bench.task(), bench.task()
    bench.tell(Batch[RunTask]([running, waiting]))
    bench.door.take()
    bench.tell(Leave("SIGTERM", drain_seconds=60))
    assert bench.door.take() == [DrainRequest("SIGTERM")]
    [recalls] = bench.workers[0].take(Batch[RecallRequest])
    assert [request.task_id for request in recalls] == [running.task_id, waiting.task_id]
    bench.tell(Batch[RecallResponse]([RecallResponse(waiting.task_id, 0, 1)]))
    bench.wait(1)
    assert DisconnectRequest("SIGTERM") not in bench.door.take()
    bench.finish(running)
    bench.wait(1)
    assert bench.door.take().count(DisconnectRequest("SIGTERM")) == 1


def test_an_agent_that_leaves_without_a_drain_gives_back_queued_tasks_and_ends_soon(bench: Bench) -> None:
    bench.up()
    running, waiting = bench.task(), bench.task()
    bench.tell(Batch[RunTask]([running, waiting]))
    bench.door.take()
    bench.tell(Leave("SIGTERM"))
    assert bench.door.take() == [DrainRequest("SIGTERM")]
    assert [request.task_id for request in bench.workers[0].take(Batch[RecallRequest])[0]] == [
        running.task_id,
        waiting.task_id,
    ]
    given = RecallResponse(waiting.task_id, 0, 1)
    bench.tell(Batch[RecallResponse]([given]))
    assert bench.door.take() == [given]
    bench.wait(0.1)
    assert bench.door.take() == [DisconnectRequest("SIGTERM")]


def test_a_drain_is_reported_again_on_the_next_connection(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[RunTask]([bench.task()]))
    bench.tell(Leave("SIGTERM", drain_seconds=60))
    bench.reconnect()
    assert DrainRequest("SIGTERM") in bench.door.take()


def test_a_drain_ends_after_its_time_limit_though_a_task_runs(bench: Bench) -> None:
    bench.up()
    bench.tell(Batch[RunTask]([bench.task()]))
    bench.tell(Leave("SIGTERM", drain_seconds=3))
    bench.wait(2)
    assert DisconnectRequest("SIGTERM") not in bench.door.take()
    bench.wait(1.5)
    assert DisconnectRequest("SIGTERM") in bench.door.take()


def test_an_agent_that_is_requested_to_leave_ends_after_its_last_task_without_a_time_limit(bench: Bench) -> None:
    bench.up()
    running = bench.task()
    bench.tell(Batch[RunTask]([running]))
    bench.door.take()
    for _ in range(2):
        bench.tell(Batch[LeaveRequest]([LeaveRequest("a client asks")]))
    assert bench.door.take() == [DrainRequest("a client asks")]
    for _ in range(40):
        bench.wait(4)
        bench.tell(Batch[WorkerHeartbeatEcho]([WorkerHeartbeatEcho(0)]))
    assert DisconnectRequest("a client asks") not in bench.door.take()
    bench.finish(running)
    bench.wait(1)
    assert DisconnectRequest("a client asks") in bench.door.take()


# Results that stay at the agent


@pytest.fixture
def keeper() -> Bench:
    bench = Bench(values=NodeValues(ValueStore(HostShare(None), 1 << 30))).up()
    run = bench.task()
    bench.tell(Batch[RunTask]([run]))
    frames = SharedBlock.of([bytes(100_000)]).map(remember=True)
    bench.tell(Batch[RunResult]([RunResult(run.task_id, 0, 1, TaskStatus.SUCCESS, b"", 0, frames)]))
    return bench


def test_only_the_request_for_a_value_that_was_made_here_meanwhile_is_not_repeated(keeper: Bench) -> None:
    made, failed = tasks = [keeper.task() for _ in range(2)]
    keeper.tell(Batch[RunTask](tasks), *(FetchForWorker(ObjectId(task.task_id)) for task in tasks))
    frames = SharedBlock.of([bytes(100_000)]).map(remember=True)
    results = [
        RunResult(made.task_id, 0, made.attempt, TaskStatus.SUCCESS, b"", 1, frames),
        RunResult(failed.task_id, 0, failed.attempt, TaskStatus.FAILED, b"", 1, ()),
    ]
    keeper.tell(Batch[RunResult](results))
    keeper.door.take()
    keeper.reconnect()
    requested = [item.object_id for item in keeper.door.take() if type(item) is ObjectRequest]
    assert requested == [failed.task_id]


def test_a_drain_ends_after_sending_the_results_that_only_this_node_has(keeper: Bench) -> None:
    keeper.door.take()
    keeper.tell(Leave("SIGTERM", drain_seconds=60))
    [over] = keeper.objects.take(HandOverValues)
    keeper.wait(1)
    assert keeper.door.take() == [DrainRequest("SIGTERM")]
    response = ObjectResponse(ObjectId(b"v" * 16), 1, [b"value"])
    keeper.tell(ObjectsSupplied([response]), over.then)
    assert keeper.door.take() == [response]
    [over] = keeper.objects.take(HandOverValues)
    keeper.tell(over.at_last)
    assert keeper.door.take() == [DisconnectRequest("SIGTERM")]


def test_a_drain_that_reaches_its_time_limit_logs_the_number_of_lost_values(
    keeper: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    keeper.tell(Leave("SIGTERM", drain_seconds=1))
    [over] = keeper.objects.take(HandOverValues)
    keeper.wait(1)
    keeper.tell(over.then)
    assert DisconnectRequest("SIGTERM") in keeper.door.take()
    assert "1 values are lost with this cluster" in caplog.text


def test_a_requested_value_that_is_too_large_for_the_scheduler_is_answered_with_the_reason(keeper: Bench) -> None:
    keeper.tell(Batch[ObjectRequest]([ObjectRequest(ObjectId(b"v" * 16), 1)]))
    assert len(keeper.objects.take(Batch[ObjectRequest])) == 1
    keeper.actor._ledger.value_bytes = 3
    keeper.door.take()
    keeper.tell(ObjectsSupplied([ObjectResponse(ObjectId(b"v" * 16), 1, [b"value"])]))
    [response] = keeper.door.take()
    assert (response.found, response.frames) == (0, ())
    assert "at most 3 bytes" in response.reason


def test_results_that_stay_are_reported_to_the_next_scheduler_before_fetched_objects(keeper: Bench) -> None:
    [sent] = keeper.door.take()
    keeper.tell(LinkHeard([sent]))
    keeper.reconnect(b"2" * 16)
    assert sent in keeper.door.take()
    assert keeper.objects.take(ReportKeptObjects)
