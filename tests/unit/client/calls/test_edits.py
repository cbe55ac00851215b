"""Edits: a module that was reloaded is said once for each edit, and nothing else is."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path

import pytest

from scaler import Client
from scaler.client.calls import edits
from scaler.ids import ObjectId
from tests.support.fake_scheduler import FakeScheduler


def write(path: Path, text: str) -> None:
    """Write a module that differs from the one before for the import system, too: by its time."""
    path.write_text(text)
    os.utime(path, (write.time, write.time))  # type: ignore[attr-defined]
    write.time += 10  # type: ignore[attr-defined]


write.time = 1_700_000_000  # type: ignore[attr-defined]


def test_a_module_that_was_edited_is_said_once(
    scheduler: FakeScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "edited_for_a_test.py"
    write(path, "def g():\n    return 1\n")
    edited = importlib.import_module(path.stem)
    try:
        with caplog.at_level(logging.WARNING, "scaler.client"), Client(scheduler.address) as client:
            client.submit(edited.g)
            importlib.reload(edited)  # as it was
            client.submit(edited.g)
            client.submit(lambda: 1)
            client.submit(lambda: 2)
            assert caplog.messages == []
            write(path, "def g():\n    return 2\n")
            importlib.reload(edited)
            client.submit(edited.g)
            client.submit(edited.g)
            (said,) = caplog.messages
            assert said.startswith("the module edited_for_a_test was edited and reloaded here")
            assert "client.upload(edited_for_a_test)" in said
    finally:
        del sys.modules[path.stem]


def test_only_some_functions_are_remembered(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(edits, "REMEMBERED_MOST", 3)
    looked = edits.Edits()
    for number in range(10):
        looked.look(write, ObjectId(bytes([number])))
    assert len(looked._codes) <= 3
    looked.look(len, ObjectId(b"x"))
    assert caplog.messages == []
