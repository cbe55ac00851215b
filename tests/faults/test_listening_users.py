"""Another user listens at an ipc address, as everybody may in a folder that all can write: peers send nothing there."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scaler import Client
from tests.support.another_user import NOBODY, Stranger, as_user, needs_root
from tests.support.processes import Command, command, run_script, scheduler, wait_until

pytestmark = [
    pytest.mark.faults,
    needs_root,
]

ORDINARY = 1234567
CLIENT = "from scaler import Client\nprint(Client({!r}).submit(pow, 2, 3).result())"
ASYNC_CLIENT = """
import asyncio
from scaler import AsyncClient
async def main():
    async with AsyncClient({!r}) as client:
        print(await client.submit(pow, 2, 3))
asyncio.run(main())
"""
UNPICKLED_CLIENT = """
import pickle
from scaler import Client
print(pickle.loads(pickle.dumps(Client({!r}))).submit(pow, 2, 3).result())
"""
PEERS = {
    "client": ["-c", CLIENT],
    "asyncio client": ["-c", ASYNC_CLIENT],
    "cluster": ["-m", "scaler.cli.cluster", "{}", "-n", "1"],
    "top": ["-m", "scaler.cli.top", "{}", "--once"],
    "trace": ["-m", "scaler.cli.top", "{}", "--trace", "/dev/null"],
    "ui": ["-m", "scaler.cli.ui", "{}", "--port", "0", "--token-file", "{folder}/token"],
    "scale": ["-m", "scaler.cli.scale", "{}", "--max", "1", "--up", "true"],
    "jobs": ["-m", "scaler.cli.jobs", "{}", "list"],
}


@pytest.fixture
def stranger(shared: Path) -> Iterator[Stranger]:
    listens = Stranger(shared / "s")
    yield listens
    listens.close()


def run(arguments: Sequence[str], shared: Path, uid: int) -> subprocess.CompletedProcess[str]:
    address = f"ipc://{shared}/s"
    filled = [each.format(address, folder=shared) for each in arguments]
    return subprocess.run(
        [*(as_user(uid) if uid else ()), sys.executable, *filled],
        capture_output=True, text=True, timeout=50, check=False, env={**os.environ, "HOME": str(shared)},
    )  # fmt: skip


@pytest.mark.parametrize("uid", [0, ORDINARY])
@pytest.mark.parametrize("peer", PEERS)
def test_no_peer_sends_anything_to_another_user_who_listens(
    peer: str, uid: int, shared: Path, stranger: Stranger
) -> None:
    done = run(PEERS[peer], shared, uid)
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert f"another user, uid 65534 (nobody), listens at ipc://{shared}/s; nothing was sent there" in output
    assert "add it to trust_users (--trust-users 65534, " in output
    assert stranger.received(1) == {"received 0 bytes"}


def test_peers_send_nothing_to_another_user_who_takes_the_address_and_continue_when_it_is_free(
    shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"ipc://{shared}/s"
    with scheduler(address) as (_, first), command("cluster", address, "-n", "1") as cluster, Client(address) as client:
        assert client.submit(pow, 2, 3).result(60) == 8
        first.kill_all()
        (shared / "s").unlink()
        stranger = Stranger(shared / "s")
        waiting = client.submit(pow, 2, 4)
        assert stranger.received(8) == {"received 0 bytes"}, "both come back every two seconds at least"
        cluster.wait_for("another program answers at")
        wait_until(lambda: "another program answers at" in caplog.text, "the client tells of it")
        stranger.close()
        (shared / "s").unlink()
        with scheduler(address):
            assert waiting.result(60) == 16
        warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
        assert sum("uid 65534 (nobody)" in each for each in warnings) == 1, warnings
        assert sum("uid 65534 (nobody)" in line for line in cluster.lines) == 1, cluster.output


def nested(address: str) -> int:
    with Client() as client:
        return client.submit(pow, 3, 2).result(60)


@pytest.fixture
def of_nobody(shared: Path) -> Iterator[str]:
    """The address of a scheduler of another user."""
    address = f"ipc://{shared}/s"
    with command("scheduler", address, prefix=as_user(NOBODY), env={"HOME": str(shared)}) as running:
        running.wait_for("address ipc")
        yield address


@pytest.mark.parametrize("name", ["nobody", "65534"])
def test_users_who_are_named_may_listen(of_nobody: str, name: str, tmp_path: Path) -> None:
    with (
        command("cluster", of_nobody, "-n", "1", "--trust-users", f"daemon,{name}") as cluster,
        Client(of_nobody, trust_users=[name], dashboard=True) as client,
    ):
        assert client.dashboard_url
        with client.trace(tmp_path / "trace.json"):
            assert client.submit(pow, 2, 3).result(60) == 8, cluster.output
        assert (tmp_path / "trace.json").exists()
        assert client.submit(nested, of_nobody).result(60) == 9, "a client in a task trusts whom its cluster trusts"
        for text in CLIENT, ASYNC_CLIENT, UNPICKLED_CLIENT:
            done = run_script(text.format(of_nobody), env={**os.environ, "SCALER_TRUST_USERS": name})
            assert done.stdout == "8\n", done.stderr
        assert "another user" not in run_command("jobs", of_nobody, "list", "--trust-users", name)
        assert "task_manager" in run_command("top", of_nobody, "--once", "--trust-users", name)


@pytest.mark.parametrize("viewer", ["top", "trace", "ui"])
def test_a_viewer_that_may_not_connect_learns_whose_socket_it_is(viewer: str, of_nobody: str, shared: Path) -> None:
    done = run(PEERS[viewer], shared, ORDINARY)
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.endswith(f": {not_allowed(of_nobody, shared / 's_monitor', 'nobody')}\n")


def not_allowed(address: str, closed: Path, owner: str) -> str:
    return (
        f"this user has no access to {address}_monitor: {closed} belongs to {owner}. Ask {owner} to start the "
        "scheduler with --monitor-address tcp://HOST:PORT, and for a key of the role monitor (scaler_keys allow NAME "
        "--role monitor)"
    )


def test_a_viewer_that_may_not_enter_the_folder_learns_whose_folder_it_is(shared: Path) -> None:
    closed = shared / "closed"
    closed.mkdir(0o700)
    program = f"""
import os
from scaler.endpoint import Endpoint
from scaler.monitor.discovery import find
os.setuid({ORDINARY})
find(Endpoint.parse("ipc://{closed}/s"))
"""
    done = run_script(program)
    assert done.stderr.splitlines()[-1].endswith(not_allowed(f"ipc://{closed}/s", closed, "root"))


def run_command(module: str, *arguments: str) -> str:
    running = Command(module, *arguments)
    try:
        running.end()
        return running.output
    finally:
        running.kill_all()


def test_a_scheduler_of_root_is_trusted_by_all(shared: Path) -> None:
    with scheduler(f"ipc://{shared}/s"), command("cluster", f"ipc://{shared}/s", "-n", "1"):
        (shared / "s").chmod(0o777)
        done = run(PEERS["client"], shared, ORDINARY)
        assert done.stdout == "8\n", done.stderr
