"""scaler_ui, as a user types it."""

from __future__ import annotations

import asyncio
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar

from scaler import Client
from tests.support.processes import Command, command, free_address, wait_until

SOMEWHERE = "tcp://127.0.0.1:1"
"""No scheduler is there."""


@pytest.fixture
def port() -> int:
    return int(free_address().rpartition(":")[2])


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def url_of(ui: Command) -> str:
    return ui.wait_for("?token=").strip()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_page_serves_without_a_scheduler_keeps_its_token_and_ends_cleanly(
    port: int, home: dict[str, str], tmp_path: Path
) -> None:
    urls = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with command("ui", SOMEWHERE, "--port", str(port), env=home) as ui:
            urls.append(url_of(ui))
            assert status(urls[0]) == 200
            assert status(urls[0].partition("?")[0]) == 403
            ui.signal(number)
            assert ui.end() == 0
            assert "Traceback" not in ui.output
    assert urls[0] == urls[1], "browsers outlive a restart"
    (file,) = tmp_path.glob("scaler/*.token")
    assert file.read_text().strip() in urls[0]


def test_errors_of_scaler_ui_are_one_sentence(home: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        with command("ui", SOMEWHERE, "--port", taken, env=home) as ui:
            assert ui.end() == 1
            (line,) = ui.lines
            assert line.startswith(f"scaler_ui: port {taken} of 127.0.0.1 is in use")


def test_the_dashboard_of_a_client_shows_its_cluster_and_ends_with_it(capfd: pytest.CaptureFixture[str]) -> None:
    with Client(dashboard=True) as client:
        url = client.dashboard_url
        assert url is not None
        assert url in capfd.readouterr().err
        assert client.submit(pow, 2, 10).result() == 1024
        assert status(url) == 200
        with pytest.raises(ValueError, match="invalid literal"):
            client.submit(int, "three").result()
        wait_until(lambda: strip_of(url)["failed"] == 1, "the page shows the task that has failed")
        summary = client._repr_html_()
        assert f'href="{url}"' in summary
        assert "1 client, 0 waiting tasks" in summary
    with pytest.raises(OSError, match="refused"):
        status(url)


def strip_of(url: str) -> dict[str, Any]:
    """What the page says above everything else."""

    async def ask() -> dict[str, Any]:
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
            await browser.get(url)
            async with browser.ws_connect(f"{url.partition('?')[0]}socket") as socket:
                await socket.send_str(url.partition("?token=")[2])
                await socket.send_json({"wish": 1, "page": "live"})
                found: dict[str, Any] = (await socket.receive_json(timeout=60))["strip"]
                return found

    return asyncio.run(ask())
