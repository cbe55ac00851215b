"""The keeper of jobs with a real folder; everybody else is played by recorders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from scaler.actors.jobs.job_keeper import JobKeeper
from scaler.actors.jobs.shelf import JobShelf
from scaler.actors.messages.jobs import JobAsked, Obeyed
from scaler.jobs.clerk import Clerk
from scaler.jobs.folder import JobFolder
from scaler.wire.messages.client import JobRequest, JobResponse, JobStatus, JobVerb
from tests.support.bench import Bench
from tests.support.services import services

TERMS = {
    "function_id": "66" * 16,
    "function": "price",
    "program": "p.py",
    "python": "3.11",
    "fingerprint": {},
    "options": "",
    "priority": 0,
    "task_name": "",
    "attended": False,
    "max_failures": None,
    "keep_seconds": 60.0,
    "created": 1.0,
}


def test_who_waits_for_a_job_that_fails_inside_the_scheduler_is_told(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[JobResponse] = []
    clerk = Clerk(has_thread=False)
    folder = JobFolder(tmp_path / "jobs")
    shelf = JobShelf(folder, clerk, lambda ref, message: ref.send(message), "tester", 2**40)
    nobody = [bench.recorder()[1] for _ in range(3)]
    parts = services(nobody[0], nobody[1])
    monkeypatch.setattr(parts.outbox, "put", lambda _peer, answer: answers.append(answer))
    keeper = JobKeeper(shelf, parts)
    ref = bench.dispatcher.spawn(keeper)

    def ask(number: int, verb: JobVerb, amount: int = 0, body: bytes = b"") -> None:
        request = JobRequest(number, verb, "orders", 0, amount, body)
        bench.tell(ref, JobAsked(nobody[2], cast("Any", None), request, "tester"))
        for _ in range(5):
            bench.run()
            clerk.work()

    ask(1, JobVerb.OPEN, body=json.dumps(TERMS).encode())
    assert [(each.number, each.status) for each in answers] == [(1, JobStatus.KNOWN)]
    ask(2, JobVerb.SHOW, amount=1)  # until it ends
    [job] = keeper._jobs.values()

    def fails(_value: object, _error: object) -> None:
        raise ZeroDivisionError("a defect")

    job.send(Obeyed(fails, None, None))
    ask(3, JobVerb.SHOW)  # is in the mailbox of the job when it fails
    told = {each.number: each for each in answers[1:]}
    assert told.keys() == {2, 3}
    assert told[2].status == JobStatus.REFUSED
    assert told[2].reason == "the scheduler failed at this job: ZeroDivisionError('a defect')"
    assert shelf.unanswered == {}
    answers.clear()
    ask(4, JobVerb.SHOW)
    assert [(each.number, each.status) for each in answers] == [(4, JobStatus.KNOWN)], "it is opened anew"
    assert bench.dispatcher.failures == 1
    bench.dispatcher.failures = 0
    folder.close()
