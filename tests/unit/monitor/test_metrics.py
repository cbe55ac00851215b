"""Metrics for Prometheus, parsed by the official parser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scaler.monitor.metrics import DURATION_BUCKETS, duration_buckets, exposition
from scaler.monitor.model.model import Model
from scaler.monitor.views.catalog import VIEWS
from scaler.monitor.views.workers import WORKERS_MOST
from scaler.wire.messages.monitor import DURATIONS, StateClient, StateFailure, StateVerdict
from tests.support import monitored
from tests.support.monitored import agent, counts, durations, function, row, scheduler, waiting

NOW = 100.0
DASHBOARD = Path(__file__).parents[3] / "docs" / "howto" / "grafana-dashboard.json"
RULES = DASHBOARD.with_name("prometheus-rules.yml")
LABELS = tuple[tuple[str, str], ...]


def expressions() -> list[str]:
    """Return the queries of the panels of the dashboard, for one job."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return [each.replace("$__rate_interval", "5s").replace("$job", "scaler") for each in asked]


def conditions() -> list[str]:
    """Return the queries of the rules."""
    return [json.loads(text) for text in re.findall("expr: (.*)", RULES.read_text())]


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
    assert scrape.of("scaler_scheduler_loop_lag_seconds", percentile="95") == 0.04
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
    assert scrape.of(f"{name}_bucket", le=repr((1 << 14) / 1e6), **labels) == 0
    assert scrape.of(f"{name}_bucket", le=repr((1 << 16) / 1e6), **labels) == 95
    assert scrape.of(f"{name}_bucket", le="+Inf", **labels) == scrape.of(f"{name}_count", **labels) == 100
    assert scrape.of(f"{name}_sum", **labels) == 3.0
    assert scrape.of("scaler_function_open_tasks", state="waiting", **labels) == 4
    assert scrape.of("scaler_function_tasks_ended_total", state="failed", **labels) == 20


def test_twelve_buckets_have_all_runs_below_their_limits() -> None:
    buckets = duration_buckets([1] * (DURATIONS.size // 4))
    assert len(buckets) == 12
    assert [float(limit) for limit, _ in buckets[:-1]] == [2**power / 1e6 for power in DURATION_BUCKETS]
    assert [count for _, count in buckets] == [*(power + 1 for power in DURATION_BUCKETS), 32]


def test_a_function_has_the_states_of_all_tasks_and_a_name_even_if_that_is_unknown() -> None:
    both = function("", success=1, failed=5), function("", function=b"", success=7)
    scrape = Scrape(heard("functions", *both, model=heard("scheduler", scheduler())))
    short_id = monitored.FUNCTION.hex()
    found = {
        (sample.labels["function"], sample.labels["name"], sample.labels["state"]): sample.value
        for sample in scrape.families["scaler_function_tasks_ended"].samples
    }
    assert found == {
        (short_id, short_id, "success"): 1, (short_id, short_id, "failed"): 5, (short_id, short_id, "canceled"): 0,
        ("others", "", "success"): 7, ("others", "", "failed"): 0, ("others", "", "canceled"): 0,
    }  # fmt: skip


def test_tasks_that_wait_for_the_same_reason_are_one_sample() -> None:
    groups = waiting(3, "taken", "gpu=1"), waiting(4, "taken", "gpu=2")
    scrape = Scrape(heard("scheduler", scheduler(), *groups))
    assert scrape.of("scaler_tasks_waiting_by_reason", reason="taken") == 7
    assert scrape.of("scaler_wanted_workers", capabilities="gpu=2") == 4


def test_the_verdict_is_a_metric() -> None:
    told = StateVerdict("workers", "all workers are busy", left_us=90_000_000)
    scrape = Scrape(heard("scheduler", scheduler(), told))
    assert scrape.of("scaler_verdict_info", verdict="workers") == 1
    assert scrape.of("scaler_left_seconds") == 90


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
    names = [b"%08d" % number for number in range(266)]
    heard("failures", *(StateFailure(name, "ValueError", "", b"", "price", 1) for name in names), model=model)
    heard("clients", *(StateClient(name, "a") for name in names), model=model)
    heard("functions", *(function(function=name, durations=durations(b1=1)) for name in names), model=model)
    rows = [row()] * (WORKERS_MOST // 2 + 10)
    heard("workers", agent(*rows), agent(*rows, agent=b"other", host="rome08"), model=model)
    families = Scrape(model).families
    assert len(families["scaler_failures"].samples) == len(families["scaler_client_open_tasks"].samples) == 256
    assert len(families["scaler_function_open_tasks"].samples) == 2 * 257
    assert len(families["scaler_function_duration_seconds"].samples) == 257 * (12 + 2)
    assert len(families["scaler_worker_busy"].samples) == WORKERS_MOST


def whole() -> Model:
    """Return a model with values for all metrics."""
    told = scheduler(), StateVerdict("workers", left_us=9), waiting(3), *counts(ended={"success": 1}, sent={"Task": 1})
    model = heard("scheduler", *told)
    heard("workers", agent(row(), hot_most_bytes=1, cold_most_bytes=1), model=model)
    heard("functions", function(durations=durations(b1=1)), model=model)
    heard("clients", StateClient(b"c" * 8, "a"), model=model)
    return heard("failures", StateFailure(b"f" * 8, "ValueError", "", b"", "price", 1), model=model)


UNITS = "microseconds|milliseconds|minutes|hours|days|kilobytes|megabytes|bits|percent|permille|celsius|us|ms|kb|mb|gb"


def test_every_metric_passes_the_rules_of_promtool() -> None:
    """The rules of `promtool check metrics`, which `test_promtool_accepts_the_metrics` asks where it is installed."""
    for name, family in Scrape(whole()).families.items():
        assert re.fullmatch("scaler(_[a-z]+)+", name), name
        assert family.documentation
        assert family.type in ("gauge", "counter", "histogram")
        assert not re.search(f"_({UNITS})(_|$)", name), name
        assert not re.search("_(total|count|sum|bucket|gauge|counter|histogram|summary)$", name), name
        for sample in family.samples:
            assert "quantile" not in sample.labels
            assert ("le" in sample.labels) == sample.name.endswith("_bucket")
            assert sample.name.endswith("_total") == (family.type == "counter")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
def test_promtool_accepts_the_metrics() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=exposition(whole(), NOW), capture_output=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, b"")


def test_each_metric_of_a_view_is_exposed_and_has_a_unit_of_its_type() -> None:
    families = Scrape(whole()).families
    for view in VIEWS.values():
        for each in view.fields:
            if each.metric is not None:
                assert each.metric.name in families
                assert families[each.metric.name].type == each.metric.kind
                assert each.type.unit in each.metric.name or each.type.name == "clock"


def test_the_dashboard_and_the_rules_use_only_metrics_that_exist() -> None:
    families = Scrape(whole()).families
    for expression in [*expressions(), *conditions()]:
        asked = {re.sub("_(total|bucket|sum)$", "", name) for name in re.findall(r"scaler_\w+", expression)}
        assert asked
        assert asked <= set(families), expression
