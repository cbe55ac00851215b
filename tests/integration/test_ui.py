"""scaler_ui, as a user types it."""

from __future__ import annotations

import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.processes import Command, command

SOMEWHERE = "tcp://127.0.0.1:1"
"""No scheduler is there."""


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def url_of(ui: Command) -> str:
    return ui.wait_for("?token=").strip()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_it_serves_without_a_scheduler_keeps_its_token_and_ends_cleanly(
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


def test_what_cannot_work_is_a_sentence(home: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        with command("ui", SOMEWHERE, "--port", taken, env=home) as ui:
            assert ui.end() == 1
            (line,) = ui.lines
            assert line.startswith(f"scaler_ui: port {taken} of 127.0.0.1 is in use")
