from __future__ import annotations

from collections.abc import Iterator

import pytest

from scaler import Client, SchedulerClusterCombo


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """One cluster for all tests of a module. A module that needs other settings has a fixture of its own."""
    with SchedulerClusterCombo(n_workers=2, logging_level="WARNING") as combo:
        yield combo.get_address()


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client
