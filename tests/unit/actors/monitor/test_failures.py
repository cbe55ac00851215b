from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.actors.monitor.failures import Failures
from scaler.actors.monitor.names import Names
from scaler.actors.objects.object_table import ObjectTable, StoredObject
from scaler.wire.messages.common import TaskStatus
from tests.unit.actors.monitor.conftest import Move

SECOND_US = 1_000_000


@pytest.fixture
def table() -> ObjectTable:
    return ObjectTable()


@pytest.fixture
def failures(table: ObjectTable) -> Failures:
    return Failures(Names(table), lambda payload: payload.decode())


def test_failures_whose_messages_differ_only_in_numbers_are_one_kind(failures: Failures, ended: Move) -> None:
    for number, message in enumerate(("no 7 at 0x7f12", "no 8 at 0x7ffe", "none")):
        failures.add(ended(number, TaskStatus.FAILED, f"ValueError: {message}"), number)
    items, total = failures.items(is_first=False)
    assert total == 2
    assert [(each.type, each.message, each.times) for each in items] == [
        ("ValueError", "none", 1),
        ("ValueError", "no 8 at 0x7ffe", 2),
    ]
    assert failures.items(is_first=False) == ([], 2)


def test_the_name_of_a_failed_function_stays_after_its_client_left(
    failures: Failures, table: ObjectTable, ended: Move
) -> None:
    moved = ended(1, TaskStatus.FAILED, "ValueError: no")
    stored = StoredObject("price", (b"code",), is_function=True)
    table.functions[moved.spec.function_id] = stored
    failures.add(moved, 1)
    del table.functions[moved.spec.function_id]
    assert failures.items(is_first=True)[0][0].function_name == "price"


def test_the_latest_kinds_of_very_many_failures_are_kept(
    failures: Failures, ended: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.actors.monitor.failures.KINDS_MOST", 2)
    for number, kind in enumerate("abac"):
        failures.add(ended(number, TaskStatus.FAILED, f"{kind}: failed"), number)
    items, total = failures.items(is_first=False)
    assert ([each.type for each in items], total) == (["c", "a"], 2)
    assert [each.type for each in failures.items(is_first=True)[0]] == ["c", "a"]


def test_a_traceback_is_read_once_a_second(failures: Failures, ended: Move) -> None:
    seen = []
    for number, at_us in enumerate((0, SECOND_US // 2, SECOND_US), 1):
        failures.add(ended(number, TaskStatus.FAILED, "ValueError: no", b"%d" % number), SECOND_US + at_us)
        seen.append(failures.items(is_first=False)[0][0].traceback)
    assert seen == ["1", "1", "3"]


def test_crashes_with_the_same_exit_code_are_one_kind_for_all_processes_and_workers(
    table: ObjectTable, ended: Move
) -> None:
    names = Names(table)
    failures = Failures(names, lambda payload: payload.decode())
    for number, (worker, code) in enumerate((("gpu-1", 3), ("gpu-b", 3), ("gpu-1", 13))):
        names.of_worker = lambda _worker, name=worker: name  # type: ignore[method-assign,misc]
        sentence = f"the processor of worker {worker} died: process {13189 + number}, exit code {code}"
        moved = ended(number, TaskStatus.PROCESSOR_DIED)
        failures.add(replace(moved, reason=sentence), number)
    items, _ = failures.items(is_first=True)
    assert [(each.times, each.worker, each.message.rpartition(", ")[2]) for each in items] == [
        (1, "gpu-1", "exit code 13"),
        (2, "gpu-b", "exit code 3"),
    ]
