"""The job keeper with a real folder, and recorders in place of all other actors. The wall clock is virtual, too."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scaler.actors.jobs.job_catalog import JobCatalog
from scaler.actors.jobs.job_keeper import JobKeeper
from scaler.actors.messages.jobs import RequestJob
from scaler.jobs.folder import JobFolder
from scaler.jobs.locks import Holder
from scaler.jobs.record import CANCELED, JobRecord
from scaler.jobs.writer import JobWriter
from scaler.wire.messages.client import JobAnswerKind, JobRequest, JobResponse, JobVerb
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
    "token": "",
}

ADMIN = SimpleNamespace(is_admin=True)
"""the facts about a client's peer that jobs use"""

STARTED = time.time()
"""the wall clock of all scenes when their clock shows 0"""


class Scene:
    def __init__(
        self, bench: Bench, place: Path, monkeypatch: pytest.MonkeyPatch, is_shared: bool = False, name: str = "one"
    ) -> None:
        self.bench, self.writer = bench, JobWriter(has_thread=False)
        self.folder = JobFolder(place, is_shared, Holder(os.getpid(), name))
        self.answers: list[JobResponse] = []
        monkeypatch.setattr(time, "time", lambda: STARTED + bench.clock())
        about = ("tester", 2**40, is_shared)
        self.catalog = JobCatalog(self.folder, self.writer, lambda ref, message: ref.send(message), *about)
        nobody = [bench.recorder()[1] for _ in range(2)]
        recorder, self.session = bench.recorder()
        self.told = recorder.messages
        parts = services(nobody[0], nobody[1])
        monkeypatch.setattr(parts.outbox, "put", lambda _peer, answer: self.answers.append(answer))
        self.keeper = JobKeeper(self.catalog, parts)
        self.ref = bench.dispatcher.spawn(self.keeper)

    def ask(
        self, number: int, verb: JobVerb, amount: int = 0, body: bytes = b"", first: int = 0, record: bytes = b""
    ) -> list[tuple[int, JobAnswerKind]]:
        """Send a request about the job. Return the numbers and statuses of the answers that have arrived by then."""
        self.answers.clear()
        request = JobRequest(number, verb, "orders", first, amount, body, record)
        self.bench.tell(self.ref, RequestJob(self.session, cast("Any", ADMIN), request, "tester"))
        self.go_on()
        return [(each.number, JobAnswerKind(each.status)) for each in self.answers]

    def send(self, request: JobRequest) -> None:
        self.bench.tell(self.ref, RequestJob(self.session, cast("Any", None), request, "tester"))

    def go_on(self) -> None:
        for _ in range(5):
            self.bench.run()
            self.writer.work()

    def pass_time(self, seconds: float) -> None:
        """Advance the clock, one second at a time."""
        for _ in range(int(seconds)):
            self.bench.advance(1.0)
            self.go_on()

    def names(self) -> list[str]:
        assert self.ask(100, JobVerb.LIST) == [(100, JobAnswerKind.KNOWN)]
        return [each["name"] for each in json.loads(self.answers[0].body)]

    def change(self) -> None:
        """Change the record of the job, as another program would."""
        record = JobRecord.open(self.folder.path / "tester" / "orders")
        record.begin()
        record.move(CANCELED)
        record.commit()
        record.close()
