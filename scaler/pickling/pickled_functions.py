"""Pickled functions: keys for pickles of functions, so that a pickle that cannot change is made only once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import cloudpickle

_read: WeakKeyDictionary[Callable[..., Any], tuple[tuple[Any, ...], Sequence[bytes]]] = WeakKeyDictionary()
"""function that this process has read -> the key of its pickle, and the frames that the function was read from"""


def what_pickle_depends_on(function: Callable[..., Any]) -> tuple[Any, ...] | None:
    """Return a key for the pickle of `function`; None if the pickle may change. Equal keys mean equal pickles.

    A key exists for functions that are pickled by name, and for functions that are pickled by value (those of
    `__main__`, lambdas, inner functions) if they read nothing that can change: no closure, no default, no global except
    modules, builtins and, in a recursion, the function itself.
    """
    if not isinstance(function, (FunctionType, BuiltinFunctionType, type)):
        return None  # a bound method or a partial carries an object with it
    if is_found_by_name(function):
        return () if not cloudpickle.list_registry_pickle_by_value() else None
    if type(function) is not FunctionType:
        return None
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__ or function.__dict__:
        return None
    if function.__annotations__ and not all(map(_is_plain_annotation, function.__annotations__.values())):
        return None
    modules = _modules_read(function.__code__, function.__globals__, function)
    return None if modules is None else (function.__code__, *modules)


def was_read(function: Callable[..., Any], frames: Sequence[bytes]) -> None:
    """Record that the default serializer has read `function` from `frames`, and that it has not changed since."""
    state = what_pickle_depends_on(function)
    if state:
        _read[function] = state, frames


def read_from(function: Callable[..., Any], state: tuple[Any, ...] | None) -> Sequence[bytes] | None:
    """Return the frames from which `function` was read; None if unknown, or if its key is not `state` any more."""
    known = _read.get(function) if state else None
    return known[1] if known is not None and known[0] == state else None


_MAIN_MODULES = ("__main__", "__mp_main__")


def pickle_main_by_value() -> None:
    """Pickle the main script's functions by value also in children of multiprocessing, which rename the script."""
    main = sys.modules.get("__mp_main__")
    if main is not None and main.__name__ == "__mp_main__":  # elsewhere it is only another name of `__main__`
        cloudpickle.register_pickle_by_value(main)


def is_found_by_name(function: Any) -> bool:
    """Return whether the function's module and name lead to `function`. Then only these two names are pickled."""
    module_name, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module_name, str) or module_name in _MAIN_MODULES or not isinstance(path, str):
        return False  # a partial has the module of its class, and no name
    found: Any = sys.modules.get(module_name)
    if found is None:
        return False
    for part in path.split("."):
        found = getattr(found, part, None)
    return found is function


def _is_plain_annotation(annotation: Any) -> bool:
    return annotation is None or type(annotation) is str or (type(annotation) is type and is_found_by_name(annotation))


def _modules_read(code: Any, namespace: Mapping[str, Any], itself: Any) -> list[ModuleType] | None:
    """Return the modules that `code` may read as globals; None if it may read other globals, apart from `itself`."""
    modules = []
    for name in code.co_names:
        if name in namespace:
            value = namespace[name]
            if value is itself:
                continue
            if type(value) is not ModuleType or sys.modules.get(value.__name__) is not value:
                return None
            modules.append(value)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            deeper = _modules_read(inner, namespace, itself)
            if deeper is None:
                return None
            modules += deeper
    return modules
