"""Which exceptions count as errors of the value that is written or read."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, NoReturn

import pytest

from scaler.errors import DeserializeObjectError, SerializeObjectError, TaskInterrupt
from scaler.pickling.culprits import culprit_in
from scaler.pickling.serialization import DefaultSerializer, Serializer, from_frames, to_frames

DEFAULT = DefaultSerializer()


class Endless(BaseException):
    """A BaseException that is neither an error nor one that Python knows."""


def raise_it(error: BaseException) -> NoReturn:
    raise error


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def press_ctrl_c_and_pass_it_on() -> None:
    try:
        press_ctrl_c()
    except KeyboardInterrupt as error:  # noqa: TRY203 - as code of users does
        raise error  # noqa: TRY201


def frame_of_another_run() -> FrameType:
    return sys._getframe()


class Read:
    """A value that calls a function when it is read."""

    def __init__(self, does: Callable[..., object], *arguments: object) -> None:
        self.made = does, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.made


class Written:
    """A value that calls a function when it is written."""

    def __init__(self, does: Callable[..., object], *arguments: object) -> None:
        self.does, self.arguments = does, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        self.does(*self.arguments)
        return int, ()


class Own(Serializer):
    def serialize(self, obj: Any) -> bytes:
        return pickle.dumps(obj)

    def deserialize(self, payload: bytes) -> Any:
        return pickle.loads(payload)


def read(does: Callable[..., object], *arguments: object) -> object:
    return from_frames(DEFAULT, [pickle.dumps(Read(does, *arguments))])


def write(does: Callable[..., object], *arguments: object) -> object:
    return to_frames(DEFAULT, [Written(does, *arguments)])


@pytest.fixture
def at_alarm() -> Iterator[Callable[[Callable[..., object]], None]]:
    before = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, handler) and None
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("serializer", [DEFAULT, Own()])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, Endless])
def test_an_exception_raised_by_a_value_is_the_error_of_that_value(
    kind: type[BaseException], serializer: Serializer
) -> None:
    name, error = kind.__name__, kind("here")
    with pytest.raises(DeserializeObjectError, match=f"cannot be deserialised here: {name}: {error}") as why_unreadable:
        from_frames(serializer, [pickle.dumps(Read(raise_it, error))])
    assert type(why_unreadable.value.__cause__) is kind
    with pytest.raises(SerializeObjectError, match=f"list.* cannot be serialised: {name}: {error}") as unwritten:
        to_frames(serializer, [Written(raise_it, error)])
    assert unwritten.value.__cause__ is error


def test_the_part_of_a_value_that_raises_is_named() -> None:
    assert culprit_in({"a": 1, "b": [2, Written(raise_it, SystemExit(3))]}).startswith("['b'][1] ")


def test_in_another_thread_a_keyboard_interrupt_is_the_error_of_the_value() -> None:
    caught: list[BaseException] = []

    def read_there() -> None:
        try:
            read(raise_it, KeyboardInterrupt())
        except BaseException as error:  # noqa: BLE001 - it is looked at below
            caught.append(error)

    thread = threading.Thread(target=read_there)
    thread.start()
    thread.join()
    assert type(caught[0]) is DeserializeObjectError


@pytest.mark.parametrize("press", [press_ctrl_c, press_ctrl_c_and_pass_it_on])
@pytest.mark.parametrize("do", [read, write])
def test_ctrl_c_is_not_an_error_of_a_value(do: Callable[..., object], press: Callable[[], None]) -> None:
    with pytest.raises(KeyboardInterrupt):
        do(press)


def test_an_interrupt_that_a_value_kept_and_raises_again_is_an_error_of_that_value() -> None:
    """Such as an exception that was kept, or pickled with its traceback, as tblib does."""
    elsewhere = TracebackType(None, frame_of_another_run(), 0, 1)
    with pytest.raises(SerializeObjectError, match="KeyboardInterrupt: kept"):
        write(raise_it, KeyboardInterrupt("kept").with_traceback(elsewhere))


@pytest.mark.parametrize("do", [read, write])
def test_an_exception_of_a_signal_handler_is_not_an_error_of_a_value(
    do: Callable[..., object], at_alarm: Callable[[Callable[..., object]], None]
) -> None:
    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(5)

    at_alarm(leave)
    with pytest.raises(SystemExit):
        do(signal.raise_signal, signal.SIGALRM)


@pytest.mark.parametrize("do", [read, write])
def test_the_interrupt_of_a_cancelled_task_is_not_an_error_of_a_value(do: Callable[..., object]) -> None:
    with pytest.raises(TaskInterrupt):
        do(raise_it, TaskInterrupt())
