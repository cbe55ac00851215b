"""Opening a store: limits from settings or from free memory and disk, and folders that cannot be used."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from scaler.config import ConfigError
from scaler.process.memory import free_bytes
from scaler.store import opening
from scaler.store.opening import open_store


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(opening, "USUAL_FOLDER", str(tmp_path / "disk"))


def test_limits_of_a_store_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        store = open_store(1 << 30, str(tmp_path / "disk"), 5_000)
    assert (store.hot_most, store.cold_most) == (1 << 30, 5_000)
    assert f"at most 1,073,741,824 bytes in memory, 5,000 on disk in {tmp_path / 'disk'}" in caplog.text
    store.close()


def test_without_settings_a_store_takes_half_of_the_free_memory() -> None:
    before = free_bytes()
    store = open_store(None, "", None)
    assert before / 3 < store.hot_most < before / 1.5
    assert store.gauges().cold_most < shutil.disk_usage(opening.USUAL_FOLDER).total, "a tenth of it stays free"
    store.close()


def test_a_store_with_a_disk_limit_of_zero_ignores_the_folder(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        store = open_store(None, "/nonexistent", 0)
    assert "none on disk;" in caplog.text
    store.close()


def test_missing_spill_folder_is_refused() -> None:
    with pytest.raises(ConfigError, match="spill_folder: the folder /nonexistent does not exist"):
        open_store(None, "/nonexistent", None)


def test_a_given_spill_folder_in_memory_is_refused_and_the_usual_one_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(opening, "is_in_memory", lambda _folder: True)
    with pytest.raises(ConfigError, match=r"is in memory \(tmpfs\)"):
        open_store(None, str(tmp_path), None)
    with caplog.at_level(logging.INFO):
        store = open_store(None, "", None)
    assert "none on disk, because" in caplog.text
    store.close()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_folder_that_cannot_be_written_to_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be written to"):
        open_store(None, "/proc/self", None)


def test_without_a_private_folder_a_store_has_a_budget_of_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run" / "scaler").write_text("in the way")
    store = open_store(None, "", 0)
    assert "does not see what other clusters of this user store" in caplog.text
    store.close()
