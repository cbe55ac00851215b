"""Services of a scheduler for one task under test: their actors are recorders or missing."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

from scaler.actors.vocabulary.directory import Directory
from scaler.actors.vocabulary.events import Events
from scaler.actors.vocabulary.outbox import Outbox
from scaler.actors.vocabulary.services import Services
from scaler.kit import ActorRef
from scaler.wire.codec.structs import RunOptions
from tests.support.configs import scheduler_config


def services(balancer: ActorRef, object_store: ActorRef) -> Services:
    """Return services with only these two actors. Attempts count from 1."""
    outbox, nobody = Outbox(), cast("Any", None)
    return Services(
        scheduler_config(),
        Directory(count(1).__next__, outbox),
        outbox,
        Events(),
        acceptor=nobody,
        balancer=balancer,
        object_store=object_store,
        adoption=nobody,
        census=nobody,
        outputs=nobody,
        jobs=None,
        owner="tester",
        read_options=RunOptions.decode,
        paused_since=lambda _since: 0.0,
        value_bytes=int,
    )
