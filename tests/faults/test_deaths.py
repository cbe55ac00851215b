"""Processes are killed; tasks are not lost, and futures do not hang."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scaler import Client, ProcessorDiedError, SchedulerClusterCombo
from scaler.wire.messages.common import TaskStatus
from tests.support.processes import alive, command, descendants, free_address, scheduler, wait_until
from tests.support.timing import at_best

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with SchedulerClusterCombo(n_workers=2, logging_level="ERROR") as combo:
        yield combo.get_address()


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def nap() -> int:
    time.sleep(0.05)
    return os.getpid()


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def touch_and_wait(folder: str, seconds: float) -> int:
    """Leave a file named by the process id, then take a while."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(seconds)
    return os.getpid()


def append_and_maybe_die(path: str, deaths: int) -> int:
    """Die in the first `deaths` attempts; return the number of the attempt."""
    with Path(path).open("a") as file:
        file.write("x")
    attempt = Path(path).stat().st_size
    if attempt <= deaths:
        kill_self()
    return attempt


def test_no_task_waits_for_an_agent_that_has_just_died() -> None:
    assert at_best(seconds_after_a_death, 1.5) < 1.5, "the time that a lost agent has to come back is 2 s"


def seconds_after_a_death() -> float:
    with (
        scheduler(None, "--crash-limit", "1") as (address, _),
        command("cluster", address, "-n", "1") as dying,
        command("cluster", address, "-n", "1"),
        Client(address) as client,
    ):
        pids = wait_until(lambda: two_workers(client), "both work")
        agent = psutil.Process(dying.process.pid)
        (dead,) = {child.pid for child in agent.children(recursive=True)} & pids
        agent.kill()
        wait_until(lambda: not alive(dead), "its processor is gone")
        started = time.monotonic()
        futures = [client.submit(os.getpid) for _ in range(4)]
        assert {future.result(30) for future in futures} == pids - {dead}
        return time.monotonic() - started


def two_workers(client: Client) -> set[int]:
    pids = {future.result(30) for future in [client.submit(nap) for _ in range(4)]}
    return pids if len(pids) == 2 else set()


@pytest.mark.parametrize(
    ("die", "sign"),
    [
        (lambda: os._exit(7), "exit code 7"),
        (kill_self, "SIGKILL"),
        (lambda: ctypes.string_at(0), "SIGSEGV"),
    ],
    ids=["exit", "kill", "segfault"],
)
def test_a_task_that_kills_its_process_fails_after_three_attempts_and_says_how(client: Client, die, sign: str) -> None:
    with pytest.raises(ProcessorDiedError) as caught:
        client.submit(die).result(60)
    text = str(caught.value)
    assert sign in text
    assert "3 of 3" in text
    assert "worker" in text
    assert client.submit(pow, 2, 3).result(30) == 8


def test_a_task_whose_process_dies_is_tried_again(client: Client, tmp_path: Path) -> None:
    assert client.submit(append_and_maybe_die, str(tmp_path / "a"), 2).result(60) == 3


def test_the_death_of_a_processor_is_noticed_at_once(client: Client, tmp_path: Path) -> None:
    paths = (str(tmp_path / str(number)) for number in itertools.count())

    def die_once() -> float:
        start = time.monotonic()
        assert client.submit(append_and_maybe_die, next(paths), 1).result(30) == 2
        return time.monotonic() - start

    assert at_best(die_once, 1.0) < 1.0


def test_tasks_beside_a_poison_task_lose_nothing(client: Client) -> None:
    futures = [client.submit(kill_self) if i == 500 else client.submit(pow, i, 2) for i in range(1000)]
    for i, future in enumerate(futures):
        if i == 500:
            assert isinstance(future.exception(60), ProcessorDiedError)
        else:
            assert future.result(60) == i * i


def test_processors_end_with_a_killed_agent_and_other_agents_run_its_tasks(tmp_path: Path) -> None:
    with (
        scheduler(None, "-wt", "600") as (address, _),
        command("cluster", address, "-n", "2") as first,
        Client(address) as client,
    ):
        futures = [client.submit(touch_and_wait, str(tmp_path), 2.0) for _ in range(2)]
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "both tasks run")
        before, processes = set(tmp_path.iterdir()), descendants(first.pid)
        assert processes
        os.kill(first.pid, signal.SIGKILL)
        killed_at = time.time()
        wait_until(lambda: not any(alive(pid) for pid in processes), "the processors have ended too")
        with command("cluster", address, "-n", "2"):
            assert len({future.result(60) for future in futures}) == 2
        moved_at = min(file.stat().st_mtime for file in set(tmp_path.iterdir()) - before)
        assert 1.5 < moved_at - killed_at < 50, "a closed connection has two seconds, whatever the time-out is"


@pytest.mark.more
def test_a_local_agent_stopped_before_it_was_killed_is_lost_at_once(tmp_path: Path) -> None:
    with (
        scheduler(f"ipc://{tmp_path}/s", "-wt", "600") as (address, running),
        command("cluster", address, "-n", "1") as first,
        Client(address) as client,
    ):
        (tmp_path / "begun").mkdir()
        future = client.submit(touch_and_wait, str(tmp_path / "begun"), 0.5)
        wait_until(lambda: list((tmp_path / "begun").iterdir()), "it runs")
        os.kill(first.pid, signal.SIGSTOP)
        time.sleep(7.0)  # silent is who says nothing for five seconds, or three heartbeats
        os.kill(first.pid, signal.SIGKILL)
        running.wait_for("it has 2 s to reconnect")
        with command("cluster", address, "-n", "1"):
            future.result(60)


def test_processors_that_never_return_die_with_their_agent(tmp_path: Path) -> None:
    def spin(folder: str) -> None:
        Path(folder, str(os.getpid())).touch()
        while True:
            pass

    with scheduler() as (address, _), command("cluster", address, "-n", "1") as cluster, Client(address) as client:
        client.submit(spin, str(tmp_path))
        wait_until(lambda: list(tmp_path.iterdir()), "the task runs")
        pid = int(next(tmp_path.iterdir()).name)
        os.kill(cluster.pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), "the processor has ended")


def test_the_next_scheduler_at_the_address_gets_the_open_tasks() -> None:
    address = free_address()
    with scheduler(address) as (_, first), command("cluster", address, "-n", "2") as cluster, Client(address) as client:
        assert client.submit(pow, 2, 2).result(30) == 4
        reference = client.send_object(list(range(100)))
        futures = [client.submit(lambda i: (time.sleep(0.5), i)[1], i) for i in range(6)]
        large = client.submit(sum, reference)
        os.kill(first.pid, signal.SIGKILL)
        first.end()
        with scheduler(address):
            assert [future.result(60) for future in futures] == list(range(6))
            assert large.result(60) == sum(range(100))
            assert cluster.process.poll() is None


@pytest.mark.more
def test_the_next_scheduler_may_give_a_task_to_another_worker_while_it_still_runs(tmp_path: Path) -> None:
    """The agent has runs of the old scheduler then that look like those of the new one: of the same tasks."""
    address = free_address()
    with scheduler(address) as (_, first), command("cluster", address, "-n", "2"), Client(address) as client:
        short = client.submit(time.sleep, 0.2)
        long = [client.submit(touch_and_wait, str(tmp_path), 1.5) for _ in range(3)]
        short.result(30)  # its worker gets the second one now, and would get the first one from the next scheduler
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "both workers run a long one")
        os.kill(first.pid, signal.SIGKILL)
        first.end()
        with scheduler(address):
            assert len([future.result(60) for future in long]) == 3


def test_without_a_scheduler_every_future_ends_with_a_timeout_error() -> None:
    address = free_address()
    start = time.monotonic()
    with Client(address, timeout_seconds=1) as client:
        with pytest.raises(TimeoutError, match=address):
            client.submit(pow, 2, 2).result()
        with pytest.raises(TimeoutError, match=address):
            client.map(pow, [(2, 2)])
    assert time.monotonic() - start < 30


def test_a_client_waits_for_no_scheduler_before_it_is_asked_for_something() -> None:
    address = free_address()

    def begin() -> float:
        start = time.monotonic()
        with Client(address, timeout_seconds=1):
            return time.monotonic() - start

    assert at_best(begin, 0.25) < 0.25


def test_a_scheduler_that_dies_for_good_ends_every_future_with_a_timeout_error() -> None:
    with (
        scheduler() as (address, running),
        command("cluster", address, "-n", "1"),
        Client(address, timeout_seconds=2) as client,
    ):
        assert client.submit(pow, 2, 2).result(30) == 4
        futures = [client.submit(time.sleep, 100) for _ in range(3)]
        os.kill(running.pid, signal.SIGKILL)
        start = time.monotonic()
        for future in futures:
            assert isinstance(future.exception(30), TimeoutError)
        assert time.monotonic() - start < 30


def test_a_cluster_without_a_scheduler_ends_itself_with_exit_code_0() -> None:
    with command("cluster", free_address(), "-n", "1", "-ds", "1") as cluster:
        assert cluster.end() == 0
        assert not descendants(cluster.pid)


@pytest.mark.more
def test_a_client_that_is_killed_has_its_tasks_cancelled(tmp_path: Path) -> None:
    script = f"""
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from scaler import Client
def work(folder):
    open(folder + "/started", "w").close()
    time.sleep(1000)
client = Client(sys.argv[1])
client.submit(work, sys.argv[2])
time.sleep(1000)
"""
    import subprocess
    import sys

    with scheduler() as (address, _), command("cluster", address, "-n", "1"):
        process = subprocess.Popen([sys.executable, "-c", script, address, str(tmp_path)])
        try:
            wait_until((tmp_path / "started").exists, "the task runs")
        finally:
            process.kill()
            process.wait()
        with Client(address) as client:  # the one worker is free as soon as the dead client's task was stopped
            assert client.submit(pow, 2, 3).result(30) == 8


def test_an_agent_that_is_stopped_politely_gives_its_tasks_back(tmp_path: Path) -> None:
    with scheduler() as (address, _), command("cluster", address, "-n", "1") as first, Client(address) as client:
        future = client.submit(touch_and_wait, str(tmp_path), 1.0)
        wait_until(lambda: list(tmp_path.iterdir()), "the task runs")
        processes = descendants(first.pid)
        first.signal(signal.SIGTERM)
        assert first.end() == 0
        assert not any(alive(pid) for pid in processes)
        with command("cluster", address, "-n", "1"):
            assert future.result(60) not in processes


def append_and_nap(path: str, seconds: float) -> None:
    with Path(path).open("a") as file:
        file.write("x")
    time.sleep(seconds)


@pytest.mark.more
def test_a_stopped_scheduler_takes_no_peer_for_lost(tmp_path: Path) -> None:
    """What its peers said meanwhile waits in the sockets; its own pause counts for nobody."""
    mark = tmp_path / "mark"
    with (
        scheduler(None, "-ct", "2", "-wt", "2") as (address, running),
        command("cluster", address, "-n", "2", "-hi", "0.2"),
        Client(address, heartbeat_interval_seconds=0.2) as client,
    ):
        futures = [client.submit(append_and_nap, str(mark), 6.5) for _ in range(2)]
        wait_until(lambda: mark.exists() and mark.read_text() == "xx", "both run")
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(4.5)  # more than twice as long as anybody may be silent
        running.process.send_signal(signal.SIGCONT)
        for future in futures:
            future.result(30)
        lines = "".join(running.lines)  # a cluster that ends may be silent for longer, on a busy machine
    assert mark.read_text() == "xx", "no task began anew"
    assert "is lost: it was silent" not in lines


AWAY = """
import hashlib, os, sys
from scaler import Client
def work(mark):
    if not os.path.exists(mark):
        open(mark, "w").close()
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 2**30)  # C code: it cannot be interrupted
    return "again"
with Client(sys.argv[1], heartbeat_interval_seconds=0.2) as client:
    future = client.submit(work, sys.argv[2])
    print("submitted", flush=True)
    print(future.result(60), flush=True)
"""


def test_a_client_that_was_away_for_too_long_gets_its_task_run_again_while_the_old_run_still_ends(
    tmp_path: Path,
) -> None:
    """The new run has the same task, and must not be taken for the old one at the agent."""
    with scheduler(None, "-ct", "1") as (address, running), command("cluster", address, "-n", "2"):
        mark = tmp_path / "mark"
        program = subprocess.Popen([sys.executable, "-c", AWAY, address, mark], stdout=subprocess.PIPE, text=True)
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "submitted\n"
            wait_until(mark.exists, "it runs")
            program.send_signal(signal.SIGSTOP)
            running.wait_for("is lost: it was silent")
            program.send_signal(signal.SIGCONT)
            assert program.communicate(timeout=60)[0] == "again\n"
        finally:
            program.kill()
            program.wait()


FORKS = """
import multiprocessing, os, sys, time
from scaler import Client
def work(mark):
    open(mark, "w").close()
    try:
        time.sleep(1000)
    finally:
        os.remove(mark)
client = Client(sys.argv[1])
future = client.submit(work, sys.argv[2])
client.submit(pow, 2, 3).result(60)
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
child.start()
print(child.pid, flush=True)
time.sleep(1000)
"""


def test_the_tasks_of_a_killed_program_end_though_a_process_that_it_has_forked_lives_on(tmp_path: Path) -> None:
    """With a client time-out of ten minutes only the end of the connection can tell."""
    with scheduler(None, "-ct", "600") as (address, _), command("cluster", address, "-n", "2"):
        mark = tmp_path / "mark"
        program = subprocess.Popen([sys.executable, "-c", FORKS, address, mark], stdout=subprocess.PIPE, text=True)
        assert program.stdout is not None
        child = int(program.stdout.readline())
        try:
            wait_until(mark.exists, "it runs")
            program.kill()
            program.wait()
            wait_until(lambda: not mark.exists(), "it ends")
            assert psutil.Process(child).is_running()
        finally:
            program.kill()
            program.stdout.close()
            os.kill(child, signal.SIGKILL)


def sleep_and_note(folder: str, name: str, seconds: float) -> str:
    """Leave a file when it begins, and another one when it has ended."""
    Path(folder, f"{name}-began").touch()
    time.sleep(seconds)
    Path(folder, f"{name}-ended").touch()
    return name


def wait_and_note(folder: str, name: str) -> str:
    """The same, and end when there is the file `go`."""
    Path(folder, f"{name}-began").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    Path(folder, f"{name}-ended").touch()
    return name


def test_a_cluster_that_drains_finishes_what_runs_and_gives_back_what_waits(tmp_path: Path) -> None:
    with scheduler() as (address, running_scheduler), Client(address) as client:
        with command("cluster", address, "-wn", "first", "--drain", "60") as first:
            first.wait_for("link to")
            running = client.submit(wait_and_note, str(tmp_path), "running")
            wait_until((tmp_path / "running-began").exists, "the first task runs")
            waiting = [client.submit(sleep_and_note, str(tmp_path), f"waiting-{i}", 0.0) for i in range(5)]
            first.signal(signal.SIGTERM)
            with command("cluster", address, "-wn", "second"):
                assert [future.result(30) for future in waiting] == [f"waiting-{i}" for i in range(5)]
                assert not running.done()  # they ran elsewhere, though the first one has not ended
                late = client.submit(sleep_and_note, str(tmp_path), "late", 0.0)
                assert late.result(30) == "late"
                (tmp_path / "go").touch()
                assert running.result(30) == "running"
                assert first.end() == 0
        assert "take no new tasks" in running_scheduler.output
        assert len(list(tmp_path.glob("running-*"))) == 2


@pytest.mark.more
def test_a_drain_that_takes_too_long_ends_and_the_task_runs_elsewhere(tmp_path: Path) -> None:
    with scheduler() as (address, _), Client(address) as client:
        with command("cluster", address, "-n", "1", "--drain", "0.5") as first:
            future = client.submit(touch_and_wait, str(tmp_path), 2.0)
            wait_until(lambda: list(tmp_path.iterdir()), "the task runs")
            first.signal(signal.SIGTERM)
            assert first.end() == 0
            assert not future.done()
        with command("cluster", address, "-n", "1"):
            future.result(60)
    assert len(list(tmp_path.iterdir())) == 2


MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.mark.more
@pytest.mark.skipif(
    not (MEMORY / "memory.oom_control").exists() or not os.access(MEMORY, os.W_OK),
    reason="needs control groups of version 1, and the right to make one",
)
def test_a_task_that_takes_all_memory_fails_with_that_reason(tmp_path: Path) -> None:
    group = MEMORY / f"scaler-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(300 * 2**20))

        def enter() -> None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

        with (
            scheduler("ipc://" + str(tmp_path / "socket"), "--crash-limit", "1") as (address, _),
            command("cluster", address, "-n", "1", preexec_fn=enter),
            Client(address) as client,
        ):
            future = client.submit(lambda: len(b"x" * 2**30))
            with pytest.raises(ProcessorDiedError, match=r"out of memory: the kernel ended it; it had [23]\d\d MB"):
                future.result(60)
            assert future._raw is not None
            assert future._raw.status == TaskStatus.OUT_OF_MEMORY, "it is counted apart from crashes"
            assert client.submit(pow, 2, 3).result(30) == 8
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), "all have left")
        group.rmdir()
