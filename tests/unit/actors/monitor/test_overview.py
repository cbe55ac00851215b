from __future__ import annotations

import pytest

from scaler.actors.monitor.overview import Objects
from scaler.actors.objects.object_store import ObjectTable, StoredObject
from scaler.ids import ObjectId


def store(table: ObjectTable, number: int, size: int) -> None:
    table.objects[ObjectId(number.to_bytes(16, "big"))] = StoredObject(f"{size} bytes", [bytes(size)], False)


def test_of_very_many_objects_the_list_is_made_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.actors.monitor.overview.OBJECTS_PER_SECOND", 1)
    table = ObjectTable()
    objects = Objects(table)
    for number in range(3):
        store(table, number, 10 + number)
    assert [each.size_bytes for each in objects.items(0.0)[0]] == [12, 11, 10]
    store(table, 3, 20)
    items, total = objects.items(2.9)
    assert ([each.size_bytes for each in items], total) == ([12, 11, 10], 4)
    assert [each.size_bytes for each in objects.items(3.0)[0]] == [20, 12, 11, 10]
