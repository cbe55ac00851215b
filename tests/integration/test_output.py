"""What tasks write, by real clients, schedulers and workers: streamed, asked for by task, on the monitor, bounded."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from scaler import AsyncClient, Client, Cluster, Scheduler
from scaler.client.insight.output_printer import OutputPrinter
from tests.support.processes import command, complaints, wait_until


def speak(name: str) -> str:
    print("hello", name)
    print("careful,", name, file=sys.stderr)
    logging.getLogger("mine").warning("watch out, %s", name)
    print("\x1b[2Jbye", end="")
    return name


def outer() -> str:
    print("outer")
    return Client().submit(speak, "inner").result()


def boom() -> None:
    print("before")
    raise ValueError("boom")


def flood(lines: int) -> None:
    for number in range(lines):
        print("line", number)


SPOKEN = [
    ("stdout", "hello you"),
    ("stderr", "careful, you"),
    ("logging", "WARNING:mine: watch out, you"),
    ("stdout", "\\x1b[2Jbye"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    address = f"ipc://{tmp_path_factory.mktemp('output')}/s"
    logs = tmp_path_factory.mktemp("logs") / "log"
    scheduler = Scheduler(address=address, logging_level="ERROR")
    cluster = Cluster(
        address=address,
        n_workers=1,
        worker_names=["rome07"],
        logging_paths=[str(logs)],
    )
    scheduler.start()
    cluster.start()
    yield address
    cluster.terminate()
    scheduler.terminate()
    cluster.join()
    scheduler.join()


def test_the_output_of_a_task_is_read_by_its_future_and_by_its_id(address: str) -> None:
    with Client(address) as client:
        future = client.submit(speak, "you")
        assert future.result(60) == "you"
        log = future.logs()
        assert [(line.stream, line.text) for line in log] == SPOKEN
        assert {(line.worker, line.task) for line in log} == {("rome07", "speak")}
        assert client.logs(future.task_id) == log
        failed = client.submit(boom)
        assert isinstance(failed.exception(60), ValueError)
        assert failed.logs().text == "before"
        quiet = client.submit(abs, -1)
        assert quiet.result(60) == 1
        assert len(quiet.logs()) == 0
        with Client(address) as other:  # an admin, as each client of this user is at a file
            assert other.logs(future.task_id) == log
            assert len(other.logs(os.urandom(16))) == 0
        nodes = client.get({"name": "you", "a": (speak, "name")}, ["a"], block=False)
        nodes["a"].result(60)
        assert [(line.stream, line.text) for line in nodes["a"].logs()] == SPOKEN


def test_an_async_client_reads_the_output_of_tasks(address: str) -> None:
    async def use() -> None:
        async with AsyncClient(address) as client:
            future = client.submit(speak, "you")
            await future
            assert [(line.stream, line.text) for line in await future.logs()] == SPOKEN

    asyncio.run(use())


def test_what_tasks_write_is_printed_here_with_worker_and_task(address: str) -> None:
    printed = io.StringIO()  # captured descriptors lose what is written while they are read
    with redirect_stdout(printed), redirect_stderr(printed), Client(address, stream_output=True) as client:
        assert client.submit(outer).result(60) == "inner"
        wait_until(lambda: "bye" in printed.getvalue(), "the lines are printed")
        assert isinstance(client._printer, OutputPrinter)
    assert sorted(printed.getvalue().splitlines()) == sorted(
        [
            "rome07 outer: outer",
            "rome07 speak: WARNING:mine: watch out, inner",
            "rome07 speak: \\x1b[2Jbye",
            "rome07 speak: careful, inner",
            "rome07 speak: hello inner",
        ]
    )


WITH_A_CLUSTER_OF_ITS_OWN = """
import logging, sys
from scaler import Client

def speak():
    print("hello")
    print("careful", file=sys.stderr)
    logging.getLogger("mine").warning("watch out")

if __name__ == "__main__":
    with Client(n_workers=1, stream_output=True) as client:
        client.map(speak, [(), ()])
"""


def test_the_cluster_of_a_client_that_prints_output_does_not_print_it_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WITH_A_CLUSTER_OF_ITS_OWN)
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    lines = sorted(line.partition(" ")[2] for line in (ran.stdout + complaints(ran.stderr)).splitlines())
    assert lines == ["speak: WARNING:mine: watch out"] * 2 + ["speak: careful"] * 2 + ["speak: hello"] * 2, ran


def test_a_task_that_writes_very_much_ends_and_its_last_lines_are_there(address: str) -> None:
    with Client(address) as client:
        future = client.submit(flood, 20_000)
        future.result(60)
        log = future.logs()
        assert log[-1].text == "line 19999"
        assert [line.text for line in log[-20:]] == [f"line {number}" for number in range(19_980, 20_000)]
        assert len(log) + log.dropped == 20_000
        assert len(log) <= 1000
        assert str(log).startswith("(")


@pytest.mark.more
def test_a_task_that_writes_very_much_waits_for_no_reader_of_the_cluster(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/s"
    program = [sys.executable, "-m", "scaler.cli.cluster", address, "-n", "2"]
    with (
        command("scheduler", address),
        subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as cluster,
        Client(address) as client,
    ):
        assert cluster.stdout is not None
        try:
            futures = [client.submit(flood, 5_000) for _ in range(4)]
            assert [future.result(30) for future in futures] == [None] * 4
            for future in futures:
                log = future.logs()
                assert log[-1].text == "line 4999"
                assert len(log) + log.dropped == 5_000
            unread = os.read(cluster.stdout.fileno(), 1 << 20).decode()
            assert "this output was not read" not in unread
            wait([client.submit(speak, "you") for _ in range(4)], 30)
            read = os.read(cluster.stdout.fileno(), 1 << 20).decode()
            assert re.search(r"^scaler: [0-9]+ lines were dropped: this output was not read$", read, re.MULTILINE)
            assert "hello you" in read
        finally:
            cluster.terminate()


@pytest.mark.more
def test_a_cluster_can_keep_it_to_itself(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/s"
    scheduler = Scheduler(address=address, logging_level="ERROR")
    cluster = Cluster(
        address=address, n_workers=1, logging_paths=[str(tmp_path / "log")], task_output_lines_per_second=0
    )
    scheduler.start()
    cluster.start()
    try:
        with Client(address) as client:
            future = client.submit(speak, "you")
            assert future.result(60) == "you"
            assert len(future.logs()) == 0
    finally:
        cluster.terminate()
        scheduler.terminate()
        cluster.join()
        scheduler.join()
