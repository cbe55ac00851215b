"""Absence: when a node says that it has no scheduler, and when it has waited for too long."""

from __future__ import annotations

import logging

import pytest

from scaler.agent.absence import Absence
from scaler.transport.lookup import Lookup
from tests.unit.transport.test_lookup import UNKNOWN


def new_absence(address: str, most_seconds: float, now: float) -> Absence:
    lookup = Lookup(address)
    lookup.begin()
    lookup.wait(60)
    return Absence(address, most_seconds, now, lookup)


def test_it_says_so_after_three_seconds_and_then_every_thirty(caplog: pytest.LogCaptureFixture) -> None:
    absence = new_absence("tcp://10.0.0.1:2345", 100, now=1000.0)
    now, said = 1000.0, []
    for _ in range(4):
        now += absence.next_seconds(now)
        absence.look(now)
        said.append(now - 1000)
    assert said == [3, 33, 63, 93]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 4
    assert "no scheduler has answered at tcp://10.0.0.1:2345 for 33 s" in caplog.text
    assert "ends itself after 100 s without one" in caplog.text


def test_a_name_that_cannot_be_resolved_is_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    new_absence(f"tcp://{UNKNOWN}:1", 100, now=0.0).look(3.0)
    assert f"The reason: this machine cannot resolve the host name {UNKNOWN!r}" in caplog.text
    assert "or give an IP address. The cluster keeps trying" in caplog.text


def test_it_says_nothing_before_its_time(caplog: pytest.LogCaptureFixture) -> None:
    absence = new_absence("ipc:///tmp/x", 1, now=0.0)
    absence.look(2.9)
    assert not caplog.records
    assert absence.next_seconds(2.5) == 0.5
