from __future__ import annotations

from typing import Any

import pytest

from scaler.actors.monitor.load.verdict import ClusterLoad, StandingVerdict, Verdict, verdicts, warning_of
from scaler.wire.messages.monitor import StateWaiting
from tests.support.monitored import waiting

FIVE = waiting(5, mean_us=100_000)
SHORT = waiting(5, mean_us=1_000)
NEVER = waiting(2, "no worker can take it", "tpu=1", places=0)
GPU = waiting(50, "taken", "gpu=1", running=1, mean_us=1_000_000)
RUNNING = waiting(0, "", running=2)
MACHINE = "the machine is full"


def load(groups: tuple[StateWaiting, ...], busy_share: float, **fields: Any) -> ClusterLoad:
    usual = {
        "address": "tcp://127.0.0.1:2345", "open": sum(each.waiting + each.running for each in groups),
        "running": sum(each.running for each in groups), "workers": 3,
        "busy_share": busy_share, "held_workers": 0, "is_busy": False, "is_late": False, "machine": MACHINE,
    }  # fmt: skip
    return ClusterLoad(**(usual | fields))


def found(busy_share: float, *groups: StateWaiting, **fields: Any) -> list[Verdict]:
    return list(verdicts(groups, load(groups, busy_share, **fields)))


@pytest.mark.parametrize(
    ("holding", "word"),
    [
        (found(0, workers=0), "no workers"),
        (found(0, waiting(9, "no worker", places=0), workers=0), "no workers"),
        (found(1), "idle"),
        (found(0, open=3), "retries"),
        (found(0, NEVER), "no worker can run them"),
        (found(1, FIVE, is_busy=True), "scheduler"),
        (found(1, GPU, is_busy=True, is_late=True), "scheduler"),
        (found(1, FIVE, is_late=True), "workers"),
        (found(0.9, FIVE, is_late=True), "the scheduler's machine"),
        (found(0, RUNNING, is_late=True), "the scheduler's machine"),
        (found(0.5, GPU, is_late=True), "gpu=1"),
        (found(1, FIVE), "workers"),
        (found(1, FIVE, NEVER), "workers"),
        (found(1, RUNNING), "workers"),
        (found(0.5, GPU), "gpu=1"),
        (found(1, GPU, FIVE), "gpu=1"),
        (found(1, GPU, waiting(900, mean_us=1_000_000)), "workers"),
        (found(0.5, waiting(8, "inputs"), waiting(1)), "inputs"),
        (found(0.5, RUNNING), "clients"),
        (found(0.5, RUNNING, NEVER), "clients"),
        (found(0.5, SHORT), "round trips"),
        (found(0.5, FIVE), "starts"),
        (found(0.5, FIVE, held_workers=2), "values"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_first_verdict_that_holds_is_the_most_important(holding: list[Verdict], word: str) -> None:
    assert holding[0].word == word


def test_the_sentence_of_the_verdict_is_that_of_a_waiting_task() -> None:
    assert found(1, FIVE)[0].sentence == f"5 wait: {FIVE.sentence}"
    assert found(1, FIVE, GPU)[0].sentence == f"50 wait: {GPU.sentence}"
    assert found(0.5, FIVE, is_late=True)[0].sentence == MACHINE


def test_on_a_full_machine_more_workers_help_only_elsewhere() -> None:
    assert found(1, RUNNING)[0].sentence == "all workers are busy: more workers would help"
    assert (
        found(1, RUNNING, is_late=True)[0].sentence == "all workers are busy: more workers on other machines would help"
    )


def test_without_workers_the_sentence_has_the_command() -> None:
    assert found(0, workers=0)[0].sentence == "start scaler_cluster tcp://127.0.0.1:2345"


@pytest.mark.parametrize("groups", [(NEVER,), (NEVER, FIVE), (NEVER, RUNNING)])
def test_a_requested_capability_without_workers_is_always_a_warning(groups: tuple[StateWaiting, ...]) -> None:
    assert warning_of(groups, "workers") == "2 need tpu=1: no worker has it"
    assert warning_of((FIVE,), "workers") == ""


IDLE, WORKERS, CLIENTS = Verdict("idle", ""), Verdict("workers", "5 wait"), Verdict("clients", "free")


def test_a_verdict_stands_for_five_seconds() -> None:
    standing = StandingVerdict()
    assert standing.update([WORKERS], 0) == WORKERS
    assert standing.update([CLIENTS], 4.9) == WORKERS
    assert standing.update([CLIENTS], 5) == CLIENTS
    assert standing.update([WORKERS], 9.9) == CLIENTS
    assert standing.update([WORKERS], 10) == WORKERS


def test_the_sentence_of_a_standing_verdict_is_current() -> None:
    standing = StandingVerdict()
    standing.update([WORKERS], 0)
    newer = Verdict("workers", "4 wait")
    assert standing.update([newer], 1) == newer
    newest = Verdict("workers", "3 wait")
    assert standing.update([CLIENTS, newest], 2) == newest


def test_facts_are_shown_and_replaced_at_once() -> None:
    standing = StandingVerdict()
    standing.update([WORKERS], 0)
    assert standing.update([IDLE], 1) == IDLE
    assert standing.update([CLIENTS], 2) == CLIENTS
