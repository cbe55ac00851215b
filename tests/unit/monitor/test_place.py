from __future__ import annotations

import os
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.monitor import place


def test_the_address_of_the_stream_is_taken_as_it_is(tmp_path: Path) -> None:
    assert place.find("tcp://127.0.0.1:2346") == "tcp://127.0.0.1:2346"
    assert place.find(f"ipc://{tmp_path}/stream") == f"ipc://{tmp_path}/stream"


def test_the_address_of_the_scheduler_leads_to_its_stream(tmp_path: Path) -> None:
    (tmp_path / "scheduler").touch()
    assert place.find(f"ipc://{tmp_path}/scheduler") == f"ipc://{tmp_path}/scheduler"
    (tmp_path / "scheduler_monitor").touch()
    assert place.find(f"ipc://{tmp_path}/scheduler") == f"ipc://{tmp_path}/scheduler_monitor"


def test_a_socket_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stream"
    file.touch()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    if file.stat().st_uid == 0:
        assert place.find(f"ipc://{file}") == f"ipc://{file}"  # root's socket may be trusted
        os.chown(file, 4712, -1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        place.find(f"ipc://{file}")


def test_a_bad_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="a good one looks like"):
        place.find("nonsense")
