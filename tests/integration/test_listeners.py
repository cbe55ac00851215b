"""What listens on TCP while commands and classes of ours run: nothing that lets in peers without a key.

Each other test that runs a command or a program looks for that, too: examples, pages, programs of the 1.x line.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from scaler import Client, Scheduler, SchedulerClusterCombo
from tests.support import listeners
from tests.support.keys import OPEN
from tests.support.processes import REPOSITORY, command, descendants, free_address, run_python, scheduler, wait_until

pytestmark = pytest.mark.thorough

COMMANDS = set(re.findall(r"^scaler_(\w+) = ", (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE))
SOAM = REPOSITORY / "tests" / "support" / "soam"


def listening(*pids: int) -> dict[str, str]:
    """Return what the listeners of processes, and of those below them, ask of peers, by address."""
    return listeners.listeners({*pids, *(each for one in pids for each in descendants(one))})


@pytest.fixture
def here() -> set[int]:
    """The processes below this one that are of tests before."""
    return set(descendants())


def test_the_commands_have_keys_wherever_they_listen_and_the_page_has_a_token(tmp_path: Path) -> None:
    monitor, grid, token = free_address(), tmp_path / "grid", tmp_path / "token"
    grid.mkdir()
    (grid / "services").write_text("ScalerService")
    symphony = {"SOAMAPI_STAND_IN": str(grid), "PYTHONPATH": str(SOAM)}
    with ExitStack() as stack:
        address, running = stack.enter_context(
            scheduler(None, "--monitor-address", monitor, "--keep", str(tmp_path / "jobs"))
        )
        page, *others = [
            stack.enter_context(command(*each, env=symphony))
            for each in (
                ("ui", monitor, "--port", "0", "--token-file", str(token)),
                ("cluster", address, "-n", "1"),
                ("cluster", address, "--engine", "futures", "-n", "1"),
                ("symphony_cluster", address, "ScalerService", "-n", "1"),
                ("scale", address, "--max", "3", "--each", "1", "--up", "true", "-ma", monitor),
                ("top", monitor, "--once", "--timeout", "20"),
                ("jobs", address, "list"),
                ("keys", "list"),
            )
        ]
        client = stack.enter_context(Client(address))
        client.wait_for_workers(3, 60)
        url = page.wait_for("http://")
        by_name = {each.module: each for each in (running, page, *others)}
        assert by_name.keys() | {"worker"} == COMMANDS, "scaler_worker is scaler_cluster"
        assert [by_name[name].end() for name in ("top", "jobs", "keys")] == [0, 0, 0]
        assert listening(running.pid) == {address: "CURVE", monitor: "CURVE"}
        assert listening(*(each.pid for each in others)) == {}
        found = listening(page.pid)
        assert [*found.values()] == [""]  # no ZMTP
        assert f":{next(iter(found)).rpartition(':')[2]}/" in page.output
        assert "token=" in url or "token" in page.output


def test_the_check_finds_listeners_without_keys(tmp_path: Path) -> None:
    """Else no test could fail for that."""
    with scheduler(None, OPEN) as (address, running):
        assert listening(running.pid) == {address: "NULL"}
    program = tmp_path / "open.py"
    program.write_text(
        "import sys, time; from scaler import Scheduler\n"
        "one = Scheduler('tcp://127.0.0.1:*', insecure_let_everybody_run_code=True); one.start(); one.get_address()\n"
        "time.sleep(1)\n"
        "one.shutdown()\n"
    )
    with pytest.raises(
        AssertionError, match=r"the program accepts peers without a key at \['tcp://127.0.0.1:[0-9]+'\]"
    ):
        run_python(program, folder=tmp_path)


def test_classes_have_keys_wherever_they_listen(here: set[int]) -> None:
    with Client(n_workers=1) as client:
        assert client.submit(pow, 2, 10).result(60) == 1024
        assert listening(*(set(descendants()) - here)) == {}
    with SchedulerClusterCombo(1, "tcp://127.0.0.1:*") as combo, Client(combo.get_address()) as client:
        assert client.submit(pow, 2, 10).result(60) == 1024
        assert listening(*(set(descendants()) - here)) == {combo.get_address(): "CURVE"}
    one = Scheduler("tcp://127.0.0.1:*", monitor_address="tcp://127.0.0.1:*")
    one.start()
    try:
        found = wait_until(lambda: listening(*(set(descendants()) - here)), "it listens")
        assert found == {one.get_address(): "CURVE", one.get_monitor_address(): "CURVE"}
    finally:
        one.shutdown()
