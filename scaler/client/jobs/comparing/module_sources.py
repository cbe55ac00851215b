"""Module sources: digests of the program's modules that a function imports when it runs.

    imports of a function --resolve--> modules --parse--> digests, and imports of their own --resolve--> ...

The source of such a module is compared even if the module is not loaded, because two runs of a program may load it at
different times. No module is imported or run for this.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from scaler.interruptions import is_interruption
from scaler.pickling import loaded_modules


class Import(NamedTuple):
    """An import of a module, and of names from it."""

    module: str
    """the name of the module, with one dot in front for each level of a relative import"""
    names: tuple[str, ...] = ()
    """the names imported from the module; empty for `import module`"""


class _Module(NamedTuple):
    text: bytes | None
    """the source of the module; None for a namespace package"""
    folders: Sequence[str] | None
    """the folders of the submodules; None if the module is not a package"""


class _Parsed(NamedTuple):
    digest: str
    imports: frozenset[Import]


class ModuleSources:
    """Finds the source of each module of the program, once. `known` has the sources of the modules that travel."""

    def __init__(self, known: Mapping[str, bytes]) -> None:
        self._known = known
        self._found: dict[str, _Module | None] = {}

    def digests(self, imports: Iterable[Import], package: str, names: Iterable[str] = ()) -> dict[str, str]:
        """Return, by name, the digests of the program's modules that these imports execute, directly or indirectly.

        Args:
            package: the package that relative imports start from.
        """
        todo = [*names, *self._all_targets(imports, package)]
        found: dict[str, str] = {}
        while todo:
            name = todo.pop()
            module = None if name in found else self._find(name)
            if module is None or module.text is None:
                continue
            parsed = parse(module.text)
            found[name] = parsed.digest
            inside = name if module.folders is not None else name.rpartition(".")[0]
            todo += self._all_targets(parsed.imports, inside)
        return dict(sorted(found.items()))

    def _all_targets(self, imports: Iterable[Import], package: str) -> Iterator[str]:
        for each in imports:
            try:
                name = resolve_name(each.module, package)
            except (ImportError, ValueError):  # it fails when it runs
                continue
            yield from self._targets(name, each.names, package)

    def _targets(self, name: str, names: tuple[str, ...], package: str) -> Iterator[str]:
        """Iterate over the modules that an import executes.

        The packages around the importing module were executed before. They are included only if the import takes a name
        that they define.
        """
        submodules = [each for each in (f"{name}.{inner}" for inner in names) if self._find(each) is not None]
        yield from submodules
        used = {name} if len(submodules) < len(names) else set()
        before = {*_with_parents(package)} if names else set()
        yield from (each for each in _with_parents(name) if each in used or each not in before)

    def _find(self, name: str) -> _Module | None:
        """Find a module of the program; None for installed, built-in, compiled and unknown ones."""
        if name not in self._found:
            self._found[name] = None
            self._found[name] = self._find_loaded(name) if _loaded(name) else self._find_file(name)
        found = self._found[name]
        if name in self._known:
            return _Module(self._known[name], found and found.folders)
        return found

    def _find_loaded(self, name: str) -> _Module | None:
        names = vars(sys.modules[name])
        folders, file = names.get("__path__"), names.get("__file__")
        folders = None if folders is None else _listed(folders)
        if file is None and folders:
            return _Module(None, folders)
        return _module(name, file, names.get("__loader__"), folders)

    def _find_file(self, name: str) -> _Module | None:
        parent, _, last = name.rpartition(".")
        package = self._find(parent) if parent else None
        within = None if package is None else package.folders
        if parent and not within:
            return None
        spec = _spec(name, within)
        if spec is None:  # perhaps a namespace package inside another one that is not loaded
            inner = [str(each) for each in (Path(folder, last) for folder in within or ()) if each.is_dir()]
            return _Module(None, inner) if inner else None
        places = spec.submodule_search_locations
        folders = None if places is None else _listed(places)
        if spec.origin is None and folders:
            return _Module(None, folders)
        return _module(name, spec.origin, spec.loader, folders)


def _loaded(name: str) -> bool:
    return issubclass(type(sys.modules.get(name)), ModuleType)


def _with_parents(name: str) -> list[str]:
    parts = name.split(".") if name else []
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _listed(folders: Iterable[str]) -> list[str]:
    try:
        return [*folders]
    except KeyError:  # a namespace package whose parent is not loaded
        return []


def _spec(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
    """Find the spec of a module that is not loaded, as an import does."""
    for finder in [*sys.meta_path]:
        try:
            spec = finder.find_spec(name, folders)
        except BaseException as error:  # a finder may raise anything
            if is_interruption(error):
                raise
            continue
        if spec is not None:
            return spec
    return None


def _module(name: str, file: Any, loader: Any, folders: Sequence[str] | None) -> _Module | None:
    if not isinstance(file, str) or not loaded_modules.is_own(name, file):
        return None
    try:
        return _Module(Path(file).read_bytes(), folders)
    except OSError:
        pass
    try:
        return _Module(bytes(loader.get_data(file)), folders)  # such as a file in an archive
    except BaseException as error:  # a loader may raise anything
        if is_interruption(error):
            raise
        return None


@functools.lru_cache(1024)
def parse(text: bytes) -> _Parsed:
    """Parse a source. Comments, line numbers and docstrings make no difference to its digest."""
    imports: set[Import] = set()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        for node in ast.walk(tree):
            imports.update(_imports(node))
            if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
                node.body[:1] = [] if node.body[1:] else [ast.Pass()]
        code = ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError):
        code = text.decode("utf-8", "replace")
    digest = hashlib.blake2b(code.encode("utf-8", "surrogatepass"), digest_size=16)
    return _Parsed(digest.hexdigest(), frozenset(imports))


_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

IMPORTERS = frozenset({"import_module", "__import__"})
"""Functions that import a module whose name is their argument."""


def _imports(node: ast.AST) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(each.name) for each in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield Import("." * node.level + (node.module or ""), tuple(each.name for each in node.names))
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        if called in IMPORTERS:
            yield from imports_named((node.args[0].value,))


def imports_named(values: Collection[Any]) -> list[Import]:
    """Return an import for each `str` among `values` that may be the name of a module."""
    texts = [each for each in values if type(each) is str]
    return [Import(each) for each in texts if all(map(str.isidentifier, each.lstrip(".").split(".")))]
