from __future__ import annotations

import pickle
import traceback

import pytest

from scaler import errors
from scaler.errors import ObjectTooLargeError, RemoteTraceback, ScalerError

PUBLIC = [
    "ClientCancelledException",
    "ClientQuitException",
    "ClientShutdownException",
    "DeserializeObjectError",
    "DisconnectedError",
    "MissingObjects",
    "NoWorkerError",
    "ProcessorDiedError",
    "TaskNotFoundError",
    "WorkerDiedError",
]
SAID: dict[type[Exception], tuple[object, ...]] = {
    ObjectTooLargeError: ("argument 1", 1001, "the scheduler", 1000, "send less")
}
"""what errors are made of that have more than a text"""
ALL = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_errors_have_one_base(name: str) -> None:
    assert issubclass(getattr(errors, name), ScalerError)


def test_every_error_but_remote_traceback_is_a_scaler_error() -> None:
    assert [error for error in ALL if not issubclass(error, ScalerError)] == [RemoteTraceback]


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_pickled_errors_keep_their_text(error: type[Exception]) -> None:
    made = error(*SAID.get(error, ("why",)))
    copy = pickle.loads(pickle.dumps(made))
    assert type(copy) is error
    assert str(copy) == str(made)
    assert vars(copy) == vars(made)


def test_the_error_of_a_large_value_names_whose_memory_is_short_and_the_remedy() -> None:
    error = ObjectTooLargeError("argument 1", 1001, "the host", 1000, "send less")
    assert str(error) == (
        "argument 1 is too large: it has 1,001 bytes, and the host takes at most 1,000 bytes for one value: send less"
    )
    unknown = ObjectTooLargeError("it", 5, "the host", None, "send less")
    assert str(unknown) == "it is too large: it has 5 bytes, and the host has no room for it: send less"
    assert error.renamed("f: argument 1").args == ("f: argument 1", *error.args[1:])


def test_remote_traceback_is_shown_above_the_exception_of_the_task() -> None:
    error = ValueError("the task's own text")
    error.__cause__ = RemoteTraceback("Traceback of the worker:\n  in f")
    shown = "".join(traceback.format_exception(error))
    assert shown.index("in f") < shown.index("ValueError: the task's own text")
    assert "\\n" not in shown


def test_a_pickled_remote_traceback_keeps_its_text() -> None:
    assert pickle.loads(pickle.dumps(RemoteTraceback("x"))).text == "x"
