"""Descriptions of functions and classes: those of the program by their code, all other ones by their names.

Comments, line numbers and docstrings make no difference; a changed constant, name or statement does. No described
function or class is called.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
import types
from collections.abc import Collection, Iterator
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple

from scaler.client.jobs.comparing.module_sources import IMPORTERS, Import, imports_named
from scaler.client.jobs.comparing.shapes import MAIN, Attributes, Handler, Scope, Shape, name_of
from scaler.pickling.pickled_functions import is_found_by_name

Cached = type(functools.lru_cache(len))
_SINGLE = getattr(functools.singledispatch(len), "__code__", None)
_CLASS_LINES = frozenset({"__doc__", "__firstlineno__", "__static_attributes__"})
_NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"})
_OF_MODULES = frozenset({"__name__", "__file__", "__doc__", "__spec__", "__loader__", "__builtins__", "__path__",
                         "__cached__", "__package__"})  # fmt: skip
"""Globals that Python sets in each module. They are not compared."""

_SKIPPED = frozenset({"__doc__", "__dict__", "__weakref__", "__module__", "__qualname__", "__firstlineno__",
                      "__slotnames__", "__static_attributes__", "__annotations_cache__", "__annotate_cache__",
                      "_abc_impl"})  # fmt: skip
"""Class attributes that Python sets and that affect no result."""

_OF_ENUMS = frozenset({"_value2member_map_", "_hashable_values_", "_unhashable_values_", "_unhashable_values_map_"})
"""Enum attributes that grow during use, or have no order."""

_DOCSTRING = 0x4000000
"""The flag in `co_flags` of code that has a docstring, since Python 3.14."""


MODULE = "module "
"""The prefix in the name of a part whose value is the digest of a module's source."""


class CodePart(NamedTuple):
    """A part of a function, with a name for display."""

    name: str
    value: Any


class _Read(NamedTuple):
    operations: list[int]
    constants: list[Any]
    names: frozenset[str]
    paths: frozenset[tuple[str, ...]]
    """each global that the code reads, followed by the attributes in the same expression: `a.b.c` is (a, b, c)"""
    imports: frozenset[Import]


@functools.lru_cache(4096)
def _read(code: types.CodeType) -> _Read:
    operations: list[int] = []
    constants: list[Any] = []
    paths: set[tuple[str, ...]] = set()
    imports: set[Import] = set()
    instructions = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
    for index, each in enumerate(instructions):
        operations.append(each.opcode)
        if each.opname.startswith("STORE_NAME") and each.argval in _CLASS_LINES:
            operations.append(-1)
        elif each.opcode in dis.hasconst or each.opname == "LOAD_SMALL_INT":
            after = instructions[index + 1 : index + 2]
            if not (after and after[0].opname == "STORE_NAME" and after[0].argval in _CLASS_LINES):
                constants.append(each.argval)
        elif each.opname == "IMPORT_NAME":
            level, names = (before.argval for before in instructions[index - 2 : index])
            imports.add(Import("." * level + each.argval, tuple(names or ())))
        elif each.opname in _NAMES:
            paths.add(_path(instructions, index))
        if each.opcode not in dis.hasconst:
            operations.append(-1 if each.arg is None else each.arg)
    if not IMPORTERS.isdisjoint(code.co_names):
        imports.update(imports_named(constants))
    return _Read(operations, constants, frozenset(path[0] for path in paths), frozenset(paths), frozenset(imports))


def _path(instructions: list[dis.Instruction], index: int) -> tuple[str, ...]:
    """Return the global that an instruction reads, and the attributes that follow it: `a.b.c` is (a, b, c)."""
    path = [instructions[index].argval]
    for each in instructions[index + 1 :]:
        if each.opname not in _ATTRIBUTES:
            break
        path.append(each.argval)
    return tuple(path)


def _within(code: types.CodeType) -> Iterator[types.CodeType]:
    todo = [code]
    while todo:
        code = todo.pop()
        yield code
        todo += (each for each in code.co_consts if isinstance(each, types.CodeType))


def _code(code: types.CodeType, _scope: Scope) -> Shape:
    read = _read(code)
    counts = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags & ~_DOCSTRING)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    table = getattr(code, "co_exceptiontable", b"")
    return Shape(("code", code.co_name, counts, names, table, read.operations), read.constants)


def parts_of(function: types.FunctionType, scope: Scope) -> list[CodePart]:
    """Return the parts of a function: its code, and the values that the code uses."""
    code = function.__code__
    parts = [CodePart("code", code)]
    n_plain = code.co_argcount
    defaults = function.__defaults__ or ()
    parts += map(
        CodePart, (f"default {each}" for each in code.co_varnames[n_plain - len(defaults) : n_plain]), defaults
    )
    parts += (CodePart(f"default {name}", value) for name, value in sorted((function.__kwdefaults__ or {}).items()))
    parts += map(CodePart, (f"closure {each}" for each in code.co_freevars), function.__closure__ or ())
    parts += (CodePart(f"attribute {name}", value) for name, value in sorted(vars(function).items()))
    module = function.__globals__.get("__name__")
    if scope.is_own(module) or getattr(sys.modules.get(str(module)), "__dict__", None) is not function.__globals__:
        parts += _globals(function, scope)
    return [each for each in parts if each.value is not function]


def _globals(function: types.FunctionType, scope: Scope) -> Iterator[CodePart]:
    """Iterate over the globals that a function uses, and over the globals of the program's modules that it uses."""
    codes = [*_within(function.__code__)]
    used = {name for code in codes for name in code.co_names}
    names = {name for code in codes for name in _read(code).names}
    known = {name: function.__globals__[name] for name in (names - _OF_MODULES) & function.__globals__.keys()}
    imports = {each for code in codes for each in _read(code).imports}
    values = [*_held(function), *(_value_of(path, known) for code in codes for path in _read(code).paths)]
    modules = {each.__name__ for each in values if isinstance(each, types.ModuleType)}
    digests = scope.sources.digests(imports, _package(function.__globals__), filter(scope.is_own, modules))
    seen: set[str] = set()
    for name, value in sorted(known.items()):
        yield from _global(name, value, used - _OF_MODULES, scope, seen, digests)
    yield from (CodePart(MODULE + name, digest) for name, digest in digests.items())


def _held(function: types.FunctionType) -> Iterator[Any]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # not yet assigned
            yield cell.cell_contents


def _value_of(path: tuple[str, ...], known: dict[str, Any]) -> Any:
    """Follow a path, which leads through modules, to its value. Code may read all attributes of a value that is a
    module.
    """
    value = known.get(path[0])
    for name in path[1:]:
        value = vars(value).get(name) if isinstance(value, types.ModuleType) else None
    return value


def _package(names: dict[str, Any]) -> str:
    """Return the package that the relative imports of a module start from."""
    package, module = names.get("__package__"), str(names.get("__name__") or "")
    if isinstance(package, str):
        return package
    return module if "__path__" in names else module.rpartition(".")[0]


def _global(
    name: str, value: Any, used: set[str], scope: Scope, seen: set[str], sources: Collection[str]
) -> Iterator[CodePart]:
    """Iterate over the parts of a global. Submodules in `sources` are left out, because they may be loaded or not."""
    if not isinstance(value, types.ModuleType):
        kind = "class" if isinstance(value, type) else "function" if isinstance(value, _FUNCTIONS) else "global"
        yield CodePart(f"{kind} {name}", value)
        return
    if "." in name and value.__name__ in sources:
        return
    yield CodePart(f"global {name}", value)
    if value.__name__ in seen or not scope.is_own(value.__name__):
        return
    seen.add(value.__name__)
    for each in sorted(used & vars(value).keys()):
        yield from _global(f"{name}.{each}", vars(value)[each], used, scope, seen, sources)


def is_described(function: types.FunctionType, scope: Scope) -> bool:
    """Return whether a function is compared by its code instead of its name."""
    return scope.is_own(function.__module__) or not is_found_by_name(function)


def _function(function: types.FunctionType, scope: Scope) -> Shape:
    name = name_of(function)
    if not is_described(function, scope):
        return Shape(("function", name), is_large=True)
    if function.__code__.co_filename.startswith("<attrs generated"):  # from its fields, with hashes of this process
        return Shape(("generated function", name))
    if function.__code__ is _SINGLE:
        registry = sorted(function.registry.items(), key=lambda each: name_of(each[0]))  # type: ignore[attr-defined]
        return Shape(("single dispatch", name), chain.from_iterable(registry), is_code=True)
    return Shape(("described function", name), chain.from_iterable(parts_of(function, scope)), is_code=True)


def _class(kind: type, scope: Scope) -> Shape:
    name = name_of(kind)
    if not scope.is_own(kind.__module__):
        return Shape(("class", name), is_large=True)
    skipped = _SKIPPED | _OF_ENUMS if issubclass(kind, Enum) else _SKIPPED
    parts = {each: value for each, value in vars(kind).items() if each not in skipped and not _is_of_pydantic(each)}
    return Shape(("described class", name), (type(kind), kind.__bases__, Attributes(parts)), is_code=True)


def _is_of_pydantic(name: str) -> bool:
    """Return whether pydantic makes this class attribute from the fields. Its value contains ids of this process."""
    return name.startswith("__pydantic_") and name not in ("__pydantic_fields__", "__pydantic_decorators__")


def _cell(value: types.CellType, _scope: Scope) -> Shape:
    try:
        return Shape("cell", (value.cell_contents,))
    except ValueError:  # not yet assigned
        return Shape("empty cell")


def _module(value: types.ModuleType, _scope: Scope) -> Shape:
    return Shape(("module", "" if value.__name__ in MAIN else value.__name__))


def _method(value: types.MethodType, _scope: Scope) -> Shape:
    return Shape("method", (value.__func__, value.__self__))


def _builtin(value: Any, _scope: Scope) -> Shape:
    itself = value.__self__
    if itself is None or isinstance(itself, types.ModuleType):
        return Shape(("builtin", name_of(value)))
    return Shape(("builtin method", value.__name__), (itself,))


def _slot(value: Any, _scope: Scope) -> Shape:
    return Shape(("slot", type(value).__name__, name_of(value.__objclass__), value.__name__))


def _wrapper(value: Any, _scope: Scope) -> Shape:
    return Shape(type(value).__name__, (value.__func__,))


def _property(value: property, _scope: Scope) -> Shape:
    return Shape("property", (type(value), value.fget, value.fset, value.fdel))


def _cached_property(value: Any, _scope: Scope) -> Shape:
    return Shape("cached property", (type(value), value.func, value.attrname))


def _cached(value: Any, _scope: Scope) -> Shape:
    return Shape("cached", (value.__wrapped__, value.cache_parameters()))


def _partial(value: Any, _scope: Scope) -> Shape:
    return Shape("partial", (type(value), value.func, value.args, value.keywords, Attributes(vars(value))))


def _compiled(value: Any, _scope: Scope) -> Shape:
    """Describe a function compiled by numba. Its pickled form contains an id of this process."""
    dispatcher = getattr(value, "_dispatcher", value)
    return Shape("compiled", (type(value), dispatcher.py_func, Attributes(dict(dispatcher.targetoptions))))


_COMPILED = frozenset({"CPUDispatcher", "DUFunc"})
_FUNCTIONS = (types.FunctionType, Cached)
_HANDLERS: dict[type, Handler] = {
    types.FunctionType: _function,
    types.CodeType: _code,
    types.CellType: _cell,
    types.MethodType: _method,
    types.BuiltinFunctionType: _builtin,
    types.MethodWrapperType: _builtin,
    **dict.fromkeys((types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType,
                     types.MethodDescriptorType, types.ClassMethodDescriptorType), _slot),
    **dict.fromkeys((staticmethod, classmethod), _wrapper),
    functools.partial: _partial,
    functools.cached_property: _cached_property,
    Cached: _cached,
}  # fmt: skip


def handler_of(kind: type) -> Handler | None:
    """Return the handler of a class of functions, classes, modules and the like; None for other classes."""
    if issubclass(kind, type):
        return _class
    if issubclass(kind, types.ModuleType):
        return _module
    if issubclass(kind, property):
        return _property
    if kind.__name__ in _COMPILED and kind.__module__.startswith("numba."):
        return _compiled
    return _HANDLERS.get(kind)
