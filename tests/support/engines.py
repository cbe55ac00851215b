"""Executors for the engine `futures`, as a user would write them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

AWAY = "ENGINE_AWAY"
"""names the file whose existence makes the engine unavailable"""


def processes() -> Executor:
    """Return an executor with four freshly started processes: the host has threads, so forks would not be safe."""
    return ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn"))


def forked() -> Executor:
    """Return an executor with two processes that are forked from the host, with all its open files."""
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork"))


def forked_by_c() -> Executor:
    """Return an executor with one thread, after C code has forked the host without the knowledge of Python."""
    library = ctypes.PyDLL(None)
    if not library.fork():
        while True:
            library.pause()
    return ThreadPoolExecutor(1)


def threads() -> Executor:
    return ThreadPoolExecutor(8)


def sometimes_away() -> Executor:
    """Return an executor with one thread; raise an error while the engine is unavailable."""
    if Path(os.environ[AWAY]).exists():
        raise ConnectionError("the engine is unavailable")
    return ThreadPoolExecutor(1)
