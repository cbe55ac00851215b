"""Executors for the engine `futures`, as a user would have them."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor


def processes() -> Executor:
    """Return four processes, which are started fresh: the host has threads, and they do not mix with forks."""
    return ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn"))


def threads() -> Executor:
    """Return eight threads of the host's process."""
    return ThreadPoolExecutor(8)
