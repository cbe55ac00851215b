"""Seeds of the simulation: fixed ones always, fresh ones when there is time. A failure says how to replay it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import kinds
from tests.simulation.story import Story
from tests.support.fresh import fresh_seed

ROOT = Path(__file__).parents[2]


def test_each_kind_of_stories_has_fresh_seeds() -> None:
    every = {kind.name for kind in (*vars(kinds).values(), *kinds.KINDS) if isinstance(kind, kinds.Kind)}
    assert {kinds.kind_of(seed).name for seed in range(kinds.FRESH, 2 * kinds.FRESH)} == every


def simulate(*options: str) -> str:
    """Run the program, in a process of its own, since sets have the same order in each."""
    command = [sys.executable, "-m", "tests.simulation", *options]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    ran = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("count", [20, pytest.param(60, marks=pytest.mark.more)])
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_everything_ends_well(count: int) -> None:
    assert f"{count} seeds, 0 failed" in simulate("--seeds", str(count))


def well(count: int, *kinds: str) -> bool:
    """Run so many seeds of these kinds; return whether all ended well."""
    return f"{count} seeds, 0 failed" in simulate("--seeds", str(count), "--first", "1000", "--kinds", *kinds)


runs = pytest.mark.parametrize("count", [8, pytest.param(32, marks=pytest.mark.more)])


@runs
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_everything_ends_when_parts_of_the_scheduler_fail_and_tasks_are_refused(count: int) -> None:
    assert well(count, "choppy", "parts")


@runs
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_runs_of_an_agent_continue_when_it_is_back_and_deaths_count(count: int) -> None:
    assert well(count, "late", "deaths")


@runs
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_queued_runs_get_no_mark_and_running_ones_continue_under_the_next_scheduler(count: int) -> None:
    assert well(count, "spared", "anew", "kept", "full", "rivals")


@runs
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_orderly_shutdown_loses_nothing_and_of_two_runs_one_continues(count: int) -> None:
    assert well(count, "orderly", "steady", "twice", "values", "futures")


@runs
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_results_that_tasks_need_are_computed_again_only_if_they_were_lost(count: int) -> None:
    assert well(count, "graphs", "chains")


@pytest.mark.more
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_everything_ends_with_fresh_seeds() -> None:
    assert "190 seeds, 0 failed" in simulate("--seeds", "190", "--first", str(fresh_seed(1_000)))


def test_an_order_that_a_smaller_one_has_overtaken_is_not_to_blame_for_the_loss_of_its_agent() -> None:
    assert Story(6217).run() == []


@pytest.mark.processes
def test_the_same_seed_is_the_same_run() -> None:
    """In processes of their own, as a seed is replayed."""
    logs = [simulate("--seed", "4", "--trace", "-v").splitlines()[:-1] for _ in range(2)]
    assert logs[0] == logs[1]
    assert len(logs[0]) > 100


@pytest.mark.soak
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_each_defect_that_is_put_back_is_found() -> None:
    assert "not found" not in simulate("--mutants")
