"""Absence: when a node says that it has no scheduler, and when it has waited for too long."""

from __future__ import annotations

import logging

import pytest

from scaler.agent.absence import Absence


def test_it_says_so_after_three_seconds_then_every_thirty_and_in_the_end(caplog: pytest.LogCaptureFixture) -> None:
    absence = Absence("tcp://10.0.0.1:2345", 100, now=1000.0)
    now, said = 1000.0, []
    while True:
        now += absence.next_seconds(now)
        is_over = absence.look(now)
        said.append(now - 1000)
        if is_over:
            break
    assert said == [3, 33, 63, 93, 100]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 5
    assert "no scheduler has answered at tcp://10.0.0.1:2345 for 33 s" in caplog.text
    assert "no scheduler at tcp://10.0.0.1:2345 for 100 s: the cluster ends" in caplog.text


def test_a_short_patience_ends_before_anything_else_is_said(caplog: pytest.LogCaptureFixture) -> None:
    absence = Absence("ipc:///tmp/x", 1, now=0.0)
    assert absence.next_seconds(0.0) == 1
    assert not absence.look(0.5)
    assert absence.look(1.0)
    assert len(caplog.records) == 1
