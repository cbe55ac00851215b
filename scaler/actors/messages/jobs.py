"""Jobs: what clients ask of them, and what the clerk answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.actors.peers.peer import Peer
from scaler.kit import ActorRef
from scaler.message import message
from scaler.wire.messages.client import JobRequest


@message
class RequestJob:
    """client session -> job keeper -> job or job reader: my client asks this."""

    session: ActorRef
    peer: Peer
    request: JobRequest
    owner: str
    """whose jobs it may see"""
    program: str = ""
    """how the client calls itself, for people"""
    door: str = ""
    """how the owner has come, see `JobTerms.door`"""


@message
class OwnersChanged:
    """edge -> job keeper -> jobs: the list of keys has changed; look which owners are locked out."""


@message
class ReaderLeft:
    """client session -> job keeper -> jobs: my client is gone."""

    session: ActorRef


@message
class OrderDone:
    """clerk -> job keeper, job or job reader: an order was obeyed, and what it changed is on disk; or it has failed."""

    then: Callable[[Any, BaseException | None], None]
    """goes on with what it has returned, or raised"""
    value: Any
    error: BaseException | None


@message
class ContinueJob:
    """job -> itself: say further rows, or have results written."""


@message
class JobDue:
    """job or job reader -> itself, by timer: do this now."""

    then: Callable[[], None]


@message
class CheckExpiry:
    """job keeper -> itself, by timer: look for jobs that have expired."""


@message
class JobEnded:
    """job or job reader -> job keeper: forget me."""

    job: ActorRef
