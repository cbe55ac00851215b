"""What a failure reports of unreadable values: the function, or the argument and its function."""

from __future__ import annotations

import builtins
import pickle
import sys
import types
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from types import TracebackType
from typing import Any, NoReturn

import pytest

from scaler.errors import DeserializeObjectError
from scaler.ids import ObjectId, TaskId, content_id
from scaler.pickling.serialization import (
    OBJECT,
    VALUE,
    DefaultSerializer,
    argument_block,
    function_to_frames,
    to_frames,
)
from scaler.processor.execution.failure import CHAIN_MOST, FRAMES_MOST, describe_failure, describe_stack
from scaler.processor.execution.one_call import run_call
from scaler.processor.execution.values import LoadedValues
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.worker import RunTask

DEFAULT = DefaultSerializer()
OBJECT_ID = ObjectId(b"1" * 16)
MODULE = "left_at_home"


class Unpickled:
    """A stand-in for a value, given by its pickle."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> Any:
        return pickle.loads, (self.data,)


def add(first: int, rows: Any, *more: Any, **named: Any) -> int:
    return first


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A pickle of a value that needs a module which no longer exists."""
    module = types.ModuleType(MODULE)
    exec("class Row:\n    pass\n", module.__dict__)
    monkeypatch.setitem(sys.modules, MODULE, module)
    data = pickled(module.Row())
    monkeypatch.delitem(sys.modules, MODULE)
    return data


def pickled(value: Any) -> bytes:
    return bytes(to_frames(DEFAULT, value)[0])


def failure_of(
    block: bytes, function: Callable[..., Any] = add, options: bytes = b"", stored: bytes = b""
) -> TaskFailure:
    known = LoadedValues()
    frames = [bytes(frame) for frame in function_to_frames(DEFAULT, function)]
    known.store(content_id(frames), frames)
    known.store(OBJECT_ID, [stored])
    task = RunTask(TaskId(b"t" * 16), 0, 1, content_id(frames), block, b"", options=options)
    return TaskFailure.decode(run_call(task, known).payload)


def text_of(block: bytes, function: Callable[..., Any] = add, options: bytes = b"", stored: bytes = b"") -> str:
    failure = failure_of(block, function, options, stored)
    assert failure.type_name == "scaler.errors.DeserializeObjectError"
    assert f"No module named '{MODULE}'" in failure.traceback
    return failure.text


ONE = argument_block(VALUE, pickled(1))


def test_an_argument_is_named_by_its_number_and_its_name(row: bytes) -> None:
    value = argument_block(VALUE, row)
    assert text_of(ONE + value).startswith(f"argument 2 ('rows') of add() needs the module '{MODULE}', which ")
    assert text_of(ONE + argument_block(VALUE, row, "rows")).startswith("the argument 'rows' of add() needs ")
    assert text_of(ONE + ONE + ONE + value).startswith("argument 4 of add() needs ")
    assert text_of(ONE + value, max).startswith("argument 2 of max() needs ")


def test_an_unreadable_argument_that_is_an_object_is_named(row: bytes) -> None:
    block = argument_block(OBJECT, OBJECT_ID)
    assert text_of(block, stored=row).startswith("argument 1 ('first') of add() needs ")


def test_the_failure_of_a_profiled_task_names_its_function(row: bytes) -> None:
    options = RunOptions(profiling=True).encode()
    assert text_of(argument_block(VALUE, row), options=options).startswith("argument 1 ('first') of add() needs ")


def test_the_failure_of_a_function_that_needs_a_module_names_the_module(row: bytes) -> None:
    def cube(x: int, value: Any) -> int:
        return x**3

    cube.__defaults__ = (Unpickled(row),)
    text = text_of(ONE, cube)
    assert text.startswith(f"the function needs the module '{MODULE}', which this process does not find: ")


def test_a_class_missing_in_its_module_is_attributed_to_another_version(
    row: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, MODULE, types.ModuleType(MODULE))
    text = failure_of(argument_block(VALUE, row)).text
    assert text.startswith("argument 1 ('first') of add() cannot be read by this process: AttributeError: ")
    assert "the module there may be another version" in text


def test_a_write_to_a_shared_value_is_named_as_the_likely_reason() -> None:
    def fails(kind: str) -> None:
        if kind == "read-only":
            memoryview(b"abc")[0] = 1
        raise TypeError("another")

    assert "are shared by the tasks" in failure_of(argument_block(VALUE, pickled("read-only")), fails).traceback
    assert "are shared by the tasks" not in failure_of(argument_block(VALUE, pickled("")), fails).traceback


def test_a_deserialize_error_that_a_task_raises_itself_stays_unchanged() -> None:
    def fails() -> None:
        raise DeserializeObjectError("of the user") from ValueError("why")

    assert failure_of(b"", fails).text == "of the user"


class NeedsTwoError(Exception):
    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"{left} {right}")
        self.left = left


has_groups = pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are of Python 3.11")


def group_of(text: str, *members: BaseException) -> BaseException:
    group: Any = getattr(builtins, "ExceptionGroup")  # noqa: B009 - unknown to Python 3.10
    error: BaseException = group(text, members)
    return error


@has_groups
def test_an_exception_group_keeps_members_with_unusual_constructors() -> None:
    inner: Any = group_of("inner", NeedsTwoError(1, 2), ValueError("3"))
    inner.add_note("a note")
    arrived = pickle.loads(describe_failure(group_of("outer", KeyError(0), inner)).exception)
    first, second = arrived.exceptions
    assert (type(arrived), arrived.message, repr(first)) == (type(inner), "outer", "KeyError(0)")
    assert (second.message, second.__notes__) == ("inner", ["a note"])
    assert [(type(each), str(each)) for each in second.exceptions] == [(NeedsTwoError, "1 2"), (ValueError, "3")]
    assert second.exceptions[0].left == 1


def test_a_traceback_ends_with_the_name_of_the_worker() -> None:
    assert describe_failure(KeyError("a"), "rome07-3").traceback == "KeyError: 'a'\n(on worker rome07-3)\n"
    assert describe_failure(KeyError("a")).traceback == "KeyError: 'a'\n"


class Looking:
    """A result that records the stack while it is pickled."""

    def __init__(self, stacks: list[str]) -> None:
        self._stacks = stacks

    def __reduce__(self) -> Any:
        self._stacks.append(describe_stack(sys._getframe()))
        return int, ()


def test_the_stack_of_a_task_has_no_frames_of_serialization() -> None:
    stacks: list[str] = []
    to_frames(DEFAULT, Looking(stacks))
    assert "in __reduce__" in stacks[0]
    assert "scaler/pickling" not in stacks[0]


# Exceptions that outlive their tasks


class Kept:
    """Exceptions that a module keeps, and raises again in each task."""

    def __init__(self) -> None:
        self.error: BaseException = ValueError("kept")
        self.future = Future[None]()
        self.future.set_exception(self.error)
        self.numbers = count()

    def constant(self) -> NoReturn:
        raise self.error

    def cause(self) -> NoReturn:
        raise KeyError(1) from self.error

    def caught(self) -> NoReturn:
        try:
            raise self.error
        except ValueError as error:
            raise KeyError(1) from error

    def context(self) -> NoReturn:
        try:
            raise KeyError(1)
        except KeyError:
            raise self.error  # noqa: B904 - to have a context

    def of_future(self) -> None:
        self.future.result()

    def member(self) -> NoReturn:
        try:
            raise self.error
        except ValueError as error:
            raise group_of("group", error, error) from None

    def longer_causes(self) -> NoReturn:
        before, self.error = self.error, ValueError(next(self.numbers))
        raise self.error from before

    def longer_contexts(self) -> NoReturn:
        before, self.error = self.error, ValueError(next(self.numbers))
        self.error.__context__ = before
        raise self.error

    def deeper_groups(self) -> NoReturn:
        self.error = group_of("group", self.error, KeyError(1))
        raise self.error


KINDS = [
    Kept.constant,
    Kept.cause,
    Kept.caught,
    Kept.context,
    Kept.of_future,
    Kept.longer_causes,
    Kept.longer_contexts,
    pytest.param(Kept.member, marks=has_groups),
    pytest.param(Kept.deeper_groups, marks=has_groups),
]


class Local:
    """A value that a frame holds."""


def described(fails: Callable[[], Any]) -> tuple[TaskFailure, weakref.ref[Local]]:
    """Describe what a call raises, as a processor does. Return the failure and a weak reference to a value of its
    frame.
    """

    def holds() -> None:
        nonlocal held
        local = Local()
        held = weakref.ref(local)
        fails()

    held = weakref.ref(Local())
    try:
        holds()
    except Exception as error:  # noqa: BLE001 - of each kind
        return describe_failure(error), held
    raise AssertionError("it has not failed")


@pytest.mark.parametrize("fails", KINDS)
def test_a_kept_exception_holds_no_frames_and_each_task_that_raises_it_has_its_own_traceback(
    fails: Callable[[Kept], None],
) -> None:
    kept = Kept()
    texts = []
    for _ in range(3 * CHAIN_MOST):
        failure, held = described(lambda: fails(kept))
        assert held() is None
        assert f"in {fails.__name__}" in failure.traceback
        texts.append(failure.traceback)
    assert len(texts[-1]) <= 1.1 * len(texts[2 * CHAIN_MOST])
    assert kept.error.__traceback__ is None


def test_a_long_chain_of_exceptions_is_cut_at_its_start() -> None:
    kept = Kept()
    for _ in range(CHAIN_MOST - 1):
        text = described(kept.longer_causes)[0].traceback
    assert text.startswith("ValueError: kept\n\nThe above exception was the direct cause")
    assert text.count("ValueError") == CHAIN_MOST
    text = described(kept.longer_causes)[0].traceback
    assert text.startswith(f"(Earlier exceptions are left out: the last {CHAIN_MOST} are shown.)\n\nValueError: 0\n\n")
    assert text.count("ValueError") == CHAIN_MOST


def test_a_cyclic_chain_of_exceptions_is_shown_once() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    text = describe_failure(first).traceback
    assert text.endswith("ValueError: first\n")
    assert text.count("ValueError") == 2


@has_groups
def test_an_exception_group_is_shown_as_in_python() -> None:
    members = [ValueError(number) for number in range(20)]
    members[0].__cause__ = KeyError("why")
    text = describe_failure(group_of("group", *members, group_of("inner", KeyError(1)))).traceback
    assert "ExceptionGroup: group (21 sub-exceptions)" in text
    assert "KeyError: 'why'" in text
    assert "ValueError: 14" in text
    assert "and 6 more exceptions" in text
    nested = group_of("inner", KeyError(1))
    for _ in range(200):
        nested = group_of("outer", nested)
    assert "max_group_depth" in describe_failure(nested).traceback


def test_of_a_deep_recursion_the_last_frames_are_formatted() -> None:
    def fails() -> None:
        raise ValueError("deep")

    frame = sys._getframe()
    error = ValueError("deep")
    try:
        fails()
    except ValueError as raised:
        inner = raised.__traceback__
    for _ in range(100_000):
        inner = TracebackType(inner, frame, frame.f_lasti, frame.f_lineno)
    text = describe_failure(error.with_traceback(inner)).traceback
    # The first three frames of a recursion are shown, besides the frame of `fails` and the one above it.
    assert f"[Previous line repeated {FRAMES_MOST - 5} more times]" in text
    assert text.endswith("ValueError: deep\n")
    assert "in fails" in text


class RefusingError(Exception):
    """An exception whose attributes and methods raise."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(name)

    def __bool__(self) -> NoReturn:
        raise RuntimeError("neither")

    def _refuse(self, *_value: object) -> NoReturn:
        raise RuntimeError("no")

    with_traceback = _refuse


@pytest.mark.parametrize("names", [["__traceback__"], ["__cause__", "__context__", "__suppress_context__"], ["__eq__"]])
def test_an_exception_whose_attributes_raise_holds_no_frame(names: list[str]) -> None:
    own = type("Own", (RefusingError,), {name: property(RefusingError._refuse) for name in names} | {"__hash__": None})
    error = own("odd")

    def fails() -> NoReturn:
        raise error from own("its cause")

    failure, held = described(fails)
    assert held() is None
    assert failure.text == "odd"
    assert "in fails" in failure.traceback
    assert vars(BaseException)["__traceback__"].__get__(error) is None
