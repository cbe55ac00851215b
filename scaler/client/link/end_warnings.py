"""EndWarnings: the warnings that a client logs when it ends: about cancelled tasks and about unread errors.

Futures and the link report errors and open tasks to this object, which keeps no future or value alive. Tasks that
succeed cost nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping

logger = logging.getLogger("scaler.client")

COUNTED_MOST = 10_000
"""The most unread errors that a client remembers."""


class EndWarnings:
    """Collects the unread errors and cancelled tasks of one client, and logs warnings about them when the client ends.

    Args:
        advice: the call with which users wait for the futures of this client.
        is_nested: whether the client is inside a task. Such a client never warns, because that task reports its own
            end.
    """

    def __init__(self, advice: str, is_nested: bool) -> None:
        self.advice = advice
        self._is_quiet = is_nested
        self._unread: dict[bytes, str] = {}
        self._read_graphs: set[bytes] = set()
        self.cancelled = 0
        """the number of tasks that were open when the client ended"""

    def note_error(self, key: bytes, describe: Callable[[], str]) -> None:
        """Remember an error until a user reads it.

        Args:
            key: the id of the failed task; for a node, the id of its graph, because its nodes fail together.
            describe: returns one line about the failed task and its error.
        """
        unread = self._unread
        if not (self._is_quiet or len(unread) >= COUNTED_MOST or key in unread or key in self._read_graphs):
            unread[key] = describe()

    def error_was_read(self, key: bytes, is_of_graph: bool = False) -> None:
        """Forget an error that a user has read. If `is_of_graph`, ignore all later errors of the same graph, too."""
        self._unread.pop(key, None)
        if is_of_graph and len(self._read_graphs) < COUNTED_MOST:
            self._read_graphs.add(key)

    def silence(self) -> None:
        """Suppress all warnings: the client ends because of an exception."""
        self._is_quiet = True

    def note_exit(self, error: BaseException | None) -> None:
        """Suppress all warnings if the `with` block of the client ends with an exception other than `SystemExit`."""
        if error is not None and not isinstance(error, SystemExit):
            self.silence()

    def log_warnings(self) -> None:
        """Log the warnings, once."""
        cancelled, self.cancelled = self.cancelled, 0
        unread, self._unread = self._unread, {}
        if self._is_quiet:
            return
        if cancelled:
            logger.warning(
                "%s cancelled, because the client has ended: wait for the futures first (%s)",
                "1 open task was" if cancelled == 1 else f"{cancelled:,} open tasks were",
                self.advice,
            )
        if unread:
            logger.warning("%s", _about(unread))


def _about(unread: Mapping[bytes, str]) -> str:
    first = next(iter(unread.values()))
    if len(unread) == 1:
        return f"1 task has failed, and its error was not read: {first}"
    more = " or more" if len(unread) == COUNTED_MOST else ""
    return f"{len(unread):,}{more} tasks have failed, and their errors were not read; the first: {first}"


def ends_by_exception() -> bool:
    """Return whether the program exits because of an uncaught exception, which Python has printed."""
    return hasattr(sys, "last_value") and not hasattr(sys, "ps1")
