"""Mail about the life of actors. It travels in the urgent lane, ahead of all work.

Written by the dispatcher (when an actor fails or stops) and read by that actor's parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaler.message import message

if TYPE_CHECKING:
    from scaler.kit.actor import ActorRef


@message
class ChildFailed:
    """A child raised: it handles no more mail until its parent decides."""

    child: ActorRef
    error: BaseException


@message
class ChildStopped:
    """A supervised child ended in good order."""

    child: ActorRef


@message
class MessageRefused:
    """dispatcher -> sender: a shared actor could not handle this message of yours, and has dropped it."""

    message: Any
    error: Exception


class ExplainedError(RuntimeError):
    """An actor cannot go on, and its code is not to blame. The sentence says all, so the log has no traceback."""


class UnknownMessageError(TypeError):
    """An actor got a message it has no handler for: a bug of the sender, and a failure of the receiver."""


class ActorStoppedError(RuntimeError):
    """Something was asked of an actor or a dispatcher that has ended."""
