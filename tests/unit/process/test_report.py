"""What actors report of themselves on request, and how it is shown."""

from __future__ import annotations

import pytest

from scaler.process.report import NAMED_MOST, Report, in_words, page, size, traffic, with_most_tasks
from scaler.wire.messages.client import ClientHeartbeat, TaskCancel
from scaler.wire.session.traffic import Traffic


def test_a_report_returns_added_entries_by_kind() -> None:
    report = Report()
    report.add("worker", "one", {"tasks": 1})
    report.add("worker", "two", {"tasks": 2})
    assert report.of("worker") == [("one", {"tasks": 1}), ("two", {"tasks": 2})]
    assert report.total("worker", "tasks") == 3
    assert report.of("client") == []
    assert report.total("client", "tasks") == 0


def test_a_page_has_a_row_for_each_name() -> None:
    rows = (("short", "one"), ("a longer name", in_words({"dead_letters": 1000, "timers": 2})))
    assert page("title", rows) == "title\n  short     one\n  a longer name 1,000 dead letters, 2 timers"


def test_names_with_the_most_tasks_are_listed_up_to_a_limit() -> None:
    assert with_most_tasks([("idle", {"tasks": 0})]) == ""
    assert with_most_tasks([("idle", {"tasks": 0}), ("one", {"tasks": 1000}), ("two", {"tasks": 2000})]) == (
        "; most tasks: two 2,000, one 1,000"
    )
    text = with_most_tasks((f"worker {number}", {"tasks": number}) for number in range(1000))
    assert text.count("worker") == NAMED_MOST
    assert text.endswith(" worker 992 992")


def test_traffic_names_the_most_frequent_items_and_counts_the_rest() -> None:
    way = Traffic()
    assert traffic(way) == "nothing; 0 messages, 0 B"
    way.items.update({ClientHeartbeat: 3, TaskCancel: 5000})
    way.add_message(bytes(1536), ())
    assert traffic(way) == "5,000 TaskCancel, 3 ClientHeartbeat; 1 messages, 1.5 KiB"
    way.items.update({type(f"Message{number}", (), {}): 100 + number for number in range(NAMED_MOST)})
    assert traffic(way).startswith("5,000 TaskCancel, 107 Message7, ")
    assert f", {100 + 3} others; " in traffic(way)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 * 1024, "1.5 MiB"), (5 * 1024**4, "5.0 TiB"),
     (3000 * 1024**4, "3000.0 TiB")],
)  # fmt: skip
def test_sizes_are_shown_in_the_largest_unit_that_fits(n_bytes: int, text: str) -> None:
    assert size(n_bytes) == text
