from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from scaler.client.calls import functions as module
from scaler.client.calls.arguments import ArgumentPacker
from scaler.client.calls.functions import NO_OBJECTS, ClientFunctions, Function
from scaler.client.calls.inputs import Input, ResultArgument
from scaler.client.object_reference import ObjectReference
from scaler.endpoint import Endpoint
from scaler.errors import SerializeObjectError
from scaler.ids import NO_ID, ObjectId, TaskId
from scaler.pickling.serialization import (
    CARRIED_BYTES,
    DefaultSerializer,
    Serializer,
    from_frames,
    function_from_frames,
    plain_block,
    read_arguments,
)
from scaler.wire.messages.client import Task
from scaler.wire.messages.common import InstructionKind

ADDRESS = "tcp://127.0.0.1:1"
SINK: Any = object()
TASK_ID = TaskId(b"t" * 16)


def functions(serializer: Serializer | None = None) -> ClientFunctions:
    serializer = serializer or DefaultSerializer()
    return ClientFunctions(serializer, Endpoint.parse(ADDRESS), ArgumentPacker(serializer, ADDRESS))


@pytest.fixture
def get() -> Callable[[Any], Function]:
    return functions().get


def plain(a: int, b: int = 2, *, c: int = 3) -> int:
    return a + b + c


def needs_keyword(a: int, *, key: int) -> int:
    return a + key


def takes_name(name: str) -> str:
    return name


def anything(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return args, kwargs


class Own(Serializer):
    def serialize(self, obj: Any) -> bytes:
        return repr(obj).encode()

    def deserialize(self, payload: bytes) -> Any:
        return payload


class TestEntry:
    def test_an_entry_is_a_task_with_its_function_and_objects(self, get: Callable[[Any], Function]) -> None:
        function = get(plain)
        entry = function.entry(TASK_ID, SINK, (1, 2), {}, (7, "name", b"options", 3, 4))
        block = plain_block((1, 2))
        assert block is not None
        task = Task(TASK_ID, function.instruction.object_id, block, b"", 7, "name", b"options", 3, owner=4)
        assert entry == (task, SINK, function.instruction, (), ())
        assert entry[3] is NO_OBJECTS

    def test_keywords_and_large_values_are_packed(self, get: Callable[[Any], Function]) -> None:
        task, _, _, objects, references = get(anything).entry(TASK_ID, SINK, (b"x" * 100_000,), {"key": 5})
        assert (objects, references, task.object_ids) == ([], [], b"")
        read = functools.partial(from_frames, DefaultSerializer())
        arguments = read_arguments(task.payload, lambda *frames: read(frames), lambda *_: None, task.frames)
        assert arguments == ([b"x" * 100_000], {"key": 5})

    def test_an_argument_too_large_for_the_call_is_an_object(self, get: Callable[[Any], Function]) -> None:
        task, _, _, objects, _ = get(anything).entry(TASK_ID, SINK, (b"x" * (CARRIED_BYTES + 1),))
        (large,) = objects
        assert large.kind == InstructionKind.CREATE_FOR_TASK
        assert (task.object_ids, task.frames) == (large.object_id, ())

    @pytest.mark.parametrize(
        ("function", "arguments", "keywords"),
        [(plain, (), {}), (plain, (1, 2, 3), {}), (plain, (1,), {"d": 4}), (needs_keyword, (1,), {}), (len, (), {})],
    )
    def test_arguments_that_the_function_does_not_take_are_refused(
        self, get: Callable[[Any], Function], function: Any, arguments: Any, keywords: Any
    ) -> None:
        with pytest.raises(TypeError, match=f"^{function.__name__}: "):
            get(function).entry(TASK_ID, SINK, arguments, keywords)

    def test_references_inside_containers_are_replaced_by_their_values_at_the_worker(
        self, get: Callable[[Any], Function]
    ) -> None:
        reference = ObjectReference("table", ObjectId(b"s" * 16), 5)
        task, _, function, _, references = get(anything).entry(
            TASK_ID, SINK, ([1, reference],), {"key": {2: reference}}
        )
        assert task.object_ids == reference.object_id * 2
        assert references == [reference] * 2
        call = function_from_frames(function.frames)[1]
        read = read_arguments(task.payload, DefaultSerializer().deserialize, lambda _object_id, _is_own: "value")
        assert call(*read[0], **read[1]) == (([1, "value"],), {"key": {2: "value"}})
        assert function.name == get(anything).instruction.name
        again = get(anything).entry(TASK_ID, SINK, ((reference,),))
        assert again[2] is function

    def test_an_error_in_a_call_with_a_nested_reference_names_the_argument(
        self, get: Callable[[Any], Function]
    ) -> None:
        reference = ObjectReference("table", ObjectId(b"s" * 16), 5)
        with pytest.raises(SerializeObjectError, match=r"^plain: argument 2 \('b'\): a value of type generator"):
            get(plain).entry(TASK_ID, SINK, ([reference], (n for n in ())))
        with pytest.raises(
            SerializeObjectError, match=r"^plain: argument 1 \('a'\): .* the reference 'table' is nested"
        ):
            get(plain).entry(TASK_ID, SINK, (functools.partial(print, reference), [reference]))

    def test_a_custom_serializer_packs_all_arguments(self) -> None:
        task = functions(Own()).get(plain).entry(TASK_ID, SINK, (1,))[0]
        assert read_arguments(task.payload, Own().deserialize, lambda object_id, _is_own: object_id) == ([b"1"], {})


class TestChecks:
    @pytest.mark.parametrize(
        ("function", "least", "most"),
        [
            (plain, 1, 2),
            (anything, 0, module.ANY_NUMBER),
            (needs_keyword, module.ANY_NUMBER, 0),
            (len, 1, 1),
            (max, 0, module.ANY_NUMBER),
            (functools.partial(plain, 1), 0, 1),
            (functools.partial(needs_keyword, 1), module.ANY_NUMBER, 0),
        ],
    )
    def test_positional_arguments_are_counted_once(
        self, get: Callable[[Any], Function], function: Any, least: int, most: int
    ) -> None:
        assert (get(function).least, get(function).most) == (least, most)

    def test_a_callable_without_a_signature_takes_anything(self, get: Callable[[Any], Function]) -> None:
        with pytest.raises(ValueError, match="no signature"):
            inspect.signature(max)
        get(max).check((1, 2), {"key": abs})

    @pytest.mark.parametrize("value", [None, 7, "abs"])
    def test_a_function_that_is_not_callable_is_refused(self, get: Callable[[Any], Function], value: Any) -> None:
        with pytest.raises(TypeError, match=r"the first argument must be callable, not .*submit\(fn, x\)"):
            get(value)

    def test_a_function_that_cannot_be_pickled_is_refused(self, get: Callable[[Any], Function]) -> None:
        lines = iter([1])
        generator = (line for line in lines)
        with pytest.raises(SerializeObjectError):
            get(lambda: next(generator))


class TestName:
    def test_the_keyword_name_is_taken_unless_the_function_accepts_it(self, get: Callable[[Any], Function]) -> None:
        for function, taken in ((plain, "mine"), (takes_name, ""), (anything, ""), (max, "")):
            keywords = {"name": "mine"}
            assert get(function).take_name(keywords) == taken
            assert ("name" in keywords) == (not taken)

    @pytest.mark.parametrize("name", [None, "plain"])
    def test_none_and_the_name_of_the_function_set_no_task_name(
        self, get: Callable[[Any], Function], name: Any
    ) -> None:
        keywords = {"name": name}
        assert get(plain).take_name(keywords) == ""
        assert keywords == {}

    def test_a_task_name_must_be_a_str(self, get: Callable[[Any], Function]) -> None:
        with pytest.raises(TypeError, match="7"):
            get(plain).take_name({"name": 7})


class TestRemembering:
    def test_a_function_is_serialised_once_and_named_by_its_content(self, get: Callable[[Any], Function]) -> None:
        assert get(plain) is get(plain)
        instruction = get(plain).instruction
        assert instruction.kind == InstructionKind.CREATE_FUNCTION
        assert instruction.object_id == functions().get(plain).instruction.object_id != NO_ID
        assert function_from_frames(instruction.frames)[1] is plain

    def test_a_changed_closure_is_serialised_again(self, get: Callable[[Any], Function]) -> None:
        count = 1

        def counted() -> int:
            return count

        first = get(counted).instruction
        count = 2
        second = get(counted).instruction
        assert first.object_id != second.object_id
        assert function_from_frames(second.frames)[1]() == 2

    def test_a_prepared_function_belongs_to_one_function_object(self, get: Callable[[Any], Function]) -> None:
        one = get(plain)
        assert one.is_still(plain)
        assert not one.is_still(needs_keyword)

    def test_the_number_of_remembered_functions_is_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "REMEMBERED_FUNCTIONS", 2)
        known = functions()
        first = known.get(plain)
        known.get(needs_keyword)
        assert known.get(plain) is first
        known.get(takes_name)
        assert known.get(plain) is not first


class Future(ResultArgument):
    """The future of a task of any client."""

    name = "f"

    def __init__(self, number: int) -> None:
        self.input = Input(TaskId(bytes([number]) * 16), f"task {number}", ())

    def as_argument(self, _link: object) -> tuple[Input | None, Any]:
        return self.input, None


def test_a_call_with_futures_is_a_task_with_inputs(get: Callable[[Any], Function]) -> None:
    first, second, sink = Future(1), Future(2), Future(3)
    task, _, function, objects, kept = get(plain).entry(TASK_ID, sink, (first,), {"b": second})  # type: ignore[arg-type]
    assert (task.function_id, task.inputs) == (function.object_id, first.input.task_id + second.input.task_id)
    assert sink.needs == [("argument 1", first.input), ("the argument 'b'", second.input)]
    assert (objects, kept) == ([], [first, sink.needs[0], second, sink.needs[1]])


def test_futures_inside_of_containers_are_inputs_of_a_gathering_call(get: Callable[[Any], Function]) -> None:
    first, second, sink = Future(1), Future(2), Future(3)
    of = get(anything)
    task, _, function, *_ = of.entry(TASK_ID, sink, ([1, first], second), {"c": {"k": first}})  # type: ignore[arg-type]
    assert task.function_id == function.object_id != of.instruction.object_id
    assert task.inputs == first.input.task_id + second.input.task_id
    assert sink.needs == [
        ("argument 1[1]", first.input),
        ("argument 2", second.input),
        ("the argument 'c'['k']", first.input),
    ]
    with pytest.raises(SerializeObjectError, match=r"anything: argument 1: .*the future of task f cannot be a part"):
        of.entry(TASK_ID, sink, (functools.partial(plain, first),))  # type: ignore[arg-type]


def test_a_plain_call_changes_nothing_of_its_future(get: Callable[[Any], Function]) -> None:
    sink = Future(3)
    task, *_, kept = get(plain).entry(TASK_ID, sink, (1, 2))  # type: ignore[arg-type]
    assert (task.inputs, kept, sink.needs) == (b"", (), ())
