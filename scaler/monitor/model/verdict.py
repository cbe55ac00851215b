"""The verdict: what limits the cluster, in one word, and what to do, in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from scaler.monitor.model.model import Model
from scaler.monitor.model.remaining import never
from scaler.wire.messages import vocabulary
from scaler.wire.messages.monitor import StateAgent, StateWaiting

NO_NEWS, IDLE, NO_WORKERS, NOBODY, SCHEDULER, WORKERS, INPUTS, CLIENTS, TRIPS, STARTS, VALUES = (
    "no news",
    "idle",
    "no workers",
    "nobody can take them",
    "scheduler",
    "workers",
    "inputs",
    "clients",
    "round trips",
    "starts",
    "values",
)
"""The words that name the verdicts. If tasks wait for a capability, the word is that capability, such as `gpu=1`."""
_OVERLOAD_SECONDS = 5
_OVERLOAD_CORES = 0.9
_OVERLOAD_LAG_SECONDS = 0.05
_FULL = 0.95
_SHORT_US = 10_000


class Verdict(NamedTuple):
    """The limit of the cluster, in a word and a sentence."""

    word: str
    sentence: str
    """what limits the cluster and what to do, for people; if tasks wait, why a group of these tasks waits"""
    warning: str = ""
    """a warning about tasks that can never run, while other tasks can: `40 need tpu=1: no worker has it`"""


def verdict(model: Model, now: float) -> Verdict:
    """Return the most important verdict that holds now."""
    found = _without_work(model, now)
    if found is not None:
        return found
    in_vain = never(model.waiting)
    return _with_work(model)._replace(warning=f"{in_vain}: no worker has it" if in_vain else "")


def _without_work(model: Model, now: float) -> Verdict | None:
    silent = model.silent_seconds(now)
    scheduler = model.scheduler
    if silent is not None:
        return Verdict(NO_NEWS, f"no news for {silent:.0f} s: is the scheduler running?")
    if scheduler is None:
        return Verdict(NO_NEWS, "the scheduler has sent nothing yet")
    if not model.worker_count:
        return Verdict(NO_WORKERS, f"start scaler_cluster {scheduler.address or 'ADDRESS'}")
    if not model.open_tasks:
        return Verdict(IDLE, "all tasks that were submitted have ended")
    return None


def _with_work(model: Model) -> Verdict:
    waiting = [each for each in model.waiting if each.waiting]
    able = [each for each in waiting if each.waits_for != vocabulary.NOT_ABLE]
    if waiting and not able and not (model.scheduler and model.scheduler.running):
        return Verdict(NOBODY, _why(waiting[0]))
    if _is_overloaded(model):
        return Verdict(SCHEDULER, "the scheduler itself is busy all the time: larger tasks would help")
    queued = (each for each in able if each.waits_for != vocabulary.INPUTS)
    longest = max(queued, key=lambda each: (each.work_us / max(1, each.places), each.waiting), default=None)
    if longest is not None and longest.asks:
        return Verdict(longest.asks, _why(longest))
    if model.busy_share >= _FULL:
        usual = "all workers are busy: more workers would help"
        return Verdict(WORKERS, _why(longest) if longest else usual)
    nodes = sum(each.waiting for each in able if each.waits_for == vocabulary.INPUTS)
    return _with_idle_workers(longest, nodes, model.agents.values())


def _with_idle_workers(waiting: StateWaiting | None, nodes: int, agents: Iterable[StateAgent]) -> Verdict:
    """Return the verdict if workers are idle and no task waits for a capability; `nodes`: how many graph nodes wait."""
    if nodes > (waiting.waiting if waiting is not None else 0):
        return Verdict(INPUTS, "most tasks wait for the results of other tasks")
    if waiting is None or waiting.waits_for != vocabulary.NO_ROOM:
        return Verdict(CLIENTS, "workers are free and no task waits for one: the clients do not submit faster")
    if any(agent.held_workers for agent in agents):
        return Verdict(VALUES, _why(waiting))
    measured = waiting.waiting + waiting.running - waiting.unmeasured
    if measured and waiting.work_us < measured * _SHORT_US:
        return Verdict(TRIPS, "tasks are so short that workers wait for the next ones: larger tasks would help")
    return Verdict(
        STARTS,
        "all workers have tasks, but not all execute one: processes start, arguments are in transfer, or tasks wait "
        "for nested tasks",
    )


def _why(waiting: StateWaiting) -> str:
    return f"{waiting.waiting:,} wait{'s' * (waiting.waiting == 1)}: {waiting.sentence}"


def _is_overloaded(model: Model) -> bool:
    history = model.history
    last = history.read(("cpu", "lag_most"), history.end - _OVERLOAD_SECONDS, 1, _OVERLOAD_SECONDS)
    return all(
        cpu is not None and lag is not None and (cpu >= _OVERLOAD_CORES or lag > _OVERLOAD_LAG_SECONDS)
        for cpu, lag in zip(*last.values(), strict=True)
    )
