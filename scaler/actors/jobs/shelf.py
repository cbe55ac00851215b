"""JobShelf: where the jobs of a scheduler are kept, by whom, and how much room there is.

Made by the scheduler process; used by the job keeper and the jobs. Must never: wait for the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scaler.actors.messages.jobs import Obeyed
from scaler.jobs.clerk import Clerk
from scaler.jobs.folder import JobFolder
from scaler.jobs.record import JobRecord
from scaler.kit import ActorRef


class JobShelf:
    """The folder of jobs and its clerk.

    Args:
        post: sends a message to an actor, from any thread.
        owner: whose jobs those are that come without a key.
        most_bytes: what all jobs may take on disk.
        is_shared: whether other schedulers use the folder, too: then jobs are opened when somebody names them.
    """

    def __init__(
        self,
        folder: JobFolder,
        clerk: Clerk,
        post: Callable[[ActorRef, Any], None],
        owner: str,
        most_bytes: int,
        is_shared: bool = False,
    ) -> None:
        self.folder = folder
        self.owner = owner
        self.is_shared = is_shared
        self._clerk, self._post = clerk, post
        self._most_bytes = most_bytes
        self._sizes: dict[Path, int] = {}

    def order(
        self,
        actor: ActorRef,
        record: JobRecord | None,
        order: Callable[[], Any],
        then: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Have an order obeyed by the clerk, and go on with its answer as the actor."""
        post = self._post
        self._clerk.order(record, order, lambda value, error: post(actor, Obeyed(then, value, error)))

    def note_size(self, place: Path, size_bytes: int) -> None:
        """A job takes so many bytes now; 0: it is gone."""
        self._sizes[place] = size_bytes
        if not size_bytes:
            del self._sizes[place]

    def why_full(self) -> str:
        """Return why no further value can be kept; nothing: it can."""
        used = sum(self._sizes.values())
        if used < self._most_bytes:
            return ""
        return (
            f"the jobs in {self.folder.path} take {used:,} bytes, and may take {self._most_bytes:,}: forget some, or "
            "start the scheduler with more --keep-bytes"
        )
