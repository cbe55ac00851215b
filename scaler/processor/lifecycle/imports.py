"""Imports: the fork server imports once what the first functions of a program need, for all its processors.

The program of a local cluster names these modules of installed packages (`client/calls/imports.py`). An import may
fail, or make forks unsafe because it starts threads, opens a GPU or makes a random generator. Then a fresh fork server
replaces this one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from scaler.endpoint import Endpoint
from scaler.process.logs import set_up_logging
from scaler.processor.lifecycle.preparation import PreparationError, preload
from scaler.settings import ClusterConfig
from scaler.transport.private import ImportsFile

logger = logging.getLogger(__name__)

THREADS_OF_LIBRARIES = "OMP_NUM_THREADS"
_TASKS = Path("/proc/self/task")


def import_once(config: ClusterConfig, restart_part: Callable[[], NoReturn]) -> None:
    """Import the modules that the program has named; call `restart_part` for a fresh process if forks become unsafe."""
    place = ImportsFile.at(Endpoint.parse(config.address))
    # A single worker imports by itself. Libraries that may start threads do so when they are imported.
    if place is None or len(config.worker_names) < 2 or os.environ.get(THREADS_OF_LIBRARIES) != "1":
        return
    names = place.take()
    if not names or not _TASKS.exists():
        return
    why = ""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output belongs to the program
            generator = preload(names)
        if generator:
            why = (
                f"the import of {', '.join(names)} makes the random generator {generator}, whose copies would draw the "
                "same numbers"
            )
    except PreparationError as error:
        why = str(error).partition(";")[0]
    if not why and len(list(_TASKS.iterdir())) > 1:
        why = f"the import of {', '.join(names)} starts threads, which no forked process has"
    if why:
        set_up_logging(config.logging, is_strict=False)
        logger.info("%s; so each worker process imports the modules of its tasks itself", why)
        restart_part()
