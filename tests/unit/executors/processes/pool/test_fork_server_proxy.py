"""ForkServerProxy: real processes start, are lost with the fork server, and leave no process behind."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from scaler.cores import THREAD_VARIABLES
from scaler.executors.processes.messages import AddProcessor, InterruptProcessor, KillProcessor
from scaler.executors.processes.pool import fork_server_proxy
from scaler.executors.processes.pool.fork_server_proxy import thread_limits
from scaler.process import interpreter, strays
from scaler.processor.lifecycle.fork_server import OUT_OF_MEMORY_SCORE
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RunCancel
from tests.support.node import Node
from tests.support.processes import alive, fork_servers

pytestmark = pytest.mark.processes


def sleep_for_ever() -> None:
    while True:
        time.sleep(100)


def in_its_group(note: str) -> None:
    subprocess.run(["sh", "-c", f"echo $$ > {note}; exec sleep 1000"], check=True)


def in_a_session(note: str) -> None:
    subprocess.Popen(["sh", "-c", f"echo $$ > {note}; exec sleep 1000"], start_new_session=True).wait()


def below_a_shell(note: str) -> None:
    subprocess.run(f"sh -c 'echo $$ > {note}; exec sleep 1000'; true", shell=True, check=True)


def below_a_shell_in_a_session(note: str) -> None:
    subprocess.Popen(f"sh -c 'echo $$ > {note}; exec sleep 1000'; true", shell=True, start_new_session=True).wait()


def as_a_daemon(note: str) -> None:
    """Start a process whose parent ends long before the task."""
    subprocess.run(f"setsid sh -c 'echo $$ > {note}; exec sleep 1000' &", shell=True, check=True)
    time.sleep(1000)


def noted(note: Path) -> int:
    """Return the process id in a file, or 0 if there is none."""
    return int(note.read_text()) if note.exists() and note.read_text().endswith("\n") else 0


OUT_OF_MEMORY = Path("/proc/self/oom_score_adj")


@pytest.mark.skipif(not OUT_OF_MEMORY.exists(), reason="only Linux has scores")
def test_processors_are_killed_first_when_memory_is_short(node: Node) -> None:
    node.run(node.task(lambda: int(OUT_OF_MEMORY.read_text())))
    node.until(lambda: node.results)
    assert node.values() == [max(OUT_OF_MEMORY_SCORE, int(OUT_OF_MEMORY.read_text()))]


@pytest.mark.parametrize(
    "start",
    [in_its_group, in_a_session, below_a_shell, below_a_shell_in_a_session, as_a_daemon],
    ids=lambda f: f.__name__,
)
def test_processes_that_a_task_started_end_with_it(node: Node, tmp_path: Path, start: Callable[[str], None]) -> None:
    note = tmp_path / "pid"
    running = node.task(partial(start, str(note)))
    node.run(running)
    node.until(lambda: noted(note))
    assert alive(noted(note))
    node.slots[0].send(Batch[RunCancel]([RunCancel(running.task_id, 0, 1)]))
    node.until(lambda: node.results)
    node.until(lambda: not alive(noted(note)))


def test_processes_of_other_tasks_continue(node: Node, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    node.run(node.task(partial(subprocess.run, f"setsid sh -c 'echo $$ > {note}; exec sleep 1000' &", shell=True)))
    node.until(lambda: node.results and noted(note))
    node.pool.send(AddProcessor(0))
    node.until(lambda: len(list(node.slot()._processors)) == 2)
    [fork_server] = fork_servers()
    daemon = noted(note)
    assert psutil.Process(daemon).ppid() == fork_server.pid
    origin = next(
        int(entry.partition("=")[2])
        for entry in Path(f"/proc/{daemon}/environ").read_text().split("\0")
        if entry.startswith(strays.MARK)
    )
    [extra] = set(node.processes()) - {daemon, origin}
    os.kill(extra, signal.SIGKILL)
    node.until(lambda: len(list(node.slot()._processors)) == 1)
    assert alive(daemon)
    os.kill(origin, signal.SIGKILL)
    node.until(lambda: not alive(daemon))


def test_processes_that_tasks_started_end_with_the_fork_server(node: Node, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    node.run(node.task(partial(in_its_group, str(note))))
    node.until(lambda: noted(note))
    first = noted(note)
    note.unlink()
    [fork_server] = fork_servers()
    fork_server.kill()
    node.until(lambda: not alive(first))
    node.until(lambda: noted(note) and node.processes())  # the task runs again


def test_a_stopped_fork_server_does_not_block_the_agent(node: Node) -> None:
    """The connection to the fork server does not hold thousands of requests."""
    node.run(node.task(int))
    node.until(lambda: node.results)
    [fork_server] = fork_servers()
    processor = node.active()
    assert processor is not None
    fork_server.suspend()
    for _ in range(5000):
        processor.proxy.send(InterruptProcessor(processor.number))
    node.run(node.task(int))
    node.until(lambda: len(node.results) == 2, seconds=10)
    processor.proxy.send(KillProcessor(processor.number, "for a test"))
    fork_server.resume()
    node.until(lambda: node.active() not in {None, processor})
    node.run(node.task(int))
    node.until(lambda: len(node.results) == 3)


def test_the_loss_of_the_fork_server_loses_no_task(node: Node) -> None:
    running, waiting = node.task(sleep_for_ever), node.task(int)
    node.run(running, waiting)
    before = node.until_executing()
    [fork_server] = fork_servers()
    [processor] = fork_server.children()
    fork_server.kill()
    node.until(lambda: node.active() not in {None, before})
    node.until_executing()
    node.until(lambda: not alive(processor.pid))
    node.slots[0].send(Batch[RunCancel]([RunCancel(running.task_id, 0, 1)]))
    node.until(lambda: TaskStatus.SUCCESS in node.statuses())


def has_successor(killed: int) -> bool:
    """Return whether another fork server has processors. Processors of the killed one may still exist for a moment."""
    return any(child.pid != killed and child.children() for child in fork_servers())


@pytest.mark.more
def test_a_node_outlives_any_number_of_kills_of_its_fork_server(node: Node) -> None:
    node.run(node.task(int))
    node.until(lambda: node.results)
    for _ in range(5):
        [fork_server] = fork_servers()
        fork_server.kill()
        node.until(lambda killed=fork_server.pid: has_successor(killed))
    node.run(node.task(int))
    node.until(lambda: len(node.results) == 2)
    assert node.statuses() == [TaskStatus.SUCCESS] * 2
    assert node.shell.exit_code == 0


NOBODY = 65534


class LimitedNode:
    """A node of two workers whose fork server is subject to limits. If the test runs as root, the fork server becomes
    another user.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if os.getuid() == 0:
            change_user = f"import os; from scaler import Client; os.setgid({NOBODY}); os.setuid({NOBODY})\nmain()"
            monkeypatch.setattr(interpreter, "BOOT", interpreter.BOOT.replace("main()", change_user))
        self.node = Node(2)
        self.node.run(self.node.task(int), self.node.task(int, worker=1))
        self.node.until(lambda: len(self.node.results) == 2)
        [self.fork_server] = fork_servers()
        self._most = resource.getrlimit(resource.RLIMIT_NPROC)

    def allow_processes(self, are_allowed: bool) -> None:
        """Change the limit; only a process of the same user can do that."""
        pid = os.fork()
        if pid == 0:
            try:
                if os.getuid() == 0:
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                limits = (self._most[0] if are_allowed else 0, self._most[1])
                resource.prlimit(self.fork_server.pid, resource.RLIMIT_NPROC, limits)
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
def test_a_failed_fork_affects_only_its_processor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limited = LimitedNode(monkeypatch)
    node = limited.node
    try:
        pids = set(node.processes())
        neighbour = node.task(partial(time.sleep, 1000), worker=1)  # that user can import nothing but built-ins
        node.run(neighbour)
        limited.allow_processes(False)
        node.run(node.task(partial(os._exit, 1)))
        node.until(lambda: caplog.text.count("restarting processor-0 in") > 3)
        assert "the system refused to start a process: Resource temporarily unavailable" in caplog.text
        assert len(pids & set(node.processes())) == 1
        limited.allow_processes(True)
        node.run(node.task(int))
        node.until(lambda: len(node.results) == 4)
        node.slots[1].send(Batch[RunCancel]([RunCancel(neighbour.task_id, 1, 1)]))
        node.until(lambda: len(node.results) == 5)
        assert node.statuses()[2:] == [TaskStatus.PROCESSOR_DIED, TaskStatus.SUCCESS, TaskStatus.CANCELED]
        assert node.shell.exit_code == 0
        assert fork_servers() == [limited.fork_server]
    finally:
        node.close()


# The threads of BLAS and OpenMP are divided by the workers, unless the user has set them.


@pytest.mark.parametrize(("workers", "threads"), [(1, "8"), (3, "2"), (8, "1"), (64, "1")])
def test_cores_are_divided_among_the_workers(monkeypatch: pytest.MonkeyPatch, workers: int, threads: str) -> None:
    monkeypatch.setattr(fork_server_proxy, "usable_cores", lambda: 8)
    assert thread_limits({}, workers) == dict.fromkeys(THREAD_VARIABLES, threads)


def test_thread_limits_that_the_user_has_set_are_kept() -> None:
    assert "MKL_NUM_THREADS" not in thread_limits({"MKL_NUM_THREADS": "4"}, 1)
    assert len(thread_limits({"MKL_NUM_THREADS": "4"}, 1)) == len(THREAD_VARIABLES) - 1
    assert thread_limits({"OMP_NUM_THREADS": "4"}, 1) == {}


@pytest.mark.parametrize("said", [None, "7"])
def test_tasks_find_the_thread_limits_in_their_environment(monkeypatch: pytest.MonkeyPatch, said: str | None) -> None:
    monkeypatch.setattr(fork_server_proxy, "usable_cores", lambda: 6)
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if said is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", said)
    node = Node(2)
    try:
        node.run(node.task(lambda: [os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]))
        node.until(lambda: node.results)
        assert node.values() == [["3", said or "3"]]
    finally:
        node.close()
