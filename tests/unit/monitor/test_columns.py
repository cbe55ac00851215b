from __future__ import annotations

import pytest

from scaler.monitor.columns import COLUMNS, SORTED_BY, host_rows, in_order, matches, rows_of
from scaler.monitor.top.keys import ScreenState, press
from scaler.monitor.top.tables import chosen_columns, table_of
from scaler.monitor.top.view import TopView
from tests.support.monitored import agent, news, row
from tests.support.monitored_cluster import agents, loaded, model_of

NOTHING = ScreenState((), (), 10)


@pytest.mark.parametrize("workers", [0, 1, 1000])
@pytest.mark.parametrize("key", sorted(column.key for column in SORTED_BY.values()))
def test_each_sort_key_sorts_and_pressed_again_reverses(key: str, workers: int) -> None:
    model, view = model_of(loaded(workers)), TopView(sort="")
    column = next(each for each in SORTED_BY.values() if each.key == key)
    orders = []
    for _ in range(2):
        press(view, key, NOTHING)
        table = table_of(model, view, 123)
        assert [field.title for field in table.fields if field.title.startswith("[")] == [f"[{column.title}]"]
        orders.append([line.texts[0] for line in table.lines])
        assert len(table.lines) == workers
    values = {worker.name: column.value(worker) for worker in model.workers}
    first, again = ([values[name] for name in order] for order in orders)
    if key != "n":
        assert first == sorted(first, reverse=True)  # type: ignore[type-var]
        assert again == sorted(again)  # type: ignore[type-var]
    elif workers > 1:
        assert orders[0] == orders[1][::-1]


def test_names_are_in_the_order_of_their_numbers() -> None:
    model = model_of(iter([news("workers", agent(row(), row(), row(), names="w10,w9,w1"))]))
    rows = rows_of(model.workers, ())
    assert [each.name for each in in_order(rows, "name", False)] == ["w1", "w9", "w10"]


def test_unknown_values_are_last_in_both_orders() -> None:
    model = model_of(iter([news("workers", agent(row(cpu=5), names="a,b"), agent(row(cpu=9), names="c", agent=b"2"))]))
    rows = rows_of(model.workers, ())
    assert [each.name for each in in_order(rows, "cpu", False)] == ["c", "a", "b"]
    assert [each.name for each in in_order(rows, "cpu", True)] == ["a", "c", "b"]


def test_equal_values_are_in_the_order_of_names() -> None:
    model = model_of(iter([news("workers", *agents(16, is_busy=False))]))
    rows = rows_of(reversed(model.workers), ())
    names = [each.name for each in in_order(rows, "sent", False)]
    assert names == sorted(names)


def test_hosts_are_sums_that_count_each_agent_once() -> None:
    model = model_of(loaded())
    first, *_, last = host_rows(model.workers, model.stuck.reasons)
    values = [SORTED_BY[name].of(first) for name in ("sent", "queued", "agent_rss")]
    assert (first.name, values) == ("rome07 4/4", [8, 4, 98 << 20])
    assert (first.is_stuck, last.is_stuck) == (False, True)


@pytest.mark.parametrize("sort", [column.name for column in COLUMNS])
@pytest.mark.parametrize("width", [40, 60, 80, 123, 200])
def test_the_sorted_column_is_always_shown_and_all_columns_fit(width: int, sort: str) -> None:
    for scrolled in (0, 3, 9):
        columns, name_width = chosen_columns(width, sort, scrolled)
        assert sort in [column.name for column, _ in columns]
        assert name_width + sum(own + 1 for _, own in columns) <= width


def test_scrolling_moves_columns_away_at_the_left() -> None:
    names = [column.name for column, _ in chosen_columns(80, "name", 2)[0]]
    assert names[:2] == ["cpu", "rss"]


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [("", True), ("ROME", True), ("paris", False), ("!paris", True), ("!rome", False), ("!", True), ("host", True)],
)
def test_a_filter_is_a_part_of_any_text(wanted: str, passes: bool) -> None:
    assert matches(wanted, ["rome07:1", "a Host"]) is passes
