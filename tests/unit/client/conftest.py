from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler.client import Client
from scaler.client.link.link import ClientLink
from scaler.shared_memory import SHARING_VARIABLE
from tests.support.faces import FACES, Face, Use, user
from tests.support.fake_scheduler import FakeScheduler


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with FakeScheduler() as fake:
        yield fake


@pytest.fixture
def client(scheduler: FakeScheduler) -> Iterator[Client]:
    with Client(scheduler.address, timeout_seconds=30) as one:
        yield one


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Face:
    """Make clients of either kind: `async with face(address) as client`."""
    return FACES[request.param]


@pytest.fixture
def use(face: Face, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Run a test in a loop of its own, with a client of the scheduler of either kind."""
    monkeypatch.setenv(SHARING_VARIABLE, "0")  # the scheduler reads no memory of clients
    return user(face, scheduler.address, heartbeat_interval_seconds=0.02)


@pytest.fixture
def new_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Client]]:
    """Make clients that look for a silent scheduler soon."""
    clients: list[Client] = []

    def impatient_link(*arguments: Any, **options: Any) -> ClientLink:
        return ClientLink(*arguments, silence_seconds=0.5, **options)

    def new(address: str, **settings: Any) -> Client:
        clients.append(Client(address, **{"heartbeat_interval_seconds": 0.02, **settings}))
        return clients[-1]

    monkeypatch.setattr("scaler.client.lifetime.ClientLink", impatient_link)
    yield new
    for client in clients:
        client.disconnect()
