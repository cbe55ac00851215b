from __future__ import annotations

from scaler.monitor.model.model import LOOKING, Model
from scaler.monitor.model.verdict import verdict
from scaler.wire.messages.monitor import StateVerdict
from tests.support.monitored import news, scheduler

BUSY = StateVerdict("workers", "5 wait: all workers are full", "2 need tpu=1: no worker has it", 60_000_000)


def test_the_verdict_of_the_scheduler_is_shown() -> None:
    model = Model()
    model.take(news("scheduler", scheduler(), BUSY), 0)
    assert verdict(model, 1) == BUSY
    assert model.left_seconds == 60


def test_a_silent_scheduler_overrides_every_other_verdict() -> None:
    model = Model()
    assert verdict(model, 0).word == "no news"
    model.take(news("scheduler", scheduler(), BUSY), 0)
    assert verdict(model, 8) == StateVerdict("no news", "no news for 8 s: is the scheduler running?")


def test_before_the_first_verdict_the_remaining_time_is_unknown() -> None:
    model = Model()
    model.take(news("scheduler", scheduler()), 0)
    assert verdict(model, 0) == LOOKING
    assert model.left_seconds is None
