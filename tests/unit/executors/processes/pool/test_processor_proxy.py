"""ProcessorProxy with real processes: their deaths, cancels, and the tasks and objects sent to them."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from scaler.executors.messages import CachedObject
from scaler.executors.processes.messages import ProcessStarted
from scaler.executors.processes.pool.processor_proxy import ProcessorProxy
from scaler.executors.processes.slot.cancellation import GRACE_SECONDS
from scaler.ids import TaskId, content_id
from scaler.pickling.serialization import DefaultSerializer, function_to_frames
from scaler.processor.channel import Channel
from scaler.settings.functions import initializer_text
from scaler.shared_memory import SharedBlock
from scaler.wire.codec.codec import encode
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.directions import PROCESSOR_TO_AGENT
from scaler.wire.messages.worker import RunCancel, RunResult, RunTask
from tests.support.node import Node

pytestmark = pytest.mark.processes


def sleep_for_ever() -> None:
    while True:
        time.sleep(100)


def spin() -> None:
    while True:
        pass


def die_by_signal() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_result_that_the_agent_cannot_map_fails_only_its_task(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(_block: SharedBlock, _remember: bool) -> list[memoryview]:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(SharedBlock, "map", no_memory)
    large, small = node.task(lambda: bytes(1_000_000)), node.task(int)
    node.run(node.task(int), large, small)
    node.until(lambda: len(node.results) == 3)
    assert node.statuses() == [TaskStatus.SUCCESS, TaskStatus.PROCESSOR_DIED, TaskStatus.SUCCESS]
    assert b"its result was lost: 1,000,0" in bytes(node.results[1].payload)
    assert b"cannot be mapped: Cannot allocate memory" in bytes(node.results[1].payload)


def test_an_object_that_a_processor_cannot_map_fails_only_its_task(node: Node) -> None:
    node.run(node.task(int))
    node.until(lambda: len(node.results) == 1)
    task = node.task(bool)
    node.stored[task.function_id] = CachedObject(task.function_id, (), SharedBlock.of([b"", b""]))
    node.run(task, node.task(int))
    node.until(lambda: len(node.results) == 3)
    assert node.statuses() == [TaskStatus.SUCCESS, TaskStatus.PROCESSOR_DIED, TaskStatus.SUCCESS]
    assert b"it could not map an object that the task needs" in bytes(node.results[1].payload)


def test_the_start_of_a_processor_is_logged_with_its_pid_if_the_fork_server_reports_late(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started, late = ProcessorProxy.handlers[ProcessStarted], []

    def be_late(self: ProcessorProxy, news: ProcessStarted) -> None:
        if self._is_ready:
            started(self, news)
        else:
            late.append(news.pid)
            self.schedule(0.01, news)

    monkeypatch.setitem(ProcessorProxy.handlers, ProcessStarted, be_late)
    caplog.set_level("INFO")
    node = Node()
    try:
        node.run(node.task(int))
        node.until(lambda: node.results)
    finally:
        node.close()
    assert f"processor {late[0]} started" in caplog.text


def test_an_initializer_killed_before_its_pid_is_known_did_not_close_the_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = ProcessorProxy.handlers[ProcessStarted]

    def be_late(self: ProcessorProxy, news: ProcessStarted) -> None:
        if self._is_channel_broken:
            started(self, news)
        else:
            self.schedule(0.01, news)

    monkeypatch.setitem(ProcessorProxy.handlers, ProcessStarted, be_late)
    node = Node(initializer=initializer_text(lambda: os.kill(os.getpid(), signal.SIGKILL)))
    try:
        node.until(lambda: node.shell.exit_code)
        assert node.shell.why.endswith("its worker process ended: signal SIGKILL")
    finally:
        node.close()


@pytest.mark.parametrize(
    ("die", "how"),
    [
        (lambda: os._exit(3), b"exit code 3"),
        (die_by_signal, b"signal SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), b"signal SIGKILL, which was not sent by this cluster: perhaps"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), b"signal SIGTERM"),
        (lambda: os.closerange(3, 10_000) or time.sleep(100), b"it closed its connection to the agent"),
    ],
    ids=["exit", "segfault", "kill", "terminate", "closes all descriptors"],
)
def test_the_death_of_a_processor_is_reported_at_once_and_a_new_processor_continues(
    node: Node, die: Callable[[], None], how: bytes
) -> None:
    node.run(node.task(int))
    node.until(lambda: node.results)
    pid = node.processes()[0]
    node.run(node.task(die), node.task(int))
    node.until(lambda: len(node.results) == 3)
    assert node.statuses()[1:] == [TaskStatus.PROCESSOR_DIED, TaskStatus.SUCCESS]
    text = node.results[1].payload
    assert how in text
    assert str(pid).encode() in text
    assert b"w0" in text


def test_results_sent_before_the_death_of_a_processor_count(node: Node) -> None:
    quick = [node.task(int) for _ in range(50)]
    node.run(*quick)
    node.until(lambda: len(node.results) == 50)
    last = node.task(lambda: os._exit(1))
    more = [node.task(int) for _ in range(50)]
    node.slots[0].send(Batch[RunTask]([*more, last, *(node.task(int) for _ in range(3))]))
    node.until(lambda: len(node.results) == 104)
    by_id = {result.task_id: result.status for result in node.results}
    assert len(by_id) == 104
    assert by_id.pop(last.task_id) == TaskStatus.PROCESSOR_DIED
    assert set(by_id.values()) == {TaskStatus.SUCCESS}


def answer_for_another_task() -> None:
    channel = next(each for each in gc.get_objects() if type(each) is Channel)
    wrong = RunResult(TaskId(b"?" * 16), 0, 1, TaskStatus.SUCCESS, b"", 0, ())
    for header, frames in encode(PROCESSOR_TO_AGENT, [wrong]):
        channel.send(header, frames)
    time.sleep(100)


def test_a_wrong_result_ends_its_processor_and_fails_no_other_task(node: Node) -> None:
    liar, behind = node.task(answer_for_another_task), node.task(int)
    node.run(liar, behind)
    node.until(lambda: len(node.results) == 2)
    assert {result.task_id: result.status for result in node.results} == {
        liar.task_id: TaskStatus.PROCESSOR_DIED,
        behind.task_id: TaskStatus.SUCCESS,
    }
    assert b"was killed: it returned the result of another task" in node.results[0].payload


def resist(resists: Path) -> None:
    while True:
        with contextlib.suppress(BaseException):
            resists.touch()
            time.sleep(100)


def compute_in_c() -> None:
    sum(range(10**12))


def processor_seconds(pid: int) -> float:
    return float(psutil.Process(pid).cpu_times().user)


@pytest.mark.parametrize(
    ("task", "survives"),
    [(sleep_for_ever, True), (spin, True), (resist, False), (compute_in_c, False)],
    ids=["sleeps", "spins", "resists", "in C"],
)
def test_cancel_stops_a_running_task(
    node: Node, tmp_path: Path, task: Callable[..., None], survives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if survives:  # long enough for a busy machine
        monkeypatch.setattr("scaler.executors.processes.slot.cancellation.GRACE_SECONDS", 60.0)
    resists = tmp_path / "resists"
    running, waiting = node.task(partial(resist, resists) if task is resist else task), node.task(int)
    node.run(running, waiting)
    node.until_executing()
    processors = node.processes()
    if task is resist:  # until the file exists, the task can be interrupted
        node.until(resists.exists)
    if task is compute_in_c:  # until it runs in C, the task can be interrupted
        before = processor_seconds(processors[0])
        node.until(lambda: processor_seconds(processors[0]) > before + 0.1)
    started_at = time.monotonic()
    node.slots[0].send(Batch[RunCancel]([RunCancel(running.task_id, 0, 1)]))
    node.until(lambda: len(node.results) == 2)
    assert node.statuses() == [TaskStatus.CANCELED, TaskStatus.SUCCESS]
    assert (node.processes() == processors) is survives
    assert survives or time.monotonic() - started_at >= GRACE_SECONDS


def test_a_cancelled_task_whose_processor_dies_in_the_grace_period_is_cancelled(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.executors.processes.slot.cancellation.GRACE_SECONDS", 60.0)
    resists = tmp_path / "resists"
    running, waiting = node.task(partial(resist, resists)), node.task(int)
    node.run(running, waiting)
    processor = node.until_executing()
    node.until(resists.exists)
    [pid] = node.processes()
    node.slots[0].send(Batch[RunCancel]([RunCancel(running.task_id, 0, 1)]))
    cancellation = node.slot()._cancellation
    node.until(lambda: cancellation.ends(processor) and not processor.progress.is_interrupt_due)
    os.kill(pid, signal.SIGKILL)
    node.until(lambda: len(node.results) == 2)
    assert node.statuses() == [TaskStatus.CANCELED, TaskStatus.SUCCESS]


def test_tasks_queued_behind_a_long_task_in_its_processor_can_be_cancelled(node: Node, tmp_path: Path) -> None:
    """The processor already had these tasks, because the long one was expected to be short."""
    gate = tmp_path / "gate"

    def wait_for_gate() -> None:
        while gate.exists():
            time.sleep(0.001)

    def task() -> RunTask:
        return node.task(wait_for_gate)

    node.run(task())
    node.until(lambda: node.results)
    gate.touch()
    behind = task()
    node.slots[0].send(Batch[RunTask]([task(), behind, task()]))
    node.until(lambda: len(list(node.slot()._queue)) == 2)
    node.slots[0].send(Batch[RunCancel]([RunCancel(behind.task_id, 0, 1)]))
    node.until(lambda: len(node.results) == 2)
    assert node.results[-1].task_id == behind.task_id
    gate.unlink()
    node.until(lambda: len(node.results) == 4)
    assert node.statuses() == [TaskStatus.SUCCESS, TaskStatus.CANCELED, TaskStatus.SUCCESS, TaskStatus.SUCCESS]


def test_large_objects_are_shared(node: Node) -> None:
    function = function_to_frames(DefaultSerializer(), len)
    block = SharedBlock.of(function)
    function_id = content_id(function)
    node.stored[function_id] = CachedObject(function_id, (), block)
    node.run(RunTask(TaskId(b"t" * 16), 0, 1, function_id, b"", b""))
    node.until(lambda: node.results)
    assert node.statuses() == [TaskStatus.FAILED]  # len() without an argument: it arrived and was called
