from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scaler import AsyncClient, Serializer
from scaler.client.maps import map_run
from scaler.client.outcome import read_value
from scaler.pickling.serialization import Frames, size_of
from tests.unit.client.aio.conftest import Use

LARGE_BYTES = 2_000_000


async def all_of(values: AsyncIterator[Any]) -> list[Any]:
    return [value async for value in values]


async def waits_for_a_cancelled_future() -> AsyncIterator[tuple[int]]:
    yield (-1,)
    cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cancelled.cancel()
    await cancelled


def test_an_iterator_that_is_cancelled_cancels_its_map(use: Use) -> None:
    async def test(client: AsyncClient) -> None:
        with pytest.raises(asyncio.CancelledError):
            await client.map(abs, waits_for_a_cancelled_future())
        values = client.map_unordered(abs, waits_for_a_cancelled_future())
        with pytest.raises(asyncio.CancelledError):
            await all_of(values)

    use(test)


def test_a_map_that_ends_early_leaves_no_warning(use: Use) -> None:
    async def items() -> AsyncIterator[tuple[Any]]:
        yield (1,)
        yield ("no number",)
        await asyncio.Event().wait()

    async def test(client: AsyncClient) -> None:
        with pytest.raises(TypeError):
            await client.map(abs, items())

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(test)
    assert [str(each.message) for each in caught] == []


@pytest.mark.parametrize("name", ["map", "map_unordered"])
def test_large_results_of_maps_are_read_in_another_thread(use: Use, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    threads: list[int] = []

    def noted(serializer: Serializer, frames: Frames) -> Any:
        if size_of(frames) >= LARGE_BYTES:
            threads.append(threading.get_ident())
        return read_value(serializer, frames)

    async def test(client: AsyncClient) -> None:
        found = getattr(client, name)(bytes, [(LARGE_BYTES,)] * 3)
        values = await found if name == "map" else [value async for value in found]
        assert [len(value) for value in values] == [LARGE_BYTES] * 3

    monkeypatch.setattr(map_run, "read_value", noted)
    use(test)
    assert len(threads) == 3
    assert threading.get_ident() not in threads
