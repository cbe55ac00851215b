"""The tables of settings: valid values, and one description of each setting for all uses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from scaler.actors.policy import LOOK_SECONDS
from scaler.config import ConfigError
from scaler.settings import (
    PROCESSES,
    ClientConfig,
    ClusterConfig,
    LoggingConfig,
    SchedulerConfig,
    Settings,
)

SCHEDULER = SchedulerConfig("tcp://127.0.0.1:2345")
CLUSTER = ClusterConfig("tcp://127.0.0.1:2345", 4)

# Settings of processes


def bad(config: Any, **values: Any) -> str:
    """Return the error for these values."""
    with pytest.raises(ConfigError) as refusal:
        dataclasses.replace(config, **values)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("io_threads", 0),
        ("io_threads", 1.5),
        ("client_timeout_seconds", 0),
        ("client_timeout_seconds", "60"),
        ("worker_timeout_seconds", -1),
        ("max_number_of_tasks_waiting", -2),
        ("max_number_of_tasks_waiting", 1.5),
        ("load_balance_seconds", -1),
        ("load_balance_trigger_times", 0),
        ("load_balance_trigger_times", 1.5),
        ("per_worker_queue_size", 0),
        ("per_worker_queue_size", True),
        ("crash_limit", 0),
        ("object_retention_seconds", -1),
        ("transfer_window_bytes", 262143),
    ],
)
def test_bad_setting_of_a_scheduler_is_refused_by_name(name: str, value: Any) -> None:
    assert name in bad(SCHEDULER, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_workers", 0),
        ("n_workers", 65536),
        ("n_workers", 2.0),
        ("io_threads", 0),
        ("heartbeat_interval_seconds", 0),
        ("death_timeout_seconds", 0),
        ("task_timeout_seconds", -1),
        ("garbage_collect_interval_seconds", 0),
        ("trim_memory_threshold_bytes", -1),
        ("trim_memory_threshold_bytes", 0.5),
        ("hard_processor_suspend", "no"),
        ("transfer_window_bytes", 1000),
        ("capabilities", 7),
    ],
)
def test_bad_setting_of_a_cluster_is_refused_by_name(name: str, value: Any) -> None:
    assert name in bad(CLUSTER, **{name: value})


@pytest.mark.parametrize("config", [SCHEDULER, CLUSTER], ids=["scheduler", "cluster"])
def test_unknown_event_loop_is_refused_with_the_known_ones(config: Any) -> None:
    assert "builtin or uvloop" in bad(config, event_loop="trio")
    dataclasses.replace(config, event_loop="uvloop")


@pytest.mark.parametrize("config", [SCHEDULER, CLUSTER], ids=["scheduler", "cluster"])
def test_bad_address_of_a_process_is_refused(config: Any) -> None:
    assert "not an address" in bad(config, address="somewhere")


def test_only_a_scheduler_may_take_any_port() -> None:
    dataclasses.replace(SCHEDULER, address="tcp://127.0.0.1:*")
    assert "has no port" in bad(CLUSTER, address="tcp://127.0.0.1:*")


def test_worker_names_are_as_many_as_workers_and_different() -> None:
    assert ClusterConfig("ipc:///tmp/x", 2, ["a", "b"]).worker_names == ("a", "b")  # type: ignore[arg-type]
    assert "4 workers need as many worker_names, not 2" in bad(CLUSTER, worker_names=("a", "b"))
    for names in (("a", "a"), ("a", ""), ("a,b", "c")):
        assert "different and not empty" in bad(CLUSTER, n_workers=2, worker_names=names)
    for name in ("a\n", "x" * 257):
        assert "printable and have at most 256 characters" in bad(CLUSTER, n_workers=1, worker_names=(name,))


# Logging


def test_one_logging_path_may_be_given_as_text() -> None:
    assert LoggingConfig("/dev/null").paths == ("/dev/null",)  # type: ignore[arg-type]
    assert LoggingConfig(["a", "b"]).paths == ("a", "b")  # type: ignore[arg-type]


def test_unknown_logging_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="DEBUG, INFO, WARNING, ERROR or CRITICAL, not 'LOUD'"):
        LoggingConfig(level="LOUD")


def test_missing_logging_configuration_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.ini"):
        LoggingConfig(config_file=str(tmp_path / "missing.ini"))


# Settings sent to a child process


@pytest.mark.parametrize(
    "config",
    [
        SCHEDULER,
        SchedulerConfig("ipc:///tmp/x", crash_limit=1, protected=False, logging=LoggingConfig(("a", "b"), "DEBUG")),
        CLUSTER,
        ClusterConfig("ipc:///tmp/x", 2, ("one", "two"), heartbeat_interval_seconds=0.5),
    ],
)
def test_settings_are_sent_to_a_child_process_unchanged(config: Any) -> None:
    assert type(config).from_json(config.to_json()) == config
    assert "\n" not in config.to_json()


def test_unknown_setting_is_refused_by_name() -> None:
    text = SCHEDULER.to_json().replace('"crash_limit"', '"speed_limit"')
    with pytest.raises(ConfigError, match="unknown settings: speed_limit"):
        SchedulerConfig.from_json(text)


def test_bad_setting_from_json_is_refused() -> None:
    with pytest.raises(ConfigError, match="crash_limit"):
        SchedulerConfig.from_json(SCHEDULER.to_json().replace('"crash_limit": 3', '"crash_limit": 0'))


def test_settings_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SCHEDULER.io_threads = 2  # type: ignore[misc]


# The tables


@pytest.mark.parametrize("kind", PROCESSES)
def test_each_setting_has_a_description_a_valid_default_and_a_unit(kind: type[Settings]) -> None:
    for row in kind.rows():
        assert row.text, row.name
        assert not row.text.endswith("."), row.name
        assert row.default_text or row.default in (None, dataclasses.MISSING), row.name
        if row.default is not dataclasses.MISSING:
            assert row.check(row.default) == row.default, row.name
        has_a_unit = row.name.endswith(("_seconds", "_bytes"))
        assert has_a_unit == bool(row.unit), row.name


@pytest.mark.parametrize("kind", PROCESSES)
def test_each_field_is_in_the_table(kind: type[Settings]) -> None:
    others = ("logging", "authentication_key")  # the latter is set by the program that starts a cluster
    names = [field.name for field in dataclasses.fields(kind) if field.name not in others]
    assert [row.name for row in kind.own_rows()] == names


def test_settings_of_one_name_have_the_same_kind_in_all_processes() -> None:
    kinds: dict[str, str] = {}
    for row in (row for kind in PROCESSES for row in kind.rows()):
        assert kinds.setdefault(row.name, row.kind) == row.kind, row.name


def test_the_description_of_load_balance_trigger_times_has_the_interval_of_the_policy() -> None:
    (row,) = (row for row in SchedulerConfig.rows() if row.name == "load_balance_trigger_times")
    assert f"{LOOK_SECONDS * 1000:g} ms apart" in row.text


def test_n_workers_defaults_to_the_number_of_worker_names() -> None:
    assert ClusterConfig.of({"address": "ipc:///tmp/x"}).n_workers is None
    assert ClusterConfig.of({"address": "ipc:///tmp/x", "worker_names": ("a", "b")}).n_workers == 2
    assert ClusterConfig.of({"address": "ipc:///tmp/x", "n_workers": 3}).n_workers == 3


@pytest.mark.parametrize("level", ["debug", "Debug", "DEBUG"])
def test_names_of_logging_levels_are_case_insensitive(level: str) -> None:
    assert LoggingConfig(level=level).level == "DEBUG"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("address", 5, "address must be a str"),
        ("profiling", "yes", "profiling must be True or False, not 'yes'"),
        ("timeout_seconds", 0, "timeout_seconds must be at least 0.001 s, not 0"),
        ("heartbeat_interval_seconds", None, "heartbeat_interval_seconds must be a number, not None"),
    ],
)
def test_bad_setting_of_a_client_is_refused_by_name(name: str, value: Any, why: str) -> None:
    assert why in bad(ClientConfig(), **{name: value})


def test_errors_name_limits_as_plain_numbers_with_their_unit() -> None:
    why = "object_memory_bytes must be between 1,048,576 and 4,611,686,018,427,387,904 bytes, not 1"
    assert bad(CLUSTER, object_memory_bytes=1) == why


def test_capabilities_are_texts_and_may_be_a_dict_in_code() -> None:
    configured_values = {"address": "tcp://127.0.0.1:2345", "capabilities": {"gpu": 2, "memory": "64G"}}
    assert ClusterConfig.of(configured_values).capabilities == ("gpu=2", "memory=64G")
    assert dataclasses.replace(CLUSTER, capabilities=("gpu=2", "licence")).capabilities == ("gpu=2", "licence")
    assert "capability gpu" in bad(CLUSTER, capabilities=("gpu=none",))
    assert "named twice" in bad(CLUSTER, capabilities=["gpu=1", "gpu=2"])
