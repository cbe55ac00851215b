"""Clusters whose workers hash texts in different ways."""

from __future__ import annotations

import pytest

from scaler.actors.vocabulary.text_hashes import TextHashes
from scaler.wire.messages.common import PROTOCOL_VERSION
from scaler.wire.messages.worker import RANDOM_HASHES, WorkerHello
from tests.support.simulation import Simulation


def hello(number: int, text_hash: int) -> WorkerHello:
    own = (PROTOCOL_VERSION, "9.9.9", "3.11.7", "3.1.1", bytes([number]) * 16, f"host{number}-0,host{number}-1", b"")
    return WorkerHello(*own, text_hash=text_hash)


def test_each_hash_that_differs_from_others_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    hashes = TextHashes()
    for number in (1, 2):
        hashes.add(hello(number, 0xABC))
    hashes.add(hello(3, 0))
    assert caplog.messages == []
    hashes.add(hello(4, 0xDEF))
    hashes.add(hello(5, 0xDEF))
    [line] = caplog.messages
    assert "is 0x00000def on worker host4-0 and 0x00000abc on worker host1-0" in line
    assert "same Python" in line
    assert "PYTHONHASHSEED" in line
    hashes.add(hello(6, RANDOM_HASHES))
    assert "is random on worker host6-0 and 0x00000abc on worker host1-0" in caplog.messages[1]
    hashes.add(hello(7, RANDOM_HASHES))
    assert len(caplog.messages) == 2


def test_hashes_of_agents_that_left_are_not_compared(caplog: pytest.LogCaptureFixture) -> None:
    hashes = TextHashes()
    for number in (1, 2):
        hashes.add(hello(number, 0xABC))
    for number in (1, 1, 2, 3):
        hashes.remove(bytes([number]) * 16)
    hashes.add(hello(4, 0xDEF))
    assert caplog.messages == []
    hashes.add(hello(1, 0xABC))
    assert len(caplog.messages) == 1


def test_an_agent_counts_for_as_long_as_its_session_lasts(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    first = simulation.agent(text_hash=0xABC)
    first.connect()
    simulation.run()
    second = simulation.agent(text_hash=0xDEF)
    assert caplog.text.count("hash(text) differs") == 1
    for agent in (first, second):
        agent.die()
    simulation.advance(70.0)
    simulation.agent(text_hash=0x123)
    assert caplog.text.count("hash(text) differs") == 1
