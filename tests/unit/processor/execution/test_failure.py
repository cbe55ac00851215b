"""What a failure says of values that cannot be read: the function, or which argument of which function."""

from __future__ import annotations

import builtins
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

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
from scaler.processor.execution.failure import describe_failure, describe_stack
from scaler.processor.execution.one_call import run_call
from scaler.processor.execution.values import Values
from scaler.wire.codec.structs import RunOptions, TaskFailure
from scaler.wire.messages.worker import RunTask

DEFAULT = DefaultSerializer()
OBJECT_ID = ObjectId(b"1" * 16)
MODULE = "left_at_home"


class Unpickled:
    """In the place of a value: its pickle."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> Any:
        return pickle.loads, (self.data,)


def add(first: int, rows: Any, *more: Any, **named: Any) -> int:
    return first


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A pickle of a value, for which a module is needed that is not here any more."""
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
    known = Values()
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


def test_an_argument_that_is_an_object_is_named_too(row: bytes) -> None:
    block = argument_block(OBJECT, OBJECT_ID)
    assert text_of(block, stored=row).startswith("argument 1 ('first') of add() needs ")


def test_a_profiled_task_has_the_name_of_its_function(row: bytes) -> None:
    options = RunOptions(profiling=True).encode()
    assert text_of(argument_block(VALUE, row), options=options).startswith("argument 1 ('first') of add() needs ")


def test_a_function_that_needs_a_module_says_so(row: bytes) -> None:
    def cube(x: int, value: Any) -> int:
        return x**3

    cube.__defaults__ = (Unpickled(row),)
    text = text_of(ONE, cube)
    assert text.startswith(f"the function needs the module '{MODULE}', which this process does not find: ")


def test_a_class_that_the_module_does_not_have_is_blamed_on_its_version(
    row: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, MODULE, types.ModuleType(MODULE))
    text = failure_of(argument_block(VALUE, row)).text
    assert text.startswith("argument 1 ('first') of add() cannot be read by this process: AttributeError: ")
    assert "the module there may be another version" in text


def test_a_value_that_is_shared_is_named_as_the_likely_reason() -> None:
    def fails(kind: str) -> None:
        if kind == "read-only":
            memoryview(b"abc")[0] = 1
        raise TypeError("another")

    assert "are shared by the tasks" in failure_of(argument_block(VALUE, pickled("read-only")), fails).traceback
    assert "are shared by the tasks" not in failure_of(argument_block(VALUE, pickled("")), fails).traceback


def test_an_error_of_reading_that_a_task_raises_itself_stays_as_it_is() -> None:
    def fails() -> None:
        raise DeserializeObjectError("of the user") from ValueError("why")

    assert failure_of(b"", fails).text == "of the user"


class NeedsTwoError(Exception):
    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"{left} {right}")
        self.left = left


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are of Python 3.11")
def test_a_group_arrives_with_members_whose_constructors_take_other_arguments() -> None:
    group = getattr(builtins, "ExceptionGroup")  # noqa: B009 - unknown to Python 3.10
    inner = group("inner", [NeedsTwoError(1, 2), ValueError("3")])
    inner.add_note("a note")
    arrived = pickle.loads(describe_failure(group("outer", [KeyError(0), inner])).exception)
    first, second = arrived.exceptions
    assert (type(arrived), arrived.message, repr(first)) == (group, "outer", "KeyError(0)")
    assert (second.message, second.__notes__) == ("inner", ["a note"])
    assert [(type(each), str(each)) for each in second.exceptions] == [(NeedsTwoError, "1 2"), (ValueError, "3")]
    assert second.exceptions[0].left == 1


def test_a_traceback_ends_with_the_worker() -> None:
    assert describe_failure(KeyError("a"), "rome07-3").traceback == "KeyError: 'a'\n(on worker rome07-3)\n"
    assert describe_failure(KeyError("a")).traceback == "KeyError: 'a'\n"


class Looking:
    """A result that notes the stack while it is pickled."""

    def __init__(self, stacks: list[str]) -> None:
        self._stacks = stacks

    def __reduce__(self) -> Any:
        self._stacks.append(describe_stack(sys._getframe()))
        return int, ()


def test_the_stack_of_a_task_has_no_frame_of_what_reads_arguments_and_writes_results() -> None:
    stacks: list[str] = []
    to_frames(DEFAULT, Looking(stacks))
    assert "in __reduce__" in stacks[0]
    assert "scaler/pickling" not in stacks[0]
