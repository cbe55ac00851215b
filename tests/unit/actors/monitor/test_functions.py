from __future__ import annotations

import pytest

from scaler.actors.messages.monitor import Backlog
from scaler.actors.monitor.functions import FunctionTotals
from scaler.actors.objects.object_table import ObjectTable
from scaler.wire.messages.monitor import FUNCTION_ROW
from scaler.wire.messages.worker import AgentState


def report(function: bytes, success: int) -> AgentState:
    return AgentState(functions=FUNCTION_ROW.pack(function, 0, success, 0, 0, 0, 0, *[0] * 32))


def test_the_latest_of_very_many_functions_have_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts of all other functions are summed up in one row, so that none is lost."""
    monkeypatch.setattr("scaler.actors.monitor.functions.KEPT_MOST", 3)
    functions = FunctionTotals(ObjectTable())
    for number, name in enumerate((b"function", b"another1", b"function", b"another2", b"another3")):
        functions.add(report(name, 10**number))
    items, total = functions.items(Backlog())
    assert {each.function: each.success for each in items} == {
        b"function": 101,
        b"another2": 1_000,
        b"another3": 10_000,
        b"": 10,
    }
    assert total == 3
