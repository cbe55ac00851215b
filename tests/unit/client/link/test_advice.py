from __future__ import annotations

from pathlib import Path

import pytest

from scaler.client.link.advice import Advice
from scaler.transport.lookup import Lookup
from tests.unit.transport.test_lookup import UNKNOWN


def what_to_check(address: str) -> str:
    return Advice(address, timeout_seconds=60).what_to_check()


def test_it_says_what_may_be_wrong_with_the_address(tmp_path: Path) -> None:
    assert what_to_check("tcp://rome07:1").endswith("and that this machine knows the name 'rome07' and can reach it")
    assert what_to_check("tcp://10.0.0.1:1").endswith(
        "(scaler_scheduler tcp://10.0.0.1:1) and that this machine can reach it"
    )
    assert what_to_check(f"ipc://{tmp_path}/socket").endswith("on this machine")
    assert what_to_check("ipc:///nowhere/socket").endswith("there is no folder /nowhere")


def test_in_a_task_no_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Lookup, "_look")
    Advice(f"tcp://{UNKNOWN}:1", timeout_seconds=60, is_nested=True).find_out()
