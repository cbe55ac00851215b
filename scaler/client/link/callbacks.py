"""Callbacks: runs the callbacks of futures in a thread of their own.

A callback is user code: it may take long, wait for a task, or raise. The client and the next callback are not affected.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

logger = logging.getLogger("scaler.client")


class Callbacks:
    """Runs callbacks one after the other in one thread, which starts with the first callback. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Callable[[], Any] | None] | None = None

    def put(self, callback: Callable[[], Any]) -> None:
        """Queue a callback. If no thread can start because Python exits, run the callback in this thread."""
        with self._lock:
            if self._queue is None:
                self._queue = _started()
            if self._queue is not None:
                self._queue.put(callback)
                return
        _run(callback)

    def close(self) -> None:
        """End the thread once the queued callbacks have run."""
        with self._lock:
            queue, self._queue = self._queue, None
        if queue is not None:
            queue.put(None)


def _started() -> SimpleQueue[Callable[[], Any] | None] | None:
    queue: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
    try:
        threading.Thread(target=_run_callbacks, args=(queue,), name="scaler-callbacks", daemon=True).start()
    except RuntimeError:  # since Python 3.12 no thread starts while the interpreter exits
        return None
    return queue


def _run_callbacks(queue: SimpleQueue[Callable[[], Any] | None]) -> None:
    while True:
        callback = queue.get()
        if callback is None:
            return
        _run(callback)
        del callback  # its future must not live until the next callback


def _run(callback: Callable[[], Any]) -> None:
    try:
        callback()
    except BaseException:  # logged, and the next callback runs: `SystemExit` and the like end no thread of the client
        logger.exception("a callback of a future raised")
