"""Shared cores: the cores of clients in tasks, which all copies of a client in a process share.

Asked by the client, in any thread. Must never: end a core, since others may use it.
"""

from __future__ import annotations

import threading

from scaler import task_context
from scaler.client import lifetime
from scaler.client.calls.client_pickling import ClientSettings
from scaler.client.core import Core

_lock = threading.RLock()
_shared_cores: dict[tuple[int, ClientSettings], Core] = {}
"""of the clients in tasks and those that were unpickled here: one for each place of tasks and set of settings"""


def shared_core(settings: ClientSettings) -> Core:
    """Return the core of this process for clients with `settings`."""
    place = (task_context.current.processor, settings)
    with _lock:
        core = _shared_cores.get(place)
        if core is None or core.link.is_closed:
            seconds = (settings.timeout_seconds, settings.heartbeat_interval_seconds)
            link = lifetime.shared_link(settings.address, seconds)
            core = Core(link, seconds, settings.read_serializer(), settings.profiling, is_shared=True)
            for ended in [key for key, known in _shared_cores.items() if known.link.is_closed]:
                del _shared_cores[ended]
            _shared_cores[place] = core
        return core
