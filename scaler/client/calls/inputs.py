"""Inputs: futures as arguments, whose results stay with the cluster and go to the tasks that need them.

A call with futures among its arguments is sent as a task that names the tasks of these futures as its inputs. The
submitting thread makes an `Input` for each future. The link's thread records in it how the task of the future ended. No
value is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, NoReturn, Protocol, TypeAlias

from scaler.client.object_reference import NestedReferenceError
from scaler.ids import TaskId
from scaler.wire.messages.client import TaskResult


class Input:
    """The result of a task as an argument of other tasks.

    Attributes:
        arguments: the labels and inputs of the futures among the task's arguments; empty once the task has succeeded.
        result: the result or failure that the scheduler reported; None if it has reported neither.
        make_error: makes the error of the task, if the task failed and the scheduler did not report it; otherwise None.
    """

    __slots__ = ("__weakref__", "arguments", "make_error", "name", "result", "task_id")

    def __init__(self, task_id: TaskId, name: str, arguments: Sequence[tuple[str, Input]]) -> None:
        self.task_id = task_id
        self.name = name
        self.arguments = arguments
        self.result: TaskResult | None = None
        self.make_error: Callable[[], BaseException] | None = None

    def end(self, result: TaskResult) -> None:
        """Record the end of the task, as reported by the scheduler."""
        self.result, self.make_error = result, None
        if not result.status:
            self.arguments = ()

    def fail(self, make_error: Callable[[], BaseException]) -> None:
        """Record that the task will have no result."""
        self.result, self.make_error = None, make_error

    @property
    def is_open(self) -> bool:
        """Whether the task has not ended."""
        return self.result is None and self.make_error is None

    @property
    def has_failed(self) -> bool:
        """Whether the task has ended without a value."""
        return self.make_error is not None or (self.result is not None and self.result.status != 0)


class KeysWithHints(dict[int, str]):
    """The keys of a graph's nodes, and hints for some nodes. A hint is a text that is added to the errors of its node.

    Args:
        keys: the key of each node, by the index that is part of the node's id.
        hints: the hints, by the keys of the nodes.
    """

    def __init__(self, keys: Mapping[int, str] | Iterable[tuple[int, str]], hints: Mapping[str, str]) -> None:
        super().__init__(keys)
        self.hints = hints


Keys: TypeAlias = Sequence[str] | Mapping[int, str]
"""The key of each node of a graph, by the index that is part of the node's id."""


class ResultArgument:
    """The base class of futures that can be arguments.

    It is not abstract, because `isinstance`, which each argument of a call needs, is slow for abstract classes.
    """

    __slots__ = ()
    name: str
    """the name of the task of this future"""
    needs: Sequence[tuple[str, Input]] = ()
    """the labels and the inputs of the futures among the arguments of the task"""
    keys: Keys = ()
    """the key of each node of the future's graph, by the index that is part of the node's id"""
    failed: Any = None
    """the failed result and the call of the task, as a `FailedWork`; None unless the scheduler reported a failure"""
    _input: Input | None = None
    """the result of this future as an argument of other tasks; None until the future is first an argument"""
    as_argument: Callable[[object], tuple[Input | None, Any]]
    """Takes the link of the submitting client. Returns the `Input` for the result of this future, and None. If only
    this process has the result, returns None and the value. Raises `TypeError` if the future is of another client.
    """

    def __reduce__(self) -> NoReturn:
        raise NestedReferenceError(
            f"the future of task {self.name} cannot be a part of this value: make it an argument of submit or map, "
            "alone or in a list, tuple, set or dict, or pass its result()"
        )


class EndedFuture(Protocol):
    """The methods of a `ScalerFuture` or an `AsyncFuture` that tell whether and how it has ended."""

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def exception(self) -> BaseException | None: ...


def error_of(future: EndedFuture) -> BaseException:
    """Return the error of a future without a result, for the tasks that need the result."""
    error = None if future.cancelled() else future.exception()
    return CancelledError() if error is None else error


def other_client(name: str) -> TypeError:
    """Return the error for an argument that is a future of another client."""
    return TypeError(
        f"the future of task {name} belongs to another client, and only a client knows the results of its own tasks: "
        "submit both tasks with one client, or pass future.result()"
    )


def blamed(name: str, arguments: Sequence[tuple[str, Input]]) -> str:
    """Return the task that an error of the task `name` blames: the input that failed first, otherwise `name`.

    Args:
        arguments: the labels and the inputs of the futures among the arguments of the task `name`.
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
