from __future__ import annotations

from typing import Any

import pytest

from scaler.actors.monitor.event_log import EventLog
from scaler.actors.vocabulary.events import AGENT, CLIENT, NESTED_CLIENT, PeerIdentity, PeerJoined, Role

SESSION: Any = "session"


@pytest.mark.parametrize(
    ("role", "fields", "subject"),
    [
        (CLIENT, {"label": "prices.py 7, alice@host", "owner": "alice"}, "client prices.py 7, alice@host of alice"),
        (NESTED_CLIENT, {"label": "a task in process 7, root@host"}, "client in a task in process 7, root@host"),
        (NESTED_CLIENT, {"label": "mine, root@host"}, "client in a task mine, root@host"),
        (AGENT, {"worker_names": ("a", "b", "c", "d")}, "agent of a, b, c and 1 more"),
    ],
)
def test_events_name_the_peer(role: Role, fields: dict[str, Any], subject: str) -> None:
    log = EventLog()
    log.add(PeerJoined(SESSION, role, PeerIdentity(b"peer", "1", "3", **fields), ()), 5)
    shown = log.shown(is_first=True)
    assert shown is not None
    (event,) = shown[0]
    assert (event.kind, event.subject) == ("came", subject)
