"""Faces: both clients behind one surface, that of `AsyncClient`, so that one test function covers both."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from typing import Any, TypeAlias

from scaler import AsyncClient, Client
from scaler.client.aio.job import AsyncJob

SECONDS = 30.0
"""how long a test may take, which is run in a loop"""

CANCELLED = asyncio.CancelledError, concurrent.futures.CancelledError
"""what calls that were cancelled raise: the two classes are unrelated"""

_END = object()


class Awaited:
    """A `Client`, or one of its jobs, whose calls are awaited as those of its counterpart for asyncio.

    A call that may wait runs in a thread. Futures of a `Client` can be awaited anyway.
    """

    def __init__(self, face: Any, counterpart: type = AsyncClient) -> None:
        self._face, self._counterpart = face, counterpart

    def __getattr__(self, name: str) -> Any:
        counterpart = getattr(self._counterpart, name, None)
        if inspect.iscoroutinefunction(counterpart):
            return partial(self._run, name)
        if name in ("map_unordered", "results", "as_completed"):
            return partial(self._iterate, name)
        value = getattr(self._face, name)
        return (lambda *args, **kwargs: Awaited(value(*args, **kwargs))) if name == "options" else value

    async def _run(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            value = getattr(self._face, name)
            return value(*args, **kwargs) if callable(value) else value

        returned = await asyncio.to_thread(run)
        return Awaited(returned, AsyncJob) if name in ("start", "job") else returned

    async def _iterate(self, name: str, /, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        results = await asyncio.to_thread(getattr(self._face, name), *args, **kwargs)
        try:
            while (value := await asyncio.to_thread(next, results, _END)) is not _END:
                yield value
        finally:
            await asyncio.to_thread(results.close)


AnyClient: TypeAlias = AsyncClient | Awaited
Face: TypeAlias = Callable[..., AbstractAsyncContextManager[AnyClient]]
Use: TypeAlias = Callable[[Callable[[AnyClient], Coroutine[Any, Any, None]]], None]


@asynccontextmanager
async def _of_threads(*args: Any, **settings: Any) -> AsyncIterator[Awaited]:
    with Client(*args, **settings) as client:
        yield Awaited(client)


FACES: dict[str, Face] = {"Client": _of_threads, "AsyncClient": AsyncClient}
"""name -> what makes a client for the body of an `async with` statement"""


def user(face: Face, *args: Any, **settings: Any) -> Use:
    """Return a function that runs a test in a loop of its own, with a client made of these arguments."""

    async def with_client(test: Callable[[AnyClient], Coroutine[Any, Any, None]]) -> None:
        async with face(*args, **settings) as client:
            await asyncio.wait_for(test(client), SECONDS)

    return lambda test: asyncio.run(with_client(test))


def with_client(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine function. Its argument `client` is the client of the fixture `use`, in a loop."""

    @wraps(test)
    def run(*args: Any, use: Use, **fixtures: Any) -> None:
        use(lambda client: test(*args, client=client, **fixtures))

    signature = inspect.signature(test)
    parameters = [each.replace(name="use") if each.name == "client" else each for each in signature.parameters.values()]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def link_of(client: AnyClient) -> Any:
    """Return the link of a client of either kind."""
    return client._connected()._core.link if isinstance(client, AsyncClient) else client._face._core.link


async def ended(*futures: Any) -> None:
    """Wait until futures of either kind have ended, and read none of them."""
    if isinstance(futures[0], asyncio.Future):
        await asyncio.wait(futures)
    else:
        await asyncio.to_thread(concurrent.futures.wait, futures)


async def exception_of(future: Any) -> BaseException | None:
    """Wait for the end of a future of either kind, and return its exception."""
    await ended(future)
    error: BaseException | None = future.exception()
    return error


class ClosedItems:
    """An iterator of items that records whether it was closed."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.is_closed = False
        self._items = iter(items)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._items)

    def close(self) -> None:
        self.is_closed = True
