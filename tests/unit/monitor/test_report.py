from __future__ import annotations

import json

from scaler.monitor.report import report
from scaler.monitor.top.print_once import as_json
from scaler.monitor.views.catalog import OF_DETAILS, VIEWS
from tests.support.monitored_cluster import loaded, model_of
from tests.support.pictures import watched


def test_a_report_is_plain_data() -> None:
    said = json.loads(json.dumps(report(model_of(loaded()), 100.5)))
    assert said["verdict"] == "workers"
    assert said["tasks"] | {"ended": 0, "waiting_for": 0} == {
        "unassigned": 48_197,
        "running": 30,
        "success": 9_120_377,
        "failed": 212,
        "canceled": 40,
        "not_found": 0,
        "per_second": 385,
        "ended": 0,
        "waiting_for": 0,
    }
    assert len(said["workers"]) == said["workers_total"] == 16
    assert said["workers"][0]["name"] == "rome07:0"
    assert said["workers"][15]["stuck"].startswith("its task has run for 190 s")
    assert [each["name"] for each in said["functions"]] == ["price", "load", "calibrate", ""]
    assert said["failures"][0]["traceback"].endswith("ValueError: bad strike")


def test_unknown_values_of_a_report_are_null() -> None:
    said = report(model_of(), 1)
    assert said["scheduler"] is None
    assert said["tasks"]["unassigned"] is None
    assert said["verdict"] == "no news"


def test_names_of_earlier_releases_stay_beside_those_of_the_views() -> None:
    said = report(model_of(loaded()), 100.5)
    worker = said["workers"][0]
    assert (worker["cpu"], worker["cpu_permille"]) == (0.999, 999)
    assert (worker["lag"], worker["lag_us"], worker["running"], worker["running_ms"]) == (0.0007, 700, 0.037, 37)
    assert (worker["busy"], worker["itl"], worker["function"]) == (True, "110", "price")
    names = {"agent_pid", "agent_cpu_permille", "agent_rss_bytes", "rss_bytes", "rss_free_bytes", "host", "free"}
    assert worker.keys() >= names | {"sent", "queued", "suspended", "seen_seconds", "stuck"}
    function = said["functions"][0]
    assert (function["mean"], function["mean_us"], function["p95_us"]) == (0.041, 41_000, 63_898)
    names = {"id", "name", "waiting", "running", "success", "failed", "canceled", "waits_for", "asks"}
    assert function.keys() >= names
    assert said["failures"][0].keys() >= {"type", "message", "function", "count", "first_us", "last_us", "task"}
    assert said["clients"][0].keys() >= {"id", "label", "owner", "open", "waiting"}
    assert said["waiting"][0].keys() >= {"asks", "waits_for", "sentence", "waiting", "running", "places"}
    assert said["values"]["rome07"].keys() == {"hot", "hot_most", "cold", "cold_most", "spilled", "read", "held"}
    names = {"id", "address", "version", "started_us", "cpu_permille", "rss_bytes", "rss_free_bytes", "loop_lag_us"}
    assert said["scheduler"].keys() >= names | {"objects", "object_bytes", "shared_bytes"}


def test_all_views_are_in_a_report_and_rows_that_have_not_arrived_are_null() -> None:
    said = report(model_of(watched()), 100.5)
    assert said.keys() >= {view.report or name for name, view in VIEWS.items() if name not in OF_DETAILS}
    assert [each["name"] for each in said["jobs"]] == ["prices-23", "nightly", "q3 report"]
    assert (said["objects"][0]["size"], len(said["hosts"]), said["processors"][0]["pid"]) == (3 << 30, 4, 4801)
    assert (said["graphs"], said["tasks_kept"]) == (None, None)
    assert report(model_of(loaded()), 100.5)["objects"] is None


def test_each_row_is_a_line_of_the_output() -> None:
    text = as_json(model_of(loaded()))
    assert json.loads(text)["workers"][3]["name"] == "rome07:3"
    assert len([line for line in text.splitlines() if '"agent_pid"' in line]) == 16
