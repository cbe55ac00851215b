"""Both faces of a client have the same calls: the same names, parameters and types, method by method."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import sys
import types
import typing
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import pytest
import typing_extensions

from scaler import AsyncClient, Client
from scaler.client.aio.caller import AsyncClientWithOptions
from scaler.client.aio.future import AsyncFuture
from scaler.client.aio.job import AsyncFailedRow, AsyncJob
from scaler.client.caller import ClientWithOptions
from scaler.client.future import ScalerFuture
from scaler.client.jobs.job import FailedRow, Job
from scaler.settings.cluster import LocalClusterOptions

PAIRS: dict[tuple[type, type], set[str]] = {
    # The names that one face has alone:
    (Client, AsyncClient): {"connect"},
    (ClientWithOptions, AsyncClientWithOptions): set(),
    (ScalerFuture, AsyncFuture): {
        *dir(concurrent.futures.Future),
        *dir(asyncio.Future),  # its `result` and `exception` do not wait, so they take no time-out
    },
    (Job, AsyncJob): set(),
    (FailedRow, AsyncFailedRow): set(),
}
RENAMED = {"items": "iterable"}
"""parameters of the asyncio face -> the same ones of the other"""
SYNC: dict[Any, Any] = {
    AsyncClientWithOptions: ClientWithOptions,
    AsyncFuture: ScalerFuture,
    AsyncJob: Job,
    AsyncFailedRow: FailedRow,
    AsyncIterator: Iterator,
    AbstractAsyncContextManager: AbstractContextManager,
}
"""types of the asyncio face -> those of the other"""
NAMES = {**vars(typing), **vars(typing_extensions), "LocalClusterOptions": LocalClusterOptions, "Job": Job}
"""the names that modules import only for type checkers"""


def plain(kind: Any) -> Any:
    """Return a type in a form that is equal for equal types of both faces."""
    if isinstance(kind, (TypeVar, ParamSpec, typing.ParamSpecArgs, typing.ParamSpecKwargs)):
        return repr(kind)
    if isinstance(kind, (list, tuple)):
        return [plain(each) for each in kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return SYNC.get(kind, kind)
    if origin in (Awaitable, Coroutine):
        return plain(arguments[-1])
    if origin in (typing.Union, types.UnionType):
        kinds = [each for each in arguments if typing.get_origin(each) is not AsyncIterable]
        return plain(kinds[0]) if len(kinds) == 1 else ("union", sorted(repr(plain(each)) for each in kinds))
    return SYNC.get(origin, origin), plain(arguments)


def type_of(annotation: Any, function: Callable[..., Any]) -> Any:
    if isinstance(annotation, str):
        annotation = eval(annotation, {**NAMES, **inspect.unwrap(function).__globals__})
    return plain(annotation)


def shapes_of(function: Callable[..., Any]) -> list[Any]:
    """Return the parameters and types of a function and of its overloads."""
    versions = [function, *(typing.get_overloads(function) if sys.version_info >= (3, 11) else ())]
    shapes = []
    for each in versions:
        signature = inspect.signature(each)
        parameters = [
            (RENAMED.get(name, name), of.kind, of.default, type_of(of.annotation, each))
            for name, of in signature.parameters.items()
        ]
        shapes.append((parameters, type_of(signature.return_annotation, each)))
    return shapes


def public_names(cls: type) -> set[str]:
    """Return the public names of a class, without foreign words and those that its module has for other modules."""
    hidden: Any = getattr(inspect.getmodule(cls), "_INTERNAL", ())
    return {name for name in dir(cls) if not name.startswith("_") and hasattr(cls, name)}.difference(hidden)


def difference(one: Any, other: Any) -> str:
    """Return what differs between two public attributes; empty if nothing does."""
    if one is other or (one is None and other is None):
        return ""
    if one is None or other is None:
        return f"only one has it: {one} and {other}"
    if isinstance(one, property) and (isinstance(other, property) or inspect.iscoroutinefunction(other)):
        one, other = one.fget, getattr(other, "fget", other)  # reading it may wait, so it may be a coroutine function
    if type(one) is type(other) and not callable(one):
        return ""
    if not (callable(one) and callable(other)):
        return f"only one can be called: {one} and {other}"
    shapes = shapes_of(one), shapes_of(other)
    return "" if shapes[0] == shapes[1] else "{} and {}".format(*shapes)


def differences(one: type, other: type, alone: set[str]) -> dict[str, str]:
    """Return the public names whose parameters or types differ between two classes, with what differs."""
    found = {
        name: difference(*(inspect.getattr_static(cls, name) if hasattr(cls, name) else None for cls in (one, other)))
        for name in (public_names(one) | public_names(other)) - alone
    }
    return {name: text for name, text in found.items() if text}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_both_faces_have_the_same_calls(pair: tuple[type, type]) -> None:
    assert differences(*pair, PAIRS[pair]) == {}


def test_names_that_one_face_has_alone_are_there_and_only_there() -> None:
    for (one, other), alone in PAIRS.items():
        if one is not ScalerFuture:  # all that both classes of the standard library have is among its names
            assert public_names(one) ^ public_names(other) == alone


def test_both_clients_take_the_same_arguments() -> None:
    assert inspect.signature(Client) == inspect.signature(AsyncClient)


def test_both_faces_are_iterated_over_and_entered() -> None:
    for one, other in (("enter", "aenter"), ("exit", "aexit")):
        assert hasattr(Client, f"__{one}__")
        assert hasattr(AsyncClient, f"__{other}__")
    assert hasattr(Job, "__iter__")
    assert hasattr(AsyncJob, "__aiter__")
    assert hasattr(ScalerFuture, "__await__")


def changed(method: Any, **parameters: Any) -> Any:
    """Return a copy of a method, some of whose parameters are replaced."""
    copy = types.FunctionType(method.__code__, method.__globals__, method.__name__)
    signature = inspect.signature(method)
    known = [
        parameter.replace(**parameters.get(name, {}))
        for name, parameter in signature.parameters.items()
        if parameters.get(name, {}) is not None
    ]
    copy.__signature__ = signature.replace(parameters=known, return_annotation=parameters.get("returns", "AsyncJob"))
    return copy


@pytest.mark.parametrize(
    "mutation",
    [
        {"keep_for": None},
        {"keep_for": {"default": 1}},
        {"keep_for": {"annotation": "int"}},
        {"keep_for": {"kind": inspect.Parameter.POSITIONAL_OR_KEYWORD}, "job": None},
        {"name": {"name": "title"}},
        {"items": {"annotation": "AsyncIterable[Sequence[Any]]"}},
        {"returns": "Job | None"},
        None,
    ],
    ids=str,
)
def test_a_changed_method_is_noticed(mutation: dict[str, Any] | None) -> None:
    alone = PAIRS[Client, AsyncClient] | differences(Client, AsyncClient, PAIRS[Client, AsyncClient]).keys()
    public = {name: inspect.getattr_static(AsyncClient, name) for name in public_names(AsyncClient)}
    assert differences(Client, type("Same", (), {**public, "start": changed(public["start"])}), alone) == {}
    start = None if mutation is None else changed(public["start"], **mutation)
    assert differences(Client, type("Changed", (), {**public, "start": start}), alone).keys() == {"start"}
