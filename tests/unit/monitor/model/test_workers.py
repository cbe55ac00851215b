from __future__ import annotations

from scaler.monitor.model.model import Model
from scaler.monitor.model.workers import processors_of, workers_of
from scaler.wire.messages.monitor import PROCESSOR_ROW, SUSPENDED, TASK_LOCK, StateProcessors
from tests.support.monitored import BUSY, agent, durations, function, news, row, scheduler

FAST = function(durations=durations(b16=100))  # 95 of 100 under 66 ms


def stuck_after(*snapshots: tuple[float, bytes], known: bool = True, **fields: int) -> str:
    model = Model()
    model.take(news("scheduler", scheduler()), 0)
    if known:
        model.take(news("functions", FAST), 0)
    for now, worker in snapshots:
        model.take(news("workers", agent(worker, **fields)), now)
    return "".join(model.stuck.reasons.values())


def test_a_task_that_runs_far_longer_than_usual_is_stuck() -> None:
    assert stuck_after((0, row(running_ms=59_000))) == ""
    assert (
        stuck_after((0, row(running_ms=61_000)))
        == "its task has run for 61 s; 95 % of the runs of its function take less than 0.1 s"
    )


def test_a_task_of_a_usually_long_function_is_not_stuck() -> None:
    model = Model()
    model.take(news("functions", function(durations=durations(b25=100))), 0)  # some 30 s
    model.take(news("workers", agent(row(running_ms=200_000))), 0)
    assert model.stuck.reasons == {}
    model.take(news("workers", agent(row(running_ms=400_000))), 0)
    assert len(model.stuck.reasons) == 1


def test_a_task_without_processor_time_is_stuck_after_half_a_minute() -> None:
    rows = [(float(now), row(cpu=0, running_ms=1000 * now)) for now in range(0, 31, 2)]
    assert stuck_after(*rows[:-1]) == ""
    assert "no processor time for 30 s" in stuck_after(*rows)
    assert "no processor time for 30 s" in stuck_after(*rows, known=False)
    unmeasured = [(at, row(cpu=0, rss=0, running_ms=int(1000 * at) + 5_000)) for at, _ in rows]
    assert stuck_after(*unmeasured) == ""  # a thread of its agent has no times of its own


def test_another_task_restarts_the_time_without_processor_use() -> None:
    rows = [(float(now), row(cpu=0, running_ms=1000 * (now % 20))) for now in range(0, 60, 2)]
    assert stuck_after(*rows) == ""


def test_a_blocked_task_is_not_stuck() -> None:
    assert stuck_after((0, row(running_ms=500_000, flags=BUSY | TASK_LOCK))) == ""


def test_a_stopped_process_is_stuck_for_that_reason() -> None:
    assert stuck_after((0, row(running_ms=4_000, flags=BUSY | SUSPENDED))) == ""
    assert stuck_after((0, row(running_ms=6_000, flags=BUSY | SUSPENDED))).startswith("its process has been stopped")


def test_the_marks_show_initialized_task_and_task_lock() -> None:
    model = Model()
    rows = [row(flags=1), row(flags=3), row(flags=1, suspended=1), row(flags=0)]
    model.take(news("workers", agent(*rows)), 0)
    assert [worker.marks for worker in model.workers] == ["100", "110", "101", "000"]


def test_a_silent_worker_is_stuck() -> None:
    assert stuck_after((0, row(flags=1)), seen_ms=12_000) == "no message for 12 s"


def test_a_truncated_worker_row_is_left_out() -> None:
    model = Model()
    model.take(news("workers", agent(row(), row()[:-1], names="a")), 0)
    assert [worker.name for worker in model.workers] == ["a"]


def test_processors_are_unpacked_from_rows() -> None:
    packed = PROCESSOR_ROW.pack(12, 3, BUSY, 500, 70, 1 << 20, 2 << 20, b"taskTASK", bytes(8))
    (processor,) = processors_of(StateProcessors(b"agent", packed + b"rest"))
    assert (processor.pid, processor.position, processor.cpu_permille, processor.running_ms) == (12, 3, 500, 70)
    assert (processor.rss_bytes, processor.peak_bytes, processor.task, processor.function) == (
        1 << 20,
        2 << 20,
        b"taskTASK",
        b"",
    )


def test_memory_and_processor_time_of_a_worker_without_a_process_are_unknown() -> None:
    (worker,) = workers_of(agent(row(rss=0, cpu=0)), 10)
    assert (worker.rss_bytes, worker.cpu_permille, worker.is_busy) == (None, None, True)
