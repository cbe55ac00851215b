"""KeptJobs: the folder of jobs of a scheduler process, and the thread that writes there.

Made, and closed at the end, by the scheduler process. Must never: keep a scheduler from ending.
"""

from __future__ import annotations

import getpass
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scaler.actors.jobs.shelf import JobShelf
from scaler.jobs.clerk import Clerk
from scaler.jobs.folder import JobFolder
from scaler.kit import ActorRef
from scaler.settings import SchedulerConfig

logger = logging.getLogger(__name__)


class KeptJobs:
    """What a scheduler needs to keep jobs.

    Raises:
        ConfigError: if the folder cannot be made or written, others can enter it, it is on a network file system, or
            another scheduler has it.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self._folder = JobFolder(Path(config.keep or ""), config.keep_shared)
        self._clerk: Clerk | None = None

    def shelf(self, post: Callable[[ActorRef, Any], None]) -> JobShelf:
        """Return it for actors. `post` sends them a message from any thread."""
        self._clerk = Clerk()
        logger.info("scheduler: jobs are kept in %s", self._folder.path)
        most, is_shared = self._config.keep_bytes, self._config.keep_shared
        return JobShelf(self._folder, self._clerk, post, _user(), most, is_shared)

    def close(self) -> None:
        """Have all on disk, and let others have the folder."""
        if self._clerk is not None:
            self._clerk.end()
        self._folder.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return str(os.getuid())
