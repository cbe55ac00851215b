"""All screens of one cluster: what the commands, the page, the metrics and the terminal say, as plain values."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Mapping
from typing import Any

from aiohttp import ClientSession, CookieJar
from prometheus_client.parser import text_string_to_metric_families

from scaler.monitor.units import about

OUTCOMES = ("success", "failed", "canceled")
_SECONDS = 60


def outcome_of(state: str) -> str:
    """Return success, canceled, or failed for any other end of a task."""
    return state if state in ("success", "canceled") else "failed"


class AllScreens:
    """The screens of the cluster at `address`, with the page at `url`, which has the token at its end."""

    def __init__(self, address: str, url: str) -> None:
        self._address = address
        self._base, _, self._token = url.partition("?token=")
        self._url = url

    # ------------------------------------------------------------------------------------------- each screen alone

    def _run(self, command: str, *arguments: str) -> str:
        module = [sys.executable, "-m", f"scaler.cli.{command}", self._address, *arguments]
        return subprocess.run(module, capture_output=True, text=True, check=True, timeout=_SECONDS).stdout

    def json(self) -> dict[str, Any]:
        """Return what `scaler_top --once --json` prints."""
        found: dict[str, Any] = json.loads(self._run("top", "--once", "--json", "-t", "30"))
        return found

    def terminal(self) -> str:
        """Return what `scaler_top --once` prints."""
        return self._run("top", "--once", "-t", "30")

    def job(self, name: str) -> dict[str, int]:
        """Return the rows of a job by state, as `scaler_jobs show` prints them."""
        text = self._run("jobs", "show", name)
        found = re.findall(r"([\d,]+) (done|failed|open|handed out|running)", text)
        return {word.replace(" ", "_"): int(number.replace(",", "")) for number, word in found}

    def _get(self, path: str) -> bytes:
        request = urllib.request.Request(f"{self._base}{path}", headers={"Authorization": f"Bearer {self._token}"})
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            body: bytes = answer.read()
            return body

    def rows(self, view: str, **query: str) -> list[dict[str, Any]]:
        """Return the rows of a view, as a program reads them from the server of the page."""
        arguments = "&".join(f"{name}={value}" for name, value in {"limit": "100", **query}.items())
        found: list[dict[str, Any]] = json.loads(self._get(f"view/{view}.json?{arguments}"))["rows"]
        return found

    def metrics(self) -> dict[str, Counter[tuple[str, ...]]]:
        """Return the samples of each metric by the values of their labels."""
        found: dict[str, Counter[tuple[str, ...]]] = {}
        for family in text_string_to_metric_families(self._get("metrics").decode()):
            for sample in family.samples:
                found.setdefault(sample.name, Counter())[tuple(sample.labels.values())] = sample.value
        return found

    def page(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the second frame of a page: by then, the topics that the page needs have arrived."""

        async def ask() -> dict[str, Any]:
            async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
                await browser.get(self._url)
                async with browser.ws_connect(f"{self._base}socket") as socket:
                    await socket.send_str(self._token)
                    await socket.send_json({"wish": 1, "page": name, "args": arguments})
                    for _ in range(2):
                        found: dict[str, Any] = await socket.receive_json(timeout=_SECONDS)
                        await socket.send_json({"ack": found["frame"]})
                    return found

        return asyncio.run(ask())

    # --------------------------------------------------------------------------------------------- all of them at once

    def ended(self, *functions: str) -> dict[str, Mapping[str, float]]:
        """Return the number of ended tasks by outcome, by screen; then those of some functions, by screen."""
        found, metrics, rows = self.json(), self.metrics(), self.rows("functions")
        terminal = dict(re.findall(r"(success|failed|canceled|not_found) +([\d,]+) ", self.terminal()))
        in_terminal = {name: int(amount.replace(",", "")) for name, amount in terminal.items()}
        of_metrics = Counter[str]()
        for (state,), amount in metrics["scaler_tasks_ended_total"].items():
            of_metrics[outcome_of(state)] += int(amount)
        of_views = Counter[str]()
        for row in self.rows("ended"):
            of_views[outcome_of(row["name"])] += row["count"]
        screens: dict[str, Mapping[str, float]] = {
            "json": {**found["tasks"], "failed": found["tasks"]["failed"] + found["tasks"]["not_found"]},
            "terminal": {**in_terminal, "failed": in_terminal["failed"] + in_terminal["not_found"]},
            "metrics": of_metrics,
            "view ended": of_views,
            "functions of json": _summed(found["functions"]),
            "view functions": _summed(rows),
            "functions of metrics": _by_state(metrics),
        }
        failed = {
            "strip": self.page("live")["strip"]["failed"],
            "view failures": sum(row["count"] for row in self.rows("failures")),
            "failures of json": sum(each["count"] for each in found["failures"]),
            "failures of metrics": sum(metrics["scaler_failures_total"].values()),
        }
        screens |= {name: {"failed": amount} for name, amount in failed.items()}
        for name in functions:
            screens |= {
                f"{name} of json": _summed([each for each in found["functions"] if each["name"] == name]),
                f"{name} of view": _summed([each for each in rows if each["name"] == name]),
                f"{name} of metrics": _by_state(metrics, name),
            }
        return screens

    def open(self) -> dict[str, Mapping[str, Any]]:
        """Return what is open: the numbers of tasks and busy workers, and the verdict, by screen."""
        found, metrics, strip = self.json(), self.metrics(), self.page("live")["strip"]
        state, terminal = self.rows("scheduler")[0], self.terminal()
        left, dependent = found["left_seconds"], found["tasks"]["waiting_for"].get("inputs", 0)
        word = re.search(r"bound by: ([^|]*[^| ])|(idle|no workers)", terminal)
        busy = re.search(r"(\d+)(?: busy|/\d+ busy)", terminal)
        assert word is not None, terminal
        assert busy is not None, terminal
        return {
            "json": {
                "waiting": found["tasks"]["unassigned"], "running": found["tasks"]["running"],
                "busy": sum(each["busy"] for each in found["workers"]), "verdict": found["verdict"],
                "warning": found["warning"], "sentence": found["advice"], "left": about(left) if left else "",
            },
            "metrics": {
                "waiting": metrics["scaler_tasks_waiting"][()], "running": metrics["scaler_tasks_running"][()],
                "busy": metrics["scaler_workers_busy"][()],
            },
            "view scheduler": {name: state[name] for name in ("waiting", "running", "busy")},
            "view workers": {"busy": sum(row.get("state") == "busy" for row in self.rows("workers"))},
            "functions": {
                "running": sum(each["running"] for each in self.rows("functions")),
                "waiting": sum(each["waiting"] for each in found["functions"]) + dependent,
            },
            "tasks that run": {"running": len(self.rows("tasks", state="running"))},
            "terminal": {"verdict": word[1] or word[2], "busy": int(busy[1])},
            "strip": {name: strip[name] for name in ("busy", "warning", "sentence", "left")},
        }  # fmt: skip


def _summed(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter({state: sum(int(row[state] or 0) for row in rows) for state in OUTCOMES})


def _by_state(metrics: Mapping[str, Counter[tuple[str, ...]]], name: str = "") -> Counter[str]:
    found = Counter[str]()
    for (_, function, state), amount in metrics["scaler_function_tasks_ended_total"].items():
        if name in ("", function):
            found[state] += int(amount)
    return found


def disagreements(screens: Mapping[str, Mapping[str, Any]], truth: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for each value that differs from the truth; `truth[""]` holds for all screens without their own."""
    return [
        f"{screen}: {name} is {values[name]}, not {wanted}"
        for screen, values in screens.items()
        for name, wanted in truth.get(screen, truth[""]).items()
        if name in values and values[name] != wanted
    ]
