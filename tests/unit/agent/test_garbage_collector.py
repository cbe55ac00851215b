"""GarbageCollector: collects once per interval, and gives back memory above the threshold."""

from __future__ import annotations

import pytest

from scaler.agent import garbage_collector as module
from scaler.agent.garbage_collector import GarbageCollector
from scaler.executors.messages import CollectionDue
from scaler.kit import Dispatcher
from tests.support.recorder import Recorder
from tests.support.virtual_clock import VirtualClock


def test_each_slot_and_the_agent_collect_garbage_once_per_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(module, "trim_memory", asked.append)
    clock = VirtualClock()
    dispatcher = Dispatcher(clock)
    workers = (Recorder(), Recorder())
    dispatcher.spawn(GarbageCollector(tuple(dispatcher.spawn(slot) for slot in workers), 30.0, 1000))
    for rounds, seconds in ((0, 29.0), (1, 1.0), (1, 29.0), (2, 1.0)):
        clock.advance(seconds)
        assert dispatcher.run()
        assert [slot.messages for slot in workers] == [[CollectionDue()] * rounds] * 2
        assert asked == [1000] * rounds
