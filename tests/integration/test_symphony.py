"""Symphony in front of the stand-in of `tests/support/soam`: services in processes, real threads, real callbacks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.processes import REPOSITORY, command, wait_until
from tests.support.timing import at_best

SOAM = str(REPOSITORY / "tests" / "support" / "soam")


class Grid:
    """The folder that tells the stand-in what to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.set("services", "ScalerService")

    def set(self, name: str, text: str = "") -> None:
        (self.folder / name).write_text(text)

    def unset(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def log(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    def tasks(self) -> int:
        """How many tasks have come to the services."""
        return sum(line.startswith("task") for line in self.log())


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    folder = tmp_path_factory.mktemp("grid")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SOAMAPI_STAND_IN", str(folder))
        patched.setattr(sys, "path", [*sys.path, SOAM])
        yield Grid(folder)


@pytest.fixture(scope="module")
def client(grid: Grid) -> Iterator[Client]:
    """A client of one cluster for all tests: each leaves it as it was."""
    with (
        SchedulerClusterCombo(2, engine="symphony://ScalerService", logging_level="ERROR") as cluster,
        Client(cluster.get_address()) as client,
    ):
        yield client


def test_tasks_with_names_values_objects_and_failures(client: Client, grid: Grid) -> None:
    assert client.map(divmod, [(number, 7) for number in range(30)]) == [divmod(n, 7) for n in range(30)]
    assert client.submit(lambda *, first, second: (first, second), first=1, second=2).result() == (1, 2)
    assert client.submit(len, client.send_object(bytes(1_000_000))).result() == 1_000_000
    assert len(client.submit(bytes, 1_000_000).result()) == 1_000_000
    with pytest.raises(ZeroDivisionError):
        client.submit(divmod, 1, 0).result()
    assert grid.log().count("session") == 1, "all go by one session"


def test_the_agent_and_the_host_do_not_run_the_function(client: Client) -> None:
    def ancestors() -> list[str]:
        return [" ".join(process.cmdline()) for process in psutil.Process().parents()]

    above = client.submit(ancestors).result()
    assert "scaler.executors.engines.host import main" in above[0]
    assert os.getpid() != client.submit(os.getpid).result()


def test_answers_before_the_number_is_known_and_out_of_order(client: Client, grid: Grid) -> None:
    grid.set("slow")
    assert client.map(abs, [(-number,) for number in range(6)]) == list(range(6))
    grid.unset("slow")
    grid.set("backward")
    futures = [client.submit(pow, number, 2) for number in range(6)]
    assert [future.result(timeout=30) for future in futures] == [number**2 for number in range(6)]
    grid.unset("backward")


def test_a_session_that_fails_gives_its_tasks_back_and_another_is_opened(
    client: Client, grid: Grid, tmp_path: Path
) -> None:
    def wait_for(path: str) -> str:
        with Path(f"{path}.log").open("a", encoding="utf-8") as log:
            log.write("x")
        while not Path(path).exists():
            time.sleep(0.01)
        return "done"

    gate = tmp_path / "gate"
    futures = [client.submit(wait_for, str(gate)) for _ in range(2)]
    wait_until(lambda: (tmp_path / "gate.log").exists() and (tmp_path / "gate.log").read_text() == "xx", "they run")
    connects, sessions = grid.log().count("connect"), grid.log().count("session")
    grid.set("refuse")
    grid.set("fail")
    wait_until(lambda: grid.log().count("connect") >= connects + 2, "it is tried again")
    grid.unset("fail")
    grid.unset("refuse")
    gate.touch()
    assert [future.result(timeout=60) for future in futures] == ["done"] * 2
    assert grid.log().count("session") == sessions + 1


def test_a_task_that_kills_its_service_fails_after_three_times(client: Client) -> None:
    with pytest.raises(Exception, match="the service instance has exited"):
        client.submit(os._exit, 3).result(timeout=60)
    assert client.submit(abs, -1).result(timeout=30) == 1


def test_a_cancelled_task_frees_its_place(client: Client, grid: Grid) -> None:
    before = grid.tasks()
    slow = [client.submit(time.sleep, 3) for _ in range(2)]
    wait_until(lambda: grid.tasks() == before + 2, "both are there")
    assert all(future.cancel() for future in slow)
    quick = client.submit(abs, -1)
    assert quick.result(timeout=30) == 1


def test_nested_tasks_go_over_the_base_concurrency(grid: Grid) -> None:
    grid.set("slots", "6")

    def tree(client: Client, depth: int) -> int:
        if depth == 0:
            return 1
        return 1 + sum(future.result() for future in [client.submit(tree, client, depth - 1)])

    with (
        SchedulerClusterCombo(1, engine="symphony://ScalerService", logging_level="ERROR") as cluster,
        Client(cluster.get_address()) as client,
    ):
        assert client.submit(tree, client, 4).result(timeout=60) == 5
    grid.unset("slots")


@pytest.mark.parametrize(
    ("service", "refuse", "sentence"),
    [
        ("NoService", False, "application 'NoService' is not registered"),
        ("ScalerService", True, "connection refused"),
    ],
)
def test_a_service_that_cannot_be_reached_ends_the_command_with_a_sentence(
    grid: Grid, service: str, refuse: bool, sentence: str
) -> None:
    if refuse:
        grid.set("refuse")
    env = dict(os.environ, PYTHONPATH=SOAM)
    with command("symphony_cluster", "ipc:///tmp/nobody", service, "-n", "1", env=env) as running:
        assert running.end() == 1
        assert sentence in running.output
    grid.unset("refuse")


def test_without_the_module_the_command_says_what_is_missing_and_its_help_works() -> None:
    with command("symphony_cluster", "ipc:///tmp/nobody", "Service", "-n", "1") as running:
        assert running.end() == 1
        assert "the module soamapi of IBM Spectrum Symphony cannot be imported" in running.output
    with command("symphony_cluster", "-h") as running:
        assert running.end() == 0
        assert "--base-concurrency" in running.output


def test_the_symphony_engine_is_idle_without_tasks(client: Client) -> None:
    assert client.submit(abs, -1).result() == 1

    def busy_seconds() -> float:
        times: list[Any] = [p.cpu_times() for p in psutil.Process().children(recursive=True)]
        return sum(time.user + time.system for time in times)

    def busy_seconds_of_two() -> float:
        before = busy_seconds()
        time.sleep(2)
        return busy_seconds() - before

    assert at_best(busy_seconds_of_two, 0.1) < 0.1
