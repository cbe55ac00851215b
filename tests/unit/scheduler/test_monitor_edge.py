"""The address of the monitor stream, and the head of its messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.actors.messages.monitor import SubscriptionsChanged
from scaler.actors.monitor import About
from scaler.endpoint import ANYWHERE, Endpoint
from scaler.kit import Actor, Dispatcher, handles
from scaler.scheduler.gauges import ProcessGauges
from scaler.scheduler.monitor_edge import ITEMS_MOST, MonitorEdge, open_publisher
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.monitor import StateCount, StateHead
from tests.support.processes import wait_until
from tests.support.viewer import Viewer

ABOUT = About("tcp://127.0.0.1:2345", "1.2.3", 5, 1000)


class Heard(Actor):
    def __init__(self) -> None:
        self.changes: list[bool] = []

    @handles(SubscriptionsChanged)
    def _changed(self, changed: SubscriptionsChanged) -> None:
        self.changes.append(changed.is_new)


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[MonitorEdge]:
    loop = asyncio.new_event_loop()
    publisher = open_publisher(Endpoint.parse(f"ipc://{tmp_path}/monitor"), None, print)
    assert publisher is not None
    yield MonitorEdge(publisher, b"schedule", ABOUT, ProcessGauges(loop))
    publisher.close()
    loop.close()


def hear(edge: MonitorEdge, *prefixes: str) -> list[bool]:
    """Receive until exactly these prefixes are subscribed to. Return the changes that the monitor receives."""
    dispatcher, heard = Dispatcher(time.monotonic), Heard()
    edge.monitor = dispatcher.spawn(heard)
    deadline = time.monotonic() + 5
    while set(edge.prefixes()) != set(prefixes) and time.monotonic() < deadline:
        edge.receive()
        dispatcher.run()
        time.sleep(0.001)
    assert set(edge.prefixes()) == set(prefixes)
    return heard.changes


def test_a_monitor_message_names_its_scheduler_and_the_number_of_items(edge: MonitorEdge, tmp_path: Path) -> None:
    with Viewer(f"ipc://{tmp_path}/monitor", "scheduler") as viewer:
        assert hear(edge, "scheduler") == [True]
        items = [StateCount(0, "success", number) for number in range(ITEMS_MOST + 1)]
        edge.publish("scheduler", items, 7, 9)
        edge.publish("scheduler", [], 0, 0)
        messages = viewer.messages(5.0)
        first, second, third = (next(messages) for _ in range(3))
        assert [message.number for message in (first, second, third)] == [1, 2, 3]
        assert (first.head.more, second.head.more, third.head.more) == (1, 0, 0)
        assert first.items + second.items == items
        assert first.head == StateHead(b"schedule", first.head.time_us, 7, 9, 1)
        assert abs(first.head.time_us / 1e6 - time.time()) < 60
        viewer.leave("scheduler")
        assert hear(edge) == [False]


def test_topics_that_are_not_ascii_are_ignored(edge: MonitorEdge, tmp_path: Path) -> None:
    with Viewer(f"ipc://{tmp_path}/monitor", "größe", "scheduler"):
        hear(edge, "scheduler")
        assert list(edge.prefixes()) == ["scheduler"]


def test_many_subscriptions_of_a_viewer_are_handled_in_parts(
    edge: MonitorEdge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.scheduler.monitor_edge.CHANGES_MOST", 2)
    with Viewer(f"ipc://{tmp_path}/monitor", "a", "b", "c", "d", "e"):
        parts, known = [], 0
        wait_until(lambda: edge.receive() or edge.prefixes(), "the viewer has come")
        while known < 5:
            parts.append(len(edge.prefixes()) - known)
            known = len(edge.prefixes())
            may_be_more = edge.receive()
            assert may_be_more == (len(edge.prefixes()) - known == 2)
        assert max(parts) <= 2


def test_a_long_traceback_is_truncated_and_an_unreadable_one_is_empty(edge: MonitorEdge) -> None:
    failure = TaskFailure("ValueError", "no", "x" * 10_000 + "the end", b"")
    assert len(edge.read_traceback(failure.encode())) == 4096
    assert edge.read_traceback(failure.encode()).endswith("the end")
    assert edge.read_traceback(b"rubbish") == ""


def test_the_default_monitor_address_is_derived_from_that_of_the_scheduler() -> None:
    assert Endpoint.parse("tcp://10.0.0.1:2345").monitor == Endpoint.parse("ipc:///tmp/10.0.0.1_2345_monitor")
    assert Endpoint.parse("ipc:///run/me/s").monitor == Endpoint.parse("ipc:///run/me/s_monitor")
    assert Endpoint.parse("inproc://here").monitor is None


def test_the_monitor_socket_is_in_a_private_folder_if_its_default_path_is_taken(tmp_path: Path) -> None:
    said: list[str] = []
    usual = tmp_path / "monitor"
    usual.write_text("a file of somebody")
    publisher = open_publisher(None, Endpoint.parse(f"ipc://{usual}"), said.append)
    assert publisher is not None
    assert publisher.endpoint.address != f"ipc://{usual}"
    assert publisher.endpoint.address in said[0]
    assert "not a socket" in said[0]
    publisher.close()
    assert usual.read_text() == "a file of somebody"
    with pytest.raises(FileExistsError):
        open_publisher(Endpoint.parse(f"ipc://{usual}"), None, print)


def test_within_a_process_a_monitor_stream_exists_only_on_request() -> None:
    assert open_publisher(None, None, print) is None
    publisher = open_publisher(Endpoint.parse(ANYWHERE), None, print)
    assert publisher is not None
    publisher.close()
