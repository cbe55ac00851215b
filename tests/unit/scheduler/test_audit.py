"""The audit log: a line of JSON for each event, with limits for each source and in total."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.scheduler.audit import (
    BURST_SECONDS,
    KNOWN_PER_SECOND,
    LINES_PER_SECOND,
    REMEMBERED,
    STRANGERS_PER_SECOND,
    AuditLog,
    source_of,
)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_line_is_json_and_the_file_is_for_this_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = AuditLog(str(file), propagates=False, clock=lambda: 1_800_000_000.25)
    audit.say("refused", "10.0.0.9", address="10.0.0.9", why='its "key"\n is unknown', owner="")
    audit.close()
    assert lines(file) == [
        {
            "time": "2027-01-15T08:00:00.250Z",
            "event": "refused",
            "address": "10.0.0.9",
            "why": 'its "key"\\n is unknown',
        }
    ]
    assert file.stat().st_mode & 0o777 == 0o600


def test_audit_lines_of_one_address_are_limited_and_suppress_no_other_address(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = AuditLog(str(file), propagates=False)
    for _ in range(10_000):
        audit.say("refused", "10.0.0.9", address="10.0.0.9")
    audit.say("refused", "10.0.0.8", address="10.0.0.8")
    for source in map(str, range(2 * REMEMBERED)):
        audit.say("admitted", source)
    assert len(audit._known.sources) == REMEMBERED
    audit.close()
    found = lines(file)
    loud = sum(line.get("address") == "10.0.0.9" for line in found)
    assert LINES_PER_SECOND * BURST_SECONDS <= loud < 200
    assert any(line.get("address") == "10.0.0.8" for line in found)


def test_suppressed_audit_lines_are_counted_in_the_next_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    file = tmp_path / "audit.log"
    audit = AuditLog(str(file), propagates=False)
    for _ in range(25):
        audit.say("refused", "10.0.0.9")
    now[0] += 60.0
    audit.say("admitted", "10.0.0.9")
    audit.close()
    assert len(lines(file)) == 21
    assert lines(file)[-1]["unsaid"] == 5


ADDRESSES = {
    "IPv4": [f"127.0.{third}.{fourth}" for third in range(40) for fourth in range(100)],
    "IPv6": [f"2001:db8:{network:x}::{host:x}" for network in range(400) for host in range(10)],
}


@pytest.mark.parametrize("addresses", ADDRESSES.values(), ids=ADDRESSES)
def test_audit_lines_of_all_strangers_are_limited_and_suppress_no_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    file = tmp_path / "audit.log"
    audit = AuditLog(str(file), propagates=False)
    for second in range(10):
        for address in addresses:
            audit.say("refused", address, address=address, why="it has no key")
            audit.say("refused", address, address=address, owner="", why="it is of another version")
        for event in ("admitted", "began", "revoked"):
            audit.say(event, f"{event} {second}", owner="alice")
        now[0] += 1.0
    audit.say("refused", "10.0.0.9", address="10.0.0.9")
    audit.close()
    found = lines(file)
    refused = [line for line in found if line["event"] == "refused"]
    assert STRANGERS_PER_SECOND <= len(refused) <= STRANGERS_PER_SECOND * (10 + BURST_SECONDS) + 1
    assert sum(line.get("owner") == "alice" for line in found) == 30
    n_said = 2 * 10 * len(addresses) + 1
    omitted = sum(line.get("unsaid", 0) + line.get("unsaid_of_others", 0) for line in found)
    assert len(refused) + omitted == n_said, "each is written or counted"


def test_a_network_of_ipv6_is_one_source(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = AuditLog(str(file), propagates=False)
    for host in range(1, 1000):
        audit.say("refused", f"2001:db8::{host:x}")
        audit.say("refused", f"fe80::{host:x}%eth0")
    audit.close()
    found = [line for line in lines(file) if line["event"] == "refused"]
    assert len(found) < 4 * LINES_PER_SECOND * BURST_SECONDS
    assert source_of("::ffff:10.0.0.9") == source_of("10.0.0.9") == "10.0.0.9"
    assert source_of("2001:db8:0:1::7") != source_of("2001:db8:0:2::7")
    assert source_of("alice") == "alice"


def test_audit_lines_of_all_owners_are_limited(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = AuditLog(str(file), propagates=False)
    for number in range(20_000):
        audit.say("admitted", str(number), owner=f"owner{number}")
    audit.close()
    assert KNOWN_PER_SECOND <= len(lines(file)) < 15_000
    assert "left out" in {line["event"] for line in lines(file)}


def test_a_stranger_suppresses_no_audit_line_of_an_owner_at_the_same_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    file = tmp_path / "audit.log"
    audit = AuditLog(str(file), propagates=False)
    for _ in range(1000):
        audit.say("refused", "10.0.0.9", address="10.0.0.9")
    audit.say("admitted", "10.0.0.9", owner="alice")
    audit.close()
    assert lines(file)[-1]["owner"] == "alice"
    assert lines(file)[-1]["unsaid"] == 1000 - LINES_PER_SECOND * BURST_SECONDS


def test_without_a_file_audit_lines_are_sent_to_the_logging_handlers_of_the_program() -> None:
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    logging.getLogger().addHandler(handler)
    try:
        AuditLog(None, propagates=False).say("began", "alice", owner="alice")
        assert shown.getvalue() == ""
        AuditLog(None, propagates=True).say("began", "alice", owner="alice")
        assert json.loads(shown.getvalue())["owner"] == "alice"
    finally:
        logging.getLogger().removeHandler(handler)


def test_an_audit_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot log to"):
        AuditLog(str(tmp_path / "missing" / "audit.log"), propagates=False)
