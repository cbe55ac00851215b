"""Calls: the part of an asyncio client that its calls use, with or without options.

Must never: hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from scaler.client.aio.future import AsyncFuture
from scaler.client.aio.link import AsyncLink
from scaler.client.calls.functions import Terms
from scaler.client.calls.maker import CallMaker
from scaler.client.calls.options import TaskOptions


class Calls(Protocol):
    """The part of an asyncio client that calls use."""

    def maker(self) -> CallMaker: ...

    def connected(self) -> AsyncLink: ...

    def submit_call(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], terms: Terms
    ) -> AsyncFuture[Any]: ...

    def call_by_name(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], options: TaskOptions
    ) -> AsyncFuture[Any]: ...

    async def get_values(self, graph: Mapping[str, Any], keys: list[str], terms: Terms) -> dict[str, Any]: ...
