"""What every executor does: a test for each sentence of `scaler/executors/executor.py`."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scaler import task_context
from scaler.executors.executor import ExecutorFeature, load_executor
from scaler.executors.messages import CollectionDue, ForgetObjects, ObjectFound, ObjectUnavailable
from scaler.ids import ObjectId
from scaler.settings import ClusterConfig
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.capabilities import from_text, to_text
from scaler.wire.messages.common import PROFILE, TaskStatus
from scaler.wire.messages.priority import of_child
from tests.support.executor_bench import ADDRESS, AGENT_TOKEN, ExecutorBench
from tests.support.fake_scheduler_for_agents import failure_of, value_of
from tests.support.processes import held, wait_for_nothing_new

pytestmark = pytest.mark.processes


# The tasks. They are defined by functions, so that they are pickled by value: an executor need not have this module.


def passing() -> Callable[[str, str, str], Any]:
    def wait_for_gate(path: str, log: str, note: str) -> str:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{note}\n")
        while not Path(path).exists():
            time.sleep(0.005)
        return note

    return wait_for_gate


def blocking() -> Callable[[str, str, str], Any]:
    """As if it waited for another task, until there is a file."""

    def wait_as_for_a_task(path: str, log: str, note: str) -> str:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{note}\n")
        with task_context.current.wait():
            while not Path(path).exists():
                time.sleep(0.005)
        return note

    return wait_as_for_a_task


def noting() -> Callable[[str, str], Any]:
    def note_it(log: str, note: str) -> str:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{note}\n")
        return note

    return note_it


# What it says of itself


def test_arguments_that_travel_with_their_task_arrive_and_can_be_changed(bench: ExecutorBench) -> None:
    def changed(small: int, value: bytearray, *, last: bytes) -> tuple[int, int, bytes]:
        value += b"!"
        return small, len(value), last[:1]

    tasks = [
        bench.task(changed, number, bytearray(size), last=bytes([number]) * size)
        for number, size in enumerate((20_000, 60_000, 100_000, 400_000))
    ]
    bench.run(*tasks)
    assert [value_of(result) for result in bench.results(*tasks)] == [
        (number, size + 1, bytes([number])) for number, size in enumerate((20_000, 60_000, 100_000, 400_000))
    ]


def test_an_executor_reports_its_capacity_and_capabilities(engine: str) -> None:
    executor = load_executor(ClusterConfig(ADDRESS, engine=engine))
    assert executor.capacity is None or executor.capacity > 0
    assert dict(from_text(to_text(executor.capabilities))) == executor.capabilities


# RunTask and RunResult


def test_each_run_has_exactly_one_result(bench: ExecutorBench) -> None:
    tasks = [bench.task(divmod, number, 7, worker=number % 2) for number in range(100)]
    bench.run(*tasks)
    assert [value_of(result) for result in bench.results(*tasks)] == [divmod(number, 7) for number in range(100)]
    bench.settle(0.05)
    assert bench.everything_was_answered_once()


def test_a_result_names_its_run(bench: ExecutorBench) -> None:
    task = bench.task(abs, -1, worker=1)
    task.attempt = 7
    bench.run(task)
    [result] = bench.results(task)
    assert (result.task_id, result.worker, result.attempt) == (task.task_id, 1, 7)


def test_arguments_arrive_by_position_and_by_name(bench: ExecutorBench) -> None:
    task = bench.task(lambda *positional, **named: (positional, named), 1, "two", three=3.0)
    bench.run(task)
    assert value_of(*bench.results(task)) == ((1, "two"), {"three": 3.0})


def test_a_worker_runs_one_task_at_a_time_and_two_workers_run_two(bench: ExecutorBench, gate: Any) -> None:
    first, second = (bench.task(passing(), gate.path, gate.log, f"first{index}", worker=index) for index in range(2))
    behind = bench.task(noting(), gate.log, "behind")
    bench.run(first, second, behind)
    bench.until(lambda: sorted(gate.noted()) == ["first0", "first1"])
    bench.settle()
    assert len(gate.noted()) == 2
    gate.open()
    bench.results(first, second, behind)
    assert gate.noted()[2:] == ["behind"]


def test_the_highest_priority_is_first_and_the_order_is_kept_within_one(bench: ExecutorBench, gate: Any) -> None:
    first = bench.task(passing(), gate.path, gate.log, "first")
    bench.run(first)
    bench.until(gate.noted)
    tasks = [
        bench.task(noting(), gate.log, f"{priority}{index}", priority=priority)
        for index, priority in enumerate([0, 1, 0, 2, 1])
    ]
    bench.run(*tasks)
    bench.settle()
    gate.open()
    bench.results(first, *tasks)
    assert gate.noted() == ["first", "23", "11", "14", "00", "02"]


def test_a_task_is_not_overtaken_by_deeper_ones_of_another_client(bench: ExecutorBench, gate: Any) -> None:
    first = bench.task(passing(), gate.path, gate.log, "first")
    bench.run(first)
    bench.until(gate.noted)
    early = [bench.task(noting(), gate.log, f"early{depth}", priority=of_child(0) * depth) for depth in (0, 1)]
    other = bench.task(noting(), gate.log, "other", account=(1, 0))
    late = [bench.task(noting(), gate.log, f"late{depth}", priority=of_child(0) * depth) for depth in (2, 3)]
    for tasks in (early, [other], late):
        bench.run(*tasks)
    bench.settle()
    gate.open()
    bench.results(first, *early, other, *late)
    *begun, one, two = gate.noted()
    assert begun == ["first", "early1", "early0", "other"]
    assert {one, two} == {"late2", "late3"}  # where a deeper task starts at once, they run side by side


def test_a_task_whose_function_is_not_here_yet_is_not_overtaken(bench: ExecutorBench, gate: Any) -> None:
    def note_it_too(log: str) -> None:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write("new\n")

    known = bench.function(noting())
    first = bench.task(known, gate.log, "first")
    bench.run(first)
    bench.results(first)
    tasks = [bench.task(note_it_too, gate.log), bench.task(known, gate.log, "behind")]
    bench.run(*tasks)
    bench.results(*tasks)
    assert gate.noted() == ["first", "new", "behind"]


def test_a_task_knows_itself(bench: ExecutorBench) -> None:
    def who(_item: int) -> tuple[bytes, str, int, float | None]:
        task = task_context.current_task()
        assert task is not None
        return task.task_id, task.name, task.attempt, task.seconds_left

    limited = RunOptions(timeout_ms=60_000).encode()
    plain, named, short = bench.task(who, 1), bench.task(who, 2), bench.task(who, 3)
    tasks = [plain, replace(named, name="night run"), replace(short, options=limited)]
    bench.run(*tasks)
    (*unlimited, (*own, left)) = map(value_of, bench.results(*tasks))
    assert unlimited == [(task.task_id, task.name or who.__qualname__, task.attempt, None) for task in tasks[:2]]
    assert own == [tasks[2].task_id, who.__qualname__, tasks[2].attempt]
    assert 0 < left <= 60
    assert task_context.current_task() is None


def test_a_large_result_comes_back(bench: ExecutorBench) -> None:
    task = bench.task(bytes, 3_000_000)
    bench.run(task)
    assert value_of(*bench.results(task)) == bytes(3_000_000)


def test_a_large_result_is_what_it_was_when_the_function_returned(bench: ExecutorBench) -> None:
    class Array:
        """Like those of numpy, its memory is not copied into the pickle."""

        def __init__(self, memory: bytearray) -> None:
            self.memory = memory

        def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
            return bytes, (pickle.PickleBuffer(self.memory),)

    def make_and_keep() -> tuple[int, Array]:
        kept = task_context.__dict__.setdefault("_kept_by_a_test", bytearray(1_000_000))
        kept[:] = bytes([kept[0] + 1]) * len(kept)
        return os.getpid(), Array(kept)

    function = bench.function(make_and_keep)
    tasks = [bench.task(function) for _ in range(3)]
    bench.run(*tasks)
    by_process: dict[int, list[int]] = {}
    for result in bench.results(*tasks):
        process, array = value_of(result)
        by_process.setdefault(process, []).append(array[0])
    assert all(kept == list(range(1, len(kept) + 1)) for kept in by_process.values())
    forget = bench.task(lambda: task_context.__dict__.pop("_kept_by_a_test") and None)
    bench.run(forget)
    bench.results(forget)


# Failures


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_function_that_raises_has_failed_and_the_worker_continues(
    bench: ExecutorBench, kind: type[BaseException]
) -> None:
    def fail() -> None:
        raise kind("on purpose")

    bad, good = bench.task(fail), bench.task(abs, -1)
    bench.run(bad, good)
    failure = failure_of(bench.results(bad)[0])
    assert isinstance(failure, TaskFailure)
    assert (failure.type_name, failure.text) == (kind.__name__, "on purpose")
    assert "in fail" in failure.traceback
    assert value_of(*bench.results(good)) == 1


def test_an_argument_that_cannot_be_read_is_a_failure(bench: ExecutorBench) -> None:
    class Unreadable:
        def __reduce__(self) -> tuple[Any, ...]:
            return (int, ("no number",))

    task = bench.task(abs, Unreadable())
    bench.run(task)
    failure = failure_of(bench.results(task)[0])
    assert isinstance(failure, TaskFailure)
    assert failure.type_name.endswith("DeserializeObjectError")


def test_a_function_that_cannot_be_read_is_a_failure(bench: ExecutorBench) -> None:
    task = bench.task(bench.store([b"", b"no function"]))
    bench.run(task)
    failure = failure_of(bench.results(task)[0])
    assert isinstance(failure, TaskFailure)
    assert failure.type_name.endswith("DeserializeObjectError")


def test_a_result_that_cannot_be_written_is_a_failure(bench: ExecutorBench) -> None:
    task = bench.task(threading.Lock)
    bench.run(task)
    failure = failure_of(bench.results(task)[0])
    assert isinstance(failure, TaskFailure)
    assert failure.type_name.endswith("SerializeObjectError")


def test_a_small_argument_belongs_to_its_task_alone(bench: ExecutorBench) -> None:
    def change(values: list[int]) -> list[int]:
        values.append(len(values))
        return values

    function, shared = bench.function(change), bench.value([])
    tasks = [bench.task(function, shared) for _ in range(3)]
    bench.run(*tasks)
    assert [value_of(result) for result in bench.results(*tasks)] == [[0]] * 3


# RunCancel


def test_a_cancelled_run_that_waits_never_runs(bench: ExecutorBench, gate: Any) -> None:
    first = bench.task(passing(), gate.path, gate.log, "first")
    unwanted, last = bench.task(noting(), gate.log, "unwanted"), bench.task(noting(), gate.log, "last")
    bench.run(first, unwanted, last)
    bench.until(gate.noted)
    bench.cancel(unwanted)
    assert bench.statuses(unwanted) == [TaskStatus.CANCELED]
    gate.open()
    bench.results(first, last)
    assert gate.noted() == ["first", "last"]


def test_a_cancelled_running_run_is_answered_and_the_worker_continues(bench: ExecutorBench, gate: Any) -> None:
    unwanted, last = bench.task(passing(), gate.path, gate.log, "unwanted"), bench.task(abs, -1)
    bench.run(unwanted, last)
    bench.until(gate.noted)
    bench.cancel(unwanted)
    assert bench.statuses(unwanted) == [TaskStatus.CANCELED]
    assert value_of(*bench.results(last)) == 1


def test_a_cancel_of_a_run_that_has_ended_gives_no_second_result(bench: ExecutorBench) -> None:
    task, never_here = bench.task(abs, -1), bench.task(abs, -1)
    bench.run(task)
    bench.results(task)
    bench.cancel(task, never_here)
    bench.settle()
    assert bench.statuses(task) == [TaskStatus.SUCCESS]
    assert not bench.has_result(never_here)


def test_a_cancelled_run_that_waits_for_others_is_answered(bench: ExecutorBench, gate: Any) -> None:
    bench.needs(ExecutorFeature.WAITS)
    unwanted = bench.task(blocking(), gate.path, gate.log, "unwanted")
    bench.run(unwanted)
    bench.until(lambda: bench.waits_of(unwanted) == ["blocked"])
    bench.cancel(unwanted)
    assert bench.statuses(unwanted) == [TaskStatus.CANCELED]
    gate.open()
    last = bench.task(abs, -1)
    bench.run(last)
    assert value_of(*bench.results(last)) == 1


# RecallRequest


def test_queued_runs_are_given_back_on_recall_and_running_ones_stay(bench: ExecutorBench, gate: Any) -> None:
    first = bench.task(passing(), gate.path, gate.log, "first")
    waiting = [bench.task(noting(), gate.log, "waiting") for _ in range(3)]
    bench.run(first, *waiting)
    bench.until(gate.noted)
    bench.settle()
    bench.recall(first, *waiting[1:])
    bench.until(lambda: len(bench.given_back) >= 2)
    assert sorted(bench.given_back) == sorted((task.task_id, 1) for task in waiting[1:])
    gate.open()
    bench.results(first, waiting[0])
    bench.settle(0.05)
    assert not any(map(bench.has_result, waiting[1:]))
    assert gate.noted() == ["first", "waiting"]
    again = waiting[1]
    again.attempt = 2
    bench.run(again)
    assert bench.statuses(again) == [TaskStatus.SUCCESS]


# Objects


def test_a_task_waits_for_an_object_until_it_is_found(bench: ExecutorBench) -> None:
    task = bench.task(len, bench.value(list(range(1000))))
    bench.answers_needs = False
    bench.run(task)
    answered: set[ObjectId] = set()

    def all_answered() -> bool:
        for object_id in bench.asked:
            if object_id not in answered:
                answered.add(object_id)
                bench.workers[0].send(ObjectFound(bench.stored[object_id]))
        return bench.has_result(task)

    bench.until(all_answered)
    assert value_of(*bench.results(task)) == 1000


def test_only_the_task_whose_object_is_missing_fails(bench: ExecutorBench) -> None:
    nowhere = ObjectId(b"nowhere........!")
    task, other = bench.task(nowhere), bench.task(abs, -1)
    bench.answers_needs = False
    bench.run(task, other)
    answered = 0

    def all_answered() -> bool:
        nonlocal answered
        for object_id in bench.asked[answered:]:
            answered += 1
            stored = bench.stored.get(object_id)
            bench.workers[0].send(ObjectUnavailable(object_id) if stored is None else ObjectFound(stored))
        return bench.has_result(task) and bench.has_result(other)

    bench.until(all_answered)
    [result] = bench.results(task)
    assert result.status == TaskStatus.MISSING_OBJECTS
    assert nowhere.hex() in result.payload.decode()
    assert value_of(*bench.results(other)) == 1


def test_an_object_that_is_lost_is_asked_for_once_more(bench: ExecutorBench) -> None:
    task = bench.task(len, bench.value("late", ObjectId(b"here in a moment")))
    bench.answers_needs = False
    bench.run(task)
    answered = 0

    def all_answered() -> bool:
        nonlocal answered
        for object_id in bench.asked[answered:]:
            is_first = object_id not in bench.asked[:answered]
            answered += 1
            lost = is_first and object_id == b"here in a moment"
            bench.workers[0].send(ObjectUnavailable(object_id) if lost else ObjectFound(bench.stored[object_id]))
        return bench.has_result(task)

    bench.until(all_answered)
    assert value_of(*bench.results(task)) == 4


def test_a_forgotten_object_is_fetched_again_on_demand(bench: ExecutorBench) -> None:
    first = bench.task(len, bench.value("one", ObjectId(b"the same id.....")))
    bench.run(first)
    assert value_of(*bench.results(first)) == 3
    bench.workers[0].send(ForgetObjects([ObjectId(b"the same id.....")]))
    second = bench.task(len, bench.value("seven", ObjectId(b"the same id.....")))
    bench.run(second)
    assert value_of(*bench.results(second)) == 5


def test_a_running_task_keeps_its_forgotten_or_collected_objects(bench: ExecutorBench, gate: Any) -> None:
    def wait_and_count(path: str, log: str, values: list[int]) -> int:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write("begun\n")
        while not Path(path).exists():
            time.sleep(0.005)
        return len(values)

    numbers = bench.value([1] * 10_000)
    first = bench.task(wait_and_count, gate.path, gate.log, numbers)
    behind = bench.task(len, bench.value([2] * 20_000))
    bench.run(first, behind)
    bench.until(gate.noted)
    for _ in range(3):
        bench.workers[0].send(CollectionDue())
    bench.workers[0].send(ForgetObjects([first.function_id, numbers.object_id, behind.function_id]))
    gate.open()
    assert [value_of(result) for result in bench.results(first, behind)] == [10_000, 20_000]


# RunBlocked and RunUnblocked


def test_a_blocked_run_gives_up_its_slot_and_takes_it_again(bench: ExecutorBench, gate: Any) -> None:
    bench.needs(ExecutorFeature.WAITS)
    parent, child = bench.task(blocking(), gate.path, gate.log, "parent"), bench.task(noting(), gate.log, "child")
    bench.run(parent)
    bench.until(lambda: bench.waits_of(parent) == ["blocked"])
    bench.run(child)
    bench.results(child)
    assert not bench.has_result(parent)
    gate.open()
    assert value_of(*bench.results(parent)) == "parent"
    assert bench.waits_of(parent) == ["blocked", "unblocked"]


def test_a_blocked_run_resumes_when_its_slot_is_free(bench: ExecutorBench, gate: Any, tmp_path: Path) -> None:
    bench.needs(ExecutorFeature.WAITS)
    parent = bench.task(blocking(), gate.path, gate.log, "parent")
    bench.run(parent)
    bench.until(lambda: bench.waits_of(parent) == ["blocked"])
    other_gate = str(tmp_path / "other")
    child = bench.task(passing(), other_gate, gate.log, "child")
    bench.run(child)
    bench.until(lambda: gate.noted() == ["parent", "child"])
    gate.open()
    bench.settle()
    assert not bench.has_result(parent)
    assert bench.waits_of(parent) == ["blocked"]
    Path(other_gate).touch()
    bench.results(child, parent)
    assert bench.waits_of(parent) == ["blocked", "unblocked"]


def test_a_wait_that_is_given_up_needs_no_place(bench: ExecutorBench, gate: Any) -> None:
    bench.needs(ExecutorFeature.WAITS)

    def give_up(log: str) -> str:
        with task_context.current.wait(None, lambda: False, 0.1):
            while not Path(log).exists():
                time.sleep(0.005)
        return "gave up"

    parent, child = bench.task(give_up, gate.log), bench.task(passing(), gate.path, gate.log, "child")
    bench.run(parent)
    bench.until(lambda: bench.waits_of(parent) == ["blocked"])
    bench.run(child)
    assert value_of(*bench.results(parent)) == "gave up"
    assert not bench.has_result(child)
    gate.open()
    bench.results(child)


def test_any_depth_works_on_one_worker(bench: ExecutorBench, tmp_path: Path) -> None:
    bench.needs(ExecutorFeature.WAITS)
    depth = 12
    gates = [str(tmp_path / f"gate{index}") for index in range(depth)]
    log = str(tmp_path / "log")
    function = bench.function(blocking())
    tasks = [bench.task(function, gate, log, str(index), priority=index) for index, gate in enumerate(gates)]
    for task in tasks:
        bench.run(task)
        bench.until(lambda task=task: bench.waits_of(task) == ["blocked"])
    for gate, task in zip(reversed(gates), reversed(tasks), strict=True):
        Path(gate).touch()
        bench.results(task)
    assert [bench.waits_of(task) for task in tasks] == [["blocked", "unblocked"]] * depth


def test_a_task_that_runs_for_longer_than_its_options_allow_has_timed_out(bench: ExecutorBench, gate: Any) -> None:
    late = replace(bench.task(passing(), gate.path, gate.log, "late"), options=RunOptions(timeout_ms=100).encode())
    in_time = replace(bench.task(abs, -1), options=RunOptions(timeout_ms=60_000).encode())
    bench.run(late, in_time)
    assert bench.statuses(late, in_time) == [TaskStatus.TIMED_OUT, TaskStatus.SUCCESS]
    assert "its limit of 0.1 s (its option timeout)" in bench.results(late)[0].payload.decode()


def test_a_run_is_measured_if_its_options_ask_for_it_and_not_otherwise(bench: ExecutorBench) -> None:
    measured = replace(bench.task(time.sleep, 0.01), options=RunOptions(profiling=True).encode())
    plain = bench.task(abs, -1)
    bench.run(measured, plain)
    first, second = bench.results(measured, plain)
    assert [value_of(first), value_of(second)] == [None, 1]
    assert len(first.profile) == PROFILE.size
    assert PROFILE.unpack(first.profile)[0] >= 10_000, "microseconds of wall time"
    assert second.profile == b""


def test_options_that_an_executor_does_not_know_are_left_aside(bench: ExecutorBench) -> None:
    capabilities = (("licence", 1),)
    options = RunOptions(at_most_once=True, retries=3, capabilities=capabilities).encode()
    task = replace(bench.task(abs, -1), options=options)
    bench.run(task)
    assert value_of(*bench.results(task)) == 1


def test_a_task_finds_its_priority_and_account_the_scheduler_and_the_token_of_its_agent(bench: ExecutorBench) -> None:
    def look_around() -> tuple[Any, ...]:
        here = task_context.current
        return here.address, here.agent_token, here.child_priority, here.account, here.task > 0

    task = bench.task(look_around, priority=4, account=(7, 8))
    bench.run(task)
    assert value_of(*bench.results(task)) == (ADDRESS, AGENT_TOKEN, of_child(4), (7, 8), True)


# The agent's thread


def test_the_agent_runs_no_task_itself_and_keeps_working_while_one_computes(bench: ExecutorBench, gate: Any) -> None:
    def compute(path: str, log: str) -> tuple[int, int]:
        Path(log).write_text("begun\n", encoding="utf-8")
        while not Path(path).exists():
            sum(range(10_000))
        return os.getpid(), threading.get_ident()

    task, behind = bench.task(compute, gate.path, gate.log), bench.task(abs, -1)
    bench.run(task, behind)
    bench.until(gate.noted)
    bench.settle(0.05)
    bench.cancel(behind)
    assert bench.statuses(behind) == [TaskStatus.CANCELED]
    assert not bench.has_result(task)
    gate.open()
    assert value_of(*bench.results(task)) != (os.getpid(), threading.get_ident())


# The end


def test_the_end_leaves_no_thread_no_process_and_no_descriptor(
    new_bench: Callable[..., ExecutorBench], gate: Any
) -> None:
    before = held()
    bench = new_bench(2)
    done = [bench.task(abs, -1, worker=index) for index in range(2)]
    bench.run(*done)
    bench.results(*done)
    waits = bench.task(blocking() if ExecutorFeature.WAITS in bench.parts else passing(), gate.path, gate.log, "waits")
    runs = bench.task(passing(), gate.path, gate.log, "runs")
    behind = bench.task(noting(), gate.log, "behind")
    bench.run(waits)
    bench.until(lambda: ExecutorFeature.WAITS not in bench.parts or bench.waits_of(waits) == ["blocked"])
    runs.worker = behind.worker = 0 if ExecutorFeature.WAITS in bench.parts else 1
    bench.run(runs, behind)
    bench.until(lambda: sorted(gate.noted()) == ["runs", "waits"])
    bench.end()
    gate.open()
    wait_for_nothing_new(before, 10)
    assert sorted(gate.noted()) == ["runs", "waits"]
