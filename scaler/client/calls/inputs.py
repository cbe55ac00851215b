"""Inputs: futures as arguments, whose results stay with the cluster and go to the tasks that need them.

A call with futures among its arguments is sent as a graph of one node; each future is an input of that graph. Made by
the thread that submits; the link's thread records how the task ends. Values are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, NoReturn, Protocol, TypeAlias

from scaler.ids import NO_ID, GraphId, TaskId
from scaler.wire.messages.client import GraphInput, InputKnowledge, TaskResult


class FutureArgumentError(TypeError):
    """A future is an argument of a call that cannot have one, or a part of another value."""


class Input:
    """The result of a task as an argument of other tasks.

    Attributes:
        task_id: the id of the task.
        name: the name of the task.
        arguments: the labels of the task's own future arguments, and their inputs; empty once the task has succeeded.
        result: the end of the task as reported by the scheduler; None: it is open, or failed in another way.
        make_error: makes its error if it failed in another way.
        users: the graphs that need it; some may have ended.
    """

    __slots__ = ("__weakref__", "arguments", "make_error", "name", "result", "task_id", "users")

    def __init__(self, task_id: TaskId, name: str, arguments: Sequence[tuple[str, Input]]) -> None:
        self.task_id = task_id
        self.name = name
        self.arguments = arguments
        self.result: TaskResult | None = None
        self.make_error: Callable[[], BaseException] | None = None
        self.users: dict[GraphId, None] = {}

    def end(self, result: TaskResult) -> None:
        """Record the end of the task."""
        self.result, self.make_error = result, None
        if not result.status:
            self.arguments = ()

    def fail(self, make_error: Callable[[], BaseException]) -> None:
        """Record that there will be no result."""
        self.result, self.make_error = None, make_error

    @property
    def is_open(self) -> bool:
        """Whether its task has not ended."""
        return self.result is None and self.make_error is None

    @property
    def has_failed(self) -> bool:
        """Whether it will never have a value."""
        return self.make_error is not None or (self.result is not None and self.result.status != 0)

    def item(
        self, graph_id: GraphId, position: int, result: TaskResult | None, source: tuple[GraphId, int] | None
    ) -> GraphInput:
        """Return the input as a message item.

        Args:
            graph_id: the id of the graph that needs it.
            position: the position of the input in that graph.
            result: how the task has ended; None: it is open.
            source: graph and position of its task, if that is a node of an open graph.
        """
        where = graph_id, position, self.task_id, *(source or (GraphId(NO_ID), 0))
        if result is None:
            return GraphInput(*where)
        if result.size:
            return GraphInput(*where, InputKnowledge.STORED)
        return GraphInput(*where, InputKnowledge.HERE, result.payload, result.status)


class KeysWithHints(dict[int, str]):
    """The keys of a graph in which some nodes have a hint for their errors.

    Args:
        keys: the keys by the indexes in the ids of the nodes.
        hints: the hints by the keys of the nodes.
    """

    def __init__(self, keys: Mapping[int, str] | Iterable[tuple[int, str]], hints: Mapping[str, str]) -> None:
        super().__init__(keys)
        self.hints = hints


Keys: TypeAlias = Sequence[str] | Mapping[int, str]
"""The keys of the nodes of a graph, by the indexes in their ids."""


class ResultArgument:
    """The interface of a future that can be an argument.

    It is no abstract base class: `isinstance` is called for each argument of each call, and takes several times as long
    for an abstract base class.
    """

    __slots__ = ()
    name: str
    """the name of its task"""
    item_of: tuple[int, object] | None = None
    """the index of its task in a map, and the items if they are known"""
    needs: Sequence[tuple[str, Input]] = ()
    """the labels of its task's own future arguments, and their inputs"""
    keys: Keys = ()
    """the keys of its graph, by the indexes in the ids of its nodes"""
    failed: Any = None
    """the failure of its task and its call, as a `FailedWork`; None unless the scheduler has reported a failure"""
    _input: Input | None = None
    """its result as an argument of other tasks"""
    as_argument: Callable[[object], tuple[Input | None, Any]]
    """Given the link of the submitting client, returns the input for the result; or None and the value, if only this
    process has it. Raises `TypeError` if the future is of another client.
    """

    def __reduce__(self) -> NoReturn:
        raise FutureArgumentError(
            f"the future of task {self.name} cannot be a part of this value: make it an argument of submit, alone or "
            "in a list, tuple, set or dict, or pass its result()"
        )


class EndedFuture(Protocol):
    """A future of either client, whose state can be read."""

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def exception(self) -> BaseException | None: ...


def error_of(future: EndedFuture) -> BaseException:
    """Return the reason why a future has no result, for the tasks that need it."""
    error = None if future.cancelled() else future.exception()
    return CancelledError() if error is None else error


def other_client(name: str) -> TypeError:
    """Return the error for a future of another client."""
    return TypeError(
        f"the future of task {name} belongs to another client, and only a client knows the results of its own tasks: "
        "submit both tasks with one client, or pass future.result()"
    )


def blamed(name: str, arguments: Sequence[tuple[str, Input]]) -> str:
    """Return the task's name for its error: if an input failed, the name of the task that failed first.

    Args:
        name: the name of the task.
        arguments: the labels of its future arguments, and their inputs.
    """
    found = _failed(arguments)
    if found is None:
        return name
    which, failed = found
    first = failed
    while (deeper := _failed(first.arguments)) is not None:
        first = deeper[1]
    how = f"whose result is {which} of task {name}"
    if first is not failed:
        how = f"which task {name} needs for {which}, the result of task {failed.name}"
    return f"{first.name} ({first.task_id.hex()[-8:]}), {how}"


def _failed(arguments: Sequence[tuple[str, Input]]) -> tuple[str, Input] | None:
    return next((each for each in arguments if each[1].has_failed), None)
