"""Fingerprint: what a function is made of, so that the same one is known again in another process.

Its code counts, and everything it computes with. Comments, line numbers, docstrings and the seed of hashes make no
difference. Must never: call the function.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scaler.client.jobs.described_code import Cached, is_described, parts_of
from scaler.client.jobs.description import VERSION, Descriptions, KnownClasses
from scaler.client.jobs.shapes import Scope, name_of
from scaler.client.object_reference import ObjectReference

_Found = Iterator[tuple[str, Any]]


class Fingerprint:
    """What a function is made of.

    Attributes:
        parts: of the function, each as a hash, by what people call it.
        not_compared: what of it cannot be compared.
    """

    def __init__(self, parts: dict[str, str], not_compared: list[str]) -> None:
        self.parts, self.not_compared = parts, not_compared


def fingerprint(
    function: Any, sources: Mapping[str, bytes], content_of: Callable[[ObjectReference], bytes] | None = None
) -> Fingerprint:
    """Return what a function is made of.

    Args:
        sources: of the modules that travel with it, by name.
        content_of: returns the hash of the object of a reference.
    """
    parts = {"description": str(VERSION), "name": name_of(function)}
    not_compared = []
    known = KnownClasses()
    for name, value in _parts(function, Scope(sources, content_of)):
        digest, trouble = Descriptions(sources, content_of, known).of(value)
        # A partial within a partial has arguments of the same names.
        parts[name] = digest.hex() if name not in parts else f"{parts[name]} {digest.hex()}"
        if trouble:
            not_compared.append(f"the {name}: {trouble}")
    for name, text in sorted(sources.items()):
        parts[f"module {name}"] = hashlib.blake2b(_source(text).encode(), digest_size=16).hexdigest()
    return Fingerprint(parts, not_compared)


def _parts(function: Any, scope: Scope) -> _Found:
    """Go through what a function is made of, looking into what only holds it."""
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


def _source(text: bytes) -> str:
    """Return a source without its comments, lines and docstrings."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text.decode("utf-8", "replace")
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.Pass()
    return ast.dump(tree)


_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def differences(known: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what of a function differs, for people."""
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
        return f"its function was {known}, and is {now}"
    if known is None:
        return f"the {part} travels with its function now" if kind == "module" else f"its function uses the {part} now"
    if now is None:
        is_module = kind == "module"
        return (
            f"the {part} no longer travels with its function"
            if is_module
            else f"its function no longer uses the {part}"
        )
    return _SENTENCES.get(kind, f"the {part} is another value").format(name)
