"""The edge of the monitor stream: receives subscriptions of viewers, and sends the items of the monitor.

The edge implements the monitor's interface `Board`, and notifies the monitor when subscriptions change. The edge never
waits for a viewer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scaler.actors.messages.monitor import SubscriptionsChanged
from scaler.actors.monitor import About, Gauges
from scaler.endpoint import ANYWHERE, TCP, Endpoint
from scaler.errors import ProtocolError
from scaler.kit import ActorRef
from scaler.scheduler.gauges import ProcessGauges
from scaler.transport.admission.authenticator import AdmissionKeys
from scaler.transport.private import remove_stale_monitors
from scaler.transport.publisher import Publisher
from scaler.wire.codec.codec import encode_message
from scaler.wire.codec.columns import TRACEBACK_CHARACTERS
from scaler.wire.codec.structs import TaskFailure
from scaler.wire.messages.directions import SCHEDULER_TO_MONITOR
from scaler.wire.messages.monitor import StateHead

logger = logging.getLogger(__name__)

ITEMS_MOST = 1000
"""The most items in one message of the stream."""

CHANGES_MOST = 256
"""The most subscriptions that are received at once. So a viewer that sends without a pause does not delay tasks."""

PREFIXES_MOST = 10_000
"""The maximum number of different subscriptions at a time; further subscriptions are ignored."""


class MonitorEdge:
    """Receives subscriptions of viewers, and sends the items of the monitor.

    Args:
        short_id: identifies this run of the scheduler.
        about: constant facts about the scheduler.
    """

    def __init__(self, publisher: Publisher, short_id: bytes, about: About, gauges: ProcessGauges) -> None:
        self._publisher = publisher
        self._short_id = short_id
        self._gauges = gauges
        self._prefixes: dict[str, None] = {}
        self._numbers: dict[str, int] = {}
        """by topic: the number of the last message that was sent"""
        self.about = about
        self.descriptor = publisher.descriptor
        self.monitor_descriptor = publisher.monitor_descriptor
        self.authenticator_descriptor, self.authenticate = publisher.authenticator_descriptor, publisher.authenticate
        self.monitor: ActorRef | None = None

    # From viewers

    def receive(self) -> bool:
        """Receive subscriptions of viewers. Return whether `CHANGES_MOST` was reached, so that more may be waiting."""
        changes = self._publisher.changes(CHANGES_MOST)
        changed = [self._change_subscription(*change) for change in changes]
        if self.monitor is not None and any(changed):
            self.monitor.send(SubscriptionsChanged(any(is_wanted for is_wanted, _ in changes)))
        if self._prefixes:
            self._gauges.start()
        else:
            self._gauges.stop()
        return len(changes) == CHANGES_MOST

    def _change_subscription(self, is_wanted: bool, prefix: bytes) -> bool:
        """Add or remove a subscription. Return False if its prefix cannot match any topic."""
        try:
            text = prefix.decode("ascii")
        except UnicodeDecodeError:
            return False
        if not is_wanted:
            self._prefixes.pop(text, None)
        elif len(self._prefixes) < PREFIXES_MOST:
            self._prefixes[text] = None
        return True

    def end_keys(self, keys: frozenset[str]) -> None:
        """Disconnect viewers that were accepted with these keys."""
        self._publisher.hang_up(keys)

    # For the monitor

    def prefixes(self) -> Iterable[str]:
        return tuple(self._prefixes)

    def publish(self, topic: str, items: Sequence[Any], shown: int, total: int) -> None:
        now_us = self.time_us()
        starts = range(0, len(items), ITEMS_MOST) or range(1)
        for start in starts:
            number = self._numbers[topic] = self._numbers.get(topic, 0) + 1
            has_more = start + ITEMS_MOST < len(items)
            head = StateHead(self._short_id, now_us, shown, total, int(has_more))
            part = [head, *items[start : start + ITEMS_MOST]]
            header, _ = encode_message(SCHEDULER_TO_MONITOR, part, number)
            self._publisher.send(topic.encode(), header)

    def time_us(self) -> int:
        return time.time_ns() // 1000

    def read_traceback(self, payload: bytes) -> str:
        try:
            return TaskFailure.decode(payload).traceback[-TRACEBACK_CHARACTERS:]
        except ProtocolError:
            return ""

    def read_failure(self, payload: bytes) -> str:
        try:
            failure = TaskFailure.decode(payload)
        except ProtocolError:
            return ""
        return f"{failure.type_name}: {failure.text}"

    def gauges(self) -> Gauges:
        return self._gauges.read()


def open_publisher(
    wanted: Endpoint | None,
    usual: Endpoint | None,
    say: Callable[[str], None],
    admission_keys: AdmissionKeys | None = None,
) -> Publisher | None:
    """Return the socket of the monitor stream; None if there is no stream.

    Args:
        wanted: the address in the settings; None: the usual address.
        usual: the address at which viewers expect the stream; None if all viewers would be in this process.
        say: called with a sentence if the stream is at another address than viewers expect.
        admission_keys: checks the keys of viewers on TCP; None: all programs may connect.

    Raises:
        OSError: if the wanted address cannot be bound; the message says why.
    """
    if wanted:
        return Publisher(
            None if wanted.address == ANYWHERE else wanted, admission_keys if wanted.scheme == TCP else None
        )
    if not usual:
        return None
    if usual.file is not None:
        remove_stale_monitors(usual.file.parent)
    try:
        return Publisher(usual)
    except OSError as error:
        publisher = Publisher(None)
        say(f"the monitor listens at {publisher.endpoint}, not where viewers expect it: {error.strerror or error}")
        return publisher
