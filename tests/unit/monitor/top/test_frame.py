"""Frames against stored pictures, through a terminal: `python -m tests.support.pictures` writes the pictures again."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import blessed
import pyte
import pytest

from scaler.endpoint import Endpoint
from scaler.monitor.top.frame import FrameInput, draw
from scaler.monitor.top.grid import Grid
from scaler.monitor.top.screen import Painter
from scaler.monitor.top.text import width_of
from scaler.monitor.top.view import TopView
from tests.support.monitored_cluster import model_of
from tests.support.pictures import ADDRESS, FOLDER, HEARD_AT, PICTURES, Picture, text_of


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Shown:
    """A terminal of the given size, and what is written to it."""

    def __init__(self, width: int, height: int, has_color: bool = True) -> None:
        terminal = blessed.Terminal(kind="xterm-256color", stream=io.StringIO(), force_styling=True)
        self._painter = Painter(terminal, has_color)
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self.screen)
        self.written = ""

    def paint(self, frame: Grid, before: Grid | None) -> None:
        self.written = self._painter.paint(frame, before)
        self._stream.feed(self.written)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip("\n") + "\n"


@pytest.mark.parametrize("name", PICTURES)
def test_each_state_matches_its_stored_picture(name: str) -> None:
    picture = PICTURES[name]
    shown = Shown(picture.width, picture.height)
    shown.paint(picture.draw(), None)
    assert shown.text == (FOLDER / f"{name}.txt").read_text()


def test_each_stored_picture_belongs_to_a_state() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(PICTURES)


def test_any_frame_can_follow_another_of_its_size() -> None:
    frames = [picture.draw() for picture in PICTURES.values() if (picture.width, picture.height) == (80, 24)]
    shown = Shown(80, 24)
    before = None
    for frame in [*frames, *reversed(frames)]:
        shown.paint(frame, before)
        assert shown.text == text_of(frame)
        before = frame


def test_an_unchanged_frame_writes_nothing_and_the_next_second_few_bytes() -> None:
    picture = PICTURES["idle-80x24"]
    shown = Shown(80, 24)
    first = picture.draw()
    shown.paint(first, None)
    shown.paint(picture.draw(), first)
    assert shown.written == ""
    later = Picture(80, 24, picture.news, seconds_later=0.9).draw()
    later.put(0, 13, later.lines()[13].replace("11:06:40", "11:06:41"))
    shown.paint(later, first)
    assert 0 < len(shown.written.encode()) <= 200


def test_colors_carry_no_extra_information_and_can_be_left_out() -> None:
    frame = PICTURES["loaded-80x24"].draw()
    plain, colored = Shown(80, 24, has_color=False), Shown(80, 24)
    plain.paint(frame, None)
    colored.paint(frame, None)
    assert plain.text == colored.text
    assert {cell.fg for row in plain.screen.buffer.values() for cell in row.values()} == {"default"}
    used = {cell.fg for row in colored.screen.buffer.values() for cell in row.values()}
    assert used == {"default", "red", "green", "brown", "magenta"}  # pyte calls the yellow of the first eight brown


@pytest.mark.parametrize("name", ["loaded-80x24", "worker-80x24", "help-80x24", "silent-80x24", "odd-names-80x24"])
def test_any_size_can_be_drawn(name: str) -> None:
    known = PICTURES[name]
    model = model_of(known.news(), now=HEARD_AT)
    moment = FrameInput(HEARD_AT + known.seconds_later, Endpoint.parse(ADDRESS), **known.moment)
    for width in (1, 39, 40, 57, 79, 81, 123, 159, 160, 210):
        for height in (1, 9, 10, 11, 15, 16, 17, 19, 20, 23, 39, 40, 60):
            lines = draw(model, TopView(**known.view), width, height, moment).lines()
            assert len(lines) == height
            assert max(map(width_of, lines)) <= width


def test_a_small_screen_says_so() -> None:
    assert PICTURES["loaded-39x9"].draw().lines()[0] == "Too small: 39x9, needs 40x10"


def test_the_documentation_shows_a_kept_picture() -> None:
    page = (Path(__file__).parents[4] / "docs" / "howto" / "watching.md").read_text()
    assert (FOLDER / "loaded-80x24.txt").read_text() in page
