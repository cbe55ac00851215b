"""The verdict: in one word, what holds the cluster back, and in a sentence what to do."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from scaler.monitor.model import Model
from scaler.wire import reasons

NO_NEWS, IDLE, NO_WORKERS, NOBODY, SCHEDULER, WORKERS, INPUTS, CLIENTS, TRIPS = (
    "no news",
    "idle",
    "no workers",
    "nobody can take them",
    "scheduler",
    "workers",
    "inputs",
    "clients",
    "round trips",
)
_OVERLOAD_MOMENTS = 5
_OVERLOAD_PERMILLE = 900
_OVERLOAD_LAG_US = 50_000
_FULL, _HALF = 0.95, 0.5
_SHORT_US = 10_000


class Verdict(NamedTuple):
    """What holds the cluster back."""

    word: str
    sentence: str
    """for people, with what to do"""


def verdict(model: Model, now: float) -> Verdict:
    """Return the first of the verdicts that holds."""
    return _without_work(model, now) or _with_work(model)


def _without_work(model: Model, now: float) -> Verdict | None:
    silent = model.silent_seconds(now)
    scheduler = model.scheduler
    if silent is not None:
        return Verdict(NO_NEWS, f"no news for {silent:.0f} s: is the scheduler running?")
    if scheduler is None:
        return Verdict(NO_NEWS, "nothing was heard yet")
    if not model.worker_count:
        return Verdict(NO_WORKERS, f"start scaler_cluster {scheduler.address or 'ADDRESS'}")
    if not model.open_tasks:
        return Verdict(IDLE, "all tasks that were submitted have ended")
    return None


def _with_work(model: Model) -> Verdict:
    untakeable = model.reasons.get(reasons.NOT_ABLE, 0)
    if untakeable:
        asked = sorted(text for text, asked in model.asked.items() if asked.waiting and not asked.running)
        start = f"start one with {asked[0]}" if len(asked) == 1 else "start one that can"
        return Verdict(NOBODY, f"no worker can take {untakeable:,} task{'s' * (untakeable != 1)}: {start}")
    if _is_overloaded(model):
        return Verdict(SCHEDULER, "the scheduler itself is busy all the time: larger tasks would help")
    spare = _with_spare_workers(model) if model.busy_share < _FULL else None
    return spare or Verdict(WORKERS, "the workers have all that they can take: more workers would help")


def _with_spare_workers(model: Model) -> Verdict | None:
    waiting = model.scheduler.waiting if model.scheduler else 0
    if model.reasons.get(reasons.INPUTS, 0) > waiting / 2:
        return Verdict(INPUTS, "most tasks wait for the results of others")
    if not waiting:
        return Verdict(CLIENTS, "there are free workers and nothing waits: the clients submit no faster")
    if model.busy_share < _HALF and model.mean_us is not None and model.mean_us < _SHORT_US:
        return Verdict(TRIPS, "tasks are so short that workers wait for the next ones: larger tasks would help")
    return None


def _is_overloaded(model: Model) -> bool:
    last = list(islice(reversed(model.history.moments), _OVERLOAD_MOMENTS))
    return len(last) == _OVERLOAD_MOMENTS and all(
        moment.cpu_permille >= _OVERLOAD_PERMILLE or moment.lag_us > _OVERLOAD_LAG_US for moment in last
    )
