"""KeyRegistry: which keys are accepted while the list changes."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from scaler.keys.folder import KeyFolder
from scaler.keys.key_file import CLIENT, KeyFile
from scaler.scheduler.key_registry import PEERS, REFUSALS_BURST_SECONDS, TROUBLE_SECONDS, VIEWERS, KeyRegistry

TODAY = date.today()  # noqa: DTZ011 - as the doorkeeper has it


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    return KeyFolder.make(tmp_path / "keys")


def judged(keeper: KeyRegistry, *roles: str) -> dict[str, int]:
    judge = keeper.admission_keys(*roles).judge
    files = (KeyFile.read(path) for path in sorted(keeper.folder.glob("*.json")))
    return {file.name: judge(file.public, "10.0.0.9") for file in files}


def test_each_socket_accepts_only_its_roles(folder: KeyFolder) -> None:
    keeper = KeyRegistry(folder)
    assert judged(keeper, *PEERS) == {"admin": 200, "client": 200, "monitor": 400, "worker": 200}
    assert judged(keeper, *VIEWERS) == {"admin": 200, "client": 400, "monitor": 200, "worker": 400}
    assert keeper.admission_keys(*PEERS).judge("", "10.0.0.9") == 400
    assert folder.pairs()[-1].secret not in repr(keeper.admission_keys(*PEERS))


def test_a_new_key_is_accepted_at_once_and_a_revoked_one_ends_at_the_next_check(folder: KeyFolder) -> None:
    keeper = KeyRegistry(folder)
    alice = KeyFile.read(folder.allow("alice", CLIENT, None, TODAY))
    admission_keys = keeper.admission_keys(*PEERS)
    judge, is_valid = admission_keys.judge, admission_keys.is_valid
    assert judge(alice.public, "") == 200  # a new key is looked for at once
    assert keeper.permit_of(alice.public) is not None
    assert is_valid(alice.public)
    assert not keeper.admission_keys(*VIEWERS).is_valid(alice.public)
    assert keeper.look() == frozenset()
    folder.revoke("alice", TODAY)
    assert keeper.look() == {alice.public}
    assert keeper.look() == frozenset()
    assert judge(alice.public, "") == 500
    assert keeper.permit_of(alice.public) is None  # also for a connection that has sent no hello before
    assert not is_valid(alice.public)


def test_a_key_that_was_made_used_and_revoked_between_two_checks_ends(folder: KeyFolder) -> None:
    keeper = KeyRegistry(folder)
    alice = KeyFile.read(folder.allow("alice", CLIENT, None, TODAY))
    assert keeper.admission_keys(*PEERS).judge(alice.public, "") == 200
    folder.revoke("alice", TODAY)
    assert keeper.look() == {alice.public}
    assert keeper.look() == frozenset()


def test_a_removed_line_ends_its_key(folder: KeyFolder) -> None:
    keeper = KeyRegistry(folder)
    client = KeyFile.read(folder.path / "client.json")
    lines = [line for line in folder.list_path.read_text().splitlines() if client.public not in line]
    folder.list_path.write_text("\n".join(lines))
    assert keeper.look() == frozenset(), "an editor may be in the middle of it"
    assert keeper.look() == {client.public}
    assert keeper.admission_keys(*PEERS).judge(client.public, "") == 400


def test_a_key_ends_with_its_last_day(folder: KeyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = KeyRegistry(folder)
    alice = KeyFile.read(folder.allow("alice", CLIENT, TODAY, TODAY))
    assert keeper.look() == frozenset()
    monkeypatch.setattr("scaler.scheduler.key_registry._today", lambda: TODAY + timedelta(days=1))
    assert keeper.look() == {alice.public}


def test_an_editor_that_writes_a_list_in_pieces_ends_no_key(folder: KeyFolder) -> None:
    keeper, text = KeyRegistry(folder), folder.list_path.read_text()
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


def _is_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


BREAKS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("client alice\n"),
    "empty": lambda path: path.write_text("# nobody\n"),
    "mode": lambda path: path.chmod(0o644),
    "gone": lambda path: path.unlink(),
    "folder": _is_a_folder,
    "digits": lambda path: path.write_text(f"{path.read_text()}client zed {'a' * 40} tasks={'9' * 5000}\n"),
    "bytes": lambda path: path.write_bytes(b"\xff" * 100),
    "disk": lambda path: path.touch(),
    "defect": lambda path: path.touch(),
}
FAILURES = {"disk": OSError(errno.EIO, "Input/output error"), "defect": ArithmeticError("a defect")}


@pytest.mark.parametrize("broken", [*BREAKS])
def test_an_unreadable_list_of_keys_changes_nothing_and_is_logged_each_minute(
    folder: KeyFolder, broken: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("scaler.scheduler.key_registry.time.monotonic", lambda: now)
    caplog.set_level(logging.INFO)
    keeper = KeyRegistry(folder)
    before, text = judged(keeper, *PEERS), folder.list_path.read_text()
    BREAKS[broken](folder.list_path)
    if broken in FAILURES:
        monkeypatch.setattr("os.read", Mock(side_effect=FAILURES[broken]))
    caplog.clear()
    for minute in range(1, 5):
        assert [keeper.look() for _ in range(3)] == [frozenset()] * 3
        assert sum(each.levelno == logging.ERROR for each in caplog.records) == minute
        now += TROUBLE_SECONDS
    monkeypatch.undo()
    assert judged(keeper, *PEERS) == before
    if folder.list_path.is_dir():
        folder.list_path.rmdir()
    if broken not in FAILURES:  # else the file is as it was, and so is its time
        folder.list_path.unlink(missing_ok=True)
        folder.list_path.touch(0o600)
        folder.list_path.write_text(text)
    caplog.clear()
    assert keeper.look() == frozenset()
    assert "the list of keys can be read again" in caplog.messages
    folder.revoke("client", TODAY)
    assert len(keeper.look()) == 1, "and revocation works as before"
    assert not any(each.levelno == logging.ERROR for each in caplog.records)


@pytest.mark.parametrize(
    ("old", "new", "ends"),
    [
        ("client client ", "admin client ", True),
        ("client client ", "client eve ", True),
        ("client client ", "monitor client ", True),
        ("client client ", "client  client  ", False),
        ("\n", " share=3 tasks=7 bytes=2M\n", False),
        ("\n", " until=2999-01-01\n", False),
    ],
)
def test_a_new_role_or_owner_of_a_line_ends_its_key_and_new_terms_do_not(
    folder: KeyFolder, old: str, new: str, ends: bool
) -> None:
    keeper, client = KeyRegistry(folder), KeyFile.read(folder.path / "client.json")
    before = folder.list_path.read_text()
    lines = [line.replace(old, new) if client.public in line else line for line in before.splitlines(keepends=True)]
    folder.list_path.write_text("".join(lines))
    assert keeper.look() == ({client.public} if ends else set())
    assert keeper.look() == frozenset()
    folder.list_path.write_text(before)
    assert keeper.look() == ({client.public} if ends else set()), "and so when it is changed back"


def test_a_key_used_between_a_change_of_its_line_and_the_next_check_ends(folder: KeyFolder) -> None:
    """Its earlier sessions have the old role."""
    keeper, client = KeyRegistry(folder), KeyFile.read(folder.path / "client.json")
    folder.list_path.write_text(folder.list_path.read_text().replace("client client ", "admin client "))
    folder.allow("alice", CLIENT, None, TODAY)
    judged(keeper, *PEERS)  # the list is read again for the unknown key
    assert keeper.permit_of(client.public).role == "admin"  # type: ignore[union-attr]
    assert keeper.look() == {client.public}


def test_the_log_has_the_first_refusals_and_counts_the_rest(
    folder: KeyFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("scaler.scheduler.key_registry.time.monotonic", lambda: now)
    judge = KeyRegistry(folder).admission_keys(*PEERS).judge
    for _ in range(10_000):
        judge("x" * 40, "10.0.0.9")
    assert len(caplog.records) == REFUSALS_BURST_SECONDS
    assert caplog.messages[0] == "refused a connection from 10.0.0.9: its key is not on the list"
    now += 60
    judge("x" * 40, "10.0.0.9")
    assert caplog.messages[-1].endswith("; 9980 earlier refusals were not logged")


def test_a_start_ends_the_old_key_of_the_scheduler(folder: KeyFolder) -> None:
    folder.rotate()
    assert len(folder.pairs()) == 2
    newest = folder.pairs()[-1]
    KeyRegistry(folder)
    assert folder.pairs() == [newest]
