from __future__ import annotations

import pytest

from scaler import Cluster
from scaler.config import ConfigError

ADDRESS = "tcp://127.0.0.1:2345"


def test_a_cluster_without_n_workers_has_as_many_as_names_or_leaves_the_number_open() -> None:
    assert Cluster(ADDRESS, worker_names=["left", "right"])._config.n_workers == 2
    assert Cluster(ADDRESS, 1, ["left"])._config.worker_names == ("left",)
    assert Cluster(ADDRESS)._config.n_workers is None


def test_arguments_of_a_cluster_that_are_not_given_are_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SCALER_N_WORKERS", "17")
    monkeypatch.setenv("SCALER_IO_THREADS", "5")
    config = Cluster(ADDRESS)._config
    assert (config.n_workers, config.io_threads) == (17, 5)
    config = Cluster(ADDRESS, 2, worker_io_threads=1)._config
    assert (config.n_workers, config.io_threads) == (2, 1)


def test_a_bad_value_is_refused_at_once_and_its_source_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^trim_memory_threshold_bytes must be a whole number, not 0\.5$"):
        Cluster(ADDRESS, trim_memory_threshold_bytes=0.5)  # type: ignore[arg-type]
    monkeypatch.setenv("SCALER_DEATH_TIMEOUT_SECONDS", "0")
    with pytest.raises(
        ConfigError, match=r"^environment variable SCALER_DEATH_TIMEOUT_SECONDS: death_timeout_seconds "
    ):
        Cluster(ADDRESS)
