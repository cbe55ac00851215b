"""ClientWithOptions: a client whose tasks run with options, as `Client.options` returns it.

Made by the client; uses the client's core. It is cheap to make. Must never: take a keyword argument that the function
might take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any

from scaler.client.calls.options import TaskOptions
from scaler.client.core import Core
from scaler.client.future import ScalerFuture


class ClientWithOptions:
    """Like its client, with options. Safe to use from several threads; can be pickled, like the client.

    Attributes:
        task_options: the options.
    """

    __slots__ = ("_client", "_core", "task_options")

    def __init__(self, client: object, core: Core, task_options: TaskOptions) -> None:
        self._client = client
        self._core = core
        self.task_options = task_options

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return methodcaller("options", self.task_options), (self._client,)

    def __repr__(self) -> str:
        return f"{self._client!r} with {self.task_options!r}"

    def options(
        self,
        options: TaskOptions | None = None,
        /,
        *,
        name: str | None = None,
        priority: int | None = None,
        profiling: bool | None = None,
        at_most_once: bool | None = None,
    ) -> ClientWithOptions:
        """Return this client with more options, as `Client.options` does. Earlier options stay."""
        more = TaskOptions(name=name, priority=priority, profiling=profiling, at_most_once=at_most_once)
        if options is not None:
            more = more.over(options)
        return ClientWithOptions(self._client, self._core, more.over(self.task_options))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ScalerFuture:
        """Like `Client.submit`, but all keyword arguments belong to `fn`."""
        core = self._core
        return core.submit(self._client, fn, args, kwargs, core.terms(self.task_options))

    def map(
        self,
        fn: Callable[..., Any],
        iterable: Iterable[Sequence[Any]],
        *,
        progress: bool = False,
        timeout: float | None = None,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Like `Client.map`."""
        core = self._core
        return core.map(fn, iterable, core.terms(self.task_options), progress, timeout, return_exceptions)

    starmap = map  # noqa: A003 - the name is a public contract

    def map_unordered(
        self,
        fn: Callable[..., Any],
        iterable: Iterable[Sequence[Any]],
        *,
        timeout: float | None = None,
        return_exceptions: bool = False,
        window: int = 1024,
    ) -> Iterator[Any]:
        """Like `Client.map_unordered`."""
        core = self._core
        terms = core.terms(self.task_options)
        return core.map_unordered(fn, iterable, terms, timeout, return_exceptions, window)

    def get(self, graph: Mapping[str, Any], keys: Iterable[str], block: bool = True) -> dict[str, Any]:
        """Like `Client.get`. The options apply to all tasks of the graph."""
        core = self._core
        return core.get(self._client, graph, keys, block, core.terms(self.task_options))
