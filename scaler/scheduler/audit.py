"""Audit: who was let in, refused and why, whose sessions began and ended, who was over a quota: one line of JSON each.

Told by the doorkeeper, the edge and, through `Services`, by actors. Writes to the logger `scaler.audit`, which has a
file if the settings name one. Must never: write a secret, or more because somebody knocks more often.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timezone

from scaler.process.allowance import Allowance
from scaler.process.logs import open_file
from scaler.texts import NAME_CHARACTERS, printable

LINES_PER_SECOND, BURST_SECONDS = 10.0, 2.0
"""How many lines there are of one address, or of one owner where nobody knows the address; the others are counted."""
REMEMBERED = 1024
"""Of so many addresses it is known how many lines they have had: those that came last."""

logger = logging.getLogger("scaler.audit")


class _Source:
    """Lines about one address or owner."""

    def __init__(self) -> None:
        self.allowance = Allowance(LINES_PER_SECOND, BURST_SECONDS, time.monotonic)
        self.unsaid = 0


class Audit:
    """The audit of one scheduler.

    Args:
        file: where its lines go; None: to whatever handlers the logger has.
        goes_on: whether the lines also go where other lines go.
        clock: returns the time, in seconds since 1970.

    Raises:
        ConfigError: if the file cannot be opened.
    """

    def __init__(self, file: str | None, goes_on: bool, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._sources: OrderedDict[str, _Source] = OrderedDict()
        self._handler: logging.Handler | None = None
        logger.setLevel(logging.INFO)
        logger.propagate = goes_on
        if file is not None:
            self._handler = open_file(file)
            self._handler.setFormatter(logging.Formatter("%(message)s"))
            logger.addHandler(self._handler)

    def say(self, event: str, source: str, /, **about: str) -> None:
        """Write one line, unless there are too many of its source.

        Args:
            event: a word or two, such as `refused`.
            source: the address, or the owner if that is not known.
            about: names and texts; those that are empty are left out.
        """
        if not logger.hasHandlers():
            return
        known = self._sources[source] = self._sources.pop(source) if source in self._sources else _Source()
        if len(self._sources) > REMEMBERED:
            self._sources.popitem(last=False)
        if not known.allowance.take(1):
            known.unsaid += 1
            return
        at = datetime.fromtimestamp(self._clock(), timezone.utc).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": at.replace("+00:00", "Z"), "event": event}
        line |= {name: printable(text, NAME_CHARACTERS) for name, text in about.items() if text}
        if known.unsaid:
            line["unsaid"], known.unsaid = known.unsaid, 0
        logger.info("%s", json.dumps(line))

    def close(self) -> None:
        """Close its file."""
        if self._handler is not None:
            logger.removeHandler(self._handler)
            self._handler.close()
            self._handler = None
