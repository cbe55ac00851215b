"""New sessions at the same scheduler, after a message that nobody can read: no task is cancelled or runs again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from tests.support.processes import command, scheduler, wait_until

pytestmark = pytest.mark.faults

PARENTS, LARGE = 50, 100


def note(folder: str, name: str) -> None:
    with (Path(folder) / name).open("a") as file:
        file.write("x")


def make(folder: str, number: int) -> bytes:
    """Return a large result."""
    note(folder, f"large{number}")
    return bytes([number]) * 100_000


def child(folder: str, number: int) -> int:
    note(folder, f"child{number}")
    return number


def parent(folder: str, number: int) -> int:
    note(folder, f"parent{number}")
    with Client() as client:
        asking = client.options(capabilities={"gate": 1}, no_worker_timeout=600)
        return asking.submit(child, folder, number).result()


def send_garbage(client: Client) -> None:
    """Send bytes on the client's own connection that are no message, so that its session cannot resume."""
    link: Any = client._core.link

    def garbage() -> None:
        link._connection._socket.send(b"no message", [])

    link._put(garbage)


def runs_of(folder: Path) -> dict[str, int]:
    return {file.name: len(file.read_text()) for file in folder.iterdir()}


def drop_connection(client: Client) -> None:
    """Do what happens when an interrupt hits a submit: it is unknown which items were sent."""
    link: Any = client._core.link
    link._was_interrupted = True
    link._inbox.rouse()


@pytest.mark.parametrize("spoil", [send_garbage, drop_connection])
def test_a_new_session_cancels_no_child_and_makes_no_result_again(
    spoil: Callable[[Client], None], tmp_path: Path
) -> None:
    folder = str(tmp_path)
    with (
        scheduler() as (address, running),
        command("cluster", address, "-n", "2"),
        Client(address) as client,
        contextlib.ExitStack() as later,
    ):
        large = [client.submit(make, folder, number) for number in range(LARGE)]
        wait(large, 120)
        parents = [client.submit(parent, folder, number) for number in range(PARENTS)]
        wait_until(lambda: sum(worker.blocked_tasks for worker in client.workers()) == PARENTS, "all parents wait", 120)
        for _ in range(3):
            spoil(client)
            workers = client.workers()  # answered in the new session, behind all that was resubmitted
            assert sum(worker.blocked_tasks for worker in workers) == client.info().waiting_tasks == PARENTS
        later.enter_context(command("cluster", address, "-n", "2", "--capabilities", "gate=50"))
        assert [future.result(120) for future in parents] == list(range(PARENTS))
        assert [future.result(60) for future in large] == [bytes([number]) * 100_000 for number in range(LARGE)]
        names = [*(f"parent{n}" for n in range(PARENTS)), *(f"child{n}" for n in range(PARENTS))]
        assert runs_of(tmp_path) == dict.fromkeys([*names, *(f"large{n}" for n in range(LARGE))], 1), running.output
