"""Serialization: objects to bytes and back, for clients and processors only.

A small value is one byte string. A large value is a list of frames: the pickle, then the out-of-band buffers of pickle
protocol 5, so that large arrays are never copied into a pickle.

A call is sent as one block: one pickle if all arguments are plain and positional; otherwise a list, in which each
argument has a kind, a keyword, and its bytes, number of frames or object id (`protocol/README.md`).

The modules for pickling are imported at their first use, because a scheduler pickles nothing.
"""

from __future__ import annotations

import abc
import json
import pickle
import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scaler.errors import DeserializeObjectError, ObjectTooLargeError, SerializeObjectError
from scaler.ids import ID_BYTES, ObjectId
from scaler.interruptions import is_interruption
from scaler.texts import described

if TYPE_CHECKING:
    from scaler.pickling.versions import Versions

Buffer: TypeAlias = bytes | bytearray | memoryview | pickle.PickleBuffer
Frames: TypeAlias = Sequence[Buffer]

INLINE_BYTES = 16 * 1024
"""The size up to which a value is sent in the header of a message. A larger one is sent as frames, or is an object."""

FRAME_BYTES = 8 * 1024
"""The size up to which an argument is sent in the block of its call. A larger one is sent as frames, without a copy."""

CARRIED_BYTES = 1 << 20
"""The most bytes of the frames of one call that are sent with the call. Arguments beyond this limit become objects."""

BLOCK_BYTES = 64 * 1024
"""The size up to which a block holds all values of its call. If they take more, the largest are sent outside the
block.
"""

WORTH_AN_OBJECT_BYTES = 1024
"""The least size of a value that may be taken out of a large block; smaller values are not worth sending separately."""

OUT_OF_BAND_BYTES = 64 * 1024
"""The least size of a buffer that is kept out of the pickle."""

_NUMBERS = frozenset({int, float, complex, bool, type(None)})
_PLAIN_TYPES = _NUMBERS | {str, bytes}
plain_to_pickle: set[type] = set()
"""Classes of Scaler that plain pickle writes as cloudpickle does, in a third of the time. Their modules add them."""
_PLAIN_CONTAINERS = frozenset({tuple, list, dict, set, frozenset})
_PLAIN_CONTAINER_LENGTH = 64
_PLAIN_DEPTH = 3


class Serializer(abc.ABC):
    """Turns values into bytes and back. Called for the function, for each argument and for the result of a task.

    An instance that is passed to a client is itself pickled and sent to the workers.
    """

    @abc.abstractmethod
    def serialize(self, obj: Any) -> bytes:
        """Return `obj` as bytes."""

    @abc.abstractmethod
    def deserialize(self, payload: bytes) -> Any:
        """Return the object from which `serialize` made `payload`."""


class DefaultSerializer(Serializer):
    """Serialises with cloudpickle. Plain values are pickled without cloudpickle into the same bytes, in less time."""

    def serialize(self, obj: Any) -> bytes:
        data = _plain(obj)
        if data is None:
            data = _dumps()(obj)
        return data

    def deserialize(self, payload: bytes) -> Any:
        return pickle.loads(payload)


DEFAULT_SERIALIZER = DefaultSerializer()


def _plain(obj: Any) -> bytes | None:
    """Return the pickle of a value that refers to no class or function, or None if it may refer to one.

    cloudpickle may write a value that refers to a global differently: it pickles those of `__main__` by value.
    """
    return pickle.dumps(obj, 5) if _is_plain(obj, _PLAIN_DEPTH) else None


def _is_plain(obj: Any, depth: int) -> bool:
    kind = type(obj)
    if kind in _PLAIN_TYPES:
        return True
    if kind not in _PLAIN_CONTAINERS or len(obj) > _PLAIN_CONTAINER_LENGTH or depth == 0:
        return False
    return _are_plain(obj, depth - 1) and (kind is not dict or _are_plain(obj.values(), depth - 1))


def _are_plain(values: Collection[Any], depth: int) -> bool:
    return _PLAIN_TYPES.issuperset(map(type, values)) or all(_is_plain(value, depth) for value in values)


class _OutOfBandBytes:
    """Makes pickle send large `bytes` as an out-of-band buffer. By itself, pickle does this only for other types."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def __reduce_ex__(self, _protocol: Any) -> tuple[type[bytes], tuple[pickle.PickleBuffer]]:
        return bytes, (pickle.PickleBuffer(self._value),)


BYTES_HEAD = pickle.dumps(_OutOfBandBytes(b""), 5, buffer_callback=list[Any]().append)
"""The first frame of any large `bytes`: the pickle of an `_OutOfBandBytes`, which does not depend on its content."""


def _dumps(is_result: bool = False) -> Callable[..., bytes]:
    """Return the function that pickles values that are not plain; `is_result`: whether these are results of tasks."""
    from scaler.pickling import pickled_classes, pickler  # noqa: PLC0415

    return pickled_classes.dumps if is_result else pickler.dumps


def to_frames(serializer: Serializer, obj: Any, is_result: bool = False) -> list[Buffer]:
    """Serialise `obj`: one frame for a small value, more if the value holds large buffers.

    Args:
        is_result: whether `obj` is the result of a task. If so, its classes are written as `pickled_classes` describes.

    Raises:
        SerializeObjectError: if `obj` cannot be serialised; the cause says why.
    """
    try:
        if type(serializer) is not DefaultSerializer:
            return [_serialized(serializer, obj)]
        if type(obj) is bytes and len(obj) > OUT_OF_BAND_BYTES:
            obj = _OutOfBandBytes(obj)
        elif type(obj) in _PLAIN_TYPES or type(obj) in plain_to_pickle or _is_plain(obj, _PLAIN_DEPTH):
            return [pickle.dumps(obj, 5)]
        frames: list[Buffer] = [b""]
        frames[0] = _dumps(is_result)(obj, protocol=5, buffer_callback=_collect_large(frames))
        return frames
    except BaseException as error:  # the user's `__reduce__` and serializer run here and may raise anything
        if is_interruption(error):
            raise
        if isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError):
            raise SerializeObjectError(f"a value of type {type(obj).__name__} {_TOO_DEEP}") from error
        raise SerializeObjectError(f"{_described(obj)} cannot be serialised: {_reason(error)}") from error


def small_plain(serializer: Serializer, obj: Any) -> bytes | None:
    """Return the frame of a plain number; None for any other value. This is a shortcut for most results."""
    if type(obj) not in _NUMBERS or type(serializer) is not DefaultSerializer:
        return None
    data = pickle.dumps(obj, 3)
    return data if len(data) <= INLINE_BYTES else None


result_to_frames: Callable[[Serializer, Any], list[Buffer]] = partial(to_frames, is_result=True)


_TOO_DEEP = "cannot be serialised: it is nested too deeply, as a long chain of objects is; give it a flat form"


def _reason(error: BaseException) -> str:
    """Return the text of an exception, with its type unless the exception is a `TypeError` or a `PicklingError`."""
    text = str(error)
    return text if isinstance(error, (TypeError, pickle.PicklingError)) else f"{type(error).__name__}: {text}"


def _described(obj: Any) -> str:
    from scaler.pickling.culprits import culprit_in  # noqa: PLC0415

    what = f"the function {obj.__qualname__}" if type(obj) is FunctionType else f"a value of type {type(obj).__name__}"
    culprit = re.sub("^(its|an?) ", "", culprit_in(obj))
    return f"{what}, because of its {culprit}," if culprit else what


def _serialized(serializer: Serializer, obj: Any) -> bytes:
    """Return the bytes that a user's serializer makes of a value. Raise `TypeError` if the result is not bytes."""
    data = serializer.serialize(obj)
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"{type(serializer).__name__}.serialize returned {type(data).__name__}, not bytes")
    return bytes(data)


def _collect_large(frames: list[Buffer]) -> Callable[[pickle.PickleBuffer], bool]:
    def keep_in_band(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous
            return True
        if raw.nbytes < OUT_OF_BAND_BYTES:
            return True
        frames.append(raw)
        return False

    return keep_in_band


def from_frames(serializer: Serializer, frames: Frames) -> Any:
    """Return the object from which `to_frames` made `frames`.

    Raises:
        DeserializeObjectError: if the object cannot be read in this process; the cause says why.
    """
    try:
        if type(serializer) is DefaultSerializer:
            return pickle.loads(frames[0], buffers=frames[1:])
        return serializer.deserialize(bytes(frames[0]))
    except BaseException as error:  # unpickling runs user code, which may raise anything
        if is_interruption(error):
            raise
        raise DeserializeObjectError(f"a value cannot be deserialised here: {described(error)}") from error


def reader_of(serializer: Serializer) -> Callable[[bytes], Any]:
    """Return the function that reads a value from its only frame. That function may raise any exception."""
    return pickle.loads if type(serializer) is DefaultSerializer else serializer.deserialize


def size_of(frames: Frames) -> int:
    """Return the number of bytes in all frames."""
    return sum(memoryview(frame).nbytes for frame in frames)


def frozen(frames: Frames) -> Sequence[Any]:
    """Return `frames` in a form that no longer changes: mutable frames are copied."""
    return [frame if type(frame) is bytes or type(memoryview(frame).obj) is bytes else bytes(frame) for frame in frames]


# Named functions are called by a name that both sides know, with JSON as values, from any language.

NAMED = b"json"
"""The first frame of the object of a named function; the second frame is the name. No pickle starts with this text."""


class JsonSerializer(Serializer):
    """Serialises as JSON in UTF-8. A tuple becomes a list, and keys become strings."""

    def serialize(self, obj: Any) -> bytes:
        return json.dumps(obj, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    def deserialize(self, payload: bytes) -> Any:
        return json.loads(payload)


JSON_SERIALIZER = JsonSerializer()

Named: TypeAlias = Callable[[str], Callable[..., Any]]
"""Returns the function that is served under a name. Raises `DeserializeObjectError` if no function has that name."""


def serves_nothing(name: str) -> Callable[..., Any]:
    """Raise `DeserializeObjectError`, because the cluster serves no function by this name."""
    raise DeserializeObjectError(
        f"this cluster serves no function by the name {name!r}: start it with --functions {name}=MODULE:FUNCTION"
    )


# A function is sent with the serializer that its arguments and its result need.


def exception_from_parts(
    kind: type[BaseException], arguments: tuple[Any, ...], attributes: Mapping[str, Any]
) -> BaseException:
    """Make an exception without calling its constructor, which may require other arguments."""
    error = kind.__new__(kind, *arguments)
    BaseException.args.__set__(error, arguments)  # type: ignore[attr-defined]
    error.__dict__.update(attributes)
    return error


class SerializerWithModules(NamedTuple):
    """Takes the place of the serializer in a function object: also has the modules that the function needs."""

    serializer: Serializer
    modules: bytes
    versions: Versions
    """the versions of the packages that the function uses"""


def function_to_frames(serializer: Serializer, function: Callable[..., Any], modules: bytes = b"") -> list[Buffer]:
    """Return the frames of a function object: first the serializer and the packed `modules`, then `function`.

    Raises:
        SerializeObjectError: if the function or the serializer cannot be serialised.
    """
    from scaler.pickling.versions import versions_used_by  # noqa: PLC0415

    own: Buffer = b""
    versions = versions_used_by(function)
    sent = SerializerWithModules(serializer, modules, versions) if modules or versions else serializer
    if type(serializer) is not DefaultSerializer:
        own = to_frames(DefaultSerializer(), sent)[0]
    elif sent is not serializer:
        own = pickle.dumps(sent, 5)
    return [own, *to_frames(serializer, function)]


def sent_with(frames: Frames) -> SerializerWithModules:
    """Return the serializer of a function object, and the modules and versions that were sent with the function.

    Raises:
        DeserializeObjectError: if the serializer cannot be read in this process.
    """
    own: Any = DefaultSerializer()
    if memoryview(frames[0]).nbytes:
        own = from_frames(own, frames[:1])
    return own if type(own) is SerializerWithModules else SerializerWithModules(own, b"", {})


def function_from_frames(frames: Frames, named: Named = serves_nothing) -> tuple[Serializer, Callable[..., Any]]:
    """Return the serializer and the function of a function object; `named` returns a served function by name.

    Raises:
        DeserializeObjectError: if the serializer or the function cannot be read in this process.
    """
    if frames[0] == NAMED:
        return JSON_SERIALIZER, named(bytes(frames[1]).decode("utf-8", "replace"))
    from scaler.pickling.shipped_modules import install  # noqa: PLC0415
    from scaler.pickling.versions import compare  # noqa: PLC0415

    serializer, modules, versions = sent_with(frames)
    install(modules)
    try:
        return serializer, from_frames(serializer, frames[1:])
    finally:  # also if it cannot be read: the versions may be the reason
        compare(versions)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of `function` for display; a partial has the name of its function."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


# The block of arguments.

_ARGUMENT = struct.Struct("<BHI")  # kind, bytes of the name, bytes of the data
_RESULT_ARGUMENT = struct.Struct("<BHII")  # the fields above, and the index of a needed task
ARGUMENT_HEADER_BYTES = _ARGUMENT.size
_FRAMES = struct.Struct("<IQ")  # number of frames, bytes of all of them
VALUE, OBJECT, RESULT, OWN_OBJECT, FRAMES = 0, 1, 2, 3, 4
"""Kinds of arguments, in this order: a value; an object; the result of another task; an object that was made for one
argument only, so that the task may change it; a value whose frames are sent outside the block.
"""
PICKLED = pickle.PROTO
"""The first byte of a block that is one pickle of all positional arguments. No kind of argument has this number."""


def argument_block(kind: int, data: bytes, name: str = "") -> bytes:
    """Return the entry of an argument in a block. `data`: the bytes of a value, or the id of an object.

    Args:
        name: the keyword; empty if the argument is positional.
    """
    encoded = name.encode()
    return _ARGUMENT.pack(kind, len(encoded), len(data)) + encoded + data


def frames_argument(frames: Frames, name: str = "", pickle_of_them: bytes = b"") -> bytes:
    """Return the entry of an argument whose frames are sent outside the block, after those of earlier arguments.

    Args:
        pickle_of_them: the first frame of the argument, if it is small: then it is a part of the entry instead.
    """
    return argument_block(FRAMES, _FRAMES.pack(len(frames), size_of(frames)) + pickle_of_them, name)


def result_argument(index: int) -> bytes:
    """Return the entry of a positional argument that is a result. `index`: its number among the needed results."""
    return _RESULT_ARGUMENT.pack(RESULT, 0, 4, index)


def plain_block(arguments: Sequence[Any], is_whole: bool = True) -> bytes | None:
    """Return the block of positional arguments; None if an argument is not plain, or the block is too large.

    Millions of blocks may wait, so simple values are pickled with protocol 3, which saves 9 bytes. If two arguments
    might share an object, each argument is pickled separately.

    Args:
        is_whole: whether the block contains all arguments of the call, so that it may be one pickle.
    """
    n_containers = 0
    for argument in arguments:
        kind = type(argument)
        if kind in _NUMBERS:
            continue
        if kind in _PLAIN_CONTAINERS:
            n_containers += 1
            if not _is_plain(argument, _PLAIN_DEPTH):
                return None
        elif kind not in _PLAIN_TYPES or len(argument) > FRAME_BYTES:
            return None
    if is_whole and n_containers <= 1:
        block = pickle.dumps(tuple(arguments), 5 if n_containers else 3)
    else:
        protocols = (3 if type(argument) in _PLAIN_TYPES else 5 for argument in arguments)
        block = b"".join(
            [argument_block(VALUE, pickle.dumps(*each)) for each in zip(arguments, protocols, strict=True)]
        )
    return block if len(block) <= FRAME_BYTES else None


def plain_call(arguments: Sequence[Any], most_bytes: int) -> tuple[bytes, list[bytes]] | None:
    """Return the block of positional arguments, and the frames of the large arguments.

    Return None if an argument is not plain, the block is too large, or the frames have `most_bytes` or more.
    """
    block, frames = b"", []
    for argument in arguments:
        if type(argument) is bytes and len(argument) > FRAME_BYTES:
            frames.append(argument)
            block += frames_argument((argument,), "", BYTES_HEAD)
            continue
        if not _is_plain(argument, _PLAIN_DEPTH):
            return None
        data = pickle.dumps(argument, 5)
        if len(data) > FRAME_BYTES:
            frames.append(data)
            block += frames_argument((data,))
        else:
            block += argument_block(VALUE, data)
    return (block, frames) if len(block) <= FRAME_BYTES and size_of(frames) < most_bytes else None


def read_arguments(
    block: bytes, value: Callable[..., Any], stored: Callable[[ObjectId, bool], Any], frames: Frames = ()
) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the keyword arguments in `block`, with the `frames` that were sent with it.

    Args:
        value: makes an argument from its bytes or from its frames.
        stored: returns the argument that is an object, from the id of the object and whether the task may change it.

    Raises:
        ObjectTooLargeError: if frames were dropped on their way, for lack of memory.
    """
    if block[:1] == PICKLED:
        return list(value(block)), {}
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    offset, end = 0, len(block)
    supply = iter(frames)
    while offset < end:
        kind, name_bytes, data_bytes = _ARGUMENT.unpack_from(block, offset)
        start = offset + _ARGUMENT.size + name_bytes
        offset = start + data_bytes
        data = block[start:offset]
        if kind == VALUE:
            argument = value(data)
        elif kind == FRAMES:
            argument = value(*_taken(supply, data))
        else:
            argument = stored(ObjectId(data[:ID_BYTES]), kind == OWN_OBJECT)
        if name_bytes:
            keywords[block[start - name_bytes : start].decode()] = argument
        else:
            positional.append(argument)
    return positional, keywords


def _taken(supply: Iterator[Buffer], data: bytes) -> list[Buffer]:
    count, size_bytes = _FRAMES.unpack_from(data)
    taken = list(islice(supply, count))
    if not taken or len(taken) < count:
        raise ObjectTooLargeError(
            "an argument",
            size_bytes,
            "the scheduler, or the host of the worker,",
            None,
            "run fewer such tasks at a time",
        )
    return [data[_FRAMES.size :], *taken] if len(data) > _FRAMES.size else taken


def put_results(block: bytes, result: Callable[[int], tuple[int, bytes]]) -> tuple[bytes, bytes]:
    """Return the block with results in place of their indices, and the ids of those results that are objects.

    The scheduler calls this function, which therefore unpickles no value.

    Args:
        result: returns kind and data of the needed result with an index.

    Raises:
        ValueError: if the block is malformed, or `result` raises this error.
    """
    if block[:1] == PICKLED:
        return block, b""
    parts: list[bytes] = []
    object_ids: list[bytes] = []
    unpack, header_bytes = _ARGUMENT.unpack_from, _ARGUMENT.size
    offset, end = 0, len(block)
    try:
        while offset < end:
            kind, name_bytes, data_bytes = unpack(block, offset)
            start = offset + header_bytes + name_bytes
            following = start + data_bytes
            if kind == RESULT:
                kind, data = result(int.from_bytes(block[start:following], "little"))
                parts += (_ARGUMENT.pack(kind, name_bytes, len(data)), block[offset + header_bytes : start], data)
                if kind == OBJECT:
                    object_ids.append(data)
            else:
                parts.append(block[offset:following])
            offset = following
    except struct.error as error:
        raise ValueError(str(error)) from error
    if offset != end:
        raise ValueError("the last argument is cut off")
    return b"".join(parts), b"".join(object_ids)
