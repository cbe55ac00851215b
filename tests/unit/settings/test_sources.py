"""Sources of settings: a file, the environment, the program. A later source wins, and errors name the source."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.settings import ClientConfig, ClusterConfig, LoggingConfig, SchedulerConfig, Settings
from scaler.settings.sources import NOT_GIVEN, completes_from_outside, configured_values, gather, given, takes_settings

ADDRESS = "tcp://127.0.0.1:2345"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return an empty working directory; no environment variable sets a setting."""
    for name in list(os.environ):
        if name.startswith("SCALER_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scheduler(**given: Any) -> SchedulerConfig:
    return gather(SchedulerConfig, {"address": ADDRESS, **given})


def refusal(kind: type[Settings] = SchedulerConfig, **given: Any) -> str:
    with pytest.raises(ConfigError) as error:
        gather(kind, {"address": ADDRESS, **given})
    return str(error.value)


def test_without_any_source_settings_have_their_defaults() -> None:
    assert scheduler() == SchedulerConfig(ADDRESS)
    assert gather(ClientConfig, {}) == ClientConfig()


def test_a_later_source_of_a_setting_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "scaler.toml").write_text("[scheduler]\ncrash_limit = 5\nio_threads = 5\nper_worker_queue_size = 5\n")
    monkeypatch.setenv("SCALER_IO_THREADS", "6")
    monkeypatch.setenv("SCALER_PER_WORKER_QUEUE_SIZE", "6")
    config = scheduler(per_worker_queue_size=7)
    assert (config.load_balance_trigger_times, config.crash_limit, config.io_threads) == (2, 5, 6)
    assert config.per_worker_queue_size == 7


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_number_of_tasks_waiting", "-1", -1),
        ("client_timeout_seconds", "2.5", 2.5),
        ("protected", "False", False),
        ("protected", "on", True),
        ("event_loop", "UVLoop", "uvloop"),
        ("address", "ipc:///tmp/x", "ipc:///tmp/x"),
    ],
)
def test_each_kind_of_value_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: Any
) -> None:
    monkeypatch.setenv(f"SCALER_{name.upper()}", text)
    assert configured_values(SchedulerConfig, [name]) == {name: value}


def test_lists_and_logging_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_WORKER_NAMES", "left,right")
    monkeypatch.setenv("SCALER_LOGGING_PATHS", "/a,/b")
    monkeypatch.setenv("SCALER_LOGGING_LEVEL", "debug")
    config = gather(ClusterConfig, {"address": ADDRESS})
    assert (config.worker_names, config.n_workers) == (("left", "right"), 2)
    assert config.logging == LoggingConfig(("/a", "/b"), "DEBUG")


def test_an_empty_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_CRASH_LIMIT", "")
    assert scheduler().crash_limit == 3


def test_each_kind_of_value_is_read_from_the_file(folder: Path) -> None:
    (folder / "scaler.toml").write_text(
        "[cluster]\nn_workers = 2\ntask_timeout_seconds = 1.5\nheartbeat_interval_seconds = 3\n"
        'hard_processor_suspend = true\nworker_names = ["a", "b"]\nlogging_paths = "/a"\nlogging_level = "error"\n'
        "[client]\ntimeout_seconds = 9\n"
    )
    assert gather(ClusterConfig, {"address": ADDRESS}) == ClusterConfig(
        ADDRESS, 2, ("a", "b"), 1, 3, 1.5, hard_processor_suspend=True, logging=LoggingConfig(("/a",), "ERROR")
    )
    assert gather(ClientConfig, {}) == ClientConfig(timeout_seconds=9)
    assert scheduler() == SchedulerConfig(ADDRESS)


@pytest.mark.parametrize(
    "text", ["[tool.scaler.scheduler]\ncrash_limit = 5", "[tool]\nscaler.scheduler.crash_limit = 5"]
)
def test_pyproject_may_contain_the_tables_of_settings(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    assert scheduler().crash_limit == 5
    (folder / "scaler.toml").write_text("")
    assert scheduler().crash_limit == 3, "one file counts, not both"


def test_a_pyproject_without_the_tables_is_not_parsed(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("dependencies = ['scaler'] this is no TOML")
    assert scheduler() == SchedulerConfig(ADDRESS)


def test_a_file_that_changes_is_read_again(folder: Path) -> None:
    file = folder / "scaler.toml"
    file.write_text("scheduler.crash_limit = 5")
    assert scheduler().crash_limit == 5
    file.write_text("scheduler.crash_limit = 55")
    assert scheduler().crash_limit == 55


# Bad values say where they are


def test_a_bad_value_of_the_environment_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_CRASH_LIMIT", "0")
    assert refusal() == "environment variable SCALER_CRASH_LIMIT: crash_limit must be at least 1, not 0"
    monkeypatch.setenv("SCALER_CRASH_LIMIT", "many")
    assert refusal() == "environment variable SCALER_CRASH_LIMIT: crash_limit must be a number, not 'many'"
    assert scheduler(crash_limit=4).crash_limit == 4, "nobody looks at it"


@pytest.mark.parametrize(("file", "prefix"), [("scaler.toml", ""), ("pyproject.toml", "tool.scaler.")])
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("crash_limit = 0", "crash_limit must be at least 1, not 0"),
        ("crash_limit = '5'", "crash_limit must be a number, not '5'"),
        ("protected = 'no'", "protected must be True or False, not 'no'"),
        ("logging_paths = 5", "logging_paths must be a list of str, not 5"),
        ("crash_limt = 5", "unknown setting 'crash_limt'; did you mean 'crash_limit'?"),
    ],
)
def test_a_bad_value_of_a_file_names_its_table(folder: Path, file: str, prefix: str, line: str, why: str) -> None:
    (folder / file).write_text(f"[{prefix}scheduler]\n{line}\n")
    assert refusal() == f"[{prefix}scheduler] of {file}: {why}"


def test_an_unknown_table_is_refused_with_the_known_ones(folder: Path) -> None:
    (folder / "scaler.toml").write_text("[sheduler]\ncrash_limit = 3\n")
    assert refusal() == (
        "scaler.toml: 'sheduler' is not a table of settings; "
        "there are [client], [cluster], [scheduler], [symphony], [ui]"
    )


def test_a_file_that_is_no_toml_is_refused_by_name(folder: Path) -> None:
    (folder / "scaler.toml").write_text("crash_limit: 3\n")
    assert refusal().startswith(f"{folder}/scaler.toml is not TOML: ")


def test_a_required_setting_that_is_not_given_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match="address is required: give it as an argument or as SCALER_ADDRESS"):
        gather(SchedulerConfig, {})


# Arguments that are not given


class Thing:
    @completes_from_outside(SchedulerConfig, io_threads="threads")
    def __init__(
        self, address: str = "", threads: int = NOT_GIVEN, *, crash_limit: int = NOT_GIVEN, other: int = 0
    ) -> None:
        self.values = given({"address": address, "threads": threads, "crash_limit": crash_limit, "other": other})


def test_an_argument_that_is_not_given_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALER_CRASH_LIMIT", "7")
    monkeypatch.setenv("SCALER_IO_THREADS", "8")
    monkeypatch.setenv("SCALER_ADDRESS", ADDRESS)
    outside = {"address": "", "threads": 8, "crash_limit": 7, "other": 0}
    assert Thing().values == outside, "but an address is not"
    assert Thing("x", 1, crash_limit=3).values == {"address": "x", "threads": 1, "crash_limit": 3, "other": 0}
    assert Thing("x", other=5).values == {**outside, "address": "x", "other": 5}
    monkeypatch.delenv("SCALER_CRASH_LIMIT")
    assert "crash_limit" not in Thing().values, "its default is in the table"


def test_a_completed_signature_has_the_defaults_of_the_table() -> None:
    text = "(address: 'str' = '', threads: 'int' = 1, *, crash_limit: 'int' = 3, other: 'int' = 0) -> 'None'"
    assert str(inspect.signature(Thing)) == text
    with pytest.raises(TypeError, match="crash_limt"):
        Thing(crash_limt=3)  # type: ignore[call-arg]


def test_the_error_for_an_argument_of_another_system_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="'object_storage_address'; leave it out: the scheduler keeps the objects"):
        Thing(object_storage_address="tcp://127.0.0.1:1")  # type: ignore[call-arg]


def test_keyword_options_are_the_settings_that_the_signature_does_not_name() -> None:
    @takes_settings((SchedulerConfig, {}))
    def init(address: str = "", **options: Any) -> None:
        seen.append(given(locals() | {"seen": NOT_GIVEN}))

    seen: list[Any] = []
    init(policy="fifo")
    assert seen == [{"address": "", "options": {"policy": "fifo"}, "policy": "fifo"}]
    assert inspect.signature(init).parameters["policy"].default == "fair"
    with pytest.raises(TypeError, match="policies"):
        init(policies=3)
