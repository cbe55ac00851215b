from __future__ import annotations

import pytest

from scaler.monitor.top.tables import table_of
from scaler.monitor.top.view import VIEWS, TopView
from tests.support.monitored import news
from tests.support.monitored_cluster import loaded, model_of


def test_workers_are_found_by_name_host_and_function() -> None:
    model = model_of(loaded())
    assert [
        len(table_of(model, TopView(filter=text), 80).lines) for text in ("rome07:1", "rome08", "pric", "!pric")
    ] == [
        1,
        4,
        16,
        0,
    ]


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_has_a_table_that_fits(name: str) -> None:
    for model in (model_of(loaded()), model_of(iter([news("scheduler")]))):
        for width in (40, 80, 123):
            table = table_of(model, TopView(name=name), width)
            assert sum(field.width for field in table.fields) + len(table.fields) - 1 <= width
            assert all(len(line.texts) == len(table.fields) for line in table.lines)
            assert table.empty or name == "workers" or table.lines


def test_failures_are_the_latest_first_and_functions_the_largest() -> None:
    model = model_of(loaded())
    assert [line.texts[0] for line in table_of(model, TopView(name="failures"), 80).lines] == [
        "ValueError: bad strike",
        "WorkerDied: lost 3 times",
    ]
    assert [line.texts[0] for line in table_of(model, TopView(name="functions"), 80).lines] == [
        "price",
        "load",
        "calibrate",
        "all others",
    ]
