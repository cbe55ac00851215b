"""The verdict: what limits the cluster, in one word, and what to do, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaler.actors.monitor.load.remaining import never
from scaler.wire.messages import vocabulary
from scaler.wire.messages.monitor import StateWaiting
from scaler.wire.messages.verdicts import (
    CLIENTS,
    FACTS,
    IDLE,
    INPUTS,
    MACHINE,
    NO_WORKERS,
    NOT_ABLE,
    RETRIES,
    SCHEDULER,
    STARTS,
    TRIPS,
    VALUES,
    WORKERS,
)

STANDING_SECONDS = 5.0
"""How long a verdict stands at least before another one replaces it, unless one of both is in `FACTS`."""
FULL = 0.95
"""The share of busy workers above which workers are what limits the cluster."""
_SHORT_US = 10_000


class Verdict(NamedTuple):
    """The limit of the cluster, in a word and a sentence."""

    word: str
    sentence: str
    """what limits the cluster and what to do, for people; if tasks wait, why a group of these tasks waits"""


class ClusterLoad(NamedTuple):
    """The figures from which a verdict is derived, besides the groups of open tasks."""

    address: str
    open: int
    """the number of tasks that have not ended"""
    running: int
    workers: int
    busy_share: float
    """the share of workers that execute a task, as a mean of the last seconds"""
    held_workers: int
    """the number of workers that are paused, because memory and disk for values are full"""
    is_busy: bool
    """whether the scheduler itself uses most of a core"""
    is_late: bool
    """whether the event loop of the scheduler is late"""
    machine: str
    """a sentence about the load of the scheduler's machine"""


def verdicts(groups: Sequence[StateWaiting], load: ClusterLoad) -> Iterator[Verdict]:
    """Yield each verdict that holds now, the most important one first."""
    waiting = [each for each in groups if each.waiting]
    if not load.workers:
        yield Verdict(NO_WORKERS, f"start scaler_cluster {load.address or 'ADDRESS'}")
        return
    if not load.open:
        yield Verdict(IDLE, "all tasks that were submitted have ended")
        return
    able = [each for each in waiting if each.waits_for != vocabulary.NOT_ABLE]
    if waiting and not able and not load.running:
        yield Verdict(NOT_ABLE, _why(waiting[0]))
        return
    if not waiting and not load.running:
        yield Verdict(RETRIES, "all open tasks have failed, and run again after a pause")
        return
    if load.is_busy:
        yield Verdict(SCHEDULER, "the scheduler itself is busy all the time: larger tasks would help")
    queued = (each for each in able if each.waits_for != vocabulary.INPUTS)
    longest = max(queued, key=lambda each: (each.work_us / max(1, each.places), each.waiting), default=None)
    yield from _of_workers(longest, load)
    yield _with_idle_workers(able, longest, load)


def _of_workers(longest: StateWaiting | None, load: ClusterLoad) -> Iterator[Verdict]:
    """Yield the verdicts about resources, workers, and the machine of the scheduler."""
    if longest is not None and longest.asks:
        yield Verdict(longest.asks, _why(longest))
    if load.busy_share >= FULL:
        where = " on other machines" if load.is_late else ""
        yield Verdict(WORKERS, _why(longest) if longest else f"all workers are busy: more workers{where} would help")
    if load.is_late and not load.is_busy:
        yield Verdict(MACHINE, load.machine)


def _with_idle_workers(able: Sequence[StateWaiting], longest: StateWaiting | None, load: ClusterLoad) -> Verdict:
    """Return the verdict if workers are idle and no task waits for a resource."""
    dependent = sum(each.waiting for each in able if each.waits_for == vocabulary.INPUTS)
    if dependent > (longest.waiting if longest is not None else 0):
        return Verdict(INPUTS, "most tasks wait for the results of other tasks")
    if longest is None or longest.waits_for != vocabulary.NO_ROOM:
        return Verdict(CLIENTS, "workers are free and no task waits for one: the clients do not submit faster")
    if load.held_workers:
        return Verdict(VALUES, _why(longest))
    measured = longest.waiting + longest.running - longest.unmeasured
    if measured and longest.work_us < measured * _SHORT_US:
        return Verdict(TRIPS, "tasks are so short that workers wait for the next ones: larger tasks would help")
    return Verdict(
        STARTS,
        "all workers have tasks, but not all execute one: processes start, arguments are in transfer, or tasks wait "
        "for nested tasks",
    )


def _why(waiting: StateWaiting) -> str:
    return f"{waiting.waiting:,} wait{'s' * (waiting.waiting == 1)}: {waiting.sentence}"


def warning_of(groups: Sequence[StateWaiting], word: str) -> str:
    """Return a warning about tasks that can never run, unless the verdict is about them: `40 need tpu=1: ...`."""
    in_vain = never(groups) if word not in (NO_WORKERS, IDLE) else ""
    return f"{in_vain}: no worker has it" if in_vain else ""


class StandingVerdict:
    """The verdict that is shown. It stands for some seconds, so that viewers do not flicker."""

    def __init__(self) -> None:
        self._verdict: Verdict | None = None
        self._since = 0.0

    def update(self, found: Sequence[Verdict], now: float) -> Verdict:
        """Return the verdict to show, given all verdicts that hold now, the most important one first."""
        first, standing = found[0], self._verdict
        if standing is None or first.word == standing.word or self._may_change(first, standing, now):
            if standing is None or first.word != standing.word:
                self._since = now
            self._verdict = first
            return first
        self._verdict = next((each for each in found if each.word == standing.word), standing)
        return self._verdict

    def _may_change(self, first: Verdict, standing: Verdict, now: float) -> bool:
        return now - self._since >= STANDING_SECONDS or bool(FACTS & {first.word, standing.word})
