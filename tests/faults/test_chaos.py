"""Short storms of everything, and the counting of storms."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults import chaos
from tests.faults.storms import report
from tests.faults.storms.faults import Fault, note_deaths, was_killed
from tests.faults.storms.journal import Delivery, Execution, Journal, read
from tests.faults.storms.network import Namespaces
from tests.faults.storms.scenarios import ALL_WORK, SCENARIOS, Scenario, soak_of
from tests.faults.storms.storm import Sizes

pytestmark = [pytest.mark.faults, pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")]

SEED = 9


def shorter(name: str, every_seconds: float, work: tuple[str, ...] = ()) -> Scenario:
    scenario = SCENARIOS[name]
    plans = tuple(dataclasses.replace(each, every_seconds=every_seconds) for each in scenario.plans)
    return dataclasses.replace(
        scenario, plans=plans, work=work or scenario.work, size=200_000, n_agents=2, most_seconds=10.0
    )


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "scenario", "tasks"),
    [
        ("scheduler", shorter("scheduler", 2.0, ALL_WORK), 100),
        ("resets", shorter("resets", 0.5, ("plain", "large", "nested")), 100),
    ],
)
def test_nothing_is_lost_wrong_doubled_or_left_behind(name: str, scenario: Scenario, tasks: int) -> None:
    sizes = Sizes(tasks, SEED, 20, patience_seconds=60, force_proxies=True, least_faults=2)
    found = chaos.run(name, scenario, sizes)
    assert not found["missed"], found
    assert sum(found["faults"].values()) >= 2, found


@pytest.mark.more
def test_a_little_of_everything_at_once() -> None:
    soak = dataclasses.replace(soak_of(8.0), is_soak=False)  # too short to say anything about memory
    found = chaos.run("soak", soak, Sizes(1 << 40, SEED, 50, 8.0, patience_seconds=60, force_proxies=True))
    assert not found["missed"], found
    assert len(found["faults"]) >= 6, found


def with_mark(names: list[str], mark: pytest.MarkDecorator) -> list[Any]:
    return [pytest.param(name, marks=mark) for name in names]


SOME = ["agents-graph", "scheduler-large", "holes", "poison"]
"""`make soak` runs the others."""
OTHERS = [
    *("agents-large", "scheduler-objects", "scheduler-graph", "scheduler-nested", "fork-servers"),
    *("clients", "stops", "unplugged", "input-dropped", "output-dropped", "resets", "delay-resets", "loss"),
    *("slow", "memory", "garbage", "flood", "descriptors", "huge", "processors-suspended"),
]


MOST_THAT_LAST = 3
"""Of faults that last there are no more: each holds up the end of the work."""
WINDOW = 40
"""Clients go on until there were enough faults, and leave so much work of each kind to be done after that."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", [*with_mark(SOME, pytest.mark.more), *with_mark(OTHERS, pytest.mark.soak)])
def test_each_scenario(name: str) -> None:
    plans = tuple(
        dataclasses.replace(plan, most=MOST_THAT_LAST) if plan.lasts_seconds[1] else plan
        for plan in SCENARIOS[name].plans
    )
    scenario = dataclasses.replace(SCENARIOS[name], plans=plans, mean_seconds=0.1, size=300_000)
    if scenario.loss and not Namespaces.can_be_made():
        pytest.skip("only network namespaces lose packets: it needs root, iproute2 and nftables")
    least = 2 if scenario.plans else len(scenario.hostile)
    found = chaos.run(name, scenario, Sizes(200, SEED, WINDOW, least_faults=least))
    assert not found["missed"], found
    assert sum(found["faults"].values()) >= least, found


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_two_minutes_of_everything() -> None:
    found = chaos.run("soak", soak_of(120.0), Sizes(1 << 40, SEED, 200, 120.0))
    assert not found["missed"], found


# ---------------------------------------------------------------------------------------------------- the counting


def journal() -> Journal:
    """Return one with two tasks, each executed and delivered once."""
    return Journal(
        {task: [Execution(task, 100, "agent", 1.0, 2.0)] for task in ("c/plain0", "c/plain1")},
        {"c/plain0": 0.5, "c/plain1": 0.5},
        [Delivery("c/plain0", 2.5, "ok"), Delivery("c/plain1", 2.5, "ok")],
    )


def counted(seen: Journal, *faults: Fault, expected: tuple[str, ...] = ()) -> list[str]:
    return report.missed(report.figures(seen, faults, report.Samples(), expected), is_thrifty=True, is_soak=False)


def test_what_went_well_misses_no_bar() -> None:
    assert counted(journal()) == []


def test_what_never_came_is_lost() -> None:
    seen = journal()
    seen.delivered.pop()
    assert counted(seen) == ["lost: 1"]


def test_an_error_is_a_loss_unless_it_was_expected() -> None:
    seen = journal()
    seen.delivered[1] = Delivery("c/plain1", 2.5, "MissingObjects 'x'")
    assert counted(seen) == ["lost: 1"]
    assert counted(seen, expected=("plain1",)) == []
    assert counted(seen, expected=("plain",)) == ["lost: 1"], "plain0 ought to have failed"


def test_wrong_doubled_and_hung_results_are_counted() -> None:
    seen = journal()
    seen.delivered[1] = Delivery("c/plain1", 2.5, "wrong")
    seen.twice.append(Delivery("c/plain0", 2.6, "ok"))
    seen.submitted["c/plain2"] = 0.6
    seen.hung.append("c/plain2")
    assert counted(seen) == ["wrong: 1", "delivered_twice: 1", "hung: 1"]


@pytest.mark.parametrize(
    ("fault", "is_needed"),
    [
        (Fault("processor killed", "processor", 1.5, frozenset({100})), True),
        (Fault("processor killed", "processor", 1.5, frozenset({101})), False),
        (Fault("processor killed", "processor", 3.5, frozenset({100})), False),
        (Fault("fork server killed", "fork server", 0.3, frozenset({100}), dead_at=1.1), True),  # a slow death
        (Fault("fork server killed", "fork server", 0.3, frozenset({100}), dead_at=0.4), False),
        (Fault("agent killed", "agent0", 0.8, took_life="agent"), True),  # it takes a moment to die
        (Fault("agent killed", "agent0", 0.4, took_life="agent"), False),
        (Fault("agent killed", "agent0", 2.5, took_life="agent"), True),
        (Fault("agent killed", "agent1", 2.5, took_life="other"), False),
        (Fault("scheduler killed", "scheduler", 1.5, took_all=True, until=1.7), True),
        (Fault("black hole", "c", 1.5, took_client="c", until=2.8), True),
        (Fault("black hole", "d", 1.5, took_client="d", until=2.8), False),
        (Fault("black hole", "agent", 1.5, until=2.8), False),
        (Fault("stopped", "agent1", 0.6, took_life="next agent", until=2.9), True),  # it began what it had
        (Fault("stopped", "agent1", 1.5, took_life="next agent", until=2.9), False),
    ],
)
def test_an_execution_is_repeated_with_need_if_a_fault_took_the_former_one(fault: Fault, is_needed: bool) -> None:
    seen = journal()
    seen.executions["c/plain0"].append(Execution("c/plain0", 200, "next agent", 3.0, 4.0))
    assert counted(seen, fault) == ([] if is_needed else ["executed_again_without_need: 1"])


def test_the_pid_of_a_killed_process_is_reused() -> None:
    faults = [Fault("processor killed", "processor", 5.0, frozenset({100}))]
    assert was_killed(faults, 100, since=1.0)
    assert not was_killed(faults, 100, since=6.0)
    assert not was_killed(faults, 101, since=1.0)


def test_a_kill_lasts_until_all_that_it_took_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        fault = Fault("processor killed", "processor", 1.0, dying=[psutil.Process(process.pid)])
        moments = itertools.count(2.0)
        note_deaths([fault], lambda: next(moments))
        assert (fault.dead_at, len(fault.dying)) == (2.0, 1), "it lives"
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays as a zombie, which begins nothing
        for _ in range(2):
            note_deaths([fault], lambda: next(moments))
        assert (fault.dead_at, fault.dying) == (3.0, [])


CUT = Fault("black hole", "agent0", 1.5, until=4.0, cut_off_life="agent")
RESET = Fault("reset", "scheduler", 1.8, until=1.8)
LATE_RESET = Fault("reset", "scheduler", 3.8, until=3.8)
SHORT = dataclasses.replace(CUT, until=2.2)


@pytest.mark.parametrize(
    ("faults", "is_needed"),
    [
        ([RESET, CUT], True),
        ([Fault("reset", "agent0", 1.2, until=1.2), CUT], True),  # it has no time to come back
        ([Fault("reset", "agent1", 1.8, until=1.8), CUT], False),
        ([RESET, SHORT], False),  # it comes back within two seconds
        ([LATE_RESET, CUT], True),  # it hears of the reset when the kernel repeats what it has said
        ([LATE_RESET, dataclasses.replace(CUT, kind="stopped")], False),
        ([RESET, SHORT, Fault("input dropped", "scheduler", 2.0, until=4.0, cut_off_life="other")], True),
        ([RESET, Fault("input dropped", "scheduler", 2.0, until=4.0, cut_off_life="other")], True),
        ([RESET, dataclasses.replace(CUT, cut_off_life="other")], False),
        ([RESET, dataclasses.replace(CUT, cut_off_life=None)], False),
        ([RESET, Fault("stopped", "client1", 1.5, until=7.0, cut_off_life="c")], False),
        ([RESET, Fault("stopped", "client0", 1.5, until=7.0, cut_off_life="c")], True),
    ],
)
def test_a_reset_takes_a_peer_that_cannot_come_back(faults: list[Fault], is_needed: bool) -> None:
    seen = journal()
    task = "client0/plain0"
    seen.executions[task] = [Execution(task, 100, "agent", 1.0, 2.0), Execution(task, 200, "other", 4.0, 5.0)]
    assert counted(seen, *faults) == ([] if is_needed else ["executed_again_without_need: 1"])


def test_a_child_needs_the_agent_of_its_parent(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.write_text(
        "B c/nested0 a1 100 agent 1.0\nB c/nested0.a1.0 a2 101 other 1.1\nE c/nested0.a1.0 a2 1.2\n"
        "B c/nested0.a1.0 a3 102 other 4.1\nE c/nested0.a1.0 a3 4.2\nE c/nested0 a1 4.5\n"
    )
    again, needless = report.executed_again(read(runs, []), [Fault("reset", "scheduler", 1.8, until=1.8), CUT])
    assert (dict(again), needless) == ({"reset, and black hole": 1}, [])


def test_memory_that_grows_is_a_miss_of_a_soak() -> None:
    samples = report.Samples(scheduler=[(float(second), (100 + second) << 20) for second in range(40)])
    found = report.figures(journal(), [], samples, ())
    assert report.missed(found, is_thrifty=False, is_soak=False) == []
    miss = ["memory of the scheduler: 114.5 to 134.5 MiB"]
    assert report.missed(found, is_thrifty=False, is_soak=True) == miss
    assert report.missed(found, is_thrifty=False, is_soak=True, seconds=120.0) == miss
    young = report.Samples(scheduler=[(float(second), int((50 + 0.15 * second) * (1 << 20))) for second in range(40)])
    found = report.figures(journal(), [], young, ())
    assert report.missed(found, is_thrifty=False, is_soak=True) == ["memory of the scheduler: 52.2 to 55.2 MiB"]
    assert report.missed(found, is_thrifty=False, is_soak=True, seconds=120.0) == []
