"""ScalingClient: the client that identifies a running `scaler_scale` to the scheduler, and requests drains of clusters.

The label of the client is also the prefix of the names of its clusters. Other `scaler_scale` programs thus recognise
clusters whose owner is no longer connected. The client never waits for the scheduler.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable
from concurrent.futures import Future

from scaler.client.insight.presence import leave
from scaler.client.link.link import ClientLink
from scaler.endpoint import Endpoint
from scaler.errors import NotAllowedError
from scaler.ids import ClientId, random_id
from scaler.wire.messages.client import SCALES

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS, HEARTBEAT_SECONDS = 60.0, 2.0
_NAME = re.compile(rf"{SCALES}[0-9a-f]{{8}}")
_WORKER = re.compile(rf"(({_NAME.pattern})-\d+)-\d+")


class ScalingClient:
    """The connection of this `scaler_scale` to the scheduler, as a client."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.name = f"{SCALES}{uuid.uuid4().hex[:8]}"
        self._link = self._new_link()

    def _new_link(self) -> ClientLink:
        client_id = ClientId(random_id())
        return ClientLink(self._endpoint, client_id, TIMEOUT_SECONDS, HEARTBEAT_SECONDS, label=self.name)

    def request_drain(self, workers: Iterable[str]) -> None:
        """Request the drain of the clusters of these workers. Callers repeat the request until the clusters drain."""
        self.look()
        asked = leave(workers)
        asked.add_done_callback(_log_refusal)
        self._link.inquire(asked)

    def look(self) -> None:
        """Replace the link if the scheduler has refused it, for instance after an upgrade."""
        if self._link.closed_because:
            self._link = self._new_link()

    def close(self) -> None:
        """End the session with the scheduler."""
        self._link.close()


def _log_refusal(asked: Future[None]) -> None:
    error = None if asked.cancelled() else asked.exception()
    if isinstance(error, NotAllowedError):
        logger.error("the scheduler refuses to drain clusters: %s", error)


def owners_in(labels: Iterable[str]) -> set[str]:
    """Return the names of the owners among the labels of clients."""
    return {found.group() for found in map(_NAME.match, labels) if found}


def owned(worker: str) -> tuple[str, str] | None:
    """Return the cluster and the owner in the name of a worker; None if no `scaler_scale` started the worker."""
    found = _WORKER.fullmatch(worker)
    return (found[1], found[2]) if found else None
