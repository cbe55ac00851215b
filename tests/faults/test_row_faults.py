"""What befalls one row of a range befalls that one alone: the others have their results, and hardly any runs again."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, ProcessorDiedError, SchedulerClusterCombo
from scaler.errors import DeserializeObjectError, SerializeObjectError
from tests.support.processes import wait_until

pytestmark = pytest.mark.faults

ROWS = 3000
SPECIAL = range(999, ROWS, 1000)
LIMIT_SECONDS = 2
REPEATED_MOST = 600
"""So many rows may run again for each process that dies: those of some 30 ms. Here a row takes 50 us or more."""


class Unreadable:
    """An argument that cannot be read where the row runs."""

    def __reduce__(self) -> Any:
        return _fail, ()


def _fail() -> None:
    raise OSError("no argument")


def run(row: int, what: str, folder: str, argument: object = None) -> object:
    """Note that a row runs, and do something to those that are special."""
    with Path(folder, str(os.getpid())).open("a") as file:
        file.write(f"{row}\n")
    if row in SPECIAL:
        return _STRANGE[what]()
    return row


_STRANGE: dict[str, Any] = {
    "exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": lambda: time.sleep(600),
    "unpicklable": lambda: (_ for _ in ()),
    "sys.exit": lambda: sys.exit(4),
    "interrupt": lambda: signal.raise_signal(signal.SIGINT),
    "recursion": lambda: _deep(0),
    "memory": lambda: bytearray(2**60),
}


def _deep(level: int) -> int:
    return _deep(level + 1)


def runs_of(folder: Path) -> Counter[int]:
    return Counter(int(line) for file in folder.iterdir() for line in file.read_text().split())


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        SchedulerClusterCombo(n_workers=2, task_timeout_seconds=LIMIT_SECONDS, logging_level="CRITICAL") as combo,
        Client(combo.get_address()) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def known(client: Client, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The function is known to be short, so that the rows of the next map travel together."""
    folder = tmp_path_factory.mktemp("known")
    client.map(run, [(row, "", str(folder)) for row in range(999)])


@pytest.mark.parametrize(
    ("what", "error", "deaths"),
    [
        ("exit", ProcessorDiedError, 3),
        ("kill", ProcessorDiedError, 3),
        ("hang", TimeoutError, 0),
        ("unpicklable", SerializeObjectError, 0),
        ("sys.exit", BaseException, 0),
        ("recursion", RecursionError, 0),
        ("interrupt", BaseException, 0),
        ("memory", MemoryError, 0),
    ],
)
def test_failing_rows_affect_no_other_row(
    client: Client, tmp_path: Path, what: str, error: type[BaseException], deaths: int
) -> None:
    results = client.map(run, [(row, what, str(tmp_path)) for row in range(ROWS)], return_exceptions=True, timeout=120)
    others = [row for row in range(ROWS) if row not in SPECIAL]
    assert [results[row] for row in others] == others
    assert all(isinstance(results[row], error) for row in SPECIAL), [results[row] for row in SPECIAL]
    runs = runs_of(tmp_path)
    assert set(runs) == set(range(ROWS))
    assert {runs[row] for row in SPECIAL} == {max(1, deaths)}
    again = runs.total() - ROWS - sum(runs[row] - 1 for row in SPECIAL)
    assert again <= deaths * len(SPECIAL) * REPEATED_MOST, f"{again} other rows ran again"


def test_an_argument_that_cannot_be_read_is_that_of_its_row(client: Client, tmp_path: Path) -> None:
    items = [(row, "", str(tmp_path), Unreadable() if row in SPECIAL else None) for row in range(ROWS)]
    results = client.map(run, items, return_exceptions=True)
    others = [row for row in range(ROWS) if row not in SPECIAL]
    assert all(isinstance(results[row], DeserializeObjectError) for row in SPECIAL), [results[row] for row in SPECIAL]
    assert [results[row] for row in others] == others
    assert runs_of(tmp_path) == Counter(others)


def test_a_cancel_ends_the_rows_of_ranges_wherever_they_are(client: Client, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:
        map_ = thread.submit(client.map, run, [(row, "hang", str(tmp_path)) for row in range(100 * ROWS)])
        wait_until(lambda: runs_of(tmp_path)[SPECIAL[0]] > 0, "the row to hang")
        client.clear()
        with pytest.raises(CancelledError):
            map_.result()
    assert client.map(run, [(row, "", str(tmp_path)) for row in range(5)]) == list(range(5))
    wait_until(lambda: client.info().waiting_tasks == 0, "nothing to wait")
