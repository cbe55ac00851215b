"""Event log: the topic `events`: the latest peers that joined, left or were refused, and parts that were restarted."""

from __future__ import annotations

from collections import deque

from scaler.actors.monitor.board import Shown
from scaler.actors.vocabulary.events import (
    CLIENT,
    NESTED_CLIENT,
    PartRestarted,
    PeerDisconnected,
    PeerIdentity,
    PeerJoined,
    PeerLeft,
    PeerReconnected,
    PeerRefused,
    Role,
)
from scaler.ids import public_id
from scaler.kit import ActorRef
from scaler.wire.messages.monitor import StateEvent

KEPT_MOST = 500
_NAMED_MOST = 3

PeerEvent = PeerJoined | PeerDisconnected | PeerReconnected | PeerLeft | PeerRefused | PartRestarted


class EventLog:
    """The latest `KEPT_MOST` events of peers and parts."""

    def __init__(self) -> None:
        self._events: deque[StateEvent] = deque(maxlen=KEPT_MOST)
        self._subjects: dict[ActorRef, str] = {}
        """the name shown for the peer of each open session"""
        self.total = 0
        self._shown_total = -1
        """the value of `total` when the topic was last published"""

    def add(self, event: PeerEvent, time_us: int) -> None:
        """Add an event, and drop the oldest event if the log is full."""
        kind, subject, reason = self._read(event)
        self._events.append(StateEvent(time_us, kind, subject, reason))
        self.total += 1

    def _read(self, event: PeerEvent) -> tuple[str, str, str]:
        if type(event) is PeerJoined:
            subject = self._subjects[event.session] = _subject(event.role, event.identity)
            return "came", subject, ""
        if type(event) is PeerLeft:
            self._subjects.pop(event.session, None)
            reason = f"{event.departure}: {event.reason}" if event.reason else event.departure
            return "went", _subject(event.role, event.identity), reason
        if type(event) is PeerRefused:
            return "refused", _subject(event.role, event.identity), event.reason
        if type(event) is PartRestarted:
            return "restarted", event.part, event.reason
        assert isinstance(event, PeerDisconnected | PeerReconnected)
        subject = self._subjects.get(event.session, "")
        return ("cut", subject, event.reason) if type(event) is PeerDisconnected else ("back", subject, "")

    def shown(self, is_first: bool) -> Shown | None:
        """Return the items, oldest first; None if `is_first` is False and no event was added since the last call."""
        if self.total == self._shown_total and not is_first:
            return None
        self._shown_total = self.total
        return list(self._events), len(self._events), self.total


def _subject(role: Role, identity: PeerIdentity) -> str:
    names = identity.worker_names
    if names:
        more = f" and {len(names) - _NAMED_MOST} more" if len(names) > _NAMED_MOST else ""
        return f"{role} of {', '.join(names[:_NAMED_MOST])}{more}{f' (of {identity.owner})' if identity.owner else ''}"
    of_whom = f" of {identity.owner}" if identity.owner else ""
    name = identity.label or public_id(identity.peer_id).hex()
    is_described = role is NESTED_CLIENT and name.startswith("a task ")  # the default name of a client in a task
    return f"{CLIENT} in {name}{of_whom}" if is_described else f"{role} {name}{of_whom}"
