"""Queries of an asyncio client."""

from __future__ import annotations

import asyncio

import pytest

from scaler import AsyncClient
from scaler.config import ConfigError


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
