"""Shipped modules: the modules of a user's program that are sent to the workers with its functions, as their source.

In a worker, a shipped module takes precedence over an installed one, and a new version replaces the version shipped
before. In the process that packed the modules, nothing is replaced.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import pickle
import sys
import zlib
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from scaler.config import ConfigError
from scaler.pickling.loaded_modules import ModuleVersions, dependents_of
from scaler.texts import shown

Module: TypeAlias = ModuleType | str | os.PathLike[str]
"""A module or package, or its path: a `.py` file or a folder."""

SOURCE_BYTES_MOST = 16 << 20
"""The most bytes of sources that one program sends. Each function of the program is sent with all these sources."""


class Source(NamedTuple):
    """The source text of one module, its path, and whether it is a package."""

    text: bytes
    path: str
    is_package: bool


class Shipment(NamedTuple):
    """The sources of modules by name, and the process that has packed them."""

    origin: int
    sources: dict[str, Source]


class Shipped:
    """The packed modules of one client. Raises `ConfigError` if a module that the user has named cannot be sent."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._paths: dict[str, Path] = {}
        self._versions = ModuleVersions()
        self._sources: dict[str, Source] = {}
        self._packed = b""
        if isinstance(modules, (str, os.PathLike, ModuleType)) or not isinstance(modules, Iterable):
            raise ConfigError(f"modules must be a list of modules or their paths, not {shown(modules)}")
        self.add(modules)

    def has(self, top: str) -> bool:
        """Return whether the module or package of this name is sent to the workers."""
        return top in self._paths

    def add(self, modules: Iterable[Module]) -> None:
        """Pack the present files of modules, including modules that were packed before.

        Raises:
            ConfigError: if a module cannot be sent.
        """
        added = dict(map(_located, modules))
        if added:
            paths = {**self._paths, **added}
            self._pack(paths, _files(paths), {name for name in self._sources if name.partition(".")[0] in added})

    def look(self) -> bool:
        """Pack edited modules again; a loaded module only if it was also reloaded. Return whether any module has
        changed.

        Raises:
            ConfigError: if a module can no longer be sent.
        """
        return bool(self._paths) and self._pack(self._paths, _files(self._paths))

    def sources(self) -> dict[str, bytes]:
        """Return the source of each module that is sent, by name."""
        return {name: source.text for name, source in self._sources.items()}

    def packed(self) -> bytes:
        """Return the packed modules of the client; if it has none, the modules that were shipped to this process."""
        return self._packed or _installed.packed

    def _pack(
        self, paths: dict[str, Path], files: dict[str, tuple[Path, bool]], repacked: Container[str] = frozenset()
    ) -> bool:
        new = self._versions.find_new({name: path for name, (path, _) in files.items()})
        sources: dict[str, Source] = {}
        for name, (path, is_one) in files.items():
            known = self._sources.get(name) if name not in new and name not in repacked else None
            sources[name] = known or Source(path.read_bytes(), str(path), is_one)
        if sources == self._sources and paths == self._paths:
            self._versions.accept(new)
            return False
        size = sum(len(source.text) for source in sources.values())
        if size > SOURCE_BYTES_MOST:
            raise ConfigError(
                f"the source of the modules {', '.join(paths)} has {size:,} bytes, but at most "
                f"{SOURCE_BYTES_MOST:,} can be sent with functions: install them on the workers"
            )
        self._packed = zlib.compress(pickle.dumps(Shipment(_ORIGIN, sources)), 6)
        self._paths, self._sources = paths, sources
        self._versions.accept(new)
        return True


_ORIGIN = int.from_bytes(os.urandom(8), "big")
"""A random id of this process. A fork has the same id as its parent, because it has the same modules."""


_NOT_SENT = frozenset({"__main__", "__mp_main__", "scaler"} | sys.stdlib_module_names)


def _located(module: Module) -> tuple[str, Path]:
    """Return the name and path of a module. For a module inside a package, return name and path of the package."""
    if isinstance(module, ModuleType):
        top = module.__name__.partition(".")[0]
        spec = getattr(sys.modules.get(top), "__spec__", None)
        locations = list(getattr(spec, "submodule_search_locations", None) or ())
        origin = locations[0] if locations else getattr(spec, "origin", None)
        if origin is None or top in _NOT_SENT or not Path(origin).exists():
            raise ConfigError(
                f"the module {top} cannot be sent to the workers: it is a part of Python or of Scaler, or has no file "
                "of its own; functions of the main script and of notebooks are sent anyway"
            )
        return top, Path(origin)
    if not isinstance(module, (str, os.PathLike)):
        raise ConfigError(f"modules to send must be modules or paths of modules, not {shown(module)}")
    path = Path(module).resolve()
    is_one = path.is_dir() or (path.is_file() and path.suffix == ".py")
    if not is_one or not path.stem.isidentifier() or path.stem in _NOT_SENT:
        raise ConfigError(f"{str(module)!r} is not a module: pass a .py file, or the folder of a package")
    return path.stem, path


def _files(paths: dict[str, Path]) -> dict[str, tuple[Path, bool]]:
    """Return the files of all modules by name, and whether each module is a package."""
    files: dict[str, tuple[Path, bool]] = {}
    for name, path in paths.items():
        if not path.is_dir():
            _check(name, path)
            files[name] = path, False
            continue
        for each in sorted(path.rglob("*")):
            parts = [name, *each.relative_to(path).with_suffix("").parts]
            if each.suffix in importlib.machinery.EXTENSION_SUFFIXES:
                _check(name, each)
            if each.suffix == ".py" and all(map(str.isidentifier, parts)):
                is_package = parts[-1] == "__init__"
                files[".".join(parts[:-1] if is_package else parts)] = each, is_package
    return files


def _check(name: str, path: Path) -> None:
    if path.suffix != ".py":
        raise ConfigError(f"the module {name} cannot be sent to the workers: {path.name} is compiled; install it there")


class _ShippedFinder:
    """Finds the modules that were shipped to this process."""

    def __init__(self) -> None:
        self.packed = b""
        self.sources: dict[str, Source] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        source = self.sources.get(fullname)
        if source is None:
            return None
        spec = importlib.util.spec_from_loader(
            fullname,
            _Loader(source),  # type: ignore[arg-type]  # only Python before 3.4 wants a `load_module`
            origin=source.path,
            is_package=source.is_package,
        )
        if spec is not None:
            spec.has_location = True
        return spec


class _Loader:
    """Loads a shipped module. Tracebacks show the source lines of the module."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def is_package(self, fullname: str) -> bool:
        del fullname
        return self._source.is_package

    def get_source(self, fullname: str) -> str:
        del fullname
        return importlib.util.decode_source(self._source.text)

    def get_code(self, fullname: str) -> Any:
        return compile(self.get_source(fullname), self._source.path, "exec", dont_inherit=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Return None, so that Python creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 - this is how a module is imported


_installed = _ShippedFinder()


def carried() -> bytes:
    """Return the packed modules that this process has installed. They are sent with nested tasks."""
    return _installed.packed


def install(packed: bytes) -> None:
    """Make packed modules importable in place of the modules shipped before.

    Modules that have changed, or mention changed modules, are removed from `sys.modules`, so that they are imported
    again.
    """
    if packed == _installed.packed:
        return
    shipment = _unpacked(packed)
    if shipment.origin == _ORIGIN:
        return
    before, after = _installed.sources, shipment.sources
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    tops = {name.partition(".")[0] for name in changed}
    _installed.packed, _installed.sources = packed, after
    if _installed not in sys.meta_path:
        sys.meta_path.insert(0, _installed)
    for name in dependents_of(tops, {name: source.text for name, source in before.items()}):
        del sys.modules[name]


def _unpacked(packed: bytes) -> Shipment:
    shipment: Shipment = pickle.loads(zlib.decompress(packed)) if packed else Shipment(0, {})
    return shipment


class _Offered(_ShippedFinder):
    """Finds modules that were sent with a function to this program, if none of its other finders finds them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if path is not None and not self.has_loaded(fullname.partition(".")[0]):  # a submodule of another package
            return None
        return super().find_spec(fullname, path, target)

    def has_loaded(self, name: str) -> bool:
        """Return whether the loaded module of this name came from this finder."""
        loader = getattr(getattr(sys.modules.get(name), "__spec__", None), "loader", None)
        return name in self.sources and isinstance(loader, _Loader)


_offered = _Offered()


def offer(packed: bytes) -> None:
    """Make packed modules importable if this program lacks them. Modules that the program has are not replaced."""
    shipment = _unpacked(packed)
    if shipment.origin == _ORIGIN or packed == _installed.packed:
        return
    if _offered.sources != shipment.sources:
        for name in [each for each in _offered.sources if _offered.has_loaded(each)]:
            del sys.modules[name]
        _offered.sources = shipment.sources
    if _offered not in sys.meta_path:
        sys.meta_path.append(_offered)


def differing_sources(packed: bytes) -> list[str]:
    """Return the sorted names of the packed modules that this program has loaded from a file with another source."""
    sources = _unpacked(packed).sources
    return sorted(name for name in sources.keys() & sys.modules.keys() if _differs(name, sources[name]))


def _differs(name: str, source: Source) -> bool:
    spec = getattr(sys.modules[name], "__spec__", None)
    if spec is None or isinstance(spec.loader, _Loader):
        return False
    try:
        return Path(spec.origin or "").read_bytes() != source.text
    except OSError:
        return True
