"""Fingerprint: hashes of the parts of a function, by which another process recognises the same function.

The parts are the code of the function, the values that the code uses, and the sources of the modules that the code
imports when it runs. Comments, line numbers, docstrings and the hash seed make no difference. The function is never
called.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scaler.client.jobs.comparing.described_code import MODULE, Cached, is_described, parts_of
from scaler.client.jobs.comparing.description import VERSION, Descriptions, KnownClasses
from scaler.client.jobs.comparing.module_sources import parse
from scaler.client.jobs.comparing.shapes import Scope, name_of
from scaler.client.object_reference import ObjectReference

_Found = Iterator[tuple[str, Any]]


class Fingerprint:
    """The hashes of a function's parts, by the displayed names of the parts; and the parts that cannot be compared."""

    def __init__(self, parts: dict[str, str], not_compared: list[str]) -> None:
        self.parts, self.not_compared = parts, not_compared


def fingerprint(
    function: Any, sources: Mapping[str, bytes], content_of: Callable[[ObjectReference], bytes] | None = None
) -> Fingerprint:
    """Return the fingerprint of a function; `sources` are the modules that travel with the function."""
    parts = {"description": str(VERSION), "name": name_of(function)}
    not_compared = []
    known = KnownClasses()
    for name, value in _parts(function, Scope(sources, content_of)):
        if name.startswith(MODULE):
            parts[name] = value
            continue
        digest, trouble = Descriptions(sources, content_of, known).of(value)
        # Nested partials have parts of the same name.
        parts[name] = digest.hex() if name not in parts else f"{parts[name]} {digest.hex()}"
        if trouble:
            not_compared.append(f"the {name}: {trouble}")
    for name, text in sorted(sources.items()):
        parts[MODULE + name] = parse(text).digest
    return Fingerprint(parts, not_compared)


def _parts(function: Any, scope: Scope) -> _Found:
    """Iterate over the (name, value) parts of a function, unwrapping partials, methods and caches."""
    seen: set[int] = set()
    while id(function) not in seen:
        seen.add(id(function))
        kind = type(function)
        if kind is functools.partial:
            yield from ((f"argument {index}", value) for index, value in enumerate(function.args))
            yield from ((f"argument {name}", value) for name, value in sorted(function.keywords.items()))
            function = function.func
        elif kind is types.MethodType:
            yield f"state of {type(function.__self__).__name__}", function.__self__
            function = function.__func__
        elif kind is Cached:
            function = function.__wrapped__
        elif kind is types.FunctionType and is_described(function, scope):
            yield from parts_of(function, scope)
            return
        else:
            break
    if isinstance(function, types.BuiltinFunctionType) and not isinstance(function.__self__, types.ModuleType | None):
        yield "code", function.__name__
        yield f"state of {type(function.__self__).__name__}", function.__self__
    elif isinstance(function, (type, types.FunctionType, types.BuiltinFunctionType)):
        yield "code", function
    else:
        yield "code", type(function)
        yield f"state of {type(function).__name__}", function


def differences(known: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the differences between two fingerprints, for display."""
    if known.get("description") != now.get("description"):
        return ["its function was described by another version of Scaler, in another way"]
    parts = sorted({*known, *now}, key=lambda part: (_ORDER.get(part, 2), part))
    return [_difference(each, known.get(each), now.get(each)) for each in parts if known.get(each) != now.get(each)]


_ORDER = {"name": 0, "code": 1}

_SENTENCES = {
    "code": "the code of its function changed",
    "function": "the code of its function changed (or of something that it calls: {})",
    "class": "the code of its function changed (or of something that it calls: {})",
    "module": "the module {} was edited",
}


def _difference(part: str, known: str | None, now: str | None) -> str:
    kind, _, name = part.partition(" ")
    if kind == "name":
        return f"its function was {known!r}, and is now {now!r}"
    if known is None:
        return f"its function uses the {part} now"
    if now is None:
        return f"its function no longer uses the {part}"
    return _SENTENCES.get(kind, f"the {part} is another value").format(name)
