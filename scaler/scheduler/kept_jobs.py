"""KeptJobs: the job folder of a scheduler process, and the job writer that writes to this folder."""

from __future__ import annotations

import getpass
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scaler.actors.jobs.job_catalog import JobCatalog
from scaler.jobs.folder import JobFolder
from scaler.jobs.locks import Holder
from scaler.jobs.writer import JobWriter
from scaler.keys.allowed import Lockout
from scaler.kit import ActorRef
from scaler.settings import SchedulerConfig

logger = logging.getLogger(__name__)


class KeptJobs:
    """The job folder of one scheduler, and its job writer.

    Raises:
        ConfigError: if the folder cannot be created or written, is accessible to other users, is on a network file
            system, or is locked by another scheduler.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._folder = JobFolder(Path(config.keep or ""), config.keep_shared, _holder(config))
        self._writer: JobWriter | None = None

    def catalog(self, post: Callable[[ActorRef, Any], None], lockout_of: Callable[[str], Lockout | None]) -> JobCatalog:
        """Start the job writer, and return the catalog of jobs for actors.

        Args:
            post: sends an actor a message from any thread.
            lockout_of: returns why an owner may not start anything; None if the owner may.
        """
        self._writer = JobWriter(tidy=self._folder.delete_some)
        logger.info("scheduler: jobs are kept in %s", self._folder.path)
        most, is_shared = self._config.keep_bytes, self._config.keep_shared
        return JobCatalog(self._folder, self._writer, post, _user(), most, is_shared, lockout_of)

    def close(self) -> None:
        """Write all pending changes to disk, and unlock the folder."""
        if self._writer is not None:
            self._writer.end()
        self._folder.close()


def _holder(config: SchedulerConfig) -> Holder:
    """Return the program that holds the folder: this scheduler, or the program whose local cluster includes it."""
    if not config.keep_shared:
        at = "" if "*" in config.address else f"the scheduler at {config.address}, "
        return Holder(os.getpid(), f"{at}process {os.getpid()}")
    program = os.getpid() if config.endpoint.is_in_process else os.getppid()
    return Holder(program, f"process {program}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return str(os.getuid())
