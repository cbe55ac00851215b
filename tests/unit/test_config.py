from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from scaler.config import (
    ClusterConfig,
    ConfigError,
    LoggingConfig,
    SchedulerConfig,
    check_address,
    check_number,
)

SCHEDULER = SchedulerConfig("tcp://127.0.0.1:2345")
CLUSTER = ClusterConfig("tcp://127.0.0.1:2345", 4)

# Addresses


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1:2345",
        "tcp://localhost:1",
        "tcp://my-host.example.org:65535",
        "tcp://[::1]:2345",
        "tcp://*:2345",
        "ipc:///tmp/scaler",
        "ipc:///tmp/with space",
    ],
)
def test_good_address_is_returned_as_it_is(address: str) -> None:
    assert check_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:2345",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://:2345",
        "tcp://127.0.0.1:http",
        "tcp://127.0.0.1:2345/",
        "tcp://127.0.0.1:2345 ",
        "tcp://127.0.0.1:2345\n",
        "http://127.0.0.1:2345",
        "ipc://",
        "ipc://relative/path",
        "ipc:///",
        "inproc://x",
        "tcp://a b:1",
    ],
)
def test_bad_address_is_refused_with_a_good_example(address: str) -> None:
    with pytest.raises(ConfigError, match=r"tcp://127\.0\.0\.1:2345"):
        check_address(address)


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:0", "tcp://127.0.0.1:65536", "tcp://127.0.0.1:99999999999999999999"]
)
def test_port_out_of_range_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="between 1 and 65535"):
        check_address(address)


@pytest.mark.parametrize("address", [None, b"tcp://127.0.0.1:2345", 2345])
def test_address_that_is_no_text_is_refused(address: Any) -> None:
    with pytest.raises(ConfigError, match="text such as"):
        check_address(address)


def test_any_port_is_only_for_those_who_listen() -> None:
    assert check_address("tcp://127.0.0.1:*", may_be_any_port=True) == "tcp://127.0.0.1:*"
    with pytest.raises(ConfigError, match="has no port"):
        check_address("tcp://127.0.0.1:*")


def test_ipc_path_that_the_kernel_would_cut_is_refused() -> None:
    check_address("ipc:///" + "x" * 99)
    with pytest.raises(ConfigError, match="shorter"):
        check_address("ipc:///" + "x" * 100)
    with pytest.raises(ConfigError, match="shorter"):
        check_address("ipc:///" + "ü" * 60)


# Numbers


@pytest.mark.parametrize("value", [True, "1", None, float("nan")])
def test_value_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="speed"):
        check_number("speed", value, 0)


def test_number_out_of_range_is_refused_with_the_range() -> None:
    check_number("speed", 1, 1)
    check_number("speed", 2.5, 1, 2.5)
    with pytest.raises(ConfigError, match="speed must be at least 1, not 0"):
        check_number("speed", 0, 1)
    with pytest.raises(ConfigError, match=r"speed must be between 1 and 2, not 2\.5"):
        check_number("speed", 2.5, 1, 2)


# Settings of processes


def bad(config: Any, **values: Any) -> str:
    """Why these values are refused; each name must be in it."""
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
    assert "4 workers need as many names, not 2" in bad(CLUSTER, worker_names=("a", "b"))
    for names in (("a", "a"), ("a", ""), ("a,b", "c")):
        assert "different and not empty" in bad(CLUSTER, n_workers=2, worker_names=names)


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


# On their way to a child process


@pytest.mark.parametrize(
    "config",
    [
        SCHEDULER,
        SchedulerConfig("ipc:///tmp/x", crash_limit=1, protected=False, logging=LoggingConfig(("a", "b"), "DEBUG")),
        CLUSTER,
        ClusterConfig("ipc:///tmp/x", 2, ("one", "two"), heartbeat_interval_seconds=0.5),
    ],
)
def test_settings_arrive_as_they_were(config: Any) -> None:
    assert type(config).from_json(config.to_json()) == config
    assert "\n" not in config.to_json()


def test_unknown_setting_is_refused_by_name() -> None:
    text = SCHEDULER.to_json().replace('"crash_limit"', '"speed_limit"')
    with pytest.raises(ConfigError, match="unknown settings: speed_limit"):
        SchedulerConfig.from_json(text)


def test_bad_setting_is_refused_on_arrival_too() -> None:
    with pytest.raises(ConfigError, match="crash_limit"):
        SchedulerConfig.from_json(SCHEDULER.to_json().replace('"crash_limit": 3', '"crash_limit": 0'))


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SCHEDULER.io_threads = 2  # type: ignore[misc]
