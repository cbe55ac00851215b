from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.monitor.ui.request_filter import RequestFilter, read_or_make_token, token_file

TOKEN = "t" * 32


@pytest.fixture
def gate() -> RequestFilter:
    return RequestFilter(TOKEN, "127.0.0.1", ["jupyter.example"])


def test_a_token_is_made_once_and_only_its_user_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "token"
    token = read_or_make_token(file)
    assert len(token) >= 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_or_make_token(file) == token


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_token_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    read_or_make_token(file)
    file.chmod(mode)
    with pytest.raises(ConfigError, match="make it private"):
        read_or_make_token(file)


@pytest.mark.parametrize("text", ["", "short", "x" * 300, "line\nline" * 4, "é" * 20])
def test_a_file_without_a_valid_token_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(text)
    with pytest.raises(ConfigError, match="has no token"):
        read_or_make_token(file)


def test_a_token_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    read_or_make_token(tmp_path / "real")
    (tmp_path / "token").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match="is a link"):
        read_or_make_token(tmp_path / "token")


def test_each_port_has_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert token_file(1) != token_file(2)
    assert token_file(1).parent == tmp_path / "scaler"


@pytest.mark.usefixtures("homeless")
def test_the_error_for_a_user_without_a_home_says_where_a_token_may_be() -> None:
    with pytest.raises(ConfigError, match="no home folder for the token: name a file with --token-file, or set"):
        token_file(1)


@pytest.mark.parametrize(
    ("host", "origin", "is_for_us"),
    [
        ("127.0.0.1:50001", None, True),
        ("localhost:50001", "http://localhost:50001", True),
        ("[::1]:50001", "http://[::1]:50001", True),
        ("192.168.3.4:50001", "http://192.168.3.4:50001", True),
        (f"{socket.gethostname()}:50001", None, True),
        ("jupyter.example", "https://jupyter.example", True),
        ("127.0.0.1:50001", "https://jupyter.example", True),  # a proxy that asks under our own name
        ("evil.example", None, False),
        ("evil.example", "http://evil.example", False),  # a name that was bent to this server
        ("127.0.0.1.evil.example:50001", None, False),
        ("127.0.0.1:50001", "http://evil.example", False),
        ("127.0.0.1:50001", "http://127.0.0.1:50002", False),  # another server of this machine
        ("127.0.0.1:50001", "http://localhost:50001", False),
        ("127.0.0.1:50001", f"http://{socket.gethostname()}:8080", False),
        ("127.0.0.1:50001", "null", False),
        ("", None, False),
        ("[", None, False),
        ("127.0.0.1:50001", "http://[", False),
    ],
)
def test_only_requests_for_this_host_and_origin_are_accepted(
    gate: RequestFilter, host: str, origin: str | None, is_for_us: bool
) -> None:
    assert gate.is_for_us(host, origin) is is_for_us


def test_only_the_token_is_accepted(gate: RequestFilter) -> None:
    assert gate.knows(TOKEN)
    assert not gate.knows(None)
    assert not gate.knows("")
    assert not gate.knows(TOKEN + "t")
    assert not gate.knows("\udcff")
    assert gate.has_bearer(f"Bearer {TOKEN}")
    assert gate.has_bearer(f"bearer {TOKEN}")
    assert not gate.has_bearer(f"Basic {TOKEN}")
    assert not gate.has_bearer(None)
