"""Arguments as the client sends them: one block per call, frames for larger values, and objects for the largest.

Called by the client for each task, at once, so that later changes of an argument have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from scaler.client.calls.client_pickling import in_a_task_for
from scaler.client.calls.hints import hints
from scaler.client.calls.inputs import ResultArgument
from scaler.client.calls.value_limit import ValueLimit
from scaler.client.object_reference import ObjectReference, OwnReference, check_stored
from scaler.endpoint import Endpoint
from scaler.errors import SerializeObjectError
from scaler.ids import ID_BYTES, IdSource, ObjectId
from scaler.pickling.generators import is_generator
from scaler.pickling.serialization import (
    ARGUMENT_HEADER_BYTES,
    BLOCK_BYTES,
    CARRIED_BYTES,
    FRAME_BYTES,
    OBJECT,
    OWN_OBJECT,
    RESULT,
    VALUE,
    WORTH_AN_OBJECT_BYTES,
    Buffer,
    DefaultSerializer,
    Frames,
    Serializer,
    argument_block,
    frames_argument,
    frozen,
    plain_block,
    plain_call,
    size_of,
    to_frames,
)
from scaler.shared_memory import SHARE_LEAST_BYTES, SharedFrames, can_share
from scaler.wire.messages.columns import NEEDED_MOST
from scaler.wire.messages.common import InstructionKind, ObjectInstruction


class PackedArguments(NamedTuple):
    """The arguments of one call.

    Attributes:
        block: the arguments as bytes, in which objects are represented by their ids.
        frames: the frames of values that are too large for the block and travel with the call.
        object_ids: the ids of the objects, concatenated.
        objects: the objects made for this call, to be sent before the call.
        kept: what the call keeps alive: references, futures, and (label, `Input`) of each future.
        inputs: the ids of the tasks of the futures, concatenated. In the block, the index of its input represents a
            future.
    """

    block: bytes
    frames: Frames = ()
    object_ids: bytes = b""
    objects: Sequence[ObjectInstruction] = ()
    kept: Sequence[Any] = ()
    inputs: bytes = b""


Pack: TypeAlias = Callable[..., PackedArguments]
"""Packs positional and keyword arguments, optionally with labels for errors: see `ArgumentPacker.pack_values`."""

PlainBlock: TypeAlias = Callable[..., bytes | None]
"""Makes the block of arguments that need no pickler: see `plain_block` of `scaler.pickling.serialization`."""

Freeze: TypeAlias = Callable[[Frames], Sequence[Any]]
"""Copies a large value, so that later changes by the caller have no effect."""


def shared(frames: Frames) -> Sequence[Any]:
    """Return a copy of `frames`, in shared memory if the frames are large and shared memory has room for them."""
    if size_of(frames) >= SHARE_LEAST_BYTES:
        try:
            return SharedFrames(frames)
        except OSError:
            pass
    return frozen(frames)


def freeze_for(endpoint: Endpoint) -> Freeze:
    """Return the function with which a client of the scheduler at `endpoint` copies values."""
    return shared if endpoint.is_near and can_share() else frozen


def is_of_one_process(error: SerializeObjectError) -> bool:
    """Return whether `error` is about a value that belongs to one process, like a lock or an open file."""
    return str(error.__cause__).startswith("cannot pickle ")


def cure_of(error: SerializeObjectError) -> str:
    """Return advice to add to the error of a value that cannot be serialised; empty if there is no advice."""
    return "; pass what it is made from, and make it inside the task" if is_of_one_process(error) else ""


def check_needed(count: int) -> None:
    """Raise `ValueError` if a call needs more than `NEEDED_MOST` objects or results of other tasks."""
    if count > NEEDED_MOST:
        raise ValueError(
            f"a call takes at most {NEEDED_MOST:,} futures and stored objects as arguments, and this one has "
            f"{count:,}: combine some of them in other tasks first"
        )


class ArgumentPacker:
    """Packs arguments for one client of the scheduler at `address`. Safe to use from several threads.

    Args:
        freeze: copies large values.
        limit: the limit on the size of a value; None: no limit.
        link: the link of the client, whose futures may be arguments.
    """

    def __init__(
        self,
        serializer: Serializer,
        address: str,
        freeze: Freeze = frozen,
        limit: ValueLimit | None = None,
        link: object = None,
    ) -> None:
        self.limit = limit or ValueLimit(address)
        self._serializer = serializer
        self.address = address
        self._freeze = freeze
        self._link = link
        self._new_id = IdSource()
        self.plain_block: PlainBlock = _no_block
        """makes the block of arguments that need no pickler; returns None for any other arguments"""
        if type(serializer) is DefaultSerializer:
            self.plain_block = plain_block

    def pack(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], carried_bytes: int = CARRIED_BYTES
    ) -> PackedArguments:
        """Return the arguments, serialised.

        Args:
            carried_bytes: the most bytes of frames that travel with the call; larger values become objects.

        Raises:
            SerializeObjectError: if an argument cannot be serialised.
            ObjectTooLargeError: if an argument is too large to be sent.
            MissingObjects: if an argument is a reference to an object that is no longer stored.
            TypeError: if an argument is a future of another client.
        """
        block = None if keywords else self.plain_block(arguments, False)
        if block is not None:
            return PackedArguments(block)
        return self.pack_values(arguments, keywords, carried_bytes=carried_bytes)

    def pack_values(
        self,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        labels: Sequence[str] = (),
        carried_bytes: int = CARRIED_BYTES,
    ) -> PackedArguments:
        """Return arguments that may need a pickler, serialised. Raises as `pack`.

        Args:
            labels: the names of the arguments in errors; by default their numbers or keywords.
            carried_bytes: see `pack`.
        """
        if self.plain_block is plain_block and not keywords:
            plain = plain_call(arguments, min(carried_bytes, self.limit.n_bytes))
            if plain is not None:
                return PackedArguments(*plain, b"", [])
        named = _named(arguments, keywords)
        futures = [index for index, (_, argument) in enumerate(named) if isinstance(argument, ResultArgument)]
        if not futures:
            return self._pack(named, labels, carried_bytes)
        indices: dict[bytes, int] = {}
        kept: list[Any] = []
        for index in futures:
            name, future = named[index]
            needed, value = future.as_argument(self._link)
            if needed is not None:
                value = _Result(indices.setdefault(needed.task_id, len(indices)))
                kept += future, (labels[index] if labels else _label(index + 1, name), needed)
            named[index] = name, value
        check_needed(len(indices))
        packed = self._pack(named, labels, carried_bytes)
        return packed._replace(kept=[*packed.kept, *kept], inputs=b"".join(indices))

    def pack_shared(self, value: Any) -> PackedArguments:
        """Return a positional argument that several calls share unchanged, serialised. Raises as `pack`."""
        packed = self.pack((value,), {}, carried_bytes=0)
        return packed._replace(block=argument_block(OBJECT, packed.object_ids[:ID_BYTES])) if packed.objects else packed

    def as_object(self, packed: PackedArguments) -> PackedArguments:
        """Return `packed`, the block of one positional argument, as arguments in which this argument is an object."""
        data = packed.block[ARGUMENT_HEADER_BYTES:]
        instruction = ObjectInstruction(InstructionKind.CREATE_FOR_TASK, ObjectId(self._new_id()), "", [data])
        object_id = instruction.object_id
        return PackedArguments(argument_block(OBJECT, object_id), (), object_id, [instruction])

    def _one(self, argument: Any) -> _Part:
        if isinstance(argument, ObjectReference):
            return argument.object_id
        if type(argument) is _Result:
            return argument
        frames = to_frames(self._serializer, argument)
        if is_generator(argument):
            hints.look_at_generator(argument, frames)
        return frames

    def _all(self, named: list[tuple[str, Any]], labels: Sequence[str]) -> list[_Part]:
        packed: list[_Part] = []
        try:
            packed.extend(self._one(argument) for _, argument in named)
        except SerializeObjectError as error:
            label = labels[len(packed)] if labels else _label(len(packed) + 1, named[len(packed)][0])
            raise SerializeObjectError(f"{label}: {error}{cure_of(error)}") from error.__cause__
        return packed

    def _pack(
        self, named: list[tuple[str, Any]], labels: Sequence[str] = (), carried_bytes: int = CARRIED_BYTES
    ) -> PackedArguments:
        references = [argument for _, argument in named if isinstance(argument, ObjectReference)]
        held: list[ObjectReference] = []
        with in_a_task_for(self.address, held):
            packed = self._all(named, labels)
        for reference in (*references, *held):
            check_stored(reference)
        block = _small_block(named, packed)
        if block is not None and not held:
            return PackedArguments(block)
        objects, own = [], {reference.object_id for reference in references if type(reference) is OwnReference}
        carried_bytes = min(carried_bytes, self.limit.n_bytes)
        for index, frames, size_bytes in _too_large(packed):
            if size_bytes <= carried_bytes:
                carried_bytes -= size_bytes
                packed[index] = _Carried(frozen(frames))
                continue
            hints.look_at_argument(named[index][1], frames)
            object_id, copied = ObjectId(self._new_id()), self._freeze(frames)
            self.limit.check(labels[index] if labels else _label(index + 1, named[index][0]), copied)
            instruction = ObjectInstruction(InstructionKind.CREATE_FOR_TASK, object_id, "", copied)
            packed[index] = instruction.object_id
            objects.append(instruction)
            own.add(object_id)
        block = b"".join(_in_block(part, name, own) for (name, _), part in zip(named, packed, strict=True))
        object_ids = b"".join(part for part in packed if isinstance(part, bytes))
        if held:
            object_ids += b"".join(reference.object_id for reference in held)
            references += held
        check_needed(len(object_ids) // ID_BYTES)
        carried = tuple(frame for part in packed if type(part) is _Carried for frame in part)
        return PackedArguments(block, carried, object_ids, objects, references)


class _Result(int):
    """The index of an input of a task, as a placeholder for an argument that is this input."""


class _Carried(list[Buffer]):
    """A placeholder for an argument whose frames travel with the call."""


_Part: TypeAlias = ObjectId | list[Buffer] | _Result


def _label(position: int, name: str) -> str:
    return f"the argument {name!r}" if name else f"argument {position}"


def _named(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[tuple[str, Any]]:
    if "" in keywords:
        raise TypeError("a keyword argument needs a name")  # in a block, an empty name means positional
    return [("", argument) for argument in arguments] + list(keywords.items())


def _no_block(_arguments: Sequence[Any], _is_whole: bool = True) -> None:
    return None


def _in_block(part: _Part, name: str, own: Collection[ObjectId]) -> bytes:
    if isinstance(part, int):
        return argument_block(RESULT, part.to_bytes(4, "little"), name)
    if isinstance(part, bytes):
        return argument_block(OWN_OBJECT if part in own else OBJECT, part, name)
    if type(part) is _Carried:
        return frames_argument(part, name)
    return argument_block(VALUE, bytes(part[0]), name)


def _small_block(named: list[tuple[str, Any]], packed: Sequence[_Part]) -> bytes | None:
    """Return the block of all arguments, or None if a value is an object or is too large for the block."""
    block = b""
    for (name, _), part in zip(named, packed, strict=True):
        if type(part) is not list or len(part) > 1:
            return None
        if size_of(part) > FRAME_BYTES:
            return None
        block += argument_block(VALUE, bytes(part[0]), name)
        if len(block) > FRAME_BYTES:
            return None
    return block


def _too_large(packed: Sequence[_Part]) -> list[tuple[int, list[Buffer], int]]:
    """Return the values that must leave the block, the largest first: the position, the frames and the size of each."""
    values = [(index, part, size_of(part)) for index, part in enumerate(packed) if isinstance(part, list)]
    block_bytes = sum(size_bytes for _, _, size_bytes in values)
    too_large = []
    for index, frames, size_bytes in sorted(values, key=lambda value: value[2], reverse=True):
        is_one_too_many = block_bytes > BLOCK_BYTES and size_bytes >= WORTH_AN_OBJECT_BYTES
        if len(frames) > 1 or size_bytes > FRAME_BYTES or is_one_too_many:
            too_large.append((index, frames, size_bytes))
            block_bytes -= size_bytes
    return too_large
