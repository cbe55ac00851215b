"""Outputs: messages of worker proxies and client sessions about the output of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scaler.message import message

if TYPE_CHECKING:
    from scaler.actors.vocabulary.peer import Peer
    from scaler.kit import ActorRef
    from scaler.wire.messages.client import OutputRequest, Task
    from scaler.wire.messages.worker import RunOutput


@message
class RunsPrinted:
    """worker proxy -> outputs: tasks have written these lines, each with its task and the client's account."""

    worker: str
    lines: Sequence[tuple[RunOutput, Task, int]]
    host: ActorRef
    """the session of the agent whose worker ran the tasks"""


@message
class OutputRequested:
    """client session -> outputs: a client requests the output of tasks.

    Attributes:
        accounts: the accounts whose output the client may see; None: all.
        stream_of: the account whose output the client may stream; None for a client inside a task.
    """

    peer: Peer
    requests: Sequence[OutputRequest]
    accounts: frozenset[int] | None
    stream_of: int | None
