from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.processes import marked
from tests.support.slurm import slurm_in


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """One cluster for all tests of a module. A module that needs other settings has a fixture of its own."""
    with SchedulerClusterCombo(n_workers=2, logging_level="WARNING") as combo:
        yield combo.get_address()


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


@pytest.fixture
def mark() -> Iterator[str]:
    """For `MARK` in the environment of a program: what it has started and left behind is found by it, and ended."""
    mark = uuid.uuid4().hex
    yield mark
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Slurm of one node and one core. Yields the environment that finds it."""
    with slurm_in(tmp_path) as environment:
        yield environment
