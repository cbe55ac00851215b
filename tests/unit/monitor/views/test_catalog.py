"""Declarations of views: what they name exists, and what programs and people rely on is unique."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from scaler.actors.monitor.topics import TOPICS
from scaler.monitor.top.keys import OF_ROWS, QUITTING
from scaler.monitor.top.view import NUMBERS
from scaler.monitor.views.catalog import BY_SINGULAR, VIEWS, detail_topics
from scaler.monitor.views.field_types import TYPES
from scaler.monitor.views.view import TABLE, View

TAKEN = {*OF_ROWS, *QUITTING, *NUMBERS, "t", "g", "h", "?", "/", "+", "-", " "}
"""Keys that do something in all views."""
each_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


def test_names_of_views_are_unique() -> None:
    assert len(BY_SINGULAR) == len(VIEWS)
    assert BY_SINGULAR.keys() & VIEWS.keys() == {"scheduler"}
    assert len({view.report or name for name, view in VIEWS.items()}) == len(VIEWS)


@each_view
def test_names_and_keys_of_fields_are_unique(view: View) -> None:
    names = Counter([each.name for each in view.fields] + [name for each in view.fields for name in each.old])
    assert [name for name, count in names.items() if count > 1] == []
    keys = Counter(each.key for each in view.fields if each.key)
    assert [key for key, count in keys.items() if count > 1] == []
    assert not keys.keys() & TAKEN
    assert all(re.fullmatch("[a-z_0-9]+", each.name) for each in view.fields)


@each_view
def test_each_field_has_a_heading_a_meaning_and_a_type(view: View) -> None:
    for each in view.fields:
        assert each.heading
        assert each.meaning
        assert each.type in TYPES
        assert each.in_table or not each.width, f"{each.name} is no column"


@each_view
def test_one_column_takes_the_remaining_width(view: View) -> None:
    assert len([each for each in view.fields if each.in_table and not each.width]) == 1


@each_view
def test_what_a_view_names_exists(view: View) -> None:
    columns = {each.name for each in view.fields if each.in_table}
    assert set(view.less) <= columns
    assert view.field(view.sort.removeprefix("-"))
    assert {each.link[0] for each in view.fields if each.link} <= VIEWS.keys()
    for part in view.parts:
        assert (part.kind == TABLE) == bool(part.view)
        if part.view:
            shown = VIEWS[part.view]
            assert all(map(shown.field, part.without))
            assert not part.sort or shown.field(part.sort.removeprefix("-"))


@each_view
def test_rows_come_from_topics_that_the_scheduler_has(view: View) -> None:
    of_one = {"task/", "graph/"}
    assert view.needed_topics <= TOPICS.keys() | of_one
    assert view.detail_topic in {"", *TOPICS, *of_one}


def test_details_need_their_own_topic_and_those_of_their_rows() -> None:
    assert detail_topics(VIEWS["workers"], (b"", 0)) == {"workers", "processors", "tasks"}
    assert detail_topics(VIEWS["tasks"], b"\x01\xff") == {"task/01ff"}
    assert detail_topics(VIEWS["events"], b"x") == {"events"}
