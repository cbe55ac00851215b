"""Refusals: the answers of the protocol to requests that a shared actor could not handle.

Used by sessions, for requests of their peers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scaler.actors.messages.jobs import RequestJob
from scaler.actors.messages.objects import FetchObject
from scaler.actors.messages.outputs import OutputRequested
from scaler.actors.messages.peers import InfoRequested, ShutdownRequested
from scaler.wire.messages.client import (
    ClientShutdownResponse,
    InfoResponse,
    JobAnswerKind,
    JobResponse,
    OutputResponse,
)
from scaler.wire.messages.common import LOST, ObjectResponse

_ANSWERS: dict[type, Callable[[Any, str], Sequence[Any]]] = {
    FetchObject: lambda fetch, reason: [ObjectResponse(fetch.object_id, LOST, (), reason=reason)],
    InfoRequested: lambda asked, reason: [InfoResponse(each.number, 0, 0, 0, 0, reason) for each in asked.requests],
    RequestJob: lambda asked, reason: [JobResponse(asked.request.number, JobAnswerKind.REFUSED, reason=reason)],
    OutputRequested: lambda asked, _reason: [OutputResponse(each.number, 0) for each in asked.requests],
    ShutdownRequested: lambda _asked, reason: [ClientShutdownResponse(0, reason)],
}


def answers_to(message: Any, reason: str) -> Sequence[Any]:
    """Return the items that report to a peer why its request was refused; empty if the protocol has no answer."""
    answer = _ANSWERS.get(type(message))
    return () if answer is None else answer(message, reason)
