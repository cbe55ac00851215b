"""Graphs as the client sends them: one task for each needed call, with the data inside its arguments.

Called by the client for each `get`, at once, so that later changes of the graph have no effect. A large value is an
object that all nodes share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from scaler.client.calls.arguments import ArgumentPacker, PackedArguments, check_needed
from scaler.client.calls.entry import NO_TERMS, POSITION, RUN_OPTIONS, GraphCall, GraphCalls, Terms, node_id
from scaler.client.calls.functions import NO_FRAMES, ClientFunctions, Function
from scaler.client.calls.inputs import Keys, KeysWithHints, ResultArgument
from scaler.client.object_reference import ObjectReference
from scaler.errors import ObjectTooLargeError, SerializeObjectError
from scaler.graph.description import Call, Description, read
from scaler.graph.gathering import identity
from scaler.graph.order import order
from scaler.ids import ID_BYTES, GraphId, TaskId, random_id
from scaler.pickling.serialization import (
    BLOCK_BYTES,
    CARRIED_BYTES,
    WORTH_AN_OBJECT_BYTES,
    Frames,
    result_argument,
    size_of,
)
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.common import ObjectInstruction
from scaler.wire.messages.seeds import key_number

COPIES_MOST = 8
"""The most nodes that get a copy each of a large value. If more nodes use the value, it becomes an object."""


def pack_graph(
    graph: Mapping[str, Any],
    keys: Iterable[str],
    functions: ClientFunctions,
    packer: ArgumentPacker,
    terms: Terms = NO_TERMS,
) -> tuple[GraphCalls, dict[str, TaskId | None]]:
    """Serialise the part of a graph that the keys need.

    Return the graph, and the task id of each key, in the order of the keys. If the value of a key is data, the key has
    no task, and its task id is None.

    Raises:
        KeyError: if a key or an argument is not in the graph, or `keys` has a key twice.
        TypeError: if the graph is malformed, or a function does not take the arguments of its node.
        graphlib.CycleError: if nodes depend on each other in a circle.
        MissingObjects: if a reference is of an object that is no longer stored.
        SerializeObjectError: if a function or a value cannot be serialised.
        ObjectTooLargeError: if a function or a value is too large to be sent.
    """
    description = read(graph, keys)
    numbered = list(zip(description.numbers, description.calls, strict=True))
    calls = [numbered[number] for number in order(description)]
    # A call fetches a wanted stored object, whose value the client does not have. Other nodes see the object as data.
    calls += [(key, (identity, graph[key])) for key in description.wanted if isinstance(graph[key], ObjectReference)]
    return _GraphPacker(graph, functions, packer, terms).pack(calls, description)


class _GraphPacker:
    def __init__(
        self, graph: Mapping[str, Any], functions: ClientFunctions, packer: ArgumentPacker, terms: Terms
    ) -> None:
        self._graph = graph
        self._terms = terms
        self._get_function = functions.get
        self._packer = packer
        self._functions: dict[int, Function] = {}
        self._seeded: dict[int, str] | None = {} if RunOptions.decode(terms[RUN_OPTIONS]).seed else None
        """index in the id of a node -> the key of the node; None if the graph has no seed"""
        self._positions: dict[str, int] = {}
        self._data: dict[str, PackedArguments] = {}
        self._uses: dict[str, int] = {}
        self._objects: list[ObjectInstruction] = []
        self._references: list[ObjectReference] = []

    def pack(
        self, calls: Sequence[tuple[str, Call]], description: Description
    ) -> tuple[GraphCalls, dict[str, TaskId | None]]:
        graph_id, positions = GraphId(random_id()), self._positions
        wanted: dict[str, TaskId | None] = dict.fromkeys(description.wanted)
        packed: list[GraphCall] = []
        for position, (key, call) in enumerate(calls):
            try:
                function = self._functions.get(id(call[0])) or self._function(call[0])
                if not function.least <= len(call) - 1 <= function.most:
                    function.check(call[1:], {})
                block, frames, object_ids, dependencies = self._arguments(call)
            except TypeError as error:
                raise TypeError(f"the node {key!r}: {error}") from None
            except SerializeObjectError as error:
                raise self._explained(error, key, call) from error.__cause__
            except ObjectTooLargeError as error:
                raise error.renamed(f"a value of the node {key!r}") from None
            positions[key] = position
            index, unwanted = self._index(key, position), key not in wanted
            if not unwanted:
                wanted[key] = node_id(graph_id, index)
            packed.append((function.instruction.object_id, block, object_ids, frames, dependencies, int(unwanted)))
        functions = [function.instruction for function in self._functions.values()]
        keys: Keys = self._seeded or tuple(positions)
        if description.in_lists:
            keys = KeysWithHints(self._seeded or enumerate(positions), _hints(description.in_lists))
        what = graph_id, self._terms, packed, functions, self._objects, self._references, keys
        return GraphCalls(*what, list(self._seeded or ())), wanted

    def _index(self, key: str, position: int) -> int:
        """Return the index in a task's id: its position, or a number made from the key if the graph has a seed."""
        if self._seeded is None:
            return position
        index = key_number(key)
        while index in self._seeded:
            index = (index + 1) % 2**64
        self._seeded[index] = key
        return index

    def _explained(self, error: SerializeObjectError, key: str, call: Call) -> SerializeObjectError:
        """Return the error of a node with the name of the bad argument, found by packing the arguments one by one."""
        function = self._functions.get(id(call[0]))
        for number, argument in enumerate(call[1:] if function else (), 1):
            try:
                if not (isinstance(argument, str) and argument in self._positions):
                    self._value(argument)
            except SerializeObjectError as again:  # packed alone, each is argument 1
                text = str(again).removeprefix("argument 1: ")
                if isinstance(argument, str):
                    return SerializeObjectError(f"the node {argument!r}, which the node {key!r} needs: {text}")
                assert function is not None
                return SerializeObjectError(f"the node {key!r}: {function.about(f'argument {number}: {text}')}")
        return SerializeObjectError(f"the node {key!r}: {error}")

    def _function(self, function: Callable[..., Any]) -> Function:
        known = self._functions[id(function)] = self._get_function(function)
        return known

    def _arguments(self, call: Call, is_lighter: bool = False) -> tuple[bytes, Frames, bytes, bytes]:
        """Return the block of arguments, the frames, the ids of the objects, and the positions of the needed results.

        `is_lighter`: whether each value of more than `WORTH_AN_OBJECT_BYTES` becomes an object.
        """
        block = object_ids = b""
        frames, free_bytes = NO_FRAMES, CARRIED_BYTES
        needed: dict[int, int] = {}
        for argument in islice(call, 1, None):
            position = self._positions.get(argument) if isinstance(argument, str) else None
            if position is not None:
                block += result_argument(needed.setdefault(position, len(needed)))
                continue
            packed = self._value(argument, free_bytes)
            if is_lighter:
                packed = self._as_object(argument, packed)
            block += packed.block
            object_ids += packed.object_ids
            if packed.frames:
                frames, free_bytes = (*frames, *packed.frames), free_bytes - size_of(packed.frames)
        if len(block) > BLOCK_BYTES and not is_lighter:
            return self._arguments(call, is_lighter=True)
        if is_lighter:
            check_needed(max(len(needed), len(object_ids) // ID_BYTES))
        return block, frames, object_ids, b"".join(map(POSITION.pack, needed))

    def _value(self, argument: Any, free_bytes: int = CARRIED_BYTES) -> PackedArguments:
        """Pack an argument. A value of the graph is packed only once, however many nodes use it.

        Args:
            free_bytes: how many bytes of frames of a literal may travel with the call; larger values become objects.
        """
        if not isinstance(argument, str):
            _refuse_future(argument)
            return self._counted(self._packer.pack((argument,), {}, free_bytes))
        packed = self._data.get(argument)
        if packed is None:
            _refuse_future(self._graph[argument])
            packed = self._data[argument] = self._counted(self._packer.pack_shared(self._graph[argument]))
        elif len(packed.block) > WORTH_AN_OBJECT_BYTES:
            uses = self._uses[argument] = self._uses.get(argument, 1) + 1
            if uses > COPIES_MOST:
                return self._as_object(argument, packed)
        return packed

    def _counted(self, packed: PackedArguments) -> PackedArguments:
        self._objects += packed.objects
        self._references += packed.kept
        return packed

    def _as_object(self, argument: Any, packed: PackedArguments) -> PackedArguments:
        if packed.object_ids or len(packed.block) <= WORTH_AN_OBJECT_BYTES:
            return packed
        packed = self._packer.as_object(packed)
        self._objects += packed.objects
        if isinstance(argument, str):
            self._data[argument] = packed
        return packed


def _hints(in_lists: Mapping[str, tuple[int, str]]) -> dict[str, str]:
    """Return key of a node -> hint for its errors, for nodes that have a list argument with a key of the graph in the
    list.
    """
    return {
        key: f"Argument {position} of the node {key!r} is a list that contains {found!r}, the key of a node. A list is "
        f"passed as it is: make {found!r} an argument of its own, or use scaler.integrations.dask.get(client), which "
        "replaces keys in lists as Dask does."
        for key, (position, found) in in_lists.items()
    }


def _refuse_future(value: Any) -> None:
    if isinstance(value, ResultArgument):
        raise TypeError("a future can be an argument of submit or map, and not of a graph: pass its result()")
