"""The progress bar of a wait for a job."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from scaler.client.jobs.job_requests import JobBar
from scaler.client.link.requests import JobQuestion
from scaler.client.progress.displays import Terminal
from scaler.wire.messages.client import JobAnswerKind, JobResponse, JobVerb
from tests.support import terminals


def info(done: int, failed: int, rows: int, sealed: bool = True, reason: str = "") -> dict[str, Any]:
    return {"done": done, "failed": failed, "rows": rows, "sealed": sealed, "reason": reason}


def test_a_job_bar_draws_replies_and_has_one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.client.jobs.job_requests.ASK_SECONDS", 0)
    monkeypatch.setattr(Terminal, "pause_seconds", 0)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    asked: list[JobQuestion] = []
    concern = ""

    def ask() -> JobQuestion:
        asked.append(JobQuestion(JobVerb.SHOW, "orders"))
        return asked[-1]

    def answer(**found: Any) -> None:
        asked[-1].take(JobResponse(1, JobAnswerKind.KNOWN, 0, 0, json.dumps(info(**found)).encode()))

    with terminals.Terminal(120) as terminal:
        monkeypatch.setattr(sys, "stderr", terminal.stream)
        with JobBar(info(3, 0, 10, sealed=False), ask, lambda: concern) as bar:
            for _ in range(3):
                bar.draw()
            assert len(asked) == 1
            answer(done=4, failed=1, rows=20)
            bar.draw()
            answer(done=4, failed=1, rows=20, reason="the disk is full")
            bar.draw()
            asked[-1].fail(lambda: TimeoutError("no scheduler answers"))
            concern = "no scheduler answers"
            bar.draw()
            bar.info = info(18, 2, 20)
            concern = ""
        states = terminals.states_of(terminal.output())
    assert [state.split()[:2] for state in states] == [
        *[["3", "tasks"]] * 3,
        *[["[#####...............]", "5/20"]] * 3,
        ["[####################]", "20/20"],
    ]
    assert [state.rpartition(" left, ")[2] for state in states[3:]][1:3] == [
        "1 failed, the disk is full",
        "1 failed, no scheduler answers",
    ]
    assert len(asked) == 4
