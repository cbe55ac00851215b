"""Counts what a storm has done: what was lost, wrong, doubled or hung, what was executed again and why, how fast."""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.faults.storms.faults import Fault, closed_while_cut_off
from tests.faults.storms.journal import Execution, Journal

MIB = 1 << 20
DYING_SECONDS = 0.5
"""What a fault took may begin something for so long after the end of the fault, or after the deaths that were seen."""


@dataclass
class Samples:
    """What was measured of the scheduler and the agents from time to time, and what was there in the end."""

    scheduler: list[tuple[float, int]] = field(default_factory=list)
    agents: list[int] = field(default_factory=list)
    descriptors: dict[str, list[int]] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)
    ended_by_itself: list[str] = field(default_factory=list)


def figures(journal: Journal, faults: Sequence[Fault], samples: Samples, expected: Sequence[str]) -> dict[str, Any]:
    """Return all figures of a storm.

    Args:
        journal: what the clients that lived have noted.
        faults: what was done.
        samples: what was measured.
        expected: the kinds of tasks that must fail.
    """
    errors = [each for each in journal.delivered if each.is_error]
    bad = [each for each in errors if not _is_of(each.task, expected)]
    silent = journal.submitted.keys() - {each.task for each in journal.delivered} - set(journal.hung)
    survivors = [each for each in journal.delivered if not each.is_error and _is_of(each.task, expected)]
    tasks = journal.submitted.keys() | journal.executions.keys()
    again, needless = executed_again(journal, faults, expected)
    return {
        "tasks": len(tasks),
        "executions": sum(map(len, journal.executions.values())),
        "faults": dict(Counter(each.kind for each in faults)),
        "lost": len(bad) + len(silent) + len(survivors),
        "wrong": sum(each.outcome == "wrong" for each in journal.delivered),
        "delivered_twice": len(journal.twice),
        "hung": len(journal.hung),
        "left_behind": samples.left_behind,
        "ended_by_itself": samples.ended_by_itself,
        "failed": len(errors),
        "errors": [f"{each.task}: {each.outcome}"[:300] for each in bad[:5]],
        "executed_again": dict(again),
        "executed_again_without_need": len(needless),
        "needless": needless[:5],
        "most_executions": max(map(len, journal.executions.values()), default=0),
        "recovery_seconds": recoveries(journal, faults),
        "longest_stall_seconds": _stall(journal),
        "scheduler_mib": memory(samples),
        "agents_mib": [round(min(samples.agents) / MIB), round(max(samples.agents) / MIB)] if samples.agents else [],
        "descriptors": samples.descriptors,
    }


def _is_of(task: str, kinds: Sequence[str]) -> bool:
    return task.split("/")[1].startswith(tuple(kinds)) if kinds else False


def executed_again(
    journal: Journal, faults: Sequence[Fault], expected: Sequence[str] = ()
) -> tuple[Counter[str], list[str]]:
    """Return how many executions were made again because of which kind of fault, and those that nothing explains."""
    again: Counter[str] = Counter()
    needless = []
    faults = [*faults, *closed_while_cut_off(faults)]
    for task, executions in journal.executions.items():
        for former, later in itertools.pairwise(executions):
            reason = next((each.kind for each in faults if _took(each, former, later)), None)
            reason = "the task itself" if _is_of(task, expected) else reason
            again[reason or "nothing"] += 1
            if reason is None:
                needless.append(f"{task}: {former} {later}")
    return again, needless


def _took(fault: Fault, former: Execution, later: Execution) -> bool:
    over = fault.until or fault.dead_at or fault.at
    if former.begin > over + DYING_SECONDS or fault.at > later.begin:
        return False
    is_of_client = fault.took_client is not None and former.task.startswith(f"{fault.took_client}/")
    # The work of an agent that was silent for too long moved, and it begins what it has before it hears of that.
    is_late = fault.took_life in later.lives and fault.at <= former.begin
    return fault.took_all or is_of_client or is_late or fault.took_life in former.lives or former.process in fault.took


def recoveries(journal: Journal, faults: Sequence[Fault]) -> dict[str, list[float]]:
    """Return by kind of fault [median, longest] seconds until work went on.

    After a kill that is the next execution of the tasks that were hit; after the scheduler is up again, after a reset
    and after the end of a fault that has lasted, it is the next result of any client.
    """
    found: dict[str, list[float]] = {}
    by_process: dict[int, list[tuple[Execution, Execution]]] = {}
    for executions in journal.executions.values():
        for former, later in itertools.pairwise(executions):
            by_process.setdefault(former.process, []).append((former, later))
    for fault in (each for each in faults if each.until is None):
        hits = [pair for process in fault.took for pair in by_process.get(process, ())]
        waits = [later.begin - fault.at for former, later in hits if former.is_hit_at(fault.at)]
        found.setdefault(fault.kind, []).extend(waits)
    arrivals = [each.at for each in journal.delivered]
    for fault in (each for each in faults if each.until is not None):
        place = bisect.bisect(arrivals, fault.until)
        if place < len(arrivals):
            found.setdefault(fault.kind, []).append(arrivals[place] - fault.until)
    return {
        kind: [round(statistics.median(values), 3), round(max(values), 3)] for kind, values in found.items() if values
    }


def _stall(journal: Journal) -> float:
    moments = [*sorted(journal.submitted.values())[:1], *(each.at for each in journal.delivered)]
    return round(max((later - former for former, later in itertools.pairwise(moments)), default=0.0), 2)


def memory(samples: Samples) -> dict[str, float]:
    """Return the scheduler's memory: first, peak, last, and the medians of the second and the last quarter."""
    sizes = [size / MIB for _, size in samples.scheduler]
    if not sizes:
        return {}
    quarter = max(1, len(sizes) // 4)
    return {
        "first": round(sizes[0], 1),
        "peak": round(max(sizes), 1),
        "last": round(sizes[-1], 1),
        "second_quarter": round(statistics.median(sizes[quarter : 2 * quarter] or sizes), 1),
        "last_quarter": round(statistics.median(sizes[-quarter:]), 1),
    }


WARM_UP_SECONDS, WARM_UP_MIB = 600, 8
"""A scheduler may grow by so much while it is younger: its caches fill, and a few megabytes are more than 5 % of it."""
BARS = ("lost", "wrong", "delivered_twice", "hung", "left_behind", "ended_by_itself")


def missed(found: dict[str, Any], is_thrifty: bool, is_soak: bool, seconds: float = WARM_UP_SECONDS) -> list[str]:
    """Return the bars that a storm of so many seconds has missed."""
    bars = [f"{name}: {found[name]}" for name in BARS if found[name]]
    if is_thrifty and found["executed_again_without_need"]:
        bars.append(f"executed_again_without_need: {found['executed_again_without_need']}")
    sizes = found["scheduler_mib"]
    slack = WARM_UP_MIB if seconds < WARM_UP_SECONDS else 0
    if is_soak and sizes and sizes["last_quarter"] > 1.05 * sizes["second_quarter"] + slack:
        bars.append(f"memory of the scheduler: {sizes['second_quarter']} to {sizes['last_quarter']} MiB")
    return bars
