from __future__ import annotations

import pytest

from scaler.monitor.top.details import DetailLine
from scaler.monitor.top.keys import ScreenState, press
from scaler.monitor.top.table import scrolled_to, table_of
from scaler.monitor.top.view import NUMBERS, VIEWS, Target, TopView
from scaler.monitor.views.view import ViewState
from tests.support.monitored_cluster import loaded, model_of

ROWS = ScreenState(["a", "b", "c", "d", "e"], (), 3)
LINES = ScreenState((), [DetailLine("x"), DetailLine("y", target=Target("task", b"t")), DetailLine("z")], 3)


def pressed(*keys: str, shown: ScreenState = ROWS, **view: object) -> TopView:
    changed = TopView(**view)  # type: ignore[arg-type]
    for key in keys:
        assert press(changed, key, shown)
    return changed


def test_only_q_quits() -> None:
    assert not press(TopView(), "q", ROWS)
    for number in range(32, 127):
        if chr(number) not in "qQ":
            assert press(TopView(), chr(number), ROWS), chr(number)


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_numbers_choose_views_and_tab_cycles_through_them(number: int) -> None:
    assert pressed(*[key for key, name in NUMBERS.items() if name == VIEWS[number]]).name in (VIEWS[number], VIEWS[0])
    assert pressed(*["KEY_TAB"] * (number + len(VIEWS))).name == VIEWS[number]
    assert pressed(*["KEY_BTAB"] * (len(VIEWS) - number)).name == VIEWS[number]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["KEY_DOWN"], "a"),
        (["j", "j"], "b"),
        (["KEY_DOWN", "KEY_DOWN", "KEY_UP"], "a"),
        (["KEY_END"], "e"),
        (["KEY_END", "KEY_PGUP"], "c"),
        (["KEY_DOWN", "KEY_PGDOWN"], "c"),
        (["KEY_END", "KEY_DOWN"], "e"),
        (["KEY_HOME", "k"], "a"),
    ],
)
def test_keys_move_the_selection(keys: list[str], chosen: str) -> None:
    assert pressed(*keys).selected == {"workers": chosen}


def test_a_star_cycles_through_the_workers_that_look_stuck() -> None:
    view, shown = TopView(), ScreenState(ROWS.keys, (), 3, marked=["b", "d"])
    chosen = []
    for _ in range(3):
        press(view, "*", shown)
        chosen.append(view.selected["workers"])
    assert chosen == ["b", "d", "b"]
    press(view, "*", ROWS)
    assert view.selected["workers"] == "b", "nobody looks stuck"
    assert pressed("4", "*", shown=shown).name == "workers"


def test_keys_do_nothing_in_a_view_without_rows() -> None:
    view = pressed("KEY_DOWN", "KEY_END", "KEY_ENTER", "KEY_PGUP", shown=ScreenState((), (), 3))
    assert (view.selected, view.details) == ({}, [])


def test_the_selection_stays_with_its_row_and_on_the_screen() -> None:
    state, view = ViewState(model_of(loaded(40))), TopView()
    table = table_of(state, view, 80)
    view.selected["workers"] = table.keys[30]
    top, chosen = scrolled_to(view, table, 8)
    assert top <= chosen == 30 < top + 8
    press(view, "n", ROWS)
    table = table_of(state, view, 80)
    top, chosen = scrolled_to(view, table, 8)
    assert table.keys[chosen] == view.selected["workers"]
    assert top <= chosen == 9 < top + 8


def test_enter_opens_and_escape_goes_back_step_by_step() -> None:
    view = pressed("KEY_DOWN", "KEY_DOWN", "KEY_ENTER")
    assert view.details == [Target("worker", "b")]
    press(view, "KEY_ENTER", LINES)  # the first line that leads anywhere
    assert view.details == [Target("worker", "b"), Target("task", b"t")]
    press(view, "KEY_ESCAPE", LINES)
    press(view, "KEY_ESCAPE", LINES)
    assert view.details == []


def test_in_details_keys_move_the_line() -> None:
    assert pressed("j", "j", "j", shown=LINES, details=[Target("worker", "b")]).line == 2
    assert pressed("4", shown=LINES, details=[Target("worker", "b")]).details == []


def test_a_filter_is_typed_kept_and_removed() -> None:
    view = pressed("/", "q", "1", "x", "KEY_BACKSPACE", "KEY_ENTER")
    assert (view.filter, view.is_typing, view.name) == ("q1", False, "workers")
    assert pressed("KEY_ESCAPE", filter="q1").filter == ""
    assert pressed("/", "y", "\x1b", filter="q1").filter == ""
    assert len(pressed("/", *"x" * 100).filter) == 60


def test_help_is_closed_by_any_key_and_views_may_be_chosen_from_it() -> None:
    assert pressed("?").is_help
    assert not pressed("h", "q").is_help  # and it has not quit
    assert (pressed("?", "3").is_help, pressed("?", "3").name) == (False, "clients")
    assert pressed("?", "j").is_help


def test_keys_toggle_pause_rates_hosts_and_cadence() -> None:
    assert pressed(" ").is_paused
    assert not pressed(" ", " ").is_paused
    assert pressed("t").per_second
    assert pressed("2", "g").table.name == "hosts"
    assert pressed("g", "g").table.name == "workers"
    assert pressed("5").table.name == "hosts"
    assert (pressed("+").cadence, pressed("-").cadence, pressed(*"++++").cadence) == (2.0, 0.5, 5.0)
    assert (pressed("KEY_RIGHT", "KEY_RIGHT").column, pressed("KEY_LEFT").column) == (2, 0)
