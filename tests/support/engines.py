"""Executors for the engine `futures`, as a user would have them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

AWAY = "ENGINE_AWAY"
"""names the file that says that the engine is away"""


def processes() -> Executor:
    """Return four processes, which are started fresh: the host has threads, and they do not mix with forks."""
    return ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn"))


def forked() -> Executor:
    """Return two processes, forked from the host: they have all that it has open."""
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))


def forked_by_c() -> Executor:
    """Return a thread, beside a process that C code has forked from the host: Python knows nothing of it."""
    library = ctypes.PyDLL(None)
    if not library.fork():
        while True:
            library.pause()
    return ThreadPoolExecutor(1)


def threads() -> Executor:
    """Return eight threads of the host's process."""
    return ThreadPoolExecutor(8)


def sometimes_away() -> Executor:
    """Return a thread of the host's process, unless the engine is away."""
    if Path(os.environ[AWAY]).exists():
        raise ConnectionError("nobody listens there")
    return ThreadPoolExecutor(1)
