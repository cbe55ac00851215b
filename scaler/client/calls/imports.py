"""RequiredModules: reports to a client's local cluster which installed modules the client's first functions need.

The fork server of the cluster starts some tenths of a second after the client was made. It then imports the reported
modules, once for all worker processes (`processor/lifecycle/imports.py`). Tasks import the modules that are reported
later. Only installed modules are reported, because importing a user's own module may have side effects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from scaler.endpoint import Endpoint
from scaler.pickling.loaded_modules import is_installed
from scaler.pickling.serialization import Frames
from scaler.pickling.versions import modules_of
from scaler.transport.private import ImportsFile as Place

FUNCTIONS_MOST = 8
"""The number of functions of a client that are checked. When a client sends more, its cluster has already started."""
LOOKED_AT_BYTES = 1 << 16
"""The most bytes of a pickle that are searched for names of modules. The search takes 0.2 us for each KiB."""


class RequiredModules:
    """Reports to the local cluster at `endpoint` which installed modules a client's functions need."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._imports_file = Place.at(endpoint)
        self._remaining = FUNCTIONS_MOST if self._imports_file is not None else 0
        self._names: set[str] = set()

    def note(self, frames: Frames, own: Iterable[str]) -> None:
        """Report the installed modules that a pickled function needs, directly or through the user's `own` modules."""
        if not self._remaining:
            return
        self._remaining -= 1
        pickled = bytes(memoryview(frames[1])[:LOOKED_AT_BYTES])
        loaded = (sys.modules.get(each) for each in own)
        used = {name for each in loaded if each is not None for name in modules_of(vars(each).values())}
        found = {
            name
            for name in list(sys.modules)
            if (name in used or _as_pickled(name) in pickled) and is_installed(name) and name not in self._names
        }
        if found and self._imports_file is not None:
            self._names |= found
            self._imports_file.say(sorted(self._names))


def _as_pickled(name: str) -> bytes:
    """Return a module name as it appears in a pickle."""
    text = name.encode()
    return b"\x8c%c%b" % (len(text), text) if len(text) < 256 else b"\0"
