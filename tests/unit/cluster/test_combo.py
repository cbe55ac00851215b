"""Arguments of schedulers and clusters in code become the settings of their processes."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest

from scaler import Cluster, Scheduler, SchedulerClusterCombo
from scaler.cluster.combo import start_local_cluster
from scaler.config import ConfigError
from scaler.cores import usable_cores
from scaler.settings import ClusterConfig, LoggingConfig, SchedulerConfig

ADDRESS = "tcp://127.0.0.1:2345"
OF_SCHEDULER = {"io_threads": "scheduler_io_threads"}
OF_CLUSTER = {"io_threads": "worker_io_threads"}
NOT_OF_A_COMBO = {"worker_names", "key_file"}
CONTRACT = (
    "n_workers, address=None, monitor_address=None, worker_io_threads=1, scheduler_io_threads=1, "
    "max_number_of_tasks_waiting=-1, heartbeat_interval_seconds=2, client_timeout_seconds=60, "
    "worker_timeout_seconds=60, object_retention_seconds=60, task_timeout_seconds=0, death_timeout_seconds=300, "
    "load_balance_seconds=1, load_balance_trigger_times=2, garbage_collect_interval_seconds=30, "
    "trim_memory_threshold_bytes=1073741824, per_worker_queue_size=1000, hard_processor_suspend=False, protected=True, "
    'event_loop="builtin", logging_paths=("/dev/stderr",), logging_level="INFO", logging_config_file=None'
)
"""the arguments that users of the 1.x line have written, by name or position"""


def defaults(function: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


def literal(text: str) -> list[tuple[str, Any]]:
    """Return the parameters of a signature that is given as text."""
    (function,) = ast.parse(f"def f({text}): ...").body
    assert isinstance(function, ast.FunctionDef)
    values = [ast.literal_eval(value) for value in function.args.defaults]
    missing = [inspect.Parameter.empty] * (len(function.args.args) - len(values))
    return list(zip([argument.arg for argument in function.args.args], missing + values, strict=True))


def positional(part: type) -> list[tuple[str, Any]]:
    """Return the parameters of a constructor that have a position, with their defaults."""
    parameters = inspect.signature(part).parameters.values()
    return [(parameter.name, parameter.default) for parameter in parameters if parameter.kind != parameter.KEYWORD_ONLY]


def test_the_signature_of_a_combo_is_stable() -> None:
    assert positional(SchedulerClusterCombo) == literal(CONTRACT)


def test_scheduler_and_cluster_have_the_arguments_and_defaults_of_a_combo() -> None:
    order = [name for name, _default in literal(CONTRACT)]
    for part, names in ((Scheduler, OF_SCHEDULER), (Cluster, {})):
        arguments = dict(positional(part))
        assert {names.get(name, name) for name in arguments} - {"worker_names"} <= set(order)
        for name, default in literal(CONTRACT)[2:]:
            own = {value: key for key, value in names.items()}.get(name, name)
            if own in arguments:
                assert arguments[own] == default, name


def test_a_monitor_address_inside_a_process_is_refused() -> None:
    with pytest.raises(ConfigError, match="viewers are other processes"):
        SchedulerClusterCombo(1, None, "inproc://here")


@pytest.mark.parametrize(
    ("part", "kind"), [(SchedulerClusterCombo, SchedulerConfig), (SchedulerClusterCombo, ClusterConfig)]
)
def test_arguments_are_described_in_the_words_of_the_table(part: Any, kind: Any) -> None:
    text = " ".join(inspect.getdoc(part).split())
    names = OF_SCHEDULER if kind is SchedulerConfig else OF_CLUSTER
    for row in kind.rows():
        if row.name not in ("address", *NOT_OF_A_COMBO):
            assert f"{names.get(row.name, row.name)}: {row.text}." in text, row.name


def other(value: Any) -> Any:
    """Return another valid value."""
    if isinstance(value, str):
        return {"fair": "fifo", "": "os:getcwd"}.get(value, "uvloop")
    if isinstance(value, tuple):
        return ("another",)
    if value is None:
        return 2**30
    return not value if isinstance(value, bool) else value + 7


@pytest.mark.parametrize(
    ("part", "kind", "names"), [(Scheduler, SchedulerConfig, {}), (Cluster, ClusterConfig, OF_CLUSTER)]
)
def test_each_setting_is_an_argument_with_the_same_default(part: Any, kind: Any, names: dict[str, str]) -> None:
    arguments = defaults(part)
    for row in kind.own_rows():
        if row.name not in ("address", "n_workers"):
            name = names.get(row.name, row.name)
            assert arguments[name] == row.default, name


@pytest.mark.parametrize(("kind", "names"), [(SchedulerConfig, OF_SCHEDULER), (ClusterConfig, OF_CLUSTER)])
def test_each_setting_is_an_argument_of_a_combo(kind: Any, names: dict[str, str]) -> None:
    arguments = defaults(SchedulerClusterCombo)
    for row in kind.own_rows():
        if row.name not in ("address", "n_workers", *NOT_OF_A_COMBO):
            name = names.get(row.name, row.name)
            assert arguments[name] == row.default, name


def test_each_argument_of_a_combo_reaches_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchedulerClusterCombo, "_start", lambda _combo: None)
    logging = {
        "logging_paths": "/tmp/a",
        "logging_level": "DEBUG",
        "logging_config_file": None,
        "logging_text_characters": 20,
    }
    given = {
        name: other(value)
        for name, value in defaults(SchedulerClusterCombo).items()
        if name
        not in (
            "n_workers",
            "address",
            "monitor_address",
            "functions",
            "keys",
            "keep",
            "audit_file",
            "trust_users",
            *logging,
        )
    }
    given |= {"keys": "/keys", "audit_file": "/audit", "keep": "/jobs", "trust_users": (4711,)}
    combo = SchedulerClusterCombo(3, ADDRESS, **given, **logging)  # type: ignore[arg-type]
    scheduler, cluster = combo._scheduler._config, combo._cluster._config
    assert (scheduler.address, cluster.n_workers) == (ADDRESS, 3)
    assert scheduler.logging == cluster.logging == LoggingConfig(("/tmp/a",), "DEBUG", None, 20)
    for config, names in ((scheduler, OF_SCHEDULER), (cluster, OF_CLUSTER)):
        for field in dataclasses.fields(config):
            name = names.get(field.name, field.name)
            if name in given:
                assert getattr(config, field.name) == given[name], name
    assert cluster.key_file == "/keys/worker.json"
    serves = SchedulerClusterCombo(3, ADDRESS, functions={"area": "shapes:area"})  # not available with every engine
    assert serves._cluster._config.functions == ("area=shapes:area",)


def test_arguments_of_a_combo_that_are_not_given_are_read_from_file_and_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(SchedulerClusterCombo, "_start", lambda _combo: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scaler.toml").write_text(
        "[scheduler]\nlogging_level = 'error'\nio_threads = 5\naddress = 'tcp://10.0.0.1:1'\n"
        "[cluster]\nlogging_level = 'debug'\nworker_names = ['a', 'b']\nio_threads = 6\n"
    )
    monkeypatch.setenv("SCALER_CRASH_LIMIT", "7")
    monkeypatch.setenv("SCALER_TASK_TIMEOUT_SECONDS", "8")
    combo = SchedulerClusterCombo(3, task_timeout_seconds=0)
    scheduler, cluster = combo._scheduler._config, combo._cluster._config
    assert (scheduler.crash_limit, scheduler.io_threads, scheduler.logging.level) == (7, 5, "ERROR")
    assert (cluster.n_workers, cluster.io_threads, cluster.logging.level) == (3, 6, "DEBUG")
    assert (cluster.task_timeout_seconds, cluster.worker_names) == (0, ())
    assert scheduler.address == "ipc://*", "a combo listens where the program says"


def test_the_cluster_of_a_client_logs_only_warnings_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchedulerClusterCombo, "_start", lambda _combo: None)
    cluster = start_local_cluster()._cluster._config
    assert (cluster.n_workers, cluster.logging) == (usable_cores(), LoggingConfig(("/dev/stderr",), "WARNING"))
    monkeypatch.setenv("SCALER_N_WORKERS", "17")
    monkeypatch.setenv("SCALER_LOGGING_LEVEL", "debug")
    cluster = start_local_cluster()._cluster._config
    assert (cluster.n_workers, cluster.logging) == (17, LoggingConfig(("/dev/stderr",), "DEBUG"))
    assert start_local_cluster({"n_workers": 3})._cluster._config.n_workers == 3
    said = start_local_cluster({"preload": ["json"], "logging_level": "error", "worker_io_threads": 2})._cluster._config
    assert (said.preload, said.logging.level, said.io_threads) == (("json",), "ERROR", 2)
    assert cluster.task_output_in_log
    assert not start_local_cluster(logs_output=False)._cluster._config.task_output_in_log


def test_a_bad_value_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="max_number_of_tasks_waiting"):
        SchedulerClusterCombo(1, max_number_of_tasks_waiting=-2)
    with pytest.raises(ConfigError, match="is not an address"):
        SchedulerClusterCombo(1, "")
