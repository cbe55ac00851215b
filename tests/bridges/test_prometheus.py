"""A real Prometheus scrapes a loaded cluster, and each panel of the dashboard has something to show."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support.processes import PATIENCE_SECONDS, free_address, wait_until
from tests.unit.monitor.test_metrics import conditions, expressions

pytestmark = [
    pytest.mark.more,
    pytest.mark.foreign,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus: apt-get install prometheus"),
]


def fail(number: int) -> float:
    if number % 7 == 0:
        raise ValueError("on purpose")
    time.sleep(0.01)
    return 1 / number


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes a cluster which has work all the time."""
    token, prom = tmp_path / "token", tmp_path / "prometheus.yml"
    with SchedulerClusterCombo(n_workers=2, logging_level="WARNING") as combo:
        command = [sys.executable, "-m", "scaler.cli.ui", combo.get_address(), "--metrics-only", "--port", "0"]
        viewer = subprocess.Popen(
            [*command, "--token-file", str(token)], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert viewer.stdout is not None
        viewer.stdout.readline()
        target = urllib.parse.urlsplit(viewer.stdout.readline().strip()).netloc
        prom.write_text(
            "scrape_configs:\n"
            "  - job_name: scaler\n"
            "    scrape_interval: 1s\n"
            f"    authorization: {{credentials_file: {token}}}\n"
            f"    static_configs: [{{targets: ['{target}']}}]\n"
        )
        log = (tmp_path / "prometheus.log").open("w")
        listens = free_address().removeprefix("tcp://")
        server = subprocess.Popen(
            ["prometheus", f"--config.file={prom}", f"--storage.tsdb.path={tmp_path / 'data'}",
             f"--web.listen-address={listens}"],
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            with Client(combo.get_address()) as client:
                futures = [client.submit(fail, number) for number in range(30_000)]
                yield f"http://{listens}"
                for future in futures:
                    future.cancel()
        finally:
            for process in (server, viewer):
                process.terminate()
                process.wait(PATIENCE_SECONDS)
            viewer.stdout.close()
            log.close()


def ask(address: str, expression: str) -> list[Any]:
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"{address}/api/v1/query?{query}", timeout=PATIENCE_SECONDS) as answer:
        said = json.load(answer)
    assert said["status"] == "success", said
    result: list[Any] = said["data"]["result"]
    return result


def is_up(address: str) -> bool:
    try:
        return [each["value"][1] for each in ask(address, "scaler_up")] == ["1"]
    except OSError:
        return False


def test_every_panel_of_the_dashboard_has_data(scraped: str) -> None:
    wait_until(lambda: is_up(scraped), "a scrape of a scheduler that is heard", pause_seconds=0.2)
    wait_until(lambda: ask(scraped, "count_over_time(scaler_up[1m]) > 5"), "some scrapes", pause_seconds=0.5)
    for expression in expressions():
        wait_until(lambda asked=expression: ask(scraped, asked), expression, pause_seconds=0.5)  # type: ignore[misc]
    alerts = {condition: bool(ask(scraped, condition)) for condition in conditions()}
    assert not alerts.pop("scaler_up == 0")
    assert any(holds for condition, holds in alerts.items() if "tasks_ended" in condition), "many tasks fail"
    (failed,) = ask(scraped, 'scaler_failures_total{type=~".*ValueError"}')
    assert int(failed["value"][1]) > 0
    (targets,) = ask(scraped, "scrape_samples_scraped")
    assert int(targets["value"][1]) < 1000
