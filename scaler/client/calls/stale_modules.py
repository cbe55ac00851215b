"""Stale modules: detects modules that were edited and reloaded in this process, while workers may have the old code.

A function of a module is pickled as a name, so the cluster cannot distinguish two versions of the module. An edited
module is therefore sent with the function.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from scaler.config import ConfigError
from scaler.errors import SerializeObjectError
from scaler.pickling.loaded_modules import ModuleVersions, Version, file_of, needed_by, now_ns, own_modules
from scaler.pickling.serialization import Frames, name_of
from scaler.pickling.shipped_modules import Shipped

logger = logging.getLogger("scaler.client")

LOOKED_AT_BYTES = 1 << 20
"""The number of bytes at the beginning, and also at the end, of a pickle that are searched for module names."""


class StaleModules:
    """Watches the modules of the user that a client's functions need, because workers may have loaded them.

    `shipped` are the modules that travel with the functions; edited modules are added.
    """

    def __init__(self, shipped: Shipped) -> None:
        self._shipped = shipped
        self._versions = ModuleVersions()
        self._files: dict[str, str] = {}
        self._stuck: dict[str, str] = {}
        """name of an edited module that cannot travel -> the reason"""
        self._own: dict[str, str] = {}
        self._own_of = self._late_of = 0
        """number of loaded modules: `_own_of` when `_own` was computed, `_late_of` at the last `_found_late` call"""
        self._needed: dict[frozenset[str], dict[str, str]] = {}
        self._mentioned: set[str] = set()
        """the names in the code of functions; some may name modules that tasks have loaded, but this process has not"""
        self._started_at = 0
        """the time of the first `note`, in ns; 0 before. From then on, tasks may have loaded modules."""

    def note(self, function: Callable[..., Any], frames: Frames) -> Iterable[str]:
        """Watch the modules of the user that a function needs, and return the names of these modules.

        Raises:
            SerializeObjectError: if one of the modules was edited and cannot travel.
        """
        self._started_at = self._started_at or now_ns()
        self._mentioned.update(getattr(getattr(function, "__code__", None), "co_names", ()))
        needed = self._needed_by(function, frames)
        new = {name: file for name, file in needed.items() if name not in self._files}
        if new:
            self._watch(new)
        for name in self._stuck.keys() & needed.keys():
            if self._shipped.has(name.partition(".")[0]):
                continue
            raise SerializeObjectError(
                f"{name_of(function)} needs the module {name}, which was edited and reloaded here. The workers may "
                f"have its old code, and it cannot travel with the function: {self._stuck[name]}. When the workers can "
                "import the new code, call client.restart_workers()"
            )
        return needed

    def _needed_by(self, function: Callable[..., Any], frames: Frames) -> dict[str, str]:
        count = len(sys.modules)
        if self._own_of != count:
            self._own, self._needed = own_modules(), {}
            self._own_of = count
        whole = memoryview(frames[1])
        pickled = bytes(whole[:LOOKED_AT_BYTES]) + bytes(whole[LOOKED_AT_BYTES:][-LOOKED_AT_BYTES:])
        named = {name for name in self._own if name.encode() in pickled}
        module = getattr(function, "__module__", None)
        key = frozenset({*named, module} if isinstance(module, str) else named)
        needed = self._needed.get(key)
        if needed is None:
            files = {name: file for name in key if (file := file_of(name))}
            needed = self._needed[key] = {**files, **needed_by(key, self._own)}
        return needed

    def _watch(self, files: dict[str, str]) -> dict[str, Version]:
        """Watch modules. Return the versions of the modules that were not watched before or were edited.

        Versions are stored before files: a file without a version would look to another thread like an edited module.
        """
        found = self._versions.find_new(files)
        self._versions.accept(found)
        self._files.update(files)
        return found

    def look(self) -> bool:
        """Ship the modules that were edited and reloaded. Return whether there are any."""
        new = {**self._versions.find_new(dict(self._files)), **self._found_late()}
        for name in new:
            top = name.partition(".")[0]
            if not self._shipped.has(top):
                self._send_along(name, top)
        self._versions.accept(new)
        self._needed = {} if new else self._needed
        return bool(new)

    def _found_late(self) -> dict[str, Version]:
        """Watch needed modules that were loaded after the functions were noted. Return the versions of those that were
        edited after the first `note`.
        """
        count = len(sys.modules)
        if self._late_of == count:
            return {}
        self._late_of, own = count, own_modules()
        needed = needed_by([*self._files, *self._mentioned], own)
        late = {name: file for name, file in needed.items() if name not in self._files}
        found = self._watch(late)
        return {name: version for name, version in found.items() if version[0][0] > self._started_at}

    def _send_along(self, name: str, top: str) -> None:
        try:
            self._shipped.add([sys.modules.get(top, top)])
        except (ConfigError, OSError) as error:
            self._stuck[name] = str(error)
            return
        logger.warning(
            "the module %s was edited and reloaded here: from now on it travels with the functions of this client, "
            "as with Client(modules=[%s]), so no worker runs the old code",
            name,
            top,
        )

    def forget(self) -> None:
        """Assume that the workers have the current versions of modules, because all worker processes are new."""
        self._versions.accept(self._versions.find_new(dict(self._files)))
        self._stuck = {}
