"""Jobs: requests of clients about jobs, and answers of the job writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler.actors.vocabulary.peer import Peer
from scaler.kit import ActorRef
from scaler.message import message
from scaler.wire.messages.client import JobRequest


@message
class RequestJob:
    """client session -> job keeper -> job or job reader: answer this request of a client."""

    session: ActorRef
    peer: Peer
    request: JobRequest
    owner: str
    """the owner of the jobs that the client may see"""
    program: str = ""
    """how the client names itself, for display"""
    door: str = ""
    """how the owner connected; see `JobTerms.door`"""


@message
class OwnersChanged:
    """edge -> job keeper -> jobs: the list of keys has changed; check which owners are locked out."""


@message
class ReaderLeft:
    """client session -> job keeper -> jobs: the client has left."""

    session: ActorRef


@message
class OrderDone:
    """job writer -> job keeper, job or job reader: an order has failed, or its changes are on disk."""

    then: Callable[[Any, BaseException | None], None]
    """the function to call with the return value and the exception of the order"""
    value: Any
    error: BaseException | None


@message
class ContinueJob:
    """job -> itself: submit more rows, or pass results to the job writer."""


@message
class JobDue:
    """job or job reader -> itself, by timer: call `then` now."""

    then: Callable[[], None]


@message
class CheckExpiry:
    """job keeper -> itself, by timer: look for expired jobs."""


@message
class JobEnded:
    """job or job reader -> job keeper: this actor has ended."""

    job: ActorRef
