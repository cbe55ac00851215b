from __future__ import annotations

import pytest

from scaler.monitor.model.model import Model
from scaler.monitor.top.keys import ScreenState, press
from scaler.monitor.top.table import laid_out, table_of
from scaler.monitor.top.view import TopView
from scaler.monitor.views.catalog import VIEWS
from scaler.monitor.views.rows import Wanted, chosen, in_order, matches, page_of
from scaler.monitor.views.view import FLAG, ViewState
from scaler.monitor.views.workers import HOSTS, WORKERS
from scaler.wire.messages.monitor import StateTask
from tests.support.monitored import NOON_US, agent, news, row
from tests.support.monitored_cluster import agents, loaded, model_of

NOTHING = ScreenState((), (), 10)
NOON = NOON_US / 1e6


def names(model: Model, sort: str) -> list[str]:
    return [each.name for each in chosen(WORKERS, ViewState(model), Wanted(sort=sort))]


@pytest.mark.parametrize("workers", [0, 1, 1000])
@pytest.mark.parametrize("key", sorted(WORKERS.keys))
def test_each_sort_key_sorts_and_pressed_again_reverses(key: str, workers: int) -> None:
    state, view = ViewState(model_of(loaded(workers))), TopView(sorts={"workers": "-marks"})
    column = WORKERS.field(WORKERS.keys[key])
    assert column is not None
    orders = []
    for _ in range(2):
        press(view, key, NOTHING)
        table = table_of(state, view, 123)
        assert [text for text in table.headings() if text.startswith("[")] == [f"[{column.label}]"]
        orders.append([each.name for each in table.subjects])
        assert len(table.subjects) == workers
    values = {worker.name: column.value(state, worker) for worker in state.model.workers}
    first, again = ([values[name] for name in order] for order in orders)
    if key != "n":
        assert first == sorted(first, reverse=True)
        assert again == sorted(again)
    elif workers > 1:
        assert orders[0] == orders[1][::-1]


def test_names_are_in_the_order_of_their_numbers() -> None:
    assert names(model_of(iter([news("workers", agent(row(), row(), row(), names="w10,w9,w1"))])), "name") == [
        "w1",
        "w9",
        "w10",
    ]


def test_unknown_values_are_last_in_both_orders() -> None:
    model = model_of(iter([news("workers", agent(row(cpu=5), names="a,b"), agent(row(cpu=9), names="c", agent=b"2"))]))
    assert names(model, "-cpu") == ["c", "a", "b"]
    assert names(model, "cpu") == ["a", "c", "b"]


def test_equal_values_are_in_the_order_of_names() -> None:
    model = model_of(iter([news("workers", *reversed(agents(16, is_busy=False)))]))
    for sort in ("-sent", "sent"):
        assert names(model, sort) == sorted(names(model, sort))


def test_workers_that_look_stuck_are_first_if_that_is_the_order() -> None:
    assert names(model_of(loaded()), FLAG)[:2] == ["rome10:3", "rome07:0"]


def test_an_order_by_an_unknown_field_is_an_error() -> None:
    with pytest.raises(KeyError):
        in_order(WORKERS, ViewState(model_of()), [], "-height")


def test_hosts_are_sums_that_count_each_agent_once() -> None:
    state = ViewState(model_of(loaded()))
    first, *_, last = HOSTS.rows(state)
    fields = {each.name: each for each in HOSTS.fields}
    assert [fields[name].value(state, first) for name in ("sent", "queued", "agent_rss")] == [8, 4, 98 << 20]
    assert fields["name"].text(state, first) == "rome07 4/4"
    assert (HOSTS.mark(state, first), HOSTS.mark(state, last)) == (" ", "*")


@pytest.mark.parametrize("sort", [column.name for column in WORKERS.fields if column.key])
@pytest.mark.parametrize("width", [40, 60, 80, 123, 200])
def test_the_sorted_column_is_always_shown_and_all_columns_fit(width: int, sort: str) -> None:
    for scrolled in (0, 3, 9):
        columns = laid_out(WORKERS, width, sort, scrolled)
        assert sort in [column.name for column, _ in columns]
        assert sum(own + 1 for _, own in columns) - 1 <= width


def test_scrolling_moves_columns_away_at_the_left() -> None:
    assert [column.name for column, _ in laid_out(WORKERS, 80, "name", 2)][1:3] == ["cpu", "rss"]


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [("", True), ("ROME", True), ("paris", False), ("!paris", True), ("!rome", False), ("!", True), ("host", True)],
)
def test_a_filter_is_a_part_of_any_text(wanted: str, passes: bool) -> None:
    assert matches(wanted, ["rome07:1", "a Host"]) is passes


def test_rows_are_chosen_by_owner_state_and_time() -> None:
    tasks = [
        StateTask(b"1", state="running", owner="alice", started_us=NOON_US),
        StateTask(b"2", state="workerDied", owner="bob", ended_us=NOON_US + 5_000_000),
        StateTask(b"3", state="success", owner="bob"),
    ]
    state = ViewState(model_of(iter([news("tasks", *tasks)])))

    def found(**wanted: object) -> list[bytes]:
        return sorted(each.task for each in chosen(VIEWS["tasks"], state, Wanted(**wanted)))  # type: ignore[arg-type]

    assert found() == [b"1", b"2", b"3"]
    assert found(owner="bob") == [b"2", b"3"]
    assert found(state="failed") == [b"2"]
    assert found(start=NOON + 1) == [b"2", b"3"], "the time of the third is unknown"
    assert found(end=NOON + 1, owner="alice") == [b"1"]


def test_a_page_beyond_the_end_is_the_last_one() -> None:
    assert page_of(range(25), 10, 10) == (range(10, 20), 10)
    assert page_of(range(25), 1000, 10) == (range(20, 25), 20)
    assert page_of([], 10, 10) == ([], 0)
