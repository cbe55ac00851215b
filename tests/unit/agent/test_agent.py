"""The agent as a process against a fake scheduler with a real socket: tasks, a lost link, and each way to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler.agent.agent import snapshot
from scaler.cores import usable_cores
from scaler.endpoint import Endpoint
from scaler.ids import ObjectId
from scaler.process.report import Report
from scaler.settings import ClusterConfig
from scaler.wire.codec.codec import encode
from scaler.wire.messages.capabilities import from_text
from scaler.wire.messages.common import HelloReply, HelloRequest, InstructionKind, ObjectInstruction, TaskStatus
from scaler.wire.messages.directions import SCHEDULER_TO_AGENT
from scaler.wire.messages.worker import HELD_RUN, RANDOM_HASHES, DisconnectResponse, RunCancel, RunTask
from scaler.wire.session.traffic import Traffic
from tests.support.fake_scheduler_for_agents import FakeScheduler, failure_of, start_agent, value_of
from tests.support.processes import alive, free_address
from tests.support.timing import at_best

pytestmark = pytest.mark.processes


class Agent:
    """An agent's process, and all processes seen below it."""

    def __init__(
        self,
        address: str,
        n_workers: int | None = 1,
        lifeline: int | None = None,
        packages: Sequence[Path] = (),
        **settings: Any,
    ) -> None:
        self.process = start_agent(
            ClusterConfig(address, n_workers, **settings),
            lifeline,
            packages,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def below(self) -> list[int]:
        try:
            return [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def ended(self) -> bool:
        return self.process.poll() is not None

    def output(self) -> str:
        """Return what the agent logged. Call this once, after its end."""
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def close(self) -> None:
        if not self.ended():
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        print(self.process.stdout.read())  # shown when a test fails
        self.process.stdout.close()


@pytest.fixture
def scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeScheduler]:
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path))  # another test may have created keys for the same port
    with FakeScheduler("tcp://127.0.0.1:*") as scheduler:
        yield scheduler


@pytest.fixture
def start() -> Iterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def start(address: str, *arguments: Any, **options: Any) -> Agent:
        agents.append(Agent(address, *arguments, **options))
        return agents[-1]

    yield start
    for agent in agents:
        agent.close()


def is_gone(pids: list[int]) -> bool:
    return not any(map(alive, pids))


def add(one: int, two: int) -> int:
    return one + two


def spin() -> None:
    while True:
        pass


def test_agent_runs_tasks_and_returns_their_results(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    start(scheduler.address, 2)
    scheduler.until(lambda: scheduler.hellos)
    function = scheduler.function(add)
    tasks = [scheduler.task(function, number, 1, worker=number % 2) for number in range(2000)]
    assert [value_of(result) for result in scheduler.run(tasks)] == [number + 1 for number in range(2000)]
    assert scheduler.requests == [function]


@pytest.mark.parametrize(
    ("engine", "seed", "number"),
    [
        ("processes", "0", None),
        ("inline", "0", None),
        ("processes", "random", RANDOM_HASHES),
        ("concurrent.futures:ThreadPoolExecutor", "0", 0),
    ],
)
def test_hello_reports_the_hash_of_a_text_in_the_workers(
    scheduler: FakeScheduler,
    start: Callable[..., Agent],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    seed: str,
    number: int | None,
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    start(scheduler.address, 1, engine=engine)
    scheduler.until(lambda: scheduler.hellos)
    program = [sys.executable, "-c", "print(hash('scaler') & 0xffffffff)"]
    elsewhere = int(subprocess.run(program, capture_output=True, check=True).stdout)
    assert scheduler.hellos[0].text_hash == (elsewhere if number is None else number)


def test_hello_names_the_workers_and_versions(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    agent = start(scheduler.address, 2)
    scheduler.until(lambda: scheduler.hellos)
    [hello] = scheduler.hellos
    names = hello.worker_names.split(",")
    assert [name.rpartition("-")[2] for name in names] == ["0", "1"]
    assert all(f"-{agent.process.pid}-" in name for name in names)
    assert hello.protocol_version == 1
    assert hello.held == b""
    start(scheduler.address, 2, worker_names=("anna", "bert"))
    scheduler.until(lambda: len(scheduler.hellos) == 2)
    assert scheduler.hellos[1].worker_names == "anna,bert"
    assert scheduler.hellos[1].agent_id != hello.agent_id


def test_an_executor_may_set_the_number_of_workers_and_their_capabilities(
    scheduler: FakeScheduler, start: Callable[..., Agent], tmp_path: Path
) -> None:
    (tmp_path / "roomy_engine.py").write_text(
        "from scaler.executors.inline.executor import LocalThreads\n"
        "class Roomy(LocalThreads):\n    capacity, capabilities = 3, {'licence': 1, 'gpu': 2}\n"
    )
    info = tmp_path / "roomy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: roomy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[scaler.engines]\nroomy = roomy_engine:Roomy\n")
    start(scheduler.address, None, packages=[tmp_path], engine="roomy")
    scheduler.until(lambda: scheduler.hellos)
    assert len(scheduler.hellos[0].worker_names.split(",")) == 3
    assert from_text(scheduler.hellos[0].capabilities) == (("gpu", 2), ("licence", 1))
    start(scheduler.address, 1, packages=[tmp_path], engine="roomy", capabilities=("gpu=8", "memory=64G"))
    scheduler.until(lambda: len(scheduler.hellos) == 2)
    assert len(scheduler.hellos[1].worker_names.split(",")) == 1
    settings_go_before = (("gpu", 8), ("licence", 1), ("memory", 64 * 2**30))
    assert from_text(scheduler.hellos[1].capabilities) == settings_go_before


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_an_executor_without_a_capacity_has_one_worker_for_each_core(
    scheduler: FakeScheduler, start: Callable[..., Agent], engine: str
) -> None:
    start(scheduler.address, None, engine=engine)
    scheduler.until(lambda: scheduler.hellos)
    assert len(scheduler.hellos[0].worker_names.split(",")) == usable_cores()
    assert scheduler.hellos[0].capabilities == ""


def test_large_object_is_fetched_once_for_the_node(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    start(scheduler.address, 2)
    scheduler.until(lambda: scheduler.hellos)
    function, large = scheduler.function(len), scheduler.store(b"x" * 5_000_000)
    tasks = [scheduler.task(function, large, worker=number % 2) for number in range(10)]
    assert [value_of(result) for result in scheduler.run(tasks)] == [5_000_000] * 10
    assert sorted(scheduler.requests) == sorted([function, large])


def test_large_results_reach_the_scheduler(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    start(scheduler.address)
    scheduler.until(lambda: scheduler.hellos)
    tasks = [scheduler.task(scheduler.function(bytearray), 3_000_000) for _ in range(3)]
    results = scheduler.run(tasks)
    assert not any(result.frames for result in results)
    assert [value_of(result) for result in results] == [bytearray(3_000_000)] * 3


def test_the_result_of_a_task_names_its_missing_object(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    start(scheduler.address)
    scheduler.until(lambda: scheduler.hellos)
    task = scheduler.task(ObjectId(b"nowhere........."))
    [result, other] = scheduler.run([task, scheduler.task(scheduler.function(add), 1, 2)])
    assert result.status == TaskStatus.MISSING_OBJECTS
    assert task.function_id.hex() in result.payload.decode()
    assert value_of(other) == 3


def test_a_deleted_object_is_requested_again_when_a_task_needs_it(
    scheduler: FakeScheduler, start: Callable[..., Agent]
) -> None:
    start(scheduler.address)
    scheduler.until(lambda: scheduler.hellos)
    function = scheduler.function(add)
    scheduler.run([scheduler.task(function, 1, 2)])
    scheduler.send([ObjectInstruction(InstructionKind.DELETE, function, "", ())])
    scheduler.run([scheduler.task(scheduler.function(len), "abc")])  # tasks of the same turn may still use it
    assert value_of(scheduler.run([scheduler.task(function, 1, 2)])[0]) == 3
    assert scheduler.requests.count(function) == 2


def test_agent_reconnects_after_unreadable_bytes_from_the_scheduler(
    scheduler: FakeScheduler, start: Callable[..., Agent]
) -> None:
    start(scheduler.address)
    for count, garbage in enumerate((b"", b"garbage", bytes(1000), os.urandom(500)), 1):
        scheduler.until(lambda count=count: len(scheduler.hellos) == count)
        scheduler.send_bytes(garbage)
    scheduler.until(lambda: len(scheduler.hellos) == 5)
    assert value_of(scheduler.run([scheduler.task(scheduler.function(add), 1, 2)])[0]) == 3
    assert len(scheduler.hellos) == 5


def test_task_in_an_unreadable_message_is_not_reported_as_held(
    scheduler: FakeScheduler, start: Callable[..., Agent], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def wait_for_gate() -> None:
        while not gate.exists():
            time.sleep(0.001)

    start(scheduler.address)
    scheduler.until(lambda: scheduler.hellos)
    task = scheduler.task(scheduler.function(wait_for_gate))
    scheduler.send([task])
    scheduler.until(lambda: task.function_id in scheduler.requests)
    [(header, _frames)] = encode(SCHEDULER_TO_AGENT, [scheduler.task(task.function_id)])
    scheduler.send_bytes(header[: len(header) // 2])
    scheduler.until(lambda: len(scheduler.hellos) == 2)
    assert list(HELD_RUN.iter_unpack(scheduler.hellos[1].held)) == [(task.task_id, task.attempt, task.worker, 0)]
    gate.touch()
    scheduler.until(lambda: scheduler.results)
    assert [result.task_id for result in scheduler.results] == [task.task_id]


def test_heartbeats_continue_during_a_task(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    start(scheduler.address, heartbeat_interval_seconds=0.05)
    scheduler.until(lambda: scheduler.hellos)
    task = scheduler.task(scheduler.function(spin))
    scheduler.send([task])
    scheduler.until(lambda: len(scheduler.heartbeats) > 10)
    scheduler.send([RunCancel(task.task_id, 0, 1)])
    scheduler.until(lambda: scheduler.results)
    assert scheduler.results[0].status == TaskStatus.CANCELED


# The link


@pytest.mark.parametrize("is_same", [True, False], ids=["the same", "another"])
def test_tasks_continue_without_a_scheduler_and_their_results_go_to_the_next_scheduler(
    start: Callable[..., Agent], tmp_path: Path, is_same: bool
) -> None:
    address = free_address()
    gate = tmp_path / "gate"

    def wait_for_gate() -> str:
        while not gate.exists():
            time.sleep(0.001)
        return "done"

    with FakeScheduler(address) as scheduler:
        scheduler.acknowledges = False
        start(address)
        scheduler.until(lambda: scheduler.hellos)
        finished = scheduler.task(scheduler.function(add), 1, 2)
        running = scheduler.task(scheduler.function(wait_for_gate))
        scheduler.send([finished, running])
        scheduler.until(lambda: scheduler.results)
        function = running.function_id
        scheduler.until(lambda: function in scheduler.requests)
    with FakeScheduler(address, scheduler.scheduler_id if is_same else None) as following:
        following.until(lambda: following.hellos)
        assert following.hellos[0].agent_id == scheduler.hellos[0].agent_id
        held = following.hellos[0].held
        assert {task_id for task_id, _, _, _ in HELD_RUN.iter_unpack(held)} == {finished.task_id, running.task_id}
        following.until(lambda: following.results)
        assert following.results[0].task_id == finished.task_id
        gate.touch()
        following.until(lambda: len(following.results) == 2)
        assert following.results[1].task_id == running.task_id
        assert value_of(following.results[1]) == "done"


def test_acknowledged_results_are_not_resent_to_the_next_scheduler(start: Callable[..., Agent]) -> None:
    address = free_address()
    with FakeScheduler(address) as scheduler:
        start(address)
        scheduler.until(lambda: scheduler.hellos)
        scheduler.run([scheduler.task(scheduler.function(add), 1, 2)])
        scheduler.until(lambda: scheduler.heartbeats)  # sent after the acknowledgement arrived
    with FakeScheduler(address) as following:
        following.until(lambda: following.hellos)
        assert following.hellos[0].held == b""
        following.run([following.task(following.function(add), 1, 2)])
        assert len(following.results) == 1


def test_request_for_a_hello_is_answered_on_a_new_connection(
    scheduler: FakeScheduler, start: Callable[..., Agent]
) -> None:
    start(scheduler.address)
    scheduler.until(lambda: scheduler.hellos)
    before = scheduler.connection
    scheduler.send([HelloRequest("who are you?")])
    scheduler.until(lambda: len(scheduler.hellos) == 2)
    assert scheduler.connection != before
    assert value_of(scheduler.run([scheduler.task(scheduler.function(add), 1, 2)])[0]) == 3


# The end


def test_refused_agent_logs_the_reason_and_retries(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    scheduler.welcomes = False
    agent = start(scheduler.address)
    scheduler.until(lambda: scheduler.hellos)
    scheduler.welcomes = True
    scheduler.send([HelloReply(0, "the scheduler speaks version 9, this agent version 1", b"s" * 16, 9, "9")])
    scheduler.until(lambda: len(scheduler.hellos) == 2)
    assert value_of(scheduler.run([scheduler.task(scheduler.function(add), 1, 2)])[0]) == 3
    agent.process.terminate()
    scheduler.until(agent.ended)
    assert "keeps trying: the scheduler speaks version 9, this agent version 1" in agent.output()


@pytest.mark.parametrize(
    ("number", "lets_go"), [(signal.SIGTERM, True), (signal.SIGTERM, False), (signal.SIGINT, True)]
)
def test_signal_ends_the_agent_in_order(
    scheduler: FakeScheduler, start: Callable[..., Agent], number: signal.Signals, lets_go: bool
) -> None:
    scheduler.lets_go = lets_go
    agent = start(scheduler.address, 2)
    scheduler.until(lambda: scheduler.hellos)
    running = scheduler.task(scheduler.function(spin))
    assert value_of(scheduler.run([scheduler.task(scheduler.function(add), 1, 2)])[0]) == 3
    scheduler.send([running])
    scheduler.until(lambda: running.function_id in scheduler.requests)
    below = agent.below()
    assert len(below) == 3
    agent.process.send_signal(number)
    scheduler.until(agent.ended, 30)
    assert agent.process.returncode == 0
    assert scheduler.goodbyes == [number.name]
    assert is_gone(below)
    assert "Traceback" not in agent.output()


def test_scheduler_may_dismiss_the_agent(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    agent = start(scheduler.address)
    scheduler.until(lambda: scheduler.hellos)
    scheduler.send([DisconnectResponse("shutdown")])
    scheduler.until(agent.ended)
    assert agent.process.returncode == 0


def test_an_agent_without_a_scheduler_ends(start: Callable[..., Agent]) -> None:
    agent = start(free_address(), death_timeout_seconds=0.5)
    assert agent.process.wait(20) == 0
    assert "the cluster ends" in agent.output()


def hold_the_gil() -> None:
    """Run one call that never releases the GIL."""
    import ctypes

    ctypes.PyDLL(None).pause()


@pytest.mark.parametrize("task", [spin, hold_the_gil])
def test_a_killed_agent_leaves_no_processes(
    scheduler: FakeScheduler, start: Callable[..., Agent], task: Callable[[], None]
) -> None:
    agent = start(scheduler.address, 2)
    scheduler.until(lambda: scheduler.hellos)
    function = scheduler.function(task)
    scheduler.run([scheduler.task(scheduler.function(add), 1, 2, worker=worker) for worker in range(2)])
    scheduler.send([scheduler.task(function, worker=worker) for worker in range(2)])
    scheduler.until(lambda: function in scheduler.requests)
    below = agent.below()
    assert len(below) == 3
    agent.process.kill()
    scheduler.until(lambda: is_gone(below), 30)


def test_agent_ends_when_its_parent_ends(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    theirs, ours = os.pipe()
    agent = start(scheduler.address, 1, theirs)
    os.close(theirs)
    scheduler.until(lambda: scheduler.hellos)
    assert value_of(scheduler.run([scheduler.task(scheduler.function(add), 1, 2)])[0]) == 3
    agent.process.send_signal(signal.SIGINT)  # only the parent ends it
    assert value_of(scheduler.run([scheduler.task(scheduler.function(add), 1, 2)])[0]) == 3
    below = agent.below()
    os.close(ours)
    scheduler.until(agent.ended, 30)
    assert is_gone(below)


def test_dead_processor_is_replaced(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    start(scheduler.address)
    scheduler.until(lambda: scheduler.hellos)
    exit_task = scheduler.task(scheduler.function(os._exit), 3)
    dead, well = scheduler.run([exit_task, scheduler.task(scheduler.function(add), 1, 2)])
    assert "PROCESSOR_DIED" in str(failure_of(dead))
    assert "exit code 3" in str(failure_of(dead))
    assert value_of(well) == 3


def test_idle_agent_does_not_poll(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    agent = start(scheduler.address, 2)
    scheduler.until(lambda: scheduler.hellos)
    scheduler.run([scheduler.task(scheduler.function(add), 1, 2)])
    processes = [psutil.Process(pid) for pid in (agent.process.pid, *agent.below())]
    scheduler.until(lambda: len(scheduler.heartbeats) >= 1)

    def used() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    def used_between_heartbeats() -> float:
        before, beats = used(), len(scheduler.heartbeats)
        scheduler.until(lambda: len(scheduler.heartbeats) > beats)
        return used() - before

    assert at_best(used_between_heartbeats, 0.035) < 0.035


def test_agent_runs_on_uvloop(scheduler: FakeScheduler, start: Callable[..., Agent]) -> None:
    pytest.importorskip("uvloop")
    agent = start(scheduler.address, event_loop="uvloop")
    scheduler.until(lambda: scheduler.hellos)
    assert value_of(scheduler.run([scheduler.task(scheduler.function(add), 1, 2)])[0]) == 3
    agent.process.terminate()
    scheduler.until(agent.ended, 30)
    assert agent.process.returncode == 0
    assert "event loop uvloop" in agent.output()


def test_snapshot_of_an_agent_shows_its_link_workers_and_traffic() -> None:
    report, received, sent = Report(), Traffic(), Traffic()
    report.add("link", "up", {"tasks": 1203, "blocked_tasks": 2, "results": 4})
    for name, tasks in (("ann", 3), ("bob", 1200), ("cid", 0)):
        report.add("worker", name, {"tasks": tasks})
    received.items[RunTask] = 5000
    received.add_message(bytes(2048), ())
    assert snapshot(
        report, Endpoint.parse("tcp://10.0.0.1:2345"), received, sent, {"dead_letters": 7}
    ).splitlines() == [
        "cluster: what it does now",
        "  scheduler tcp://10.0.0.1:2345 (up); 4 results not acknowledged yet",
        "  tasks     1,203 at workers, 2 of these wait for nested tasks",
        "  workers   3, 2 of them have tasks; most tasks: bob 1,200, ann 3",
        "  received  5,000 RunTask; 1 messages, 2.0 KiB",
        "  sent      nothing; 0 messages, 0 B",
        "  process   7 dead letters",
    ]
