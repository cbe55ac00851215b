"""The processors of a node, real ones: start, death, cancel, failure to start, and nothing left in the end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler.actors.kit import ActorRef
from scaler.config import ClusterConfig
from scaler.ids import IdSource, ObjectId, TaskId, content_id
from scaler.process.shell import Shell
from scaler.serialization import DefaultSerializer, function_to_frames
from scaler.shared_memory import SharedBlock
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunCancel, RunCancels, RunResult, RunResults, RunTask, RunTasks
from scaler.worker import processor_pool as pool_module
from scaler.worker.messages import NeedObject, ObjectFound, ProcessorUp, StoredObject
from scaler.worker.processor_pool import Pool, how_it_ended
from scaler.worker.slot import Slot
from scaler.worker.stopping import GRACE_SECONDS
from tests.support.processes import alive
from tests.support.recorder import Recorder

pytestmark = pytest.mark.processes

NEST_ID = b"n" * 16


class Node:
    """Slots and their processors in this process's own shell, between recorders; it is its own `Edge`."""

    def __init__(self, n_workers: int = 1) -> None:
        self.shell = Shell("builtin")
        self.link, self.objects = Recorder(), Recorder()
        dispatcher = self.shell.dispatcher
        link, objects = dispatcher.spawn(self.link), dispatcher.spawn(self.objects)
        names = tuple(f"w{index}" for index in range(n_workers))
        self.asked_for = Recorder()
        asked = dispatcher.spawn(self.asked_for)
        self.slots: tuple[ActorRef, ...] = tuple(
            dispatcher.spawn(Slot(name, index, link, objects, asked)) for index, name in enumerate(names)
        )
        config = ClusterConfig("tcp://127.0.0.1:1", n_workers)
        self.pool = dispatcher.spawn(Pool(self.shell, config, names, self.slots, NEST_ID))
        self.stored: dict[ObjectId, StoredObject] = {}
        self.results: list[RunResult] = []
        self._condition: Callable[[], Any] = lambda: True
        self._deadline = 0.0
        self._new_id = IdSource()

    def receive(self) -> bool:
        for need in self.objects.take(NeedObject):
            need.slot.send(ObjectFound(self.stored[need.object_id]))
        for results in self.link.take(RunResults):
            self.results += results
        if self._condition() or time.monotonic() > self._deadline:
            self.shell.loop.stop()
        return False

    def flush(self) -> bool:
        return False

    def until(self, condition: Callable[[], Any], seconds: float = 20.0) -> None:
        """Run the shell until `condition`."""
        self._condition, self._deadline = condition, time.monotonic() + seconds
        self.shell._edge = self
        ticker = self.shell.loop.call_later(0, self._tick)
        self.shell.loop.run_forever()
        ticker.cancel()
        assert condition(), f"not within {seconds} s; results: {self.results}"

    def _tick(self) -> None:
        """Conditions about processes change without a message."""
        self.shell.turn()
        if self.shell.loop.is_running():
            self.shell.loop.call_later(0.02, self._tick)

    def task(self, function: Callable[..., Any], worker: int = 0) -> RunTask:
        frames = [bytes(frame) for frame in function_to_frames(DefaultSerializer(), function)]
        function_id = content_id(frames)
        self.stored[function_id] = StoredObject(function_id, frames, None)
        return RunTask(TaskId(self._new_id()), worker, 1, function_id, b"", b"")

    def run(self, *tasks: RunTask) -> None:
        for task in tasks:
            self.slots[task.worker].send(RunTasks([task]))

    def statuses(self) -> list[TaskStatus]:
        return [TaskStatus(result.status) for result in self.results]

    def processes(self) -> list[int]:
        """The processors, without their nursery."""
        return [each.pid for child in psutil.Process().children() for each in child.children() if alive(each.pid)]

    def close(self) -> None:
        started = [each.pid for each in psutil.Process().children(recursive=True)]
        self.shell.dispatcher.end(self.pool)
        self.shell.dispatcher.close()
        self.shell.loop.close()
        assert [pid for pid in started if alive(pid)] == []


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    node.close()


def sleep_for_ever() -> None:
    while True:
        time.sleep(100)


def spin() -> None:
    while True:
        pass


def die_by_signal() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_tasks_run_in_processes_of_their_own(node: Node) -> None:
    node.run(node.task(int))
    node.until(lambda: node.results)
    assert node.statuses() == [TaskStatus.SUCCESS]
    assert len(node.processes()) == 1


@pytest.mark.parametrize(
    ("die", "how"),
    [
        (lambda: os._exit(3), b"exit code 3"),
        (die_by_signal, b"signal SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), b"signal SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), b"signal SIGTERM"),
        (lambda: os.closerange(3, 256) or time.sleep(100), b"signal SIGKILL"),
    ],
    ids=["exit", "segfault", "kill", "terminate", "closes all descriptors"],
)
def test_death_is_told_at_once_and_a_new_processor_goes_on(node: Node, die: Callable[[], None], how: bytes) -> None:
    node.run(node.task(int))
    node.until(lambda: node.results)
    pid = node.processes()[0]
    started = time.monotonic()
    node.run(node.task(die), node.task(int))
    node.until(lambda: len(node.results) == 3)
    assert node.statuses()[1:] == [TaskStatus.PROCESSOR_DIED, TaskStatus.SUCCESS]
    text = node.results[1].payload
    assert how in text
    assert str(pid).encode() in text
    assert b"w0" in text
    assert time.monotonic() - started < 5


def test_deaths_after_the_start_cost_no_budget(node: Node) -> None:
    tasks = [node.task(lambda: os._exit(1)) for _ in range(30)]
    node.run(*tasks)
    node.until(lambda: len(node.results) == 30)
    assert node.statuses() == [TaskStatus.PROCESSOR_DIED] * 30
    assert node.shell.exit_code == 0


def test_results_before_the_death_count(node: Node) -> None:
    quick = [node.task(int) for _ in range(50)]
    node.run(*quick)
    node.until(lambda: len(node.results) == 50)
    last = node.task(lambda: os._exit(1))
    more = [node.task(int) for _ in range(50)]
    node.slots[0].send(RunTasks([*more, last, *(node.task(int) for _ in range(3))]))
    node.until(lambda: len(node.results) == 104)
    by_id = {result.task_id: result.status for result in node.results}
    assert len(by_id) == 104
    assert by_id.pop(last.task_id) == TaskStatus.PROCESSOR_DIED
    assert set(by_id.values()) == {TaskStatus.SUCCESS}


def resist() -> None:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(100)


def compute_in_c() -> None:
    sum(range(10**12))


@pytest.mark.parametrize(
    ("task", "survives"),
    [(sleep_for_ever, True), (spin, True), (resist, False), (compute_in_c, False)],
    ids=["sleeps", "spins", "resists", "in C"],
)
def test_cancel_stops_a_running_task(node: Node, task: Callable[[], None], survives: bool) -> None:
    running, waiting = node.task(task), node.task(int)
    node.run(running, waiting)
    slot = node.slots[0]._actor
    node.until(lambda: slot._crew.active is not None and slot._crew.active.progress.executing == 1)
    processors = node.processes()
    began = time.monotonic()
    slot.actor_ref.send(RunCancels([RunCancel(running.task_id, 0, 1)]))
    node.until(lambda: len(node.results) == 2)
    assert node.statuses() == [TaskStatus.CANCELED, TaskStatus.SUCCESS]
    assert (node.processes() == processors) is survives
    assert survives or time.monotonic() - began >= GRACE_SECONDS


def test_death_in_the_grace_is_a_cancel(node: Node) -> None:
    running, waiting = node.task(resist), node.task(int)
    node.run(running, waiting)
    slot = node.slots[0]._actor
    node.until(lambda: slot._crew.active is not None and slot._crew.active.progress.executing == 1)
    [pid] = node.processes()
    slot.actor_ref.send(RunCancels([RunCancel(running.task_id, 0, 1)]))
    node.until(lambda: slot._crew.active.interrupted and not slot._crew.active.progress.is_interrupt_due)
    os.kill(pid, signal.SIGKILL)
    node.until(lambda: len(node.results) == 2)
    assert node.statuses() == [TaskStatus.CANCELED, TaskStatus.SUCCESS]


def test_what_a_task_started_ends_with_its_processor(node: Node, tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def start_child() -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        note.write_text(f"{child.pid}\n")
        child.wait()

    running = node.task(start_child)
    node.run(running)
    node.until(lambda: note.exists() and note.read_text().endswith("\n"))
    node.slots[0].send(RunCancels([RunCancel(running.task_id, 0, 1)]))
    node.until(lambda: node.results)
    node.until(lambda: not alive(int(note.read_text())))


def test_a_long_task_gives_back_those_behind_it(node: Node, tmp_path: Path) -> None:
    """They can be cancelled, though the processor had them already: the long one had looked as short as they."""
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
    node.slots[0].send(RunTasks([task(), behind, task()]))
    slot = node.slots[0]._actor
    node.until(lambda: len(list(slot._queue)) == 2)
    node.slots[0].send(RunCancels([RunCancel(behind.task_id, 0, 1)]))
    node.until(lambda: len(node.results) == 2)
    assert node.results[-1].task_id == behind.task_id
    gate.unlink()
    node.until(lambda: len(node.results) == 4)
    assert node.statuses() == [TaskStatus.SUCCESS, TaskStatus.CANCELED, TaskStatus.SUCCESS, TaskStatus.SUCCESS]


def test_large_objects_are_shared(node: Node) -> None:
    function = function_to_frames(DefaultSerializer(), len)
    block = SharedBlock.of(function)
    function_id = content_id(function)
    node.stored[function_id] = StoredObject(function_id, (), block)
    node.run(RunTask(TaskId(b"t" * 16), 0, 1, function_id, b"", b""))
    node.until(lambda: node.results)
    assert node.statuses() == [TaskStatus.FAILED]  # len() without an argument: it arrived and was called


def test_loss_of_the_nursery_loses_no_task(node: Node) -> None:
    running, waiting = node.task(sleep_for_ever), node.task(int)
    node.run(running, waiting)
    slot = node.slots[0]._actor
    node.until(lambda: slot._crew.active is not None and slot._crew.active.progress.executing == 1)
    before = slot._crew.active.number
    [nursery] = psutil.Process().children()
    [processor] = nursery.children()
    nursery.kill()
    node.until(
        lambda: (
            slot._crew.active is not None
            and slot._crew.active.number != before
            and slot._crew.active.progress.executing == 1
        )
    )
    node.until(lambda: not alive(processor.pid))
    node.slots[0].send(RunCancels([RunCancel(running.task_id, 0, 1)]))
    node.until(lambda: TaskStatus.SUCCESS in node.statuses())


def test_processors_that_never_get_ready_end_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "PROGRAM", pool_module.PROGRAM.replace("nursery.main", "import_fails_here.main"))
    node = Node()
    try:
        node.until(lambda: node.shell.exit_code)
        assert node.shell.exit_code == 70
        assert not any(isinstance(message, ProcessorUp) for message in node.link.messages)
    finally:
        node.close()


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [(0, "exit code 0"), (7, "exit code 7"), (-9, "signal SIGKILL"), (-99, "signal 99")],
)
def test_exit_codes_are_named(exit_code: int, text: str) -> None:
    assert how_it_ended(exit_code) == text
