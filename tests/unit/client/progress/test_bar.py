"""Progress: the rate of ended tasks, and when it is shown."""

from __future__ import annotations

import io

import pytest

from scaler.client.link.requests import OnOutput
from scaler.client.progress.bar import ASK_SECONDS, PACE_SECONDS, Progress, Reports
from scaler.client.progress.displays import ProgressSummary
from scaler.errors import DisconnectedError
from scaler.ids import TaskId
from scaler.wire.messages.client import OutputLine
from scaler.wire.messages.common import OutputStream
from tests.support.virtual_clock import VirtualClock


class Recorder:
    pause_seconds = 1.0

    def __init__(self) -> None:
        self.shown: list[ProgressSummary] = []
        self.ended: list[ProgressSummary] = []

    def show(self, summary: ProgressSummary) -> None:
        self.shown.append(summary)

    def end(self, summary: ProgressSummary) -> None:
        self.ended.append(summary)


class Scene:
    def __init__(self, total: int | None = 100) -> None:
        self.now = 50.0
        self.concern = ""
        self.display = Recorder()
        self.progress = Progress(total, io.StringIO(), lambda: self.concern, self.display, lambda: self.now)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_progress_bar_is_drawn_at_most_once_per_pause_of_its_display(scene: Scene) -> None:
    for _ in range(40):
        scene.now += 0.25
        scene.progress.update(1)
    assert len(scene.display.shown) == 10


def test_the_rate_of_a_progress_bar_is_the_recent_one(scene: Scene) -> None:
    scene.now += 100
    scene.progress.update(10)
    assert scene.display.shown[-1].rate == pytest.approx(0.1)
    for second in range(60):
        scene.now += 1
        scene.progress.update(10 + second)
    assert scene.display.shown[-1].rate == pytest.approx(1, rel=0.1)
    scene.now += 4 * PACE_SECONDS
    scene.progress.update(69)
    scene.now += PACE_SECONDS
    scene.progress.update(69)
    assert scene.display.shown[-1].rate == 0


def test_the_last_summary_has_the_total_rate_and_the_failures(scene: Scene) -> None:
    scene.now += 50
    scene.progress.finish(100, 3)
    (last,) = scene.display.ended
    assert (last.done, last.failed, last.elapsed_seconds) == (100, 3, 50)
    assert last.rate == pytest.approx(2)


def test_a_progress_bar_shows_why_tasks_wait_while_they_do(scene: Scene) -> None:
    scene.concern = "no worker is connected"
    scene.now += 1
    scene.progress.update(0)
    scene.concern = ""
    scene.now += 1
    scene.progress.update(1)
    assert [summary.concern for summary in scene.display.shown] == ["no worker is connected", ""]


def test_an_unknown_total_is_known_at_the_end() -> None:
    scene = Scene(None)
    scene.now += 1
    scene.progress.update(7)
    scene.progress.finish(9)
    assert [scene.display.shown[0].total, scene.display.ended[0].total] == [None, 9]


REPORT = OutputLine(1, TaskId(b"t" * 16), OutputStream.REPORT, 7, 0, "train", "w", "40% epoch 4")


def test_reports_are_requested_periodically_and_the_latest_one_is_shown() -> None:
    clock, asked = VirtualClock(100.0), list[OnOutput]()
    reports = Reports(asked.append, clock)
    assert (reports.text(), asked) == ("", [])  # most tasks have ended by then
    clock.advance(ASK_SECONDS)
    assert [reports.text() for _ in range(3)] == ["", "", ""]
    assert len(asked) == 1
    asked[0]([REPORT], 0)
    assert reports.text() == "train: 40% epoch 4"
    clock.advance(ASK_SECONDS)
    reports.text()
    asked[1]([], 0)
    assert reports.text() == ""


def test_a_disconnected_client_is_no_error_of_the_progress_bar() -> None:
    def refuse(_taker: OnOutput) -> None:
        raise DisconnectedError("it has left")

    clock = VirtualClock(100.0)
    reports = Reports(refuse, clock)
    clock.advance(ASK_SECONDS)
    assert reports.text() == ""
