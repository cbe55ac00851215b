"""A map of short rows while processors, agents and the scheduler are killed: each row has its result, once."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scaler import Client, ScalerError
from tests.support.processes import Command, alive, command, free_address, scheduler

if TYPE_CHECKING:
    from typing_extensions import Self

pytestmark = pytest.mark.faults

N_AGENTS = 2
EVERY_SECONDS = {"processor": 1.1, "agent": 5.3, "scheduler": 8.7}
STORM_SECONDS = 1 / 700
"""For each row: after that it is calm, or a busy machine has no time for rows between two starts of processes."""


def short(row: int, folder: str) -> int:
    """Note that a row runs, and take about a millisecond."""
    until = time.perf_counter() + 0.001
    with Path(folder, str(os.getpid())).open("ab", buffering=0) as file:
        file.write(row.to_bytes(4, "big"))
    while time.perf_counter() < until:
        pass
    return 3 * row


class Storm:
    """A scheduler and agents that are killed and replaced until it is over."""

    def __init__(self, stack: ExitStack, folder: Path, rows: int) -> None:
        self._stack, self._folder, self._random = stack, folder, random.Random(rows)
        self._seconds = rows * STORM_SECONDS
        self.address = free_address()
        self.killed: Counter[str] = Counter()
        self._is_over = threading.Event()
        self._scheduler = self._new_scheduler()
        self._agents = [self._new_agent() for _ in range(N_AGENTS)]
        self._thread = threading.Thread(target=self._rage)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _new_scheduler(self) -> Command:
        return self._stack.enter_context(scheduler(self.address))[1]

    def _new_agent(self) -> Command:
        return self._stack.enter_context(command("cluster", self.address, "-n", "1"))

    def _rage(self) -> None:
        due = dict(EVERY_SECONDS)
        began = time.monotonic()
        while not self._is_over.wait(0.05) and time.monotonic() - began < self._seconds:
            for victim, at in due.items():
                if time.monotonic() - began >= at:
                    due[victim] = time.monotonic() - began + EVERY_SECONDS[victim]
                    getattr(self, f"_kill_{victim}")()
                    self.killed[victim] += 1

    def _kill_processor(self) -> None:
        pids = [int(file.name) for file in self._folder.iterdir() if alive(int(file.name))]
        if pids:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(pids), signal.SIGKILL)

    def _kill_agent(self) -> None:
        place = self._random.randrange(N_AGENTS)
        self._agents[place].signal(signal.SIGKILL)
        self._agents[place].end()
        self._agents[place] = self._new_agent()

    def _kill_scheduler(self) -> None:
        self._scheduler.signal(signal.SIGKILL)
        self._scheduler.end()
        self._scheduler = self._new_scheduler()


def runs_of(folder: Path) -> Counter[int]:
    """Return how often each row began."""
    counts: Counter[int] = Counter()
    for file in folder.iterdir():
        data = file.read_bytes()
        counts.update(int.from_bytes(data[place : place + 4], "big") for place in range(0, len(data), 4))
    return counts


def deliver(storm: Storm, folder: Path, rows: int, *, at_most_once: bool) -> tuple[Counter[int], list[object]]:
    """Map rows through a storm. Return how often each row's result was delivered, and all else that was delivered."""
    delivered: Counter[int] = Counter()
    others: list[object] = []
    with Client(storm.address, timeout_seconds=60) as client:
        assert client.map(short, [(row, str(folder)) for row in range(100)]) == [3 * row for row in range(100)]
        for file in folder.iterdir():
            file.write_bytes(b"")
        sender = client.options(at_most_once=at_most_once)
        with storm:
            items = [(row, str(folder)) for row in range(rows)]
            for result in sender.map_unordered(short, items, return_exceptions=True):
                if isinstance(result, int) and result % 3 == 0:
                    delivered[result // 3] += 1
                else:
                    others.append(result)
    return delivered, others


@pytest.mark.parametrize(
    "rows", [pytest.param(20_000, marks=pytest.mark.more), pytest.param(200_000, marks=pytest.mark.soak)]
)
@pytest.mark.timeout(1500)
def test_no_row_is_lost_wrong_or_delivered_twice(rows: int, tmp_path: Path) -> None:
    with ExitStack() as stack:
        storm = Storm(stack, tmp_path, rows)
        delivered, wrong = deliver(storm, tmp_path, rows, at_most_once=False)
    runs = runs_of(tmp_path)
    twice = {row: count for row, count in delivered.items() if count > 1}
    lost = rows - len(delivered)
    again = runs.total() - len(runs)
    print(
        f"{rows:,} rows: killed {dict(storm.killed)}; lost {lost}, wrong {len(wrong)}, delivered twice {len(twice)}; "
    )
    print(f"rows run again: {again:,}, {again / max(1, storm.killed.total()):.0f} for each death")
    assert (lost, wrong, twice) == (0, [], {})
    assert storm.killed.keys() == EVERY_SECONDS.keys()
    assert again <= 1000 * storm.killed.total()


@pytest.mark.parametrize(
    "rows", [pytest.param(10_000, marks=pytest.mark.more), pytest.param(100_000, marks=pytest.mark.soak)]
)
@pytest.mark.timeout(1500)
def test_no_row_with_at_most_once_runs_twice(rows: int, tmp_path: Path) -> None:
    with ExitStack() as stack:
        storm = Storm(stack, tmp_path, rows)
        delivered, errors = deliver(storm, tmp_path, rows, at_most_once=True)
    runs = runs_of(tmp_path)
    twice = {row: count for row, count in (runs | delivered).items() if count > 1}
    unknown = [error for error in errors if not isinstance(error, ScalerError) or "at_most_once" not in str(error)]
    print(
        f"{rows:,} rows: killed {dict(storm.killed)}; with a result {len(delivered):,}, with an error {len(errors):,}, "
        f"with another error {len(unknown)}, run or delivered twice {len(twice)}, run {len(runs):,}"
    )
    assert (len(delivered) + len(errors), unknown, twice) == (rows, [], {})
    assert delivered.keys() <= runs.keys()
    assert storm.killed.keys() == EVERY_SECONDS.keys()
