from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scaler import AsyncClient, Client, ConfigError, starters
from scaler.client.insight import dashboard
from scaler.client.insight.dashboard import Dashboard, summary
from scaler.endpoint import Endpoint
from scaler.errors import DisconnectedError


class Page:
    """A page that starts no server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.url = "http://127.0.0.1:1/?token=<x>&y"
        self.ends = 0

    def shutdown(self) -> None:
        self.ends += 1


class Owner:
    pass


class Link:
    address = "tcp://<b>:1"
    client_id = b"\xab" * 16


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[Page]:
    started: list[Page] = []

    def start(endpoint: Endpoint) -> Page:
        started.append(Page(endpoint.address))
        return started[-1]

    monkeypatch.setattr(starters, "page", start)
    return started


def test_the_address_of_a_dashboard_is_printed(pages: list[Page], capsys: pytest.CaptureFixture[str]) -> None:
    owner = Owner()
    found = Dashboard(owner, Endpoint.parse("tcp://127.0.0.1:1"))
    assert found.url == pages[0].url
    assert pages[0].address == "tcp://127.0.0.1:1"
    assert f"the dashboard is at {found.url}\n" in capsys.readouterr().err


def test_a_dashboard_ends_once_with_its_client(pages: list[Page]) -> None:
    first, second = Owner(), Owner()
    page = Dashboard(first, Endpoint.parse("tcp://127.0.0.1:1"))
    Dashboard(second, Endpoint.parse("tcp://127.0.0.1:1"))
    page.close()
    page.close()
    del first, second
    assert [page.ends for page in pages] == [1, 1]


def test_a_forked_process_does_not_end_the_dashboard(pages: list[Page], monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Owner()
    page = Dashboard(owner, Endpoint.parse("tcp://127.0.0.1:1"))
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(dashboard.os, "getpid", lambda: -1)
        page.close()
    assert pages[0].ends == 0


def test_a_scheduler_in_this_process_has_no_dashboard(pages: list[Page]) -> None:
    with pytest.raises(ConfigError, match="leave processes=False out"):
        Dashboard(Owner(), Endpoint.parse("inproc://here"))
    with pytest.raises(ConfigError, match="leave processes=False out"):
        Client(processes=False, dashboard=True)
    assert pages == []


@pytest.mark.parametrize("value", [1, "yes", None])
def test_the_argument_dashboard_must_be_a_bool(value: Any) -> None:
    with pytest.raises(ConfigError, match="dashboard must be True or False"):
        Client(dashboard=value)


def test_a_summary_links_the_dashboard_and_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: Any) -> None:
        raise TimeoutError("no <i>scheduler</i>")

    monkeypatch.setattr(dashboard.presence, "wait_for_workers", nobody)
    text = summary(Link(), "http://127.0.0.1:1/?token=<x>&y")  # type: ignore[arg-type]
    assert 'href="http://127.0.0.1:1/?token=&lt;x&gt;&amp;y"' in text
    assert "tcp://&lt;b&gt;:1" in text
    assert "no &lt;i&gt;scheduler&lt;/i&gt;" in text
    assert "abababab" in text
    assert "scaler_ui tcp://&lt;b&gt;:1" in summary(Link(), None)  # type: ignore[arg-type]


def test_a_summary_of_a_disconnected_client_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> None:
        raise DisconnectedError("the client is disconnected")

    monkeypatch.setattr(dashboard.presence, "wait_for_workers", gone)
    assert "the client is disconnected" in summary(Link(), None)  # type: ignore[arg-type]


def test_the_dashboard_of_an_async_client_ends_with_it(pages: list[Page]) -> None:
    async def use() -> None:
        async with AsyncClient("tcp://127.0.0.1:1", dashboard=True) as client:
            assert client.dashboard_url == pages[0].url
            await client.connect()
            assert (len(pages), pages[0].ends) == (1, 0)
        assert pages[0].ends == 1
        with pytest.raises(ConfigError, match="dashboard must be True or False"):
            AsyncClient("tcp://127.0.0.1:1", dashboard="yes")  # type: ignore[arg-type]

    asyncio.run(use())
