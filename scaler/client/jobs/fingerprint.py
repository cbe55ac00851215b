"""Fingerprint: what a function is made of, so that the same one is known again in another process.

Comments, line numbers, docstrings and the seed of hashes make no difference; a changed constant, name or line does.
Must never: call the function.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_MAIN = ("__main__", "__mp_main__")


def fingerprint(function: Any, sources: Mapping[str, bytes]) -> dict[str, str]:
    """Return the parts of a function, each as a hash.

    Args:
        sources: of the modules that travel with it, by name.
    """
    seen: dict[int, str] = {}
    parts = {"name": _name_of(function), "code": _digest(_describe(function, {*sources}, seen))}
    for name, text in sorted(sources.items()):
        parts[f"module {name}"] = _digest(_source(text))
    return parts


def differences(known: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what of a function is different, for people."""
    parts = sorted({*known, *now})
    return [_difference(each, known.get(each), now.get(each)) for each in parts if known.get(each) != now.get(each)]


def _difference(part: str, known: str | None, now: str | None) -> str:
    if part == "name":
        return f"its function was {known}, and is {now}"
    if part == "code":
        return "the code of its function, or something that it uses, is another one"
    if known is None or now is None:
        return f"the {part} {'travels' if known is None else 'travelled'} with it only {'now' if now else 'then'}"
    return f"the {part} was edited"


def _name_of(function: Any) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name if module in _MAIN or module is None else f"{module}.{name}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _source(text: bytes) -> str:
    """Return a source without its comments and lines."""
    try:
        return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError):
        return text.decode("utf-8", "replace")


def _describe(value: Any, own: set[str], seen: dict[int, str]) -> str:
    """Return a text that is the same for the same value in each process.

    Args:
        own: the modules that travel: their functions are looked into.
    """
    if id(value) in seen:
        return seen[id(value)]
    for kind, describe in _KINDS.items():
        if isinstance(value, kind):
            return describe(value, own, seen)
    return _plain(value, own, seen)


def _all(values: Any, own: set[str], seen: dict[int, str]) -> str:
    return ", ".join(_describe(each, own, seen) for each in values)


def _plain(value: Any, own: set[str], seen: dict[int, str]) -> str:
    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, bytes) or value is Ellipsis:
        return repr(value)
    if kind in (tuple, list):
        return f"{kind.__name__}({_all(value, own, seen)})"
    if kind in (set, frozenset):
        return f"{kind.__name__}({', '.join(sorted(_describe(each, own, seen) for each in value))})"
    if kind is dict:
        return f"dict({_all((each for pair in value.items() for each in pair), own, seen)})"
    if kind is CodeType:
        return _code(value, own, seen)
    # What else there may be: its class counts, and not what is in it.
    return f"a {_name_of(kind)}"


def _is_own(value: Any, own: set[str]) -> bool:
    module = str(getattr(value, "__module__", ""))
    return module in _MAIN or module.partition(".")[0] in own


def _function(function: FunctionType, own: set[str], seen: dict[int, str]) -> str:
    name = _name_of(function)
    seen[id(function)] = f"function {name}"
    code = function.__code__
    parts = [name, _code(code, own, seen), _all(function.__defaults__ or (), own, seen)]
    parts += [f"{key}={_describe(value, own, seen)}" for key, value in sorted((function.__kwdefaults__ or {}).items())]
    for key, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            parts.append(f"{key}: {_describe(cell.cell_contents, own, seen)}")
        except ValueError:  # it is empty still
            parts.append(f"{key}: nothing")
    own = own | {str(function.__module__).partition(".")[0]}
    for key in sorted(_names(code) & function.__globals__.keys()):
        value = function.__globals__[key]
        is_code = isinstance(value, (FunctionType, type))
        looked_into = not is_code or _is_own(value, own)
        parts.append(f"{key} = {_describe(value, own, seen) if looked_into else _name_of(value)}")
    seen[id(function)] = f"function({'; '.join(parts)})"
    return seen[id(function)]


def _names(code: CodeType) -> set[str]:
    """Return the names that a function and those inside of it use."""
    names = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            names |= _names(each)
    return names


def _code(code: CodeType, own: set[str], seen: dict[int, str]) -> str:
    constants = list(code.co_consts)
    if constants and isinstance(constants[0], str):
        constants[0] = None  # a docstring; a constant that is used has a place further on, or is loaded as this one
        if _uses_first_constant(code):
            constants[0] = code.co_consts[0]
    shape = (code.co_name, code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return f"code({shape}, {names}, {code.co_code.hex()}, {_all(constants, own, seen)})"


def _uses_first_constant(code: CodeType) -> bool:
    import dis  # noqa: PLC0415 - few programs need it

    return any(each.opname in ("LOAD_CONST", "RETURN_CONST") and each.arg == 0 for each in dis.get_instructions(code))


def _class(kind: type, own: set[str], seen: dict[int, str]) -> str:
    name = _name_of(kind)
    if not _is_own(kind, own):
        return f"class {name}"
    seen[id(kind)] = f"class {name}"
    skipped = {"__doc__", "__dict__", "__weakref__", "__module__", "__qualname__", "__firstlineno__",
               "__static_attributes__"}  # fmt: skip
    parts = [f"{key} = {_describe(value, own, seen)}" for key, value in vars(kind).items() if key not in skipped]
    seen[id(kind)] = f"class({name}, {_all(kind.__bases__, own, seen)}, {'; '.join(sorted(parts))})"
    return seen[id(kind)]


def _partial(value: functools.partial[Any], own: set[str], seen: dict[int, str]) -> str:
    return f"partial({_all((value.func, *value.args, value.keywords), own, seen)})"


def _method(value: MethodType, own: set[str], seen: dict[int, str]) -> str:
    return f"method({_all((value.__func__, type(value.__self__)), own, seen)})"


def _named(value: Any, _own: set[str], _seen: dict[int, str]) -> str:
    return f"{type(value).__name__} {value.__name__ if isinstance(value, ModuleType) else _name_of(value)}"


_KINDS: dict[type, Callable[..., str]] = {
    functools.partial: _partial,
    MethodType: _method,
    FunctionType: _function,
    ModuleType: _named,
    BuiltinFunctionType: _named,
    type: _class,
}
