from __future__ import annotations

import json

from scaler.monitor.report import report
from tests.support.monitored_cluster import loaded, model_of


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
