"""scaler_scale with real commands: clusters come with the work, go without it, and none is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler import Client
from tests.support.processes import Command, command, scheduler, wait_until
from tests.support.slurm import jobs

UP = f"{sys.executable} -m scaler.cli.cluster {{address}} --drain 30 -ll WARNING"


def noting() -> Callable[[str, str], None]:
    """Pickled by value: the workers need not have this module."""

    def note(log: str, gate: str) -> None:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write("begun\n")
        while not Path(gate).exists():
            time.sleep(0.01)

    return note


def finished(running: Command, number: int = signal.SIGINT) -> int:
    running.signal(number)
    return running.end()


@pytest.mark.more
def test_clusters_are_started_for_work_and_drained_without_it() -> None:
    options = ("--max", "4", "--each", "2", "--down-idle", "1", "--target", "0.5", "--up", UP)
    with (
        scheduler(None) as (address, _running),
        Client(address) as client,
        command("scale", address, *options) as scale,
    ):
        assert client.map(time.sleep, [(0.2,)] * 30) == [None] * 30
        assert scale.output.count(": started scale-") == 2
        wait_until(lambda: scale.output.count("is no longer needed: drained") == 2, "both are drained")
        wait_until(lambda: scale.output.count(" ended") == 2, "both have ended")
        assert client.info().workers == 0
        assert finished(scale) == 0


@pytest.mark.more
def test_tasks_start_only_clusters_with_the_requested_resources() -> None:
    up = f"{UP} --capabilities licence=1"
    options = ("--max", "2", "--target", "0.5")
    with (
        scheduler(None) as (address, _running),
        Client(address) as client,
        command("scale", address, *options, "--up", UP) as plain,
        command("scale", address, *options, "--capabilities", "licence=1", "--only-asked", "--up", up) as licensed,
    ):
        futures = [client.options(capabilities={"licence": 1}).submit(time.sleep, 0.2) for _ in range(4)]
        assert [future.result(timeout=60) for future in futures] == [None] * 4
        assert licensed.output.count(": started scale-") >= 1
        assert ": started scale-" not in plain.output
        assert client.submit(abs, -1).result(timeout=60) == 1
        assert [finished(plain), finished(licensed)] == [0, 0]


@pytest.mark.more
def test_the_minimum_number_of_clusters_runs_until_the_end() -> None:
    with scheduler(None) as (address, _running), Client(address) as client:
        with command("scale", address, "--min", "1", "--max", "2", "--up", UP) as scale:
            client.wait_for_workers(1, timeout=30)
            assert finished(scale, signal.SIGTERM) == 0
            assert "waiting for 1 cluster to end" in scale.output
        assert client.info().workers == 0


@pytest.mark.more
def test_a_command_that_fails_is_tried_again_later() -> None:
    options = ("--min", "1", "--max", "1", "--up", f"{sys.executable} -c 'exit(3)'")
    with scheduler(None) as (address, _running), command("scale", address, *options) as scale:
        scale.wait_for("ended with exit code 3; the next one starts in at least 2 s")
        scale.wait_for("ended with exit code 3; the next one starts in at least 4 s")
        assert finished(scale) == 0


@pytest.mark.more
def test_only_a_cluster_whose_scaler_scale_was_killed_is_taken_over(tmp_path: Path) -> None:
    options = ("--max", "4", "--up", UP)
    log, gate = tmp_path / "log", tmp_path / "gate"
    with (
        scheduler(None) as (address, _running),
        Client(address) as client,
        command("scale", address, *options, "--min", "1") as other,
    ):
        client.wait_for_workers(1, timeout=30)
        with command("scale", address, *options, "--min", "2") as killed:
            client.wait_for_workers(2, timeout=30)
            futures = [client.submit(noting(), str(log), str(gate)) for _ in range(2)]
            wait_until(lambda: log.exists() and log.read_text().count("begun") == 2, "both clusters work")
            killed.process.kill()
            with command("scale", address, *options, "--down-idle", "1") as second:
                second.wait_for(f"took over {owner_of(killed)}-1: the scaler_scale that started it is lost")
                gate.touch()
                assert [future.result(timeout=30) for future in futures] == [None, None]
                second.wait_for(f"{owner_of(killed)}-1 is no longer needed: drained")
                wait_until(lambda: client.info().workers == 1, "it has left")
                assert owner_of(other) not in second.output
                assert finished(second) == 0
        assert log.read_text() == "begun\n" * 2
        assert finished(other) == 0


def owner_of(scale: Command) -> str:
    """Return with what the names of its workers begin."""
    return scale.wait_for(": started scale-").rpartition(" ")[2].strip().rpartition("-")[0]


@pytest.mark.more
@pytest.mark.foreign
def test_a_slurm_job_keeps_its_place_in_the_queue_and_drains(slurm: dict[str, str], tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        return subprocess.run(arguments, env=slurm, check=True, capture_output=True, text=True).stdout

    taken = run("sbatch", "--parsable", "--output=/dev/null", "--wrap", "sleep 600").strip()
    wait_until(lambda: jobs(slurm, "--states=RUNNING"), "the node is taken")
    log, gate = tmp_path / "log", tmp_path / "gate"
    options = ("--max", "1", "--up", "srun --quiet -n 1 -c 1 scaler_cluster {address}")
    with (
        scheduler(None) as (address, _running),
        Client(address) as client,
        command("scale", address, *options, env=slurm) as scale,
    ):
        future = client.submit(noting(), str(log), str(gate))
        job = wait_until(lambda: jobs(slurm, "--states=PENDING"), "it waits in the queue").split()[0]
        run("scancel", taken)
        wait_until(log.exists, "the task runs")
        assert jobs(slurm, "--states=RUNNING") == f"{job} RUNNING"
        scale.signal(signal.SIGTERM)
        scale.wait_for("the cluster leaves when its tasks have ended")
        gate.touch()
        future.result(timeout=30)
        assert scale.end() == 0
    assert log.read_text() == "begun\n"
