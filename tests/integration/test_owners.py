"""Owners of connections: shares between them and not between their clients; real processes over TCP with keys."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scaler import Client
from tests.integration.test_keys import Site

TASK_SECONDS = 0.002
TASKS = 2400
"""of the one whose share is 2; the other one has half of that"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path / "home"))
    site = Site(tmp_path)
    yield site
    site.end()


def spend(seconds: float) -> float:
    """Take so long, and return when that was over."""
    time.sleep(seconds)
    return time.time()


@pytest.mark.thorough
@pytest.mark.parametrize("sessions", [1, 20])
def test_shares_of_two_to_one_hold_however_many_sessions_an_owner_has(site: Site, sessions: int) -> None:
    """Counted while both wait: from when all have begun until the first has nothing left."""
    alice, bob = site.allow("alice", "client", "--share", "2"), site.allow("bob")
    site.cluster()
    with ExitStack() as stack:
        of_alice = stack.enter_context(Client(site.address, key_file=alice))
        of_bob = [stack.enter_context(Client(site.address, key_file=bob)) for _ in range(sessions)]
        of_alice.submit(spend, 0.0).result(timeout=60)  # a worker is there, and has the function
        mine = [of_alice.submit(spend, TASK_SECONDS) for _ in range(TASKS)]
        theirs = [each.submit(spend, TASK_SECONDS) for _ in range(TASKS // sessions) for each in of_bob]
        ends = [sorted(future.result(timeout=120) for future in some) for some in (mine, theirs)]
    begin = max(each[40] for each in ends)
    end = min(each[-1] for each in ends)
    of_two, of_one = (sum(begin <= at <= end for at in each) for each in ends)
    assert of_one > TASKS // 4
    assert of_two / of_one == pytest.approx(2.0, rel=0.05), (of_two, of_one)
