from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaler.monitor.top.grid import BOLD, PLAIN, REVERSE, Grid, Run
from tests.support.examples import examples


def grid_of(*lines: str, width: int = 20) -> Grid:
    grid = Grid(width, len(lines))
    for number, line in enumerate(lines):
        grid.put(0, number, line)
    return grid


def test_text_stays_in_its_place() -> None:
    grid = Grid(10, 2)
    assert grid.put(2, 0, "abc") == 5
    assert grid.put(7, 0, "long text") == 10
    assert grid.put(0, 1, "long text", most=4) == 4
    assert grid.put(0, 2, "below the edge") == 0
    assert grid.lines() == ["  abc  lon", "long"]


def test_no_half_of_a_wide_character_is_drawn() -> None:
    grid = Grid(5, 1)
    grid.put(0, 0, "日本語")
    assert grid.lines() == ["日本"]


def test_equal_frames_have_no_changes() -> None:
    assert list(grid_of("price", "load").changes(grid_of("price", "load"))) == []


def test_only_changed_cells_are_written() -> None:
    before, after = grid_of("12:41:07 live", "x"), grid_of("12:41:08 live", "x")
    assert list(after.changes(before)) == [Run(7, 0, "8", PLAIN)]


def test_near_changes_are_one_run_and_far_ones_are_two() -> None:
    changes = list(grid_of("aXcdXfghijklmnX").changes(grid_of("abcdefghijklmno")))
    assert [(run.x, run.text) for run in changes] == [(1, "XcdX"), (14, "X")]


def test_a_run_has_one_style() -> None:
    grid = Grid(6, 1)
    grid.put(0, 0, "ab", BOLD)
    grid.put(2, 0, "cd", REVERSE)
    assert list(grid.changes(None)) == [Run(0, 0, "ab", BOLD), Run(2, 0, "cd", REVERSE)]


def test_a_wide_character_is_written_as_a_whole() -> None:
    (run,) = grid_of("a日b").changes(grid_of("a本b"))
    assert (run.x, run.text) == (1, "日")
    (run,) = grid_of("axyb").changes(grid_of("a本b"))
    assert (run.x, run.text) == (1, "xy")


@examples(40)
@given(st.text(max_size=30), st.text(max_size=30))
def test_the_changes_turn_one_frame_into_the_other(before: str, after: str) -> None:
    old, new = grid_of(before), grid_of(after)
    for run in new.changes(old):
        old.put(run.x, run.y, run.text, run.style)
    assert old.lines() == new.lines()
