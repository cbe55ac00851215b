"""Requests about jobs that no client of ours would send: each is answered, and only their sender has a part in it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from scaler.wire.messages.client import JobAnswerKind, JobRequest, JobResponse, JobVerb
from tests.integration.test_keys import Site
from tests.integration.test_owners import RawClient

TERMS: dict[str, Any] = {
    "fingerprint": {"a": "b"}, "function_id": "00" * 16, "max_failures": None, "function": "f", "program": "p",
    "python": "3.11", "options": "", "priority": 0, "task_name": "", "attended": False, "keep_seconds": 1e6,
    "created": 1.0, "token": "",
}  # fmt: skip
VALUES = (
    float("inf"), float("-inf"), float("nan"), 10**400, 2**63, -(2**63) - 1, [], {}, None, True, "\ud800", "\x00", "x",
    1.5, -1, [[[[[]]]]], {"a": {"b": 1}}, "ff" * 40,
)  # fmt: skip


def bodies() -> Iterator[bytes]:
    """Yield what is no terms, and terms of which one is missing or has an odd value."""
    yield from (b"{", b"null", b"7", b"\xff", b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 5_000, b'"' + b"x" * 2**20)
    yield json.dumps(TERMS).replace('"priority": 0', f'"priority": {"9" * 5_000}').encode()
    yield json.dumps(TERMS).replace("1000000.0", "1e999").encode()
    for name in TERMS:
        yield json.dumps({key: value for key, value in TERMS.items() if key != name}).encode()
        yield from (json.dumps({**TERMS, name: value}).encode() for value in VALUES)


@pytest.fixture
def site(site: Site, tmp_path: Path) -> Site:
    site.scheduler.kill_all()
    site.scheduler = site.start("scheduler", site.address, "--keep", str(tmp_path / "jobs"))
    site.scheduler.wait_for("with a key")
    return site


@pytest.mark.thorough
def test_invalid_job_terms_are_answered_and_other_jobs_continue(site: Site) -> None:
    site.cluster()
    with ExitStack() as stack:
        eve, alice = RawClient(site.address, site.allow("eve"), stack), stack.enter_context(Client(site.allow("alice")))
        job = alice.start(pow, [(2, n) for n in range(500)], name="powers")
        requests = [JobRequest(n, JobVerb.OPEN, f"j{n}", 0, 0, body) for n, body in enumerate(bodies())]
        for request in requests:
            eve.say(request)
        answers = eve.hear(JobResponse, len(requests))
        refused = [each.reason for each in answers if each.status == JobAnswerKind.REFUSED]
        assert {each.number for each in answers} == {*range(len(requests))}
        assert len(refused) > 100
        assert {reason.partition(":")[0] for reason in refused} == {"its terms cannot be read"}
        assert [*job.results()] == [2**n for n in range(500)]
    assert "restarting" not in site.scheduler.output
    assert "failed" not in site.scheduler.output


@pytest.mark.thorough
def test_malformed_requests_of_all_kinds_restart_no_shared_actor(site: Site) -> None:
    site.cluster()
    draw = random.Random(3)
    numbers = [0, 1, 7, 2**31, 2**32 - 1]
    texts = [b"", b"a", b"x" * 8, b"\xff" * 24, json.dumps(TERMS).encode(), b'{"token": [1]}', b"[" * 3_000]
    with ExitStack() as stack:
        eve, alice = RawClient(site.address, site.allow("eve"), stack), stack.enter_context(Client(site.allow("alice")))
        eve.say(JobRequest(0, JobVerb.OPEN, "mine", 0, 0, json.dumps(TERMS).encode()))
        for number in range(1, 600):
            name = draw.choice(["mine", "mine", "", "..", "alice/powers", "a\x00b", "é" * 200])
            frames = tuple(draw.choice(texts) for _ in range(draw.randrange(3)))
            first, amount, body = draw.choice([*numbers, 2**64 - 1]), draw.choice(numbers), draw.choice(texts)
            record = draw.choice([b"", b"", b"x" * 8, b"x" * 12, b"x"])
            eve.say(JobRequest(number, draw.choice([*JobVerb]), name, first, amount, body, record, frames))
            if number % 50 == 0:
                eve.say(JobRequest(1000 + number, JobVerb.LIST, ""))
                eve.hear(JobResponse, 1)
        eve.say(JobRequest(9_999, JobVerb.LIST, ""))
        while not any(each.number == 9_999 for each in eve.heard if type(each) is JobResponse):
            eve.hear(JobResponse, 1 + sum(type(each) is JobResponse for each in eve.heard))
        assert alice.map(pow, [(2, n) for n in range(50)], job="powers") == [2**n for n in range(50)]
    assert "restarting" not in site.scheduler.output
