"""What a bar shows of the oldest open task."""

from __future__ import annotations

from scaler.client.link.outputs import OnOutput
from scaler.client.progress.reports import ASK_SECONDS, Reports
from scaler.errors import DisconnectedError
from scaler.ids import TaskId
from scaler.kit import VirtualClock
from scaler.wire.messages.client import OutputLine
from scaler.wire.messages.common import OutputStream

REPORT = OutputLine(1, TaskId(b"t" * 16), OutputStream.REPORT, 7, 0, "train", "w", "40% epoch 4")


def test_it_asks_now_and_then_and_shows_the_latest_answer() -> None:
    clock, asked = VirtualClock(100.0), list[OnOutput]()
    reports = Reports(asked.append, clock)
    assert (reports.text(), asked) == ("", [])  # most tasks are over before
    clock.advance(ASK_SECONDS)
    assert [reports.text() for _ in range(3)] == ["", "", ""]
    assert len(asked) == 1
    asked[0]([REPORT], 0)
    assert reports.text() == "train: 40% epoch 4"
    clock.advance(ASK_SECONDS)
    reports.text()
    asked[1]([], 0)
    assert reports.text() == ""


def test_a_client_that_has_left_is_no_failure_of_the_bar() -> None:
    def refuse(_taker: OnOutput) -> None:
        raise DisconnectedError("it has left")

    clock = VirtualClock(100.0)
    reports = Reports(refuse, clock)
    clock.advance(ASK_SECONDS)
    assert reports.text() == ""
