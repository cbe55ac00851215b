"""Metrics for Prometheus, parsed by the official parser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scaler.monitor.metrics import NAMES_MOST, WORKERS_MOST, exposition
from scaler.monitor.model.model import Model
from scaler.wire.messages.monitor import StateClient, StateFailure
from tests.support import monitored
from tests.support.monitored import agent, counts, durations, function, row, scheduler, waiting

NOW = 100.0
DASHBOARD = Path(__file__).parents[3] / "docs" / "howto" / "grafana-dashboard.json"
LABELS = tuple[tuple[str, str], ...]


def expressions() -> list[str]:
    """Return the queries of the panels of the dashboard, for one job."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return [each.replace("$__rate_interval", "5s").replace("$job", "scaler") for each in asked]


class Scrape:
    """The samples of one scrape, by name and labels."""

    def __init__(self, model: Model, now: float = NOW) -> None:
        self.families = {each.name: each for each in text_string_to_metric_families(exposition(model, now).decode())}
        self.samples: dict[tuple[str, LABELS], float] = {}
        for family in self.families.values():
            for sample in family.samples:
                key = sample.name, tuple(sorted(sample.labels.items()))
                assert key not in self.samples, f"twice: {key}"
                self.samples[key] = sample.value

    def of(self, name: str, /, **labels: str) -> float:
        return self.samples[name, tuple(sorted(labels.items()))]


def heard(topic: str, *items: Any, model: Model | None = None, **fields: Any) -> Model:
    model = Model() if model is None else model
    model.take(monitored.news(topic, *items, **fields), NOW)
    return model


def test_a_silent_scheduler_is_down_and_has_no_old_values() -> None:
    assert Scrape(Model()).of("scaler_up") == 0
    model = heard("scheduler", scheduler(waiting=3))
    assert Scrape(model).of("scaler_up") == 1
    late = Scrape(model, NOW + 60)
    assert late.of("scaler_up") == 0
    assert "scaler_tasks_waiting" not in late.families


def test_metrics_of_the_scheduler_are_in_base_units() -> None:
    told = scheduler(cpu_permille=250, rss_bytes=5, lag_us=300, lag_most_us=40_000, waiting=7, running=2, workers=16)
    scrape = Scrape(heard("scheduler", told))
    assert scrape.of("scaler_scheduler_cpu_cores") == 0.25
    assert scrape.of("scaler_scheduler_loop_lag_seconds", quantile="0.95") == 0.04
    assert [scrape.of(f"scaler_{name}") for name in ("tasks_waiting", "tasks_running", "workers")] == [7, 2, 16]


def test_tasks_and_items_are_counters_and_waiting_tasks_have_reasons() -> None:
    groups = counts(ended={"success": 9, "workerDied": 1}, sent={"RunTask": 4})
    scrape = Scrape(heard("scheduler", scheduler(), *groups, waiting(3, "no worker", places=0)))
    assert scrape.of("scaler_tasks_ended_total", state="success") == 9
    assert scrape.of("scaler_tasks_ended_total", state="workerDied") == 1
    assert scrape.of("scaler_scheduler_items_sent_total", item="RunTask") == 4
    assert scrape.of("scaler_tasks_waiting_by_reason", reason="no worker") == 3
    assert scrape.families["scaler_tasks_ended"].type == "counter"


def test_wanted_workers_are_shown_by_the_capabilities_that_tasks_request() -> None:
    scrape = Scrape(heard("scheduler", scheduler(waiting=5), waiting(2), waiting(3, asks="gpu=1")))
    assert scrape.of("scaler_wanted_workers", capabilities="gpu=1") == 3
    assert scrape.of("scaler_wanted_workers", capabilities="") == 2


def test_durations_are_a_histogram() -> None:
    model = heard("scheduler", scheduler())
    told = function("price", 4, 2, 30_000, success=80, failed=20, durations=durations(b15=95, b20=5))
    scrape = Scrape(heard("functions", told, model=model))
    labels = {"function": monitored.FUNCTION.hex(), "name": "price"}
    name = "scaler_function_duration_seconds"
    assert scrape.families[name].type == "histogram"
    assert scrape.of(f"{name}_bucket", le=repr((1 << 15) / 1e6), **labels) == 95
    assert scrape.of(f"{name}_bucket", le="+Inf", **labels) == scrape.of(f"{name}_count", **labels) == 100
    assert scrape.of(f"{name}_sum", **labels) == 3.0
    assert scrape.of("scaler_function_open_tasks", state="waiting", **labels) == 4
    assert scrape.of("scaler_function_tasks_ended_total", state="failed", **labels) == 20


def test_workers_and_agents_have_metrics() -> None:
    model = heard("scheduler", scheduler())
    scrape = Scrape(heard("workers", agent(row(cpu=500, sent=3), row(flags=1)), model=model))
    names = {"agent": b"agent".hex(), "host": "rome07"}
    assert scrape.of("scaler_agent_lag_seconds", **names) == 0.0007
    assert scrape.of("scaler_worker_cpu_cores", worker="rome07:0", **names) == 0.5
    assert scrape.of("scaler_worker_tasks", worker="rome07:0", **names) == 3
    assert [scrape.of("scaler_worker_busy", worker=f"rome07:{n}", **names) for n in range(2)] == [1, 0]
    assert scrape.of("scaler_workers_busy") == 1


def test_agents_have_metrics_of_the_values_that_they_store() -> None:
    fields = ("hot_bytes", "hot_most_bytes", "cold_bytes", "cold_most_bytes", "spilled_bytes", "read_bytes")
    kept = {**dict(zip(fields, range(1, 7), strict=True)), "held_workers": 9}
    scrape = Scrape(heard("workers", agent(**kept), model=heard("scheduler", scheduler())))
    names = ("memory_bytes", "memory_limit_bytes", "disk_bytes", "disk_limit_bytes", "spilled_bytes_total")
    found = [scrape.of(f"scaler_agent_values_{name}", agent=b"agent".hex(), host="rome07") for name in names]
    assert [*found, scrape.of("scaler_agent_values_read_bytes_total", agent=b"agent".hex(), host="rome07")] == [
        *range(1, 7)
    ]
    assert scrape.of("scaler_agent_held_workers", agent=b"agent".hex(), host="rome07") == 9


def test_clients_and_failures_have_metrics() -> None:
    model = heard("scheduler", scheduler())
    client = StateClient(b"c" * 8, "prices.py 4711, quant@ws14", b"c" * 8, 0, 40, 30, owner="alice")
    heard("clients", client, model=model)
    heard("failures", StateFailure(b"f" * 8, "ValueError", "bad", b"p" * 8, "price", 12), model=model)
    scrape = Scrape(model)
    names = {"client": (b"c" * 8).hex(), "label": "prices.py 4711, quant@ws14", "owner": "alice"}
    assert scrape.of("scaler_client_open_tasks", **names) == 40
    assert scrape.of("scaler_failures_total", failure=(b"f" * 8).hex(), type="ValueError", function="price") == 12


def test_names_with_special_characters_are_escaped() -> None:
    model = heard("scheduler", scheduler(package_version='1"} 5\nscaler_up 7\\'))
    assert Scrape(model).of("scaler_up") == 1


@pytest.mark.thorough
def test_rows_are_bounded() -> None:
    model = heard("scheduler", scheduler())
    for number in range(NAMES_MOST + 10):
        failure = StateFailure(number.to_bytes(8, "big"), "ValueError", "", b"", "price", 1)
        heard("failures", failure, model=model)
    rows = [row()] * (WORKERS_MOST // 2 + 10)
    heard("workers", agent(*rows), agent(*rows, agent=b"other", host="rome08"), model=model)
    scrape = Scrape(model)
    assert len(scrape.families["scaler_failures"].samples) == NAMES_MOST
    assert len(scrape.families["scaler_worker_busy"].samples) == WORKERS_MOST


def test_every_metric_is_described_and_named_by_the_conventions() -> None:
    scrape = Scrape(
        heard("workers", agent(row()), model=heard("scheduler", scheduler(), *counts(ended={"success": 1})))
    )
    for name, family in scrape.families.items():
        assert name.startswith("scaler_")
        assert family.documentation
        assert family.type in ("gauge", "counter", "histogram")
        assert not name.endswith(("_ms", "_us", "_permille", "_percent"))


def test_the_dashboard_uses_only_metrics_that_exist() -> None:
    model = heard("workers", agent(row()), model=heard("scheduler", scheduler()))
    heard("functions", function(durations=durations(b1=1)), model=model)
    families = Scrape(model).families
    for expression in expressions():
        asked = {re.sub("_(total|bucket)$", "", name) for name in re.findall(r"scaler_\w+", expression)}
        assert asked
        assert asked <= set(families), expression
