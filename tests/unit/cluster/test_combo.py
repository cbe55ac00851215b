"""What is said to schedulers and clusters in code is what their processes are told."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from scaler import Cluster, Scheduler, SchedulerClusterCombo
from scaler.config import ClusterConfig, ConfigError, LoggingConfig, SchedulerConfig

ADDRESS = "tcp://127.0.0.1:2345"
OF_SCHEDULER = {"io_threads": "scheduler_io_threads"}
OF_CLUSTER = {"io_threads": "worker_io_threads"}
NOT_OF_A_COMBO = {"worker_names"}


def defaults(function: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


def other(value: Any) -> Any:
    """Return another value that is as good."""
    return not value if isinstance(value, bool) else "uvloop" if isinstance(value, str) else value + 7


@pytest.mark.parametrize(
    ("part", "kind", "names"), [(Scheduler, SchedulerConfig, {}), (Cluster, ClusterConfig, OF_CLUSTER)]
)
def test_each_setting_is_an_argument_with_the_same_default(part: Any, kind: Any, names: dict[str, str]) -> None:
    arguments = defaults(part)
    for field in dataclasses.fields(kind):
        if field.name not in ("address", "n_workers", "logging"):
            name = names.get(field.name, field.name)
            assert arguments[name] == field.default, name


@pytest.mark.parametrize(("kind", "names"), [(SchedulerConfig, OF_SCHEDULER), (ClusterConfig, OF_CLUSTER)])
def test_each_setting_is_an_argument_of_a_combo(kind: Any, names: dict[str, str]) -> None:
    arguments = defaults(SchedulerClusterCombo)
    for field in dataclasses.fields(kind):
        if field.name not in ("address", "n_workers", "logging", *NOT_OF_A_COMBO):
            name = names.get(field.name, field.name)
            assert arguments[name] == field.default, name


def test_each_argument_of_a_combo_reaches_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchedulerClusterCombo, "_start", lambda _combo: None)
    logging = {"logging_paths": "/tmp/a", "logging_level": "DEBUG", "logging_config_file": None}
    given = {
        name: other(value)
        for name, value in defaults(SchedulerClusterCombo).items()
        if name not in ("n_workers", "address", *logging)
    }
    combo = SchedulerClusterCombo(3, ADDRESS, **given, **logging)  # type: ignore[arg-type]
    scheduler, cluster = combo._scheduler._config, combo._cluster._config
    assert (scheduler.address, cluster.n_workers) == (ADDRESS, 3)
    assert scheduler.logging == cluster.logging == LoggingConfig(("/tmp/a",), "DEBUG")
    for config, names in ((scheduler, OF_SCHEDULER), (cluster, OF_CLUSTER)):
        for field in dataclasses.fields(config):
            name = names.get(field.name, field.name)
            if name in given:
                assert getattr(config, field.name) == given[name], name


def test_a_cluster_has_as_many_workers_as_names() -> None:
    assert Cluster(ADDRESS, worker_names=["left", "right"])._config.n_workers == 2
    assert Cluster(ADDRESS, 1, ["left"])._config.worker_names == ("left",)


def test_a_bad_value_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="load_balance_trigger_times"):
        Scheduler(ADDRESS, load_balance_trigger_times=0)
    with pytest.raises(ConfigError, match="max_number_of_tasks_waiting"):
        SchedulerClusterCombo(1, max_number_of_tasks_waiting=-2)
