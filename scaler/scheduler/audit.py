"""AuditLog: logs accepted and refused connections, sessions, and quotas that were exceeded, as lines of JSON.

Writes to the logger `scaler.audit`, which has a file if the settings name one. Lines about refused peers without an
owner have a limit of their own, so that strangers can neither flood the log nor hide lines about owners. The log never
contains a secret.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from ipaddress import IPv4Address, ip_address, ip_network

from scaler.process.allowance import Allowance
from scaler.process.logs import open_file
from scaler.texts import NAME_CHARACTERS, printable

LINES_PER_SECOND, BURST_SECONDS = 10.0, 2.0
"""The limit of lines about one source: the number per second, and how many seconds' worth may be written at once."""
STRANGERS_PER_SECOND, KNOWN_PER_SECOND = 100.0, 1000.0
"""The most lines per second about all refused peers without an owner together, and about all other sources together."""
REMEMBERED = 1024
"""The number of sources whose lines are counted. The source whose last line is oldest is forgotten first."""
NETWORK_BITS = 64
"""The prefix length of an IPv6 network that counts as one address, because its user may use any address in it."""

REFUSED = "refused"

logger = logging.getLogger("scaler.audit")


class _LineAllowance:
    """Limits the lines of one source, or of all sources of a group together, and counts the lines left out."""

    def __init__(self, per_second: float = LINES_PER_SECOND) -> None:
        self.allowance = Allowance(per_second, BURST_SECONDS, time.monotonic)
        self.omitted = 0

    def take_omitted(self) -> int:
        """Return the number of lines that were left out since the last call."""
        omitted, self.omitted = self.omitted, 0
        return omitted


class _Group:
    """Sources of lines. Each source has a limit, and all sources of the group together have another."""

    def __init__(self, per_second: float) -> None:
        self.lines = _LineAllowance(per_second)
        self.sources: OrderedDict[str, _LineAllowance] = OrderedDict()

    def take(self, source: str) -> bool:
        """Return whether a line of a source may be written. If not, count the line as left out."""
        known = self.sources[source] = self.sources.pop(source) if source in self.sources else _LineAllowance()
        if len(self.sources) > REMEMBERED:
            self.lines.omitted += self.sources.popitem(last=False)[1].omitted
        if not known.allowance.take(1):
            known.omitted += 1
            return False
        if not self.lines.allowance.take(1):
            self.lines.omitted += 1
            return False
        return True

    def take_omitted(self, source: str) -> int:
        """Return the number of lines about a source that were left out since the last call."""
        return self.sources[source].take_omitted() if source in self.sources else 0


def source_of(address: str) -> str:
    """Return the source whose lines are limited together. `address`: an IP address, or the name of an owner.

    An IPv4 address and an owner are their own source. The source of an IPv6 address is its network.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv4Address):
        return address
    return str(parsed.ipv4_mapped or ip_network((int(parsed), NETWORK_BITS), strict=False))


class AuditLog:
    """The audit log of one scheduler.

    Args:
        file: the file to append to; None: lines go only to the handlers that the logger has already.
        propagates: whether lines are also passed to the handlers of parent loggers.
        clock: returns the time, in seconds since 1970.

    Raises:
        ConfigError: if the file cannot be opened.
    """

    def __init__(self, file: str | None, propagates: bool, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._groups = self._strangers, self._known = _Group(STRANGERS_PER_SECOND), _Group(KNOWN_PER_SECOND)
        self._handler: logging.Handler | None = None
        logger.setLevel(logging.INFO)
        logger.propagate = propagates
        if file is not None:
            self._handler = open_file(file)
            self._handler.setFormatter(logging.Formatter("%(message)s"))
            logger.addHandler(self._handler)

    def say(self, event: str, source: str, /, **about: str) -> None:
        """Write one line about an event, unless the source of the event, or the group of the source, exceeds its limit.

        Args:
            event: the event in a word or two, such as `refused`.
            source: the address that caused the event, or the owner if the address is unknown.
            about: further fields of the line; empty texts are left out.
        """
        if not logger.hasHandlers():
            return
        source = source_of(source)
        group = self._strangers if event == REFUSED and not about.get("owner") else self._known
        if group.take(source):
            self._write(event, about, sum(each.take_omitted(source) for each in self._groups))

    def _write(self, event: str, about: Mapping[str, str], omitted: int) -> None:
        of_others = sum(each.lines.take_omitted() for each in self._groups)
        at = datetime.fromtimestamp(self._clock(), timezone.utc).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": at.replace("+00:00", "Z"), "event": event}
        line |= {name: printable(text, NAME_CHARACTERS) for name, text in about.items() if text}
        line |= {name: count for name, count in (("unsaid", omitted), ("unsaid_of_others", of_others)) if count}
        logger.info("%s", json.dumps(line))

    def close(self) -> None:
        """Write how many lines were left out, unless an earlier line reports this, and close the file."""
        omitted = sum(each.take_omitted(source) for each in self._groups for source in each.sources)
        if omitted or any(each.lines.omitted for each in self._groups):
            self._write("left out", {}, omitted)
        if self._handler is not None:
            logger.removeHandler(self._handler)
            self._handler.close()
            self._handler = None
