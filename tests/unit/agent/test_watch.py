from __future__ import annotations

import pytest

from scaler.agent.ledger import Ledger
from scaler.agent.values import NodeValues
from scaler.agent.watch import LEAST_SECONDS, AgentWatch, run_statuses
from scaler.executors.messages import ProcessNow, WorkersView
from scaler.ids import ObjectId, TaskId
from scaler.store.host_share import HostShare
from scaler.store.store import ValueStore
from scaler.wire.messages.common import RunState, TaskStatus
from scaler.wire.messages.monitor import BIN_ROW, FUNCTION_ROW, REPORTS, RUN_ROW, WORKER_ROW
from scaler.wire.messages.worker import RunQuestion, RunResult, RunStatus, RunTask, WatchedPart


@pytest.fixture
def watch() -> AgentWatch:
    return AgentWatch("host", "processes", (), 1, Ledger(), {})


@pytest.mark.parametrize(("asked_ms", "seconds"), [(1, LEAST_SECONDS), (2500, 2.5), (0, 0.0)])
def test_the_interval_of_reports_is_bounded(watch: AgentWatch, asked_ms: int, seconds: float) -> None:
    watch.request(asked_ms, 0)
    assert watch.interval_seconds == seconds


def test_paused_workers_are_counted() -> None:
    values = NodeValues(ValueStore(HostShare(None), 1 << 20))
    watch = AgentWatch("host", "processes", (), 3, Ledger(), {}, values)
    watch.request(1000, WatchedPart.WORKERS)
    values.room.held.update((0, 2))
    assert watch.report(WorkersView([]), 1.0, 0).held_workers == 2
    values.room.held.clear()
    assert watch.report(WorkersView([]), 2.0, 0).held_workers == 0


def test_a_report_names_all_runs_and_the_earliest_ones_first(watch: AgentWatch) -> None:
    watch.request(1000, WatchedPart.RUNS)
    tasks = [RunTask(TaskId(n.to_bytes(16, "big")), 0, 1, ObjectId(b"f" * 16), b"", b"") for n in range(300)]
    view = WorkersView([ProcessNow(0, 0, task, float(number), False) for number, task in enumerate(tasks)])
    runs = list(RUN_ROW.iter_unpack(watch.report(view, 1.0, 0).runs))
    assert [run[0] for run in runs] == [task.task_id for task in reversed(tasks)]


def test_a_report_with_too_many_functions_sums_up_the_shortest_ones(
    watch: AgentWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.agent.watch.FUNCTIONS_MOST", 2)
    watch.request(1000, WatchedPart.FUNCTIONS)
    tally = watch._ledger.tally
    assert tally is not None
    for number in range(1, 6):
        task = RunTask(TaskId(b"t" * 16), 0, 1, ObjectId(bytes([number]) * 16), b"", b"")
        tally.add(task, RunResult(task.task_id, 0, 1, TaskStatus.SUCCESS, b"", 100 * number, ()))
    rows = list(FUNCTION_ROW.iter_unpack(watch.report(WorkersView([]), 1.0, 0).functions))
    others = (bytes(8), 0, 600, 100, 300)
    assert [row[2:5] for row in rows[:2]] == [(500, 500, 500), (400, 400, 400)]
    assert (rows[2][:5], sum(rows[2][5:])) == (others, 3)


def test_a_task_that_reported_progress_has_a_flag_for_half_a_minute() -> None:
    reported: dict[int, tuple[TaskId, float]] = {}
    watch = AgentWatch("host", "processes", (), 1, Ledger(), reported)
    watch.request(1000, WatchedPart.WORKERS)
    one, other = (RunTask(TaskId(bytes([n]) * 16), 0, 1, ObjectId(b"f" * 16), b"", b"") for n in (1, 2))

    def has_flag(task: RunTask, now: float) -> bool:
        ((*_, flags, _, _, _, _),) = WORKER_ROW.iter_unpack(
            watch.report(WorkersView([ProcessNow(0, 0, task, 5.0, False)]), now, 0).workers
        )
        return bool(flags & REPORTS)

    assert not has_flag(one, 100.0)
    reported[0] = one.task_id, 100.0
    assert [has_flag(one, now) for now in (101.0, 129.0, 131.0)] == [True, True, False]
    assert not has_flag(other, 101.0)


def test_a_run_adds_to_the_busy_time_of_its_worker_in_each_report(watch: AgentWatch) -> None:
    """When the run ends, no time is reported twice."""
    watch.request(1000, WatchedPart.BINS)
    task = RunTask(TaskId(b"t" * 16), 0, 7, ObjectId(b"f" * 16), b"", b"")
    watch._ledger.add([task])

    def busy_ms(*processes: ProcessNow) -> list[tuple[int, ...]]:
        return [row[:6] for row in BIN_ROW.iter_unpack(watch.report(WorkersView(list(processes)), 1.0, 0).bins)]

    assert busy_ms(ProcessNow(0, 0, task, 1.5, False)) == [(0, 1500, 0, 0, 0, 0)]
    assert busy_ms(ProcessNow(0, 0, task, 3.5, False)) == [(0, 2000, 0, 0, 0, 0)]
    watch._ledger.finish([RunResult(task.task_id, 0, 7, TaskStatus.SUCCESS, b"", 4_000_000, ())])
    assert busy_ms(ProcessNow(0, 0, None, 0.0, False)) == [(0, 500, 1, 0, 0, 0)]
    assert busy_ms() == []


def run(number: int, worker: int = 0, attempt: int = 1) -> RunTask:
    return RunTask(TaskId(bytes([number]) * 16), worker, attempt, ObjectId(b"f" * 16), b"", b"")


RUNS, WAITS, QUEUED, ELSEWHERE = run(1), run(2), run(3), run(4, worker=1)
VIEW = WorkersView(
    [
        ProcessNow(0, 4711, RUNS, 12.5, is_waiting=False),
        ProcessNow(0, 4712, WAITS, 99.0, is_waiting=True),
        ProcessNow(0, 4713, None, 0.0, is_waiting=False),
        ProcessNow(1, 4714, run(5, worker=1), 200.0, is_waiting=False),
    ]
)


def request(task: RunTask, view: WorkersView | None = VIEW, attempt: int = 1) -> list[tuple[int, int, int]]:
    ledger = Ledger()
    ledger.add([RUNS, WAITS, QUEUED, ELSEWHERE])
    found = list(run_statuses([RunQuestion(task.task_id, task.worker, attempt)], view, ledger))
    assert all(type(each) is RunStatus and each.task_id == task.task_id for each in found)
    return [(each.state, each.run_ms, each.pid) for each in found]


def test_an_inquiry_reports_a_run_as_running_blocked_or_queued() -> None:
    assert request(RUNS) == [(RunState.RUNS, 12_500, 4711)]
    assert request(WAITS) == [(RunState.WAITS, 99_000, 4712)]
    assert request(QUEUED) == [(RunState.QUEUED, 12_500, 0)], "behind the running task of its worker"
    assert request(ELSEWHERE) == [(RunState.QUEUED, 200_000, 0)]


def test_an_inquiry_without_a_view_of_the_workers_reports_not_known() -> None:
    assert request(RUNS, view=None) == [(RunState.NOT_KNOWN, 0, 0)]


def test_an_inquiry_about_an_ended_run_is_not_answered() -> None:
    assert request(run(9)) == []
    assert request(RUNS, attempt=2) == []
