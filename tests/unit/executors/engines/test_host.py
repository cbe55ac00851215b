"""The engine host in a thread of this process, between a channel and an engine of the test."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from scaler.executors.engines.call import EngineCall, ended
from scaler.executors.engines.host import Host, HostSettings
from scaler.ids import ObjectId, TaskId
from scaler.process.interpreter import start_part
from scaler.processor.channel import Channel
from scaler.wire.codec.codec import decode, encode
from scaler.wire.messages.common import ObjectResponse, TaskStatus
from scaler.wire.messages.directions import AGENT_TO_PROCESSOR, PROCESSOR_TO_AGENT
from scaler.wire.messages.processor import EndProcessor, EngineCapacity, ProcessorReady
from scaler.wire.messages.worker import RunCancel, RunResult, RunTask
from tests.support.processes import wait_until

FUNCTION = ObjectId(b"f" * 16)


class Engine:
    """An engine that accepts a call when it is allowed to, and answers when the test does."""

    def __init__(self) -> None:
        self.asked, self.may_take = threading.Event(), threading.Event()
        self.may_take.set()
        self.futures: list[Future[Any]] = []
        self.taken = threading.Semaphore(0)

    def submit(self, _call: EngineCall) -> Future[Any]:
        self.asked.set()
        self.may_take.wait(10)
        self.futures.append(Future())
        self.taken.release()
        return self.futures[-1]

    def close(self) -> None:
        pass


_made: list[Engine] = []


def make(_engine: str, _n_workers: int, _report: Callable[[str], None]) -> Engine:
    return _made[-1]


class Bench:
    def __init__(self, channel: Channel, host: Host) -> None:
        self.engine = Engine()
        self.host = host
        self._channel = channel

    def send(self, *items: Any) -> None:
        for header, frames in encode(AGENT_TO_PROCESSOR, list(items)):
            self._channel.send(header, frames)

    def run(self, number: int) -> RunTask:
        task = RunTask(TaskId(bytes(16)), 0, number, FUNCTION, b"", b"")
        self.send(ObjectResponse(FUNCTION, 1, [b"", b"it"]), task)
        return task

    def receive(self) -> Any:
        """Return the next item that the host sends."""
        for header, frames in self._channel.receive():
            for batch in decode(PROCESSOR_TO_AGENT, header, frames):
                return batch[0]
        raise AssertionError("the host has closed the channel")


@pytest.fixture
def bench() -> Iterator[Bench]:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    with ours, theirs:
        settings = HostSettings(
            "tests.unit.executors.engines.test_host:make", "ours", 1, "tcp://127.0.0.1:1", "00" * 16
        )
        bench = Bench(Channel(ours), Host(Channel(theirs), settings))
        _made.append(bench.engine)
        host = threading.Thread(target=bench.host.serve)
        host.start()
        assert type(bench.receive()) is ProcessorReady
        yield bench
        bench.send(EndProcessor("the test ends"))
        host.join(10)
        assert not host.is_alive()
        _made.clear()


def test_a_result_goes_to_the_agent(bench: Bench) -> None:
    task = bench.run(1)
    assert bench.engine.taken.acquire(timeout=10)
    bench.engine.futures[0].set_result(ended(task, TaskStatus.SUCCESS, b"done"))
    result = bench.receive()
    assert (type(result), result.attempt, result.payload) == (RunResult, 1, b"done")


def test_a_cancel_reaches_a_call_while_the_engine_accepts_it(bench: Bench) -> None:
    bench.engine.may_take.clear()
    task = bench.run(1)
    assert bench.engine.asked.wait(10)
    bench.send(RunCancel(task.task_id, 0, 1))
    wait_until(lambda: not bench.host._open, "the host has received the cancel")
    bench.engine.may_take.set()
    assert (result := bench.receive()).status == TaskStatus.CANCELED
    assert result.attempt == 1
    assert bench.engine.futures[0].cancelled()


def test_a_return_value_that_is_not_a_result_fails_its_task(bench: Bench) -> None:
    bench.run(1)
    assert bench.engine.taken.acquire(timeout=10)
    bench.engine.futures[0].set_result("something else")
    result = bench.receive()
    assert result.status == TaskStatus.FAILED
    assert result.failure == "TypeError: the engine returned str instead of the result of the call"


def test_the_host_reports_the_capacity_of_its_engine_and_each_change() -> None:
    class Elastic(Engine):
        def follow(self, changed: Callable[[int], None]) -> None:
            self.changed = changed

    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    with ours, theirs:
        own = ("tests.unit.executors.engines.test_host:make", "ours", 1, "tcp://127.0.0.1:1", "00" * 16)
        bench = Bench(Channel(ours), Host(Channel(theirs), HostSettings(*own, is_elastic=True)))
        engine = Elastic()
        _made.append(engine)
        host = threading.Thread(target=bench.host.serve)
        host.start()
        assert type(bench.receive()) is ProcessorReady
        wait_until(lambda: hasattr(engine, "changed"), "the host is asked")
        for places in (3, 0):
            engine.changed(places)
            assert bench.receive() == EngineCapacity(places)
        bench.send(EndProcessor("the test ends"))
        host.join(10)
        assert not host.is_alive()
        _made.clear()


@pytest.mark.processes
def test_a_host_whose_agent_ends_during_the_start_ends_silently(capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = socket.socketpair()
    settings = HostSettings(
        "scaler.executors.engines.engine:futures_engine", "futures://concurrent.futures:ThreadPoolExecutor", 1, "", ""
    )
    process = start_part(
        "scaler.executors.engines.host", json.dumps(settings._asdict()), theirs.fileno(), {}, is_session=True
    )
    theirs.close()
    ours.close()
    process.wait(60)
    assert capfd.readouterr().err == ""
