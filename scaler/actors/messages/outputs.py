"""What worker proxies and client sessions tell the room for the output of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scaler.message import message

if TYPE_CHECKING:
    from scaler.actors.peers.peer import Peer
    from scaler.kit import ActorRef
    from scaler.wire.messages.client import OutputRequest, Task
    from scaler.wire.messages.worker import RunOutput


@message
class RunsPrinted:
    """worker proxy -> outputs: my tasks have written lines: each with its task, and the account of its client."""

    worker: str
    lines: Sequence[tuple[RunOutput, Task, int]]
    host: ActorRef
    """the session of the agent"""


@message
class OutputRequested:
    """client session -> outputs: my client asks what tasks have written.

    It may see tasks of `accounts`, None: of all, and has a stream of the tasks of the account `stream_of`; None: none,
    because it is inside a task.
    """

    peer: Peer
    requests: Sequence[OutputRequest]
    accounts: frozenset[int] | None
    stream_of: int | None
