"""The keeper of jobs with a real folder; recorders play all other actors."""

from __future__ import annotations

import errno
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from scaler.actors.jobs import job_keeper
from scaler.actors.jobs.job import REST_SECONDS
from scaler.actors.jobs.job_keeper import FIRST_LOOK_SECONDS, LOOK_SECONDS
from scaler.actors.jobs.job_requests import NOT_SUBMITTED
from scaler.actors.messages.jobs import CheckExpiry, OrderDone, ReaderLeft, RequestJob
from scaler.actors.messages.peers import EndSession, ReportStatistics
from scaler.client.jobs.ages import AGE_SECONDS_MOST
from scaler.jobs import folder
from scaler.jobs.folder import JobFolder, job_places
from scaler.jobs.record import DATABASE, JobRecord, JobSummary, JobTerms
from scaler.jobs.values import RowArguments, pack_rows
from scaler.process.report import Report
from scaler.wire.messages.client import JobAnswerKind, JobOpenFlags, JobRequest, JobResponse, JobVerb
from scaler.wire.messages.common import InstructionKind
from tests.support.bench import Bench
from tests.support.job_scene import STARTED, TERMS, Scene
from tests.support.processes import open_memory


@pytest.fixture
def scene(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scene = Scene(bench, tmp_path / "jobs", monkeypatch)
    assert scene.ask(1, JobVerb.OPEN, body=json.dumps(TERMS).encode()) == [(1, JobAnswerKind.KNOWN)]
    yield scene
    scene.folder.close()


def test_the_job_keeper_reports_the_number_of_jobs_in_memory(scene: Scene) -> None:
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
       if type(wrong) is not type(TERMS[name])
       and (name, wrong) not in (("created", 1.5), ("max_failures", 1.5), ("keep_seconds", None))
       and not (name == "fingerprint" and isinstance(wrong, dict))},
}  # fmt: skip


@pytest.mark.parametrize("body", [*NO_TERMS.values()], ids=[*NO_TERMS])
def test_malformed_terms_are_refused_with_a_reason_and_no_actor_fails(scene: Scene, body: bytes) -> None:
    request = JobRequest(2, JobVerb.OPEN, "other", 0, 0, body)
    scene.answers.clear()
    scene.bench.tell(scene.ref, RequestJob(scene.session, cast("Any", None), request, "tester"))
    assert scene.ask(3, JobVerb.OPEN, 4, body) == [(3, JobAnswerKind.REFUSED)], "and so as a new version of a job"
    assert scene.answers[0].reason.startswith("its terms cannot be read: ")
    assert scene.bench.dispatcher.failures == 0
    assert scene.ask(4, JobVerb.SHOW) == [(4, JobAnswerKind.KNOWN)]


def test_a_request_above_the_limit_of_unanswered_requests_of_a_session_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_keeper, "REQUESTS_MOST", 3)
    for number in (2, 3, 4):
        assert scene.ask(number, JobVerb.SHOW, amount=1) == []  # until it ends
    assert scene.ask(5, JobVerb.SHOW) == [(5, JobAnswerKind.REFUSED)]
    assert scene.answers[0].reason == "this client has 3 unanswered requests about jobs: wait for their answers first"
    for number in (6, 7):
        assert scene.ask(number, JobVerb.SHOW) == [(number, JobAnswerKind.REFUSED)]
    assert [type(each) for each in scene.told] == [EndSession]
    scene.bench.tell(scene.ref, ReaderLeft(scene.session))
    scene.go_on()
    assert scene.catalog.n_unanswered == scene.keeper._excess == {}
    assert scene.ask(8, JobVerb.SHOW) == [(8, JobAnswerKind.KNOWN)]


def test_requests_for_the_jobs_of_an_owner_share_a_list_that_is_made_once(scene: Scene) -> None:
    orders = []
    order = scene.keeper._order
    scene.keeper._order = lambda *given: (orders.append(given), order(*given))[1]  # type: ignore[method-assign,func-returns-value]
    scene.answers.clear()
    for number in range(1, 20):
        request = JobRequest(number, JobVerb.LIST, "")
        scene.bench.tell(scene.ref, RequestJob(scene.session, cast("Any", None), request, "tester"))
    scene.go_on()
    assert len(orders) == 2, "the first list, and one for requests that arrived while it was made"
    listed = {each.number: each.status for each in scene.answers}
    assert listed == {number: JobAnswerKind.REFUSED if number > 17 else JobAnswerKind.KNOWN for number in range(1, 20)}
    assert scene.keeper._lists == {}
    assert not scene.catalog.n_unanswered[scene.session]


def test_requests_at_a_job_actor_that_fails_are_refused_with_the_reason(scene: Scene) -> None:
    assert scene.ask(2, JobVerb.SHOW, amount=1) == []  # until it ends
    [job] = scene.keeper._jobs.values()

    def fails(_value: object, _error: object) -> None:
        raise ZeroDivisionError("a defect")

    job.send(OrderDone(fails, None, None))
    told = scene.ask(3, JobVerb.SHOW)  # arrives when the actor has failed, and is sent to the next one
    assert told == [(2, JobAnswerKind.REFUSED), (3, JobAnswerKind.KNOWN)]
    assert scene.answers[0].reason == "the scheduler failed while it handled this job: ZeroDivisionError('a defect')"
    assert scene.catalog.unanswered == {}
    assert scene.bench.dispatcher.failures == 1
    scene.bench.dispatcher.failures = 0


def test_an_ended_job_is_unloaded_and_its_files_are_closed_after_a_while(scene: Scene) -> None:
    before = open_memory(scene.folder.path)
    scene.bench.advance(10 * REST_SECONDS)
    assert len(scene.keeper._jobs) == 1, "it is open"
    scene.ask(2, JobVerb.CANCEL)
    scene.bench.advance(REST_SECONDS)
    scene.go_on()
    assert len(scene.keeper._jobs) == 1, "a request has arrived"
    scene.bench.clock.advance(REST_SECONDS)
    # It leaves in the turn in which a request is sent to it.
    assert scene.ask(3, JobVerb.SHOW) == [(3, JobAnswerKind.KNOWN)]
    scene.bench.advance(REST_SECONDS)
    scene.bench.advance(REST_SECONDS)
    scene.go_on()
    assert scene.keeper._jobs == {}
    assert len(open_memory(scene.folder.path)) < len(before)


def test_requests_about_a_job_that_is_being_removed_go_to_the_next_job_of_that_name(scene: Scene) -> None:
    assert scene.ask(5, JobVerb.READ) == []
    for number, verb in ((2, JobVerb.FORGET), (3, JobVerb.SHOW)):
        request = JobRequest(number, verb, "orders")
        scene.ref.send(RequestJob(scene.session, cast("Any", None), request, "tester"))
    assert scene.ask(4, JobVerb.OPEN, body=json.dumps(TERMS).encode()) == [
        (2, JobAnswerKind.KNOWN),
        (5, JobAnswerKind.NOT_FOUND),
        (3, JobAnswerKind.NOT_FOUND),
        (4, JobAnswerKind.KNOWN),
    ]


def test_requests_about_a_damaged_job_or_on_a_full_disk_are_refused_with_a_reason(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.ask(2, JobVerb.CANCEL)
    for _ in range(3):
        scene.bench.advance(REST_SECONDS)
        scene.go_on()
    place = scene.folder.path / "tester" / "orders"
    (place / DATABASE).write_bytes(bytes(5000))
    assert scene.ask(3, JobVerb.SHOW) == [(3, JobAnswerKind.REFUSED)]
    assert scene.answers[0].reason == (
        "the job cannot be read: file is not a database; nothing was changed. scaler_jobs --file "
        f"{scene.folder.path} check lists what is damaged. To delete the job, end the scheduler and remove {place}"
    )
    shutil.rmtree(place)

    def fail(_terms: object, _program: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(scene.folder, "create", fail)
    assert scene.ask(4, JobVerb.OPEN, body=json.dumps(TERMS).encode()) == [(4, JobAnswerKind.REFUSED)]
    assert "No space left on device; check that the disk has space" in scene.answers[0].reason


# Jobs that expire

LONG_AGO = json.dumps({**TERMS, "keep_seconds": 3600.0}).encode()
"""terms of a job that has expired, because it has not changed since 1970"""


def leave(scene: Scene) -> None:
    """Let the program release its job."""
    scene.bench.tell(scene.ref, ReaderLeft(scene.session))


@pytest.fixture(params=[False, True], ids=["alone", "shared"])
def expired(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> Iterator[Scene]:
    """Return a scene with an expired job that a program uses."""
    scene = Scene(bench, tmp_path / "jobs", monkeypatch, request.param)
    assert scene.ask(1, JobVerb.OPEN, body=LONG_AGO) == [(1, JobAnswerKind.KNOWN)]
    yield scene
    scene.folder.close()


def test_an_expired_job_is_removed_within_a_minute_after_its_last_use(expired: Scene) -> None:
    expired.pass_time(300)
    assert expired.names() == ["orders"], "a program uses it"
    leave(expired)
    expired.pass_time(REST_SECONDS - 5)
    assert expired.ask(2, JobVerb.SHOW) == [(2, JobAnswerKind.KNOWN)], "as does a request"
    record = bytes.fromhex(json.loads(expired.answers[0].body)["record"])
    expired.pass_time(2 * REST_SECONDS + LOOK_SECONDS)
    assert job_places(expired.folder.path) == []
    assert expired.names() == []
    assert expired.catalog.seen == {}
    request = JobRequest(3, JobVerb.READ, "orders", 0, 0, b"", record)
    expired.answers.clear()
    expired.bench.tell(expired.ref, RequestJob(expired.session, cast("Any", None), request, "tester"))
    assert expired.answers[0].reason == (
        "the job 'orders' no longer exists: it was forgotten, or has expired (keep_for)"
    )


def test_a_change_of_a_job_makes_it_expire_later(expired: Scene) -> None:
    leave(expired)
    assert expired.ask(2, JobVerb.CANCEL) == [(2, JobAnswerKind.KNOWN)]
    expired.pass_time(2 * REST_SECONDS + LOOK_SECONDS)
    assert expired.names() == ["orders"]
    assert expired.keeper._jobs == {}
    reads: list[Path] = []
    read = folder._summary_of

    def read_noted(place: Path) -> JobSummary:
        reads.append(place)
        return read(place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "_summary_of", read_noted)
        expired.pass_time(10 * LOOK_SECONDS)
        assert reads == [], "no record is read before its job is due"
        patch.setattr(time, "time", lambda: STARTED + 86_400)  # the machine slept
        expired.pass_time(LOOK_SECONDS)
    assert expired.names() == []


def test_an_expired_job_that_another_program_uses_or_changes_is_not_removed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (Scene(bench, tmp_path / "jobs", monkeypatch, is_shared=True, name=name) for name in ("one", "two"))
    assert one.ask(1, JobVerb.OPEN, body=LONG_AGO) == [(1, JobAnswerKind.KNOWN)]
    assert two.names() == ["orders"]
    place = one.folder.place_of("tester", "orders")
    for _ in range(200):
        two.pass_time(1)
        assert place.is_dir(), "the first program uses it"
    leave(one)
    one.writer.work()
    read = folder._summary_of
    with monkeypatch.context() as patch:

        def read_before_a_change(place: Path) -> Any:
            summary = read(place)
            if not one.folder._locks and not changed:
                changed.append(place)
                one.change()
            return summary

        changed: list[Path] = []
        patch.setattr(folder, "_summary_of", read_before_a_change)
        for _ in range(200):
            one.go_on()
            two.pass_time(1)
        assert changed == [place], "it was changed after it was found expired"
    assert two.names() == ["orders"]
    for each in (one, two):
        each.folder.close()


def test_an_expired_job_of_an_ended_program_is_removed_by_the_next_program_with_a_job(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = JobFolder(tmp_path / "jobs", is_shared=True)
    terms = JobTerms("orders", "tester", b"12345678", b"f" * 16, "price", keep_seconds=60.0, created=1.0)
    for name, seconds in (("old", 60.0), ("orders", AGE_SECONDS_MOST)):
        keep.shut(keep.create(replace(terms, name=name, keep_seconds=seconds)))
    (damaged := keep.create(replace(terms, name="damaged"))).close()
    (damaged.folder / DATABASE).write_bytes(bytes(5000))
    keep.close()
    scene = Scene(bench, tmp_path / "jobs", monkeypatch, is_shared=True)
    scene.pass_time(10 * LOOK_SECONDS)
    assert len(job_places(scene.folder.path)) == 3, "a program without jobs does not look"
    assert scene.names() == ["orders"], "it is not listed before it is removed"
    scene.pass_time(2 * LOOK_SECONDS)
    assert len(job_places(scene.folder.path)) == 3, "a program that has no job open here removes none"
    assert scene.ask(1, JobVerb.SHOW) == [(1, JobAnswerKind.KNOWN)]
    scene.pass_time(LOOK_SECONDS)
    assert [place.name for place in job_places(scene.folder.path)] == ["damaged", "orders"]
    scene.folder.close()
    after = Scene(bench, tmp_path / "jobs", monkeypatch, is_shared=True)
    after.folder.shut(after.folder.create(replace(terms, name="old")))
    assert after.ask(1, JobVerb.SHOW) == [(1, JobAnswerKind.KNOWN)]
    after.pass_time(FIRST_LOOK_SECONDS)
    assert [place.name for place in job_places(scene.folder.path)] == ["damaged", "orders"]
    after.folder.close()


def test_jobs_that_a_scheduler_finds_at_its_start_stay_until_the_second_look(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = JobFolder(tmp_path / "jobs")
    for number in range(20):
        name = f"{number:03}"
        terms = JobTerms(name, "tester", b"12345678", b"f" * 16, "price", keep_seconds=60.0, created=1.0)
        before.shut(before.create(terms))
    (before.path / "tester" / "010" / DATABASE).write_bytes(bytes(5000))
    before.close()
    monkeypatch.setattr(folder, "REMOVAL_SECONDS", 0.0)  # one in each order
    scene = Scene(bench, tmp_path / "jobs", monkeypatch)
    scene.bench.run()
    for _ in range(30):
        before = dict(scene.catalog.seen)
        scene.writer.work()
        assert scene.catalog.seen == before, "only actors change the summary"
        scene.bench.run()
    assert len(scene.catalog.seen) == 19
    assert scene.ask(2, JobVerb.SHOW) == [(2, JobAnswerKind.NOT_FOUND)]
    assert len(job_places(scene.folder.path)) == 20
    scene.pass_time(2 * LOOK_SECONDS)
    assert scene.catalog.seen == {}
    assert [place.name for place in job_places(scene.folder.path)] == ["010"]
    scene.pass_time(10 * LOOK_SECONDS)
    assert caplog.text.count("cannot be read, and stays as it is") == 1
    scene.folder.close()


def test_a_job_that_cannot_be_removed_is_logged_once(
    expired: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_self: object, _place: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(JobFolder, "_discard", fail)
    leave(expired)
    expired.pass_time(20 * LOOK_SECONDS)
    assert caplog.text.count("has expired, and cannot be removed: [Errno 30] Read-only file system") == 1
    assert len(job_places(expired.folder.path)) == 1


def test_a_request_that_arrives_while_a_job_is_removed_is_answered_with_not_found(expired: Scene) -> None:
    leave(expired)
    expired.pass_time(2 * REST_SECONDS)
    assert expired.keeper._jobs == {}
    expired.ref.send(CheckExpiry())
    expired.bench.run()  # the removal is ordered, and not carried out
    assert expired.ask(2, JobVerb.SHOW) == [(2, JobAnswerKind.NOT_FOUND)]
    assert expired.ask(3, JobVerb.OPEN, body=LONG_AGO) == [(3, JobAnswerKind.KNOWN)]


def test_a_conflict_with_a_job_of_another_owner_in_a_shared_folder_names_the_remedy(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = JobFolder(tmp_path / "jobs", is_shared=True)
    keep.create(JobTerms("orders", "alice", b"12345678", b"f" * 16, "price")).close()
    keep.close()
    scene = Scene(bench, tmp_path / "jobs", monkeypatch, is_shared=True)
    sentence = (
        f"the job 'orders' in {keep.path} belongs to alice, and you are tester: take another name, or take it over "
        f"with scaler_jobs --file {keep.path} give alice/orders tester"
    )
    assert scene.ask(1, JobVerb.SHOW) == [(1, JobAnswerKind.NOT_FOUND)]
    assert scene.answers[0].reason == sentence
    assert scene.ask(2, JobVerb.OPEN, body=LONG_AGO) == [(2, JobAnswerKind.REFUSED)]
    assert scene.answers[0].reason == sentence
    scene.folder.close()


def test_a_job_whose_folder_was_deleted_can_be_forgotten(scene: Scene) -> None:
    shutil.rmtree(scene.folder.path / "tester" / "orders")
    assert scene.ask(2, JobVerb.FORGET) == [(2, JobAnswerKind.KNOWN)]
    assert scene.ask(3, JobVerb.SHOW) == [(3, JobAnswerKind.NOT_FOUND)]
    assert scene.ask(4, JobVerb.OPEN, body=LONG_AGO) == [(4, JobAnswerKind.KNOWN)]


def test_forgetting_a_job_whose_folder_was_replaced_leaves_the_new_job(scene: Scene, tmp_path: Path) -> None:
    place = scene.folder.path / "tester" / "orders"
    place.rename(tmp_path / "elsewhere")
    JobRecord.create(place, JobTerms("orders", "tester", b"87654321", b"f" * 16, "other", created=1.0)).close()
    assert scene.ask(2, JobVerb.FORGET) == [(2, JobAnswerKind.KNOWN)]
    assert scene.ask(3, JobVerb.SHOW) == [(3, JobAnswerKind.KNOWN)]
    assert json.loads(scene.answers[0].body)["function"] == "other"


def test_a_new_version_with_another_function_is_made_once_and_keeps_the_rows(scene: Scene) -> None:
    def ask(*request: Any) -> JobResponse:
        scene.answers.clear()
        scene.send(JobRequest(1, request[0], "orders", *request[1:]))
        scene.go_on()
        return scene.answers[-1]

    def change(token: str, work: int = 0) -> JobResponse:
        terms = {**TERMS, "function_id": "77" * 16, "keep_seconds": None, "token": token}
        wish = JobOpenFlags.NEW_VERSION | JobOpenFlags.SAME_ROWS
        return ask(JobVerb.OPEN, work, wish, json.dumps(terms).encode())

    assert ask(JobVerb.OPEN, 0, 0, json.dumps({**TERMS, "token": "11" * 8}).encode()).status == JobAnswerKind.KNOWN
    ask(JobVerb.ROWS, 0, 1, b"\x11" * 8, b"", (bytes(8), pack_rows([RowArguments(b"1")])))
    ask(JobVerb.OBJECT, 0, InstructionKind.CREATE_FUNCTION, b"f" * 16, b"", (b"code",))
    refusal = change("22" * 8)
    assert (refusal.status, refusal.reason) == (JobAnswerKind.REFUSED, NOT_SUBMITTED)
    ask(JobVerb.SEAL, 1, 0)
    ask(JobVerb.OBJECT, 0, InstructionKind.CREATE_FUNCTION, b"w" * 16, b"", (b"better code",))
    [old] = scene.keeper._jobs.values()
    assert change("22" * 8).status == JobAnswerKind.KNOWN
    [new] = scene.keeper._jobs.values()
    assert new is not old
    info = json.loads(ask(JobVerb.SHOW, 0, 0).body)
    assert (info["state"], info["sealed"], info["version"], info["work"], info["token"]) == (
        "open",
        True,
        1,
        1,
        "22" * 8,
    )
    [found] = [each for each in scene.catalog.seen.values() if each.terms.name == "orders"]
    assert (found.terms.keep_seconds, found.terms.function_id) == (TERMS["keep_seconds"], b"w" * 16)
    assert change("22" * 8).status == JobAnswerKind.KNOWN, "its answer was lost"
    assert change("33" * 8).status == JobAnswerKind.CONFLICT, "its client knows other work"
    assert json.loads(ask(JobVerb.SHOW, 0, 0).body)["version"] == 1


def test_a_request_that_names_the_record_of_a_removed_job_creates_no_job(scene: Scene) -> None:
    scene.send(JobRequest(1, JobVerb.OPEN, "gone", 0, JobOpenFlags.RUN, json.dumps(TERMS).encode(), b"12345678"))
    scene.go_on()
    assert scene.answers[-1].status == JobAnswerKind.NOT_FOUND
    assert not scene.folder.place_of("tester", "gone").exists()


def test_rows_that_arrive_early_wait_for_earlier_rows_and_share_their_refusal(scene: Scene) -> None:
    def rows(number: int, first: int, text: bytes, token: bytes = b"1") -> JobRequest:
        return JobRequest(
            number, JobVerb.ROWS, "orders", first, 1, token * 8, b"", (bytes(8), pack_rows([RowArguments(text)]))
        )

    def answers(*requests: JobRequest) -> list[tuple[int, JobAnswerKind]]:
        scene.answers.clear()
        for each in requests:
            scene.send(each)
        scene.go_on()
        return [(each.number, each.status) for each in scene.answers]

    scene.ask(1, JobVerb.OPEN, 0, json.dumps(TERMS).encode())
    assert answers(rows(4, 2, b"c"), rows(3, 1, b"b")) == []
    assert sorted(answers(rows(2, 0, b"a"))) == [(number, JobAnswerKind.KNOWN) for number in (2, 3, 4)]
    assert answers(rows(9, 4, b"e", b"2"), rows(8, 3, b"d", b"2")) == [
        (8, JobAnswerKind.KNOWN),
        (9, JobAnswerKind.KNOWN),
    ]
    assert answers(rows(12, 6, b"g", b"3")) == []
    assert sorted(answers(rows(11, 0, b"other", b"3"))) == [(11, JobAnswerKind.CONFLICT), (12, JobAnswerKind.CONFLICT)]
    assert answers(rows(13, 5, b"f", b"3")) == [(13, JobAnswerKind.CONFLICT)], "a later message of that call"
    assert answers(rows(14, 5, b"f", b"2")) == [(14, JobAnswerKind.KNOWN)]
