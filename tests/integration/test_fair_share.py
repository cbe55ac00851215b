"""A client's single task does not wait for all that others have submitted, on real processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo, task_context
from tests.support.processes import wait_until

NAP_SECONDS = 0.005
FEW = 2000
"""A small part of what waits. A busy machine, too, takes 10 s for so many naps."""


@pytest.fixture
def address() -> Iterator[str]:
    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo:
        yield combo.get_address()


def others_before_a_single_task(client: Client, others: Callable[[], int]) -> int:
    """Return how many tasks of another client end until a single one of this client does."""
    before = others()
    assert client.submit(pow, 2, 10).result(60) == 1024
    return others() - before


def test_a_single_task_does_not_wait_for_the_thousands_of_another_client(address: str) -> None:
    with Client(address) as busy, Client(address) as other:
        busy.map(time.sleep, [(0.001,)] * 20)  # known as a short one, and so given ahead
        futures = [busy.submit(time.sleep, NAP_SECONDS) for _ in range(20_000)]  # 100 s
        futures[10].result(60)
        for _ in range(3):
            assert others_before_a_single_task(other, lambda: sum(future.done() for future in futures)) < FEW
        assert not futures[-1].done()
        busy.clear()


def breed(client: Client, path: str, depth: int) -> int:
    """Submit two tasks that do the same, and wait for neither. Each writes one byte."""
    time.sleep(NAP_SECONDS)
    with Path(path).open("ab", 0) as file:
        file.write(b"." if depth < 13 else b"!")
    if depth < 13:
        client.submit(breed, client, path, depth + 1)
        client.submit(breed, client, path, depth + 1)
    return depth


def test_a_single_task_does_not_wait_for_a_recursion(address: str, tmp_path: Path) -> None:
    path = tmp_path / "bred"
    path.touch()
    with Client(address) as busy, Client(address) as other:
        busy.submit(breed, busy, str(path), 0)  # 16,383 tasks, 80 s
        wait_until(lambda: b"!" in path.read_bytes(), "it has grown deep")
        for _ in range(3):
            assert others_before_a_single_task(other, lambda: path.stat().st_size) < FEW


def accounts(client: Client, depth: int) -> list[int]:
    """Return on whose share this task runs, and those below it."""
    own = task_context.current.account
    return [own, *(client.submit(accounts, client, depth - 1).result() if depth else [])]


def test_what_tasks_submit_is_on_the_account_of_their_client_in_the_same_processes(address: str) -> None:
    with Client(address) as first, Client(address) as second:
        shares = [[client.submit(accounts, client, 2).result(60) for client in (first, second)] for _ in range(2)]
    assert shares[0] == shares[1], "they stay the same"
    of_first, of_second = ({*accounts_of_one} for accounts_of_one in shares[0])
    assert (len(of_first), len(of_second)) == (1, 1), "a task and those below it are on one share"
    assert of_first != of_second
