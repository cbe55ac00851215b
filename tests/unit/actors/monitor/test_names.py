from __future__ import annotations

import pytest

from scaler.actors.monitor.names import Names
from scaler.actors.objects.object_table import ObjectTable
from scaler.ids import public_id


def test_the_number_of_remembered_short_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.monitor.names.SHORT_MOST", 2)
    names = Names(ObjectTable())
    secrets = [bytes([number]) * 16 for number in range(5)]
    assert [names.short(secret) for secret in secrets] == list(map(public_id, secrets))
    assert len(names._short) <= 2
