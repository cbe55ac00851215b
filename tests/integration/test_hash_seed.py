"""`hash(text)` in the workers of all clusters of one scheduler, however they were started, and for whom it differs."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scaler import Client, Cluster
from tests.support.processes import Command, command, fork_server_of, run_python, scheduler, wait_until

TEXT = "AAPL"
PRINTS = f"print(hash({TEXT!r}))"
LOGS = "hash(text) differs between clusters"


def hash_with(seed: str) -> int:
    return int(run_python("-c", PRINTS, folder=Path.cwd(), PYTHONHASHSEED=seed).stdout)


def hashes() -> tuple[int, ...]:
    """Return the hash of a text in a task, in a program that it starts, and in a process of `multiprocessing`."""
    program = int(subprocess.run([sys.executable, "-c", PRINTS], capture_output=True, check=True).stdout)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return hash(TEXT), program, pool.apply(hash, (TEXT,))


@contextlib.contextmanager
def local_cluster(address: str, seed: str) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", seed)
        cluster = Cluster(address, 1, ["local"], logging_level="WARNING")
        cluster.start()
    try:
        yield cluster
    finally:
        cluster.shutdown()


def by_worker(client: Client, n_workers: int) -> dict[str, tuple[int, ...]]:
    client.wait_for_workers(n_workers, timeout=60)
    return client.run_on_all(hashes)


def cluster(address: str, name: str, *options: str, seed: str = "") -> contextlib.AbstractContextManager[Command]:
    return command("cluster", address, "-n", "1", "-wn", name, *options, env={"PYTHONHASHSEED": seed})


def test_all_clusters_agree_and_so_do_the_programs_of_their_tasks_and_a_new_fork_server() -> None:
    constant = (hash_with("0"),) * 3
    script = str(Path(sys.executable).with_name("scaler_cluster"))
    pool = ("--engine", "concurrent.futures:ProcessPoolExecutor")
    with (
        scheduler() as (address, running),
        local_cluster(address, ""),
        cluster(address, "command") as agent,
        cluster(address, "threads", "--engine", "inline"),
        cluster(address, "pool", *pool),
        Client(address) as client,
    ):
        environment = {**os.environ, "PYTHONHASHSEED": ""}
        started = subprocess.Popen([script, address, "-n", "1", "-wn", "script", "-ll", "WARNING"], env=environment)
        try:
            names = ("local", "command", "threads", "pool", "script")
            assert by_worker(client, 5) == dict.fromkeys(names, constant)
        finally:
            started.terminate()
            assert started.wait(60) == 0
        fork_server = fork_server_of(agent.pid)
        assert fork_server is not None
        os.kill(fork_server.pid, signal.SIGKILL)
        wait_until(lambda: fork_server_of(agent.pid) not in (None, fork_server), "another fork server")
        assert client.run_on_all(hashes)["command"] == constant
        assert LOGS not in running.output


def test_the_users_seed_wins_and_clusters_that_differ_are_logged() -> None:
    with scheduler() as (address, running), local_cluster(address, "5"), Client(address) as client:
        assert by_worker(client, 1) == {"local": (hash_with("5"),) * 3}
        with cluster(address, "same", seed="5"):
            assert by_worker(client, 2)["same"] == (hash_with("5"),) * 3
            assert LOGS not in running.output
        with cluster(address, "random", seed="random"):
            line = running.wait_for(LOGS)
            assert "random on worker random" in line
            assert "on worker local" in line
            assert "PYTHONHASHSEED" in line
            seen = by_worker(client, 2)["random"]
            assert len({*seen, hash_with("5"), hash_with("0")}) == 5, "each program has its own"


def test_a_python_that_ignores_its_environment_has_a_random_seed_and_is_logged() -> None:
    with scheduler() as (address, running), cluster(address, "usual"), Client(address) as client:
        program = [sys.executable, "-E", "-m", "scaler.cli.cluster", address, "-n", "1", "-wn", "odd", "-ll", "WARNING"]
        ignoring = subprocess.Popen(program)
        try:
            seen = by_worker(client, 2)
            assert seen["odd"][0] != seen["usual"][0] == hash_with("0")
            running.wait_for(LOGS)
            assert psutil.Process(ignoring.pid).cmdline() == program
        finally:
            ignoring.terminate()
            assert ignoring.wait(60) == 0


LOCAL = """\
import asyncio
from scaler import AsyncClient, Client

async def ask():
    async with AsyncClient(n_workers=1) as client:
        return await client.submit(hash, "AAPL")

with Client(n_workers=1) as client, Client(processes=False, n_workers=1) as threads:
    print(client.submit(hash, "AAPL").result(), asyncio.run(ask()), client.map(hash, [("AAPL",)])[0])
    print(hash("AAPL") == threads.submit(hash, "AAPL").result())
"""


@pytest.mark.parametrize("seed", ["", "7"])
def test_local_clusters_have_the_seed_and_threads_that_of_their_program(tmp_path: Path, seed: str) -> None:
    done = run_python("-c", LOCAL, folder=tmp_path, PYTHONHASHSEED=seed)
    assert done.stdout.split() == [str(hash_with(seed or "0"))] * 3 + ["True"], done.stderr
    assert done.stderr == ""
