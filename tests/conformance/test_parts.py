"""What an executor may do beyond the core: tested where it says that it does."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler import task_context
from scaler.executors.executor import ExecutorFeature
from scaler.executors.messages import CollectionDue, PauseTasks, RestartProcesses
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import ProcessorNews
from tests.support.executor_bench import ExecutorBench
from tests.support.fake_scheduler_for_agents import value_of

pytestmark = pytest.mark.processes


def test_a_task_that_ends_its_process_fails_and_the_worker_continues(bench: ExecutorBench) -> None:
    bench.needs(ExecutorFeature.CRASH)
    bad, good = bench.task(os._exit, 3), bench.task(abs, -1)
    bench.run(bad, good)
    [result] = bench.results(bad)
    assert result.status == TaskStatus.PROCESSOR_DIED
    assert result.payload
    assert bench.gone  # the scheduler forgets the clients in it
    assert value_of(*bench.results(good)) == 1


def test_a_cancelled_task_is_stopped(bench: ExecutorBench, tmp_path: Path) -> None:
    bench.needs(ExecutorFeature.INTERRUPT)

    def go_on_for_ever(log: str) -> None:
        while True:
            Path(log).write_text(str(time.monotonic()), encoding="utf-8")
            time.sleep(0.005)

    log = tmp_path / "log"
    task, next_one = bench.task(go_on_for_ever, str(log)), bench.task(abs, -1)
    bench.run(task, next_one)
    bench.until(log.exists)
    bench.cancel(task)
    assert bench.statuses(task) == [TaskStatus.CANCELED]
    assert value_of(*bench.results(next_one)) == 1
    last = log.read_text()
    bench.settle()
    assert log.read_text() == last


def test_a_task_that_runs_for_too_long_is_stopped(
    new_bench: Callable[..., ExecutorBench], bench: ExecutorBench
) -> None:
    bench.needs(ExecutorFeature.TIME_LIMIT)
    limited = new_bench(1, task_timeout_seconds=0.2)
    task, next_one = limited.task(time.sleep, 60), limited.task(abs, -1)
    limited.run(task, next_one)
    assert limited.statuses(task, next_one) == [TaskStatus.TIMED_OUT, TaskStatus.SUCCESS]


def test_the_process_of_a_task_that_waits_is_stopped(
    new_bench: Callable[..., ExecutorBench], bench: ExecutorBench, tmp_path: Path
) -> None:
    bench.needs(ExecutorFeature.SUSPENSION)
    hard = new_bench(1, hard_processor_suspend=True)
    gate, log = tmp_path / "gate", tmp_path / "log"

    def wait_hard(gate: str, log: str) -> str:
        class Client:
            def rest(self, *_said: Any) -> None:
                pass

        here = task_context.current
        with here.wait(Client(), lambda: Path(gate).exists()):  # type: ignore[arg-type]
            Path(log).write_text(f"{os.getpid()} {here.processor} ", encoding="utf-8")
            while not Path(gate).exists():
                time.sleep(0.005)
        return "went on"

    task = hard.task(wait_hard, str(gate), str(log))
    hard.run(task)
    hard.until(lambda: log.exists() and log.read_text().endswith(" "))
    process, processor = map(int, log.read_text().split())
    hard.workers[0].send(Batch[ProcessorNews]([ProcessorNews(processor, 1, 0)]))
    hard.until(lambda: psutil.Process(process).status() == psutil.STATUS_STOPPED)
    gate.touch()
    hard.settle(0.1)
    assert not hard.has_result(task)
    hard.workers[0].send(Batch[ProcessorNews]([ProcessorNews(processor, 1, 1)]))
    assert value_of(*hard.results(task)) == "went on"


def test_memory_that_is_not_used_is_given_back(new_bench: Callable[..., ExecutorBench], bench: ExecutorBench) -> None:
    bench.needs(ExecutorFeature.MEMORY)

    def use_and_free() -> int:
        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_void_p
        blocks = [ctypes.c_void_p(library.malloc(50_000)) for _ in range(2000)]
        for block in blocks:
            ctypes.memset(block, 1, 50_000)
        library.malloc(50_000)  # it lies above them: what is freed below stays with the process
        for block in blocks:
            library.free(block)
        return os.getpid()

    eager = new_bench(1, trim_memory_threshold_bytes=0)
    task = eager.task(use_and_free)
    eager.run(task)
    process = psutil.Process(value_of(*eager.results(task)))
    assert process.memory_info().rss > 100_000_000
    eager.workers[0].send(CollectionDue())
    eager.until(lambda: process.memory_info().rss < 100_000_000)


def test_tasks_run_in_fresh_processes_after_restart_processes(bench: ExecutorBench) -> None:
    bench.needs(ExecutorFeature.FRESH)

    def process() -> int:
        return os.getpid()

    before, after = bench.task(process), bench.task(process)
    bench.run(before)
    first = value_of(*bench.results(before))
    for worker in bench.workers:
        worker.send(RestartProcesses())
    bench.run(after)
    assert value_of(*bench.results(after)) != first


def test_a_paused_worker_starts_only_allowed_tasks_and_resumes_afterwards(bench: ExecutorBench) -> None:
    bench.needs(ExecutorFeature.ROOM)
    may, waits, withdrawn, given_back = (bench.task(abs, -number) for number in range(1, 5))
    bench.workers[0].send(PauseTasks(lambda task: task.task_id == may.task_id))
    bench.run(may)
    assert value_of(*bench.results(may)) == 1
    bench.run(waits, withdrawn, given_back)
    bench.settle()
    bench.cancel(withdrawn)
    assert [result.status for result in bench.results(withdrawn)] == [TaskStatus.CANCELED]
    bench.recall(given_back)
    bench.until(lambda: (given_back.task_id, given_back.attempt) in bench.given_back)
    bench.workers[0].send(PauseTasks(None))
    assert value_of(*bench.results(waits)) == 2


def test_a_worker_that_is_held_asks_before_each_task(bench: ExecutorBench) -> None:
    bench.needs(ExecutorFeature.ROOM)
    tasks = [bench.task(abs, -number) for number in range(1, 5)]
    bench.run(*tasks[:1])
    bench.results(tasks[0])
    left = [tasks[2].task_id]
    bench.workers[0].send(PauseTasks(lambda task: task.task_id in left and not left.remove(task.task_id)))
    bench.run(*tasks[1:])
    assert value_of(*bench.results(tasks[2])) == 3  # others do not hold it up
    bench.settle()
    assert not any(map(bench.has_result, (tasks[1], tasks[3])))
    bench.workers[0].send(PauseTasks(None))
    assert [value_of(result) for result in bench.results(tasks[1], tasks[3])] == [2, 4]
