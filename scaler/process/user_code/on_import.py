"""On import: calls a function after a program has imported a module, so that Scaler need not import that module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def on_import(name: str, act: Callable[[Any], None]) -> None:
    """Call `act` with a module: now if it is loaded, else after its import."""
    if name in sys.modules:
        act(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, act))


class _Finder(MetaPathFinder):
    """Finds a module as other finders do. After the module was executed, its loader calls `act`."""

    def __init__(self, name: str, act: Callable[[Any], None]) -> None:
        self._name, self._act = name, act
        self._is_searching = False
        """whether this finder is calling the other finders, which may be of this class"""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._is_searching:
            return None
        self._is_searching = True
        try:
            finders = (getattr(each, "find_spec", None) for each in list(sys.meta_path))
            specs = (find(fullname, path, target) for find in finders if find is not None)
            spec = next((spec for spec in specs if spec is not None), None)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            self._act_after(spec.loader)
        return spec

    def _act_after(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            self._act(module)

        loader.exec_module = execute_and_act
