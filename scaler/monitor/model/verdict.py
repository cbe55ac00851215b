"""The verdict as viewers show it: that of the scheduler, unless the scheduler is silent."""

from __future__ import annotations

from scaler.monitor.model.model import Model
from scaler.wire.messages.monitor import StateVerdict
from scaler.wire.messages.verdicts import NO_NEWS


def verdict(model: Model, now: float) -> StateVerdict:
    """Return the last verdict of the scheduler, or that there is no news; `now`: seconds, as in `Model.take`."""
    silent = model.silent_seconds(now)
    if silent is not None:
        return StateVerdict(NO_NEWS, f"no news for {silent:.0f} s: is the scheduler running?")
    if model.scheduler is None:
        return StateVerdict(NO_NEWS, "the scheduler has sent nothing yet")
    return model.verdict
