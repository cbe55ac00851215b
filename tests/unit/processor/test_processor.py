"""Processor: a real process, driven over its channel: results, unusual exceptions, objects, progress."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from scaler.amounts import GPUS_VARIABLE
from scaler.client.client import Client
from scaler.ids import ObjectId, TaskId, content_id
from scaler.pickling.serialization import (
    INLINE_BYTES,
    VALUE,
    Serializer,
    argument_block,
    function_to_frames,
    to_frames,
)
from scaler.processor import uplink
from scaler.processor.channel import Channel, ChannelClosedError
from scaler.processor.execution.task_context import ProcessorSpec
from scaler.processor.lifecycle.limits import CHECK_BYTES
from scaler.processor.processor import Processor, VisibleDevices, numbers_of
from scaler.processor.progress_page import ProgressPage, new_progress_page
from scaler.settings import ClusterConfig
from scaler.wire.codec.codec import decode
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import PROFILE, InstructionKind, ObjectInstruction, ObjectResponse, TaskStatus
from scaler.wire.messages.directions import PROCESSOR_TO_AGENT
from scaler.wire.messages.priority import of_child
from scaler.wire.messages.processor import CollectGarbage
from scaler.wire.messages.rows import pack
from scaler.wire.messages.worker import RunResult, RunTask
from tests.support.processes import alive, wait_until
from tests.support.processor import DEFAULT, Driver, Reference, failure_of, value_of

pytestmark = pytest.mark.processes

MEASURED = RunOptions(profiling=True).encode()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("processor"))
    yield driver
    driver.close()


def test_a_task_gets_the_arguments_of_its_call_and_returns_its_value(driver: Driver) -> None:
    def call(*positional: Any, **keywords: Any) -> Any:
        return positional, keywords

    assert value_of(driver.call(call, 1, "two", three=[3], four=None)) == ((1, "two"), {"three": [3], "four": None})


def test_a_small_result_is_in_the_payload_and_a_large_one_in_frames(driver: Driver) -> None:
    result = driver.call(lambda: "small")
    assert result.payload
    assert not result.frames
    result = driver.call(lambda: bytearray(INLINE_BYTES + 1))
    assert not result.payload
    assert value_of(result) == bytearray(INLINE_BYTES + 1)


def test_large_results_reach_the_agent(driver: Driver) -> None:
    result = driver.call(lambda: [b"x" * 1_000_000, bytearray(2_000_000)])
    assert value_of(result) == [b"x" * 1_000_000, bytearray(2_000_000)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much memory is left")
def test_a_result_too_large_to_copy_fails_its_task_and_the_process_continues(driver: Driver) -> None:
    def with_little_memory() -> pickle.PickleBuffer:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + 150_000_000
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        return pickle.PickleBuffer(bytes(80_000_000))

    def with_all() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    failure = failure_of(driver.call(with_little_memory))
    assert failure.type_name == "scaler.errors.ObjectTooLargeError"
    assert failure.text.startswith("its result is too large: it has 80,000,")
    assert "the host of worker w takes at most" in failure.text
    assert driver.call(with_all).status == TaskStatus.SUCCESS
    assert driver.call(lambda: bytes(CHECK_BYTES)).status == TaskStatus.SUCCESS


def test_the_duration_of_a_result_is_measured_over_the_call(driver: Driver) -> None:
    result = driver.call(lambda: time.sleep(0.02))
    assert 20_000 <= result.duration_us < 1_000_000


def test_the_failure_of_a_task_has_its_exception_and_traceback(driver: Driver) -> None:
    def inner() -> None:
        raise LookupError("nothing here")

    def outer() -> None:
        inner()

    failure = failure_of(driver.call(outer))
    assert (failure.type_name, failure.text) == ("LookupError", "nothing here")
    assert "in inner" in failure.traceback
    assert "in outer" in failure.traceback
    assert "scaler/processor" not in failure.traceback
    assert str(pickle.loads(failure.exception)) == "nothing here"


def test_cause_of_an_exception_is_shown(driver: Driver) -> None:
    def fail() -> None:
        try:
            {}["x"]
        except KeyError as error:
            raise ValueError("outer") from error

    assert "KeyError" in failure_of(driver.call(fail)).traceback


def raise_unpicklable() -> None:
    class UnpicklableError(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("not me")

    raise UnpicklableError("text")


def raise_unreadable() -> None:
    class UnreadableError(Exception):
        def __new__(cls, one: int, two: int) -> Any:
            return super().__new__(cls, one, two)

        def __init__(self, one: int, two: int) -> None:
            super().__init__(one + two)

    raise UnreadableError(1, 2)


def raise_with_arguments_of_its_own() -> None:
    class NeedsTwoError(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__("needs two")

    raise NeedsTwoError(1, 2)


def raise_with_bad_text() -> None:
    class BadError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    raise BadError


def raise_with_surrogates() -> None:
    raise ValueError("\udcff\0 tail")


def raise_with_endless_text() -> None:
    raise ValueError("x" * 10_000_000)


def raise_chain() -> None:
    error: BaseException = ValueError("first")
    for index in range(3000):
        following = ValueError(str(index))
        following.__cause__ = error
        error = following
    raise error


def raise_ring() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__context__, two.__context__ = two, one
    raise one


def recurse() -> None:
    recurse()


def raise_with_evil_getattr() -> None:
    class EvilError(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise SystemExit(name)

    raise EvilError


def raise_memory_error() -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("function", "type_name", "travels"),
    [
        (raise_unpicklable, "UnpicklableError", False),
        (raise_with_arguments_of_its_own, "NeedsTwoError", True),
        (raise_unreadable, "UnreadableError", False),
        (raise_with_bad_text, "BadError", True),
        (raise_with_surrogates, "ValueError", True),
        (raise_with_endless_text, "ValueError", False),
        (raise_chain, "ValueError", True),
        (raise_ring, "ValueError", True),
        (recurse, "RecursionError", True),
        (raise_memory_error, "MemoryError", True),
        (raise_with_evil_getattr, "EvilError", False),
        (lambda: sys.exit(3), "SystemExit", True),
        (lambda: (_ for _ in ()).throw(KeyboardInterrupt), "KeyboardInterrupt", True),
        (lambda: (_ for _ in ()).throw(BaseException("base")), "BaseException", True),
        (lambda: (_ for _ in ()).throw(GeneratorExit), "GeneratorExit", True),
    ],
)
def test_unusual_exceptions_fail_only_their_task(
    driver: Driver, function: Callable[..., Any], type_name: str, travels: bool
) -> None:
    failure = failure_of(driver.call(function))
    assert failure.type_name.endswith(type_name)
    assert len(failure.text) < 100_000
    assert bool(failure.exception) is travels
    assert value_of(driver.call(lambda: 1)) == 1


def test_result_that_cannot_be_pickled_fails_the_task(driver: Driver) -> None:
    failure = failure_of(driver.call(lambda: (each for each in ())))
    assert failure.type_name == "scaler.errors.SerializeObjectError"
    assert "generator" in failure.text


def test_an_unreadable_function_fails_its_task_and_is_read_again_for_the_next(driver: Driver) -> None:
    function_id = driver.store([b"", b"not a pickle"])
    for _ in range(2):
        driver.send(driver.task(function_id))
        [result] = driver.results(1)
        assert failure_of(result).type_name == "scaler.errors.DeserializeObjectError"


def test_argument_that_cannot_be_read_fails_the_task(driver: Driver) -> None:
    task = driver.task(driver.function(len))
    driver.send(RunTask(task.task_id, 0, 1, task.function_id, argument_block(VALUE, b"not a pickle"), b""))
    assert failure_of(driver.results(1)[0]).type_name == "scaler.errors.DeserializeObjectError"
    driver.send(RunTask(task.task_id, 0, 1, task.function_id, b"\xff\xff\xff", b""))
    failure_of(driver.results(1)[0])


def test_small_object_is_new_for_each_task(driver: Driver) -> None:
    """The next task does not see what a task does to its argument."""
    reference = Reference(driver.store(to_frames(DEFAULT, [1])))

    def change(value: list[int]) -> list[int]:
        value.append(2)
        return value

    assert [value_of(driver.call(change, reference)) for _ in range(2)] == [[1, 2]] * 2


def test_large_object_is_read_once(driver: Driver) -> None:
    reference = Reference(driver.store(to_frames(DEFAULT, list(range(100_000)))))
    first, second = (value_of(driver.call(id, reference)) for _ in range(2))
    assert first == second


def test_a_deleted_object_cannot_be_read(driver: Driver) -> None:
    reference = Reference(driver.store(to_frames(DEFAULT, list(range(100_001)))))
    driver.call(len, reference)
    driver.send(ObjectInstruction(InstructionKind.DELETE, reference.object_id, "", ()))
    assert failure_of(driver.call(len, reference)).type_name == "KeyError"


def test_own_serializer_is_used_for_arguments_and_result(driver: Driver) -> None:
    class Reversed(Serializer):
        def serialize(self, obj: Any) -> bytes:
            return bytes(cloudpickle.dumps(obj))[::-1]

        def deserialize(self, payload: bytes) -> Any:
            return pickle.loads(payload[::-1])

    serializer = Reversed()
    task = driver.task(driver.function(lambda number: number + 1, serializer))
    block = argument_block(VALUE, serializer.serialize(41))
    driver.send(RunTask(task.task_id, 0, 1, task.function_id, block, b""))
    [result] = driver.results(1)
    assert serializer.deserialize(result.payload) == 42


def test_results_of_many_tasks_arrive_in_order(driver: Driver) -> None:
    function_id = driver.function(lambda number: number)
    tasks = [driver.task(function_id, number) for number in range(1000)]
    driver.send(*tasks)
    results = driver.results(1000)
    assert [result.task_id for result in results] == [task.task_id for task in tasks]
    assert [value_of(result) for result in results] == list(range(1000))


@pytest.mark.parametrize("blocker", ["sleeps", "computes"])
def test_finished_result_does_not_wait_for_a_running_task(driver: Driver, blocker: str) -> None:
    def block() -> None:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            if blocker == "sleeps":
                time.sleep(0.1)

    quick, slow = driver.function(int), driver.function(block)
    driver.send(driver.task(quick), driver.task(slow))
    driver.arrived.clear()
    driver.results(2)
    (first, _), (second, _) = driver.arrived
    assert second - first > 0.3


def wait_for_file(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.001)


def test_withheld_tasks_are_answered_but_not_started(driver: Driver, tmp_path: Path) -> None:
    driver.call(lambda: 0)
    gate, marker = tmp_path / "gate", tmp_path / "marker"
    started, never = driver.function(wait_for_file), driver.function(marker.touch)
    driver.send(driver.task(started, str(gate)), driver.task(never), driver.task(never))
    executing = wait_until(lambda: driver.progress.executing, "the first one is executed")
    driver.progress.withhold(executing, executing + 2)
    gate.touch()
    results = driver.results(3)
    assert [result.status for result in results] == [TaskStatus.SUCCESS, TaskStatus.CANCELED, TaskStatus.CANCELED]
    assert not marker.exists()
    assert value_of(driver.call(lambda: 5)) == 5  # later tasks have other numbers


def sleep_in_c() -> None:
    time.sleep(60)


def spin() -> None:
    while True:
        pass


def wait_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def wait_for_a_socket() -> None:
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.recv(1)


def run_a_coroutine() -> None:
    import asyncio

    asyncio.run(asyncio.sleep(60))


@pytest.mark.parametrize("function", [sleep_in_c, spin, wait_for_a_lock, wait_for_a_socket, run_a_coroutine, "sleep"])
def test_an_interrupted_task_ends_at_once_and_the_processor_continues(driver: Driver, function: Any) -> None:
    number = driver.start(time.sleep, 60) if function == "sleep" else driver.start(function)
    started_at = time.monotonic()
    driver.interrupt_until_over(number)
    [result] = driver.results(1)
    assert (result.status, result.frames) == (TaskStatus.CANCELED, ())
    assert time.monotonic() - started_at < 20
    where = result.payload.decode()  # in the task, and neither above nor below it
    assert "scaler/processor" not in where
    assert where.startswith(f'  File "{__file__}", line') if function != "sleep" else where == ""
    assert not driver.progress.is_interrupt_due
    assert value_of(driver.call(os.getpid)) == driver.process.pid


def end_in_order(folder: str) -> None:
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(Path(folder, "with").touch)
            try:
                Path(folder, "started").touch()
                time.sleep(60)
            except Exception:  # noqa: BLE001 - as users do
                Path(folder, "exception").touch()
    finally:
        time.sleep(0.05)  # is not interrupted again
        Path(folder, "finally").touch()


def test_an_interrupted_task_runs_its_finally_and_with_blocks(driver: Driver, tmp_path: Path) -> None:
    number = driver.start(end_in_order, str(tmp_path))
    wait_until((tmp_path / "started").exists, "the task is in its block")
    driver.interrupt_until_taken(number)
    for _ in range(10):
        driver.interrupt(number)
    assert driver.results(1)[0].status == TaskStatus.CANCELED
    assert sorted(path.name for path in tmp_path.iterdir()) == ["finally", "started", "with"]


def return_all_the_same(inside: Path) -> str:
    try:
        inside.touch()
        time.sleep(60)
    except BaseException:  # noqa: BLE001 - as users do
        return "a result"
    return ""


def raise_something_else(inside: Path) -> None:
    try:
        inside.touch()
        time.sleep(60)
    finally:
        raise ValueError("in finally")


@pytest.mark.parametrize("function", [return_all_the_same, raise_something_else])
def test_the_value_or_exception_of_an_interrupted_task_is_dropped(
    driver: Driver, function: Callable[..., Any], tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    number = driver.start(function, inside)
    wait_until(inside.exists, "the task is in its block")
    driver.interrupt_until_taken(number)
    result = driver.results(1)[0]
    assert (result.status, result.frames) == (TaskStatus.CANCELED, ())


def test_a_signal_for_another_task_interrupts_no_task(driver: Driver) -> None:
    driver.call(int)
    for meant in (0, 1, 1_000_000):
        driver.interrupt(meant)
        driver.start(lambda: time.sleep(0.2))
        driver.interrupt(meant)
        assert driver.results(1)[0].status == TaskStatus.SUCCESS
    driver.progress.interrupt(0)


def test_an_interrupt_never_reaches_the_next_task(driver: Driver) -> None:
    """Signals arrive at any time, as fast as possible, for the executing task, and do no other harm."""
    is_over = threading.Event()

    def interrupt_all_the_time() -> None:
        while not is_over.is_set():
            if number := driver.progress.executing:
                driver.interrupt(number)

    function = driver.function(lambda n: sum(range(n)))
    counts = {TaskStatus.SUCCESS: 0, TaskStatus.CANCELED: 0}
    thread = threading.Thread(target=interrupt_all_the_time)
    thread.start()
    try:
        for _ in range(20):
            tasks = [driver.task(function, 1000 * (number % 3)) for number in range(400)]
            driver.send(*tasks)
            results = driver.results(400)
            assert [result.task_id for result in results] == [task.task_id for task in tasks]
            for position, result in enumerate(results):
                counts[TaskStatus(result.status)] += 1
                assert result.status == TaskStatus.CANCELED or value_of(result) == sum(range(1000 * (position % 3)))
    finally:
        is_over.set()
        thread.join()
    assert all(counts.values()), counts
    assert value_of(driver.call(os.getpid)) == driver.process.pid


def test_an_import_is_finished_before_the_interrupt(driver: Driver, tmp_path: Path) -> None:
    mark = tmp_path / "starts"
    (tmp_path / "slow_module.py").write_text(
        f"import time\nopen({str(mark)!r}, 'w').close()\nfor _ in range(30): time.sleep(0.01)\n"
    )

    def import_it(folder: str) -> None:
        sys.path.insert(0, folder)
        import slow_module  # type: ignore[import-not-found]  # noqa: F401

        time.sleep(60)

    number = driver.start(import_it, str(tmp_path))
    wait_until(mark.exists, "the import has started")
    driver.interrupt_until_over(number)
    assert driver.results(1)[0].status == TaskStatus.CANCELED
    assert value_of(driver.call(lambda: "slow_module" in sys.modules))


def test_a_client_that_is_being_created_is_finished_before_the_interrupt(driver: Driver, tmp_path: Path) -> None:
    """The client waits for its thread to start; an interrupt at that point would leave an incomplete client."""
    mark = tmp_path / "starts"

    def make_one(mark: str) -> None:
        class SlowToStart(threading.Thread):
            def _bootstrap(self) -> None:
                Path(mark).touch()
                time.sleep(0.3)
                super()._bootstrap()  # type: ignore[misc]

        usual, threading.Thread = threading.Thread, SlowToStart  # type: ignore[misc]
        try:
            sys.made = Client()  # type: ignore[attr-defined]
        finally:
            threading.Thread = usual  # type: ignore[misc]
        time.sleep(60)

    number = driver.start(make_one, str(mark))
    wait_until(mark.exists, "its thread is about to start")
    driver.interrupt_until_over(number)
    assert driver.results(1)[0].status == TaskStatus.CANCELED
    assert value_of(driver.call(lambda: sys.made.identity == Client().identity))  # type: ignore[attr-defined]


def test_the_processor_ends_if_an_interrupted_task_left_child_processes(tmp_path: Path) -> None:
    driver = Driver(tmp_path)

    def start_child() -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
        (tmp_path / "pid").write_text(f"{child.pid}\n")
        child.wait()

    number = driver.start(start_child)
    wait_until(
        lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"), "the task has a child"
    )
    driver.interrupt_until_taken(number)
    assert driver.results(1)[0].status == TaskStatus.CANCELED
    assert driver.process.wait(20) == 0
    child = int((tmp_path / "pid").read_text())
    assert alive(child)  # no fork server kills the group here
    os.kill(child, signal.SIGKILL)
    driver.close()


def test_progress_page_shows_which_task_is_executed(driver: Driver, tmp_path: Path) -> None:
    driver.call(lambda: 0)
    gates = [tmp_path / name for name in "abc"]
    function = driver.function(wait_for_file)
    driver.send(*(driver.task(function, str(gate)) for gate in gates))
    first = wait_until(lambda: driver.progress.executing, "the first one is executed")
    for number, gate in enumerate(gates, first):
        wait_until(lambda number=number: driver.progress.executing == number, "the next one is executed")
        gate.touch()
    driver.results(3)
    wait_until(lambda: not driver.progress.executing, "no task is executed")


def test_progress_page_shows_when_a_task_started(driver: Driver) -> None:
    before = time.monotonic()
    number = driver.start(lambda: time.sleep(0.2))
    assert 0 <= driver.progress.ran_seconds(number, time.monotonic()) <= time.monotonic() - before
    driver.results(1)


def profile_of(result: RunResult) -> tuple[int, int, int]:
    duration_us, cpu_us, peak_bytes = PROFILE.unpack(result.profile)
    return duration_us, cpu_us, peak_bytes


def test_a_profile_is_measured_only_on_request(driver: Driver) -> None:
    function = driver.function(lambda: bytearray(b"x") * 50_000_000 and time.sleep(0.1))
    plain = driver.task(function)
    profiled = dataclasses.replace(driver.task(function), options=MEASURED)
    driver.send(plain, profiled, plain)
    before, measured, after = driver.results(3)
    assert (before.profile, after.profile) == (b"", b"")
    assert before.status == measured.status == TaskStatus.SUCCESS
    duration_us, _, peak_bytes = profile_of(measured)
    assert duration_us >= 100_000
    assert 45_000_000 < peak_bytes < 60_000_000


def test_a_task_that_raises_or_is_interrupted_has_a_profile(driver: Driver, tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError

    driver.send(dataclasses.replace(driver.task(driver.function(fail)), options=MEASURED))
    [failed] = driver.results(1)
    assert "scaler/processor" not in failure_of(failed).traceback
    assert profile_of(failed)[0] < 1_000_000
    mark = tmp_path / "mark"

    def rest() -> None:
        time.sleep(0.05)
        mark.touch()
        time.sleep(60)

    driver.send(dataclasses.replace(driver.task(driver.function(rest)), options=MEASURED))
    wait_until(mark.exists, "the task has run for some time")
    number = driver.progress.executing
    driver.interrupt_until_over(number)
    [interrupted] = driver.results(1)
    assert interrupted.status == TaskStatus.CANCELED
    where = interrupted.payload.decode()
    assert "in rest" in where
    assert "scaler/processor" not in where
    assert 50_000 < profile_of(interrupted)[0] < 30_000_000


def test_a_function_that_cannot_be_read_has_no_profile(driver: Driver) -> None:
    function_id = driver.store([b"", b"no pickle"])
    driver.send(dataclasses.replace(driver.task(function_id), options=MEASURED))
    assert driver.results(1)[0].profile == b""


def test_prints_and_log_records_of_a_task_are_in_the_log(driver: Driver) -> None:
    def speak() -> None:
        import logging

        print("printed text", end="")
        print("complaint", file=sys.stderr)
        logging.getLogger("user").warning("logged text")

    driver.call(speak)
    log = Path(f"{driver.log}.w").read_text()
    assert "[INFO]" in log
    for text in ("printed text", "complaint", "logged text"):
        assert text in log


def test_a_task_that_closes_its_streams_does_not_affect_the_next_task(driver: Driver) -> None:
    driver.call(lambda: (sys.stdout.close(), None)[1])
    assert value_of(driver.call(lambda: 1)) == 1


def test_scheduler_of_the_task_is_in_the_environment(driver: Driver) -> None:
    assert value_of(driver.call(lambda: os.environ["SCALER_ADDRESS"])) == "tcp://127.0.0.1:1"


def test_an_idle_processor_uses_no_cpu(driver: Driver) -> None:
    import psutil

    driver.call(lambda: 0)
    driver.call(lambda: time.sleep(0.1))
    process = psutil.Process(driver.process.pid)
    switches = process.num_ctx_switches().voluntary
    driver.process.poll()
    with pytest.raises(subprocess.TimeoutExpired):
        driver.process.wait(0.5)
    assert process.num_ctx_switches().voluntary - switches <= 12  # the flusher's last ticks


def test_processor_ends_with_the_channel(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.close()
    assert driver.process.returncode == 0


def test_death_closes_the_channel(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.send(driver.task(driver.function(lambda: 7)), driver.task(driver.function(lambda: os._exit(3))))
    try:
        while True:
            driver.results(10)
    except ChannelClosedError:
        pass
    assert driver.progress.executing == 2
    assert driver.process.wait(20) == 3
    driver.close()


@pytest.mark.parametrize(
    ("function", "said", "waits"),
    [
        (time.sleep, {}, True),
        (time.sleep, {"rows": 0}, False),
        (time.sleep, {"priority": of_child(0)}, False),
        (partial(int, "x"), {}, False),
    ],
    ids=["waits", "alone", "of a task that waits", "failed"],
)
def test_only_results_of_ranges_without_failures_wait_to_be_sent_together(
    function: Any, said: dict[str, Any], waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process and no time limits: otherwise the order of messages would depend on the machine."""
    for limit in ("SEND_AFTER_NS", "SEND_AT_ONCE_US", "BATCH_NS"):
        monkeypatch.setattr(uplink, limit, 10**12)
    ours, theirs = socket.socketpair()
    agent, page = Channel(ours), new_progress_page()
    progress = ProgressPage(page)
    spec = ProcessorSpec(7, bytes(16), worker="w")
    processor = Processor(Channel(theirs), progress, spec, ClusterConfig("tcp://127.0.0.1:1", 1))
    frames = function_to_frames(DEFAULT, partial(function, 0.0))
    function_id = content_id(frames)
    processor._store(Batch[ObjectResponse]([ObjectResponse(function_id, 1, frames)]))
    rows = said.pop("rows", 2)
    task = RunTask(TaskId(bytes(16)), 0, 1, function_id, pack([b""] * rows), b"", rows=rows, **said)
    processor._run_tasks(Batch[RunTask]([task]))
    assert agent.has_input() is not waits
    processor._uplink.send_results()
    assert agent.has_input()
    agent.close()
    processor._uplink.detach()
    progress.close()
    os.close(page)


def test_a_result_is_sent_before_the_last_assigned_range_starts() -> None:
    ours, theirs = socket.socketpair()
    agent, page = Channel(ours), new_progress_page()
    progress = ProgressPage(page)
    spec = ProcessorSpec(7, bytes(16), worker="w")
    processor = Processor(Channel(theirs), progress, spec, ClusterConfig("tcp://127.0.0.1:1", 1))
    frames = function_to_frames(DEFAULT, partial(time.sleep, 0.009))
    function_id = content_id(frames)
    processor._store(Batch[ObjectResponse]([ObjectResponse(function_id, 1, frames)]))
    tasks = [RunTask(TaskId(bytes([number]) * 16), 0, 1, function_id, pack([b""]), b"", rows=1) for number in range(2)]
    processor._run_tasks(Batch[RunTask](tasks))
    assert agent.has_input()
    (header, content), *_ = agent.receive()
    assert [item.task_id for batch in decode(PROCESSOR_TO_AGENT, header, content) for item in batch] == [bytes(16)]
    agent.close()
    processor._uplink.detach()
    progress.close()
    os.close(page)


def test_garbage_is_collected_on_request_of_the_agent(driver: Driver, tmp_path: Path) -> None:
    def leave_a_cycle(path: str) -> None:
        class Cycle:
            def __init__(self) -> None:
                self.own = self

            def __del__(self) -> None:
                Path(path).touch()

        gc.collect()  # otherwise the cycle may be collected by chance
        Cycle()

    collected = tmp_path / "collected"
    gc.disable()  # otherwise this process may collect it by chance
    try:
        value_of(driver.call(leave_a_cycle, str(collected)))
        assert not collected.exists()
        driver.send(CollectGarbage(0))
        value_of(driver.call(len, "behind it"))
    finally:
        gc.enable()
    assert collected.exists()


def test_the_options_of_a_task_have_the_numbers_of_its_devices() -> None:
    plain = RunTask(TaskId(bytes(16)), 0, 1, ObjectId(bytes(16)), b"", b"")
    assert numbers_of(plain) == ()
    plain.options = RunOptions(devices=(1, 3)).encode()  # type: ignore[misc]
    assert numbers_of(plain) == (1, 3)


@pytest.mark.parametrize(
    ("before", "shown"), [(None, "1,2"), ("7,8,9", "8,9"), ("GPU-a,GPU-b", "GPU-b,2"), ("3, 3,4,5", "4,5"), ("", "1,2")]
)
def test_device_numbers_are_in_the_environment_only_while_they_are_shown(
    monkeypatch: pytest.MonkeyPatch, before: str | None, shown: str
) -> None:
    if before is None:
        monkeypatch.delenv(GPUS_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(GPUS_VARIABLE, before)
    devices = VisibleDevices()
    devices.show((1, 2))
    assert os.environ[GPUS_VARIABLE] == shown
    devices.show(())
    assert os.environ.get(GPUS_VARIABLE) == before


def test_a_process_cannot_change_its_visible_devices() -> None:
    devices = VisibleDevices()
    assert devices.can_run((0,))
    devices.show((1,))
    devices.show(())
    assert devices.can_run(())
    assert devices.can_run((1,))
    assert not devices.can_run((0,))
    assert not devices.can_run((0, 1))
