"""Which GPUs a task sees."""

from __future__ import annotations

import os

import pytest

from scaler.ids import ObjectId, TaskId
from scaler.processor.devices import VARIABLE, VisibleDevices, numbers_of
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.worker import RunTask


def test_a_task_says_in_its_options_which_it_has() -> None:
    plain = RunTask(TaskId(bytes(16)), 0, 1, ObjectId(bytes(16)), b"", b"")
    assert numbers_of(plain) == ()
    plain.options = RunOptions(devices=(1, 3)).encode()  # type: ignore[misc]
    assert numbers_of(plain) == (1, 3)


@pytest.mark.parametrize(
    ("before", "shown"), [(None, "1,2"), ("7,8,9", "8,9"), ("GPU-a,GPU-b", "GPU-b,2"), ("", "1,2")]
)
def test_numbers_are_shown_for_a_while(monkeypatch: pytest.MonkeyPatch, before: str | None, shown: str) -> None:
    if before is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, before)
    devices = VisibleDevices()
    devices.show((1, 2))
    assert os.environ[VARIABLE] == shown
    devices.show(())
    assert os.environ.get(VARIABLE) == before


def test_a_process_that_has_had_some_cannot_have_others() -> None:
    devices = VisibleDevices()
    assert devices.may_be((0,))
    devices.show((1,))
    devices.show(())
    assert devices.may_be(())
    assert devices.may_be((1,))
    assert not devices.may_be((0,))
    assert not devices.may_be((0, 1))
