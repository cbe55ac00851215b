"""Who is let in now, while the list changes."""

from __future__ import annotations

import logging
from datetime import date, timedelta
from pathlib import Path

import pytest

from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import CLIENT, KeyFile
from scaler.scheduler.doorkeeper import PEERS, REFUSALS_BURST_SECONDS, VIEWERS, Doorkeeper

TODAY = date.today()  # noqa: DTZ011 - as the doorkeeper has it


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    return KeyFolder.make(tmp_path / "keys")


def judged(keeper: Doorkeeper, *roles: str) -> dict[str, int]:
    judge = keeper.lock(*roles).judge
    files = (KeyFile.read(path) for path in sorted(keeper.folder.glob("*.json")))
    return {file.name: judge(file.public, "10.0.0.9") for file in files}


def test_each_socket_lets_in_its_roles(folder: KeyFolder) -> None:
    keeper = Doorkeeper(folder)
    assert judged(keeper, *PEERS) == {"admin": 200, "client": 200, "monitor": 400, "worker": 200}
    assert judged(keeper, *VIEWERS) == {"admin": 200, "client": 400, "monitor": 200, "worker": 400}
    assert keeper.lock(*PEERS).judge("", "10.0.0.9") == 400
    assert folder.pairs()[-1].secret not in repr(keeper.lock(*PEERS))


def test_a_new_key_is_good_at_once_and_one_that_is_taken_back_ends_at_the_next_look(folder: KeyFolder) -> None:
    keeper = Doorkeeper(folder)
    alice = KeyFile.read(folder.allow("alice", CLIENT, None, TODAY))
    judge = keeper.lock(*PEERS).judge
    assert judge(alice.public, "") == 200  # a new key is looked for at once
    assert keeper.look() == frozenset()
    folder.revoke("alice", TODAY)
    assert keeper.look() == {alice.public}
    assert keeper.look() == frozenset()
    assert judge(alice.public, "") == 500
    permit = keeper.permit_of(alice.public)
    assert permit is not None
    assert permit.revoked == TODAY


def test_a_key_that_was_made_used_and_taken_back_between_two_looks_ends(folder: KeyFolder) -> None:
    keeper = Doorkeeper(folder)
    alice = KeyFile.read(folder.allow("alice", CLIENT, None, TODAY))
    assert keeper.lock(*PEERS).judge(alice.public, "") == 200
    folder.revoke("alice", TODAY)
    assert keeper.look() == {alice.public}
    assert keeper.look() == frozenset()


def test_a_line_that_is_gone_ends_its_key_too(folder: KeyFolder) -> None:
    keeper = Doorkeeper(folder)
    client = KeyFile.read(folder.path / "client.json")
    lines = [line for line in folder.list_path.read_text().splitlines() if client.public not in line]
    folder.list_path.write_text("\n".join(lines))
    assert keeper.look() == frozenset(), "an editor may be in the middle of it"
    assert keeper.look() == {client.public}
    assert keeper.lock(*PEERS).judge(client.public, "") == 400


def test_a_key_ends_with_its_last_day(folder: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Doorkeeper(folder)
    alice = KeyFile.read(folder.allow("alice", CLIENT, TODAY, TODAY))
    assert keeper.look() == frozenset()
    monkeypatch.setattr("scaler.scheduler.doorkeeper._today", lambda: TODAY + timedelta(days=1))
    assert keeper.look() == {alice.public}


def test_an_editor_that_writes_a_list_in_pieces_ends_no_key(folder: KeyFolder) -> None:
    keeper, text = Doorkeeper(folder), folder.list_path.read_text()
    before, lines = judged(keeper, *PEERS), text.splitlines(keepends=True)
    for part in ("", lines[0], lines[0] + lines[1][:20], "".join(lines[:3])):
        with folder.list_path.open("w") as file:
            file.write(part)
        assert keeper.look() == frozenset()
        assert judged(keeper, *PEERS) == before, "those who come meanwhile get in, too"
    with folder.list_path.open("w") as file:
        file.write(text)
    assert keeper.look() == frozenset()
    assert judged(keeper, *PEERS) == before


@pytest.mark.parametrize("broken", ["text", "empty", "mode", "gone"])
def test_a_list_that_cannot_be_read_changes_nothing_and_is_one_error(
    folder: KeyFolder, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Doorkeeper(folder)
    before = judged(keeper, *PEERS)
    if broken == "text":
        folder.list_path.write_text("client alice\n")
    elif broken == "empty":
        folder.list_path.write_text("# nobody\n")
    elif broken == "mode":
        folder.list_path.chmod(0o644)
    else:
        folder.list_path.unlink()
    caplog.clear()
    assert [keeper.look() for _ in range(3)] == [frozenset()] * 3
    assert judged(keeper, *PEERS) == before
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 1


def test_the_log_tells_of_some_refusals_and_counts_the_others(
    folder: KeyFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("scaler.scheduler.doorkeeper.time.monotonic", lambda: now)
    judge = Doorkeeper(folder).lock(*PEERS).judge
    for _ in range(10_000):
        judge("x" * 40, "10.0.0.9")
    assert len(caplog.records) == REFUSALS_BURST_SECONDS
    assert caplog.messages[0] == "refused a connection from 10.0.0.9: its key is not on the list"
    now += 60
    judge("x" * 40, "10.0.0.9")
    assert caplog.messages[-1].endswith("; 9980 refusals before were not logged")


def test_a_start_ends_the_old_key_of_the_scheduler(folder: KeyFolder) -> None:
    folder.rotate()
    assert len(folder.pairs()) == 2
    newest = folder.pairs()[-1]
    Doorkeeper(folder)
    assert folder.pairs() == [newest]
