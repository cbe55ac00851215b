"""Loaded modules: which modules of the user's program are loaded, and which of them were edited and reloaded since.

Used by clients, which send the code that they have loaded, and by workers, which import modules again that depend on
changed code. A module counts as reloaded if its values or the code of its functions have changed, because IPython's
`%autoreload` changes functions in place. No module is imported here, and no code of a module runs.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

LOOK_SECONDS = 0.2
"""The shortest pause between two checks of the files. The pause is longer only if `WAIT_PER_LOOK` requires it."""

WAIT_PER_LOOK = 20
"""The pause after a check is at least this many times as long as the check: checks take at most 5 % of the time."""

Stamp: TypeAlias = tuple[int, int, int]
"""Modification time, size and inode of a file. An edit changes them."""

Contents: TypeAlias = dict[Any, Any]
"""The identities of the values in a module, by name. A reload of the module changes them."""

Version: TypeAlias = tuple[Stamp, Contents | None]
"""The stamp of a module's file, and the module's contents; the contents are None if the module is not loaded."""


class ModuleVersions:
    """The versions of some modules that this process has loaded, to find those that were edited and reloaded."""

    def __init__(self) -> None:
        self._known: dict[str, Version] = {}

    def find_new(self, files: Mapping[str, str | os.PathLike[str]]) -> dict[str, Version]:
        """Return the modules that were not accepted yet, or were edited since.

        A loaded module that was edited counts only if it was also reloaded: else this process still has its former
        version.
        """
        found: dict[str, Version] = {}
        for name, path in files.items():
            stamp, known = _stamp(path), self._known.get(name)
            if stamp is None:  # it is being written
                continue
            if known is None or known[0] != stamp:
                contents = _contents(name)
                if known is None or contents is None or contents != known[1]:
                    found[name] = stamp, contents
            elif known[1] is None:
                self._known[name] = stamp, _contents(name)
        return found

    def accept(self, versions: Mapping[str, Version]) -> None:
        """Remember versions, so that `find_new` no longer returns them."""
        self._known.update(versions)


def now_ns() -> int:
    """Return the time in nanoseconds, comparable with the modification time of a file."""
    return time.time_ns()


def _stamp(path: str | os.PathLike[str]) -> Stamp | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _contents(name: str) -> Contents | None:
    module: Any = sys.modules.get(name)
    if not issubclass(type(module), ModuleType):
        return None
    contents: Contents = {}
    _gather(vars(module), name, (), contents)
    return contents


def _gather(namespace: Mapping[str, Any], module: str, path: tuple[str, ...], contents: Contents) -> None:
    for name, value in list(namespace.items()):
        full_path = (*path, name)
        contents[full_path] = id(value)
        # Checked by type: values may be proxies, and their attributes may run code.
        is_class = issubclass(type(value), type) and vars(value).get("__module__") == module
        if is_class and id(value) not in contents:
            contents[id(value)] = True
            _gather(vars(value), module, full_path, contents)
        for number, function in enumerate(_functions_in(value)):
            # The code itself: no other code can get its address while it is kept.
            parts = (function.__defaults__, function.__kwdefaults__, function.__closure__)
            contents[number, full_path] = (function.__code__, *map(id, parts))


_WRAPPERS = (property, staticmethod, classmethod, functools.cached_property, type(functools.lru_cache(len)))


def _functions_in(value: Any) -> Iterator[FunctionType]:
    if type(value) is FunctionType:
        yield value
        yield from _functions_in(vars(value).get("__wrapped__"))
    elif issubclass(type(value), _WRAPPERS):
        for name in ("fget", "fset", "fdel", "__func__", "func", "__wrapped__"):
            inner = getattr(value, name, None)
            if type(inner) is FunctionType:
                yield inner


# Which modules belong to the user, and which of them depend on which.

_FOLDERS = tuple({sysconfig.get_path(each) + os.sep for each in ("stdlib", "platstdlib")})
_OTHERS = frozenset({"__main__", "__mp_main__", "scaler"})


def own_modules() -> dict[str, str]:
    """Return the modules of the user's program and their files, without those of Python and of installed packages."""
    found = ((name, file_of(name)) for name in list(sys.modules))
    return {name: file for name, file in found if file and not _is_installed(file)}


def is_installed(name: str) -> bool:
    """Return whether a loaded module belongs to an installed package other than Scaler."""
    file = file_of(name)
    return bool(file) and _is_installed(file)


def file_of(name: str) -> str:
    """Return the source file of a loaded module; empty if the module has no such file, or is of Python or Scaler."""
    module: Any = sys.modules.get(name)
    file = vars(module).get("__file__") if issubclass(type(module), ModuleType) else None
    return file if isinstance(file, str) and _is_source(name, file) else ""


def is_own(name: str, file: str) -> bool:
    """Return whether a module, loaded or not, belongs to the user's program and has a source file."""
    return _is_source(name, file) and not _is_installed(file)


def _is_source(name: str, file: str) -> bool:
    if not file.endswith(".py") or name.partition(".")[0] in _OTHERS:
        return False
    return not file.startswith(_FOLDERS) or _is_installed(file)


@functools.lru_cache(8192)
def _is_installed(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def words_of(source: bytes) -> frozenset[str]:
    """Return the words of a source text. The text imports only modules whose names are among its words."""
    return frozenset(re.findall(r"\w+", source.decode("utf-8", "replace")))


def needed_by(names: Iterable[str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the user's modules `names`, with all modules that their sources mention, and the packages of all these.

    Args:
        own: the modules of the user's program, and their files.
    """
    called: dict[str, list[str]] = {}
    for name in own:
        called.setdefault(name.rpartition(".")[2], []).append(name)
    found: dict[str, str] = {}
    todo = [name for name in names if name in own]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found[name] = own[name]
        for word in _words_in(own[name], _stamp(own[name])) & called.keys():
            todo += called[word]
        package = name.rpartition(".")[0]
        if package in own:
            todo.append(package)
    return found


@functools.lru_cache(1024)
def _words_in(file: str, stamp: Stamp | None) -> frozenset[str]:
    del stamp  # of the file that is read
    try:
        return words_of(Path(file).read_bytes())
    except OSError:
        return frozenset()


def dependents_of(tops: Iterable[str], sources: Mapping[str, bytes]) -> list[str]:
    """Return the loaded modules of the packages `tops`, and of the user's packages whose sources mention them."""
    found = {name.partition(".")[0] for name in sys.modules}.intersection(tops)
    words: dict[str, set[str]] = {}
    for name, file in own_modules().items() if found else ():
        text = sources.get(name)
        source_words = _words_in(file, _stamp(file)) if text is None else words_of(text)
        words.setdefault(name.partition(".")[0], set()).update(source_words)
    while added := {top for top in words if top not in found and not found.isdisjoint(words[top])}:
        found |= added
    return [name for name in sys.modules if name.partition(".")[0] in found]


# When to check.


class _ReloadEvents:
    """Counts the events that may have reloaded modules: each `importlib.reload`, and each started cell of IPython."""

    def __init__(self) -> None:
        self.count = 0

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> None:
        """Find no module. Count the call as a reload if it passes the old module as `target`."""
        del fullname, path
        self.count += target is not None

    def on_cell_start(self, *_info: object) -> None:
        """Count the start of a cell of IPython, because `%autoreload` reloads modules before each cell."""
        self.count += 1

    def start(self) -> None:
        """Start counting reloads and cells."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        find = getattr(sys.modules.get("IPython"), "get_ipython", None)
        events = getattr(find() if find is not None else None, "events", None)
        if events is not None:
            events.register("pre_run_cell", self.on_cell_start)


_events = _ReloadEvents()


class ReloadWatch:
    """Checks modules with `look` after each event that `_ReloadEvents` counts, and from time to time."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._lock = threading.RLock()
        self._seen = -1
        self._look_at = 0.0
        _events.start()

    def check_if_due(self) -> None:
        """Check the modules if there was an event since the last check, or if the last check was long ago."""
        if _events.count != self._seen or time.monotonic() >= self._look_at:
            self.look()

    def look(self) -> None:
        """Check the modules now. Another thread that calls this during the check waits until the check has ended."""
        with self._lock:
            seen, started = _events.count, time.monotonic()
            self._look()
            now = time.monotonic()
            self._seen, self._look_at = seen, now + max(LOOK_SECONDS, WAIT_PER_LOOK * (now - started))
