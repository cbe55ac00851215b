from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from scaler.actors.monitor.overview import CLIENTS_MOST, LargestObjects, client_items
from scaler.actors.objects.object_table import ObjectTable, StoredObject
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import ObjectId

ALICE = Owner("alice")


def store(table: ObjectTable, number: int, size: int) -> None:
    table.objects[ObjectId(number.to_bytes(16, "big"))] = StoredObject(f"{size} bytes", [bytes(size)], False)


def test_the_list_of_very_many_objects_is_made_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.monitor.overview.OBJECTS_PER_SECOND", 1)
    table = ObjectTable()
    objects = LargestObjects(table)
    for number in range(3):
        store(table, number, 10 + number)
    assert [each.size_bytes for each in objects.items(0.0)[0]] == [12, 11, 10]
    store(table, 3, 20)
    items, total = objects.items(2.9)
    assert ([each.size_bytes for each in items], total) == ([12, 11, 10], 4)
    assert [each.size_bytes for each in objects.items(3.0)[0]] == [20, 12, 11, 10]


def test_the_clients_with_most_tasks_are_shown_after_each_scaler_scale() -> None:
    """Another `scaler_scale` takes over the clusters of one that is not in the list."""
    n_clients = CLIENTS_MOST + 50
    ids = [number.to_bytes(16, "big") for number in range(n_clients)]
    labels = [f"a@b {number}" for number in range(n_clients)]
    labels[0] = "scale-00000000 a@b"
    peers = {
        ("client", client_id): SimpleNamespace(
            identity=SimpleNamespace(label=label), connection=b"x", last_received_at=0.0, owner=ALICE
        )
        for client_id, label in zip(ids, labels, strict=True)
    }
    peers["client", b"y" * 16] = SimpleNamespace(
        identity=None, connection=b"", last_received_at=0.0, owner=ALICE
    )  # it has sent no hello
    accounts = SimpleNamespace(is_inside=lambda _client: False, of=lambda _client: 0)
    sources: Any = SimpleNamespace(directory=SimpleNamespace(accounts=accounts, peers=peers))
    backlog: Any = SimpleNamespace(open=Counter({each: number for number, each in enumerate(ids)}), accounts={})
    items, total = client_items(sources, backlog, 1.0)
    assert (len(items), total) == (CLIENTS_MOST, n_clients + 1)
    assert [each.label for each in items[:2]] == [labels[0], labels[-1]]
    assert items[0].owner == "alice"
