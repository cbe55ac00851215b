"""The keeper of jobs with a real folder; everybody else is played by recorders."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from scaler.actors.jobs import job_keeper
from scaler.actors.jobs.job import REST_SECONDS
from scaler.actors.jobs.job_keeper import JobKeeper
from scaler.actors.jobs.shelf import JobShelf
from scaler.actors.messages.jobs import JobAsked, Obeyed, ReaderLeft
from scaler.actors.messages.peers import GiveUp, ReportStatistics
from scaler.jobs.clerk import Clerk
from scaler.jobs.folder import JobFolder
from scaler.jobs.record import DATABASE
from scaler.process.report import Report
from scaler.wire.messages.client import JobRequest, JobResponse, JobStatus, JobVerb
from tests.support.bench import Bench
from tests.support.processes import open_memory
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


class Scene:
    def __init__(self, bench: Bench, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench, self.clerk, self.folder = bench, Clerk(has_thread=False), JobFolder(place)
        self.answers: list[JobResponse] = []
        self.shelf = JobShelf(self.folder, self.clerk, lambda ref, message: ref.send(message), "tester", 2**40)
        nobody = [bench.recorder()[1] for _ in range(2)]
        recorder, self.session = bench.recorder()
        self.told = recorder.messages
        parts = services(nobody[0], nobody[1])
        monkeypatch.setattr(parts.outbox, "put", lambda _peer, answer: self.answers.append(answer))
        self.keeper = JobKeeper(self.shelf, parts)
        self.ref = bench.dispatcher.spawn(self.keeper)

    def ask(self, number: int, verb: JobVerb, amount: int = 0, body: bytes = b"") -> list[tuple[int, JobStatus]]:
        """Ask, and return what is said by then."""
        self.answers.clear()
        request = JobRequest(number, verb, "orders", 0, amount, body)
        self.bench.tell(self.ref, JobAsked(self.session, cast("Any", None), request, "tester"))
        self.go_on()
        return [(each.number, each.status) for each in self.answers]

    def go_on(self) -> None:
        for _ in range(5):
            self.bench.run()
            self.clerk.work()


@pytest.fixture
def scene(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(bench, tmp_path / "jobs", monkeypatch)
    assert scene.ask(1, JobVerb.OPEN, body=json.dumps(TERMS).encode()) == [(1, JobStatus.KNOWN)]
    yield scene
    scene.folder.close()


def test_it_reports_the_jobs_in_memory(scene: Scene) -> None:
    report = Report()
    scene.bench.tell(scene.ref, ReportStatistics(report))
    assert report.of("jobs") == [("", {"jobs": 1})]


NO_TERMS = {
    "no JSON": b"{",
    "no UTF-8": b"\xff{}",
    "UTF-16": json.dumps(TERMS).encode("utf-16"),
    "no object": b"[1]",
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep within": json.dumps({**TERMS, "fingerprint": {"a": [[[]]]}}).encode(),
    "too large": json.dumps({**TERMS, "program": "x" * 2**20}).encode(),
    "infinite": json.dumps({**TERMS, "priority": float("inf")}).encode(),
    "infinite by its exponent": json.dumps(TERMS).replace("60.0", "1e999").encode(),
    "less than all": json.dumps({**TERMS, "max_failures": float("-inf")}).encode(),
    "no number": json.dumps({**TERMS, "created": float("nan")}).encode(),
    "400 digits": json.dumps({**TERMS, "priority": 10**400}).encode(),
    "5000 digits": json.dumps(TERMS).replace('"priority": 0', f'"priority": {"9" * 5000}').encode(),
    "33 bits": json.dumps({**TERMS, "priority": 2**31}).encode(),
    "a day that is none": json.dumps({**TERMS, "created": 1e300}).encode(),
    "a lone surrogate": json.dumps({**TERMS, "function": "\ud800"}).encode(),
    "a lone surrogate as a key": json.dumps({**TERMS, "fingerprint": {"\udc00": ""}}).encode(),
    "no hexadecimals": json.dumps({**TERMS, "function_id": "x" * 32}).encode(),
    "no options": json.dumps({**TERMS, "options": "ff" * 40}).encode(),
    **{f"no {name}": json.dumps({key: TERMS[key] for key in TERMS if key != name}).encode()
       for name in TERMS if name != "token"},
    **{f"{name} is a {type(wrong).__name__}": json.dumps({**TERMS, name: wrong}).encode()
       for name in TERMS for wrong in (None, [1], True, "x", 1.5, {"a": 1})
       if type(wrong) is not type(TERMS[name]) and (name, wrong) not in (("created", 1.5), ("max_failures", 1.5))
       and not (name == "fingerprint" and isinstance(wrong, dict))},
}  # fmt: skip


@pytest.mark.parametrize("body", [*NO_TERMS.values()], ids=[*NO_TERMS])
def test_terms_that_are_none_are_refused_in_words_and_fail_nothing(scene: Scene, body: bytes) -> None:
    request = JobRequest(2, JobVerb.OPEN, "other", 0, 0, body)
    scene.answers.clear()
    scene.bench.tell(scene.ref, JobAsked(scene.session, cast("Any", None), request, "tester"))
    assert scene.ask(3, JobVerb.OPEN, 4, body) == [(3, JobStatus.REFUSED)], "and so as a new version of a job"
    assert scene.answers[0].reason.startswith("its terms cannot be read: ")
    assert scene.bench.dispatcher.failures == 0
    assert scene.ask(4, JobVerb.SHOW) == [(4, JobStatus.KNOWN)]


def test_a_session_has_so_many_requests_without_an_answer_and_the_next_one_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_keeper, "REQUESTS_MOST", 3)
    for number in (2, 3, 4):
        assert scene.ask(number, JobVerb.SHOW, amount=1) == []  # until it ends
    assert scene.ask(5, JobVerb.SHOW) == [(5, JobStatus.REFUSED)]
    assert scene.answers[0].reason == "this client has 3 requests about jobs without an answer: wait for these first"
    for number in (6, 7):
        assert scene.ask(number, JobVerb.SHOW) == [(number, JobStatus.REFUSED)]
    assert [type(each) for each in scene.told] == [GiveUp]
    scene.bench.tell(scene.ref, ReaderLeft(scene.session))
    scene.go_on()
    assert scene.shelf.n_unanswered == scene.keeper._excess == {}
    assert scene.ask(8, JobVerb.SHOW) == [(8, JobStatus.KNOWN)]


def test_lists_of_an_owner_are_made_one_after_the_other_for_all_who_wait(scene: Scene) -> None:
    orders = []
    order = scene.keeper._order
    scene.keeper._order = lambda *given: (orders.append(given), order(*given))[1]  # type: ignore[method-assign,func-returns-value]
    scene.answers.clear()
    for number in range(1, 20):
        request = JobRequest(number, JobVerb.LIST, "")
        scene.bench.tell(scene.ref, JobAsked(scene.session, cast("Any", None), request, "tester"))
    scene.go_on()
    assert len(orders) == 2, "the first one, and one for those that came while it was made"
    listed = {each.number: each.status for each in scene.answers}
    assert listed == {number: JobStatus.REFUSED if number > 17 else JobStatus.KNOWN for number in range(1, 20)}
    assert scene.keeper._lists == {}
    assert not scene.shelf.n_unanswered[scene.session]


def test_who_waits_for_a_job_that_fails_inside_the_scheduler_is_told(scene: Scene) -> None:
    assert scene.ask(2, JobVerb.SHOW, amount=1) == []  # until it ends
    [job] = scene.keeper._jobs.values()

    def fails(_value: object, _error: object) -> None:
        raise ZeroDivisionError("a defect")

    job.send(Obeyed(fails, None, None))
    told = scene.ask(3, JobVerb.SHOW)  # comes when it has failed, and is asked of the next one
    assert told == [(2, JobStatus.REFUSED), (3, JobStatus.KNOWN)]
    assert scene.answers[0].reason == "the scheduler failed at this job: ZeroDivisionError('a defect')"
    assert scene.shelf.unanswered == {}
    assert scene.bench.dispatcher.failures == 1
    scene.bench.dispatcher.failures = 0


def test_a_job_that_has_ended_leaves_memory_and_its_files_after_a_while(scene: Scene) -> None:
    before = open_memory(scene.folder.path)
    scene.bench.advance(10 * REST_SECONDS)
    assert len(scene.keeper._jobs) == 1, "it is open"
    scene.ask(2, JobVerb.CANCEL)
    scene.bench.advance(REST_SECONDS)
    scene.go_on()
    assert len(scene.keeper._jobs) == 1, "somebody has asked"
    scene.bench.clock.advance(REST_SECONDS)
    # It leaves in the turn in which a question is on its way to it.
    assert scene.ask(3, JobVerb.SHOW) == [(3, JobStatus.KNOWN)]
    scene.bench.advance(REST_SECONDS)
    scene.bench.advance(REST_SECONDS)
    scene.go_on()
    assert scene.keeper._jobs == {}
    assert len(open_memory(scene.folder.path)) < len(before)


def test_what_is_asked_of_a_job_that_is_being_forgotten_is_asked_of_the_next_one(scene: Scene) -> None:
    for number, verb in ((2, JobVerb.FORGET), (3, JobVerb.SHOW)):
        request = JobRequest(number, verb, "orders")
        scene.ref.send(JobAsked(scene.session, cast("Any", None), request, "tester"))
    assert scene.ask(4, JobVerb.OPEN, body=json.dumps(TERMS).encode()) == [
        (2, JobStatus.KNOWN),
        (3, JobStatus.NOT_FOUND),
        (4, JobStatus.KNOWN),
    ]


def test_a_job_that_is_damaged_or_has_no_room_is_refused_in_words(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.ask(2, JobVerb.CANCEL)
    for _ in range(3):
        scene.bench.advance(REST_SECONDS)
        scene.go_on()
    place = scene.folder.path / "tester" / "orders"
    (place / DATABASE).write_bytes(bytes(5000))
    assert scene.ask(3, JobVerb.SHOW) == [(3, JobStatus.REFUSED)]
    assert scene.answers[0].reason == (
        "the job cannot be read: file is not a database; nothing was changed, and scaler_jobs --file "
        f"{scene.folder.path} check says what is damaged. To be rid of it, end the scheduler and remove {place}"
    )
    shutil.rmtree(place)

    def fail(_terms: object, _program: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(scene.folder, "create", fail)
    assert scene.ask(4, JobVerb.OPEN, body=json.dumps(TERMS).encode()) == [(4, JobStatus.REFUSED)]
    assert "No space left on device; see that there is room" in scene.answers[0].reason
