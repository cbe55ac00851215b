from __future__ import annotations

import pytest

from scaler.monitor.top.table import table_of
from scaler.monitor.top.view import VIEWS, TopView
from scaler.monitor.views.view import ViewState
from tests.support.monitored import news
from tests.support.monitored_cluster import loaded, model_of
from tests.support.pictures import watched


def first_texts(name: str) -> list[str]:
    table = table_of(ViewState(model_of(loaded())), TopView(name=name), 80)
    return [table.texts(each)[0] for each in table.subjects]


def test_workers_are_found_by_name_host_and_function() -> None:
    state = ViewState(model_of(loaded()))
    found = [len(table_of(state, TopView(filter=text), 80).keys) for text in ("rome07:1", "rome08", "pric", "!pric")]
    assert found == [1, 4, 16, 0]


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_has_a_table_that_fits(name: str) -> None:
    for model in (model_of(watched()), model_of(iter([news("scheduler")]))):
        state = ViewState(model)
        for width in (40, 80, 123, 200):
            table = table_of(state, TopView(name=name), width)
            assert sum(own + 1 for _, own in table.columns) - 1 <= width
            assert all(len(table.texts(each)) == len(table.columns) for each in table.subjects)
            assert table.subjects or table.view.empty.lines(state)


def test_failures_are_the_latest_first_and_functions_the_largest() -> None:
    assert first_texts("failures") == ["ValueError: bad strike", "WorkerDied: lost 3 times"]
    assert first_texts("functions") == ["price", "load", "calibrate", "all others"]


def test_functions_that_are_summed_up_are_last_in_each_order() -> None:
    state, view = ViewState(model_of(loaded())), TopView(name="functions")
    for sort in ("open", "-open", "name", "-name", "-total"):
        view.sorts["functions"] = sort
        assert table_of(state, view, 80).keys[-1] == b""
