"""Versions: compares the package versions of the sender of a function with those of the process that reads it.

Each difference is logged once. The comparison imports no module. A function is accepted in spite of differences.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias

from scaler.pickling.pickled_functions import is_found_by_name

logger = logging.getLogger("scaler.processor")

Versions: TypeAlias = Mapping[str, str]
"""package -> its `__version__`"""

_OURS_AND_PYTHONS = frozenset({"__main__", "__mp_main__", "scaler"} | sys.stdlib_module_names)

_differing: dict[str, tuple[str, str]] = {}
"""package -> the version in this process, and the version at the sender of the function that was read last"""

_said: set[tuple[str, str]] = set()


def versions_used_by(function: Any) -> dict[str, str]:
    """Return the versions of the packages that a function uses.

    If the function is found by name, these are the packages that its module imports; else those that its code names.
    """
    function = getattr(function, "func", function)  # the function of a partial
    if is_found_by_name(function):
        module = sys.modules[function.__module__]
        names = {function.__module__, *modules_of(vars(module).values())}
    elif type(function) is FunctionType:
        names = set(modules_of(_read_by(function.__code__, function.__globals__)))
    else:
        return {}
    tops = {name.partition(".")[0] for name in names} - _OURS_AND_PYTHONS
    return {top: version for top in sorted(tops) if (version := _version_of(top))}


def modules_of(values: Iterable[Any]) -> Iterator[str]:
    """Yield the names of the modules of some values. No attribute of an object is read, because that may run code."""
    for value in list(values):
        if issubclass(type(value), ModuleType):
            yield value.__name__
        elif issubclass(type(value), (type, FunctionType, BuiltinFunctionType)):
            yield str(value.__module__)
        else:
            yield type(value).__module__


def compare(sent: Versions) -> None:
    """Compare the versions that were sent with a function with those of this process, and log each difference once."""
    for top, remote in sent.items():
        local = _version_of(top)
        if local in ("", remote):
            _differing.pop(top, None)
            continue
        _differing[top] = local, remote
        if (top, remote) not in _said:
            _said.add((top, remote))
            logger.warning("a task uses %s %s, and this worker has %s: %s", top, remote, local, _CURE)


def differences() -> str:
    """Return the versions that differ from those of the sender, as the end of a sentence; empty without differences."""
    return ", ".join(f"{top} is {local} here and {remote} at the sender" for top, (local, remote) in _differing.items())


_CURE = "one version may not be able to read values and functions of the other; install the same version on both sides"


def _read_by(code: CodeType, namespace: Mapping[str, Any]) -> Iterator[Any]:
    for name in code.co_names:
        if name in namespace:
            yield namespace[name]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _read_by(inner, namespace)


def _version_of(top: str) -> str:
    module = sys.modules.get(top)
    version = vars(module).get("__version__") if type(module) is ModuleType else None
    return version if type(version) is str else ""
