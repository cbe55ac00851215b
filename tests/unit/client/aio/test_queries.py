"""The names and arguments that both clients and both kinds of futures have in common."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from scaler import AsyncClient, Client
from scaler.client.aio.caller import AsyncClientWithOptions
from scaler.client.aio.future import AsyncFuture
from scaler.client.caller import ClientWithOptions
from scaler.client.future import ScalerFuture
from scaler.config import ConfigError

PAIRS = {
    # the clients; what only the first has; what only the second has
    (Client, AsyncClient): ({"as_executor"}, {"connect"}),
    (ClientWithOptions, AsyncClientWithOptions): ({"as_executor"}, set()),
}
ARGUMENTS = {
    "map": {"progress", "timeout", "window"},  # docs/howto/asyncio.md says so
    "starmap": {"progress", "timeout", "window"},
    "map_unordered": {"timeout"},
    "get": {"block"},
    "submit": {"profiling"},  # the asyncio client has `options(profiling=True)` only
}


def names(of: type) -> set[str]:
    hidden = getattr(inspect.getmodule(of), "_INTERNAL", frozenset())
    return {name for name in dir(of) if not name.startswith("_") and hasattr(of, name)} - hidden


def arguments(method: Any) -> set[str]:
    return set(inspect.signature(method).parameters) - {"args", "kwargs", "fn", "iterable", "items", "others"}


@pytest.mark.parametrize("pair", PAIRS)
def test_both_clients_have_the_same_calls(pair: tuple[type, type]) -> None:
    one, other = pair
    only_one, only_other = PAIRS[pair]
    assert names(one) - names(other) == only_one
    assert names(other) - names(one) == only_other


@pytest.mark.parametrize("name", sorted(name for name in names(Client) & names(AsyncClient)))
def test_both_clients_take_the_same_arguments(name: str) -> None:
    one, other = getattr(Client, name), getattr(AsyncClient, name)
    if callable(one):
        assert arguments(one) ^ arguments(other) == ARGUMENTS.get(name, set())


def test_both_kinds_of_futures_have_the_same_queries() -> None:
    asked = {"explain", "logs", "name", "profiling_info", "progress", "story"}
    for future in (ScalerFuture, AsyncFuture):
        assert asked - {"name"} <= names(future)


async def ask(call: str, task: object) -> None:
    client = AsyncClient("tcp://127.0.0.1:1")
    try:
        await getattr(client, call)(task)
    finally:
        await client.disconnect()


@pytest.mark.parametrize("call", ["story", "logs"])
@pytest.mark.parametrize("task", [b"short", "text", 5])
def test_queries_about_values_that_are_no_tasks_are_an_error(call: str, task: object) -> None:
    with pytest.raises(ValueError, match="pass the task's future"):
        asyncio.run(ask(call, task))


def test_a_trace_of_a_scheduler_in_this_process_is_refused() -> None:
    async def main() -> None:
        client = AsyncClient("inproc://nowhere")
        try:
            async with client.trace("run.json"):
                pass
        finally:
            await client.disconnect()

    with pytest.raises(ConfigError, match="a trace needs a scheduler in a process of its own"):
        asyncio.run(main())
