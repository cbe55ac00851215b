from __future__ import annotations

import pickle
import traceback

import pytest

from scaler import errors
from scaler.errors import RemoteTraceback, ScalerError

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
ALL = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_errors_have_one_base(name: str) -> None:
    assert issubclass(getattr(errors, name), ScalerError)


def test_every_error_but_the_traceback_is_in_the_tree() -> None:
    assert [error for error in ALL if not issubclass(error, ScalerError)] == [RemoteTraceback]


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_errors_travel_with_their_text(error: type[Exception]) -> None:
    copy = pickle.loads(pickle.dumps(error("why")))
    assert type(copy) is error
    assert str(copy) == str(error("why"))


def test_remote_traceback_is_shown_above_the_exception_of_the_task() -> None:
    error = ValueError("the task's own text")
    error.__cause__ = RemoteTraceback("Traceback of the worker:\n  in f")
    shown = "".join(traceback.format_exception(error))
    assert shown.index("in f") < shown.index("ValueError: the task's own text")
    assert "\\n" not in shown


def test_remote_traceback_keeps_its_text_when_it_travels() -> None:
    assert pickle.loads(pickle.dumps(RemoteTraceback("x"))).text == "x"
