from __future__ import annotations

import pytest

from scaler.actors.monitor.names import Names
from scaler.actors.objects.object_table import ObjectTable
from scaler.ids import public_id


def test_short_ids_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.monitor.names.SHORT_MOST", 2)
    names = Names(ObjectTable())
    secrets = [bytes([number]) * 16 for number in range(5)]
    assert [names.short(secret) for secret in secrets] == list(map(public_id, secrets))
    assert len(names._short) <= 2
