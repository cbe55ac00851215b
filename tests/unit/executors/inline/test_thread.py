"""TaskThread: a real thread between a recorder and a task: results, waits and the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, cast

import pykka
import pytest

from scaler.executors.inline.task_context import ContextByThread
from scaler.executors.inline.thread import (
    PreparedTask,
    TaskEnded,
    TaskThread,
    ThreadBlocked,
    ThreadResumable,
    ThreadUnblocked,
)
from scaler.ids import TaskId, content_id
from scaler.pickling.serialization import DefaultSerializer, function_to_frames
from scaler.processor.execution.task_context import ProcessorSpec
from scaler.processor.execution.values import LoadedValues
from scaler.task_context import TaskContext
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import PROFILE, TaskStatus
from scaler.wire.messages.worker import RunResult, RunTask
from tests.support.fake_scheduler_for_agents import failure_of, value_of


class Worker:
    """A worker that records the messages of the thread."""

    def __init__(self) -> None:
        self.received: SimpleQueue[Any] = SimpleQueue()
        self.is_gone = False

    def tell(self, message: Any) -> None:
        if self.is_gone:
            raise pykka.ActorDeadError("gone")
        self.received.put(message)


class Bench:
    def __init__(self) -> None:
        self.worker, self.contexts = Worker(), ContextByThread(TaskContext())
        self.thread = TaskThread(
            "w", cast("Any", self.worker), ProcessorSpec(1, b"n" * 16), "inproc://a", self.contexts
        )
        self.number = 0

    def hand(self, function: Callable[[], Any], options: bytes = b"") -> None:
        values = LoadedValues()
        frames = [bytes(frame) for frame in function_to_frames(DefaultSerializer(), function)]
        values.store(content_id(frames), frames)
        self.number += 1
        task = RunTask(TaskId(b"t" * 16), 5, 6, content_id(frames), b"", b"", 2, "", options)
        self.thread.hand(PreparedTask(self.number, task, values))

    def receive(self) -> Any:
        return self.worker.received.get(timeout=10)

    def run(self, function: Callable[[], Any], options: bytes = b"") -> RunResult:
        self.hand(function, options)
        ended = self.receive()
        assert isinstance(ended, TaskEnded)
        assert ended.thread is self.thread
        return ended.result


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.thread.end()
    bench.thread.join()
    assert not bench.thread._thread.is_alive()


contexts: list[ContextByThread] = []
"""as if it was the process's own, for the tasks below: they are pickled by name"""


def wait() -> str:
    with contexts[0].wait():
        pass
    return "went on"


def give_up() -> None:
    with contexts[0].wait(None, lambda: False):
        pass


def test_a_result_has_the_value_and_the_run_of_its_task(bench: Bench) -> None:
    result = bench.run(dict)
    assert (result.task_id, result.worker, result.attempt, result.profile) == (b"t" * 16, 5, 6, b"")
    assert value_of(result) == {}


def test_a_failure_shows_the_frames_of_the_user_only(bench: Bench) -> None:
    def fail() -> None:
        raise ValueError("on purpose")

    failure = failure_of(bench.run(fail))
    assert failure.type_name == "ValueError"
    assert "in fail" in failure.traceback
    assert "inline/thread.py" not in failure.traceback


def test_a_large_result_is_copied(bench: Bench) -> None:
    result = bench.run(lambda: bytearray(100_000))
    assert result.payload == b""
    assert all(type(frame) is bytes for frame in result.frames)
    assert value_of(result) == bytearray(100_000)


def test_a_task_is_profiled_on_request(bench: Bench) -> None:
    result = bench.run(dict, options=RunOptions(profiling=True).encode())
    assert len(result.profile) == PROFILE.size


def test_a_thread_between_tasks_has_no_current_task(bench: Bench) -> None:
    assert value_of(bench.run(lambda: threading.current_thread().name)) == "scaler-task-w"
    assert bench.thread.context.task == 0


def test_a_thread_stays_blocked_after_a_wait_until_it_gets_permission(bench: Bench) -> None:
    contexts[:] = [bench.contexts]
    bench.hand(wait)
    assert bench.receive() == ThreadBlocked(bench.thread, 1)
    assert bench.receive() == ThreadResumable(bench.thread, 1)
    bench.thread.permit(7)  # of another task
    bench.thread.permit(1)
    assert value_of(bench.receive().result) == "went on"


def test_a_wait_that_timed_out_requests_no_permission(bench: Bench) -> None:
    contexts[:] = [bench.contexts]
    bench.hand(give_up)
    assert [type(bench.receive()) for _ in range(3)] == [ThreadBlocked, ThreadUnblocked, TaskEnded]


def test_a_task_of_an_ended_thread_resumes_without_permission_and_sends_no_report(bench: Bench) -> None:
    contexts[:] = [bench.contexts]

    def wait_twice() -> None:
        wait()
        wait()

    bench.hand(wait_twice)
    bench.receive()
    bench.receive()
    bench.worker.is_gone = True
    bench.thread.end()
    bench.thread.join()
    assert not bench.thread._thread.is_alive()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_that_a_task_forks_ends_where_the_task_ends(bench: Bench) -> None:
    def fork(code: int) -> int:
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise SystemExit(code)
        return 77

    assert value_of(bench.run(lambda: fork(0))) == 0
    assert value_of(bench.run(lambda: fork(5))) == 5


def test_a_task_that_raises_any_exception_fails(bench: Bench) -> None:
    def leave() -> None:
        raise SystemExit(3)

    assert bench.run(leave).status == TaskStatus.FAILED
