"""Storms with real processes: what goes wrong in the world, made here by the dozen, and what comes of it, counted.

    python -m tests.faults.chaos agents                     one scenario
    python -m tests.faults.chaos scheduler-large --tasks 20000 --seed 3
    python -m tests.faults.chaos soak --seconds 1800        all of it for half an hour
    python -m tests.faults.chaos all --tasks 500            each scenario once
    python -m tests.faults.chaos --list
    python -m tests.faults.chaos --table a.jsonl            what was reported, as a table

The last line is one JSON object. The exit code is 1 if any result was lost, wrong, delivered twice or never came, if
anything was left behind, or, in scenarios where nothing dies, if a task was executed again without need.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.faults.storms import report
from tests.faults.storms.scenarios import ALL_WORK, SCENARIOS, Scenario, soak_of
from tests.faults.storms.storm import Sizes, Storm
from tests.faults.storms.table import table

TASKS = 2000
SOAK_SECONDS = 1800.0


def run(name: str, scenario: Scenario, sizes: Sizes, keep: bool = False) -> dict[str, Any]:
    """Run one storm and return its figures, with the bars that it missed."""
    storm = Storm(scenario, sizes)
    started = time.monotonic()
    found = storm.run()
    seconds = round(time.monotonic() - started, 1)
    missed = report.missed(found, scenario.is_thrifty, scenario.is_soak, seconds)
    if keep or missed:
        found["folder"] = str(storm.folder)
    else:
        shutil.rmtree(storm.folder)
    head = {"scenario": name, "seed": sizes.seed, "missed": missed, "seconds": seconds}
    return {**head, **found}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("chaos", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scenarios", nargs="*", help="names of scenarios, or all")
    parser.add_argument("--list", action="store_true", help="show all scenarios")
    parser.add_argument("--tasks", type=int, default=TASKS, help="all tasks of all clients")
    parser.add_argument("--seconds", type=float, help="the length of a soak (default: 1800)")
    parser.add_argument("--window", type=int, default=1000, help="the most open tasks of a kind and client")
    parser.add_argument("--task-seconds", type=float, help="how long tasks sleep, on average")
    parser.add_argument("--size", type=int, help="the bytes of large results and of objects")
    parser.add_argument("--graph-tasks", type=int, help="the tasks of each graph (default: 20)")
    parser.add_argument("--work", help="kinds of work with commas between: " + ", ".join(ALL_WORK))
    parser.add_argument("--every", type=float, help="the seconds between faults")
    parser.add_argument("--hostile", type=int, help="how many messages or connections hostile peers make")
    parser.add_argument("--patience", type=float, default=60.0, help="after so long without a result tasks are hung")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--proxies", action="store_true", help="make faults of networks by proxies in any case")
    parser.add_argument("--keep", action="store_true", help="keep the logs also if no bar was missed")
    parser.add_argument("--report", type=Path, help="append the JSON lines to this file")
    parser.add_argument("--table", type=Path, help="show a file of such lines as a table")
    return parser


def scenario_of(name: str, arguments: argparse.Namespace) -> tuple[Scenario, float | None]:
    """Return the scenario as the arguments want it, and how long clients go on making tasks."""
    scenario, seconds = SCENARIOS[name], None
    if scenario.is_soak:
        seconds = arguments.seconds or SOAK_SECONDS
        scenario = soak_of(seconds)
    if arguments.task_seconds:
        scenario = dataclasses.replace(scenario, mean_seconds=arguments.task_seconds)
    if arguments.size:
        scenario = dataclasses.replace(scenario, size=arguments.size)
    if arguments.graph_tasks:
        scenario = dataclasses.replace(scenario, graph_tasks=arguments.graph_tasks)
    if arguments.work:
        scenario = dataclasses.replace(scenario, work=(*arguments.work.split(","), *scenario.expected))
    if arguments.every:
        plans = tuple(dataclasses.replace(each, every_seconds=arguments.every) for each in scenario.plans)
        scenario = dataclasses.replace(scenario, plans=plans)
    if arguments.hostile:
        hostile = tuple(dataclasses.replace(each, amount=arguments.hostile, grows=False) for each in scenario.hostile)
        scenario = dataclasses.replace(scenario, hostile=hostile)
    return scenario, seconds


def main() -> int:
    arguments = make_parser().parse_args()
    if arguments.table:
        print(table(map(json.loads, arguments.table.read_text().splitlines())))
        return 0
    if arguments.list or not arguments.scenarios:
        for name, each in SCENARIOS.items():
            print(f"{name:24} {each.about}; {', '.join(each.work)}")
        return 0
    names = [each for each in SCENARIOS if each != "soak"] if arguments.scenarios == ["all"] else arguments.scenarios
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # by way of the clean-up
    missed = 0
    for name in names:
        scenario, seconds = scenario_of(name, arguments)
        tasks = arguments.tasks if seconds is None else 1 << 40
        sizes = Sizes(tasks, arguments.seed, arguments.window, seconds, arguments.patience, arguments.proxies)
        line = json.dumps(run(name, scenario, sizes, arguments.keep))
        print(line, flush=True)
        if arguments.report:
            with arguments.report.open("a") as file:
                file.write(line + "\n")
        missed += bool(json.loads(line)["missed"])
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
