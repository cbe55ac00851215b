"""What listens on TCP while commands and classes of ours run: nothing that lets in peers without a key."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest

from scaler import Client, Scheduler, SchedulerClusterCombo
from scaler.endpoint import Endpoint
from scaler.transport.admission.greeting import mechanism_at
from tests.support.keys import OPEN
from tests.support.processes import command, descendants, free_address, scheduler, wait_until

pytestmark = pytest.mark.thorough


def listeners(*pids: int) -> dict[str, str]:
    """Return what the listeners of processes, and of those below them, ask of peers, by address."""
    found = {}
    for pid in {*pids, *(each for one in pids for each in descendants(one))}:
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in psutil.Process(pid).net_connections("tcp"):
                if each.status == psutil.CONN_LISTEN:
                    address = f"tcp://127.0.0.1:{each.laddr[1]}"
                    found[address] = mechanism_at(Endpoint.parse(address))
    return found


@pytest.fixture
def here() -> set[int]:
    """The processes below this one that are of tests before."""
    return set(descendants())


def test_the_commands_have_keys_wherever_they_listen() -> None:
    monitor = free_address()
    with (
        scheduler(None, "--monitor-address", monitor) as (address, running),
        command("cluster", address, "-n", "1") as cluster,
        command("scale", address, "--max", "1", "--each", "1", "--up", "true", "-ma", monitor) as scale,
        command("top", monitor, "--once", "--timeout", "20") as top,
        Client(address) as client,
    ):
        assert client.submit(pow, 2, 10).result(60) == 1024
        assert top.end() == 0
        assert listeners(running.pid) == {address: "CURVE", monitor: "CURVE"}
        assert listeners(cluster.pid, scale.pid) == {}
    with scheduler(None, OPEN) as (address, running):  # else this test could not fail
        assert listeners(running.pid) == {address: "NULL"}


def test_the_page_is_the_only_one_without_and_it_has_a_token(tmp_path: Path) -> None:
    with (
        scheduler() as (address, running),
        command("ui", address, "--port", "0", "--token-file", str(tmp_path / "token")) as page,
    ):
        url = page.wait_for("http://")
        assert "token=" in url or "token" in page.output
        found = listeners(page.pid)
        assert [*found.values()] == [""]  # no ZMTP
        assert f":{next(iter(found)).rpartition(':')[2]}/" in page.output
        assert listeners(running.pid) == {address: "CURVE"}


def test_classes_have_keys_wherever_they_listen(here: set[int]) -> None:
    with Client(n_workers=1) as client:
        assert client.submit(pow, 2, 10).result(60) == 1024
        assert listeners(*(set(descendants()) - here)) == {}
    with SchedulerClusterCombo(1, "tcp://127.0.0.1:*") as combo, Client(combo.get_address()) as client:
        assert client.submit(pow, 2, 10).result(60) == 1024
        assert listeners(*(set(descendants()) - here)) == {combo.get_address(): "CURVE"}
    one = Scheduler("tcp://127.0.0.1:*", monitor_address="tcp://127.0.0.1:*")
    one.start()
    try:
        found = wait_until(lambda: listeners(*(set(descendants()) - here)), "it listens")
        assert found == {one.get_address(): "CURVE", one.get_monitor_address(): "CURVE"}
    finally:
        one.shutdown()
