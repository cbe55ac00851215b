"""Executors: found by the name of their engine; unsupported settings are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.executors.executor import ExecutorFeature, load_executor
from scaler.settings import ClusterConfig

ADDRESS = "tcp://127.0.0.1:1"


def test_the_engines_of_scaler_are_found_by_name() -> None:
    assert load_executor(ClusterConfig(ADDRESS, 1)).parts == frozenset(ExecutorFeature) - {ExecutorFeature.ELASTIC}
    assert load_executor(ClusterConfig(ADDRESS, 1, engine="inline")).parts == {
        ExecutorFeature.WAITS,
        ExecutorFeature.WATCH,
    }


def test_the_error_of_an_unknown_engine_lists_the_installed_ones() -> None:
    with pytest.raises(ConfigError, match=r"there is no engine 'nonsense'; installed are: .*inline, .*processes"):
        load_executor(ClusterConfig(ADDRESS, 1, engine="nonsense://x"))


@pytest.mark.parametrize(
    "setting",
    [
        {"task_timeout_seconds": 1},
        {"hard_processor_suspend": True},
        {"preload": ("json",)},
        {"initializer": "os:getpid"},
        {"max_tasks_per_processor": 3},
        {"max_waiting_per_worker": 3},
        {"processor_memory_bytes": 1_000_000_000},
    ],
)
@pytest.mark.parametrize("engine", ["inline", "concurrent.futures:ThreadPoolExecutor"])
def test_a_setting_that_an_engine_does_not_support_is_refused(engine: str, setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"the engine '.*' has no .*: leave {next(iter(setting))} out"):
        load_executor(ClusterConfig(ADDRESS, 1, engine=engine, **setting))


def test_an_engine_of_another_package_gets_the_whole_engine_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_engine.py").write_text(
        "class Theirs:\n    def __init__(self, engine): self.engine, self.parts = engine, frozenset()\n"
    )
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[scaler.engines]\ntheirs = their_engine:Theirs\nbroken = their_engine_that_is_missing:Theirs\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load_executor(ClusterConfig(ADDRESS, 1, engine="theirs://over/there")).engine == "theirs://over/there"  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="the engine 'broken' cannot be loaded: No module named"):
        load_executor(ClusterConfig(ADDRESS, 1, engine="broken"))
