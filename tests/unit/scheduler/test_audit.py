"""What is kept of those who come: a line of JSON each, and not more of those who knock more often."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from scaler.config import ConfigError
from scaler.scheduler.audit import BURST_SECONDS, LINES_PER_SECOND, REMEMBERED, Audit


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_line_is_json_and_the_file_is_for_this_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = Audit(str(file), goes_on=False, clock=lambda: 1_800_000_000.25)
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


def test_one_address_does_not_fill_the_disk_and_hides_no_other(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = Audit(str(file), goes_on=False)
    for _ in range(10_000):
        audit.say("refused", "10.0.0.9", address="10.0.0.9")
    audit.say("refused", "10.0.0.8", address="10.0.0.8")
    for source in map(str, range(2 * REMEMBERED)):
        audit.say("admitted", source)
    audit.close()
    found = lines(file)
    loud = sum(line.get("address") == "10.0.0.9" for line in found)
    assert LINES_PER_SECOND * BURST_SECONDS <= loud < 200
    assert any(line.get("address") == "10.0.0.8" for line in found)
    assert len(audit._sources) == REMEMBERED


def test_what_was_left_out_is_counted_in_the_next_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    file = tmp_path / "audit.log"
    audit = Audit(str(file), goes_on=False)
    for _ in range(25):
        audit.say("refused", "10.0.0.9")
    now[0] += 60.0
    audit.say("admitted", "10.0.0.9")
    audit.close()
    assert len(lines(file)) == 21
    assert lines(file)[-1]["unsaid"] == 5


def test_without_a_file_the_lines_are_for_the_handlers_of_the_program() -> None:
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    logging.getLogger().addHandler(handler)
    try:
        Audit(None, goes_on=False).say("began", "alice", owner="alice")
        assert shown.getvalue() == ""
        Audit(None, goes_on=True).say("began", "alice", owner="alice")
        assert json.loads(shown.getvalue())["owner"] == "alice"
    finally:
        logging.getLogger().removeHandler(handler)


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot log to"):
        Audit(str(tmp_path / "missing" / "audit.log"), goes_on=False)
