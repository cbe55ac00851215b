"""Patches: refuses programs in which gevent or eventlet has replaced the threads of Python that a client needs.

Called where a client or a child process is made. A client has a thread of its own, which wakes the threads that wait
for results. A lock of green threads cannot be released by another thread, so the program would hang. Neither gevent nor
eventlet is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from scaler.config import ConfigError

_PATCHERS = {
    "gevent": (
        "gevent.monkey",
        "is_module_patched",
        "monkey.patch_all",
        ("threading", "select", "queue", "subprocess"),
    ),
    "eventlet": ("eventlet.patcher", "is_monkey_patched", "eventlet.monkey_patch", ("thread", "select")),
}


def check_unpatched() -> None:
    """Raise `ConfigError` if gevent or eventlet have replaced threads, `select` or child processes of Python."""
    for library, (module, question, patch, needed) in _PATCHERS.items():
        patcher = sys.modules.get(module)
        is_patched: Callable[[str], bool] = getattr(patcher, question, lambda _name: False)
        if patched := [name for name in needed if is_patched(name)]:
            options = ", ".join(f"{'thread' if name == 'threading' else name}=False" for name in needed)
            raise ConfigError(
                f"{library} has patched {', '.join(patched)} in this program, but Scaler needs Python's own threads "
                f"and processes: call {patch}({options}), or use Scaler in a separate process "
                "(docs/howto/threads.md)"
            )
