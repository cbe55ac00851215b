from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaler.monitor.model.model import Model
from scaler.monitor.model.verdict import verdict
from scaler.wire.messages.monitor import StateWaiting
from tests.support.monitored import NOON_US, agent, news, row, scheduler, waiting

IDLE_ROW = row(cpu=0, sent=0, queued=0, flags=1, function=bytes(8))


FIVE = waiting(5, mean_us=100_000)
SHORT = waiting(5, mean_us=1_000)
NEVER = waiting(2, "no worker can take it", "tpu=1", places=0)
GPU = waiting(50, "taken", "gpu=1", running=1, mean_us=1_000_000)


def model_of(
    rows: tuple[bytes, ...] = (), *groups: StateWaiting, seconds: int = 1, held_workers: int = 0, **fields: Any
) -> Model:
    model = Model()
    open_tasks = {name: sum(getattr(each, name) for each in groups) for name in ("waiting", "running")}
    for second in range(seconds):
        state = scheduler(**({"workers": len(rows), **open_tasks} | fields))
        model.take(news("scheduler", state, *groups, time_us=NOON_US + second * 1_000_000), 0)
    model.take(news("workers", replace(agent(*rows), held_workers=held_workers)), 0)
    return model


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (Model(), "no news"),
        (model_of(), "no workers"),
        (model_of((), waiting(9, "no worker", places=0)), "no workers"),
        (model_of((row(),)), "idle"),
        (model_of((row(),), NEVER), "nobody can take them"),
        (model_of((row(),), FIVE, seconds=5, cpu_permille=950), "scheduler"),
        (model_of((row(),), FIVE, seconds=5, lag_most_us=60_000), "scheduler"),
        (model_of((row(),), FIVE, seconds=4, cpu_permille=950), "workers"),
        (model_of((row(), row()), FIVE), "workers"),
        (model_of((row(), row()), FIVE, NEVER), "workers"),
        (model_of((row(), row()), waiting(0, "", running=2)), "workers"),
        (model_of((row(), IDLE_ROW), GPU), "gpu=1"),
        (model_of((row(), row()), GPU, FIVE), "gpu=1"),
        (model_of((row(), row()), GPU, waiting(900, mean_us=1_000_000)), "workers"),
        (model_of((row(), IDLE_ROW), waiting(8, "inputs"), waiting(1)), "inputs"),
        (model_of((row(), IDLE_ROW), waiting(0, "", running=1)), "clients"),
        (model_of((row(), IDLE_ROW), waiting(0, "", running=1), NEVER), "clients"),
        (model_of((row(), IDLE_ROW, IDLE_ROW), SHORT), "round trips"),
        (model_of((row(), IDLE_ROW, IDLE_ROW), FIVE), "starts"),
        (model_of((row(), IDLE_ROW, IDLE_ROW), FIVE, held_workers=2), "values"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_first_verdict_that_applies_is_shown(model: Model, word: str) -> None:
    assert verdict(model, 1).word == word


def test_the_sentence_of_the_verdict_is_that_of_a_waiting_task() -> None:
    assert verdict(model_of((row(),), FIVE), 1).sentence == f"5 wait: {FIVE.sentence}"
    assert verdict(model_of((row(),), FIVE, GPU), 1).sentence == f"50 wait: {GPU.sentence}"


@pytest.mark.parametrize("groups", [(NEVER,), (NEVER, FIVE), (NEVER, waiting(0, "", running=1))])
def test_a_requested_capability_without_workers_is_always_a_warning(groups: tuple[StateWaiting, ...]) -> None:
    assert verdict(model_of((row(),), *groups), 1).warning == "2 need tpu=1: no worker has it"


def test_a_silent_scheduler_overrides_every_other_verdict() -> None:
    assert verdict(model_of((row(),), FIVE), 8) == ("no news", "no news for 8 s: is the scheduler running?", "")


def test_without_workers_the_sentence_has_the_command() -> None:
    assert verdict(model_of(), 1).sentence == "start scaler_cluster tcp://127.0.0.1:2345"
