"""Shared blocks: a process that runs tasks owns only the `multiprocessing.shared_memory` blocks that it creates.

When a process ends, its resource tracker unlinks each block that the process has opened (cpython #82300); since Python
3.13 `track=False` prevents that. A worker process often ends before the program that made the block. So this module
patches the tracker: a process registers only blocks that it creates, and may unlink other blocks, too.

Installed in fork servers, engine hosts and agents that run tasks as threads, and in processes that `multiprocessing`
starts in a task. The process of the user's program is not changed.
"""

from __future__ import annotations

import functools
import multiprocessing
import threading
from typing import Any

from scaler.process.user_code.on_import import on_import

_MODULE = "multiprocessing.shared_memory"
_KIND = "shared_memory"
_KEY = "scaler_shared_blocks"
_attaching = threading.local()


class _BlockOwnership:
    """A configuration entry that each `multiprocessing` child, even a fresh one, reads before it runs its target."""

    def __reduce__(self) -> tuple[Any, ...]:
        return own_only_created_blocks, ()


def own_only_created_blocks() -> _BlockOwnership:
    """Install the patch in this process and in all processes that `multiprocessing` starts from it. Call it once."""
    on_import(_MODULE, _patch)
    installed = _BlockOwnership()
    multiprocessing.current_process()._config[_KEY] = installed  # type: ignore[attr-defined]  # noqa: SLF001
    return installed


def _patch(module: Any) -> None:
    from multiprocessing import resource_tracker  # noqa: PLC0415 - the module that is patched has imported it

    open_block = module.SharedMemory.__init__
    register, unregister = resource_tracker.register, resource_tracker.unregister

    @functools.wraps(open_block)
    def open_and_own(self: Any, name: str | None = None, create: bool = False, size: int = 0, **options: Any) -> None:
        _attaching.is_active = not create
        try:
            open_block(self, name, create, size, **options)
        finally:
            _attaching.is_active = False

    def register_created(name: str, kind: str) -> None:
        if kind != _KIND or not getattr(_attaching, "is_active", False):
            register(name, kind)

    def unregister_any(name: str, kind: str) -> None:
        if kind == _KIND:
            register(name, kind)  # a no-op of the tracker if it is registered; an unknown name would be an error
        unregister(name, kind)

    module.SharedMemory.__init__ = open_and_own
    resource_tracker.register = register_created  # type: ignore[assignment]
    resource_tracker.unregister = unregister_any  # type: ignore[assignment]
