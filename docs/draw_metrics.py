"""Write the board for Grafana and the rules for Prometheus from the views in scaler/monitor/views:
python docs/draw_metrics.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scaler.monitor.views.catalog import VIEWS
from scaler.monitor.views.view import COUNTER
from scaler.wire.messages import verdicts, vocabulary

FOLDER = Path(__file__).parent / "howto"
BOARD, RULES = FOLDER / "grafana-dashboard.json", FOLDER / "prometheus-rules.yml"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
RATE = "[$__rate_interval]"
DURATIONS = "scaler_function_duration_seconds"
UNITS = {"seconds": "s", "bytes": "bytes", "share": "short", "count": "short", "clock": "dateTimeAsIso"}
"""By type of a field: the unit in Grafana."""
BAD_STATES = f'state!~"{vocabulary.SUCCESS}|{vocabulary.CANCELED}"'


def series(path: str, labels: str = "", job: str = 'job=~"$job"') -> str:
    """Return the selector of the metric of a field, given as `view.field`."""
    view, _, name = path.partition(".")
    field = VIEWS[view].field(name)
    assert field is not None, path
    assert field.metric is not None, path
    end = "_total" if field.metric.kind == COUNTER else ""
    chosen = ",".join(filter(None, (job, labels)))
    return f"{field.metric.name}{end}{{{chosen}}}" if chosen else f"{field.metric.name}{end}"


def described(about: str) -> tuple[str, str]:
    """Return unit and description for a field, given as `view.field`, or for a unit."""
    view, _, name = about.partition(".")
    field = VIEWS[view].field(name) if name else None
    return (UNITS[field.type.name], field.metric.text(VIEWS[view], field)) if field and field.metric else (about, "")


FUNCTION_RATE = f'rate({DURATIONS}_%s{{job=~"$job"}}{RATE})'
UP = {"0": {"text": "not heard", "color": "red"}, "1": {"text": "up", "color": "green"}}
COLOURS = {"success": "green", "failed": "red", "canceled": "purple"}
Target = tuple[str, str]
"""A query and the name of its lines."""
Panel = tuple[str, str, str, tuple[int, int], list[Target]]
"""Kind, title, the field that gives unit and description (or a unit), width and height, and queries."""

PANELS: tuple[Panel, ...] = (
    ("stat", "Scheduler", "short", (3, 4), [('scaler_up{job=~"$job"}', "")]),
    (
        "stat", "Bound by", "short", (4, 4), [('scaler_verdict_info{job=~"$job"}', "{{verdict}}")],
    ),
    ("stat", "Left", "s", (3, 4), [('scaler_left_seconds{job=~"$job"}', "")]),
    (
        "stat", "Open tasks", "scheduler.waiting", (3, 4),
        [(f"{series('scheduler.waiting')} + {series('scheduler.running')}", "")],
    ),
    ("stat", "Tasks/s", "ops", (3, 4), [(f"sum(rate({series('ended.count')}{RATE}))", "")]),
    (
        "stat", "Failed in the last hour", "ended.count", (3, 4),
        [(f"sum(increase({series('ended.count', BAD_STATES)}[1h]))", "")],
    ),
    (
        "stat", "Workers busy", "percentunit", (3, 4),
        [(f"{series('scheduler.busy')} / {series('scheduler.workers')}", "")],
    ),
    ("stat", "Look stuck", "scheduler.stuck", (2, 4), [(series("scheduler.stuck"), "")]),
    (
        "timeseries", "Tasks that end, by state", "ops", (12, 8),
        [(f"sum by (state) (rate({series('ended.count')}{RATE}))", "{{state}}")],
    ),
    (
        "timeseries", "Why tasks wait", "waiting.waiting", (12, 8),
        [(series("waiting.waiting"), "{{reason}}"), (series("scheduler.running"), "running")],
    ),
    (
        "timeseries", "Functions: cores that they use", "short", (12, 8),
        [(f"sum by (name) ({FUNCTION_RATE % 'sum'})", "{{name}}")],
    ),
    (
        "timeseries", "Functions: 95 % take less than", "s", (12, 8),
        [(f"histogram_quantile(0.95, sum by (le, name) ({FUNCTION_RATE % 'bucket'}))", "{{name}}")],
    ),
    ("timeseries", "Scheduler: loop lag", "scheduler.lag", (8, 7), [(series("scheduler.lag"), "{{percentile}} %")]),
    ("timeseries", "Scheduler: cores (it can use one)", "scheduler.cpu", (8, 7), [(series("scheduler.cpu"), "cores")]),
    (
        "timeseries", "Memory", "scheduler.rss", (8, 7),
        [
            (series("scheduler.rss"), "scheduler"),
            (series("scheduler.object_bytes"), "objects"),
            (f"sum({series('workers.rss')})", "workers"),
        ],
    ),
    (
        "timeseries", "Functions: open tasks", "functions.waiting", (12, 8),
        [(f"sum by (name) ({series('functions.waiting')})", "{{name}}")],
    ),
    ("timeseries", "Clients: open tasks", "clients.open", (12, 8), [(series("clients.open"), "{{label}}")]),
    (
        "timeseries", "Hosts: busy workers", "workers.busy", (8, 8),
        [(f"sum by (host) ({series('workers.busy')})", "{{host}}")],
    ),
    (
        "timeseries", "Hosts: values in memory and on disk", "agents.memory", (8, 8),
        [
            (f"sum by (host) ({series('agents.memory')})", "{{host}} memory"),
            (f"sum by (host) ({series('agents.disk')})", "{{host}} disk"),
        ],
    ),
    ("table", "Failures", "failures.count", (8, 8), [(f"topk(20, {series('failures.count')})", "")]),
)  # fmt: skip
BOARD_WIDTH = 24


def board() -> str:
    """Return the board as JSON."""
    panels, x, y, height = [], 0, 0, 0
    for number, (kind, title, about, (width, own_height), targets) in enumerate(PANELS, 1):
        if x + width > BOARD_WIDTH:
            x, y = 0, y + height
        panels.append(
            {
                "id": number,
                "type": kind,
                "title": title,
                "description": described(about)[1],
                "datasource": DATASOURCE,
                "gridPos": {"x": x, "y": y, "w": width, "h": own_height},
                "fieldConfig": _field_config(title, described(about)[0]),
                "targets": [_target(letter, *target, kind) for letter, target in zip("ABC", targets, strict=False)],
            }
            | ({"options": {"textMode": "name"}} if title == "Bound by" else {})
        )
        x, height = x + width, own_height
    return json.dumps(_frame_of_board() | {"panels": panels}, indent=1) + "\n"


def _field_config(title: str, unit: str) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": unit, "min": 0}
    if title == "Scheduler":
        defaults["mappings"] = [{"type": "value", "options": UP}]
    if unit == "percentunit":
        defaults["max"] = 1
    colours = COLOURS.items() if title == "Tasks that end, by state" else ()
    overrides = [
        {
            "matcher": {"id": "byName", "options": state},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }
        for state, colour in colours
    ]
    return {"defaults": defaults, "overrides": overrides}


def _target(letter: str, query: str, legend: str, kind: str) -> dict[str, Any]:
    table = {"format": "table", "instant": True} if kind == "table" else {}
    return {"refId": letter, "datasource": DATASOURCE, "expr": query, "legendFormat": legend} | table


def _frame_of_board() -> dict[str, Any]:
    jobs = "label_values(scaler_up, job)"
    started = series("scheduler.started")
    return {
        "title": "Scaler",
        "uid": "scaler",
        "tags": ["scaler"],
        "schemaVersion": 39,
        "version": 2,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "job",
                    "type": "query",
                    "datasource": DATASOURCE,
                    "query": {"query": jobs, "refId": "job"},
                    "definition": jobs,
                    "refresh": 2,
                    "includeAll": True,
                    "multi": True,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "restarts",
                    "enable": True,
                    "datasource": DATASOURCE,
                    "expr": f"changes({started}[1m]) > 0",
                    "iconColor": "red",
                    "titleFormat": "the scheduler was restarted",
                }
            ]
        },
    }


def _rule_series(path: str, labels: str = "") -> str:
    return series(path, labels, job="")


CANNOT_RUN = f'reason=~"{vocabulary.NO_WORKER}|{vocabulary.NOT_ABLE}"'
HOSTS, LIMIT = "sum by (job, host)", "max by (job, host)"
FAILED_SHARE = (
    f"sum by (job) (increase({_rule_series('ended.count', BAD_STATES)}[10m]))"
    f" > 0.05 * sum by (job) (increase({_rule_series('ended.count')}[10m]))"
)
FULL = 0.95
Rule = tuple[str, str, str, str, str, str]
"""Name, query, how long it holds before the alert, severity, summary, and what to do."""

ALERTS: tuple[Rule, ...] = (
    (
        "ScalerSchedulerIsDown", "scaler_up == 0", "1m", "critical",
        "The scheduler sends no reports.", "Is scaler_scheduler running? See its log.",
    ),
    (
        "ScalerTasksCannotRun", f"{_rule_series('waiting.waiting', CANNOT_RUN)} > 0", "5m", "warning",
        "{{ $value }} tasks wait, and no worker can run them.",
        "Start workers with the capabilities that the tasks request; scaler_top shows them (0).",
    ),
    (
        "ScalerFailuresAreRising",
        FAILED_SHARE,
        "5m", "warning", "More than 5 % of the tasks of the last 10 minutes have failed.",
        "scaler_top shows the kinds of failures, with a traceback of each (4).",
    ),
    (
        "ScalerWorkersLookStuck", f"{_rule_series('scheduler.stuck')} > 0", "5m", "warning",
        "{{ $value }} workers look stuck.", "scaler_top shows them, and why (the key *).",
    ),
    (
        "ScalerIsBoundByItsScheduler",
        f'scaler_verdict_info{{verdict=~"{verdicts.SCHEDULER}|{verdicts.MACHINE}"}} == 1', "10m", "warning",
        "The cluster is bound by: {{ $labels.verdict }}.",
        "Make tasks larger, or give the scheduler a core of its own.",
    ),
    (
        "ScalerWorkersArePaused", f"{HOSTS} ({_rule_series('agents.paused')}) > 0", "5m", "warning",
        "{{ $value }} workers of {{ $labels.host }} are paused: memory and disk for values are full.",
        "Read results, drop futures that are not needed, or set a larger limit of the disk.",
    ),
    (
        "ScalerMemoryOfValuesIsFull",
        f"{HOSTS} ({_rule_series('agents.memory')}) > {FULL} * {LIMIT} ({_rule_series('agents.memory_limit')})",
        "15m", "info", "Values on {{ $labels.host }} take nearly all of their shared memory.",
        "They are written to the disk, if the cluster has a --spill-folder.",
    ),
    (
        "ScalerDiskOfValuesIsFull",
        f"{HOSTS} ({_rule_series('agents.disk')}) > {FULL} * {LIMIT} ({_rule_series('agents.disk_limit')})",
        "5m", "warning", "Values on {{ $labels.host }} take nearly all of their disk.",
        "Read results, drop futures that are not needed, or set a larger limit.",
    ),
)  # fmt: skip


def rules() -> str:
    """Return the rules as YAML."""
    lines = [
        "# Written by docs/draw_metrics.py from the views in scaler/monitor/views; a test compares the two.",
        "groups:",
        "  - name: scaler",
        "    rules:",
    ]
    for name, query, seconds, severity, summary, advice in ALERTS:
        lines += [
            f"      - alert: {name}",
            f"        expr: {json.dumps(query)}",
            f"        for: {seconds}",
            f"        labels: {{severity: {severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(summary)}",
            f"          description: {json.dumps(advice)}",
        ]
    return "\n".join(lines) + "\n"


FILES = {BOARD: board, RULES: rules}

if __name__ == "__main__":
    for path, text in FILES.items():
        path.write_text(text())
