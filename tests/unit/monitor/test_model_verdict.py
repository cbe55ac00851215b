from __future__ import annotations

from typing import Any

import pytest

from scaler.monitor.model import Model
from scaler.monitor.model_verdict import verdict
from tests.support.monitored import NOON_US, agent, counts, function, news, row, scheduler

IDLE_ROW = row(cpu=0, sent=0, queued=0, flags=1, function=bytes(8))


def model_of(
    rows: tuple[bytes, ...] = (), reasons: dict[str, int] | None = None, seconds: int = 1, **fields: Any
) -> Model:
    model = Model()
    for second in range(seconds):
        state = scheduler(**({"workers": len(rows)} | fields))
        items = [state, *counts(reasons=reasons or {})]
        model.take(news("scheduler", *items, time_us=NOON_US + second * 1_000_000), 0)
    model.take(news("workers", agent(*rows)), 0)
    return model


def with_tasks_of(mean_us: int, model: Model) -> Model:
    model.take(news("functions", function(waiting=9, mean_us=mean_us)), 0)
    return model


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (Model(), "no news"),
        (model_of(workers=0), "no workers"),
        (model_of(workers=0, waiting=9), "no workers"),
        (model_of((row(),)), "idle"),
        (model_of((row(),), {"no worker can take it": 2}, waiting=2), "nobody can take them"),
        (model_of((row(),), seconds=5, waiting=9, cpu_permille=950), "scheduler"),
        (model_of((row(),), seconds=5, waiting=9, lag_most_us=60_000), "scheduler"),
        (model_of((row(),), seconds=4, waiting=9, cpu_permille=950), "workers"),
        (model_of((row(), row()), waiting=9), "workers"),
        (model_of((row(), IDLE_ROW), {"inputs": 8, "no room": 1}, waiting=9), "inputs"),
        (model_of((row(), IDLE_ROW), running=1), "clients"),
        (model_of((row(), IDLE_ROW), {"no room": 9}, waiting=9), "workers"),
        (with_tasks_of(5_000, model_of((row(), IDLE_ROW, IDLE_ROW), {"no room": 9}, waiting=9)), "round trips"),
        (with_tasks_of(50_000, model_of((row(), IDLE_ROW, IDLE_ROW), {"no room": 9}, waiting=9)), "workers"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_first_verdict_that_holds(model: Model, word: str) -> None:
    assert verdict(model, 1).word == word


def test_what_nobody_has_is_named() -> None:
    def sentence(number: int, waiting: dict[str, int], running: dict[str, int]) -> str:
        model = Model()
        said = counts(reasons={"no worker can take it": number}, asked_waiting=waiting, asked_running=running)
        model.take(news("scheduler", scheduler(waiting=number), *said), 0)
        return verdict(model, 1).sentence

    assert sentence(2, {}, {}) == "no worker can take 2 tasks: start one that can"
    assert sentence(1, {"gpu=1": 1}, {}) == "no worker can take 1 task: start one with gpu=1"
    assert sentence(1, {"gpu=1": 1, "tpu=1": 3}, {"tpu=1": 2}) == "no worker can take 1 task: start one with gpu=1"
    assert sentence(2, {"gpu=1": 1, "tpu=1": 1}, {}) == "no worker can take 2 tasks: start one that can"


def test_silence_comes_before_everything() -> None:
    assert verdict(model_of((row(),), waiting=9), 8) == ("no news", "no news for 8 s: is the scheduler running?")


def test_without_workers_the_sentence_has_the_command() -> None:
    assert verdict(model_of(workers=0), 1).sentence == "start scaler_cluster tcp://127.0.0.1:2345"
