"""Owners, and the owner of peers without a key."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from scaler.actors.vocabulary.owners import Owners
from scaler.ids import SchedulerId
from scaler.scheduler.scheduler import SchedulerProcess
from scaler.settings import SchedulerConfig


def test_the_owner_without_a_key_can_be_named_after_the_user() -> None:
    owners = Owners()
    owners.alias_nobody("tester")
    assert owners.of("tester") is owners.of("") is owners.nobody
    assert [*owners] == [owners.nobody]
    assert owners.of("alice") is not owners.nobody


@pytest.mark.parametrize("needs_keys", [True, False])
def test_without_keys_jobs_and_clients_have_one_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_keys: bool
) -> None:
    monkeypatch.setenv("SCALER_KEY_FOLDER", str(tmp_path / "keys"))
    config = SchedulerConfig(
        "tcp://127.0.0.1:*", insecure_let_everybody_run_code=not needs_keys, keep=str(tmp_path / "jobs")
    )
    process = SchedulerProcess(config)
    owners = process._tree(SchedulerId(bytes(16)), None).directory.owners
    assert (owners.of(getpass.getuser()) is owners.nobody) == (not needs_keys)
    assert process._publisher is not None
    process._publisher.close()
    process._close()
    process._shell.loop.close()
