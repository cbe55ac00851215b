"""`Client(processes=False)`: everything in one process; and the engine `inline` where others run processes."""

from __future__ import annotations

import concurrent.futures
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from scaler import Client, ConfigError
from tests.support.processes import REPOSITORY, command, complaints, descendants, run_script, scheduler, wait_until


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(processes=False) as one:
        yield one


@pytest.fixture
def lonely(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client with one worker."""
    monkeypatch.setenv("SCALER_N_WORKERS", "1")
    with Client(processes=False) as one:
        yield one


def test_a_cluster_of_threads_has_the_capabilities_given_to_its_client() -> None:
    with Client(processes=False, n_workers=2, capabilities={"licence": 1}) as one:
        assert one.options(capabilities={"licence": 1}).submit(pow, 2, 3).result(30) == 8
        assert [worker.capabilities["licence"] for worker in one.workers()] == [1, 1]


def fibonacci(client: Client, n: int) -> int:
    if n < 2:
        return n
    first, second = client.submit(fibonacci, client, n - 1), client.submit(fibonacci, client, n - 2)
    return int(first.result()) + int(second.result())


def descend(client: Client, depth: int) -> int:
    return 0 if depth == 0 else 1 + int(client.submit(descend, client, depth - 1).result())


def end_code(code: int) -> int:
    """Start a program, and ask how it ended when it has ended for a while."""
    process = subprocess.Popen(["sh", "-c", f"exit {code}"])
    time.sleep(0.2)
    return process.wait()


def test_tasks_run_in_this_process(client: Client) -> None:
    before = set(descendants())
    assert set(client.map(os.getpid, [()] * 10)) == {os.getpid()}
    assert client.get({"a": 2, "b": (pow, "a", "a"), "c": (max, "a", "b")}, ["c"]) == {"c": 4}
    table = client.send_object(list(range(100_000)))
    assert client.submit(sum, table).result() == sum(range(100_000))
    assert client.submit(bytes, 1_000_000).result() == bytes(1_000_000)
    assert set(descendants()) <= before


def test_a_task_runs_in_a_thread_of_its_own_and_arguments_are_copies(client: Client) -> None:
    def change(values: list[int]) -> tuple[int, list[int]]:
        values.append(4)
        return threading.get_ident(), values

    mine = [1, 2, 3]
    thread, theirs = client.submit(change, mine).result()
    assert thread != threading.get_ident()
    assert (mine, theirs) == ([1, 2, 3], [1, 2, 3, 4])


def test_a_failure_in_a_thread_is_the_exception_of_the_task(client: Client) -> None:
    future = client.submit(int, "no number")
    with pytest.raises(ValueError, match="no number"):
        future.result()


def test_any_depth_works_with_one_worker(lonely: Client) -> None:
    assert lonely.submit(descend, lonely, 30).result(30) == 30
    assert lonely.submit(fibonacci, lonely, 6).result(30) == 8


def test_threads_of_a_task_may_wait_for_tasks(lonely: Client) -> None:
    def wait_in_a_thread(client: Client) -> list[Any]:
        results: list[Any] = []

        def wait() -> None:
            results.append(client.submit(pow, 2, 3).result())
            results.append(client.map(pow, [(2, 4), (2, 5)]))
            futures = [client.submit(pow, 2, 6), client.submit(pow, 2, 7)]
            results.append(sorted(future.result() for future in concurrent.futures.as_completed(futures)))

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        return results

    assert lonely.submit(wait_in_a_thread, lonely).result(60) == [8, [16, 32], [64, 128]]


def test_clients_created_in_a_task_use_its_scheduler(client: Client) -> None:
    def who(client: Client) -> tuple[bytes, bytes]:
        return client.identity, Client().identity

    first, second = client.submit(who, client).result()
    assert first == second != client.identity
    with Client(processes=False) as other:
        assert other.submit(pow, 2, 3).result() == 8
        assert other.submit(who, other).result()[0] not in (first, other.identity)


def test_the_user_waits_beside_tasks_and_takes_no_place(lonely: Client, tmp_path: Path) -> None:
    def note(log: str, name: str) -> None:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{name} begins\n")
            file.flush()
            time.sleep(0.02)
            file.write(f"{name} ends\n")

    log = tmp_path / "log"
    futures = [lonely.submit(note, str(log), name) for name in "abc"]
    concurrent.futures.wait(futures)
    lines = log.read_text().splitlines()
    assert lines == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


def test_a_cancelled_task_loses_its_result_and_its_children(lonely: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def wait(gate: str) -> None:
        wait_until(lambda: Path(gate).exists(), "the gate")

    future = lonely.submit(wait, str(gate))
    behind = lonely.submit(pow, 2, 3)
    assert not behind.done()
    assert future.cancel()
    assert behind.result(60) == 8
    gate.touch()
    parent = lonely.submit(descend, lonely, 1_000)
    wait_until(lambda: threading.active_count() > 20, "some of them wait")
    parent.cancel()
    assert lonely.submit(pow, 2, 4).result(60) == 16


def test_an_address_and_no_processes_do_not_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"remove the address 'tcp://127\.0\.0\.1:1'"):
        Client("tcp://127.0.0.1:1", processes=False)
    with pytest.raises(ConfigError, match="processes must be True or False"):
        Client(processes=0)  # type: ignore[arg-type]
    monkeypatch.setenv("SCALER_ADDRESS", "tcp://127.0.0.1:1")
    with Client(processes=False) as one:
        assert one.submit(pow, 2, 3).result() == 8


def test_a_program_ends_with_ctrl_c_while_a_task_runs() -> None:
    program = """
import os, signal, threading, time
from scaler import Client

def sleep():
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    time.sleep(100)

with Client(processes=False) as client:
    client.submit(sleep).result()
"""
    done = run_script(program)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


def test_a_program_that_forgets_its_client_ends() -> None:
    done = run_script(
        "from scaler import Client\nclient = Client(processes=False)\nprint(client.submit(abs, -1).result())"
    )
    assert (done.returncode, done.stdout, complaints(done.stderr)) == (0, "1\n", "")


def test_a_breakpoint_in_a_task_stops_in_the_terminal() -> None:
    program = """
from scaler import Client

def half(number):
    result = number / 2
    breakpoint()
    return result

with Client(processes=False) as client:
    print("returned", client.submit(half, 7).result())
"""
    ours, theirs = pty.openpty()
    process = Popen(
        [sys.executable, "-c", program],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=REPOSITORY,
    )  # fmt: skip
    os.close(theirs)
    seen = b""

    def until(text: bytes) -> None:
        nonlocal seen
        deadline = time.monotonic() + 60
        while text not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([ours], [], [], 0.1)[0]:
                seen += os.read(ours, 4096)

    try:
        until(b"(Pdb)")
        os.write(ours, b"p result * 100\n")
        until(b"350.0")
        os.write(ours, b"!result = 42\nc\n")
        until(b"returned 42")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


# The engine in a cluster of its own


def test_a_cluster_runs_tasks_in_its_own_process() -> None:
    with (
        scheduler() as (address, _),
        command("cluster", address, "-n", "1", "--engine", "inline") as cluster,
        Client(address) as client,
    ):
        assert client.submit(os.getpid).result(60) == cluster.pid
        assert client.submit(fibonacci, client, 6).result(60) == 8
        assert descendants(cluster.pid) == []
        assert client.submit(end_code, 7).result(60) == 7
        cluster.signal(signal.SIGTERM)
        assert cluster.end() == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--engine", "nonsense"],
            "there is no engine 'nonsense'; installed are: dask, futures, inline, processes, ray, symphony",
        ),
        (["--engine", "inline", "-tts", "5"], "the engine 'inline' has no time limit: leave task_timeout_seconds out"),
    ],
)
def test_an_engine_that_cannot_be_had_ends_the_command(arguments: list[str], sentence: str) -> None:
    with command("cluster", "tcp://127.0.0.1:1", *arguments) as cluster:
        assert cluster.end() == 2
        assert sentence in cluster.lines[-1]


@pytest.mark.parametrize("module", ["cluster", "scheduler"])
def test_an_address_within_a_process_is_none_for_a_command(module: str) -> None:
    with command(module, "inproc://here") as ended:
        assert ended.end() == 2
        assert "is for threads of one process" in ended.lines[-1]


def test_an_engine_of_another_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    (tmp_path / "their_engine.py").write_text(
        "from scaler.executors.inline.executor import LocalThreads\n\n\n"
        "class Theirs(LocalThreads):\n"
        "    def children(self, node):\n"
        "        print('their engine runs for', *node.names, flush=True)\n"
        "        return super().children(node)\n"
    )
    info = tmp_path / "their_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[scaler.engines]\ntheirs = their_engine:Theirs\n")
    environment = {"PYTHONPATH": str(tmp_path)}
    with (
        scheduler() as (address, _),
        command("cluster", address, "-wn", "anna", "--engine", "theirs://somewhere", env=environment) as cluster,
        Client(address) as client,
    ):
        assert client.submit(os.getpid).result(60) == cluster.pid
        assert "their engine runs for anna" in cluster.output
