"""scaler_scale with real commands: clusters come with the work, go without it, and none is left behind."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from scaler import Client
from tests.support.processes import Command, command, scheduler, wait_until

UP = f"{sys.executable} -m scaler.cli.cluster {{address}} --drain 30 -ll WARNING"


def finished(running: Command, number: int = signal.SIGINT) -> int:
    running.signal(number)
    return running.end()


def test_clusters_come_with_the_work_and_go_without_it() -> None:
    options = ("--max", "4", "--each", "2", "--down-idle", "1", "--target", "0.5", "--up", UP)
    with (
        scheduler(None) as (address, _running),
        Client(address) as client,
        command("scale", address, *options) as scale,
    ):
        assert client.map(time.sleep, [(0.2,)] * 30) == [None] * 30
        assert scale.output.count(": started scale-") == 2
        wait_until(lambda: scale.output.count("is not needed any more: drained") == 2, "both are drained")
        wait_until(lambda: scale.output.count("has ended") == 2, "both have ended")
        assert client.info().workers == 0
        assert finished(scale) == 0


@pytest.mark.more
def test_what_tasks_ask_for_starts_clusters_that_have_it_and_no_others() -> None:
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
def test_the_least_number_is_there_until_the_end() -> None:
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
        scale.wait_for("has ended with exit code 3; the next one starts in 2 s at the earliest")
        scale.wait_for("has ended with exit code 3; the next one starts in 4 s at the earliest")
        assert finished(scale) == 0
