"""The settings of a Symphony cluster, and the settings of a cluster that they become."""

from __future__ import annotations

import pytest

from scaler.config import ConfigError
from scaler.settings import SymphonyConfig


def test_each_slot_of_a_symphony_service_is_a_worker() -> None:
    config = SymphonyConfig(
        "tcp://127.0.0.1:1", "Service", 2, worker_name="grid", death_timeout_seconds=5, key_file="w.json"
    )
    cluster = config.of_cluster()
    assert (cluster.n_workers, cluster.worker_names) == (2, ("grid-0", "grid-1"))
    assert (cluster.engine, cluster.death_timeout_seconds) == ("symphony://Service", 5)
    assert cluster.endpoint.key_file == "w.json"
    assert len(set(SymphonyConfig("tcp://127.0.0.1:1", "Service", 2).of_cluster().worker_names)) == 2


def test_a_required_option_that_is_not_given_is_named_as_it_is_written() -> None:
    with pytest.raises(ConfigError, match=r"base_concurrency \(-n, --base-concurrency\) is required"):
        SymphonyConfig.of({"address": "tcp://127.0.0.1:1", "service": "Service"})


@pytest.mark.parametrize("service", ["", "two words"])
def test_a_symphony_service_needs_a_valid_name(service: str) -> None:
    with pytest.raises(ConfigError, match="the name of a Symphony service"):
        SymphonyConfig("tcp://127.0.0.1:1", service, 1)
