"""Description: a hash of any value. Equal values have equal hashes in every process; other values have other hashes.

    value --handler--> Shape: a head and parts --each part--> a plain value, a leaf, or the hash of its own shape
                                                                            |
                                               head and parts, as marshal writes them, into one hash

`described_values`, `described_arrays` and `described_code` split a value into parts; this module traverses the parts,
without Python recursion. The hash of a value depends neither on references to the value nor on where the value is in a
larger one, so it can be cached for a call. Only parts of a cycle refer to each other by position. Classes and functions
of the program are described apart from the row that refers to them, so that their description is the same in each row.

A value that cannot be compared is described by its class, and reported. A class with its own pickling methods is
trusted if the first of its values has the same description after it was pickled and unpickled.

Describing a value never changes it and never raises an error, whatever the value is.
"""

from __future__ import annotations

import hashlib
import marshal
import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias

from scaler.client.jobs.comparing import described_arrays, described_code, described_values
from scaler.client.jobs.comparing.shapes import PLAIN, Handler, Leaf, Scope, Shape
from scaler.client.object_reference import ObjectReference
from scaler.errors import class_name
from scaler.interruptions import is_interruption
from scaler.pickling.pickler import dumps

VERSION = 1
"""The version of the algorithm. Descriptions of different versions are not comparable."""

Token: TypeAlias = Any
"""The token of a part in the hash of the whole: a plain value, or a tuple of plain values."""

PARTS_MOST = 4096
"""The number of parts of a value that are hashed at a time."""

_SMALL = 32
"""If a value has fewer parts than this, its description is not cached, and the value is described again."""

_NEGATIVE_NAN, _NAN = b"g\0\0\0\0\0\0\xf8\xff", b"g\0\0\0\0\0\0\xf8\x7f"
"""Two forms of NaN in marshal's output: that of `inf - inf`, and that of `nan`."""


def written(parts: Any) -> bytes:
    """Serialise plain values. Equal values give equal bytes, whether or not they are the same object."""
    # Version 2 of the format does not depend on reference counts.
    data = marshal.dumps(parts, 2)
    return data.replace(_NEGATIVE_NAN, _NAN) if _NEGATIVE_NAN in data else data


class KnownClasses:
    """The handlers of classes; and for each class, whether pickling keeps the description of a value."""

    def __init__(self) -> None:
        self.leaves = {**described_values.LEAVES}
        self.handlers: dict[type, Handler] = {}
        self.are_steady: dict[type, bool] = {}

    def token_of(self, value: Any) -> tuple[Any, ...] | None:
        """Return the token of a leaf; None for other values."""
        kind = type(value)
        leaf = self.leaves.get(kind)
        if leaf is None and kind not in self.handlers:
            leaf = self._learn(kind)
        return None if leaf is None else leaf(value)

    def _learn(self, kind: type) -> Leaf | None:
        handler = described_code.handler_of(kind) or described_arrays.handler_of(kind)
        self.handlers[kind] = handler or described_values.handler_of(kind)
        leaf = described_arrays.leaf_of(kind)
        if leaf is not None:
            self.leaves[kind] = leaf
        return leaf

    def handler_of(self, kind: type) -> Handler:
        """Return the handler of a class whose values are not leaves."""
        if kind not in self.handlers:
            self._learn(kind)
        return self.handlers[kind]


class _Context:
    """The path from a row, a class or a function to the value being described, and the cycles found on it.

    The algorithm is Tarjan's: a value that refers to an earlier value stays in `order` until the earlier one is
    described.
    """

    def __init__(self, is_code: bool) -> None:
        self.is_code = is_code
        self.order: list[Any] = []
        self.places: dict[int, tuple[int, int]] = {}
        """`id` of each value in `order` -> its position and depth; the depth is -1 once the value has left the path"""
        self.known: dict[int, tuple[Token, str, Any]] = {}
        """descriptions of values that belong to a cycle or contain one, by `id`"""


class _Frame:
    __slots__ = ("context", "depth", "digest", "is_pure", "low", "n_parts", "parts", "position", "rest", "shape",
                 "trouble", "value")  # fmt: skip

    def __init__(self, value: Any, shape: Shape, context: _Context, depth: int) -> None:
        self.value, self.shape, self.context, self.depth = value, shape, context, depth
        self.rest: Iterator[Any] = iter(shape.parts)
        self.parts: list[Token] = [shape.head]
        self.n_parts = 0
        """the number of hashed parts, including the parts of each part that is not cached"""
        self.position = self.low = len(context.order)
        """`position`: the position of the value in the context; `low`: the lowest position to which the value refers"""
        self.is_pure = True
        """whether neither the value nor a part of it belongs to a cycle"""
        self.trouble = shape.trouble
        """the part of the value that cannot be compared; empty if all parts can"""
        self.digest: Any = None
        context.order.append(value)
        context.places[id(value)] = self.position, depth

    def flush(self) -> None:
        if self.digest is None:
            self.digest = hashlib.blake2b(digest_size=16)
        self.digest.update(written(self.parts))
        self.n_parts += len(self.parts)
        self.parts = []

    def token(self) -> Token:
        if self.shape.is_set:
            self.parts[1:] = sorted(map(written, self.parts[1:]))
            if not self.is_pure and self.shape.n_unnamed > 1:  # they refer to each other in the order of the set
                self.trouble = self.trouble or "a set in a cycle"
        self.flush()
        return (self.digest.digest(),)


class Descriptions:
    """A describer of values, with a cache. Use one per call: values must not change while it is in use.

    Args:
        own_modules: the modules that travel: their classes and functions are compared by code, as those of the script.
        content_of: returns the hash of the object that a reference refers to.
        is_verifying: whether a value is compared with a copy of itself.
    """

    def __init__(
        self,
        own_modules: Collection[str] = (),
        content_of: Callable[[ObjectReference], bytes] | None = None,
        known: KnownClasses | None = None,
        is_verifying: bool = False,
    ) -> None:
        self._scope = Scope(own_modules, content_of, is_verifying)
        self._classes = known or KnownClasses()
        self._known: dict[int, tuple[Token, str, Any]] = {}
        """descriptions of large values without cycles, by `id`"""
        self._code: dict[int, tuple[Token, str, Any]] = {}
        """descriptions of classes and functions that rows refer to, by `id`"""

    def of(self, value: Any) -> tuple[bytes, str]:
        """Return the description of a value (16 bytes), and the name of a part that cannot be compared; empty if all
        parts can.
        """
        return self.of_row((value,))

    def of_row(self, row: Sequence[Any]) -> tuple[bytes, str]:
        """Return the description of several values (16 bytes), and the name of a part that cannot be compared; empty if
        all can.
        """
        stack = [_Frame(None, Shape("values", row), _Context(False), 0)]
        while True:
            frame = stack[-1]
            if self._advance(stack, frame):
                continue
            stack.pop()
            token = frame.token()
            if not stack:
                return token[0], frame.trouble
            self._finish(frame, stack[-1], token)

    def _advance(self, stack: list[_Frame], frame: _Frame) -> bool:
        """Describe parts of a value up to the next part that has parts itself. Return whether there is such a part."""
        tokens, parts = self._classes.token_of, frame.parts
        try:
            for part in frame.rest:
                if type(part) in PLAIN:
                    parts.append(part)
                elif (token := tokens(part) or self._find(frame, part)) is not None:
                    parts.append(token)
                else:
                    self._push(stack, frame, part)
                    return True
                if len(parts) >= PARTS_MOST and not frame.shape.is_set:
                    frame.flush()
                    parts = frame.parts
        except BaseException as error:  # the iterator of a class may raise anything
            if is_interruption(error):
                raise
            frame.trouble = frame.trouble or _named(frame.value)
        return False

    def _find(self, frame: _Frame, part: Any) -> Token | None:
        """Return the token of a part that is known or on the path; None for other parts."""
        key, context = id(part), frame.context
        known = self._known.get(key) or (None if context.is_code else self._code.get(key))
        if known is None:
            known = context.known.get(key)
            frame.is_pure = frame.is_pure and known is None
        if known is not None:
            frame.trouble = frame.trouble or known[1]
            return known[0]
        place = context.places.get(key)
        if place is None:
            return None
        position, depth = place
        frame.is_pure, frame.low = False, min(frame.low, position)
        return ("way", frame.depth - depth) if depth >= 0 else ("cycle", position - frame.position)

    def _push(self, stack: list[_Frame], frame: _Frame, part: Any) -> None:
        kind, context = type(part), frame.context
        try:
            shape = self._classes.handler_of(kind)(part, self._scope)
        except BaseException as error:  # the code of a class may raise anything
            if is_interruption(error):
                raise
            shape = Shape(("not compared", class_name(kind)), (), trouble=_named(part))
        if shape.is_code and not context.is_code:
            context = _Context(True)
        stack.append(_Frame(part, shape, context, len(stack)))

    def _finish(self, frame: _Frame, parent: _Frame, token: Token) -> None:
        """Add the token of a described value to its parent. Cache the token unless it depends on the path."""
        value, context = frame.value, frame.context
        if frame.shape.defines_pickling and not frame.trouble and not self._is_steady(value):
            frame.trouble = _named(value)
        if frame.low < frame.position:
            context.places[id(value)] = frame.position, -1
            parent.low = min(parent.low, frame.low)
        else:
            for index, each in enumerate(context.order[frame.position + 1 :]):
                del context.places[id(each)]
                context.known[id(each)] = (*token, index), frame.trouble, each
            del context.places[id(value)], context.order[frame.position :]
            if not frame.is_pure:
                context.known[id(value)] = token, frame.trouble, value
            elif frame.n_parts >= _SMALL or frame.shape.is_large:
                self._known[id(value)] = token, frame.trouble, value
                frame.n_parts = 0
        if context is parent.context:
            parent.is_pure = parent.is_pure and frame.is_pure
        else:
            self._code[id(value)] = token, frame.trouble, value
        parent.trouble = parent.trouble or frame.trouble
        parent.n_parts += frame.n_parts
        parent.parts.append(token)

    def _is_steady(self, value: Any) -> bool:
        """Return whether values of the class of `value` keep their description when they are pickled and unpickled.

        Only the first value of each class is tried.
        """
        kind = type(value)
        if self._scope.is_verifying:
            return True
        if kind not in self._classes.are_steady:
            again = Descriptions(self._scope.own_modules, self._scope.content_of, self._classes, is_verifying=True)
            self._classes.are_steady[kind] = again.of(value) == again.of(_read_back(value))
        return self._classes.are_steady[kind]


def _read_back(value: Any) -> Any:
    """Pickle and unpickle a value. Return the value itself if that fails, for example because it has a lock."""
    buffers: list[Any] = []
    try:
        return pickle.loads(dumps(value, buffer_callback=buffers.append), buffers=buffers)
    except BaseException as error:  # the code of a class may raise anything
        if is_interruption(error):
            raise
        return value


def _named(value: Any) -> str:
    if value is None:  # it describes a row, which fails only for a class that cannot be hashed
        return "a value of a class without a hash"
    name = class_name(type(value))
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
