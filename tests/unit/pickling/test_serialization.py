from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.errors import DeserializeObjectError, SerializeObjectError
from scaler.ids import ObjectId, content_id
from scaler.pickling.serialization import (
    INLINE_BYTES,
    OBJECT,
    OUT_OF_BAND_BYTES,
    OWN_OBJECT,
    RESULT,
    VALUE,
    DefaultSerializer,
    Serializer,
    argument_block,
    exception_from_parts,
    from_frames,
    function_from_frames,
    function_to_frames,
    plain_block,
    put_results,
    read_arguments,
    result_argument,
    size_of,
    to_frames,
)
from tests.support.examples import examples

DEFAULT = DefaultSerializer()

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary()
)
hashable = st.recursive(scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4), max_leaves=8)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(hashable, inner, max_size=5)
        | st.tuples(inner, inner)
        | st.sets(hashable, max_size=5)
    ),
    max_leaves=30,
)


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


class Shouting(Serializer):
    def __init__(self, mark: str = "!") -> None:
        self.mark = mark

    def serialize(self, obj: Any) -> bytes:
        return pickle.dumps((self.mark, obj))

    def deserialize(self, payload: bytes) -> Any:
        mark, obj = pickle.loads(payload)
        assert mark == self.mark
        return obj


class Unreadable:
    def __reduce__(self) -> Any:
        return int, ("not a number",)


# Values


@given(values)
def test_a_value_survives_serialization(value: Any) -> None:
    assert from_frames(DEFAULT, to_frames(DEFAULT, value)) == value
    assert DEFAULT.deserialize(DEFAULT.serialize(value)) == value
    assert from_frames(Shouting(), to_frames(Shouting(), value)) == value


@given(values)
def test_the_fast_path_returns_the_same_value_as_cloudpickle(value: Any) -> None:
    frames = to_frames(DEFAULT, value)
    if len(frames) == 1:
        assert pickle.loads(frames[0]) == pickle.loads(cloudpickle.dumps(value, protocol=5))


@given(scalars)
def test_one_plain_value_has_the_same_bytes_as_with_cloudpickle(value: Any) -> None:
    assert DEFAULT.serialize(value) == cloudpickle.dumps(value, protocol=5)


def test_classes_of_main_are_pickled_by_value_inside_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Point, "__module__", "__main__")
    for value in ([Point(3)], {"p": Point(3)}, (Point,), {Point(3)}):
        data = to_frames(DEFAULT, value)[0]
        assert b"__create__" in bytes(data) or b"_make_skeleton_class" in bytes(data)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_large_buffers_stay_out_of_the_pickle(kind: type) -> None:
    value = kind(b"x" * (2 * OUT_OF_BAND_BYTES))
    frames = to_frames(DEFAULT, value)
    if kind is bytes:
        assert [memoryview(frame).nbytes > OUT_OF_BAND_BYTES for frame in frames] == [False, True]
    assert size_of(frames) >= len(value)
    back = from_frames(DEFAULT, [bytes(frame) for frame in frames])
    assert back == value
    assert type(back) is kind


def test_errors_of_serialisation_name_the_reason() -> None:
    with pytest.raises(SerializeObjectError, match="generator"):
        to_frames(DEFAULT, (n for n in ()))
    with pytest.raises(DeserializeObjectError, match="ValueError"):
        from_frames(DEFAULT, to_frames(DEFAULT, Unreadable()))
    with pytest.raises(DeserializeObjectError):
        from_frames(DEFAULT, [b""])


def test_the_error_for_a_deeply_nested_value_names_the_reason() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(SerializeObjectError, match=r"^a value of type list .*: it is nested too deeply"):
        to_frames(DEFAULT, nested)


class Careless(Serializer):
    """A serializer that returns the value it was made with."""

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def serialize(self, obj: Any) -> bytes:
        return self.returned

    def deserialize(self, payload: bytes) -> Any:
        return payload


@pytest.mark.parametrize("returned", ["text", None, 3, [b"bytes"]])
def test_the_error_names_a_serializer_that_does_not_return_bytes(returned: Any) -> None:
    with pytest.raises(SerializeObjectError, match=f"Careless.serialize returned {type(returned).__name__}, not bytes"):
        to_frames(Careless(returned), 1)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_serializer_may_return_any_buffer_and_reuse_it(kind: Any) -> None:
    returned = bytearray(b"data")
    frames = to_frames(Careless(returned if kind is bytearray else kind(returned)), 1)
    returned[:] = b"gone"
    assert frames == [b"data"]


# Blocks of arguments


@examples(30)
@given(st.lists(values, max_size=5), st.dictionaries(st.text(min_size=1), values, max_size=4))
def test_a_block_of_arguments_survives_serialization(positional: list[Any], keywords: dict[str, Any]) -> None:
    named = [("", value) for value in positional] + list(keywords.items())
    block = b"".join(argument_block(VALUE, DEFAULT.serialize(value), name) for name, value in named)
    assert read_arguments(block, DEFAULT.deserialize, lambda _id, _is_own: None) == (positional, keywords)


@given(st.lists(scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=3), scalars), max_size=8))
def test_a_plain_block_reads_as_a_usual_block_and_is_hardly_longer(arguments: list[Any]) -> None:
    usual = b"".join(argument_block(VALUE, DEFAULT.serialize(value)) for value in arguments)
    block = plain_block(arguments)
    if block is None:
        assert len(usual) > INLINE_BYTES
    else:
        found, _ = read_arguments(block, DEFAULT.deserialize, lambda _id, _is_own: None)
        assert (repr(found), len(block) <= len(usual) + 5) == (repr(arguments), True)


@pytest.mark.parametrize(("value", "n_bytes"), [(5, 8), (70_000, 11), (1.5, 15), (None, 7), (b"five!", 15), ([5], 19)])
def test_a_plain_call_has_the_expected_number_of_bytes(value: object, n_bytes: int) -> None:
    assert len(plain_block([value]) or b"") == n_bytes


@pytest.mark.parametrize(("is_whole", "value"), [(True, [1]), (True, {1: 2}), (False, [1]), (True, "text")])
def test_no_two_arguments_of_a_block_share_a_mutable_object(is_whole: bool, value: Any) -> None:
    block = plain_block((value, 0, value), is_whole)
    assert block is not None
    (one, zero, two), keywords = read_arguments(block, DEFAULT.deserialize, lambda _id, _is_own: None)
    assert (one, zero, two, keywords) == (value, 0, value, {})
    assert one is not two or isinstance(value, str), "a str is immutable"


def test_a_block_of_one_pickle_names_no_results() -> None:
    block = plain_block((1, 2))
    assert block is not None
    assert put_results(block, lambda position: pytest.fail(str(position))) == (block, b"")


@pytest.mark.parametrize(
    "arguments", [[[Point(1)]], [[[[[1]]]]], [Point(1)], [b"x" * INLINE_BYTES], [["x" * INLINE_BYTES]]]
)
def test_plain_block_returns_none_for_arguments_that_are_not_plain(arguments: list[Any]) -> None:
    assert plain_block(arguments) is None


@given(st.binary(min_size=16, max_size=16))
def test_objects_in_a_block_are_requested_by_their_ids(object_id: bytes) -> None:
    block = argument_block(OBJECT, object_id) + argument_block(VALUE, DEFAULT.serialize(1), "b")
    block += argument_block(OWN_OBJECT, object_id, "own")
    positional, keywords = read_arguments(block, DEFAULT.deserialize, lambda found, is_own: (found, is_own))
    assert positional == [(ObjectId(object_id), False)]
    assert keywords == {"b": 1, "own": (ObjectId(object_id), True)}


# Functions


@pytest.mark.parametrize("serializer", [DEFAULT, Shouting("?")])
def test_a_function_is_sent_with_its_serializer(serializer: Serializer) -> None:
    back, function = function_from_frames(function_to_frames(serializer, size_of))
    assert type(back) is type(serializer)
    assert function([b"ab"]) == 2
    assert back.deserialize(serializer.serialize(1)) == 1


def test_the_id_of_content_depends_on_where_its_parts_end() -> None:
    assert content_id([b"ab", b"c"]) != content_id([b"a", b"bc"])
    assert content_id([b"ab"]) == content_id([memoryview(b"ab")])


class TestPutResults:
    def test_results_replace_their_positions_in_a_block(self) -> None:
        block = argument_block(VALUE, b"first") + result_argument(3) + result_argument(1) + result_argument(3)
        results = {1: (OBJECT, b"i" * 16), 3: (VALUE, b"the third")}
        made, object_ids = put_results(block, results.__getitem__)
        expected = [(VALUE, b"first"), results[3], results[1], results[3]]
        assert made == b"".join(argument_block(kind, data) for kind, data in expected)
        assert object_ids == b"i" * 16

    def test_a_name_stays_with_its_argument(self) -> None:
        named = argument_block(RESULT, (2).to_bytes(4, "little"), "größe")
        made, _ = put_results(named, lambda position: (VALUE, b"x" * position))
        assert made == argument_block(VALUE, b"xx", "größe")

    def test_a_block_without_positions_stays_unchanged(self) -> None:
        block = argument_block(VALUE, b"first") + argument_block(OBJECT, b"i" * 16, "name")
        assert put_results(block, lambda _position: (VALUE, b"never")) == (block, b"")
        assert put_results(b"", lambda _position: (VALUE, b"never")) == (b"", b"")

    @given(st.binary(max_size=60))
    def test_random_bytes_are_a_block_or_raise_value_error(self, block: bytes) -> None:
        try:
            put_results(block, lambda _position: (VALUE, b""))
        except ValueError:
            return


class CodeError(OSError):
    def __init__(self, code: int) -> None:
        super().__init__(code, "that code", "a file")
        self.code = code


@pytest.mark.parametrize("error", [ValueError("one", 2), KeyError("x"), CodeError(2)], ids=repr)
def test_an_exception_is_rebuilt_from_its_parts(error: BaseException) -> None:
    copy = exception_from_parts(type(error), error.args, error.__dict__)
    assert (type(copy), copy.args, copy.__dict__) == (type(error), error.args, error.__dict__)
    assert str(error.args[0]) in str(copy)
