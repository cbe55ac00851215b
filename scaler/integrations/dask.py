"""Dask collections on Scaler: `dask.config.set(scheduler=scaler.integrations.dask.get(client))`.

Translates a dask graph, after dask's own optimisation, into a graph for `Client.get`. Works with dask 2024.12 and
later, whose graphs consist of task objects.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Protocol

from scaler.integrations import with_cure


class _Gets(Protocol):
    def get(self, graph: Mapping[str, Any], keys: Any, block: bool = True) -> dict[str, Any]: ...


def get(client: _Gets) -> Callable[..., Any]:
    """Return a dask scheduler that runs graphs with `client`, which may have options (`client.options(priority=1)`).

    Raises:
        ImportError: if dask is not installed, or older than 2024.12.
    """
    try:
        from dask._task_spec import convert_legacy_graph  # noqa: PLC0415 - an extra; what dask's own schedulers use
        from dask.utils import ensure_dict  # noqa: PLC0415
    except ImportError as error:
        raise with_cure(error, "dask") from error

    def run(graph: Any, keys: Any, **_options: Any) -> Any:
        """Return the values of keys of a dask graph. Nested lists of keys give nested tuples of values."""
        if hasattr(graph, "__dask_graph__"):
            graph = graph.__dask_graph__()
        tasks = convert_legacy_graph(ensure_dict(graph))
        names = _names(tasks)
        wanted = dict.fromkeys(_flat(keys))
        translated = {name: _translated(tasks[key], names) for key, name in names.items()}
        values = client.get(translated, [names[key] for key in wanted])
        return _in_shape(keys, {key: values[names[key]] for key in wanted})

    return run


def _names(keys: Iterable[Hashable]) -> dict[Hashable, str]:
    """Return a unique text for each key, which names the key in errors."""
    names = {key: str(key) for key in keys}
    if len(set(names.values())) < len(names):  # `1` and `"1"` are two keys
        names = {key: f"{name} ({number})" for number, (key, name) in enumerate(names.items())}
    return names


def _translated(task: Any, names: Mapping[Hashable, str]) -> tuple[Any, ...]:
    """Return a dask task as a call of a graph for `Client.get`: its arguments are the task and the needed nodes."""
    needs = tuple(task.dependencies)
    return (_run, _Literal((task, needs)), *(names[key] for key in needs))


class _Literal(tuple[Any, ...]):
    """A dask task and the keys that it needs, as a literal of a graph. A plain tuple could be taken for a call."""

    __slots__ = ()


def _run(literal: _Literal, *values: Any) -> Any:
    task, needs = literal
    return task(dict(zip(needs, values, strict=True)))


def _flat(keys: Any) -> list[Hashable]:
    if isinstance(keys, list):
        return [key for part in keys for key in _flat(part)]
    return [keys]


def _in_shape(keys: Any, values: Mapping[Hashable, Any]) -> Any:
    if isinstance(keys, list):
        return tuple(_in_shape(part, values) for part in keys)
    return values[keys]
